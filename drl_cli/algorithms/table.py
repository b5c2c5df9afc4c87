"""The algorithms that run here, one row each: which schema, nets, graph, postprocessing and loop, and which spaces fit.

Light: names dotted paths, imports none of them. Read by ``experiment`` (schema, spaces), ``runtime`` (nets, graph, loop) and
``cli``. Names are RLlib's. Rows of others (``algorithms.custom_algorithms``) may hold the objects themselves.
"""

from typing import NamedTuple

from drl_cli import plugins
from drl_cli.errors import InputError, suggestion


class Algorithm(NamedTuple):
    """A row: ``actions`` and ``observations`` name kinds of spaces as ``envs.make.describe`` does.

    ``config``, ``nets``, ``graph``, ``loop``, ``learner`` and ``worker`` are dotted names, or what these would name.
    """

    name: str
    config: str  # the schema of its keys, a subclass of ``config.schema.Section``
    nets: str  # the nets as plain data: policy_spec, initial_weights, target_updates
    graph: str  # a module with build(config, spec, initial, seed, scope), or that function
    postprocess: str  # a name of ``POSTPROCESS``, or what is to be made of a batch of trajectories, see ``registering``
    loop: str  # a name of ``LOOPS``; ``runtime.loop_kinds`` says which loop, learner and worker that means
    actions: tuple
    observations: tuple
    learner: str = ""  # who learns, where it is not the loop's own
    worker: str = ""  # who samples, where it is not the loop's own
    tensorflow: bool = True  # whether it learns with TensorFlow
    reads: bool = False  # whether it learns from files: steps that it takes itself cannot be all that it has


POSTPROCESS = ("n_step", "monte_carlo", "sequences", "trajectory", "fitness")
"""What happens to experience before it is learnt from; the first three are drawn from a replay."""

_REPLAY = {
    "postprocess": "n_step",
    "loop": "replay",
    "observations": ("Box1d", "Image"),
}
"""What the algorithms that learn from a replay have in common."""

_RECORDED = _REPLAY | {"reads": True}
"""What those have in common that learn from a replay of what files hold."""

_IMITATION = {
    "nets": "drl_cli.algorithms.marwil_nets",
    "postprocess": "monte_carlo",
    "loop": "replay",
    "actions": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "observations": ("Box1d", "Image"),
    "reads": True,
}
"""What those have in common that imitate what files hold."""

_ON_POLICY = {
    "nets": "drl_cli.algorithms.actor_critic_nets",
    "postprocess": "trajectory",
    "loop": "sync",
    "actions": ("Box", "Discrete", "MultiDiscrete", "MultiBinary"),
    "observations": ("Box1d", "Image"),
}
"""What the algorithms have in common that learn from trajectories of their newest policy."""

_STREAM = _ON_POLICY | {"loop": "stream"}
"""What those have in common that learn from trajectories of mixed versions, as they come."""

_GRADIENTS = _ON_POLICY | {"loop": "gradients"}
"""What those have in common whose workers compute gradients."""

_EVOLUTION = {
    "nets": "drl_cli.evolution.net",
    "postprocess": "fitness",
    "loop": "evolution",
    "actions": ("Box", "Discrete"),
    "observations": ("Box1d",),
    "tensorflow": False,
}
"""What those have in common that try weights; their graph is an update in NumPy."""

LOOPS = ("replay", "sync", "stream", "gradients", "evolution")
"""Who waits for whom, by the short names that rows give; ``runtime.loop_kinds`` has the loops."""

