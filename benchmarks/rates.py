"""Env steps a second, sampled and learnt from, against the number of workers: how a run grows, and what saturates first.

    python benchmarks/rates.py                      # PPO, DDPPO, IMPALA, A3C and SAC; 0, 1, 2, 4 and 8 workers
    python benchmarks/rates.py --only ppo --workers 2 --seconds 30
    python benchmarks/rates.py --only ppo ddppo --workers 2 --turns 3   # equal batches and minibatches with two workers

Every figure is one run of the command line without evaluations. The first third of it is left out: Ray, TensorFlow and the
compiler start there. ``learning`` is the share of the time in which the learner was busy; near 1, more workers bring
nothing. With ``--turns`` the settings alternate, and their medians are printed at the end.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SETTINGS = {
    "ppo": (
        "PPO",
        "CartPole-v1",
        {
            "num_envs_per_worker": 16,
            "rollout_fragment_length": 256,
            "train_batch_size": 8192,
            "sgd_minibatch_size": 256,
            "num_sgd_iter": 8,
            "timesteps_per_iteration": 8192,
        },
    ),
    "ddppo": (
        "DDPPO",
        "CartPole-v1",
        {
            "num_envs_per_worker": 16,
            "rollout_fragment_length": 256,
            "sgd_minibatch_size": 128,  # of every worker: with two of them batch and minibatch are those of ppo
            "num_sgd_iter": 8,
            "timesteps_per_iteration": 8192,
        },
    ),
    "impala": (
        "IMPALA",
        "CartPole-v1",
        {
            "num_envs_per_worker": 16,
            "rollout_fragment_length": 50,
            "train_batch_size": 3200,
            "timesteps_per_iteration": 32000,
        },
    ),
    "a3c": (
        "A3C",
        "CartPole-v1",
        {"num_envs_per_worker": 16, "rollout_fragment_length": 50, "timesteps_per_iteration": 16000},
    ),
    "sac": ("SAC", "LunarLanderContinuous-v3", {"num_envs_per_worker": 8, "timesteps_per_iteration": 2000}),
}
"""name -> (algorithm, environment, config)"""


def main():
    """Run every setting with every number of workers and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run, its start included")
    parser.add_argument("--turns", type=int, default=1, help="of each setting and number of workers")
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f}\n")
    heads = ("workers", "sampled/s", "learnt/s", "learning", "lag mean", "lag max")
    print(f"{'setting':>8}  " + "  ".join(f"{head:>{max(8, len(head))}}" for head in heads))
    rows = []
    cases = [(name, workers) for name in options.only for workers in options.workers if workers or name != "ddppo"]
    for _ in range(options.turns):
        for name, workers in cases:
            rows.append({"setting": name, "workers": workers} | _run(name, workers, options.seconds))
            _print(rows[-1])
    if options.turns > 1:
        print(f"\nmedians of {options.turns} turns")
        for case in cases:
            turns = [row for row in rows if (row["setting"], row["workers"]) == case]
            _print(
                {name: value if isinstance(value, str) else _median(turns, name) for name, value in turns[0].items()}
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _median(rows, name):
    return statistics.median(row[name] for row in rows)


def _print(row):
    print(
        f"{row['setting']:>8}  {row['workers']:>8}  {row['sampled']:>9,.0f}  {row['learnt']:>8,.0f}  {row['learning']:>8.2f}  "
        f"{row['lag']:>8.2f}  {row['lag_max']:>8.0f}",
        flush=True,
    )


def _run(name, workers, seconds):
    """Return the rates of one run, in env steps a second."""
    algorithm, env, config = SETTINGS[name]
    try:
        lines = results(algorithm, env, config | {"num_workers": workers}, seconds)
    except RuntimeError as error:
        sys.exit(str(error))
    late = [line for line in lines if line["time_total_s"] > lines[-1]["time_total_s"] / 3]
    if len(late) < 2:
        sys.exit(
            f"{name} with {workers} workers: {len(lines)} iterations in {seconds:g} s are too few. Raise --seconds."
        )
    first, last, rest = late[0], late[-1], late[1:]
    took = last["time_total_s"] - first["time_total_s"]
    lags = [line["info"]["weight_lag_mean"] for line in rest if line["info"].get("weight_lag_mean") is not None]
    return {
        "sampled": (last["info"]["num_steps_sampled"] - first["info"]["num_steps_sampled"]) / took,
        "learnt": (last["info"]["num_steps_trained"] - first["info"]["num_steps_trained"]) / took,
        "learning": sum(line["timers"]["learn_s"] for line in rest) / took,
        "lag": sum(lags) / max(1, len(lags)),
        "lag_max": max((line["info"].get("weight_lag_max") or 0 for line in rest), default=0),
    }


def results(algorithm, env, config, seconds, more=()):
    """Run the command line for ``seconds`` without evaluations, ``more`` words behind it; return the lines of result.json.

    Raises RuntimeError with the end of its stderr when the command fails.
    """
    config = config | {"min_iter_time_s": 0, "evaluation_interval": None}
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable,
            "-m",
            "drl_cli",
            "train",
            "--run",
            algorithm,
            "--env",
            env,
            "--local-dir",
            folder,
            "-q",
        ]
        words += ["--config", json.dumps(config), "--stop", json.dumps({"time_total_s": seconds})]
        done = subprocess.run([*words, *more], capture_output=True, text=True)
        files = list(Path(folder).glob("*/*/result.json"))
        if done.returncode or not files:
            raise RuntimeError(done.stderr[-2000:])
        return [json.loads(line) for line in files[0].read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
