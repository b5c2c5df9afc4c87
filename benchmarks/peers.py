"""A tuned file beside Stable-Baselines3 and sbx at rl-zoo3's tuned settings: seconds to the same goal, in turn on one machine.

    python benchmarks/peers.py install --peers FOLDER       # the libraries, into a virtual environment of their own
    python benchmarks/peers.py run halfcheetah-crossq --peers FOLDER --against sbx:CrossQ sb3:TD3 --seeds 0 1

The goal is the file's. A clock runs from the start of a process to the first greedy evaluation at the goal that 50 fresh
episodes confirm; peers are evaluated as often as the file says, on as many episodes. rl-zoo3 has settings for version 4 (or
older) of some environments of which the file names version 5: they are used as they are. Where it has none, a peer has its
library's defaults. One line a run; *best* is the best of a peer's evaluations, *last* the env steps at the last one. Times of
one call are comparable with one another, since all of it ran on the same machine one after the other. *CPU s* leaves out what
Ray's processes use, where the file has workers.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import time_to_goal
import yaml

PACKAGES = ["stable-baselines3", "sbx-rl", "rl_zoo3", "gymnasium[classic-control,box2d]", "mujoco==3.3.7"]
DEFAULTS = {"n_timesteps": 1_000_000, "policy": "MlpPolicy"}
COLUMNS = ("touch s", "env steps", "CPU s", "best", "last")
CONFIRM, FIRST_SEED = 50, 10_000


def main() -> int:
    """Run the command that was typed."""
    options = _options()
    if options.command == "install":
        subprocess.run([sys.executable, "-m", "venv", options.peers], check=True)
        return subprocess.run([_python(options), "-m", "pip", "install", *PACKAGES], check=True).returncode
    if options.command == "peer":
        print(json.dumps(_train_peer(**json.loads(options.file))))
        return 0
    file = _tuned(options.file)
    print(f"{time_to_goal.machine_name()}, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'':16}{'seed':>6}" + "".join(f"{name:>11}" for name in COLUMNS))
    found: dict[str, list[float | None]] = {}
    for seed in options.seeds:
        for contestant in ("drl", *options.against):
            row = _drl(options, seed) if contestant == "drl" else _peer(options, file, contestant, seed)
            found.setdefault(contestant, []).append(row.get("touch s"))
            cells = "".join(f"{time_to_goal.text(row.get(name)):>11}" for name in COLUMNS)
            print(f"{contestant:16}{seed:>6}{cells}", flush=True)
    for contestant, times in found.items():
        reached = [seconds for seconds in times if seconds is not None]
        median = f", median {statistics.median(reached):.1f} s" if len(reached) == len(times) else ""
        print(f"{contestant:16}reached the goal {len(reached)} of {len(times)} times{median}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["install", "run", "peer"], help="peer: one training, inside FOLDER")
    parser.add_argument("file", nargs="?", help="a tuned file, by name")
    parser.add_argument("--peers", help="folder of the peers' virtual environment")
    parser.add_argument("--against", nargs="+", default=["sbx:CrossQ"], metavar="LIBRARY:ALGORITHM")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds until a run is stopped")
    options = parser.parse_args()
    if options.command != "peer" and not options.peers:
        parser.error("--peers FOLDER is missing: the peers' virtual environment, which install makes")
    if options.command == "run" and not options.file:
        parser.error("run what? drl example list shows the names of the tuned files")
    if options.command == "run" and not _python(options).exists():
        parser.error(f"{options.peers} is no virtual environment; peers.py install --peers {options.peers} makes it")
    for peer in options.against:
        if not re.fullmatch(r"(sb3|sbx):\w+", peer):
            parser.error(f"--against {peer}: a peer is sb3:NAME or sbx:NAME, such as sbx:CrossQ")
    return options


def _tuned(name: str) -> dict[str, Any]:
    """Return the experiment of the tuned file called ``name``; ends with 2 and the nearest name where there is none."""
    from drl_cli.errors import InputError  # not in the peers' virtual environment, which runs this file too
    from drl_cli.experiments import tuned_files

    try:
        path = tuned_files.find(name).path
    except InputError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    (file,) = yaml.safe_load(Path(path).read_text(encoding="utf-8")).values()
    return file


def _python(options: argparse.Namespace) -> Path:
    return Path(options.peers) / "bin" / "python"


def _drl(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return {column: value} of the tuned file with ``seed``."""
    command = [sys.executable, "-m", "drl_cli", "train", "-f", options.file]
    return time_to_goal.run(command, seed, options.timeout)


