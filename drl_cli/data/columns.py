"""The columns of a fragment and of a replayed batch: every name with its shape, dtype and meaning.

T steps, N environments, B rows; ``obs`` and ``action`` have the spaces' own trailing shapes.

Fragment (what one ``collect`` brings), all in time order:

    obs         [T, N, …] float32   raw observation before the step
    action      [T, N, A] float32   the policy's action, in the policy's bounds (normalised or not)
    reward      [T, N]    float32   the environment's reward, clipped if the config says so
    terminated  [T, N]    bool      a real end: nothing comes after
    truncated   [T, N]    bool      cut by a time limit, or because the environment broke: something would have come
    end_obs     [E, …]    float32   last real observation of each episode that ended here, in the order of (step, env)
    tail_obs    [N, …]    float32   observation after the last step (the next fragment's first)
    cut         [N]       bool      this fragment does not continue the stream of the one before it

Batch (what learning gets), from them, once:

    obs, action                     of the first step of the window
    reward      [B] float32         Σ γ^i r_i over the k real steps of the window
    discount    [B] float32         γ^k · (1 − terminated)
    next_obs    [B, …] float32      the real observation behind the window
"""

from typing import NamedTuple

FRAGMENT = ("obs", "action", "reward", "terminated", "truncated", "end_obs", "tail_obs", "cut")
BATCH = ("obs", "action", "reward", "discount", "next_obs")


class Meta(NamedTuple):
    """Which fragment this is. ``add`` is idempotent on (worker, incarnation, sequence)."""

    worker: int
    incarnation: int  # how often the worker was restarted
    sequence: int  # counts the fragments of an incarnation from 0
    version: int  # weights that acted; 0: none yet, uniform actions


class Token(NamedTuple):
    """What the driver learns of a fragment without reading it."""

    meta: Meta
    steps: int  # env steps T·N
    episodes: tuple  # (return, length) of each episode that ended, raw rewards
    bad_transitions: int  # steps that the environment spoilt; they are not in the fragment
    notes: tuple  # texts for the user: what broke and how to reproduce it
    seconds: dict  # "env", "policy", "total": where the time went
    exploration: dict = {}  # how strongly the worker explores by now: "epsilon", "stddev", … (``Exploration.describe``)
