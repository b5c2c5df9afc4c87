"""The commands of ``docs/tutorials/cluster.rst``, typed on one machine: each must end with 0, and leave the cluster as it was.

    python benchmarks/cluster_tutorial.py                      # all of them
    python benchmarks/cluster_tutorial.py --only DDPPO         # starts the nodes, and runs the commands that contain DDPPO

It runs itself again by ``unshare`` in namespaces of its own. There the only network is loopback, so that ``ray start`` with an
address finds the head at 127.0.0.1 (elsewhere it takes this address for the machine's other one), no socket can be reached from
outside, and nothing is left when it ends. Each ``ray start`` is a node. The commands are run as they stand there but for what
``IN_PLACE`` replaces, sizes and resources of the nodes (``NODES``), and the end of ``drl train`` after updates (``TRAIN``).
The one with ``auto`` is ended by Ctrl-C (130).
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PAGE = Path(__file__).parent.parent / "docs/tutorials/cluster.rst"
SMALL = ["--object-store-memory", "200000000", "--disable-usage-stats"]
NODES = (
    ["--num-cpus", "16"],
    ["--num-cpus", "4", "--resources", '{"fast": 1}'],
    ["--num-cpus", "2"],
)  # in the page's order
IN_PLACE = {"HEAD": "127.0.0.1", "num_gpus=1": "custom_resources_for_learner.fast=1"}  # a machine without a GPU
TRAIN = ["--stop", "info/num_updates=1"]
SEARCH = ["--num-samples", "2"]
MODULES = {"ray": "ray.scripts.scripts", "drl": "drl_cli"}
INTERRUPTED = "--ray-address auto"
APART = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
APART += [
    "bash",
    "-c",
    '"$@"; exit $?',
    "bash",
]  # a first process that waits for the children of others, as ray stop needs
LIMIT_S = 600.0


def commands(page: str) -> list[list[str]]:
    """Return the words of all commands ``ray`` and ``drl`` in the code blocks of a page, in their order."""
    lines = page.replace("\\\n", " ").splitlines()
    typed = [line.strip() for line in lines if re.match(r" {4}(ray start|drl train) ", line)]
    return [shlex.split(line, comments=True) for line in typed]


def main() -> None:
    """Run the script in namespaces of its own, or there all commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a word of the drl commands to run")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.apart:
        if shutil.which("unshare") is None:
            sys.exit("unshare (of util-linux) is not there")
        command = [*APART, sys.executable, __file__, *sys.argv[1:], "--apart"]
        sys.exit(subprocess.run(command, check=False).returncode)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with tempfile.TemporaryDirectory() as folder:
        # Ray notes there which cluster this machine has: not for those outside.
        Path("/tmp/ray").mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp/ray"], check=True)
        os.environ["TUNE_RESULT_DIR"] = folder
        failed = _all(options.only)
    sys.exit(bool(failed))


def _all(only: str) -> int:
    """Run the commands; returns how many did not end as they must."""
    failed, nodes = 0, iter(NODES)
    found = commands(PAGE.read_text())
    for words in sorted(found, key=lambda words: words[0] != "ray"):  # all nodes first
        for typed, run in IN_PLACE.items():
            words = [word.replace(typed, run) for word in words]
        if words[0] == "ray":
            words += [*SMALL, *next(nodes)]
        elif only not in " ".join(words):
            continue
        else:
            words += TRAIN + (SEARCH if "--num-samples" in words else [])
        is_interrupted = INTERRUPTED in " ".join(words)
        code, seconds, output = _run(words, is_interrupted)
        daemons = sum(process.name() == "raylet" for process in psutil.process_iter())
        is_well = code == (130 if is_interrupted else 0)
        failed += not is_well
        load = f"load {os.getloadavg()[0]:.0f}"
        print(
            f"{'ok' if is_well else 'FAILED'}: code {code}, {seconds:.0f} s, {daemons} nodes, {load}: {shlex.join(words)}"
        )
        print("\n".join(f"    {line}" for line in output.splitlines()[-3 if is_well else -30 :]), flush=True)
    code, seconds, output = _run(["ray", "stop"], is_interrupted=False)
    print(f"ray stop: code {code}, {seconds:.0f} s: {output.strip()}")
    return failed + (code != 0)


def _run(words: list[str], is_interrupted: bool) -> tuple[int | None, float, str]:
    """Return (exit code, seconds, output) of a command, which with ``is_interrupted`` gets Ctrl-C when it trains."""
    began = time.monotonic()
    if is_interrupted:
        words = words[: -len(TRAIN)]
    with tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", MODULES[words[0]], *words[1:]]
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=words[0] != "ray")
        while process.poll() is None and time.monotonic() - began < LIMIT_S:
            if is_interrupted and "iteration 1:" in _text(output):
                os.killpg(process.pid, signal.SIGINT)
                is_interrupted = False
            time.sleep(0.5)
        if process.poll() is None:
            process.kill()
        code = process.wait()
        return code, time.monotonic() - began, _text(output)


def _text(file) -> str:
    file.seek(0)
    return file.read()


if __name__ == "__main__":
    main()