ALGORITHMS = (
    Algorithm(
        name="SAC",
        config="drl_cli.algorithms.sac:SACConfig",
        nets="drl_cli.algorithms.sac_nets",
        graph="drl_cli.algorithms.sac_graph",
        actions=("Box", "Discrete"),
        **_REPLAY,
    ),
    Algorithm(
        name="TQC",
        config="drl_cli.algorithms.tqc:TQCConfig",
        nets="drl_cli.algorithms.tqc_nets",
        graph="drl_cli.algorithms.tqc_graph",
        actions=("Box",),
        **_REPLAY,
    ),
    Algorithm(
        name="CROSSQ",
        config="drl_cli.algorithms.crossq:CrossQConfig",
        nets="drl_cli.algorithms.crossq_nets",
        graph="drl_cli.algorithms.crossq_graph",
        actions=("Box",),
        **_REPLAY,
    ),
    Algorithm(
        name="TD3",
        config="drl_cli.algorithms.ddpg:TD3Config",
        nets="drl_cli.algorithms.ddpg_nets",
        graph="drl_cli.algorithms.ddpg_graph",
        actions=("Box",),
        **_REPLAY,
    ),
    Algorithm(
        name="DDPG",
        config="drl_cli.algorithms.ddpg:DDPGConfig",
        nets="drl_cli.algorithms.ddpg_nets",
        graph="drl_cli.algorithms.ddpg_graph",
        actions=("Box",),
        **_REPLAY,
    ),
    Algorithm(
        name="APEX_DDPG",
        config="drl_cli.algorithms.ddpg:ApexDDPGConfig",
        nets="drl_cli.algorithms.ddpg_nets",
        graph="drl_cli.algorithms.ddpg_graph",
        actions=("Box",),
        **_REPLAY,
    ),
    Algorithm(
        name="DQN",
        config="drl_cli.algorithms.dqn:DQNConfig",
        nets="drl_cli.algorithms.dqn_nets",
        graph="drl_cli.algorithms.dqn_graph",
        actions=("Discrete",),
        **_REPLAY,
    ),
    Algorithm(
        name="QRDQN",
        config="drl_cli.algorithms.dqn:QRDQNConfig",
        nets="drl_cli.algorithms.dqn_nets",
        graph="drl_cli.algorithms.dqn_graph",
        actions=("Discrete",),
        **_REPLAY,
    ),
    Algorithm(
        name="SimpleQ",
        config="drl_cli.algorithms.dqn:SimpleQConfig",
        nets="drl_cli.algorithms.dqn_nets",
        graph="drl_cli.algorithms.dqn_graph",
        actions=("Discrete",),
        **_REPLAY,
    ),
    Algorithm(
        name="APEX",
        config="drl_cli.algorithms.dqn:ApexConfig",
        nets="drl_cli.algorithms.dqn_nets",
        graph="drl_cli.algorithms.dqn_graph",
        actions=("Discrete",),
        **_REPLAY,
    ),
    Algorithm(
        name="R2D2",
        config="drl_cli.algorithms.r2d2:R2D2Config",
        nets="drl_cli.algorithms.r2d2_nets",
        graph="drl_cli.algorithms.r2d2_graph",
        actions=("Discrete",),
        **(_REPLAY | {"postprocess": "sequences"}),
    ),
    Algorithm(
        name="CQL",
        config="drl_cli.algorithms.cql:CQLConfig",
        nets="drl_cli.algorithms.sac_nets",
        graph="drl_cli.algorithms.cql_graph",
        actions=("Box", "Discrete"),
        **_RECORDED,
    ),
    Algorithm(
        name="IQL",
        config="drl_cli.algorithms.iql:IQLConfig",
        nets="drl_cli.algorithms.iql_nets",
        graph="drl_cli.algorithms.iql_graph",
        actions=("Box", "Discrete"),
        **_RECORDED,
    ),
    Algorithm(
        name="TD3BC",
        config="drl_cli.algorithms.td3bc:TD3BCConfig",
        nets="drl_cli.algorithms.ddpg_nets",
        graph="drl_cli.algorithms.td3bc_graph",
        actions=("Box",),
        **_RECORDED,
    ),
    Algorithm(name="PG", config="drl_cli.algorithms.pg:PGConfig", graph="drl_cli.algorithms.a2c_graph", **_ON_POLICY),
    Algorithm(
        name="A2C", config="drl_cli.algorithms.a2c:A2CConfig", graph="drl_cli.algorithms.a2c_graph", **_ON_POLICY
    ),
    Algorithm(
        name="A3C", config="drl_cli.algorithms.a3c:A3CConfig", graph="drl_cli.algorithms.a3c_graph", **_GRADIENTS
    ),
    Algorithm(
        name="PPO", config="drl_cli.algorithms.ppo:PPOConfig", graph="drl_cli.algorithms.ppo_graph", **_ON_POLICY
    ),
    Algorithm(
        name="TRPO", config="drl_cli.algorithms.trpo:TRPOConfig", graph="drl_cli.algorithms.trpo_graph", **_ON_POLICY
    ),
    Algorithm(
        name="IMPALA",
        config="drl_cli.algorithms.impala:IMPALAConfig",
        graph="drl_cli.algorithms.impala_graph",
        **_STREAM,
    ),
    Algorithm(
        name="APPO",
        config="drl_cli.algorithms.impala:APPOConfig",
        graph="drl_cli.algorithms.appo_graph",
        **(_STREAM | {"nets": "drl_cli.algorithms.appo_nets"}),
    ),
    Algorithm(
        name="MARWIL",
        config="drl_cli.algorithms.marwil:MARWILConfig",
        graph="drl_cli.algorithms.marwil_graph",
        **_IMITATION,
    ),
    Algorithm(
        name="BC", config="drl_cli.algorithms.marwil:BCConfig", graph="drl_cli.algorithms.marwil_graph", **_IMITATION
    ),
    Algorithm(name="ES", config="drl_cli.evolution.keys:ESConfig", graph="drl_cli.evolution.es_update", **_EVOLUTION),
    Algorithm(
        name="ARS", config="drl_cli.evolution.keys:ARSConfig", graph="drl_cli.evolution.ars_update", **_EVOLUTION
    ),
)

