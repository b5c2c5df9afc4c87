"""Keys of learning from a replay buffer: its size, how it draws, when learning starts, how many updates per env step.

Mixed into the config of every algorithm with the replay loop; ``BufferKeys`` alone where whole returns are learnt from.
Names and meanings are RLlib's (SAC/DQN, 1.0.1). Deviation: the annealing of beta, whose keys nothing reads in RLlib since
0.8.6, takes place.
"""

from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, key
from drl_cli.config.sections.model import Memory

Beta = Annotated[float, Field(ge=0, le=1)]
UPDATES_PER_ENV_STEP = 0.4  # the pace of the measured LunarLanderContinuous runs that reach 200 within a minute


class BufferKeys(Section):
    """The buffer, and the pace between sampling and learning."""

    buffer_size: Whole = key(
        1_000_000,
        "Capacity of the replay buffer in env steps, all shards together; the oldest are overwritten.",
        "env steps",
        ge=1,
        le=1e9,
    )
    learning_starts: Whole = key(
        1500,
        "Warm-up: env steps before the first update, with uniformly random actions. With recorded experience alone, "
        "training starts when the files have been read or the buffer is full.",
        "env steps",
        ge=0,
    )
    train_batch_size: Whole = key(
        128,
        "Transitions per update.",
        "transitions",
        ge=1,
        le=1_000_000,
        rllib=256,
        why="2,027 updates per second on one core instead of 1,245, and small tasks learn as much from each",
    )
    training_intensity: float | None = key(
        None,
        "Replay ratio: transitions trained per env step sampled, enforced in both directions: sampling waits for "
        "learning and learning for sampling. null means 0.4 times train_batch_size, which is 0.4 updates per env "
        "step. With recorded experience alone, this many transitions trained count as one env step.",
        "transitions trained per env step",
        gt=0,
        le=1e6,
        rllib="null: one update per fragment, which with more workers trains less per step",
        why="a ratio that does not depend on the number of workers",
    )
    compress_observations: bool = key(
        False,
        "Whether the replay buffer compresses observations with LZ4, each separately: images take a fraction of the "
        "memory and some microseconds more to sample; short vectors only become larger.",
    )
    store_buffer_in_checkpoints: bool = key(
        True,
        "Whether the newest checkpoint includes the replay buffer, so that a resumed run continues as if it had not "
        "stopped.",
        rllib=False,
        why="a run that resumes with an empty replay buffer loses performance and has to recover",
    )
    num_replay_shards: Whole = key(
        0,
        "Shards of the replay buffer: 0 keeps it in the run's own process; with workers, 1 or more are Ray actors "
        "with an equal share of buffer_size each.",
        "shards",
        ge=0,
        le=64,
    )
    custom_resources_for_replay: dict[str, Annotated[float, Field(gt=0)]] = key(
        {},
        "Custom Ray resources that each shard of the replay requests: it is placed on a node that has them, instead of "
        "the run's own node.",
        "amount by resource name",
        allowed="a mapping of names to numbers > 0",
        needs=("num_replay_shards", 1),
    )
    memory_for_replay: Whole = key(
        0,
        "Memory that must be free, by Ray's accounting, on the node where a shard of the replay is placed, instead of "
        "the run's own node; 0 requests none. It is not a limit.",
        "bytes",
        needs=("num_replay_shards", 1),
        ge=0,
    )
    updates_per_call: Whole = key(50, "Maximum number of updates in one session call.", "updates", ge=1, le=10_000)
    publish_every: Whole = key(
        50, "Updates between two pushes of weights to the workers.", "updates", ge=1, le=1_000_000
    )


class ReplayKeys(BufferKeys):
    """What is drawn from the buffer: windows of a few steps, uniformly or by priority."""

    n_step: Whole = key(
        3,
        "n-step returns: rewards summed before bootstrapping from the value of the following state. Above 1, what older "
        "policies did in the steps between counts, which can keep a policy below the best return; 1 avoids that.",
        "env steps",
        ge=1,
        le=1000,
        rllib=1,
        why="with 1-step returns SAC hovered on LunarLander past 150 s; with 3 it lands within 60",
    )
    prioritized_replay: bool = key(
        False, "Whether transitions are sampled in proportion to their TD error, with importance weights."
    )
    prioritized_replay_alpha: float = key(
        0.6, "Exponent of the priorities: 0 samples uniformly, 1 in proportion to the TD error.", ge=0, le=1
    )
    prioritized_replay_beta: Beta = key(
        0.4,
        "Initial exponent of the importance weights: 0 applies no correction, 1 corrects in full.",
        allowed="a number in [0, 1]",
    )
    final_prioritized_replay_beta: Beta = key(
        0.4,
        "Exponent of the importance weights after prioritized_replay_beta_annealing_timesteps.",
        allowed="a number in [0, 1]",
    )
    prioritized_replay_beta_annealing_timesteps: Whole = key(
        20_000,
        "Env steps over which the exponent is annealed from prioritized_replay_beta to final_prioritized_replay_beta.",
        "env steps",
        ge=1,
    )
    prioritized_replay_eps: float = key(
        1e-6, "Added to every priority, so that transitions without error are still sampled occasionally.", gt=0, le=1e6
    )
    worker_side_prioritization: bool = key(
        False,
        "Whether workers compute the initial priorities of their steps; otherwise a new step has the largest "
        "priority so far.",
    )
    hindsight_goals: Whole = key(
        0,
        "Hindsight experience replay: for each transition drawn as it was recorded, how many are drawn with a goal that was "
        "achieved later in their episode, and the reward that it brings; 0: none, 4 is usual. For environments with "
        "achieved_goal and desired_goal in a Dict observation and a method compute_reward, as those of gymnasium-robotics.",
        "transitions",
        ge=0,
        le=100,
    )
    hindsight_strategy: Literal["future", "final"] = key(
        "future",
        "Which goal that is: one achieved later in the episode, drawn uniformly, or the one achieved at its end.",
        needs=("hindsight_goals", 1),
    )

    @model_validator(mode="after")
    def _has_use_for_priorities(self) -> Self:
        """Refuse priorities that no draw would use."""
        if self.worker_side_prioritization and not self.prioritized_replay:
            raise ValueError("worker_side_prioritization true needs prioritized_replay true")
        return self

    @model_validator(mode="after")
    def _draws_goals_for_transitions(self) -> Self:
        """Refuse other goals for what is drawn in sequences."""
        if self.hindsight_goals and isinstance(self, SequenceReplay) and self.model.use_lstm:
            raise MisfitError(
                "hindsight_goals", f"{self.hindsight_goals} is for transitions; an LSTM learns from sequences"
            )
        return self


