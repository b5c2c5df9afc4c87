"""A checkpoint that needs names which no module has registered here: each command says which, of what, and what to import."""

import json
import sys
from pathlib import Path

import gymnasium
import pytest

from drl_cli import cli, plugins

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
MODULE = """
import drl_cli
import gymnasium
import numpy as np
import own_distribution
from gymnasium.envs.classic_control import PendulumEnv
import own_network


class Half(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


class Angle:
    def __init__(self, space, options):
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def transform(self, obs):
        return np.float32([np.arctan2(obs[1], obs[0]) / np.pi, obs[2] / 8.0])


drl_cli.register_env("TestsOwnSwing-v0", PendulumEnv, max_episode_steps=200)
drl_cli.register_env_wrapper("half", Half)
drl_cli.register_preprocessor("angle", Angle)
"""
CONFIG = {
    "num_workers": 0,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 10,
    "train_batch_size": 20,
    "sgd_minibatch_size": 10,
    "num_sgd_iter": 2,
    "timesteps_per_iteration": 100,
    "horizon": 30,
    "xla": False,
    "env_wrappers": ["half"],
    "model": {
        "custom_preprocessor": "angle",
        "custom_model": "fast_waves",
        "custom_action_dist": "beta",
        "custom_model_config": {"waves": 6, "units": 5},
    },
}
KINDS = {
    "model": (plugins.MODELS, "No model is registered as 'fast_waves'"),
    "distribution": (plugins.ACTION_DISTS, "No action distribution is registered as 'beta'"),
    "preprocessor": (plugins.PREPROCESSORS, "model.custom_preprocessor: No preprocessor is registered as 'angle'"),
    "wrapper": (plugins.ENV_WRAPPERS, "env_wrappers: There is no wrapper 'half'"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that needs a name of every kind, and its module imported."""
    folder = tmp_path_factory.mktemp("all")
    (folder / "tests_own_everything.py").write_text(MODULE)
    before = {registry: dict(registry._things) for registry, _ in KINDS.values()}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.syspath_prepend(str(folder))
        words = ["train", "--run", "PPO", "--env", "TestsOwnSwing-v0", "--import", "tests_own_everything", "--json"]
        words += ["--local-dir", str(folder), "--seed", "3", "--config", json.dumps(CONFIG)]
        assert cli.main([*words, "--stop", "timesteps_total=100"]) == 0
        (path,) = folder.glob("*/*/params.json")
        yield path.parent
    for registry, things in before.items():
        registry._things = things
    gymnasium.registry.pop("TestsOwnSwing-v0", None)
    plugins.ENVIRONMENTS._things.pop("TestsOwnSwing-v0", None)
    for name in ("tests_own_everything", "own_network", "own_distribution"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("command", ["rollout", "evaluate"])
def test_a_checkpoint_that_needs_an_import_is_refused_with_its_path(run, capsys, monkeypatch, kind, command):
    registry, told = KINDS[kind]
    monkeypatch.setattr(registry, "_things", {})
    path = run / "checkpoint_000001"
    assert cli.main([command, str(path), "--episodes", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {path}: {told}") and "--import MODULE" in line
    assert line.endswith("The run had --import tests_own_everything")


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_run_that_needs_an_import_is_not_resumed_and_names_its_file(run, capsys, monkeypatch, kind):
    registry, told = KINDS[kind]
    monkeypatch.setattr(registry, "_things", {})
    assert cli.main(["train", "--resume", str(run), "--stop", "timesteps_total=200"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line and "--import MODULE" in line and f"({run / 'params.json'}" in line
    assert line.endswith("The run had --import tests_own_everything")


def test_an_environment_that_is_not_registered_is_named_with_the_checkpoint(run, capsys, monkeypatch):
    monkeypatch.setattr(plugins.ENVIRONMENTS, "_things", {})
    monkeypatch.delitem(gymnasium.registry, "TestsOwnSwing-v0")
    path = run / "checkpoint_000001"
    for words in (["rollout", str(path)], ["evaluate", str(path)], ["train", "--resume", str(run)]):
        assert cli.main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert str(run) in line and "TestsOwnSwing-v0" in line
        assert line.endswith("The run had --import tests_own_everything")


def test_what_the_run_had_imported_is_left_out_where_it_is_not_known(run, tmp_path, capsys, monkeypatch):
    (run / "checkpoint_000001").rename(tmp_path / "checkpoint_000001")
    try:
        monkeypatch.setattr(plugins.PREPROCESSORS, "_things", {})
        assert cli.main(["rollout", str(tmp_path / "checkpoint_000001"), "--episodes", "1"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("name that module: --import MODULE.")
    finally:
        (tmp_path / "checkpoint_000001").rename(run / "checkpoint_000001")
