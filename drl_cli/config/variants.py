"""From an experiment with values to search over to the points that are tried: plain data, drawn with one seed.

Used by ``experiments.search_spec`` (checks each point before anything starts) and by ``search`` (runs them). A point is a dict:

    trial        its number, from 0
    experiment   the number of its experiment in the search
    values       {name: value} of the keys that are searched over
    seed         of the run, None where the experiment has one of its own

An experiment is a dict too: ``name``, ``mapping`` (as in a file, flags laid over it) and ``paths``, {name: path of the key
as a list}. Both travel to the trials and into the record of the search.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from drl_cli.config.origins import Path
from drl_cli.config.plain_data import copied
from drl_cli.config.search_space import GRID, Sampler

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
