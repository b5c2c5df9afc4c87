"""Every shipped tuned file: it is named and described as promised, understood, runs, and (slow) reaches its goal.

A file is named after the environment and the algorithm, ``pendulum-td3``; a variant follows: ``cartpole-dqn-rainbow``.
Its header says goal, seeds, time and machine. A file that learns from recorded steps names the command that records them,
into the folder that it reads.
"""

import functools
import hashlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from experience_files import random_set

from drl_cli.algorithms import table
from drl_cli.cli import main
from drl_cli.config.parse import read
from drl_cli.config.result_names import goal_of
from drl_cli.config.rllib import semantics
from drl_cli.envs import make
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source
from drl_cli.experiments import experiment_defaults, experiment_files, spec
from drl_cli.extras import load

pytestmark = pytest.mark.process

FOLDER = Path(__file__).resolve().parent.parent / "tuned_examples"
ENVIRONMENTS = {
    "pendulum": "Pendulum-v1",
    "cartpole": "CartPole-v1",
    "stateless-cartpole": "drl/StatelessCartPole-v1",
    "stateless-pendulum": "drl/StatelessPendulum-v1",
    "acrobot": "Acrobot-v1",
    "mountaincar-continuous": "MountainCarContinuous-v0",
    "mountaincar-tasks": "drl/MountainCarTasks-v1",
    "steer-and-stop": "drl/SteerAndStop-v1",
    "lunarlander": "LunarLander-v3",
    "lunarlander-continuous": "LunarLanderContinuous-v3",
    "bipedalwalker": "BipedalWalker-v3",
    "pong": "ALE/Pong-v5",
    "point-reach": "drl/PointReach-v1",
    "bit-flipping": "drl/BitFlipping-v1",
    "deep-sea": "drl/DeepSea-v1",
    "two-step-game": "drl/TwoStepGame-v1",
    "multi-agent-cartpole": "drl/MultiAgentCartPole-v1",
    "multi-agent-cartpole-crashing": "drl/MultiAgentCartPoleCrashing-v1",
    "tic-tac-toe": "drl/TicTacToe-v1",
    "connect-four": "drl/ConnectFour-v1",
    "simple-speaker-listener": "mpe2/simple_speaker_listener-v4",
    "simple-spread": "drl/Team-v1",
    "multiwalker": "sisl/multiwalker-v9",
    "foraging-8x8-2p-2f-coop": "Foraging-8x8-2p-2f-coop-v3",
    "invertedpendulum": "InvertedPendulum-v5",
    "inverteddoublependulum": "InvertedDoublePendulum-v5",
    "reacher": "Reacher-v5",
    "halfcheetah": "HalfCheetah-v5",
    "walker2d": "Walker2d-v5",
    "pusher": "Pusher-v5",
    "hopper": "Hopper-v5",
    "humanoid": "Humanoid-v5",
    "ant": "Ant-v5",
    "swimmer": "Swimmer-v5",
}
"""What the first words of a file's name stand for."""
OTHER_FORMS = {"cartpole-ppo-lstm": "drl/StatelessCartPole-v1", "simple-spread-ppo": "mpe2/simple_spread-v3"}
"""Files of another form of the environment: without what can be remembered, or with a reward of each agent's own."""

ATARI = ("pong",)
needs_atari = pytest.mark.skipif(importlib.util.find_spec("ale_py") is None, reason="ale_py is not installed")
MUJOCO = (
    "invertedpendulum",
    "inverteddoublependulum",
    "reacher",
    "swimmer",
    "halfcheetah",
    "walker2d",
    "pusher",
    "hopper",
    "humanoid",
    "ant",
)
needs_mujoco = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("mujoco", "imageio"))), reason="pip install 'drl-cli[mujoco]'"
)


def nickname(name):
    """Return the longest nickname of an environment that a file's name begins with, None if there is none."""
    return max((word for word in ENVIRONMENTS if name.startswith(word + "-")), key=len, default=None)


def needs(name):
    """Return the marks that skip the file ``name`` where its environment's package is missing."""
    return needs_atari if nickname(name) in ATARI else needs_mujoco if nickname(name) in MUJOCO else ()


FILES = [pytest.param(path.stem, marks=needs(path.stem)) for path in sorted(FOLDER.glob("*.yaml"))]
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
FEW = {"training_intensity": 1}
"""The same of what learns from sequences, whose updates take longer than others: fewer of them."""


def small(run):
    """The settings of SMALL and SHORT that the algorithm ``run`` knows."""
    row = table.find(run)
    known = load(row.config).model_fields
    keys = SMALL | {"trajectory": SHORT, "sequences": FEW}.get(row.postprocess, {})
    return [word for key, value in keys.items() if key in known for word in ("-s", f"{key}={value}")]


def train(*words, timeout, cwd=None):
    command = [sys.executable, "-m", "drl_cli", "train", *map(str, words)]
    paths = os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")])
    env = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=cwd, env=env)


def text_of(name):
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def recording(name):
    """The words of the command that records what the file ``name`` reads, behind ``drl train``; None where it reads nothing."""
    found = re.search(r"^#   drl train ((?:.*\\\n)*.*)$", text_of(name), re.MULTILINE)
    return found and shlex.split(re.sub(r"\\\n# *", " ", found[1]))


ALIKE = (
    "pong-a2c",
    "pong-apex",
    "pong-impala",
    "pong-ppo-small",
    "cartpole-ppo-lstm",
    "cartpole-dqn-rainbow",
    "multi-agent-cartpole-ppo-apart",
    "multi-agent-cartpole-crashing-ppo",
    "tic-tac-toe-ppo-selfplay",
    "foraging-8x8-2p-2f-coop-vdn",
)
"""Files whose algorithm another file runs here, and whose environment, policies and nets other tests train."""