_SEVERAL = "it trains several agents, and an environment has one agent here"
_ARMS = "it is for bandits, whose episodes are one step"
_TREES = "it plans with an environment that can be set back to any state"

NOT_BUILT = {
    "QMIX": ("DQN", "on Discrete actions", _SEVERAL),
    "MADDPG": ("TD3", "on Box actions", _SEVERAL),
    "AlphaStar": ("APPO", "which learns from many workers", "it trains a league of agents that play one another"),
    "DDPPO": ("PPO", "with num_workers", "its workers learn without a learner; here one learns from all workers"),
    "RNNSAC": ("PPO", "with model: {use_lstm: true}; on Discrete actions R2D2 too", "SAC has no memory here"),
    "CRR": (
        "IQL",
        "which weighs recorded actions by a critic too",
        "another way to learn from recorded experience alone",
    ),
    "DT": ("MARWIL", "from recorded experience too", "it models recorded episodes as sequences, with a transformer"),
    "DREAMER": ("SAC", "on images too", "it plans with a model of the world that it learns"),
    "DREAMERV3": ("SAC", "on images too", "it plans with a model of the world that it learns"),
    "MAML": ("PPO", "on one task", "it learns to learn, from many tasks"),
    "MBMPO": ("CROSSQ", "which needs few env steps", "it learns models of the environment, and policies in them"),
    "SlateQ": ("DQN", "for one choice at a time", "it recommends lists of items to modelled users"),
    "BanditLinTS": ("DQN", "with gamma: 0", _ARMS),
    "BanditLinUCB": ("DQN", "with gamma: 0", _ARMS),
    "LinTS": ("DQN", "with gamma: 0", _ARMS),
    "LinUCB": ("DQN", "with gamma: 0", _ARMS),
    "AlphaZero": ("PPO", "which takes masks of allowed actions", _TREES),
    "LeelaChessZero": ("PPO", "which takes masks of allowed actions", _TREES),
    "Rainbow": (
        "DQN",
        "with noisy: true, num_atoms: 51, v_min and v_max, as in -f cartpole-dqn-rainbow",
        "its parts are keys of DQN",
    ),
    "RandomAgent": ("SAC", "with exploration_config: {type: Random}", "nothing learns in it"),
}
"""RLlib's other algorithms: the nearest that runs here, when or how, and why they do not; names without "contrib/"."""


def rows():
    """Return the rows of all algorithms that this process knows: those above, then registered ones."""
    return (*ALGORITHMS, *plugins.ALGORITHMS.known().values())


def names():
    """Return the names that ``--run`` takes, those of installed packages included."""
    plugins.discover()
    return tuple(row.name for row in rows())


def learns_from_replay(row):
    """Whether an algorithm learns from what a replay holds; the others learn from what comes, as it comes."""
    return isinstance(row.postprocess, str) and row.postprocess not in ("trajectory", "fitness")


def loop_name(row):
    """Return the short name of the loop of a row: that of its module, or of the object."""
    loop = row.loop if isinstance(row.loop, str) else getattr(row.loop, "__name__", type(row.loop).__name__)
    return loop.rpartition(".")[2]


def fitting():
    """Return {kind of space: the names of the algorithms that take it, as text} for the kinds that the rows name."""
    kinds = dict.fromkeys(kind for row in rows() for kind in row.actions + row.observations)
    return {kind: ", ".join(r.name for r in rows() if kind in r.actions + r.observations) for kind in kinds}


def find(name):
    """Return the row of the algorithm ``name``, in any case, with or without ``-``, ``_`` and ``+``.

    Raises InputError with the nearest name; of RLlib's other algorithms with why, and what is nearest to them.
    """
    found = _named(name)
    if found is None:
        plugins.discover()
        found = _named(name)
    if found is not None:
        return found
    for known, (instead, when, why) in NOT_BUILT.items():
        if spelt(known) == spelt(name).removeprefix("contrib/"):
            raise InputError(f"{known} does not run here: {why}. The nearest: --run {f'{instead} {when}'.strip()}.")
    hint = suggestion(name, (*names(), *NOT_BUILT)) or f" What runs: {', '.join(names())}."
    broken = "".join(f" {text}" for text in plugins.failures())
    raise InputError(
        f"Unknown algorithm {str(name)[:60]!r}.{hint} One that a module registers needs --import MODULE.{broken}"
    )


def _named(name):
    return next((row for row in rows() if spelt(row.name) == spelt(name)), None)


def spelt(name):
    """Return a name without what may differ in how it is typed."""
    return str(name).casefold().translate(dict.fromkeys(map(ord, "-_+")))
