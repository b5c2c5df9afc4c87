"""OpponentPool: the frozen copies of a policy in self-play, its win rates and ratings, and the odds of its next opponents.

Used by ``actors.policy_group``. Elo (1978): the expected score of a player rated d above another is 1 / (1 + 10^(−d / 400));
after a game each rating moves by ``STEP`` times what the score was above the expected one. A copy begins with the learner's.
Prioritised opponents: Vinyals et al. 2019.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drl_cli.config.sections.self_play import SelfPlayConfig
from drl_cli.envs.env_spec import SelfPlaySetup
from drl_cli.envs.multi_agent.policy_choice import ODDS, first_odds, players
from drl_cli.errors import CheckpointError

FIRST_RATING, SCALE, STEP = 1000.0, 400.0, 16.0
LEAST_GAMES = 20  # against the newest copy before its win rate says anything
UNKNOWN = 0.5  # win rate against who was not met yet


class OpponentPool:
    """Opponents are numbered as ``players`` without the learner: those by name, then the places of frozen copies."""

    def __init__(self, config: SelfPlayConfig, setup: SelfPlaySetup) -> None:
        """``config``: of the run; ``setup``: of its environment."""
        self._config, self._setup = config, setup
        self._names = players(setup)[1:]
        self._named = len(setup["scripted"])
        count = len(self._names)
        self._state = {
            "scores": np.zeros((count, config.win_window), np.float32),  # of the latest games: 1 won, 0.5 drawn, 0 lost
            "games": np.zeros(count, np.int64),  # against each since it is there
            "ratings": np.full(1 + count, FIRST_RATING),  # the learner's first
            "frozen": np.zeros(count, np.int64),  # which copy a place holds, from 1; 0: none
            "odds": first_odds(setup).astype(np.float32),  # as they were pushed last
            "last": np.zeros((), np.int64),  # env steps when the last copy was frozen
        }

    @property
    def odds(self) -> np.ndarray:
        """The odds of ``players``, float64, their sum 1."""
        is_there = self._are_there()
        if not is_there.any():
            return first_odds(self._setup)
        wins = self.win_rates()
        weight = is_there.astype(np.float64)
        if self._config.choose == "newest" and self._newest is not None:
            weight[self._named :] = 0.0
            weight[self._newest] = 1.0
        elif self._config.choose == "prioritised":
            weight *= (1.0 - wins) ** self._config.priority_power
            if weight.sum() == 0.0:
                weight = is_there.astype(np.float64)
        share = self._setup["own_share"]
        return np.concatenate([[share], (1.0 - share) * weight / weight.sum()])

    def _are_there(self) -> np.ndarray:
        is_there = self._state["frozen"] > 0
        is_there[: self._named] = True
        return is_there

    @property
    def _newest(self) -> int | None:
        frozen = self._state["frozen"]
        return int(frozen.argmax()) if frozen.any() else None

    def win_rates(self) -> np.ndarray:
        """Return the learner's mean score against each opponent over the latest games, float64."""
        held = np.minimum(self._state["games"], self._config.win_window)
        sums = self._state["scores"].sum(axis=1, dtype=np.float64)
        return np.where(held > 0, sums / np.maximum(held, 1), UNKNOWN)

    def note(self, results: np.ndarray) -> None:
        """Take note of games, float32 [n, 2]: the number among ``players``, and the learner's score (1, 0.5 or 0)."""
        ratings = self._state["ratings"]
        for player, score in results.tolist():
            opponent = int(player) - 1
            if opponent < 0:
                continue  # against itself
            games = self._state["games"]
            self._state["scores"][opponent, games[opponent] % self._config.win_window] = score
            games[opponent] += 1
            expected = 1.0 / (1.0 + 10.0 ** ((ratings[1 + opponent] - ratings[0]) / SCALE))
            moved = STEP * (score - expected)
            ratings[0] += moved
            ratings[1 + opponent] -= moved

    def freeze(self, env_steps: int) -> str | None:
        """Return the id of the policy that is to become a copy of the learner now, or None where none is due."""
        if not self._setup["slots"] or not self._is_due(env_steps):
            return None
        frozen = self._state["frozen"]
        copies = frozen[self._named :]
        place = self._named + int(copies.argmin())
        frozen[place] = frozen.max() + 1
        self._state["scores"][place], self._state["games"][place] = 0.0, 0
        self._state["ratings"][1 + place] = self._state["ratings"][0]
        self._state["last"][...] = env_steps
        return self._names[place]

    def _is_due(self, env_steps: int) -> bool:
        config, newest = self._config, self._newest
        since = env_steps - int(self._state["last"])
        if config.freeze_interval is not None and since >= config.freeze_interval:
            return True
        if config.freeze_win_rate is None:
            return False
        if newest is None:
            return True
        least = min(LEAST_GAMES, config.win_window)
        return bool(self._state["games"][newest] >= least and self.win_rates()[newest] >= config.freeze_win_rate)

    def stats(self) -> dict[str, float]:
        """Return statistics of the learner: rating, win rates, copies."""
        is_there, rates = self._are_there(), self.win_rates()
        found = {
            "elo": float(self._state["ratings"][0]),
            "opponents": float(is_there.sum()),
            "copies_frozen": float(self._state["frozen"].max(initial=0)),
        }
        met = is_there & (self._state["games"] > 0)
        if met.any():
            found["win_rate"] = float(rates[met].mean())
        for index in np.flatnonzero(met):
            found[f"win_rate_{self._names[index]}"] = float(rates[index])
            found[f"games_{self._names[index]}"] = float(self._state["games"][index])
        return found

    def pushed(self) -> dict[str, dict[str, np.ndarray]]:
        """Return what goes to workers beside the weights."""
        self._state["odds"][:] = self.odds
        return {ODDS: {"odds": self._state["odds"].copy()}}

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array} of everything."""
        return {f"{ODDS}/{name}": array.copy() for name, array in self._state.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Continue from ``state``. Raises CheckpointError where it is of another pool."""
        for name, array in self._state.items():
            found = arrays.get(f"{ODDS}/{name}")
            if found is None or found.shape != array.shape:
                raise CheckpointError(
                    "The checkpoint's opponents are not those of multiagent.self_play: keep opponents, scripted and win_window "
                    "as they were."
                )
            array[...] = found
