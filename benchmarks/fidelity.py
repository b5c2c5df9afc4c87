"""Receipts of the tuned files: run each over seeds on this machine, write the figures into its header and docs/measured.rst.

    python benchmarks/fidelity.py cartpole-ppo pendulum-td3
    python benchmarks/fidelity.py cartpole-ppo --set num_workers=0 --seeds 0 1 2 3 4 5 6 7 8 9
    python benchmarks/fidelity.py cartpole-ppo --further --seeds 5 6 7 8 9
    python benchmarks/fidelity.py --all --dry-run

Each run is a process of its own, timed as in ``time_to_goal.py``. Finished runs are kept in ``--record``, one line of JSON
each, and are not run again while file, settings, seed and source stay the same: an interrupted command goes on where it was.
A receipt is written once every seed of a file has its run. It names machine and day, and the load where other work was running.
"""

import argparse
import datetime
import hashlib
import itertools
import json
import math
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import time_to_goal

from drl_cli.config.strict_yaml import load_yaml_text
from drl_cli.errors import InputError
from drl_cli.experiments import tuned_files

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
BUSY = 1.0  # load average before the first run, above which a receipt says that other work was running


def main() -> int:
    """Measure the files, write their receipts; return 0 if every seed of every file touched its goal, else 4."""
    options = _options()
    try:
        files = [tuned_files.find(name) for name in options.files]
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    all_touched = True
    for example in files or tuned_files.every():
        key = identity(Path(example.path), options.set)
        rows = measure(
            options.seeds,
            finished(options.record, key),
            lambda seed, name=example.name: time_to_goal.run(_command(name, options.set), seed, options.timeout),
            lambda row, key=key, name=example.name: _keep(options.record, {"key": key, "file": name} | row),
        )
        for row in rows:
            row["bar"] = example.held_at if example.held_at is not None else row.get("target")
        took = receipt(rows, options.set)
        if options.further:
            took = f"seeds {_seeds(rows)}: {took} ({machine(rows)})"
        print(f"{example.name}: {took}", flush=True)
        all_touched &= all(row.get("touch s") is not None for row in rows)
        if options.dry_run:
            continue
        path = Path(example.path)
        path.write_text(with_receipt(path.read_text("utf-8"), took, rows, machine(rows)), encoding="utf-8")
        if not options.further:
            page = ROOT / "docs" / "measured.rst"
            text, is_there = with_table_row(page.read_text("utf-8"), example.name, options.set, rows)
            page.write_text(text, encoding="utf-8")
            if not is_there:
                print(
                    f"docs/measured.rst has no row for {example.name} with these settings, or a column too narrow for "
                    "its figures: add the row or widen the column, and run this again"
                )
    return 0 if all_touched else 4


def measure(
    seeds: Sequence[int], known: dict[int, Row], run: Callable[[int], Row], keep: Callable[[Row], None]
) -> list[Row]:
    """Return the row of each of ``seeds``: from ``known`` where it is there, else of a new ``run``, which ``keep`` is given."""
    rows = []
    for seed in seeds:
        if seed not in known:
            load = os.getloadavg()[0]
            known[seed] = run(seed) | {"load": load, "machine": time_to_goal.machine_name(), "day": _today()}
            keep(known[seed])
        rows.append(known[seed])
    return rows


