"""What algorithms that train a team share: keys, and nets that act for one agent at a time, as plain data.

A row with ``team`` sees several agents as one (``envs.multi_agent.team``); used by ``qmix``, ``mappo`` and ``maddpg``.
Light, as these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, key
from drl_cli.config.sections.rollout import WorkerKeys

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.nets import Layer, NetSpec
    from drl_cli.policies.team_spec import TeamSpec

ACTIONS = ("MultiDiscrete",)
OBSERVATIONS = ("Box1d",)


class TeamKeys(Section):
    """How the agents of a team act."""

    share_weights: bool = key(
        True,
        "Whether all agents act with the same weights, which learn from what each of them sees; false: each has its own.",
    )

    @model_validator(mode="after")
    def _sees_the_parts_of_a_team(self) -> Self:
        if isinstance(self, WorkerKeys) and self.observation_filter != "NoFilter":
            raise MisfitError(
                "observation_filter",
                f"{self.observation_filter} would change who is alive and what is allowed, which a team's observations say; "
                "set it to NoFilter",
            )
        return self


def team_net(config: CommonKeys, spaces: EnvSpec, share: bool) -> tuple[TeamSpec, dict[str, Any], dict[str, Any]]:
    """Return (the team of ``spaces``, keywords of PolicySpec, keywords of the NetSpec that acts for one agent).

    Raises ConfigError where ``spaces`` are those of one agent.
    """
    from drl_cli.policies import net_builders
    from drl_cli.policies.team_spec import of_one_agent, team_of

    team = team_of(spaces)
    about, _ = net_builders.observation(config, spaces)
    _, seen = net_builders.observation(config, of_one_agent(spaces, team))
    return team, {**about, "team": team}, {**seen, "copies": 1 if share else team.count}


def central_net(name: str, acting: NetSpec, team: TeamSpec, layers: tuple[Layer, ...]) -> NetSpec:
    """Return the NetSpec of a value of the state for each agent: it sees the state, then what the agent observes."""
    from drl_cli.policies.policy_spec import VALUE_HEAD, NetSpec

    inputs = (("state", team.state[1]), *acting.inputs)
    return NetSpec(name, inputs, layers, (VALUE_HEAD,), copies=acting.copies)
