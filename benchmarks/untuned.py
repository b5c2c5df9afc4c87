"""Bare ``drl train --env X`` against Stable-Baselines3 and sbx with their defaults, on environments that no tuned file covers.

    python benchmarks/untuned.py install --peers FOLDER             # both libraries, into a virtual environment of their own
    python benchmarks/untuned.py run --peers FOLDER --json rows.json
    python benchmarks/untuned.py run --only Taxi-v3 --contestants drl --seeds 0 1

Every contestant trains for ``--cpu`` CPU seconds of its processes, start-up, compilation and its own evaluations included, or
for three times as many wall seconds where steps wait. drl runs in one process (``--local-mode``). Peers use one environment,
one thread for PyTorch, and an EvalCallback of every 10,000 steps. Then the policy with the best evaluation plays 20 fresh
greedy episodes; a peer's last policy plays them too, and the higher mean counts. Discrete actions: PPO of Stable-Baselines3
and DQN of sbx; Box: SAC of sbx and TD3 of Stable-Baselines3; other actions: PPO of both. They get one-hot vectors where an
observation is no Box, and a time limit of 1,000 steps where there is none, as drl sets itself; no key is tuned.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAMES = "SparsePendulum LongCartPole TinyRewardPendulum HugeRewardAcrobot OffsetCartPole WideActionPendulum "
NAMES += (
    "AsymmetricPendulum SlowCartPole EndlessPendulum TwoPoles CopyBits DictCartPole NoisyCartPole RewardAtEndCartPole"
)
ENVS = ["MountainCar-v0", "CliffWalking-v1", "FrozenLake8x8-v1", "Taxi-v3", "Blackjack-v1", "Hard/WindyLander-v0"]
ENVS += [f"Hard/{name}-v0" for name in NAMES.split()]
EPISODES, FIRST_SEED, WITHOUT_LIMIT = 20, 10_000, 1000
PACKAGES = ["stable-baselines3", "sbx-rl", "gymnasium[classic-control,toy-text]==1.2.2", "box2d", "pygame"]


def main() -> int:
    """Run the command that was typed."""
    options = _options()
    if options.command == "install":
        return _install(Path(options.peers))
    if options.command == "peer":
        return _train_peer(options)
    rows = []
    for env in options.only or ENVS:
        for seed in options.seeds:
            for contestant in options.contestants:
                began, load = time.monotonic(), os.getloadavg()[0]
                row = _drl(env, seed, options) if contestant == "drl" else _peer(env, seed, contestant, options)
                rows.append({"env": env, "seed": seed, "contestant": contestant, "load": load, **row})
                print(
                    f"{env:28} {seed:4} {contestant:8} {time.monotonic() - began:6.1f} s  {json.dumps(row)}", flush=True
                )
                if options.json:
                    Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["install", "run", "peer"], help="peer: one training, inside FOLDER")
    parser.add_argument("--peers", help="folder of the peers' virtual environment")
    parser.add_argument("--only", nargs="+", metavar="ENV")
    parser.add_argument("--contestants", nargs="+", default=["drl", "first", "second"], help="drl, or a peer")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--cpu", type=float, default=60.0, help="CPU seconds of a training")
    parser.add_argument("--json", help="write the rows to this file")
    return parser.parse_args()


def _install(folder: Path) -> int:
    """Make a virtual environment and install both libraries with the pip of this interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return subprocess.run([folder / "bin" / "python", "-m", "pip", "install", *PACKAGES], check=True).returncode


def _drl(env: str, seed: int, options: argparse.Namespace) -> dict:
    """Train bare and score the best checkpoint; returns what was chosen, the score, and the seconds."""
    words = [sys.executable, "-m", "drl_cli"]
    module = ["--import", "difficulties"] if env.startswith("Hard/") else []
    with tempfile.TemporaryDirectory(prefix="untuned-") as folder:
        train = [*words, "train", "--env", env, *module, "--seed", str(seed), "--local-dir", folder, "--local-mode"]
        spent, errors = _within(train, options.cpu)
        chosen = re.findall(r"(?:No --run given: (\w+),)|(?:Keys: (.*)\.$)", errors, re.MULTILINE)
        row = {"cpu_s": spent[0], "wall_s": spent[1], "chosen": " ".join(one or other for one, other in chosen)}
        runs = [path.parent for path in Path(folder).rglob("result.json")]
        if not runs:
            return row | {"error": errors[-600:]}
        score = [
            *words,
            "evaluate",
            str(runs[0]),
            *module,
            "--episodes",
            str(EPISODES),
            "--seed",
            str(FIRST_SEED),
            "--json",
        ]
        score += ["--config", '{"env_config": {"pause": 0}}'] if "Slow" in env else []
        score += ["--max-steps", str(WITHOUT_LIMIT)] if _is_endless(env) else []
        done = subprocess.run(score, capture_output=True, text=True, env=_environ(), check=False)
        if done.returncode:
            return row | {"error": done.stderr[-600:]}
        last = json.loads(runs[0].joinpath("result.json").read_text(encoding="utf-8").splitlines()[-1])
        steps = {"steps": last["timesteps_total"], "notes": re.findall(r"Looks .*", errors)}
        return row | steps | {"mean": json.loads(done.stdout)["checkpoints"][0]["greedy"]["mean"]}


