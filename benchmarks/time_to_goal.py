"""Time to the goal of a tuned file over seeds: runs the command line, as a user would, and reads what it wrote.

    python benchmarks/time_to_goal.py lunarlander-continuous-sac
    python benchmarks/time_to_goal.py lunarlander-continuous-sac --set num_workers=0 --seeds 0 1 2 3 4

The clock runs from the start of the process (imports, Ray and compilation included) to the touch: a greedy evaluation at
the goal that fresh episodes inside the run confirm (``evaluation_confirm_episodes``). *Held* is the mean of the next
three evaluations; they run after the clock has stopped. *Success* is the success rate of the last one, where there is one.
Every run is a process of its own, one after the other. *CPU s* is the processor time of that process until its end, those
evaluations included: it depends less on what else the machine does. What Ray's processes use is not in it.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOLD = 3
COLUMNS = (
    "seed",
    "touch s",
    "env steps",
    "updates",
    "confirmed",
    "held",
    "success",
    "ready s",
    "learn s",
    "eval s",
    "wall s",
    "CPU s",
)


def main():
    """Run the file over the seeds, print a table as they come in, then the medians."""
    options = _options()
    command = [sys.executable, "-m", "drl_cli", "train"]
    command += ["-f", options.file] if options.file else []
    for value in options.set:
        command += ["-s", value]
    command += options.flags
    print(
        f"{' '.join(command[1:])}\n{machine_name()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n"
    )
    print("  ".join(f"{name:>9}" for name in COLUMNS), flush=True)
    rows = []
    for seed in options.seeds:
        rows.append(run(command, seed, options.timeout))
        print("  ".join(f"{text(rows[-1].get(name)):>9}" for name in COLUMNS), flush=True)
    touched = [row["touch s"] for row in rows if row.get("touch s") is not None]
    bar = {row["seed"]: row.get("target") if options.held_at is None else options.held_at for row in rows}
    held = [row for row in rows if row.get("held") is not None and row["held"] >= bar[row["seed"]]]
    print(f"\ntouched {len(touched)} of {len(rows)}, held {len(held)} of {len(rows)}")
    if touched:
        worst = f"{max(touched):.1f} s" if len(touched) == len(rows) else "not reached"
        print(f"median {statistics.median(touched):.1f} s, best {min(touched):.1f} s, worst {worst}")
        steps = statistics.median(row["env steps"] for row in rows if row.get("touch s") is not None)
        updates = statistics.median(row["updates"] for row in rows if row.get("touch s") is not None)
        print(f"median env steps {steps:,.0f}, updates {updates:,.0f}")
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0 if len(touched) == len(rows) else 4


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="a tuned file, by name or path")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a config key, as drl train -s")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until a run is stopped")
    parser.add_argument("--held-at", type=float, help="what the held mean must reach; by default the file's goal")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("--flags", type=shlex.split, default=[], help="further words for drl train, in one string")
    return parser.parse_args()


def run(command, seed, timeout):
    """Return {column: value} of one run of ``command`` with ``seed``, without what it did not reach in ``timeout`` seconds."""
    with tempfile.TemporaryDirectory(prefix="time-to-goal-") as folder:
        full = [*command, "--seed", str(seed), "--local-dir", folder, "-s", f"evaluation_hold={HOLD}", "-q"]
        began, spent = time.monotonic(), cpu_seconds()
        process = subprocess.Popen(full, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()
            _, errors = process.communicate()
        row = {"seed": seed, "wall s": time.monotonic() - began, "CPU s": cpu_seconds() - spent}
        for path in Path(folder).rglob("events.jsonl"):
            row |= _read(path)
        for path in Path(folder).rglob("result.json"):
            row |= _spent(path)
        if process.returncode not in (0, 143):
            print(f"seed {seed}: exit code {process.returncode}\n{errors}", file=sys.stderr)
    return row


def cpu_seconds():
    """Return the processor seconds of all child processes that have ended and been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read(path):
    row = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        kind = event.get("event") or event.get("kind")
        if kind == "goal":
            row |= {"touch s": event["seconds"], "env steps": event["timesteps_total"], "updates": event["num_updates"]}
            row |= {"confirmed": event["confirmed"], "target": event["target"]}
        elif kind == "held":
            row["held"] = event["value"]
        elif kind == "milestone" and event["name"] == "learner_ready":
            row["ready s"] = event["seconds"]
    return row


def _spent(path):
    results = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    learn = sum(result["timers"]["learn_s"] or 0.0 for result in results)
    if not results:
        return {"learn s": learn}
    success = (results[-1].get("evaluation") or {}).get("success_rate")
    return {"learn s": learn, "eval s": results[-1]["timers"]["evaluate_s"], "success": success}


def text(value):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}" if 0.0 <= value <= 1.0 else f"{value:,.1f}"
    return f"{value:,}"


def machine_name():
    """Return cores and processor of this machine: "2 cores of an AMD EPYC 7B13"."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0))
    return f"{cores} core{'s' if cores > 1 else ''} of {model or platform.machine()}"


def _lines(path):
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
