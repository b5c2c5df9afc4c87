"""Seconds from the start of the command to the first result with an update, on Pong: what one waits after a bare command.

    python benchmarks/first_update.py                       # PPO, A2C, IMPALA, APPO, DQN and SAC, no workers
    python benchmarks/first_update.py --only PPO -- -s xla=true

Every figure is one run of the command line, ended when the result is there. ``cpu``: processor seconds of its process until
then, which other work on the machine changes little; ``wall`` needs a quiet one. What follows ``--`` is typed behind the
command. Needs: pip install 'drl-cli[atari]'
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

ALGORITHMS = ("PPO", "A2C", "IMPALA", "APPO", "DQN", "SAC")


def main():
    """Run every algorithm and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=ALGORITHMS, metavar="NAME", help="algorithms")
    parser.add_argument("--env", default="ALE/Pong-v5")
    parser.add_argument("words", nargs="*", help="more words of the command, after --")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'algorithm':>10}  {'wall s':>7}  {'cpu s':>7}  {'env steps':>10}  {'updates':>8}")
    for name in options.only:
        row = _first_update(name, options.env, options.words)
        print(f"{name:>10}  {row[0]:>7.1f}  {row[1]:>7.1f}  {row[2]:>10,}  {row[3]:>8,}", flush=True)


def _first_update(name, env, more):
    """Return (wall seconds, CPU seconds, env steps, updates) at the first result that has an update."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable,
            "-m",
            "drl_cli",
            "train",
            "--run",
            name,
            "--env",
            env,
            "-s",
            "num_workers=0",
            "--json",
            "-q",
        ]
        began = time.perf_counter()
        process = subprocess.Popen([*words, "--local-dir", folder, *more], stdout=subprocess.PIPE, text=True)
        try:
            for line in process.stdout:
                result = json.loads(line)
                updates = result.get("info", {}).get("num_updates")
                if updates:
                    wall = time.perf_counter() - began
                    return wall, _cpu_seconds(process.pid), result["timesteps_total"], updates
        finally:
            process.kill()
            process.wait()
    sys.exit(f"{name} on {env} ended without an update")


def _cpu_seconds(pid):
    """Return the user and system seconds of a process, see proc(5)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
