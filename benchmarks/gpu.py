"""Milliseconds of the learner for an update, on the CPU and on a GPU: which networks and batches a GPU is worth having for.

    python benchmarks/gpu.py                           # every setting, with num_gpus 0 and 1
    python benchmarks/gpu.py --only sac-256 pong-dqn --seconds 30
    python benchmarks/gpu.py --gpus 0                  # a machine without one
    python benchmarks/gpu.py --only pong-ppo -- -s xla=false

Every figure is one run of the command line without workers and evaluations. ``ms``: the learner's time for an update, what
it takes from the replay buffer or the batch included, over the run without its first third; ``first s``: preparing the
first update (XLA compiles there); ``env steps/s``: sampling included. What follows ``--`` is typed behind the command. The
settings of Pong need: pip install 'drl-cli[atari]'
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rates

CONTINUOUS, PONG = "LunarLanderContinuous-v3", "ALE/Pong-v5"
REPLAY = {"learning_starts": 500, "buffer_size": 10000, "timesteps_per_iteration": 32, "updates_per_call": 16}
IMAGES = {"model": {"fcnet_hiddens": []}}


def _wide(units, batch):
    nets = {"Q_model": {"fcnet_hiddens": [units, units]}, "policy_model": {"fcnet_hiddens": [units, units]}}
    return ("SAC", CONTINUOUS, REPLAY | nets | {"train_batch_size": batch, "training_intensity": batch})


def _dqn(batch):
    return ("DQN", PONG, REPLAY | IMAGES | {"train_batch_size": batch, "training_intensity": batch, "hiddens": [256]})


SETTINGS = {
    "sac-256": _wide(256, 256),
    "sac-1024": _wide(1024, 256),
    "sac-1024-1024": _wide(1024, 1024),
    "pong-dqn": _dqn(32),
    "pong-dqn-256": _dqn(256),
    "pong-ppo": (
        "PPO",
        PONG,
        IMAGES
        | {
            "num_envs_per_worker": 8,
            "rollout_fragment_length": 128,
            "train_batch_size": 1024,
            "sgd_minibatch_size": 256,
            "num_sgd_iter": 4,
            "timesteps_per_iteration": 1024,
            "vf_share_layers": True,
        },
    ),
}
"""name -> (algorithm, environment, config); the numbers in a name are units and transitions of a batch. An update for each env
step with replay, 16 for 1,024 with PPO"""


def main():
    """Run every setting with every number of GPUs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--gpus", type=float, nargs="+", default=[0, 1])
    parser.add_argument("--seconds", type=float, default=30.0, help="of training, the first update included")
    parser.add_argument("--json", help="write the rows to this file")
    parser.add_argument("words", nargs="*", help="more words of the command, after --")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'setting':>14}  {'num_gpus':>8}  {'ms':>8}  {'updates':>8}  {'first s':>8}  {'env steps/s':>11}")
    rows = []
    for name in options.only:
        for gpus in options.gpus:
            try:
                row = {"setting": name, "num_gpus": gpus} | _run(name, gpus, options.seconds, options.words)
            except RuntimeError as error:
                print(f"{name:>14}  {gpus:>8g}  {error}", flush=True)
                continue
            rows.append(row)
            print(
                f"{name:>14}  {gpus:>8g}  {row['ms']:>8.2f}  {row['updates']:>8,}  {row['first']:>8.1f}  {row['rate']:>11,.0f}",
                flush=True,
            )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def _run(name, gpus, seconds, more):
    """Return the milliseconds of an update, how many there were, the seconds of the first and env steps a second.

    Raises RuntimeError when the command fails, or when there was no update in the last two thirds of the run.
    """
    algorithm, env, config = SETTINGS[name]
    lines = rates.results(algorithm, env, config | {"num_workers": 0, "num_gpus": gpus}, seconds, more)
    lines = [line for line in lines if line["info"].get("num_updates")]
    late = [line for line in lines if line["time_total_s"] > lines[-1]["time_total_s"] / 3]
    updates = late[-1]["info"]["num_updates"] - late[0]["info"]["num_updates"] if late else 0
    if not updates:
        raise RuntimeError(f"{seconds:g} s are too few. Raise --seconds.")
    took = late[-1]["time_total_s"] - late[0]["time_total_s"]
    return {
        "ms": 1000 * sum(line["timers"]["learn_s"] for line in late[1:]) / updates,
        "updates": updates,
        "first": lines[0]["timers"]["prepare_s"],
        "rate": (late[-1]["timesteps_total"] - late[0]["timesteps_total"]) / took,
    }


if __name__ == "__main__":
    main()
