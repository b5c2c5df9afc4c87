"""The keys in which one of several policies differs from the run: read as a config is, and refused where they cannot differ.

Used by ``experiments.draft``. Each problem begins with ``multiagent.policies.NAME.``; other spellings of RLlib's are read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drl_cli.config.key_description import fields_of, leaves
from drl_cli.config.origins import Path, Where
from drl_cli.config.parse import read_given
from drl_cli.config.rllib.aliases import renamed
from drl_cli.config.schema import SchemaRow, Section
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.estimates import EstimateKeys
from drl_cli.config.sections.multi_agent import laid_over
from drl_cli.config.sections.offline import InputKeys
from drl_cli.config.sections.replay import BufferKeys
from drl_cli.config.sections.rollout import RolloutKeys
from drl_cli.extras import load

_SHARED = (CommonKeys, RolloutKeys, InputKeys, EstimateKeys, BufferKeys)
OWN = (
    *("gamma", "normalize_actions", "clip_actions", "clip_rewards", "reward_scaling", "no_done_at_end"),
    *("observation_filter", "explore", "exploration_config", "buffer_size", "compress_observations"),
)
"""Keys of sections that all algorithms share, in which policies may differ; they may in what is an algorithm's own."""
_OF_LOOPS = (
    *("train_batch_size", "batch_mode", "_fake_gpus", "worker_side_prioritization"),
    *("hindsight_goals", "hindsight_strategy"),
    *(
        "minibatch_buffer_size",
        "replay_buffer_num_slots",
        "replay_proportion",
        "learner_queue_size",
        "learner_queue_timeout",
    ),
    *("max_sample_requests_in_flight_per_worker", "broadcast_interval", "num_aggregation_workers"),
)
"""Keys of an algorithm's own by which its loop goes, which is one for all policies."""
_SEEN_AS: tuple[Path, ...] = (
    ("model", "dim"),
    ("model", "grayscale"),
    ("model", "framestack"),
    ("model", "custom_preprocessor"),
)
"""Keys of what stands between the environment and all of its policies."""


def of_whole_run(schema: type[Section], path: Path) -> bool:
    """Whether a key of ``schema`` is the same for all policies of a run."""
    name = path[0]
    shared = {key for section in _SHARED for key in fields_of(section)}
    return path in _SEEN_AS or name in _OF_LOOPS or (name in shared and name not in OWN and name != "model")


def read(
    algorithm: SchemaRow,
    config: CommonKeys,
    where: Where,
    rows: Iterable[SchemaRow] = (),
) -> tuple[dict[str, dict[str, Any]], list[str], list[str]]:
    """Return ({policy id: its keys in this program's spelling}, problems, notices) of a valid ``config`` of ``algorithm``.

    ``where``: the Where of the config's mapping; ``rows``: see ``parse.parse``.
    """
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    notices: list[str] = []
    for name, given in config.multiagent.policies.items():
        prefix, inside = f"multiagent.policies.{name}.", where.inside("multiagent", "policies", name)
        found[name], wrong, said = _read(algorithm, config, given, inside, rows)
        problems += [prefix + line for line in wrong]
        notices += [prefix + line for line in said]
    return found, problems, notices


def _read(
    algorithm: SchemaRow, config: CommonKeys, given: Mapping[str, Any], where: Where, rows: Iterable[SchemaRow]
) -> tuple[dict[str, Any], list[str], list[str]]:
    if not given:
        return {}, [], []
    schema: type[Section] = load(algorithm.config)
    own, moved, problems, notices = renamed(given, where, schema)
    where = where.renaming(moved)
    there = {path for path, _ in leaves(schema)} | {(name,) for name in fields_of(schema)}
    kept: dict[str, Any] = {}
    for name, value in own.items():
        paths: list[Path] = [(name,), *((name, inner) for inner in (value if isinstance(value, dict) else ()))]
        shared = next((path for path in paths if path in there and of_whole_run(schema, path)), None)
        if shared is None:
            kept[name] = value
        else:
            why = "a key of the whole run, which all policies share"
            problems.append(f"{'.'.join(shared)}: {why} ({where.place(shared)}). Write it beside multiagent.")
    merged = laid_over(config.model_dump(mode="json", by_alias=True), kept)
    checked = read_given(algorithm, merged, where, rows)
    idle = [line for line in checked.notices if line.partition(" ")[0].partition(".")[0] in kept]
    return kept, problems + checked.problems, notices + idle