def identity(path: Path, settings: Iterable[str]) -> str:
    """Return what a recorded run belongs to: a digest of the file without its comments, ``settings`` and the source."""
    body, _ = load_yaml_text(path.read_text("utf-8"), str(path))
    digest = hashlib.sha256("\0".join([path.stem, json.dumps(body), *settings]).encode())
    for source in sorted((ROOT / "drl_cli").rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def finished(record: Path, key: str) -> dict[int, Row]:
    """Return {seed: row} of the recorded runs of ``key``. A last line cut short by an interruption is left out."""
    rows = {}
    for line in record.read_text("utf-8").splitlines() if record.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["key"] == key:
            rows[row["seed"]] = row
    return rows


def receipt(rows: Sequence[Row], settings: Sequence[str]) -> str:
    """Return the text of the header's ``took``: median and worst time, env steps of the median, how many seeds held."""
    touched = [row for row in rows if row.get("touch s") is not None]
    condition = f"with {', '.join(text.replace('=', ' ', 1) for text in settings)}: " if settings else ""
    if not touched:
        return f"{condition}reached by 0 of {len(rows)}"
    times = [row["touch s"] for row in touched]
    steps = statistics.median(row["env steps"] for row in touched)
    margins = {f" (at {row['bar']:g})" for row in touched if row["bar"] != row.get("target", row["bar"])}
    held = f"{steps:,.0f} env steps; held {_held(rows)} of {len(rows)}{''.join(sorted(margins))}"
    if len(touched) < len(rows):
        return (
            f"{condition}reached by {len(touched)} of {len(rows)}, these in median {statistics.median(times):.1f} s "
            f"from the start of the process, {held}"
        )
    return f"{condition}median {statistics.median(times):.1f} s, worst {max(times):.1f} s from the start of the process, {held}"


def with_receipt(text: str, took: str, rows: Sequence[Row], where: str) -> str:
    """Return a tuned file with ``took`` in its header, in place of the line of the same condition (or as a further one).

    A condition is what ``took`` begins with up to a colon: "with" settings, or further "seeds", below the file's own.
    Where ``took`` is the file's own receipt, without further settings, seeds and machine are replaced, and receipts of further
    seeds ("seeds 5 to 9: …") are left out: they belong to the file as it was. Processor time is said of a file that runs in one
    process: that of Ray's processes is not measured.
    """
    condition = took.partition(": ")[0] + ": " if took.startswith(("with ", "seeds ")) else ""
    lines = _with_places(text).splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith("# took"))
    end = start + 1
    while end < len(lines) and re.match(r"# {4,}\S", lines[end]):
        end += 1
    receipts: list[str] = []
    for line in lines[start:end]:
        one = re.sub(r"^# (took)? *", "", line).rstrip("\n")
        if not receipts or re.match("with |seeds ", one):
            receipts.append(one)
        else:  # the receipt above is continued
            receipts[-1] += f"\n#          {one}"
    places = [i for i, one in enumerate(receipts) if (one.startswith(condition) if condition else i == 0)]
    if not condition:
        receipts = [one for one in receipts if not one.startswith("seeds ")]
    spent = [row["CPU s"] for row in rows if row.get("CPU s") is not None]
    if spent and not condition and tuned_files.workers(text) == 0:
        took += (
            f"\n#          {statistics.median(spent):.0f} s of processor time, the evaluations after the goal included"
        )
    if places:
        receipts[places[0]] = took
    else:
        receipts.insert(1 if condition.startswith("seeds ") else len(receipts), took)
    block = [f"# {'took' if i == 0 else '':<9}{one}\n" for i, one in enumerate(receipts)]
    text = "".join([*lines[:start], *block, *lines[end:]])
    if condition:
        return text
    text = re.sub(r"^# seeds {4}.*$", f"# seeds    {_seeds(rows)}", text, count=1, flags=re.MULTILINE)
    return re.sub(r"^# machine {2}.*$", f"# machine  {where}", text, count=1, flags=re.MULTILINE)


