"""The state of a search, and its table as plain cells. Draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from drl_cli.cli import figures

if TYPE_CHECKING:
    from drl_cli.experiments.search_data import SearchData
    from drl_cli.search.search_record import Trials

STOPPING = "Stopping: each trial saves a checkpoint (Ctrl-C again to quit without saving)."
SHOWN_STATE = {"pending": "waiting", "interrupted": "stopped early"}
WORDS = ("trial", "run", "state")  # columns of words
ORDER = ("running", "paused", "pending", "finished", "stopped", "failed", "interrupted")


@dataclass
class SearchView:
    """The trials by number, from ``trial`` events; ``phase`` is the current activity, ``notices`` the latest lines."""

    data: SearchData
    title: str
    record: str
    trials: dict[int, dict[str, Any]] = field(default_factory=dict)
    phase: str = ""
    notices: list[tuple[float, str, str]] = field(default_factory=list)

    def take(self, kind: str, fields: Mapping[str, Any], seconds: float) -> None:
        """Take one event in; ``seconds`` is when it came."""
        if kind == "trial":
            self.phase = ""
            self.trials[fields["trial"]] = {**fields, "at": seconds}
        elif kind == "phase":
            self.phase = fields["text"]
        elif kind in ("notice", "warning"):
            self.notices = [*self.notices, (seconds, fields["text"], kind)][-6:]

    def counts(self) -> str:
        """Return ``"2 running, 3 waiting, 1 finished"``; of the best that are trained again, ``"; again: 1 running"``."""
        first = [trial["state"] for trial in self.trials.values() if "rescore" not in trial["point"]]
        again = [trial["state"] for trial in self.trials.values() if "rescore" in trial["point"]]
        counted = self._counted(first, max(0, self.data["num_trials"] - len(first)) if self.data["search"] else 0)
        return f"{counted}; retrained: {self._counted(again)}" if again else counted

    def _counted(self, states: Sequence[str], more: int = 0) -> str:
        counts = {state: states.count(state) + (more if state == "pending" else 0) for state in ORDER}
        return ", ".join(f"{count} {SHOWN_STATE.get(state, state)}" for state, count in counts.items() if count)

    def names(self) -> list[str]:
        """Return the searched keys in the order in which they were given."""
        found = dict.fromkeys(name for trial in self.trials.values() for name in trial["point"]["values"])
        return [name for name in found if name != "seed"]

    def header(self) -> list[str]:
        """Return the names of the table's columns."""
        several = ["run"] if len(self.data["experiments"]) > 1 else []
        score = self.data["metric"].replace("episode_reward_mean", "reward").replace("evaluation/reward", "evaluation")
        last = ["iter", "steps", "time", score]
        return ["trial", *several, "state", *(name.rpartition(".")[2] for name in self.names()), "seed", *last]

    def best(self) -> int | None:
        """Return the number of the best trial so far, or None."""
        from drl_cli.search import trial_ranks

        known = {number: trial for number, trial in self.trials.items() if trial.get("result")}
        ranked = trial_ranks.ranked(self.data, cast("Trials", known))
        return ranked[0] if ranked else None

    def rows(self, limit: int | None = None) -> list[tuple[int, str, list[Any]]]:
        """Return [(number, state, cells)]: running ones first, then by score; at most ``limit``."""
        from drl_cli.search import trial_ranks

        def order(number: int) -> tuple[int | tuple[int, float, float], ...]:
            trial = self.trials[number]
            again = "rescore" in trial["point"]
            return (
                trial["state"] != "running",
                trial["state"] == "pending",
                not again,
                trial_ranks.key(self.data, trial.get("result")),
                number,
            )

        chosen = sorted(self.trials, key=order)[:limit]
        return [(number, self.trials[number]["state"], self._cells(number)) for number in chosen]

    def _cells(self, number: int) -> list[str]:
        trial = self.trials[number]
        point, result = trial["point"], trial.get("result") or {}
        several = len(self.data["experiments"]) > 1
        label = f"{number}" if "rescore" not in point else f"{number} ({point['rescore']})"
        state = str(SHOWN_STATE.get(trial["state"], trial["state"]))
        if trial.get("failures"):
            state += f" x{trial['failures'] + 1}"
        values = [short(point["values"].get(name)) for name in self.names()]
        given = (self.data["experiments"][point["experiment"]]["mapping"].get("config") or {}).get("seed")
        seed = point["values"].get("seed", given if point["seed"] is None else point["seed"])
        name = [self.data["experiments"][point["experiment"]]["name"]] if several else []
        score = result.get(self.data["metric"])
        score = figures.reward(score)
        return [
            label,
            *name,
            state,
            *values,
            "-" if seed is None else str(seed),
            figures.count(result.get("training_iteration")),
            figures.count(result.get("timesteps_total")),
            figures.clock(result.get("time_total_s")),
            score,
        ]


def short(value: float) -> str:
    """Return a value of a key in few characters."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = "-" if value is None else str(value).replace("'", "").replace(", ", ",")
    return text if len(text) <= 24 else text[:23] + "…"


def fitting(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the indices of the columns that fit ``width``: first time, iterations and seed go, then values from the right."""
    wide = [max(len(line[index]) for line in [header, *rows]) + 2 for index in range(len(header))]
    chosen = list(range(len(header)))
    kept = {"trial", "state", header[-1], "steps"}
    values = [
        index for index, name in enumerate(header) if name not in (*WORDS, "seed", "iter", "steps", "time", header[-1])
    ]
    order = [header.index(name) for name in ("time", "iter", "seed")] + values[::-1]
    for index in order:
        if sum(wide[i] for i in chosen) <= width or header[index] in kept:
            continue
        chosen.remove(index)
    return chosen
