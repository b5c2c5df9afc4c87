"""Every shipped tuned file: it is named and described as promised, understood, runs, and (slow) reaches its goal.

A file is named after the environment and the algorithm, ``pendulum-td3``; a variant follows: ``cartpole-dqn-rainbow``.
Its header says goal, seeds, time and machine.
"""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drl_cli.algorithms import table
from drl_cli.experiment import defaults, spec
from drl_cli.loading import load

FOLDER = Path(__file__).resolve().parent.parent / "tuned_examples"
ENVIRONMENTS = {
    "pendulum": "Pendulum-v1",
    "cartpole": "CartPole-v1",
    "stateless-cartpole": "drl/StatelessCartPole-v1",
    "acrobot": "Acrobot-v1",
    "mountaincar-continuous": "MountainCarContinuous-v0",
    "lunarlander": "LunarLander-v3",
    "lunarlander-continuous": "LunarLanderContinuous-v3",
    "bipedalwalker": "BipedalWalker-v3",
    "pong": "ALE/Pong-v5",
}
"""What the first words of a file's name stand for."""
BLIND = {"cartpole-ppo-lstm": "drl/StatelessCartPole-v1"}
"""Files for what a recurrent policy is needed for: the same environment, without what can be remembered."""

ATARI = ("pong",)
needs_atari = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale_py is not installed")


def nickname(name):
    """Return the longest nickname of an environment that a file's name begins with, None if there is none."""
    return max((word for word in ENVIRONMENTS if name.startswith(word + "-")), key=len, default=None)


FILES = [
    pytest.param(path.stem, marks=needs_atari if nickname(path.stem) in ATARI else ())
    for path in sorted(FOLDER.glob("*.yaml"))
]
SMALL = {
    "num_workers": 0,
    "num_replay_shards": 0,
    "learner_actor": "false",
    "learning_starts": 200,
    "buffer_size": 2000,
    "timesteps_per_iteration": 400,
    "min_iter_time_s": 0,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_confirm_episodes": 1,
    "xla": "false",
}
"""What makes a run of two iterations inline and small, whatever the file asks for."""
SHORT = {
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 50,
    "train_batch_size": 200,
    "sgd_minibatch_size": 100,
    "num_sgd_iter": 2,
    "vf_iterations": 2,
}
"""The same of what learns from trajectories."""


def small(run):
    """The settings of SMALL and SHORT that the algorithm ``run`` knows."""
    row = table.find(run)
    known = load(row.config).model_fields
    keys = SMALL | (SHORT if row.postprocess == "trajectory" else {})
    return [word for key, value in keys.items() if key in known for word in ("-s", f"{key}={value}")]


def train(*words, timeout):
    command = [sys.executable, "-m", "drl_cli", "train", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def imports(name):
    return ["--import", "ale_py"] if nickname(name) in ATARI else []


def understood(name):
    (made,) = spec.from_file(name, {"imports": imports(name)[1:]})
    return made


def test_there_are_tuned_files():
    assert "lunarlander-continuous-sac" in {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_is_named_after_its_environment_and_algorithm(name):
    made = understood(name)
    assert made.name == name and nickname(name) is not None
    assert made.env == BLIND.get(name, ENVIRONMENTS[nickname(name)])
    algorithm = made.run.lower().replace("_", "-")
    assert re.fullmatch(rf"{nickname(name)}-{algorithm}(-\w+)?", name), f"{name}: {nickname(name)}-{algorithm}"


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_says_in_its_header_what_to_expect(name):
    header = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").split(f"\n{name}:")[0]
    assert all(line.startswith("#") for line in header.splitlines())
    told = {word for word in ("goal", "seeds", "took", "machine") if re.search(rf"^# {word} +\S", header, re.MULTILINE)}
    assert told == {"goal", "seeds", "took", "machine"}


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_has_a_goal_and_an_end(name):
    rules = understood(name).stop
    assert rules["timesteps_total"] > 0 and any("episode_reward_mean" in field for field in rules)


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_is_found_for_what_it_runs(name):
    made = understood(name)
    found = defaults.tuned_file(made.run, made.env)
    assert name.startswith(found) and table.find(understood(found).run).name == made.run


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_runs_for_two_iterations(name, tmp_path):
    words = [
        "-f",
        name,
        "--local-dir",
        tmp_path,
        "--stop",
        '{"training_iteration": 2}',
        *imports(name),
        *small(understood(name).run),
    ]
    done = train(*words, timeout=180)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("*/*/result.json")
    assert [json.loads(line)["training_iteration"] for line in result.read_text().splitlines()] == [1, 2]


def is_smoke_run_only(name):
    """Whether the file's header says that nobody has waited for its goal here."""
    return "smoke-run only" in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [file for file in FILES if not is_smoke_run_only(file.values[0])])
def test_tuned_file_reaches_its_goal(name, tmp_path):
    done = train("-f", name, "--local-dir", tmp_path, "--seed", "11", *imports(name), timeout=3600)
    assert done.returncode == 0, done.stderr
    (events,) = tmp_path.glob("*/*/events.jsonl")
    goals = [line for line in map(json.loads, events.read_text().splitlines()) if line["kind"] == "goal"]
    assert len(goals) == 1
    assert goals[0]["confirmed"] >= goals[0]["target"]
