"""Files of experiments: found by path or, for the shipped ones, by name.

A file is a mapping of experiment names to experiments (RLlib's schema). ``experiments.config_tree`` lays flags over them.
"""

import itertools
from pathlib import Path
from typing import Any

from drl_cli.config.assignments import load_file
from drl_cli.config.origins import Where
from drl_cli.errors import ConfigError, shown, suggestion
from drl_cli.experiments.tuned_files import shipped

SUFFIXES = (".yaml", ".yml", ".json")


def find(path_or_name: Path | str) -> Path:
    """Return the path of an experiment file, given its path or the name of a shipped one. Raises ConfigError."""
    path = Path(path_or_name).expanduser()
    known = shipped()
    name = path.name.removesuffix(".yaml")
    if path.is_file() or (path.exists() and name not in known):
        return path
    if str(path_or_name).removesuffix(".yaml") in known:
        return known[name]
    beside = [found.name for found in path.parent.iterdir() if found.suffix in SUFFIXES] if path.parent.is_dir() else []
    more = " drl example list shows the tuned files." if known else ""
    if path.suffix in SUFFIXES or len(path.parts) > 1:
        hint = suggestion(path.name, beside) or suggestion(name, known) or more
        raise ConfigError(f"{path_or_name}: there is no such file.{hint}")
    hint = suggestion(name, [*known, *beside]) or more
    raise ConfigError(f"{path_or_name}: neither a file nor the name of a tuned file.{hint}")


def recording_command(path_or_name: Path | str) -> str | None:
    """Return the command in the header of a file of experiments that records what it reads (its ``input``), or None."""
    lines = find(path_or_name).read_text("utf-8", errors="replace").splitlines()
    header = "\n".join(line.lstrip("# ") for line in itertools.takewhile(lambda line: line.startswith("#"), lines))
    commands = [line for line in header.replace("\\\n", "").splitlines() if line.startswith("drl train ")]
    return next((" ".join(command.split()) for command in commands if " output=" in command), None)


def load(path_or_name: Path | str) -> list[tuple[str, dict[str, Any], Where]]:
    """Return [(experiment name, mapping, Where)] of a file, in its order. Raises ConfigError."""
    data, where = load_file(str(find(path_or_name)))
    found = []
    flat = next((name for name in ("run", "algo", "env") if isinstance(data.get(name), str)), None)
    if flat:
        told = f"{where.name}: {flat} ({where.place((flat,))}) stands where the name of an experiment does"
        if flat == "env" and "config" not in data and "stop" not in data:
            raise ConfigError(
                f"{told}, and no run is named: it is a config. Type: drl train --run NAME --config @{where.name}"
            )
        raise ConfigError(f"{told}. Write a name above it, such as my-experiment:, and indent the rest under it.")
    for name, experiment in data.items():
        if not isinstance(experiment, dict):
            raise ConfigError(
                f"{name}: {shown(experiment)} is not an experiment ({where.place((name,))}). A file holds "
                "experiments by name: "
                f"{name}: {{run: SAC, env: Pendulum-v1, config: {{…}}}}"
            )
        found.append((name, experiment, where.inside(name)))
    if not found:
        raise ConfigError(f"{where.name}: no experiment in it.")
    return found
