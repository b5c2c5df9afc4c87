"""When a run stops: result field → threshold, any one reached.

Used by ``experiments.spec`` (checks the rules before a run) and by the driving of a run. RLlib's rules, with two
deviations: unknown fields are refused before the run, and a goal on the evaluation counts only when fresh episodes
confirmed it.
"""

import math

from drl_cli.config.result_names import NUMBER_FIELDS, RESULT_FIELDS, is_number_field
from drl_cli.config.rllib.other_libraries import STOPS
from drl_cli.errors import shown, suggestion

GOAL = "evaluation/episode_reward_mean"
CONFIRMED = "evaluation/confirmed_reward_mean"


def problems(rules, where, name="stop"):
    """Return one line for each rule that cannot be: an unknown field (with the nearest), a threshold that is no
    number.
    """
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
        elif not _number(threshold):
            found.append(f"{name}: {field}: {shown(threshold)} is not allowed; it takes a number{place}.")
    return found


def _hint(field):
    if field in STOPS:
        return f" Write {STOPS[field]}."
    inner = [known for known in NUMBER_FIELDS if known.rpartition("/")[2] == field]
    return f" Did you mean '{inner[0]}'?" if inner else suggestion(field, NUMBER_FIELDS)


def flatten(result):
    """Return {``"evaluation/episode_reward_mean"``: value} of a nested result."""
    flat = {}
    waiting = [("", result)]
    while waiting:
        prefix, inner = waiting.pop()
        for name, value in inner.items():
            if isinstance(value, dict):
                waiting.append((f"{prefix}{name}/", value))
            else:
                flat[prefix + name] = value
    return flat


def unmet(criteria, result):
    """Return one line for each of ``criteria`` (field → threshold) that the nested ``result`` does not reach."""
    flat = flatten(result)
    return [
        f"{field} {_told(flat.get(field))}; required >= {threshold}"
        for field, threshold in criteria.items()
        if not _reached(flat.get(field), threshold)
    ]


class Stop:
    """The stop rules of one run."""

    def __init__(self, rules, confirm_episodes=0):
        """``rules``: field → threshold. ``confirm_episodes`` > 0: a goal counts only with its confirmed mean."""
        self.rules = dict(rules)
        self._confirm = confirm_episodes > 0

    @property
    def goal(self):
        """The threshold of ``evaluation/episode_reward_mean``, or None."""
        return self.rules.get(GOAL)

    def check(self, result):
        """Return why the run stops after this nested result, or None. Missing values and NaN never stop it."""
        flat = flatten(result)
        for field, threshold in self.rules.items():
            value = flat.get(field)
            if not _reached(value, threshold):
                continue
            if field != GOAL or not self._confirm:
                return f"{field} {_short(value)} reached {_short(threshold)}"
            confirmed = flat.get(CONFIRMED)
            if _reached(confirmed, threshold):
                return (
                    f"{field} {_short(value)} reached {_short(threshold)}, confirmed by a mean of {_short(confirmed)}"
                )
        return None


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _reached(value, threshold):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= threshold


def _told(value):
    if value is None:
        return "was never measured"
    return f"is {_short(value) if isinstance(value, float) else value}"


def _short(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
