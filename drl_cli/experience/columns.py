"""The columns of a fragment and of a replayed batch: every name with its shape, dtype and meaning.

T steps, N environments, B rows; ``obs`` and ``action`` have the spaces' own trailing shapes and dtypes: observations are
float32 vectors or images [H, W, C] of uint8 or float32, actions float32 [A] (Box) or int32 scalars (Discrete). A fragment
holds single frames; a batch holds stacks of them where the policy wants more than one.

Fragment (the result of one ``collect``), in time order:

    obs         [T, N, …]           raw observation before the step
    action      [T, N, …]           the policy's action, in the policy's bounds (normalised or not)
    reward      [T, N]    float32   the environment's reward, clipped if the config says so
    terminated  [T, N]    bool      the episode ended in a terminal state
    truncated   [T, N]    bool      the episode was cut by a time limit or an environment error: bootstrap from end_obs
    end_obs     [E, …]              final observation of each episode that ended here, in the order of (step, env)
    tail_obs    [N, …]              observation after the last step (the next fragment's first)
    cut         [N]       bool      this fragment does not continue the stream of the previous one, but starts an episode
    priority    [T, N]    float32   optional: each step's initial priority, ≥ 0, the |TD error| under the worker's networks
    position    [T, N]    int32     recurrent policies: number of earlier steps in the episode
    state_<i>   [T, N, …] float32   recurrent policies: the state before the step, with the weights that acted

and for algorithms that learn from trajectories:

    logp        [T, N]    float32   log-probability of the action under the behaviour policy
    stack       [N, …, C·frames]    with frame stacks: the stack before the first step
    end_state_<i>  [E, …] float32   recurrent policies: the state for evaluating end_obs
    tail_state_<i> [N, …] float32   the same for tail_obs
    length      [N]       int64     complete episodes: real steps of each environment, followed by zeros

and with several agents, where a stream is one agent in one environment:

    steps       [N]       int64     real steps of each stream, followed by zeros; the stream goes on in the next fragment
                                    unless its last step ends an episode. Absent if all have T

Batch (the input of an update):

    obs, action                     of the first step of the window; obs [B, …, C·frames], the oldest frame first
    reward      [B] float32         Σ γ^i r_i over the k real steps of the window
    discount    [B] float32         γ^k · (1 − terminated)
    next_obs    [B, …]              the observation after the window (never after a reset), stacked like obs

and, with priorities:

    weight      [B] float32         importance weight in (0, 1]
    serial      [B] int64           serial number of the row, for updating its priority

Sequence batch (for recurrent policies): b steps of burn-in, L trained steps, n observations after them, S = b + L + n:

    obs         [B, S, …]           in order, padded with the first observation of the episode before and the last after it
    begins      [B, S]    float32   1 at an episode's first step: the state is reset before it
    state_<i>   [B, …]    float32   the stored state before the first step; absent if sequences start with zeros
    action      [B, L]              of the trained steps
    reward      [B, L]    float32   Σ γ^i r_i over the k real steps from each on, k ≤ n
    discount    [B, L]    float32   γ^k · (1 − terminated)
    ahead       [B, L]    int32     k: offset of the observation to bootstrap from
    mask        [B, L]    float32   1 for steps of the episode, 0 after its end

Trajectory batch (``experience.trajectories``): E rows of T steps, M ends, L steps per sequence. A row holds the steps of one
environment in one fragment; complete episodes are packed end to end into a few rows, each starting at a multiple of L:

    obs, action [E, T, …]           obs as the policy received it, including frame stacks
    reward      [E, T]    float32
    discount    [E, T]    float32   γ · (1 − terminated)
    trace       [E, T]    float32   0 at any episode end and before padding; else 1, also at a fragment's end
    logp        [E, T]    float32   as in the fragments
    mask        [E, T]    float32   1 for real steps, 0 for padding
    end_obs     [M, …]              observations whose values are bootstraps: after the last step of every row, then
                                    after every truncation inside of one (of complete episodes those alone), then
                                    padding; M is E·2, E·4, E·8, …, or at least 64. Of a team after every inner end
    end_at      [M]       int32     e·T + t of the step before each of them; E·T is padding
    begins      [E, T]    float32   of recurrent policies: 1 at an episode's first step
    state_<i>   [E, T/L, …] float32 the stored state before the first step of every sequence, or [E, T, …] before every step
                                    (the previous action and reward: ``PolicySpec.stepwise``)
    end_state_<i>  [M, …] float32   the state with which end_obs is to be looked at
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

FRAGMENT = ("obs", "action", "reward", "terminated", "truncated", "end_obs", "tail_obs", "cut")
BATCH = ("obs", "action", "reward", "discount", "next_obs")
Columns: TypeAlias = dict[str, np.ndarray]
"""The columns of a fragment, by name."""
Batch: TypeAlias = dict[str, np.ndarray]
"""The columns of a batch, of a sequence batch or of a trajectory batch, by name."""


def expect(name: str, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Raise ValueError unless ``arrays`` (of a checkpoint) has ``name`` with exactly this shape and dtype."""
    found = (arrays[name].shape, arrays[name].dtype) if name in arrays else "nothing"
    if found != (shape, dtype):
        raise ValueError(f"replay column {name}: {found}, expected {(shape, dtype)}")


