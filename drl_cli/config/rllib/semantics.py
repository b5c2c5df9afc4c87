"""What an experiment means that leaves a key out because RLlib's default was meant.

Used by ``experiments.spec`` and, for files that searches write, by ``search.trial_ranks``. A bare command keeps the
defaults of this program. Two rules go beyond the keys that are given:

- Whoever gives ``rollout_fragment_length`` or ``train_batch_size``, in a file or with a flag, and no ``training_intensity``,
  gets RLlib's ratio of updates to env steps: one update after each round of fragments. Only for algorithms of RLlib's that
  alternate between sampling and learning (its SAC, DDPG, TD3, DQN, SimpleQ and R2D2; APEX never waits).
- In a file, ``adam_epsilon`` is RLlib's where it is not given, and so is ``min_iter_time_s`` where RLlib's is shorter than
  ours: its files do not say them. Its longer ones are left alone: the 10 s of its IMPALA were up to 800,000 env steps on
  CartPole, more than such a file's ``timesteps_total``, which is looked at between iterations.

Sources: RLlib 1.0.1, the execution plan of its DQN (``store_op`` and ``replay_op`` take turns with the weights of
``calculate_rr_weights``, [1, 1] without ``training_intensity``) and ``validate_config`` beside it (no fragment is shorter than
``n_step``); its RolloutWorker, whose fragment has ``rollout_fragment_length`` steps of each environment; 2.4, the same in
``DQN.training_step``.
"""

from typing import Any, TypeGuard

from drl_cli.config.key_description import fields_of
from drl_cli.config.schema import Section, notes_of
from drl_cli.config.sections.common import CommonKeys, min_iter_seconds
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import reads_only

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


def said(config: CommonKeys) -> dict[str, Any]:
    """Return {key: value} that a file must say so that it means what ``config`` does, which came from flags."""
    fields = fields_of(type(config))
    found: dict[str, Any] = {}
    name = "adam_epsilon"
    if name in fields and name not in config.model_fields_set:
        found[name] = getattr(config, name)
    if "min_iter_time_s" in fields and config.min_iter_time_s is None:
        found["min_iter_time_s"] = min_iter_seconds(config)  # 0 without workers, where no clock decides what a run does
    rllibs = {key: theirs(config, key) for key in found}
    return {key: found[key] for key, value in rllibs.items() if value is not None and value < found[key]}
