"""The example of a network of one's own, through the commands: trained, played, scored, resumed; and what is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from drl_cli import checkpoints, cli, plugins
from drl_cli.policies import custom_models

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
    "evaluation_interval": 1,
    "evaluation_num_episodes": 2,
    "horizon": 30,
    "xla": False,
}
IMPORT = ["--import", "own_network"]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """The example can be imported, and is imported anew; what it registers is forgotten behind a test."""
    monkeypatch.setattr(plugins.MODELS, "_things", {})
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "own_network", raising=False)
    yield
    sys.modules.pop("own_network", None)


def forget(monkeypatch):
    """Be as another process, which has imported nothing."""
    monkeypatch.setattr(plugins.MODELS, "_things", {})
    sys.modules.pop("own_network", None)


def train(folder, model, *more):
    config = SMALL | {"model": {"custom_model": model, "custom_model_config": {"waves": 6, "units": 5}}}
    words = ["train", "--run", "PPO", "--env", "CartPole-v1", "--local-dir", str(folder), "--seed", "3", "--json"]
    return cli.main([*words, "--config", json.dumps(config), "--stop", "timesteps_total=200", *more])


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_example_is_short():
    assert len((EXAMPLES / "own_network.py").read_text(encoding="utf-8").splitlines()) < 120


@pytest.mark.parametrize("model", ["waves", "fast_waves"])
def test_the_example_is_trained_played_scored_and_resumed_by_the_commands(tmp_path, capsys, monkeypatch, model):
    assert train(tmp_path, model, *IMPORT) == 0
    assert [line["training_iteration"] for line in lines(capsys)[:-1]] == [1, 2]
    (run,) = (path.parent for path in tmp_path.glob("*/*/params.json"))

    forget(monkeypatch)
    assert cli.main(["rollout", str(run), *IMPORT, "--latest", "--episodes", "2", "--seed", "1"]) == 0
    played = [float(line.partition(": reward: ")[2]) for line in capsys.readouterr().out.splitlines()[:2]]
    forget(monkeypatch)
    path = str(run / "checkpoint_000002")
    assert cli.main(["evaluate", path, *IMPORT, "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert scored["greedy"]["mean"] == pytest.approx(sum(played) / 2, abs=0.01)  # the same games on the same seeds

    forget(monkeypatch)
    assert cli.main(["train", "--resume", str(run), *IMPORT, "--stop", "timesteps_total=300", "--json"]) == 0
    assert [line["training_iteration"] for line in lines(capsys)[:-1]] == [3]


def test_both_models_of_the_example_take_the_same_steps(tmp_path, capsys):
    found = {}
    for model in ("waves", "fast_waves"):
        assert train(tmp_path / model, model, *IMPORT) == 0
        last = lines(capsys)[1]
        (path,) = (tmp_path / model).glob("*/*/checkpoint_000002")
        found[model] = checkpoints.load(path).arrays("weights"), last["episode_reward_mean"]
    (slow, reward), (fast, same) = found.values()
    assert sorted(slow) == sorted(fast) and reward == same
    kernel = "default_policy/policy/custom/mix/kernel"
    assert slow[kernel].shape == (12, 5)
    np.testing.assert_allclose(slow[kernel], fast[kernel], atol=1e-4)


def said(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_model_that_is_not_registered_is_refused_in_one_line_before_a_run(tmp_path, capsys):
    assert train(tmp_path, "waves") == 2
    line = said(capsys)
    assert line.startswith("Error: model.custom_model: No model is registered as 'waves'.")
    assert "drl_cli.register_model" in line and "--import MODULE" in line and line.endswith("(--config).")
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_the_class_does_not_take_are_refused_in_one_line_before_a_run(tmp_path, capsys):
    assert train(tmp_path, "waves", *IMPORT, "-s", "model.custom_model_config.wavs=3") == 2
    assert said(capsys) == (
        "Error: model.custom_model waves cannot be made for observations of shape (4,) with {'units': 5, 'waves': 6, "
        "'wavs': 3}: TypeError: Waves.__init__() got an unexpected keyword argument 'wavs'."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_says_what_to_import_and_takes_no_other_model(tmp_path, capsys, monkeypatch):
    assert train(tmp_path, "fast_waves", *IMPORT) == 0
    capsys.readouterr()
    (path,) = tmp_path.glob("*/*/checkpoint_000002")
    forget(monkeypatch)
    for words in (["rollout", str(path)], ["evaluate", str(path)]):
        assert cli.main(words) == 2
        line = said(capsys)
        assert str(path) in line and "No model is registered as 'fast_waves'" in line and "--import MODULE" in line

    class Other:
        def __init__(self, shape, waves, units):
            self.features, self.variables = units, {"mix/kernel": (*shape, units)}

        def graph(self, tf, weights, inputs):
            return tf.matmul(inputs, weights["mix/kernel"])

    custom_models.register_model("fast_waves", Other)
    assert cli.main(["rollout", str(path)]) == 2
    assert "expected shape (4, 5), found (12, 5)" in said(capsys)


def test_both_models_see_what_is_asked_of_them_without_a_run(monkeypatch):
    import own_network

    model = own_network.FastWaves((3,), waves=2, units=2)
    weights = {
        "frequency": np.eye(3, 2),
        "phase": np.zeros(2),
        "mix/kernel": np.eye(4, 2),
        "mix/bias": np.float32([1, -1]),
    }
    found = model.forward(weights, np.float32([[np.pi / 2, 0, 7]]))
    np.testing.assert_allclose(found, [[2.0, 0.0]], atol=1e-6)  # 1 + sin(π/2), and what is below zero cut