def _with_places(text: str) -> str:
    """Return a tuned file whose header ends with those of the lines of a receipt that it does not have yet."""
    header = list(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    places = ("# seeds    ", "# took     ", "# machine  ")
    missing = [place for place in places if not any(line.startswith(place) for line in header)]
    return "".join([*header, *(f"{place}not measured yet\n" for place in missing), text[len("".join(header)) :]])


def with_table_row(page: str, name: str, settings: Sequence[str], rows: Sequence[Row]) -> tuple[str, bool]:
    """Return (docs/measured.rst with the figures of ``rows`` in the table row of this file, whether there is one they fit).

    A row is found by its first cell: the file's name, and the condition after a comma where there are ``settings``. Some tables
    have a seventh column, for the processor time of the whole command.
    """
    touched = [row for row in rows if row.get("touch s") is not None]
    if not touched:
        return page, True
    condition = {", ".join(f"``{text.replace('=', ': ', 1)}``" for text in settings)}
    workers = next((text.partition("=")[2] for text in settings if text.startswith("num_workers=")), None)
    if len(settings) == 1 and workers:
        condition.add(f"{workers} workers")
    first_cells = {f"{name}, {one}" for one in condition} if settings else {name}
    times = [row["touch s"] for row in touched]
    worst = f"{max(times):.1f}" if len(touched) == len(rows) else "not reached"
    steps = statistics.median(row["env steps"] for row in touched)
    cells = [f"{statistics.median(times):.1f}", worst, f"{_held(rows)} of {len(rows)}", f"{steps:,.0f}"]
    cells.append(f"{statistics.median(row.get('CPU s', math.nan) for row in touched):.0f}")
    lines = page.splitlines(keepends=True)
    columns: list[tuple[int, int]] = []
    for i, line in enumerate(lines):
        if re.fullmatch(r"=+( +=+){5,6}\n?", line):
            columns = [match.span() for match in re.finditer("=+", line)]
        elif columns and line[slice(*columns[0])].strip() in first_cells:
            widths = [end - begin for begin, end in columns]
            first, goal = (line[begin:end].strip() for begin, end in columns[:2])
            if touched[0].get("target") is not None:
                goal = f"{touched[0]['target']:g}"
            texts = [first, goal, *cells][: len(columns)]
            if any(len(text) > width for text, width in zip(texts, widths, strict=True)):
                return page, False
            lines[i] = "  ".join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)).rstrip() + "\n"
            return "".join(lines), True
    return page, False


def machine(rows: Sequence[Row]) -> str:
    """Return the machine, the day of the last run, and the range of the load where other work was running beside the runs."""
    names = ", ".join(dict.fromkeys(row["machine"] for row in rows))
    loads = [row["load"] for row in rows]
    # The first run starts on the machine as it was; later ones see what is left of the one before.
    ends = dict.fromkeys(f"{load:.0f}" for load in (min(loads), max(loads)))
    beside = f", beside other work (load {' to '.join(ends)})" if loads[0] > BUSY else ""
    return f"{names}, {max(row['day'] for row in rows)}{beside}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help="tuned files, by name")
    parser.add_argument("--all", action="store_true", help="every tuned file that comes with drl: days on two cores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a config key, as drl train -s")
    parser.add_argument(
        "--further", action="store_true", help="the receipt of these seeds stands below the file's own, which stays"
    )
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds until a run is stopped")
    parser.add_argument(
        "--record", type=Path, default=ROOT / "build" / "fidelity.jsonl", help="where finished runs are kept"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the receipts, write none")
    options = parser.parse_args()
    if bool(options.files) == options.all:
        parser.error("name tuned files, or --all for every one (drl example list shows them)")
    if options.further and options.set:
        parser.error("--further measures the file as it is: leave --set out")
    return options


def _command(name: str, settings: Iterable[str]) -> list[str]:
    command = [sys.executable, "-m", "drl_cli", "train", "-f", name]
    for setting in settings:
        command += ["-s", setting]
    return command


def _keep(record: Path, row: Row) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    with record.open("a+", encoding="utf-8") as stream:
        stream.seek(0)
        text = stream.read()
        stream.write(("" if text.endswith("\n") or not text else "\n") + json.dumps(row) + "\n")


def _held(rows: Iterable[Row]) -> int:
    return sum(row.get("held") is not None and row["held"] >= row["bar"] for row in rows)


def _seeds(rows: Sequence[Row]) -> str:
    seeds = [row["seed"] for row in rows]
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _today() -> str:
    return datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()


if __name__ == "__main__":
    sys.exit(main())
