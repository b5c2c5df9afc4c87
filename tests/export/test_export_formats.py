"""Every kind of policy in every format: what was written does what NumPy does, and as a user would run it."""

import json

import exported_policies
import numpy as np
import onnxruntime
import pytest

from drl_cli.errors import ExportFailed, InputError
from drl_cli.export import export_policy, onnx_policy, signature
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.tf1.tensorflow import lite
from drl_cli.tf1.tensorflow import tf as tf1

pytestmark = pytest.mark.tensorflow

FACTS = {"algorithm": "X", "env": "Y-v0", "counters": {"training_iteration": 3}, "spaces": {"obs": {}, "action": {}}}
PATHS = {"savedmodel": "m", "onnx": "m.onnx", "tflite": "m.tflite"}


def _policy(name):
    return NumpyPolicy(*exported_policies.made(name))


@pytest.mark.parametrize("form", export_policy.FORMATS)
@pytest.mark.parametrize("name", exported_policies.NAMES)
def test_exported_policy_does_what_numpy_does(name, form, tmp_path):
    policy = _policy(name)
    done = export_policy.export(policy, FACTS, form, tmp_path / PATHS[form])
    if policy.is_box:
        assert done.comparison.difference <= 2e-5
    else:
        assert done.comparison.differing == done.comparison.ties <= 1
    if policy.spec.state:
        assert done.comparison.state <= 2e-6
    beside = {PATHS[form], PATHS[form] + ".json"} if form != "savedmodel" else {"m"}
    assert {path.name for path in tmp_path.iterdir()} == beside


OBS = np.float32([[0.5, -1.0, 2.0, 0.0, 0.25], [3.0, 0.0, -2.0, 1.0, -0.5]])


@pytest.mark.parametrize("rows", [1, 2])
def test_saved_model_runs_as_tensorflow_2_says(tmp_path, rows):
    policy = _policy("squashed_gaussian")
    path = export_policy.export(policy, FACTS, "savedmodel", tmp_path / "m").path
    loaded = tf1.saved_model.load_v2(str(path))
    found = loaded.signatures["serving_default"](obs=tf1.constant(OBS[:rows]))["action"].numpy()
    expected = policy.to_env(policy.act(OBS[:rows], (), None, False)[0])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (np.abs(found[:, 0]) <= 2).all() and ((found[:, 1] >= 0) & (found[:, 1] <= 1)).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_onnx_runs_as_onnxruntime_says_and_holds_its_description(tmp_path, rows):
    policy = _policy("q")
    path = export_policy.export(policy, FACTS, "onnx", tmp_path / "m.onnx").path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (action,) = session.run(["action"], {"obs": OBS[:rows]})
    np.testing.assert_array_equal(
        action, policy.act(OBS[:rows], (), None, False)[0] - 1
    )  # the environment's begin at -1
    assert action.dtype == np.int64
    assert json.loads(session.get_modelmeta().custom_metadata_map["drl"])["algorithm"] == "X"


@pytest.mark.filterwarnings("ignore::UserWarning")  # that tf.lite.Interpreter has a successor
@pytest.mark.parametrize("rows", [1, 2])
def test_tflite_runs_as_its_interpreter_says(tmp_path, rows):
    policy = _policy("multi_bernoulli")
    path = export_policy.export(policy, FACTS, "tflite", tmp_path / "m.tflite").path
    obs = np.random.default_rng(0).normal(size=(rows, 6)).astype(np.float32)
    found = lite().Interpreter(model_path=str(path)).get_signature_runner()(obs=obs)["action"]
    np.testing.assert_array_equal(found, policy.act(obs, (), None, False)[0])
    assert found.dtype == np.int8


@pytest.mark.parametrize("form", export_policy.FORMATS)
def test_memory_goes_in_and_out_over_a_whole_episode(form, tmp_path):
    policy = _policy("multi_categorical, LSTM that sees what it did")
    done = export_policy.export(policy, FACTS, form, tmp_path / PATHS[form])
    run = export_policy.load(export_policy.FORMATS[form]).read(done.path)
    rng, state, reward = np.random.default_rng(5), policy.initial_state(1), np.zeros(1, np.float32)
    memory = {f"state_{index}": part.copy() for index, part in enumerate(policy.initial_state(1))}
    for _ in range(12):
        obs = rng.normal(size=(1, 6)).astype(np.float32)
        policy.rewarded(state, reward)
        chosen, state, _ = policy.act(obs, state, rng, False)
        found = run({"obs": obs, "reward": reward, **memory})
        memory = {name.removeprefix("next_"): value for name, value in found.items() if name != "action"}
        np.testing.assert_array_equal(found["action"], policy.to_env(chosen))
        reward = rng.normal(size=1).astype(np.float32)
    np.testing.assert_allclose(memory["state_1"], state[1], atol=1e-5)