class ReplayRatio(Protocol):
    """A config with ``BufferKeys``."""

    @property
    def training_intensity(self) -> float | None: ...

    @property
    def train_batch_size(self) -> int: ...


class ShardedReplay(Protocol):
    """A config with ``BufferKeys`` and ``WorkerKeys``."""

    @property
    def num_replay_shards(self) -> int: ...

    @property
    def num_workers(self) -> int: ...


@runtime_checkable
class SequenceReplay(Protocol):
    """A config whose replay draws sequences where its network ends in an LSTM."""

    burn_in: int
    n_step: int
    replay_sequence_length: int | None
    zero_init_states: bool
    model: Memory


class SequenceKeys(Section):
    """Keys of a replay that draws sequences for an LSTM, where ``model.use_lstm`` says that there is one."""

    burn_in: Whole = key(
        0,
        "Steps before the trained ones that refresh the stored LSTM state with the current weights; fewer if the "
        "episode started later.",
        "env steps",
        ge=0,
        le=1000,
    )
    replay_sequence_length: Annotated[Whole, Field(ge=1, le=2000)] | None = key(
        None,
        "Steps of a sequence, including those of burn_in; null: burn_in + model.max_seq_len.",
        "env steps",
        "null or a whole number in [1, 2000], more than burn_in",
    )
    zero_init_states: bool = key(
        False,
        "Whether sequences start with a zero LSTM state instead of the state stored at sampling.",
        rllib=True,
        why="the paper's comparison, and CartPole without velocities, favour stored states",
    )
    prioritized_replay_eta: float = key(
        0.9,
        "Weight eta of the largest TD error in a sequence's priority; the mean has weight 1 - eta.",
        "share",
        needs=("prioritized_replay", 1),
        ge=0,
        le=1,
    )

    @model_validator(mode="after")
    def _sequence_is_as_long_as_its_parts(self) -> Self:
        whole = self.replay_sequence_length
        if whole is not None and whole <= self.burn_in:
            raise MisfitError("replay_sequence_length", f"{whole} is not more than burn_in {self.burn_in}")
        if not isinstance(self, SequenceReplay):
            raise TypeError("keys of sequences without a network that may be recurrent")
        both = whole is not None and "max_seq_len" in self.model.model_fields_set
        if both and whole != self.burn_in + self.model.max_seq_len:
            raise MisfitError(
                "replay_sequence_length",
                f"{whole} is not burn_in {self.burn_in} + model.max_seq_len {self.model.max_seq_len}; give one of the two",
            )
        return self


def intensity(config: ReplayRatio) -> float:
    """Return the transitions to train per env step sampled: ``training_intensity`` with its null resolved."""
    if config.training_intensity is not None:
        return config.training_intensity
    return UPDATES_PER_ENV_STEP * config.train_batch_size


def shards(config: ShardedReplay) -> int:
    """Return the parts that the replay is held in: no more than there are workers, since a worker's steps go to one."""
    return max(1, min(config.num_replay_shards, config.num_workers))


def replay_resources(config: BufferKeys) -> dict[str, float]:
    """Return {resource: amount} by which each shard of the replay is placed, {} where it stays on the run's node."""
    memory = {"memory": float(config.memory_for_replay)} if config.memory_for_replay else {}
    return {**config.custom_resources_for_replay, **memory}


def relabels_goals(config: Section) -> bool:
    """Return whether goals are replaced by those achieved."""
    return isinstance(config, ReplayKeys) and config.hindsight_goals > 0


def is_prioritized(config: Section) -> bool:
    """Return whether the replay draws by priority."""
    return isinstance(config, ReplayKeys) and config.prioritized_replay


def learns_returns(config: Section) -> bool:
    """Return whether whole returns are learnt from, up to the end of each episode, instead of n-step ones."""
    return not isinstance(config, ReplayKeys)


def learnt_steps(config: Section) -> int:
    """Return the steps of a drawn sequence that are learnt from: 1 where transitions are drawn."""
    if not isinstance(config, SequenceReplay) or not config.model.use_lstm:
        return 1
    whole = config.replay_sequence_length
    return config.model.max_seq_len if whole is None else whole - config.burn_in


def span(config: Section) -> int:
    """Return the env steps of one environment that a draw reaches over, up to the observation after the last.

    1 where whole returns are drawn, which reach as far as their episodes do.
    """
    if not isinstance(config, ReplayKeys):
        return 1
    burn_in = config.burn_in if isinstance(config, SequenceReplay) and config.model.use_lstm else 0
    return burn_in + learnt_steps(config) + config.n_step - 1