def one_stream(columns: Columns, stream: int, steps: int) -> Columns:
    """Return the first ``steps`` of one ``stream`` of a fragment as a fragment of its own, [steps, 1, …]."""
    here = slice(stream, stream + 1)
    own = {name: columns[name][:steps, here] for name in ("obs", "action", "reward", "terminated", "truncated")}
    owners = np.nonzero(columns["terminated"] | columns["truncated"])[1]
    own |= {name: columns[name][here] for name in ("cut", "tail_obs")}
    return own | {"end_obs": columns["end_obs"][owners == stream]}


def end_to_end(columns: Columns, shape: tuple[int, int]) -> Columns:
    """Return a fragment of streams of different lengths as one of ``shape`` [T, N], which has as many steps, without padding.

    Streams follow one another, and go on in the next column where one is full; one that does not end is truncated there, with
    the observation after its last step, so that its value is bootstrapped. For learning from trajectories: nothing continues
    in another fragment.
    """
    steps, count = shape
    lengths = columns.get("steps", np.full(columns["reward"].shape[1], len(columns["reward"]), np.int64))
    real = np.arange(len(columns["reward"])) < lengths[:, None]  # [streams, rows]
    names = [name for name in columns if not name.startswith(("end_", "tail_")) and name not in ("cut", "steps")]
    line = {name: columns[name].swapaxes(0, 1)[real] for name in names}  # [T·N, …]
    stream = np.repeat(np.arange(len(lengths)), lengths)
    is_last = np.append(stream[1:] != stream[:-1], True)
    ended = line["terminated"] | line["truncated"]
    cut = is_last & ~ended & (np.arange(len(stream)) % steps != steps - 1)
    line["truncated"] |= cut
    at_step, of_stream = np.nonzero(columns["terminated"] | columns["truncated"])
    at_end = (lengths.cumsum() - lengths)[of_stream] + at_step
    step, column = np.nonzero((ended | cut).reshape(count, steps).T)  # as ends are ordered: by step, then by column
    found = {name: values.reshape(count, steps, *values.shape[1:]).swapaxes(0, 1) for name, values in line.items()}
    for name in ("obs", *(name for name in names if name.startswith("state_"))):
        after = np.concatenate([line[name][1:], line[name][:1]])  # what follows each step
        after[is_last] = columns[f"tail_{name}"][stream[is_last]]
        found[f"tail_{name}"] = after[steps - 1 :: steps].copy()
        after[at_end] = columns[f"end_{name}"]
        found[f"end_{name}"] = after[column * steps + step]
    return {name: np.ascontiguousarray(values) for name, values in found.items()} | {"cut": np.ones(count, bool)}


class Meta(NamedTuple):
    """Which fragment this is. ``add`` is idempotent on (worker, incarnation, sequence)."""

    worker: int
    incarnation: int  # how often the worker was restarted
    sequence: int  # counts the fragments of an incarnation from 0
    version: int  # weights that acted; 0: none yet, uniform actions


class ReadProgress(NamedTuple):
    """Metadata for the driver of a fragment that was read from files."""

    pieces: int  # parts of episodes in it, each of which ends in it
    episodes: tuple[tuple[float, int], ...]  # (return, length) of those that are whole, raw rewards
    ended: bool  # whether this worker has read all that it was to read in this pass


class AgentReturns(NamedTuple):
    """An episode of several agents that has ended."""

    reward: float  # the sum over the agents
    length: int  # env steps
    returns: dict[str, float]  # by agent, raw rewards
    policy_of: dict[str, str]  # agent → policy id


class Token(NamedTuple):
    """Metadata of a fragment for the driver, which does not read the fragment itself."""

    meta: Meta
    steps: int  # env steps T·N
    episodes: tuple[tuple[float, int], ...]  # (return, length) of each episode that ended, raw rewards
    bad_transitions: int  # steps that the environment broke; they are not in the fragment
    notes: tuple[str, ...]  # strings for the user: what broke and how to reproduce it
    seconds: dict[str, float]  # "env", "policy", "total": where the time went
    exploration: dict[str, float] = {}  # how strongly the worker explores: "epsilon", … (``Exploration.describe``)
    seen: dict[str, Any] | None = None  # what it adds to the filters' statistics (``actors.running_filters``)
    reading: ReadProgress | None = None  # where it was read, not sampled
    told: tuple[Any, ...] = ()  # (custom_metrics, hist_data) of callbacks, of each episode that ended and has any
    agents: tuple[AgentReturns, ...] = ()  # of several agents: the episodes that ended, by agent
    successes: tuple[bool, ...] = ()  # of the episodes that ended and say it: whether they reached their goal
    scored: tuple[tuple[float, int], ...] = ()  # (return, length) of clients' episodes that were played to be scored
    state: Any = None  # of a deterministic run: the worker's state after the fragment, for its successor