def test_description_says_what_goes_in_and_out(tmp_path):
    policy = _policy("image of bytes from 0 to 1, three frames")
    space = {"kind": "Discrete", "n": 3, "start": 0, "shape": [], "dtype": "int64"}
    facts = {**FACTS, "spaces": {"obs": {}, "action": space}}
    told = json.loads(export_policy.export(policy, facts, "onnx", tmp_path / "m.onnx").about.read_text())
    assert told["inputs"] == [
        {
            "name": "obs",
            "dtype": "uint8",
            "shape": [9, 11, 9],
            "meaning": "the last 3 observations along the last axis, oldest first; the first one repeated at an episode's "
            "start; scaling of bytes is inside",
        }
    ]
    assert told["outputs"] == [{"name": "action", "dtype": "int64", "shape": [], "meaning": "action index"}]
    assert (told["format"], told["kind"], told["frames"], told["action_space"]) == ("drl-policy-1", "onnx", 3, space)
    assert told["compared"]["samples"] == 64 and told["compared"]["tolerance"] == 1e-4


def test_ports_of_a_policy_with_memory_and_a_mask():
    spec, _ = exported_policies.made("masked, LSTM")
    assert [(port.name, port.dtype, port.shape) for port in (*signature.inputs(spec), *signature.outputs(spec))] == [
        ("obs", "float32", (6,)),
        ("state_0", "float32", (4,)),
        ("state_1", "float32", (4,)),
        ("action", "int64", ()),
        ("next_state_0", "float32", (4,)),
        ("next_state_1", "float32", (4,)),
    ]
    assert signature.inputs(spec)[0].meaning == "the observation; its numbers 2 to 4 say which actions are allowed (1)"


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        (
            "squashed_gaussian",
            ("Tanh", "Sigmoid"),
            r"^onnx, loaded again: its actions differ by up to [\d.]+, and 0.0001 of half",
        ),
        ("q", ("Tanh", "Sigmoid"), r"it takes other actions for \d+ of 1024 observations. Nothing was kept"),
        ("masked, LSTM", ("Tanh", "Sigmoid"), r"it takes other actions for|its recurrent state differs"),
    ],
)
def test_export_that_does_something_else_is_refused_and_leaves_nothing(name, wrong, text, tmp_path, monkeypatch):
    def twisted(nodes, *arguments):
        call = type(nodes).__call__
        monkeypatch.setattr(
            type(nodes), "__call__", lambda self, op, *a, **k: call(self, wrong[1] if op == wrong[0] else op, *a, **k)
        )
        return policy_of(nodes, *arguments)

    policy_of = onnx_policy.OnnxPolicy
    monkeypatch.setattr(export_policy.load("drl_cli.export.onnx_file"), "OnnxPolicy", twisted)
    with pytest.raises(ExportFailed, match=text):
        export_policy.export(_policy(name), FACTS, "onnx", tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "out", "text"),
    [
        ("onnx", "policy", "give a file of onnx a name that ends in .onnx"),
        ("tflite", "policy.onnx", "give a file of tflite a name that ends in .tflite"),
        ("savedmodel", "there", "it already exists, and nothing is overwritten"),
        ("onnx", "other.onnx", r"other.onnx.json: it already exists"),
        ("savedmodel", "nowhere/policy", "there is no such folder"),
    ],
)
def test_place_that_cannot_be_written_is_refused(form, out, text, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "other.onnx.json").touch()
    with pytest.raises(InputError, match=text):
        export_policy.export(_policy("q"), FACTS, form, tmp_path / out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.onnx.json", "there"]


@pytest.mark.parametrize("form", ["savedmodel", "onnx"])
def test_export_of_a_run_replaces_its_earlier_one(form, tmp_path):
    first = export_policy.export(_policy("q"), FACTS, form, tmp_path / PATHS[form], replace=True)
    again = export_policy.export(_policy("quantile with a mask"), FACTS, form, first.path, replace=True)
    told = json.loads(again.about.read_text())
    assert told["inputs"][0]["meaning"].endswith("say which actions are allowed (1)")
    assert len(list(tmp_path.iterdir())) == (1 if form == "savedmodel" else 2)
