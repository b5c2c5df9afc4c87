"""The example of an action distribution of one's own, through the commands: trained, played, scored, resumed, refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from drl_cli import checkpoints, cli, plugins

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
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
    "model": {"custom_action_dist": "beta", "fcnet_hiddens": [8]},
}
IMPORT = ["--import", "own_distribution"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """The example can be imported, and is imported anew; what it registers is forgotten after a test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    forget(monkeypatch)
    yield
    sys.modules.pop("own_distribution", None)


def forget(monkeypatch):
    """Be as another process, which has imported nothing."""
    monkeypatch.setattr(plugins.ACTION_DISTS, "_things", {})
    sys.modules.pop("own_distribution", None)


def train(folder, *more, run="PPO", env="Pendulum-v1"):
    words = ["train", "--run", run, "--env", env, "--local-dir", str(folder), "--seed", "3", "--json"]
    return cli.main([*words, "--config", json.dumps(SMALL), "--stop", "timesteps_total=200", *more])


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def said(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    return line


def weights_of(run, number):
    return checkpoints.load(run / f"checkpoint_{number:06d}").arrays("weights")


def test_example_is_trained_played_scored_and_resumed_by_the_commands(tmp_path, capsys, monkeypatch):
    assert train(tmp_path / "whole", *IMPORT, "--stop", "timesteps_total=300") == 0
    forget(monkeypatch)
    assert train(tmp_path / "parts", *IMPORT) == 0
    assert [line["training_iteration"] for line in lines(capsys) if "training_iteration" in line][-2:] == [1, 2]
    whole, run = (next((tmp_path / name).glob("*/*/params.json")).parent for name in ("whole", "parts"))
    assert "default_policy/policy/alpha/kernel" in weights_of(run, 2)

    forget(monkeypatch)
    assert cli.main(["rollout", str(run), *IMPORT, "--latest", "--episodes", "2", "--seed", "1"]) == 0
    played = [float(line.partition(": reward: ")[2]) for line in capsys.readouterr().out.splitlines()[:2]]
    forget(monkeypatch)
    path = str(run / "checkpoint_000002")
    assert cli.main(["evaluate", path, *IMPORT, "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert scored["greedy"]["mean"] == pytest.approx(sum(played) / 2, abs=0.01)  # the same episodes on the same seeds

    forget(monkeypatch)
    assert cli.main(["rollout", path]) == 2
    line = said(capsys)
    assert path in line and "No action distribution is registered as 'beta'" in line and "--import MODULE" in line

    assert cli.main(["train", "--resume", str(run), *IMPORT, "--stop", "timesteps_total=300", "--json"]) == 0
    for name, value in weights_of(whole, 3).items():
        np.testing.assert_array_equal(weights_of(run, 3)[name], value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "Error: model.custom_action_dist: No action distribution is registered as 'beta'."),
        (
            [*IMPORT, "-s", "model.custom_action_dist=bta"],
            "Error: model.custom_action_dist: No action distribution is registered as 'bta'. Did you mean 'beta'?",
        ),
        (
            [*IMPORT, "--env", "CartPole-v1"],
            "Error: model.custom_action_dist beta: its class failed: ValueError: a Beta distribution is for Box actions, not",
        ),
        (
            [*IMPORT, "-s", "model.free_log_std=true"],
            "Error: model.free_log_std: true is for the Gaussian, which custom",
        ),
        (
            [*IMPORT, "-s", "use_sde=true"],
            "Error: use_sde: true is for the Gaussian, which model.custom_action_dist replaces",
        ),
        (
            [*IMPORT, "-s", "model.custom_model_config.least=none"],
            "Error: model.custom_action_dist beta: greedy failed: UFuncTypeError: ufunc 'add' did not contain a loop",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_one_line_before_a_run(tmp_path, capsys, words, line):
    assert train(tmp_path, *words) == 2
    assert said(capsys).startswith(line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("run", ["SAC", "DQN", "PQN"])
def test_an_algorithm_with_a_distribution_of_its_own_refuses_another(tmp_path, capsys, run):
    assert cli.main(["train", "--run", run, "--env", "Pendulum-v1", "-s", "model.custom_action_dist=beta"]) == 2
    assert f"the update of {run} is made for the distribution that it has; PPO, A2C" in said(capsys)


def test_forms_that_differ_are_refused_before_the_first_update(tmp_path, capsys, monkeypatch):
    import own_distribution

    monkeypatch.setattr(
        own_distribution.TFBeta, "logp", lambda self, heads, action: heads["alpha"][:, 0] + heads["beta"][:, 0]
    )
    assert train(tmp_path) == 2
    assert "not the same distribution: logp of the same action and heads is" in capsys.readouterr().err
