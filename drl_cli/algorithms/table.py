"""The algorithms by name: where the row of each stands, and what runs in place of RLlib's others.

``ROWS`` is all that help, completion and a misspelt name need; a row is imported when it is used, with the schema of
its keys, but without NumPy or TensorFlow. Names are RLlib's. Rows of others (``algorithms.custom_algorithms``) follow them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drl_cli import plugins
from drl_cli.algorithms.row import Algorithm
from drl_cli.errors import InputError, suggestion
from drl_cli.extras import load

ROWS = {
    "SAC": "drl_cli.algorithms.sac:SAC",
    "RNNSAC": "drl_cli.algorithms.rnnsac:RNNSAC",
    "TQC": "drl_cli.algorithms.tqc:TQC",
    "CROSSQ": "drl_cli.algorithms.crossq:CROSSQ",
    "XQC": "drl_cli.algorithms.xqc:XQC",
    "TD3": "drl_cli.algorithms.ddpg:TD3",
    "RNNTD3": "drl_cli.algorithms.rnntd3:RNNTD3",
    "DDPG": "drl_cli.algorithms.ddpg:DDPG",
    "APEX_DDPG": "drl_cli.algorithms.ddpg:APEX_DDPG",
    "DQN": "drl_cli.algorithms.dqn:DQN",
    "QRDQN": "drl_cli.algorithms.dqn:QRDQN",
    "SimpleQ": "drl_cli.algorithms.dqn:SimpleQ",
    "APEX": "drl_cli.algorithms.dqn:APEX",
    "R2D2": "drl_cli.algorithms.r2d2:R2D2",
    "CQL": "drl_cli.algorithms.cql:CQL",
    "IQL": "drl_cli.algorithms.iql:IQL",
    "TD3BC": "drl_cli.algorithms.td3bc:TD3BC",
    "VDN": "drl_cli.algorithms.qmix:VDN",
    "QMIX": "drl_cli.algorithms.qmix:QMIX",
    "MADDPG": "drl_cli.algorithms.maddpg:MADDPG",
    "PG": "drl_cli.algorithms.a2c:PG",
    "A2C": "drl_cli.algorithms.a2c:A2C",
    "A3C": "drl_cli.algorithms.a3c:A3C",
    "PPO": "drl_cli.algorithms.ppo:PPO",
    "DDPPO": "drl_cli.algorithms.ddppo:DDPPO",
    "MAPPO": "drl_cli.algorithms.mappo:MAPPO",
    "TRPO": "drl_cli.algorithms.trpo:TRPO",
    "IMPALA": "drl_cli.algorithms.impala:IMPALA",
    "APPO": "drl_cli.algorithms.impala:APPO",
    "PQN": "drl_cli.algorithms.pqn:PQN",
    "MARWIL": "drl_cli.algorithms.marwil:MARWIL",
    "BC": "drl_cli.algorithms.marwil:BC",
    "ES": "drl_cli.algorithms.es:ES",
    "ARS": "drl_cli.algorithms.es:ARS",
}
"""Name of an algorithm → its row, by the dotted name of what ``row.Algorithm`` describes."""

_ARMS = "it is for bandits, whose episodes are one step"
_TREES = "it plans with an environment that can be reset to any state"

NOT_BUILT = {
    "AlphaStar": ("APPO", "which learns from many workers", "it trains a league of agents by self-play"),
    "CRR": (
        "IQL",
        "which also weights recorded actions by a critic",
        "another offline algorithm",
    ),
    "DT": ("MARWIL", "from recorded experience too", "it models recorded episodes as sequences, with a transformer"),
    "DREAMER": ("SAC", "on images too", "it plans with a learnt world model"),
    "DREAMERV3": ("SAC", "on images too", "it plans with a learnt world model"),
    "MAML": ("PPO", "on one task", "it is a meta-learning algorithm, for many tasks"),
    "MBMPO": (
        "CROSSQ",
        "which needs few env steps",
        "it is model-based: it learns a model of the environment and a policy in it",
    ),
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
        "its components are keys of DQN",
    ),
    "RandomAgent": ("SAC", "with exploration_config: {type: Random}", "nothing learns in it"),
}
"""RLlib's other algorithms: the nearest that runs here, when or how, and why they do not; names without "contrib/"."""


class Rows:
    """The rows of all algorithms that this process knows: those of the table, then registered ones.

    Each is imported when the loop over them arrives at it: a run that has no need for advice loads one.
    """

    def __iter__(self) -> Iterator[Algorithm]:
        """Yield every row."""
        for name in ROWS:
            yield _own(name)
        yield from plugins.ALGORITHMS.known().values()


class Fitting(Mapping[str, str]):
    """{kind of space: the names of the algorithms that take it, as a string}, for the kinds that the rows name.

    Without those that train a team, or with ``team`` only those: no kind of space makes a team. Made when it is read, as that
    imports every row.
    """

    def __init__(self, team: bool = False) -> None:
        self._team = team

    def __getitem__(self, kind: str) -> str:
        """Return the names, in the order of the table."""
        found = ", ".join(
            row.name for row in rows() if row.team is self._team and kind in row.actions + row.observations
        )
        if not found:
            raise KeyError(kind)
        return found

    def __iter__(self) -> Iterator[str]:
        """Yield the kinds."""
        return iter(dict.fromkeys(kind for row in rows() for kind in row.actions + row.observations))

    def __len__(self) -> int:
        """Return how many kinds there are."""
        return len(list(iter(self)))


def rows() -> Rows:
    """Return the rows of all algorithms that this process knows, as often as they are wanted."""
    return Rows()


def built_in() -> tuple[Algorithm, ...]:
    """Return the rows of the table, without registered ones."""
    return tuple(_own(name) for name in ROWS)


def names() -> tuple[str, ...]:
    """Return the names that ``--run`` takes, those of installed packages included."""
    plugins.discover()
    return (*ROWS, *(row.name for row in plugins.ALGORITHMS.known().values()))


def learns_from_replay(row: Algorithm) -> bool:
    """Whether an algorithm learns from samples of a replay buffer; the others learn from what arrives, as it arrives."""
    return isinstance(row.postprocess, str) and row.postprocess not in ("trajectory", "fitness")


def loop_name(row: Algorithm) -> str:
    """Return the short name of the loop of a row: that of its module, or of the object."""
    loop = row.loop if isinstance(row.loop, str) else plugins.name_of(row.loop)
    return loop.rpartition(".")[2]


def fitting(team: bool = False) -> Fitting:
    """Return {kind of space: the names of the algorithms that take it, as a string}, see ``Fitting``."""
    return Fitting(team)


def find(name: str) -> Algorithm:
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


def spelt(name: str) -> str:
    """Return a name without what may differ in how it is typed."""
    return str(name).casefold().translate(dict.fromkeys(map(ord, "-_+")))


def _named(name: str) -> Algorithm | None:
    own = next((known for known in ROWS if spelt(known) == spelt(name)), None)
    if own is not None:
        return _own(own)
    return next((row for row in plugins.ALGORITHMS.known().values() if spelt(row.name) == spelt(name)), None)


def _own(name: str) -> Algorithm:
    return load(ROWS[name])