def alike_slowly(file):
    """The case ``file``, which only make test-slow runs if it is one of ``ALIKE``."""
    return pytest.param(*file.values, marks=(*file.marks, pytest.mark.slow)) if file.values[0] in ALIKE else file


STEPS = tempfile.TemporaryDirectory(prefix="drl-steps-")  # goes with the process


@functools.cache
def made_up(env_id):
    """A small file of steps that fit the environment, in place of what the files here read."""
    return random_set(Path(STEPS.name) / env_id / "a.json", env_id)


def instead(name):
    """The flags that make the file ``name`` read made-up steps, if it reads any."""
    return ["input=" + made_up(ENVIRONMENTS[nickname(name)])] if recording(name) else []


def imports(name):
    return ["--import", "ale_py"] if nickname(name) in ATARI else []


@functools.cache
def understood(name):
    """The experiment of the file ``name``, which several tests look at."""
    (made,) = spec.from_file(name, {"imports": imports(name)[1:], "set": instead(name)})
    return made


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_says_what_a_file_would_leave_to_rllib(name):
    ((_, mapping, where),) = experiment_files.load(name)
    row = table.find(mapping["run"])
    config, problems, _ = read(row, mapping["config"], where, table.rows())
    assert problems == [] and semantics.completed(config, is_file=True) == (config, {}, [])


def test_there_are_tuned_files():
    assert "lunarlander-continuous-sac" in {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_is_named_after_its_environment_and_algorithm(name):
    made = understood(name)
    assert made.name == name and nickname(name) is not None
    assert made.env_asked == OTHER_FORMS.get(name, ENVIRONMENTS[nickname(name)])
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
    assert rules["timesteps_total"] > 0 and ("episode_reward_mean" in rules or goal_of(rules) is not None)


@pytest.mark.parametrize("name", FILES)
def test_tuned_file_is_found_for_what_it_runs(name):
    made = understood(name)
    found = experiment_defaults.tuned_file(made.run, made.env_asked)
    assert name.startswith(found) and table.find(understood(found).run).name == made.run


@pytest.mark.parametrize("name", [alike_slowly(file) for file in FILES])
def test_tuned_file_runs_for_two_iterations(name, tmp_path, capfd):
    words = [
        "-f",
        name,
        "--local-dir",
        str(tmp_path),
        "--stop",
        '{"training_iteration": 2}',
        *imports(name),
        *small(understood(name).run),
        *(word for setting in instead(name) for word in ("-s", setting)),
    ]
    assert main(["train", *words]) == 0, capfd.readouterr().err
    (result,) = tmp_path.glob("*/*/result.json")
    assert [json.loads(line)["training_iteration"] for line in result.read_text().splitlines()] == [1, 2]


def is_smoke_run_only(name):
    """Whether the file's header says that nobody has waited for its goal here."""
    return "smoke-run only" in (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", [file for file in FILES if not is_smoke_run_only(file.values[0])])
def test_tuned_file_reaches_its_goal(name, tmp_path):
    if recording(name):
        assert train(*recording(name), "--local-dir", tmp_path / "of it", timeout=600, cwd=tmp_path).returncode == 0
    done = train("-f", name, "--local-dir", tmp_path, "--seed", "11", *imports(name), timeout=3600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (events,) = tmp_path.glob("*/*/events.jsonl")
    goals = [line for line in map(json.loads, events.read_text().splitlines()) if line["kind"] == "goal"]
    assert len(goals) == 1
    assert goals[0]["confirmed"] >= goals[0]["target"]


SETS = {
    "cartpole-marwil": ("9223c95226a8a17b28880e99fa5bc4d06805ed8e0bbcd4932910b691d42bed91", 15_360, 197, -1, 100),
    "pendulum-marwil": ("c616d3495d00940d2134c9ced31262f201e28a49ebd47939e9b7c20873e484ed", 10_000, 48, -900, -800),
}
"""SHA-256 of the recorded set, its steps and whole episodes, and between what its mean return is."""
LAYOUTS = {"cartpole": ("CartPole-v1", 500), "pendulum": ("Pendulum-v1", 200)}


def test_files_of_one_environment_read_one_set():
    assert recording("cartpole-marwil") == recording("cartpole-bc")
    assert [word for word in recording("cartpole-marwil") if "output=" in word] == ["output=recorded/cartpole-ppo"]
    assert "input: recorded/cartpole-ppo" in text_of("cartpole-marwil") and "recorded/pendulum-sac" in text_of(
        "pendulum-marwil"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_recorded_set_is_the_one_that_the_file_speaks_of(name, tmp_path):
    known, steps, episodes, low, high = SETS[name]
    assert train(*recording(name), "--local-dir", tmp_path / "runs", timeout=600, cwd=tmp_path).returncode == 0
    (file,) = tmp_path.glob("recorded/*/*.json")
    env_id, limit = LAYOUTS[nickname(name)]
    layout = layout_of(make.check(env_id, {}, table.find("MARWIL")), (limit,))
    pieces = list(Source(str(file), layout, passes=1))
    returns = [float(piece.reward.sum()) for piece in pieces if piece.is_whole]
    assert (sum(piece.steps for piece in pieces), len(returns)) == (steps, episodes)
    assert low < sum(returns) / episodes < high
    if version("tensorflow") != "2.21.0" or "AMD EPYC" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("another processor or TensorFlow rounds otherwise: the set is alike, not the same")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == known
