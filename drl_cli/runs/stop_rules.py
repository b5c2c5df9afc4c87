"""When a run stops, and what it must have reached by then.

- ``StopRules``: result field → threshold; the run stops as soon as any one is reached. RLlib's rules, with two deviations:
  unknown fields are refused before the run, and a goal on the evaluation counts only when fresh episodes confirmed it.
- ``Stopper``: the rules of a run in progress; with ``evaluation_hold`` training continues for some evaluations after the goal.
- ``Requirement``: what the last result must meet, of ``--assert 'episode_reward_mean>=200'`` and of the ``pass_criteria`` of
  files. Requirements change nothing about the run; one that is not met makes the exit code 4.

Used by ``experiments.spec`` (checks all of them before a run) and ``experiments.run``.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from drl_cli import events
from drl_cli.config.result_names import (
    COMPARE,
    CONFIRMED_REWARD,
    NUMBER_FIELDS,
    RESULT_FIELDS,
    Goal,
    flatten,
    goal_of,
    is_number_field,
)
from drl_cli.config.rllib.other_libraries import STOPS
from drl_cli.config.strict_yaml import scalar
from drl_cli.errors import ConfigError, shown, suggestion

if TYPE_CHECKING:
    from drl_cli.config.origins import Where
    from drl_cli.config.sections.common import CommonKeys

SECONDS = ("time_total_s", "time_since_restore")
WITHIN_ITERATIONS = ("timesteps_total", "episodes_total", "episode_reward_mean")
"""Fields of stop rules that are known while an iteration runs."""
EXAMPLE = "--assert 'episode_reward_mean>=200'"
_FORM = re.compile(r"\s*(?P<field>[^<>=\s]+)\s*(?P<sign>>=|<=|>|<)\s*(?P<value>[^<>=\s]+)\s*")


def problems(rules: Mapping[str, Any], where: Where, name: str = "stop") -> list[str]:
    """Return one line for each rule that cannot be used: an unknown field (with the nearest), a threshold that is no number."""
    found = []
    for field, threshold in rules.items():
        place = f" ({where.place((field,))})"
        if isinstance(threshold, dict):
            inner = next(iter(threshold), "…")
            found.append(f"{name}: {field} holds a mapping{place}. Write the field as '{field}/{inner}'.")
        elif field in RESULT_FIELDS and field not in NUMBER_FIELDS:
            found.append(f"{name}: {field} is no number{place}.")
        elif not is_number_field(field):
            found.append(f"{name}: unknown result field {field[:100]!r}{place}.{_hint(field)}")
        elif not (_is_number(threshold) and math.isfinite(threshold)):
            found.append(f"{name}: {field}: {shown(threshold)} is not allowed; it takes a number{place}.")
    return found


def _hint(field: str) -> str:
    bare = field.rstrip(": ")  # "field::" in a file
    if bare in STOPS or is_number_field(bare):
        return f" Write {STOPS.get(bare, bare)}."
    inner = [known for known in NUMBER_FIELDS if known.rpartition("/")[2] == field]
    return f" Did you mean '{inner[0]}'?" if inner else suggestion(field, NUMBER_FIELDS)


class StopRules:
    """The stop rules of one run: result field → threshold."""

    def __init__(self, rules: Mapping[str, float], confirm_episodes: int = 0) -> None:
        """``confirm_episodes`` > 0: a goal on the evaluation counts only with its confirmed mean."""
        self.rules = dict(rules)
        self._confirm = confirm_episodes > 0

    @property
    def goal(self) -> Goal | None:
        """The rule that evaluations are confirmed for, or None."""
        return goal_of(self.rules)

    def check(self, result: Mapping[str, Any]) -> str | None:
        """Return why the run stops after this nested result, or None. Missing values and NaN never stop it."""
        flat = flatten(result)
        goal = self.goal
        for field, threshold in self.rules.items():
            value = flat.get(field)
            if not _is_reached(value, threshold):
                continue
            if goal is None or field != goal.field or not self._confirm:
                return f"{field} {_short(value)} reached {_short(threshold)}"
            confirmed = flat.get(CONFIRMED_REWARD)
            if _is_reached(confirmed, threshold):
                return (
                    f"{field} {_short(value)} reached {_short(threshold)}, confirmed by a mean of {_short(confirmed)}"
                )
        return None


class Phase(enum.Enum):
    """What a run has reached of its goal on the evaluation; a phase is only ever followed by the next one."""

    TRAINING = "no goal, or not reached yet"
    HOLDING = "reached; training continues for ``evaluation_hold`` more evaluations"


class Stopper:
    """Applies the stop rules of a run in progress, and reports its evaluations, the goal and how it was held."""

    def __init__(self, rules: Mapping[str, float], config: CommonKeys, started_at: int = -1) -> None:
        """``started_at``: the iteration that the run starts from; evaluations up to it were reported before."""
        self._started_at = started_at
        confirm = config.evaluation_confirm_episodes or 0
        self._all = StopRules(rules, confirm)
        self.goal = goal = self._all.goal
        others = {name: value for name, value in rules.items() if goal is None or name != goal.field}
        self._others = StopRules(others)
        self._hold = config.evaluation_hold or 0
        self._phase = Phase.TRAINING
        self._touched: dict[str, Any] = {}  # ``Trainer.touched``: how the goal was first reached
        self._reported: int | None = None  # iteration of the last evaluation that was reported
        self._held: list[float] = []  # means of the evaluations after the goal was reached

    @property
    def limits(self) -> dict[str, float]:
        """The stop rules that are seconds of this run: {field: seconds}."""
        return {field: seconds for field, seconds in self._others.rules.items() if field in SECONDS}

    @property
    def thresholds(self) -> dict[str, float]:
        """The stop rules that may be reached within an iteration: {field: threshold}."""
        return {field: value for field, value in self._others.rules.items() if field in WITHIN_ITERATIONS}

    def check(self, result: Mapping[str, Any], touched: Mapping[str, Any] | None) -> str | None:
        """Return why the run ends after this nested result, or None. ``touched`` is ``Trainer.touched``."""
        fresh = self._report_evaluation(result)
        if self._phase is Phase.TRAINING and touched:
            self._goal_reached(touched)
        elif self._phase is Phase.HOLDING and fresh is not None:
            self._held.append(fresh)
        if self._phase is Phase.TRAINING:
            return self._all.check(result)
        if len(self._held) >= self._hold:
            return self._reason()
        return self._others.check(result)

    def _goal_reached(self, touched: Mapping[str, Any]) -> None:
        self._phase, self._touched = Phase.HOLDING, dict(touched)
        events.report("goal", **self._touched)

    def report_held(self) -> None:
        """Report the mean of the evaluations after the goal was reached, if there were any."""
        if self._held:
            mean = sum(self._held) / len(self._held)
            events.report("held", target=self._touched["target"], value=mean, evaluations=len(self._held))

    def _reason(self) -> str:
        touched = self._touched
        text = f"{touched['metric']} {touched['value']:.6g} reached {touched['target']:.6g}"
        if touched.get("confirmed") is True:
            text += ", confirmed"
        elif touched.get("confirmed"):
            text += f", confirmed by a mean of {touched['confirmed']:.6g}"
        if self._held:
            text += f", and held {sum(self._held) / len(self._held):.6g} over {len(self._held)} more evaluations"
        return text

    def _report_evaluation(self, result: Mapping[str, Any]) -> float | None:
        """Report an evaluation that was not reported before and return its mean; None when there is no new one."""
        evaluation = result.get("evaluation") or {}
        number = evaluation.get("training_iteration")
        if number is None or number <= self._started_at or number == self._reported:
            return None
        self._reported = number
        more = {
            name: evaluation[name]
            for name in ("success_rate", "policy_reward_mean")
            if evaluation.get(name) is not None
        }
        events.report(
            "evaluation",
            training_iteration=number,
            timesteps_total=evaluation.get("timesteps_total"),
            episode_reward_mean=evaluation.get("episode_reward_mean"),
            episode_len_mean=evaluation.get("episode_len_mean"),
            episodes=evaluation.get("episodes_this_iter"),
            confirmed=evaluation.get("confirmed_reward_mean"),
            **more,
        )
        if result.get("off_policy_estimator"):
            events.report("estimates", **result["off_policy_estimator"])
        return evaluation.get("episode_reward_mean") if self.goal is None else self.goal.score(evaluation)


class Requirement(NamedTuple):
    """``field`` of the last result, compared by ``sign`` with ``threshold``."""

    field: str
    sign: str
    threshold: float

    def __str__(self) -> str:
        return f"{self.field} {self.sign} {self.threshold:g}"


def parse_requirements(expressions: Iterable[str] | None) -> tuple[Requirement, ...]:
    """Return the Requirements of ``--assert``. Raises ConfigError, which shows a form that works."""
    return tuple(_parsed(text) for text in expressions or ())


def _parsed(text: str) -> Requirement:
    found = _FORM.fullmatch(text)
    if not found:
        hint = ""
        if not set(text) & set("<>"):  # unquoted, the shell has taken the sign and what followed it
            hint = " The quotes matter: without them the shell interprets >."
        raise ConfigError(f"--assert: {text[:60]!r} is not FIELD>=NUMBER, nor with <=, > or <. Write {EXAMPLE}.{hint}")
    try:
        threshold = scalar(found["value"])
    except ValueError as error:
        raise ConfigError(f"--assert {text[:60]}: {error}.") from error
    if not _is_number(threshold):
        raise ConfigError(f"--assert: {found['field']}: {shown(threshold)} is not allowed; it takes a number.")
    return Requirement(found["field"], found["sign"], threshold)


def unmet_requirements(requirements: Iterable[Requirement], result: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each of ``requirements`` that the last nested ``result`` (or None) does not meet."""
    flat = flatten(result or {})
    lines = []
    for one in requirements:
        value = flat.get(one.field)
        if not isinstance(value, (int, float)):
            lines.append(f"{one.field} was never measured; required {one.sign} {one.threshold:g}")
        elif not COMPARE[one.sign](value, one.threshold):
            lines.append(f"{one.field} is {value:.6g}; required {one.sign} {one.threshold:g}")
    return lines


def unmet_criteria(criteria: Mapping[str, float], result: Mapping[str, Any] | None) -> list[str]:
    """Return one line for each of ``criteria`` (field → lowest value) that the nested ``result`` does not reach."""
    flat = flatten(result or {})
    return [
        f"{field} {_measured(flat.get(field))}; required >= {threshold}"
        for field, threshold in criteria.items()
        if not _is_reached(flat.get(field), threshold)
    ]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_reached(value: Any, threshold: float) -> TypeGuard[float]:
    return _is_number(value) and value >= threshold


def _measured(value: Any) -> str:
    if value is None:
        return "was never measured"
    return f"is {_short(value) if isinstance(value, float) else value}"


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
