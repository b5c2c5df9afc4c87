"""What an experiment means that leaves a key out because RLlib's default was meant.

Used by ``experiments.spec`` and, for files that searches write, by ``search.trial_ranks``. A bare command keeps the
defaults of this program. Three rules go beyond the keys that are given:

- ``rollout_fragment_length`` or ``train_batch_size``, given in a file or with a flag without ``training_intensity``, selects
  RLlib's ratio of updates to env steps: one update after each round of fragments. Only for algorithms of RLlib's that
  alternate between sampling and learning (its SAC, DDPG, TD3, DQN, SimpleQ and R2D2; APEX never waits).
- A ``train_batch_size`` that is smaller than one fragment of an on-policy algorithm, since more environments step at a time
  here, is kept exactly: by shorter fragments, as RLlib's PPO adjusts them, or, where their length is given
  too, by RLlib's one environment.
- In a file, ``adam_epsilon`` is RLlib's where it is not given, and so is ``min_iter_time_s`` where there are workers: its
  files do not say them, and count evaluations, checkpoints and ``training_iteration`` in such iterations. A stop rule is
  not passed by a long one, see ``runtime.driver``.

Sources: RLlib 1.0.1, the execution plan of its DQN (``store_op`` and ``replay_op`` take turns with the weights of
``calculate_rr_weights``, [1, 1] without ``training_intensity``) and ``validate_config`` beside it (no fragment is shorter than
``n_step``); its RolloutWorker, whose fragment has ``rollout_fragment_length`` steps of each environment; 2.4, the same in
``DQN.training_step``; 1.13 and 2.x, the fragments of ``PPO.validate_config`` and of ``auto``.
"""

import math
from typing import Any, TypeGuard

from drl_cli.config.key_description import fields_of
from drl_cli.config.schema import Section, notes_of
from drl_cli.config.sections.common import CommonKeys, min_iter_seconds
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import reads_only
from drl_cli.config.sections.on_policy import TrajectoryKeys

BATCH = ("rollout_fragment_length", "train_batch_size")
"""Keys that say, with RLlib, how many updates are made of the env steps."""

SOURCE = "as in RLlib"


def completed(config: CommonKeys, is_file: bool) -> tuple[CommonKeys, dict[str, Any], list[str]]:
    """Return (``config`` with what its author left to RLlib filled in, {key: value} of that, a line for each rule)."""
    filled: dict[str, Any] = {}
    notices: list[str] = []
    if _paces(config):
        filled["training_intensity"], text = _pace(config)
        notices.append(text)
    if _passes_its_batch(config):
        fitting, text = _fitting(config)
        filled |= fitting
        notices.append(text)
    if is_file:
        own = said(config)
        changed = {name: theirs(config, name) for name in own}
        filled |= changed
        text = ", ".join(f"{name} {value:g} (a bare command: {own[name]:g})" for name, value in changed.items())
        notices += [f"As in RLlib, since the file does not say: {text}."] if text else []
    return (config.model_copy(update=filled) if filled else config), filled, notices


def theirs(config: Section, name: str) -> Any:
    """Return RLlib's default of the key ``name`` for the algorithm of ``config``."""
    field = fields_of(type(config))[name]
    return notes_of(field).get("rllib", field.default)


def _paces(config: CommonKeys) -> TypeGuard[BufferedKeys]:
    """Whether RLlib's ratio of updates to env steps is meant."""
    if not isinstance(config, BufferedKeys):
        return False
    field = fields_of(type(config))["training_intensity"]
    alternates = field.default is None and "rllib" in notes_of(field)
    is_open = alternates and config.training_intensity is None and not reads_only(config)
    return is_open and any(name in config.model_fields_set for name in BATCH)


def _pace(config: BufferedKeys) -> tuple[float, str]:
    """Return (the transitions trained per env step with one update a round, a line that says so)."""

    def meant(name: str) -> Any:
        return getattr(config, name) if name in config.model_fields_set else theirs(config, name)

    fragment = max(meant("rollout_fragment_length"), meant("n_step"))
    steps = fragment * meant("num_envs_per_worker") * max(1, meant("num_workers"))
    intensity = config.train_batch_size / steps
    every = "env step" if steps == 1 else f"{steps:,} env steps"
    given = [name for name in BATCH if name in config.model_fields_set]
    where = f"{' and '.join(given)} {'are' if len(given) > 1 else 'is'} given"
    text = f"training_intensity {intensity:g}, as in RLlib where {where}: one update for every {every}."
    return intensity, text


def _passes_its_batch(config: CommonKeys) -> TypeGuard[TrajectoryKeys]:
    """Whether a fragment has more steps than the batch that is given, and it is open how many."""
    given = config.model_fields_set
    if (
        not isinstance(config, TrajectoryKeys)
        or "train_batch_size" not in given
        or config.batch_mode != "truncate_episodes"
    ):
        return False
    is_open = "rollout_fragment_length" not in given or "num_envs_per_worker" not in given
    return is_open and config.rollout_fragment_length * config.num_envs_per_worker > (
        config.train_batch_size or math.inf
    )


def _fitting(config: TrajectoryKeys) -> tuple[dict[str, Any], str]:
    """Return ({key: value} with which fragments make up the batch, a line that says so)."""
    fragment, envs, batch = config.rollout_fragment_length, config.num_envs_per_worker, config.train_batch_size
    if "rollout_fragment_length" in config.model_fields_set:
        found, text = {"num_envs_per_worker": theirs(config, "num_envs_per_worker")}, "as in RLlib"
    else:
        streams = "vtrace" in fields_of(type(config))
        together = 1 if streams else max(1, config.num_workers)  # workers whose fragments are one batch
        found, text = {"rollout_fragment_length": math.ceil(batch / envs / together)}, "as auto in RLlib"
    ((name, value),) = found.items()
    return found, (
        f"{name} {value}, {text}: so a batch has the {batch:,} steps of train_batch_size; a fragment of {fragment:,} from "
        f"{envs:,} environments would have {fragment * envs:,}."
    )


def said(config: CommonKeys) -> dict[str, Any]:
    """Return {key: value} that a file must say so that it means what ``config`` does, which came from flags."""
    fields = fields_of(type(config))
    found: dict[str, Any] = {}
    name = "adam_epsilon"
    if name in fields and name not in config.model_fields_set:
        found[name] = getattr(config, name)
    # Without workers no clock decides what a run does, in a file either.
    if "min_iter_time_s" in fields and config.min_iter_time_s is None and config.num_workers > 0:
        found["min_iter_time_s"] = min_iter_seconds(config)
    return {key: value for key, value in found.items() if theirs(config, key) not in (None, value)}
