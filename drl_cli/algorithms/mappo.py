"""MAPPO: its keys, its nets, its row; PPO of a team with a central value. The update is ``mappo_graph``.

Source: Yu et al. 2022, "The Surprising Effectiveness of PPO in Cooperative Multi-Agent Games" (arXiv 2103.01955). RLlib has no
such algorithm; the keys are those of its PPO and what the paper adds.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from pydantic import model_validator

from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.row import Algorithm, Nets
from drl_cli.algorithms.row import no_targets as target_updates
from drl_cli.algorithms.team_nets import OBSERVATIONS, TeamKeys, central_net, team_net
from drl_cli.config.schema import MisfitError, key

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec

_REFUSED = {
    "vf_share_layers": "true fits no central value: it sees more than the agents do",
    "use_sde": "true is for one agent",
    "reward_scaling": "true scales the reward of the team, not those of its agents; value_normalization does what it is for",
    "clip_rewards": "it limits the reward of the team, not those of its agents; do it in a wrapper",
}


class MAPPOConfig(TeamKeys, PPOConfig):
    """Multi-agent PPO: each agent's own ratio and advantage, a value that sees the state, and PPO's passes over each batch.

    ``sgd_minibatch_size`` counts steps of agents, ``train_batch_size`` env steps.
    """

    takes_scaled_rewards: ClassVar[bool] = False

    value_normalization: bool = key(
        True, "Learn values in units of the running mean and deviation of their targets, whatever the size of returns."
    )
    death_masking: bool = key(
        True,
        "Agents that are gone count nothing: no loss, no value after their end, and the value sees zeros in the place of the "
        "state for them. false: they go on as the others do.",
    )
    shared_reward: bool = key(
        False, "Learn every agent's advantage from the reward of the team instead of its own reward."
    )

    @model_validator(mode="after")
    def _fits_a_team(self) -> MAPPOConfig:
        for name, reason in _REFUSED.items():
            if getattr(self, name):
                raise MisfitError(name, f"{reason}. Leave it out")
        if self.model.use_lstm:
            raise MisfitError("model.use_lstm", "true: the agents of MAPPO have no memory here; leave it out")
        if self.model.custom_action_dist is not None:
            raise MisfitError(
                "model.custom_action_dist", "MAPPO draws a team's actions from the built-in ones; leave it out"
            )
        if not self.use_critic:
            raise MisfitError("use_critic", "false leaves nothing of MAPPO, whose point is a central value; take PPO")
        return self


def policy_spec(config: MAPPOConfig, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for a team's ``spaces`` (see ``envs.make.describe``): net "policy", and "value" that judges."""
    from drl_cli.policies import net_builders
    from drl_cli.policies.policy_spec import NetSpec, PolicySpec

    team, about, seen = team_net(config, spaces, config.share_weights)
    action, size = net_builders.action(config, spaces), team.widest
    is_box = action.kind == "Box"
    acting = NetSpec(
        name="policy",
        layers=net_builders.layers(config.model),
        heads=(("mean", size), ("log_std", size)) if is_box else (("logits", size),),
        free_heads=("log_std",) if is_box and config.model.free_log_std else (),
        **seen,
    )
    value = central_net("value", acting, team, net_builders.layers(config.model))
    distribution = "gaussian" if is_box else "multi_categorical"
    return PolicySpec(
        (acting, value), distribution, action=action, scored=True, log_std_min=config.model.log_std_min, **about
    )


def initial_weights(config: MAPPOConfig, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of both nets, orthogonal, drawn from ``seed`` alone."""
    import numpy as np

    from drl_cli.policies.nets import orthogonal_weights
    from drl_cli.randomness import generator

    rng, log_std, found = generator(seed, "init"), config.model.log_std_init, {}
    for net in spec.nets:
        each = [orthogonal_weights(dataclasses.replace(net, copies=1), rng, log_std) for _ in range(net.copies)]
        found |= {name: np.stack([one[name] for one in each]) if net.copies > 1 else each[0][name] for name in each[0]}
    return found


MAPPO = Algorithm(
    name="MAPPO",
    config=MAPPOConfig,
    nets=Nets(policy_spec, initial_weights, target_updates),
    graph="drl_cli.algorithms.mappo_graph",
    postprocess="trajectory",
    loop="sync",
    actions=("Box", "MultiDiscrete"),
    observations=OBSERVATIONS,
    team=True,
    sees_team_state=True,
)
