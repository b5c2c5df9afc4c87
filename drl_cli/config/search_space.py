"""Values to search over, as plain data in the place of a value: ``{"grid_search": [1, 2]}``, ``{"uniform": [0, 1]}``.

Used by ``experiments`` and ``search``: values are read and checked here, and turned into the points that are tried, drawn with
one seed. Names and arguments are those of Ray Tune's functions (``tune.uniform(0, 1)`` is ``{"uniform": [0, 1]}``; the prefix
``tune.`` may stand there too). Nothing is evaluated: RLlib's ``{"eval": "…"}`` and Tune's ``sample_from`` are refused. Source:
Ray 2.60 ``ray.tune.search.sample``.

A point is a dict:

    trial        its number, from 0
    experiment   the number of its experiment in the search
    values       {name: value} of the keys that are searched over
    seed         of the run, None where the experiment has one of its own

An experiment is a dict too: ``name``, ``mapping`` (as in a file, flags laid over it) and ``paths``, {name: path of the key
as a list}. Both travel to the trials and into the record of the search.
"""

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drl_cli.config.origins import Path
from drl_cli.config.plain_data import copied
from drl_cli.errors import shown

GRID = "grid_search"
FORMS = {
    GRID: "a list of values, each of which is tried",
    "choice": "a list of values, one of which is drawn",
    "uniform": "[low, high]",
    "quniform": "[low, high, step]",
    "loguniform": "[low, high], above 0",
    "qloguniform": "[low, high, step], above 0",
    "randn": "[mean, standard deviation]",
    "qrandn": "[mean, standard deviation, step]",
    "randint": "[low, high] of whole numbers, high left out",
    "qrandint": "[low, high, step] of whole numbers",
    "lograndint": "[low, high] of whole numbers above 0, high left out",
    "qlograndint": "[low, high, step] of whole numbers above 0",
}
"""Name → its arguments."""

CODE = ("eval", "sample_from")
_PREFIX = "tune."


class Misspelt(ValueError):
    """The arguments of a name of ``FORMS`` are not what it takes."""


@dataclass(frozen=True)
class Sampler:
    """Where the values of one key come from: ``kind``, a name of ``FORMS``, and its ``arguments``."""

    kind: str
    arguments: tuple[Any, ...]

    @property
    def is_listed(self) -> bool:
        """Whether the values are a list: of a grid, or to choose from."""
        return self.kind in (GRID, "choice")

    @property
    def is_whole(self) -> bool:
        """Whether it draws whole numbers."""
        return self.kind.endswith("randint")

    @property
    def is_log(self) -> bool:
        """Whether it draws evenly in the logarithm."""
        return "log" in self.kind

    @property
    def step(self) -> Any:
        """The step that values are rounded to, a whole number where ``is_whole``; or None."""
        return self.arguments[2] if self.kind.startswith("q") else None

    @property
    def bounds(self) -> tuple[Any, Any]:
        """(lowest, highest) value, both possible; infinite for normal ones and for a list."""
        if self.is_listed:
            return -math.inf, math.inf
        if self.kind.endswith("randn"):
            return -math.inf, math.inf
        low, high = self.arguments[:2]
        return low, high - 1 if self.is_whole and self.step is None else high

    def draw(self, rng: random.Random) -> Any:
        """Return a value, drawn with ``rng`` (``random.Random``)."""
        if self.is_listed:
            return rng.choice(self.arguments)
        if self.kind.endswith("randn"):
            return self._rounded(rng.gauss(*self.arguments[:2]))
        low, high = self.bounds
        if self.is_log:
            value = math.exp(rng.uniform(math.log(low), math.log(high + 1 if self.is_whole else high)))
            return self.clip(self._rounded(math.floor(value) if self.is_whole else value))
        if self.is_whole and self.step is None:
            return rng.randint(low, high)
        return self.clip(self._rounded(rng.uniform(low, high)))

    def extremes(self) -> list[Any]:
        """Return the values that have to be allowed for every other one to be: all of a list, else both ends."""
        if self.is_listed:
            return list(self.arguments)
        if self.kind.endswith("randn"):
            return [self.arguments[0]]
        return list(dict.fromkeys(self.bounds))

    def clip(self, value: float) -> float:
        """Return the number ``value`` moved inside the bounds."""
        low, high = self.bounds
        return min(max(value, low), high)

    def _rounded(self, value: float) -> float:
        if self.step is None:
            return value
        rounded = round(value / self.step) * self.step
        return int(rounded) if self.is_whole else round(rounded, 12)  # 3 x 0.1 is 0.30000000000000004


def name_of(node: object) -> str | None:
    """Return the name of ``FORMS`` or ``CODE`` that a node of plain data stands for, or None for any other value."""
    if not isinstance(node, dict):
        return None
    names = [str(name).removeprefix(_PREFIX) for name in node]
    found = [name for name in names if name in FORMS or name in CODE]
    if not found:
        return None
    if len(node) == 1 or GRID in found:
        return found[0]
    return None  # a mapping that happens to have such a key


