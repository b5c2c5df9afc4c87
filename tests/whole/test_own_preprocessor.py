"""A preprocessor of one's own through the commands and from Python: trained, played, scored, resumed, acted with, refused."""

import json
import sys

import gymnasium
import masked_envs  # noqa: F401  registers Doors-v0
import numpy as np
import pytest

from drl_cli import Trainer, checkpoints, cli, plugins

pytestmark = pytest.mark.process

MODULE = """
import drl_cli
import numpy as np
from gymnasium.spaces import Box


class Angle:
    def __init__(self, space, options):
        self.scale = options.get("scale", 8.0)
        self.observation_space = Box(-1.0, 1.0, (2,), np.float32)

    def transform(self, obs):
        cos, sin, speed = obs
        return np.float32([np.arctan2(sin, cos) / np.pi, speed / self.scale])


drl_cli.register_preprocessor("angle", Angle)
"""
SMALL = {
    "num_workers": 0,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 10,
    "train_batch_size": 20,
    "sgd_minibatch_size": 10,
    "num_sgd_iter": 2,
    "timesteps_per_iteration": 100,
    "horizon": 30,
    "xla": False,
    "model": {"custom_preprocessor": "angle", "fcnet_hiddens": [8]},
}
IMPORT = ["--import", "tests_own_angle"]


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path_factory):
    """The module can be imported, and is imported anew; what it registers is forgotten after a test."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "tests_own_angle.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    forget(monkeypatch)
    yield
    sys.modules.pop("tests_own_angle", None)


def forget(monkeypatch):
    """Be as another process, which has imported nothing."""
    monkeypatch.setattr(plugins.PREPROCESSORS, "_things", {})
    sys.modules.pop("tests_own_angle", None)


def train(folder, *more):
    words = ["train", "--run", "PPO", "--env", "Pendulum-v1", "--local-dir", str(folder), "--seed", "3", "--json"]
    return cli.main([*words, "--config", json.dumps(SMALL), "--stop", "timesteps_total=200", *more])


def said(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    return line


def weights_of(run, number):
    return checkpoints.load(run / f"checkpoint_{number:06d}").arrays("weights")


def test_it_is_trained_played_scored_and_resumed_by_the_commands(tmp_path, capsys, monkeypatch):
    assert train(tmp_path / "whole", *IMPORT, "--stop", "timesteps_total=300") == 0
    forget(monkeypatch)
    remote = ["-s", "remote_worker_envs=true"]  # environments in processes of their own: the same numbers
    assert train(tmp_path / "parts", *IMPORT, *remote) == 0
    whole, run = (next((tmp_path / name).glob("*/*/params.json")).parent for name in ("whole", "parts"))
    assert weights_of(run, 2)["default_policy/policy/dense_0/kernel"].shape == (2, 8)
    capsys.readouterr()

    forget(monkeypatch)
    assert cli.main(["rollout", str(run), *IMPORT, "--latest", "--episodes", "2", "--seed", "1"]) == 0
    played = [float(line.partition(": reward: ")[2]) for line in capsys.readouterr().out.splitlines()[:2]]
    forget(monkeypatch)
    path = str(run / "checkpoint_000002")
    assert cli.main(["evaluate", path, *IMPORT, "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert scored["greedy"]["mean"] == pytest.approx(sum(played) / 2, abs=0.01)  # the same episodes on the same seeds

    for words in (["rollout", path], ["evaluate", path]):
        forget(monkeypatch)
        assert cli.main(words) == 2
        line = said(capsys)
        assert "No preprocessor is registered as 'angle'" in line and "--import MODULE" in line

    assert cli.main(["train", "--resume", str(run), *IMPORT, "--stop", "timesteps_total=300", "--json"]) == 0
    for name, value in weights_of(whole, 3).items():
        np.testing.assert_array_equal(weights_of(run, 3)[name], value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "Error: model.custom_preprocessor: No preprocessor is registered as 'angle'."),
        (
            [*IMPORT, "-s", "model.custom_preprocessor=angel"],
            "Error: model.custom_preprocessor: No preprocessor is registered as 'angel'. Did you mean 'angle'?",
        ),
        (
            [*IMPORT, "--env", "CartPole-v1"],
            "Error: CartPole-v1: model.custom_preprocessor angle: transform failed: ValueError: too many values to unpack",
        ),
        (
            [*IMPORT, "-s", "model.custom_model_config.scale=0"],
            "Error: Pendulum-v1: model.custom_preprocessor angle: transform returned a number that is not finite",
        ),
        (
            [*IMPORT, "-s", "input=policy_server", "-s", "horizon=null"],
            "Error: model.custom_preprocessor: external simulators send what PPO sees, unchanged. Leave it out.",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_one_line_before_a_run(tmp_path, capsys, words, line):
    assert train(tmp_path, *words) == 2
    assert said(capsys).startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_trainer_acts_on_the_environments_own_observations(tmp_path):
    import tests_own_angle

    model = {"custom_preprocessor": tests_own_angle.Angle, "fcnet_hiddens": [8]}
    with Trainer("PPO", env="Pendulum-v1", config={**SMALL, "model": model, "seed": 3}) as trainer:
        env = gymnasium.make("Pendulum-v1")
        obs, _ = env.reset(seed=0)
        seen = np.float32([np.arctan2(obs[1], obs[0]) / np.pi, obs[2] / 8.0])
        np.testing.assert_allclose(trainer.get_preprocessor().transform(obs), seen, rtol=1e-6)
        action = trainer.compute_action(obs, explore=False)
        np.testing.assert_array_equal(action, trainer.compute_action(seen, explore=False))
        assert env.action_space.contains(action)


def test_agents_of_several_are_all_seen_through_it(tmp_path, capsys):
    words = ["train", "--run", "PPO", "--env", "Pendulum-v1", "--local-dir", str(tmp_path), *IMPORT, "--json"]
    config = json.dumps(SMALL | {"multiagent": {"copies": 2}})
    assert cli.main([*words, "--config", config, "--stop", "timesteps_total=100"]) == 0
    (run,) = (path.parent for path in tmp_path.glob("*/*/params.json"))
    assert weights_of(run, 1)["default_policy/policy/dense_0/kernel"].shape == (2, 8)


class LateHalf:
    """Whether half of an episode of ``Doors-v0`` is over."""

    def __init__(self, space, options):
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def transform(self, obs):
        return np.float32([obs["time"][0] > 0.5])


@pytest.mark.parametrize("name", ["PPO", "DQN"])
def test_policies_act_by_the_mask_beside_it(name):
    config = {**SMALL, "model": {"custom_preprocessor": LateHalf, "fcnet_hiddens": [8]}, "seed": 3}
    if name == "DQN":
        config = {key: value for key, value in config.items() if not key.startswith(("sgd", "num_sgd"))}
        config |= {"learning_starts": 40}
    with Trainer(name, env="Doors-v0", config=config) as trainer:  # which raises where another action is taken
        trainer.train()
        raw, _ = gymnasium.make("Doors-v0").reset(seed=0)
        chosen = {trainer.compute_action(raw, explore=True) for _ in range(20)}
        assert chosen <= set(np.flatnonzero(raw["action_mask"]).tolist())
