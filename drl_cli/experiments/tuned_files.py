"""The tuned files that come with the program: where they are, and what their headers say of goal, time and machine.

Used by ``drl example``, by ``experiments.experiment_defaults`` to point at the file for a run, and by completions: imports
nothing heavy. The files are ours and look alike, so that a few patterns read them: 0.2 ms a file, where parsing the YAML would
take many times that.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import drl_cli
from drl_cli.errors import InputError, suggestion

EDITOR_LINE = "# yaml-language-server:"
_RUN_OR_ENV = re.compile(r"^  (run|env): *([^ #\n]+)", re.MULTILINE)
_WORKERS = re.compile(r"^    num_workers: *(\d+)", re.MULTILINE)
_FACT = re.compile(r"^# (goal|seeds|took|machine) +(\S.*)$")
_MORE = re.compile(r"^# {4,}(\S.*)$")  # a further line of the fact above
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_HOLDS = re.compile(r"\bholds? (-?[\d,]*\.?\d+)")
_MEDIAN, _WORST = re.compile(r"median ([\d.,]+) s"), re.compile(r"worst ([\d.,]+) s")
_STEPS = re.compile(r"(?<! to )\b([\d,]+) env steps")
_HELD = re.compile(r"\bheld (\d+) of (\d+)")
_FURTHER = re.compile(r"seeds \d")  # begins the receipt of further seeds, run with the same settings


class Example(NamedTuple):
    """One tuned file. ``about``: its first paragraph; ``notes``: the lines of the others, as they stand;
    ``goal``, ``seeds``, ``took``, ``machine``: what its header says of them.

    ``target``: the reward of the goal; ``held_at``: the one that later evaluations are measured against, where the goal
    leaves a margin above it; ``median_s``, ``worst_s``: seconds from the start of the process to the confirmed
    goal over the seeds, ``env_steps``: of the median seed; None where that was not measured. ``held``: (runs that held the
    goal, all runs), those of further seeds included. ``workers``: num_workers.
    """

    name: str
    run: str
    env: str
    about: str
    notes: list[str]
    goal: str
    target: float | None
    held_at: float | None
    seeds: str
    took: list[str]
    median_s: float | None
    worst_s: float | None
    env_steps: int | None
    held: tuple[int, int] | None
    machine: str
    workers: int | None
    path: str


class Named(Protocol):
    """What tells an ExperimentSpec that comes from a tuned file: the experiment's name and the algorithm's."""

    @property
    def name(self) -> str: ...

    @property
    def run(self) -> str: ...


def shipped_folder() -> Path:
    """Return the folder of the tuned files: inside the installed package, or beside it in a checkout."""
    package = Path(drl_cli.__file__).resolve().parent
    inside = package / "tuned_examples"
    return inside if inside.is_dir() else package.parent / "tuned_examples"


def shipped() -> dict[str, Path]:
    """Return {name: path} of the tuned files that come with the program."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*.yaml"))}


def run_and_env(text: str) -> tuple[str | None, str | None]:
    """Return (run, env) of a tuned file, None for what it does not give."""
    asked = dict(_RUN_OR_ENV.findall(text))
    return asked.get("run"), asked.get("env")


def every() -> list[Example]:
    """Return the Examples, by name."""
    return [read(path) for path in shipped().values()]


def workers(text: str) -> int | None:
    """Return num_workers of the text of a file, None where it leaves that to the default."""
    found = _WORKERS.search(text)
    return int(found[1]) if found else None


def read(path: Path) -> Example:
    """Return the Example of one file."""
    text = path.read_text("utf-8")
    run, env = run_and_env(text)
    facts, about, notes = _header(text)
    took = " ".join(facts["took"][:1])
    goal = " ".join(facts["goal"])
    target = _first(_NUMBER, goal)
    return Example(
        name=path.stem,
        run=run or "",
        env=env or "",
        about=about,
        notes=notes,
        goal=goal,
        target=target,
        held_at=target if (bar := _first(_HOLDS, goal)) is None else bar,
        seeds=" ".join(facts["seeds"]),
        took=facts["took"],
        median_s=_first(_MEDIAN, took),
        worst_s=_first(_WORST, took),
        env_steps=None if (steps := _first(_STEPS, took)) is None else int(steps),
        held=_held(facts["took"]),
        machine=" ".join(facts["machine"]),
        workers=workers(text),
        path=str(path),
    )


def find(name: str) -> Example:
    """Return the Example called ``name`` (with or without .yaml). Raises InputError with the nearest name."""
    known = shipped()
    plain = str(name).strip().removesuffix(".yaml")
    if plain not in known:
        hint = suggestion(plain, known) or " drl example list shows them."
        raise InputError(f"No tuned file {str(name)[:80]!r} comes with drl.{hint}")
    return read(known[plain])


def measured(spec: Named) -> Example | None:
    """Return the Example that an ExperimentSpec is a run of, if something was measured for it; else None."""
    one = read(path) if (path := shipped().get(spec.name)) else None
    return one if one and one.median_s is not None and one.run == spec.run else None


def matching(
    examples: Sequence[Example], words: Iterable[str] = (), run: str | None = None, env: str | None = None
) -> Sequence[Example]:
    """Return those of ``examples`` that have every one of ``words`` in name, algorithm or environment.

    ``run``: of one algorithm, in any spelling; ``env``: of one environment, any part of its id, whatever its version.
    """
    found = examples
    for word in words:
        found = [e for e in found if _plain(word) in _plain(f"{e.name} {e.run} {e.env}")]
    if run is not None:
        found = [e for e in found if _plain(e.run) == _plain(run)]
    if env is not None:
        wanted = _without_version(env)
        # The environment of that name if there are files for it, else whatever has the name in it.
        same = [e for e in found if wanted in (_without_version(e.env), _without_version(e.env).rpartition("/")[2])]
        found = same or [e for e in found if wanted in e.env.casefold()]
    return found


def _header(text: str) -> tuple[dict[str, list[str]], str, list[str]]:
    facts: dict[str, list[str]] = {name: [] for name in ("goal", "seeds", "took", "machine")}
    about: list[str] = []
    notes: list[str] = []
    current: list[str] | None = None
    is_first = True
    for line in text.splitlines():
        if line.startswith(EDITOR_LINE):
            continue
        if not line.startswith("#"):
            break
        fact, more = _FACT.match(line), _MORE.match(line)
        if fact:
            current = facts[fact[1]]
            current.append(fact[2].strip())
        elif more and current is not None:
            current.append(more[1].strip())
        elif is_first and line.strip("# "):
            about.append(line.strip("# "))
        else:
            is_first = False
            notes.append(line.removeprefix("#").removeprefix(" ").rstrip())
    return facts, " ".join(about), "\n".join(notes).strip("\n").split("\n") if any(notes) else []


def _held(took: Sequence[str]) -> tuple[int, int] | None:
    """Return (held, all) over the receipt of the file itself and those of further seeds; None without a count."""
    own = " ".join([line for i, line in enumerate(took) if i == 0 or _FURTHER.match(line)])
    counts = [(int(held), int(all_runs)) for held, all_runs in _HELD.findall(own)]
    return (sum(held for held, _ in counts), sum(runs for _, runs in counts)) if counts else None


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[match.lastindex or 0].replace(",", "")) if match else None


def _plain(text: str) -> str:
    return text.casefold().replace("-", "").replace("_", "")


def _without_version(env: str) -> str:
    return re.sub(r"-v\d+$", "", env.strip()).casefold()
