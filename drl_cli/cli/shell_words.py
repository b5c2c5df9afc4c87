"""What a shell completes for options and arguments: algorithms, environments, tuned files, runs.

Used by ``options`` and the commands, as click's ``shell_complete``. A shell asks at every press of a key: nothing here imports
TensorFlow, Ray or gymnasium, and only the keys of an algorithm take pydantic (0.15 s). Environments are read off gymnasium's
own file of registrations and the games that ale_py brings, without importing either. Modules of ``--import`` that stand in the
line, and plug-ins that are installed, are imported: what they register is known only then.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.config.result_names import NUMBER_FIELDS
from drl_cli.errors import InputError
from drl_cli.experiments.tuned_files import run_and_env, shipped
from drl_cli.extras import load
from drl_cli.process import results_folder
from drl_cli.runs.run_names import RUN_FOLDER

MOST_RUNS = 30
Words = Sequence[str | CompletionItem]
OWN_ENVS = (
    "drl/StatelessCartPole-v1",
    "drl/BitFlipping-v1",
    "drl/ConnectFour-v1",
    "drl/DeepSea-v1",
    "drl/External-v1",
    "drl/MountainCarTasks-v1",
    "drl/MultiAgentCartPole-v1",
    "drl/MultiAgentCartPoleCrashing-v1",
    "drl/PointReach-v1",
    "drl/SteerAndStop-v1",
    "drl/StatelessPendulum-v1",
    "drl/TicTacToe-v1",
    "drl/TwoStepGame-v1",
)
"""What ``envs.bundled_envs`` registers."""
_GAMES = re.compile(r"legacy_games = \[(.*?)\]", re.DOTALL)  # those for one player
_WORD = re.compile(r'"(\w+)"')
_RECORD = re.compile(r"search_.*_[0-9a-f]{5}\.json")
_REGISTERED = re.compile(r'\bid="([^"]+)"')


def algorithms(context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Names for --run, in any case."""
    _import(context)
    return [name for name in table.names() if name.casefold().startswith(begun.casefold())]


def environments(context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Ids for --env; games only where something of their name is typed."""
    known = [*OWN_ENVS, *_ids_of_gymnasium(), *(_games() if begun else ()), *_import(context)]
    return sorted({name for name in known if name.casefold().startswith(begun.casefold())})


def tuned_files(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Names of tuned files."""
    return [name for name in shipped() if name.startswith(begun)]


def runs_and_files(context: click.Context, option: click.Parameter, begun: str) -> Words:
    """Runs, and names of tuned files where something of one is typed."""
    return [*(tuned_files(context, option, begun) if begun else ()), *runs(context, option, begun)]


def fields(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Fields of a result, also after ``min-``."""
    sign = "min-" if begun.startswith("min-") else ""
    return [sign + name for name in NUMBER_FIELDS if name.startswith(begun.removeprefix("min-"))]


def settings(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Keys for -s, each with its ``=``: of the algorithm that --run names, or that the tuned file of -f runs."""
    if "=" in begun:
        return []
    name = context.params.get("run") or _run_of_tuned_file(context.params.get("config_file"))
    return [CompletionItem(f"{key}=", help=meaning) for key, meaning in _keys(context, name) if key.startswith(begun)]


def keys(context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Keys for --key of drl algorithms NAME."""
    # Where an option still lacks its value, click leaves the argument before it among the rest.
    name = context.params.get("name") or next(iter(context.args), None)
    found = _keys(context, name)
    return [CompletionItem(key, help=meaning) for key, meaning in found if begun.casefold() in key.casefold()]


def _keys(context: click.Context, name: str | None) -> list[tuple[str, str]]:
    """(key, meaning) of each key of the algorithm ``name``, of PPO's and SAC's common ones without a name."""
    from drl_cli.config import key_description

    _import(context)
    try:
        schemas = [load(table.find(one).config) for one in ([name] if name else ["PPO", "SAC"])]
    except InputError:
        return []
    first, *others = [{key["key"]: key["meaning"] for key in key_description.keys(schema)} for schema in schemas]
    return [(key, meaning) for key, meaning in first.items() if all(key in other for other in others)]


def _run_of_tuned_file(name: str | None) -> str | None:
    path = shipped().get(str(name).removesuffix(".yaml"))
    return run_and_env(_text(path))[0] if path else None


def one_of(words: tuple[str, ...]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what completes one of ``words``."""
    return lambda _context, _option, begun: [word for word in words if word.casefold().startswith(begun.casefold())]


def searches(context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Ids of searches, from the names of their records."""
    home = results_folder(context.params.get("local_dir"))
    names = [name for folder in _folders(home) for name in os.listdir(folder.path)]
    ids = [name.removesuffix(".json").rpartition("_")[2] for name in names if _RECORD.fullmatch(name)]
    return [search for search in ids if search.startswith(begun)]


def experiment_files(_context: click.Context, _option: click.Parameter, begun: str) -> Words:
    """Names of tuned files for -f, and files."""
    names = [name for name in shipped() if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


def runs(context: click.Context, _option: click.Parameter, begun: str) -> Words:
    """Runs, the newest first, for arguments and options that take a run or a checkpoint; and files.

    As paths, and where the beginning of an id is typed, as ids.
    """
    if any(begun.startswith(sign) for sign in ("/", ".", "~")):
        return [CompletionItem(begun, type="file")]
    home = results_folder(context.params.get("local_dir"))
    there = [
        (match[1], os.path.join(experiment.path, run), run.rpartition("_")[2])
        for experiment in _folders(home)
        for run in os.listdir(experiment.path)
        if (match := RUN_FOLDER.fullmatch(run))
    ]
    found = [(when, path, None) for when, path, _ in there if os.path.basename(path).startswith(begun)]
    found += [(when, short, os.path.basename(path)) for when, path, short in there if begun and short.startswith(begun)]
    newest = [CompletionItem(word, help=name) for _, word, name in sorted(found, reverse=True)[:MOST_RUNS]]
    return newest or [CompletionItem(begun, type="file")]


def folders(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(begun, type="dir")]


def files(_context: click.Context, _option: click.Parameter, begun: str) -> list[CompletionItem]:
    """Files."""
    return [CompletionItem(begun, type="file")]


def _import(context: click.Context) -> list[str]:
    """Import the modules of ``--import`` in the line; returns the names of environments that are registered then."""
    for name in (context.params.get("imports") if context else None) or ():
        # A completion that fails offers nothing: the command itself says why.
        with contextlib.suppress(Exception, SystemExit), contextlib.redirect_stdout(None):
            from drl_cli.envs.make import import_module

            import_module(name)
    return list(plugins.ENVIRONMENTS.all())


def _folders(home: Path | str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(home) as entries:
            return [entry for entry in entries if entry.is_dir()]
    except OSError:  # nothing to offer
        return []


def _ids_of_gymnasium() -> list[str]:
    place = _folder_of("gymnasium")
    return _REGISTERED.findall(_text(place / "envs" / "__init__.py")) if place else []


def _games() -> list[str]:
    place = _folder_of("ale_py")
    listed = _GAMES.search(_text(place / "registration.py")) if place else None
    names = [name.title().replace("_", "") for name in _WORD.findall(listed[1])] if listed else []
    return [shown for name in names for shown in (f"ALE/{name}-v5", f"{name}NoFrameskip-v4")]


def _folder_of(package: str) -> Path | None:
    spec = find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:  # nothing to offer
        return ""
