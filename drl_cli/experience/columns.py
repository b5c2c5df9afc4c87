"""The columns of a fragment and of a replayed batch: every name with its shape, dtype and meaning.

T steps, N environments, B rows; ``obs`` and ``action`` have the spaces' own trailing shapes and dtypes: observations are
float32 vectors or images [H, W, C] of uint8 or float32, actions float32 [A] (Box) or int32 scalars (Discrete). A fragment
holds single frames; a batch holds stacks of them where the policy wants more than one.

Fragment (what one ``collect`` brings), all in time order:

    obs         [T, N, …]           raw observation before the step
    action      [T, N, …]           the policy's action, in the policy's bounds (normalised or not)
    reward      [T, N]    float32   the environment's reward, clipped if the config says so
    terminated  [T, N]    bool      a real end: nothing comes after
    truncated   [T, N]    bool      cut by a time limit, or because the environment broke: something would have come
    end_obs     [E, …]              last real observation of each episode that ended here, in the order of (step, env)
    tail_obs    [N, …]              observation after the last step (the next fragment's first)
    cut         [N]       bool      this fragment does not continue the stream of the one before it, but begins an episode
    priority    [T, N]    float32   optional: each step's first priority, ≥ 0, as the worker's own nets see its |TD error|
    position    [T, N]    int32     of recurrent policies: how many steps of its episode come before this one
    state_<i>   [T, N, …] float32   of recurrent policies: the state before the step, with the weights that acted

and where trajectories are learnt from:

    logp        [T, N]    float32   log-probability of the action under the weights and the distribution that acted
    stack       [N, …, C·frames]    where the policy looks at several frames: what it saw before the first step
    end_state_<i>  [E, …] float32   of recurrent policies: the state with which end_obs is to be looked at
    tail_state_<i> [N, …] float32   the same for tail_obs
    length      [N]       int64     of complete episodes: real steps of each environment; behind them come zeros

Batch (what learning gets), from them, once:

    obs, action                     of the first step of the window; obs [B, …, C·frames], the oldest frame first
    reward      [B] float32         Σ γ^i r_i over the k real steps of the window
    discount    [B] float32         γ^k · (1 − terminated)
    next_obs    [B, …]              the real observation behind the window, stacked as obs

and, with priorities:

    weight      [B] float32         importance weight in (0, 1]
    serial      [B] int64           which row it was, for the write-back of its new priority

Sequence batch (for recurrent policies): b steps of burn-in, L learnt steps, n observations behind them, S = b + L + n:

    obs         [B, S, …]           in order; the first of the episode repeated before it, the last one behind it
    begins      [B, S]    float32   1 at an episode's first step: the state is forgotten before it
    state_<i>   [B, …]    float32   the stored state before the first step; absent where sequences begin with zeros
    action      [B, L]              of the learnt steps
    reward      [B, L]    float32   Σ γ^i r_i over the k real steps from each on, k ≤ n
    discount    [B, L]    float32   γ^k · (1 − terminated)
    ahead       [B, L]    int32     k: how many steps later the observation is that the rest is estimated at
    mask        [B, L]    float32   1 for steps of the episode, 0 behind its end

Trajectory batch (``experience.trajectories``): E rows of T steps, M ends, L steps a sequence. A row is what one environment did
in one fragment; complete episodes are laid end to end in a few rows, each begins at a multiple of L:

    obs, action [E, T, …]           obs as the policy saw it, stacks of frames where it looks at several
    reward      [E, T]    float32
    discount    [E, T]    float32   γ · (1 − terminated)
    trace       [E, T]    float32   0 where an episode ends either way, and before padding; else 1, also at a fragment's end
    logp        [E, T]    float32   as in the fragments
    mask        [E, T]    float32   1 for real steps, 0 for padding
    end_obs     [M, …]              observations whose values are bootstraps: behind the last step of every row, then
                                    behind every truncation inside of one (of complete episodes those alone), then
                                    padding; M is E·2, E·4, E·8, …, or at least 64
    end_at      [M]       int32     e·T + t of the step before each of them; E·T is padding
    begins      [E, T]    float32   of recurrent policies: 1 at an episode's first step
    state_<i>   [E, T/L, …] float32 the stored state before the first step of every sequence, or [E, T, …] before every step
                                    (the previous action and reward: ``PolicySpec.stepwise``)
    end_state_<i>  [M, …] float32   the state with which end_obs is to be looked at
"""

from typing import NamedTuple

FRAGMENT = ("obs", "action", "reward", "terminated", "truncated", "end_obs", "tail_obs", "cut")
BATCH = ("obs", "action", "reward", "discount", "next_obs")


def expect(name, arrays, shape, dtype):
    """Raise ValueError unless ``arrays`` (of a checkpoint) has ``name`` with exactly this shape and dtype."""
    found = (arrays[name].shape, arrays[name].dtype) if name in arrays else "nothing"
    if found != (shape, dtype):
        raise ValueError(f"replay column {name}: {found}, expected {(shape, dtype)}")


class Meta(NamedTuple):
    """Which fragment this is. ``add`` is idempotent on (worker, incarnation, sequence)."""

    worker: int
    incarnation: int  # how often the worker was restarted
    sequence: int  # counts the fragments of an incarnation from 0
    version: int  # weights that acted; 0: none yet, uniform actions


class Reading(NamedTuple):
    """What the driver learns of a fragment that was read from files."""

    pieces: int  # parts of episodes in it, each of which ends in it
    episodes: tuple  # (return, length) of those that are whole, raw rewards
    ended: bool  # whether this worker has read all that it was to read in this pass


class Token(NamedTuple):
    """What the driver learns of a fragment without reading it."""

    meta: Meta
    steps: int  # env steps T·N
    episodes: tuple  # (return, length) of each episode that ended, raw rewards
    bad_transitions: int  # steps that the environment spoilt; they are not in the fragment
    notes: tuple  # texts for the user: what broke and how to reproduce it
    seconds: dict  # "env", "policy", "total": where the time went
    exploration: dict = {}  # how strongly the worker explores by now: "epsilon", "stddev", … (``Exploration.describe``)
    seen: dict | None = (
        None  # what its observations and returns add to the filters' statistics (``actors.running_filters``)
    )
    reading: Reading | None = None  # where it was read, not sampled
    told: tuple = ()  # (custom_metrics, hist_data) of callbacks, of each episode that ended and has any