def _peer(options: argparse.Namespace, file: dict[str, Any], peer: str, seed: int) -> dict[str, Any]:
    """Return {column: value} of a peer on the file's environment, from a process of its own virtual environment."""
    config = file["config"]
    given = {
        "peer": peer,
        "env_id": file["env"],
        "env_config": config.get("env_config", {}),
        "goal": file["stop"]["evaluation/episode_reward_mean"],
        "every": config.get("timesteps_per_iteration", 1000) * config.get("evaluation_interval", 1),
        "episodes": config.get("evaluation_num_episodes", 10),
        "seed": seed,
        "timeout": options.timeout,
        "began": time.time(),
    }
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    words = [_python(options), __file__, "peer", json.dumps(given)]
    before = time_to_goal.cpu_seconds()
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    row = {"CPU s": time_to_goal.cpu_seconds() - before}
    if done.returncode:
        print(f"{peer}: exit code {done.returncode}\n{done.stderr[-1000:]}", file=sys.stderr)
        return row
    return row | json.loads(done.stdout.splitlines()[-1])


def _train_peer(
    peer: str,
    env_id: str,
    env_config: dict[str, Any],
    goal: float,
    every: int,
    episodes: int,
    seed: int,
    timeout: float,
    began: float,
) -> dict[str, Any]:
    """Train one peer up to the goal, or for ``timeout`` seconds; ``every`` env steps ``episodes`` greedy ones score it."""
    import gymnasium
    import rl_zoo3
    import rl_zoo3.exp_manager
    from stable_baselines3.common.callbacks import BaseCallback

    library, name = peer.split(":")
    row: dict[str, Any] = {}

    class ToTheGoal(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps // every > getattr(self, "scored", 0):
                self.scored = self.num_timesteps // every
                mean = self.score(episodes, self.num_timesteps)
                row.update({"best": max(mean, row.get("best", mean)), "last": self.num_timesteps})
                if mean >= goal and self.score(CONFIRM, FIRST_SEED) >= goal:
                    row.update({"touch s": time.time() - began, "env steps": self.num_timesteps})
                    return False
            return time.time() - began < timeout

        def score(self, count: int, first: int) -> float:
            env, total, normal = gymnasium.make(env_id, **env_config), 0.0, self.model.get_vec_normalize_env()
            for episode in range(count):
                obs, done = env.reset(seed=first + episode)[0], False
                while not done:
                    seen = normal.normalize_obs(obs) if normal else obs
                    obs, reward, ended, cut, _ = env.step(self.model.predict(seen, deterministic=True)[0])
                    total, done = total + float(reward), ended or cut
            return total / count

    if library == "sbx":
        import sbx

        rl_zoo3.ALGOS[name.lower()] = getattr(sbx, name)
    with tempfile.TemporaryDirectory() as folder:
        found = yaml.safe_load(
            (Path(rl_zoo3.exp_manager.__file__).parent / "hyperparams" / f"{name.lower()}.yml").read_text()
        )
        stem = re.sub(r"-v\d+$", "", env_id)
        tuned = (found[key] for key in (env_id, *(f"{stem}-v{version}" for version in (5, 4, 3, 2))) if key in found)
        config = Path(folder) / "settings.yml"
        config.write_text(yaml.safe_dump({env_id: next(tuned, DEFAULTS)}))
        manager = rl_zoo3.exp_manager.ExperimentManager(
            argparse.Namespace(),
            name.lower(),
            env_id,
            folder,
            eval_freq=-1,
            seed=seed,
            verbose=0,
            device="cpu",
            config=str(config),
            env_kwargs=env_config,
        )
        made = manager.setup_experiment()
        assert made is not None
        made[0].learn(manager.n_timesteps, callback=ToTheGoal())
    return row


if __name__ == "__main__":
    sys.exit(main())
