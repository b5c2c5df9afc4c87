"""A search as plain data: what goes to the trials, which run in other processes, and into the record of the search.

Made by ``experiments.search_spec``, read by ``search`` and by the commands that show searches. The keys are those of the
record's file, which earlier versions have written.
"""

from typing import Any, TypedDict

Bundles = list[dict[str, float]]
"""What a trial reserves of Ray: its own process first, then its workers; amounts by resource."""


class _Drawn(TypedDict):
    trial: int
    experiment: int
    values: dict[str, Any]
    seed: int | None


class Point(_Drawn, total=False):
    """One trial: its number, the number of its experiment, the values of the searched keys by name.

    ``seed``: of the run, None where the experiment has its own. ``bundles``: once the point is checked. ``rescore``: the number
    of the trial that is trained again.
    """

    bundles: Bundles
    rescore: int


class _Searched(TypedDict):
    name: str
    mapping: dict[str, Any]
    paths: dict[str, list[Any]]


class ExperimentData(_Searched, total=False):
    """One experiment of a search. ``mapping``: as in a file, flags laid over it; ``paths``: {name of a searched key: its path}.

    ``is_from_file``: missing in records of earlier versions.
    """

    is_from_file: bool


class SchedulerData(TypedDict):
    """The scheduler's name, and its keys without metric and mode."""

    name: str
    config: dict[str, Any]


class WriteData(TypedDict):
    """The file to be written: its path, how many of the best trials are trained again, and on how many seeds each."""

    path: str
    top: int
    seeds: int


class _Settled(TypedDict):
    id: str
    experiments: list[ExperimentData]
    points: list[Point]
    flags: dict[str, Any]
    ray: dict[str, Any]
    scheduler: SchedulerData
    search: str | None
    samplers: dict[str, list[Any]]
    num_trials: int
    metric: str
    mode: str
    goal: float | None
    max_failures: int
    seed: int
    bundles: Bundles
    seeded: bool
    folder: str
    write: WriteData | None


class SearchData(_Settled, total=False):
    """All that a search is.

    ``points``: empty where an algorithm chooses them while the search runs; ``search``: its name, or None. ``samplers``: {name:
    [kind, arguments]} of the keys whose values are drawn while it runs. ``metric``, ``mode``, ``goal``: the result field that
    ranks trials, "max" or "min", and the value at which all are equally good, or None. ``bundles``: of a trial whose point is
    not known yet; ``seeded``: whether such a trial has the seed of its experiment. ``demands``: [field, sign, threshold] of
    each ``--assert``; missing in records of earlier versions.
    """

    demands: list[list[Any]]
