"""What an algorithm is here: a row that names its keys, its nets, its graph, and the loop that drives them.

A family declares its rows beside its keys (``algorithms.sac.SAC``), ``algorithms.table`` finds them by name, and
``algorithms.custom_algorithms`` takes those of others. Light: imports no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.config.schema import Section
    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.net_builders import ReplayTargets
    from drl_cli.policies.policy_spec import PolicySpec

POSTPROCESS = ("n_step", "monte_carlo", "sequences", "trajectory", "fitness")
"""What happens to experience before it is learnt from; the first three are sampled from a replay buffer."""

LOOPS = ("replay", "sync", "stream", "gradients", "decentralized", "evolution")
"""The names of loops that rows give; ``runtime.loop_kinds`` says which loop, learner and worker each of them means."""

ALL_ACTIONS = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Composite")
"""The kinds of action spaces that there are, as ``envs.make.describe`` names them; a Composite is a Dict or Tuple."""

ALL_OBSERVATIONS = ("Box1d", "Image")
"""The kinds of observations that there are: vectors, and images."""


class Nets(NamedTuple):
    """The nets of an algorithm as plain data, made before TensorFlow is loaded, so that workers start while it loads."""

    policy_spec: Callable[[Any, EnvSpec], PolicySpec]
    """``(config, spaces)``: the policy for ``spaces``, see ``envs.make.describe``."""
    initial_weights: Callable[[Any, PolicySpec, int], dict[str, np.ndarray]]
    """``(config, spec, seed)``: {name: float32 array} of all nets, drawn from ``seed`` alone."""
    target_updates: Callable[[Any, int], int]
    """``(config, updates)``: how often target networks have been updated after ``updates`` updates."""


class Algorithm(NamedTuple):
    """A row: ``actions`` and ``observations`` name kinds of spaces as ``envs.make.describe`` does.

    ``config``, ``nets``, ``graph``, ``loop``, ``learner`` and ``worker`` are dotted names, or what these would name.
    """

    name: str
    config: str | type[Section]  # the schema of its keys
    nets: str | object  # Nets, or a module or an object with these functions
    graph: str | object  # a module with build(config, spec, initial, seed, scope), or that function
    postprocess: str | Callable[..., Mapping[str, Any]]  # a name of POSTPROCESS, or a function of trajectories
    loop: str | object  # a name of LOOPS, or a module or object with ``make``
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    learner: str | object = ""  # the part that learns, where it is not the loop's own
    worker: str | object = ""  # the part that samples, where it is not the loop's own
    tensorflow: bool = True  # whether it learns with TensorFlow
    team: bool = False  # whether it trains several agents that are seen as one (``envs.multi_agent.team``)
    sees_team_state: bool = False  # whether a team's networks see the state beside the observations of its agents
    several: bool = False  # whether it trains policies of several agents, each by the steps of its own agents
    reads: bool = False  # whether it learns from files: it cannot run on env steps of its own alone


def no_targets(config: Any, updates: int) -> int:
    """``target_updates`` of an algorithm without target networks."""
    del config, updates
    return 0


def target_updates(config: ReplayTargets, updates: int) -> int:
    """``target_updates`` of an algorithm whose target networks are updated every so many updates."""
    from drl_cli.policies import net_builders

    return net_builders.target_updates(config, updates)