def _within(command: list[str], cpu_s: float) -> tuple[tuple[float, float], str]:
    """Run ``command`` until its processes have used ``cpu_s``, then end it; returns ((CPU seconds, wall seconds), stderr)."""
    began, before = time.monotonic(), os.times()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, env=_environ())
        while process.poll() is None:
            if _cpu_seconds(process.pid) >= cpu_s or time.monotonic() - began >= 3 * cpu_s:
                process.terminate()
                process.wait()
            time.sleep(0.1)
        after = os.times()
        errors.seek(0)
        used = after.children_user + after.children_system - before.children_user - before.children_system
        return (round(used, 1), round(time.monotonic() - began, 1)), errors.read()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process and the children it has waited for have used; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)]), "OMP_NUM_THREADS": "1"}


def _is_endless(env: str) -> bool:
    return env in ("CliffWalking-v1", "Hard/EndlessPendulum-v0")


def _peer(env: str, seed: int, which: str, options: argparse.Namespace) -> dict:
    """Train and score a peer in a child process of its own virtual environment."""
    python = Path(options.peers) / "bin" / "python"
    command = [python, __file__, "peer", "--only", env, "--contestants", which, "--seeds", str(seed)]
    command += ["--cpu", str(options.cpu)]
    done = subprocess.run(command, capture_output=True, text=True, env=_environ(), check=False)
    return {"error": done.stderr[-600:]} if done.returncode else json.loads(done.stdout.splitlines()[-1])


def _train_peer(options: argparse.Namespace) -> int:
    """Train one peer within the budget, score it, and print its row as JSON."""
    began = time.monotonic()
    import difficulties  # noqa: F401  registers environments
    import gymnasium
    import numpy as np
    import torch
    from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    (env_id,), (which,), (seed,) = options.only, options.contestants, options.seeds

    def make(**settings: Any) -> gymnasium.Env:
        limit = {"max_episode_steps": WITHOUT_LIMIT} if _is_endless(env_id) else {}
        made = gymnasium.make(env_id, **limit, **settings)
        if isinstance(made.observation_space, gymnasium.spaces.Box):
            return made
        return gymnasium.wrappers.DtypeObservation(gymnasium.wrappers.FlattenObservation(made), np.float32)

    class Budget(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() < options.cpu and time.monotonic() - began < 3 * options.cpu

    name, algorithm = _algorithm(gymnasium.make(env_id).action_space, which)
    with tempfile.TemporaryDirectory() as folder:
        best = Path(folder) / "best_model.zip"
        evaluations = EvalCallback(make_vec_env(make, 5), best_model_save_path=folder, eval_freq=10_000, verbose=0)
        model = algorithm("MlpPolicy", make_vec_env(make, 1, seed=seed), seed=seed, device="cpu")
        model.learn(10**9, callback=[Budget(), evaluations])
        row = {"chosen": name, "cpu_s": round(time.process_time(), 1), "wall_s": round(time.monotonic() - began, 1)}
        row["steps"] = model.num_timesteps
        policies = [model, *([algorithm.load(best, device="cpu")] if best.exists() else [])]
    means = []
    for policy in policies:
        fresh = make_vec_env(lambda: make(**({"pause": 0.0} if "Slow" in env_id else {})), EPISODES, seed=FIRST_SEED)
        means.append(float(evaluate_policy(policy, fresh, EPISODES, deterministic=True)[0]))
    print(json.dumps({**row, "mean": max(means)}))
    return 0


def _algorithm(actions: object, which: str) -> tuple[str, type]:
    """Return the name and the class of the ``which`` ("first", "second") peer for an action space."""
    import sbx
    import stable_baselines3 as sb3

    kind = type(actions).__name__
    named = {"Discrete": ("sb3 PPO", "sbx DQN"), "Box": ("sbx SAC", "sb3 TD3")}.get(kind, ("sb3 PPO", "sbx PPO"))
    name = named[("first", "second").index(which)]
    library, algorithm = name.split()
    return name, getattr({"sb3": sb3, "sbx": sbx}[library], algorithm)


if __name__ == "__main__":
    sys.exit(main())
