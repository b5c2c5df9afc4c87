"""Opponents by name: functions that choose an action from what an agent sees, without weights.

``random`` and those of the bundled games come with this program; others are registered with ``drl_cli.register_opponent``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from drl_cli.envs.env_spec import EnvSpec
from drl_cli.envs.multi_agent.game_opponents import connect_four_depth_2, tic_tac_toe_minimax
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import InputError, PluginFailed, suggestion
from drl_cli.plugins import OPPONENTS

Opponent = Callable[[np.ndarray, np.ndarray, np.random.Generator], int]


def random_action(obs: np.ndarray, legal: np.ndarray, rng: np.random.Generator) -> int:
    """Return any of the legal actions, each as likely."""
    return int(rng.choice(np.flatnonzero(legal)))


BUNDLED: dict[str, tuple[Opponent, int | None]] = {
    "random": (random_action, None),
    "tic-tac-toe-minimax": (tic_tac_toe_minimax, 27),
    "connect-four-depth-2": (connect_four_depth_2, 91),
}
"""Name → the function, and the numbers of the observations that it reads; None: any."""


def check(name: str, spaces: EnvSpec) -> None:
    """Raise InputError where there is no opponent ``name`` for agents with ``spaces``."""
    if name in BUNDLED:
        size = BUNDLED[name][1]
        if size is not None and list(spaces["obs"]["shape"]) != [size]:
            raise InputError(
                f"the opponent {name} plays its game alone, whose observations have {size} numbers; those here have the shape "
                f"{list(spaces['obs']['shape'])}. random plays any game."
            )
        return
    if name not in OPPONENTS.all():
        names = [*BUNDLED, *OPPONENTS.known()]
        raise InputError(
            f"there is no opponent {name[:60]!r}.{suggestion(name, names)} They are {', '.join(names[:8])}. Register one with "
            "drl_cli.register_opponent in a module, and name that module: --import MODULE."
        )


class ScriptedOpponent:
    """One opponent in ``rows`` places at once."""

    def __init__(self, name: str, spaces: EnvSpec, rows: int) -> None:
        """``name``: one that ``check`` lets pass; ``spaces``: of the agents that it acts for."""
        self._name = name
        self._function = BUNDLED[name][0] if name in BUNDLED else OPPONENTS.find(name)
        self._count, self._first = spaces["action"]["n"], int(spaces["action"].get("start") or 0)
        self._mask = spaces.get("mask")
        self.obs = np.zeros((rows, *spaces["obs"]["shape"]), spaces["obs"]["dtype"])

    def see(self, row: int, obs: np.ndarray) -> None:
        """Note what the agent of ``row`` observes."""
        self.obs[row] = obs

    def act(self, rows: Sequence[int], rngs: Sequence[np.random.Generator]) -> np.ndarray:
        """Return the actions of ``rows``, int64 [n]; ``rngs``: one for each. Raises PluginFailed for an action that is none."""
        return np.array([self._choose(self.obs[row], rng) for row, rng in zip(rows, rngs, strict=True)], np.int64)

    def _choose(self, obs: np.ndarray, rng: np.random.Generator) -> int:
        legal = np.ones(self._count, bool)
        if self._mask:
            start, size = self._mask
            legal = obs[start : start + size] > 0
            if not legal.any():
                legal[:] = True
        action = called(f"opponent {self._name}", self._function, obs.copy(), legal, rng)
        if not isinstance(action, (int, np.integer)) or not 0 <= action < self._count:
            raise PluginFailed(
                f"opponent {self._name} chose {str(action)[:60]!r}; an action is a whole number from 0 to {self._count - 1}."
            )
        return int(action) + self._first


def opponents(names: Sequence[str], spaces: Mapping[str, EnvSpec], rows: int) -> dict[str, ScriptedOpponent]:
    """Return {name: ScriptedOpponent} with ``rows`` places for each agent of ``spaces``, which are equal."""
    first = next(iter(spaces.values()))
    return {name: ScriptedOpponent(name, first, rows * len(spaces)) for name in names}
