"""Keys of RLlib's experiments that have no effect here, or that stand for others: read, named in a notice, and dropped.

Used by ``experiments.spec``, before ``config.experiment_keys`` reads what is left; what neither knows is refused there. Source:
RLlib's experiment files and the keyword arguments of Ray Tune's Experiment, 0.8 to 1.13.
"""

import re
from collections.abc import Mapping
from typing import Any

from drl_cli.config.origins import Where
from drl_cli.config.result_names import is_number_field
from drl_cli.config.rllib.common_defaults import class_name
from drl_cli.config.rllib.ignored_keys import IDLE, Idle, asks_for_nothing, fits, taken
from drl_cli.errors import shown

ANYWAY = {
    "upload_dir": (None, ""),
    "sync_config": (None,),
    "export_formats": (None, []),
    "loggers": (None,),
    "trial_name_creator": (None,),
    "sync_to_driver": (None,),
    "time_budget_s": (None,),
}
"""Key → values with which it asks for nothing."""

_ON_DISK = "a checkpoint is complete on the run's own disk before training continues"
IDLE_KEYS = {
    "sync_on_checkpoint": Idle(_ON_DISK),
    "sync_to_driver": Idle("the run's own process writes everything"),
    "log_to_file": Idle("each run has its drl.log"),
    "export_formats": Idle(
        "each checkpoint is one: plain data, manifest.json and weights.safetensors", (), ("checkpoint",)
    ),
    "frameworks": IDLE[("framework",)],
}
"""Key → why it has no effect; a list is read element by element."""

_ALGORITHM = re.compile(r"(Torch|TF)?(Trainer|Agent|Config)$")
BUDGET, STOP_FIELD = "time_budget_s", "time_total_s"

STORAGE = ("upload_dir", "sync_config.upload_dir")
"""Earlier names of ``storage_path``, dotted: RLlib's up to 1.13, and Ray Tune's up to 2.6."""

STOP_FIELDS = {
    "num_env_steps_sampled": "timesteps_total",
    "num_agent_steps_sampled": "timesteps_total",
    "num_env_steps_sampled_lifetime": "timesteps_total",
    "episode_return_mean": "episode_reward_mean",
}
"""Names of result fields in RLlib 2 → the field that stands for them, behind one of ``SECTIONS`` or without."""

SECTIONS = ("sampler_results/", "env_runners/", "info/")
EVALUATION = "evaluation/"
NO_FIELDS = ("use_pytorch", "framework", "eager")
"""Keys of the config that files of RLlib 0.8 have among their stop rules, where RLlib never reached them."""


def settled(mapping: Mapping[str, Any], where: Where) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return (the mapping without such keys, notices, problems); ``where``: the Where of the mapping."""
    left: dict[str, Any] = dict(mapping)
    notices: list[str] = []
    problems: list[str] = []
    _algorithm(left, where, notices, problems)
    if left.get("config", {}) is None:
        left["config"] = {}  # a heading with nothing under it
    _storage(left, where, notices, problems)
    for name, values in ANYWAY.items():
        if name in left and asks_for_nothing(values, left[name]):
            notices.append(f"{name} {shown(left.pop(name))} is what drl does anyway.")
    for name, idle in IDLE_KEYS.items():
        if name not in left:
            continue
        value = left[name]
        if all(fits(idle, one) for one in (value if isinstance(value, list) else [value])):
            notices.append(f"{name} {shown(left.pop(name))} has no effect: {idle.why}.")
        elif name != "export_formats":  # other formats are made when the run ends
            left.pop(name)
            problems.append(f"{name}: {shown(value)} is not allowed; it takes {taken(idle)} ({where.place((name,))}).")
    _budget(left, where, notices, problems)
    for section in ("stop", "pass_criteria"):
        _fields(section, left, where, notices, problems)
    return left, notices, problems


def _algorithm(left: dict[str, Any], where: Where, notices: list[str], problems: list[str]) -> None:
    """Read ``algo`` as ``run``, and the class path of one of RLlib's algorithms as its name."""
    if "algo" in left:
        value, place = left.pop("algo"), where.place(("algo",))
        if left.setdefault("run", value) != value:
            problems.append(f"algo: another name of run, which is given as well ({place}).")
        notices.append(f"algo ({place}) is read as run.")
    name = class_name(left.get("run"))
    if name:
        short = _ALGORITHM.sub("", name)
        notices.append(f"run {left['run']} ({where.place(('run',))}) is read as {short}.")
        left["run"] = short


def _storage(left: dict[str, Any], where: Where, notices: list[str], problems: list[str]) -> None:
    """Read the earlier names of ``storage_path``."""
    section = left.get("sync_config")
    nested = section if isinstance(section, dict) and set(section) == {"upload_dir"} else {}
    for name, value in zip(STORAGE, (left.get("upload_dir"), nested.get("upload_dir")), strict=True):
        if value in (None, ""):
            continue
        path = tuple(name.split("."))
        place = where.place(path)
        left.pop(path[0])
        if left.setdefault("storage_path", value) != value:
            problems.append(f"{name}: another name of storage_path, which is given as well ({place}).")
        notices.append(f"{name} ({place}) is read as storage_path.")


def _budget(left: dict[str, Any], where: Where, notices: list[str], problems: list[str]) -> None:
    """Put ``time_budget_s`` among the stop rules."""
    if BUDGET not in left:
        return
    value, place, rules = left.pop(BUDGET), where.place((BUDGET,)), left.get("stop")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        problems.append(f"{BUDGET}: {shown(value)} is not allowed; it takes a number of seconds > 0 ({place}).")
    elif rules is None or isinstance(rules, dict):
        before = (rules or {}).get(STOP_FIELD, value)
        least = min(before, value) if isinstance(before, (int, float)) else before
        left["stop"] = {**(rules or {}), STOP_FIELD: least}
        notices.append(f"{BUDGET} {shown(value)} ({place}) is read as stop: {{{STOP_FIELD}: {shown(least)}}}.")


def _fields(section: str, left: dict[str, Any], where: Where, notices: list[str], problems: list[str]) -> None:
    """Give the result fields of stop rules, or of criteria, the names that they have here."""
    rules = left.get(section)
    if not isinstance(rules, dict):
        return
    found: dict[str, Any] = {}
    for field, threshold in rules.items():
        place = where.place((section, field))
        name = _field(str(field))
        if field in NO_FIELDS:
            notices.append(f"{section}: unknown result field {field} ({place}); it never stopped a run.")
        elif name in found or (name != field and name in rules):
            problems.append(f"{section}: {field} ({place}) is another name of {name}, which is given as well.")
        else:
            found[name] = threshold
            notices += [f"{section}: {field} ({place}) is read as {name}."] if name != field else []
    left[section] = found


def _field(name: str) -> str:
    """Return what a result field of RLlib 2 is called here."""
    if name.startswith(EVALUATION):
        return EVALUATION + _field(name.removeprefix(EVALUATION))
    bare = next((name.removeprefix(section) for section in SECTIONS if name.startswith(section)), name)
    if bare in STOP_FIELDS:
        return STOP_FIELDS[bare]
    return bare if is_number_field(bare) and not name.startswith("info/") else name
