"""Plug-ins as a user has them: a package that is installed, a module behind ``--import``, and what takes their names."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from surroundings import forgetting_plug_ins

from drl_cli import cli

pytestmark = pytest.mark.process

DRL = [sys.executable, "-m", "drl_cli"]
MODULE = '''
import gymnasium
import numpy as np

from drl_cli import Algorithm, register_algorithm, register_env, register_exploration
from drl_cli.evolution.keys import ESConfig
from drl_cli.config.schema import default


class Strides(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, reward=1.0):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, False, False, {}


class OwnConfig(ESConfig, defaults={"episodes_per_batch": default(8), "train_batch_size": default(20)}):
    """ES in small rounds."""


class Jumps:
    def __init__(self, settings, spec, count):
        self.by = settings["by"]

    def act(self, policy, obs, state, rng, at):
        return policy.act(obs, state, rng, False)


def register():
    register_env("Strides-v0", Strides, max_episode_steps=5)
    register_exploration("Jumps", Jumps, {"by": 0.5})
    register_algorithm(Algorithm(
        name="SMALLES", config=OwnConfig, nets="drl_cli.evolution.net", graph="drl_cli.evolution.es_update",
        postprocess="fitness", loop="evolution", actions=("Box",), observations=("Box1d",), tensorflow=False,
    ))
'''
QUICK = ["-s", "num_workers=0", "-s", "timesteps_per_iteration=40", "-s", "evaluation_interval=null", "--seed", "3"]


@pytest.fixture
def folder(tmp_path):
    """A folder with the module, and what pip writes beside a package that has an entry point in it."""
    (tmp_path / "strides.py").write_text(MODULE)
    (tmp_path / "imported.py").write_text("import strides\nstrides.register()\n")
    return tmp_path


def install(folder, points):
    info = folder / "strides-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strides\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[drl_cli.plugins]\n{points}\n")


def in_a_process(folder, *words, code=0):
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    environ = {**os.environ, "PYTHONPATH": path, "TUNE_RESULT_DIR": str(folder / "results")}
    done = subprocess.run(
        [*DRL, *map(str, words)], capture_output=True, text=True, timeout=120, env=environ, cwd=folder
    )
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def in_this_process(folder, *words, code=0):
    """``drl``, without the seconds of a new process, which sees nothing of what was imported and registered before."""
    taken = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, forgetting_plug_ins(), contextlib.redirect_stdout(taken):
        patch.setenv("TUNE_RESULT_DIR", str(folder / "results"))
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        for name in ("strides", "imported"):
            patch.delitem(sys.modules, name, raising=False)
        assert cli.main(list(map(str, words))) == code
    return taken.getvalue()


def the_run(folder):
    (run,) = (path.parent for path in (folder / "results").glob("*/*/params.json"))
    return run


def test_names_of_an_installed_plug_in_are_known_in_new_processes(folder):
    install(folder, "strides = strides:register")
    words = ["train", "--run", "SMALLES", "--env", "Strides-v0", *QUICK, "--stop", "training_iteration=2", "--json"]
    out, _ = in_a_process(folder, *words)
    assert json.loads(out.splitlines()[1])["episode_reward_mean"] == 5.0
    assert in_a_process(folder, "rollout", the_run(folder), "--episodes", "1")[0].startswith("Episode #0: reward: 5.0")


def test_names_of_an_imported_plug_in_work_in_every_command(folder):
    extra = ["--import", "imported"]

    def drl(*words):
        return in_this_process(folder, *words, *extra)

    listed = json.loads(drl("algorithms", "--json"))["algorithms"]
    assert listed[-1]["name"] == "SMALLES"
    sheet = json.loads(drl("algorithms", "smalles", "--json", "--key", "episodes_per_batch"))
    assert (sheet["about"], sheet["keys"][0]["default"]) == ("ES in small rounds.", 8)
    (found,) = json.loads(drl("envs", "Strides", "--json"))["environments"]
    assert "SMALLES" in found["fits"]
    drl("env", "check", "Strides-v0", "--config", '{"env_config": {"reward": 2.0}}')
    stop = ["--stop", "training_iteration=2"]
    out = drl("train", "--run", "SMALLES", "--env", "Strides-v0", *QUICK, *stop, "--json")
    assert json.loads(out.splitlines()[1])["episode_reward_mean"] == 5.0
    run = the_run(folder)
    assert drl("rollout", run, "--episodes", "1").startswith("Episode #0: reward: 5.0")
    scores = json.loads(drl("evaluate", run, "--episodes", "2", "--json"))
    assert scores["checkpoints"][0]["greedy"]["mean"] == 5.0
    assert drl("explain", run, "--given").startswith("SMALLES on Strides-v0")
    drl("train", "--resume", run, "--stop", "training_iteration=3")
    assert len((run / "result.json").read_text().splitlines()) == 3
    assert drl("diff", run, run) == ""
    (folder / "mine.yaml").write_text("mine: {run: SMALLES, env: Strides-v0}")
    assert "episodes_per_batch" in drl("diff", "mine.yaml", run, "--all")


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--run", "SMALLES", "--env", "CartPole-v1"],
        ["algorithms", "SMALLES"],
        ["train", "--run", "TD3", "--env", "Pendulum-v1", "--config", '{"exploration_config": {"type": "Jumps"}}'],
        ["train", "--run", "SAC", "--env", "Strides-v0"],
    ],
)
def test_without_the_import_each_name_is_refused_in_one_line_that_says_what_to_do(folder, capsys, words):
    assert in_this_process(folder, *words, code=2) == ""
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "--import" in err


def test_plug_in_that_fails_is_named_where_a_name_is_missing(folder):
    install(folder, "strides = strides:registre")
    _, err = in_a_process(folder, "train", "--run", "SMALLES", "--env", "CartPole-v1", code=2)
    assert "The plug-in strides (strides:registre) failed: AttributeError" in err
    in_a_process(folder, "algorithms", "SAC")


@pytest.mark.parametrize(
    ("options", "option", "begun", "whole"),
    [([], "--run", "small", "SMALLES"), (["--import", "imported"], "--env", "Stri", "Strides-v0")],
    ids=["installed", "imported"],
)
def test_names_are_completed(folder, options, option, begun, whole):
    if not options:
        install(folder, "strides = strides:register")
    words = ["drl", "train", *options, option, begun]
    environ = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_DRL_COMPLETE": "bash_complete"}
    program = "import sys; from drl_cli import cli; sys.argv = ['drl']; sys.exit(cli.main())"
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    environ = {**os.environ, **environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, cwd=folder)
    assert (done.stdout.splitlines(), done.stderr) == ([f"plain,{whole}"], "")
