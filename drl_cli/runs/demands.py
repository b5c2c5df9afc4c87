"""What a run must have reached at its end: ``--assert 'episode_reward_mean>=200'``, and ``pass_criteria`` of files.

Used by ``experiments.spec`` (reads and checks them before a run) and ``experiments.run`` (holds the last result against
them; a demand that is missed is exit code 4). Unlike stop rules they change nothing of the run.
"""

import re
from typing import NamedTuple

from drl_cli.config.result_names import COMPARE
from drl_cli.config.strict_yaml import scalar
from drl_cli.errors import ConfigError
from drl_cli.runs import stop_rules

_FORM = re.compile(r"\s*(?P<field>[^<>=\s]+)\s*(?P<sign>>=|<=|>|<)\s*(?P<value>[^<>=\s]+)\s*")
EXAMPLE = "--assert 'episode_reward_mean>=200'"


class Demand(NamedTuple):
    """``field`` of the last result, compared by ``sign`` with ``threshold``."""

    field: str
    sign: str
    threshold: float

    def __str__(self):
        return f"{self.field} {self.sign} {self.threshold:g}"


def parse(texts):
    """Return the Demands of ``--assert``. Raises ConfigError, which shows a form that works."""
    return tuple(_parsed(text) for text in texts or ())


def _parsed(text):
    found = _FORM.fullmatch(text)
    if not found:
        hint = ""
        if not set(text) & set("<>"):  # unquoted, the shell has taken the sign and what stood behind it
            hint = " The quotes matter: without them the shell takes > for itself."
        raise ConfigError(f"--assert: {text[:60]!r} is not FIELD>=NUMBER, nor with <=, > or <. Write {EXAMPLE}.{hint}")
    try:
        threshold = scalar(found["value"])
    except ValueError as error:
        raise ConfigError(f"--assert {text[:60]}: {error}.") from error
    return Demand(found["field"], found["sign"], threshold)


def missed(demands, result):
    """Return one line for each of ``demands`` that the last nested ``result`` (or None) does not meet."""
    flat = stop_rules.flatten(result or {})
    lines = []
    for one in demands:
        value = flat.get(one.field)
        if not isinstance(value, (int, float)):
            lines.append(f"{one.field} was never measured; required {one.sign} {one.threshold:g}")
        elif not COMPARE[one.sign](value, one.threshold):
            lines.append(f"{one.field} is {value:.6g}; required {one.sign} {one.threshold:g}")
    return lines
