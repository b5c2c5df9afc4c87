"""The run to go on with: found in the results, and what it recorded of its experiment.

Used by ``experiments.config_tree``. A run folder holds ``params.json`` (what ``experiments.spec`` made of the input) and
``status.json`` (its ``state``). A resumed run keeps its settings; what may change is listed here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from drl_cli.config.assignments import load_file
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.origins import Where
from drl_cli.config.plain_data import HIDDEN, value_at
from drl_cli.errors import RunFolderError, shown, suggestion
from drl_cli.runs.find import find_unfinished
from drl_cli.runs.run_folder import is_params

CHANGEABLE = (
    "num_workers",
    "num_cpus_per_worker",
    "num_gpus_per_worker",
    "custom_resources_per_worker",
    "custom_resources_for_learner",
    "custom_resources_for_replay",
    "memory_for_replay",
    "log_level",
    "store_buffer_in_checkpoints",
    "checkpoint_compress",
)
"""Config keys that a resumed run may change; stop rules and other checkpoint settings are no part of the config."""


class Recorded:
    """What a run recorded: its ``folder``, ``experiment`` name, ``mapping`` as in a file, ``where``, ``env_asked``.

    ``imports``: the modules of its ``--import``, which are shown and never imported.
    """

    def __init__(self, folder: Path) -> None:
        """Read the ``params.json`` of a run folder. Raises ConfigError, RunFolderError."""
        params, self.where = load_file(str(folder / "params.json"))
        if not is_params(params):
            raise RunFolderError(f"{folder / 'params.json'}: is not that of a run of drl, or damaged")
        self.folder = folder
        self.experiment = str(params.get("experiment") or folder.parent.name)
        self.env_asked = params.get("env_asked")
        self.imports: list[str] = list(params.get("imports") or [])
        self.mapping: dict[str, Any] = {name: params[name] for name in ExperimentKeys.model_fields if name in params}
        self.mapping["local_dir"] = str(folder.parent.parent)
        self.mapping.pop("restore", None)  # a resumed run starts from its own newest checkpoint
        if isinstance(self.mapping.get("config"), dict):
            self.mapping["config"] = {name: value for name, value in self.mapping["config"].items() if name != "env"}

    def changes(self, mapping: Mapping[str, Any], where: Where) -> list[str]:
        """Return one line for each setting in ``mapping`` that differs from the recorded one and may not."""
        found = []
        pairs = [(name, (name,)) for name in ("run", "env", "local_dir", "restore")]
        pairs += [(name, ("config", name)) for name in (mapping.get("config") or {}) if name not in CHANGEABLE]
        for name, path in pairs:
            old, new = value_at(self.mapping, path), value_at(mapping, path)
            if HIDDEN in _strings(new):
                found.append(
                    f"{name}: a secret value was not recorded ({where.place(path)}). Type it again: -s {name}.KEY=VALUE"
                )
                continue
            old = _revealed(old, new)
            if old != new and not (name == "env" and new == self.env_asked):
                found.append(
                    f"{name}: the run has {shown(old)}, {shown(new)} is given ({where.place(path)}). A resumed "
                    "run keeps its "
                    f"settings, except {', '.join(CHANGEABLE)}, stop rules and checkpoints; --restore starts a new run."
                )
        return found


def find_run(target: Path | str | Literal[True], local_dir: Path, experiment: str) -> Path:
    """Return the folder of the run to go on with.

    ``target``: a run folder, something in it, its name under ``local_dir``, or True for the newest run of the
    experiment that is not finished. Raises RunFolderError that names the places that were searched.
    """
    home = local_dir / experiment
    if target is True:
        return find_unfinished(local_dir, experiment)
    path = Path(target).expanduser()
    for candidate in (path, home / target, local_dir / target):
        for folder in (candidate, *list(candidate.absolute().parents)[:2]):
            if (folder / "params.json").is_file():
                return folder.absolute()
    names = [run.name for run in _runs(home)]
    raise RunFolderError(f"{target}: no run there (a run folder holds params.json).{suggestion(path.name, names)}")


def _runs(home: Path) -> list[Path]:
    """Return the run folders of an experiment, the one started last first."""
    found = [params.parent for params in home.glob("*/params.json")]
    return sorted(found, key=lambda folder: (folder / "params.json").stat().st_mtime_ns, reverse=True)


def completed(old: Any, fresh: Any, new: Any) -> Any:
    """Return the recorded ``old`` with the defaults, from ``fresh``, of keys in sections that only ``new`` has.

    A run of an earlier version did not record the keys that its sections have got since.
    """
    if not (isinstance(old, dict) and isinstance(fresh, dict) and isinstance(new, dict)):
        return old
    names = [*old, *(name for name in new if name not in old and name in fresh)]
    return {name: completed(old.get(name, fresh.get(name)), fresh.get(name), new.get(name)) for name in names}


def _strings(value: Any) -> list[str]:
    """Return all strings in a value of plain data."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    return [value] if isinstance(value, str) else []


def _revealed(old: Any, new: Any) -> Any:
    """Return ``old`` with its hidden values taken from ``new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _revealed(value, new.get(name, value)) for name, value in old.items()}
    return new if old == HIDDEN else old