def read(node: Mapping[str, Any]) -> Sampler:
    """Return the Sampler of a node that ``name_of`` names. Raises Misspelt."""
    name = name_of(node)
    if name is None:
        raise Misspelt(f"{shown(node)} is no value to search over")
    if len(node) > 1:
        raise Misspelt(f"{GRID} stands alone in its mapping, and there are {', '.join(map(str, node))}")
    if name in CODE:
        known = ", ".join(known for known in FORMS if known != GRID)
        raise Misspelt(f"{name} holds code, which is not run. Draw values with one of {known}")
    given = next(iter(node.values()))
    if name == "randint" and isinstance(given, int):
        given = [0, given]
    if not isinstance(given, list) or not given:
        raise Misspelt(f"{name} takes {FORMS[name]}, not {shown(given)}")
    if any(name_of(value) for value in given):
        raise Misspelt(f"a search inside another one ({shown(given)})")
    if name not in (GRID, "choice"):
        _check_numbers(name, given)
    return Sampler(name, tuple(given))


def _check_numbers(name: str, given: list[Any]) -> None:
    count = 3 if name.startswith("q") else 2
    whole, log, normal = name.endswith("randint"), "log" in name, name.endswith("randn")
    kinds = (int,) if whole else (int, float)
    fits = len(given) == count and all(isinstance(n, kinds) and not isinstance(n, bool) for n in given)
    if fits and count == 3:
        fits = given[2] > 0
    if fits:
        low, high = given[:2]
        fits = high > 0 if normal else (low < high and (low > 0 or not log))
    if not fits:
        raise Misspelt(f"{name} takes {FORMS[name]}, not {shown(given)}")


def find(data: object) -> tuple[dict[Path, Sampler], dict[Path, str]]:
    """Return ({path: Sampler}, {path: what is wrong}) of every node to search over in plain data.

    A path is a tuple of keys and list positions.
    """
    found: dict[Path, Sampler] = {}
    wrong: dict[Path, str] = {}
    waiting: list[tuple[Path, Any]] = [((), data)]
    while waiting:
        path, value = waiting.pop(0)
        if name_of(value):
            try:
                found[path] = read(value)
            except Misspelt as error:
                wrong[path] = str(error)
        elif isinstance(value, dict):
            waiting += [((*path, name), inner) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), inner) for index, inner in enumerate(value)]
    return found, wrong


MAX_POINTS = 10_000


def names(paths: Iterable[Path]) -> dict[str, Path]:
    """Return {name: path} for paths of keys: dotted, without the leading ``config``."""
    return {".".join(map(str, path[1:] if len(path) > 1 and path[0] == "config" else path)): path for path in paths}


def filled(experiment: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment's mapping with the point's values in their places."""
    mapping = copied(experiment["mapping"])
    for name, value in point["values"].items():
        _put(mapping, experiment["paths"][name], value)
    if point["seed"] is not None:
        _put(mapping, ["config", "seed"], point["seed"])
    return mapping


def _put(mapping: Any, path: Sequence[Any], value: Any) -> None:
    for key in path[:-1]:
        mapping = mapping.setdefault(key, {}) if isinstance(mapping, dict) else mapping[key]
    mapping[path[-1]] = copied(value)


def count(samplers: Mapping[str, Sampler], num_samples: int) -> int:
    """Return how many points there are: the product of the grids, times ``num_samples``."""
    total = num_samples
    for sampler in samplers.values():
        total *= len(sampler.arguments) if sampler.kind == GRID else 1
    return total


def draw(
    samplers: Mapping[str, Sampler], num_samples: int, seed: int, own_seed: bool = False
) -> Iterator[tuple[dict[str, Any], int | None]]:
    """Yield (values, seed) of each point: all combinations of the grids, ``num_samples`` times.

    ``samplers``: {name: Sampler}. ``seed`` starts the drawing. Points that differ only in their place in the grid share a
    seed, so that they are compared on the same luck; None with ``own_seed``, where the experiment says its seed.
    """
    rng = random.Random(seed)
    grids = {name: sampler.arguments for name, sampler in samplers.items() if sampler.kind == GRID}
    for _ in range(num_samples):
        run_seed = None if own_seed else rng.randrange(2**31)
        for combination in itertools.product(*grids.values()):
            chosen = dict(zip(grids, combination, strict=True))
            drawn = {name: sampler.draw(rng) for name, sampler in samplers.items() if name not in chosen}
            yield {name: {**chosen, **drawn}[name] for name in samplers}, run_seed


def corners(samplers: Mapping[str, Sampler]) -> Iterator[dict[str, Any]]:
    """Yield points' values that meet every listed value and both ends of every range at least once."""
    lists = {name: sampler.extremes() for name, sampler in samplers.items()}
    for index in range(max((len(values) for values in lists.values()), default=0)):
        yield {name: values[min(index, len(values) - 1)] for name, values in lists.items()}


def fresh_seeds(data: Mapping[str, Any], count: int) -> list[int]:
    """Return ``count`` seeds that no point of a search's ``data`` has used."""
    used = {point["seed"] for point in data["points"]} | {point["values"].get("seed") for point in data["points"]}
    rng = random.Random(data["seed"] + 1)
    found: list[int] = []
    while len(found) < count:
        seed = rng.randrange(2**31)
        found += [seed] if seed not in used and seed not in found else []
    return found
