"""Registered action distributions in NumPy: what is wrong with some before a run, and what they return while one samples."""

import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.errors import CheckpointError, ConfigError, InputError, PluginFailed
from drl_cli.policies import custom_distributions
from drl_cli.policies.action_specs import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from drl_cli.policies.custom_distributions import register_action_dist
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_from_manifest import policy_spec
from drl_cli.policies.policy_spec import ActionSpec, NetSpec, PolicySpec

BOX = ActionSpec((-2.0, 0.0), (2.0, 1.0))


class Uniform:
    """Uniform within ±1, shifted by nothing: the head is not used by NumPy."""

    def __init__(self, action, options):
        self.size, self.heads = action.size, {"spread": action.size, **options.get("more", {})}

    def greedy(self, heads):
        return np.zeros((len(heads["spread"]), self.size))

    def sample(self, heads, rng):
        return rng.uniform(-1.0, 1.0, (len(heads["spread"]), self.size))

    def logp(self, heads, action):
        return np.full(len(action), -self.size * np.log(2.0))


class Even:
    """Even chances among the actions of a Discrete space."""

    def __init__(self, action, options):
        self.n, self.heads = action.n, {"unused": 1}

    def greedy(self, heads):
        return np.zeros(len(heads["unused"]), np.int64)

    def sample(self, heads, rng):
        return rng.integers(0, self.n, len(heads["unused"]))

    def logp(self, heads, action):
        return np.full(len(action), -np.log(self.n))


class Graph:
    def logp(self, heads, action): ...

    def entropy(self, heads): ...

    def kl(self, old, new): ...


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(plugins.ACTION_DISTS, "_things", {})


def of(kind, action=BOX, options="{}", **parts):
    register_action_dist("mine", type("Mine", (kind,), parts), Graph)
    return custom_distributions.made(("mine", options), action)


def spec_of(kind, action=BOX, options="{}"):
    heads = of(kind, action, options).heads
    net = NetSpec("policy", (("obs", 3),), (), (*heads, ("value", 1)))
    return PolicySpec((net,), "custom", (3,), action, scored=True, custom=("mine", options))


def test_policy_of_a_registered_distribution_acts_in_the_environments_units_and_scores_its_actions():
    spec = spec_of(Uniform)
    policy = NumpyPolicy(spec, {name: np.zeros(shape, np.float32) for name, shape in spec.weight_shapes().items()})
    action, _, columns = policy.act(np.zeros((4, 3), np.float32), (), np.random.default_rng(3), explore=True)
    assert action.dtype == np.float32 and action.shape == (4, 2)
    np.testing.assert_allclose(columns["logp"], [-1.3862944] * 4)  # 2 · log ½
    np.testing.assert_allclose(policy.to_env(np.float32([[1.0, -1.0]])), [[2.0, 0.0]])
    assert policy.spec.misfit() is None


def test_manifest_keeps_the_name_and_options_and_is_refused_where_it_is_not_registered(monkeypatch):
    data = spec_of(Uniform, options='{"more": {"extra": 2}}').to_dict()
    assert policy_spec(data).custom == ("mine", '{"more": {"extra": 2}}')
    assert [head for head, _ in policy_spec(data).nets[0].heads] == ["spread", "extra", "value"]
    data["custom"] = ["mine"]
    with pytest.raises(CheckpointError, match="no name with its arguments"):
        policy_spec(data)
    data["custom"] = []
    with pytest.raises(CheckpointError, match="for the distribution custom"):
        policy_spec(data)
    data["custom"] = ["mines", "{}"]
    with pytest.raises(
        InputError, match=r"No action distribution is registered as 'mines'. Did you mean 'mine'\?.*--import"
    ):
        policy_spec(data)


@pytest.mark.parametrize("action", [DiscreteSpec(4, 2), BOX], ids=["Discrete", "Box"])
def test_try_out_of_a_right_distribution_refuses_nothing(action):
    assert of(Even if action is not BOX else Uniform, action).try_out() is None


@pytest.mark.parametrize(
    ("kind", "parts", "line"),
    [
        (
            Uniform,
            {"greedy": lambda self, heads: np.zeros(5)},
            r"greedy returned float64 of shape \(5,\), not floating-point",
        ),
        (Uniform, {"greedy": lambda self, heads: np.zeros((5, 2), int)}, "greedy returned int64"),
        (
            Uniform,
            {"sample": lambda self, heads, rng: np.full((5, 2), np.nan)},
            "sample returned an action that is not finite",
        ),
        (Uniform, {"sample": lambda self, heads, rng: np.random.uniform(-1, 1, (5, 2))}, "something else than rng"),
        (Uniform, {"logp": lambda self, heads, action: action}, r"logp returned float\d+ of shape \(5, 2\)"),
        (
            Uniform,
            {"logp": lambda self, heads, action: action.sum(1) * np.nan},
            "logp returned a number that is not finite",
        ),
        (Uniform, {"logp": lambda self, heads, action: np.full(len(action), -np.inf)}, "logp is -inf for an action"),
        (
            Uniform,
            {"logp": lambda self, heads, action: heads["spread"].sum() + action[:, 0]},
            "depends on the other rows",
        ),
        (Uniform, {"greedy": lambda self, heads: heads["spread"].fill(0) or np.zeros((5, 2))}, "modifies the heads"),
        (
            Uniform,
            {"greedy": lambda self, heads: heads["spraed"]},
            "greedy failed: KeyError: 'spraed' .*test_custom_distr",
        ),
        (Even, {"logp": lambda self, heads, action: np.full(len(action), -1.0)}, r"sum to 1.47 instead of 1"),
        (Even, {"greedy": lambda self, heads: np.full(5, 4)}, "greedy returned an action outside of DiscreteSpec"),
    ],
)
def test_try_out_of_a_wrong_distribution_says_in_one_line_what_is_wrong(kind, parts, line):
    with pytest.raises(ConfigError, match=line) as caught:
        of(kind, BOX if kind is Uniform else DiscreteSpec(4), **parts).try_out()
    assert str(caught.value).startswith("model.custom_action_dist mine: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("action", [MultiDiscreteSpec((2, 3), (0, 0)), MultiBinarySpec(2)], ids=["choices", "switches"])
def test_probabilities_of_all_combinations_are_summed(action):
    counts = np.array(action.nvec if action.kind == "MultiDiscrete" else (2, 2))
    parts = {
        "__init__": lambda self, action, options: setattr(self, "heads", {"unused": 1}),
        "greedy": lambda self, heads: np.zeros((len(heads["unused"]), 2), int),
        "sample": lambda self, heads, rng: rng.integers(0, counts, (len(heads["unused"]), 2)),
        "logp": lambda self, heads, action: np.full(len(action), -np.log(counts.prod())),
    }
    of(Even, action, **parts).try_out()
    with pytest.raises(ConfigError, match="sum to 2 instead of 1"):
        of(
            Even,
            action,
            **parts | {"logp": lambda self, heads, action: np.full(len(action), -np.log(counts.prod() / 2))},
        ).try_out()


@pytest.mark.parametrize(
    ("heads", "line"),
    [
        (None, "its heads must be {name: size}"),
        ({}, "its heads must be"),
        ({"value": 1}, "'value' is no name of a head"),
        ({"a b": 1}, "'a b' is no name of a head"),
        ({"a": 0}, "the head a has the size '0'"),
        ({"a": 1.5}, "the head a has the size '1.5'"),
    ],
)
def test_heads_that_no_network_can_have_are_refused(heads, line):
    with pytest.raises(ConfigError, match=line):
        of(Uniform, __init__=lambda self, action, options: setattr(self, "heads", heads))


def test_a_class_that_raises_is_refused_with_its_line():
    def failing(self, action, options):
        raise ValueError(f"not for {action.kind}")

    with pytest.raises(
        ConfigError, match=r"mine: its class failed: ValueError: not for Box \(.*test_custom_distributions.py:\d+\)"
    ):
        of(Uniform, __init__=failing)


def test_while_a_run_samples_a_wrong_action_is_one_line():
    made = of(Uniform, sample=lambda self, heads, rng: np.full((1, 2), np.inf))
    with pytest.raises(
        PluginFailed, match="model.custom_action_dist mine: sample returned an action that is not finite"
    ):
        made.sample({"spread": np.zeros((1, 2), np.float32)}, np.random.default_rng(0))


def test_entropy_is_optional_in_numpy():
    heads = {"spread": np.zeros((3, 2), np.float32)}
    with pytest.raises(InputError, match=r"mine: its NumPy class has no entropy\(heads\)"):
        of(Uniform).entropy(heads)
    found = of(Uniform, entropy=lambda self, heads: np.ones(3)).entropy(heads)
    assert found.dtype == np.float32 and found.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("numpy", "graph", "line"),
    [
        (Uniform((BOX), {}), Graph, "numpy must be a class with greedy, sample, logp; it is a Uniform"),
        (Graph, Graph, "Graph has no greedy"),
        (Uniform, Uniform, "graph must be a class with logp, entropy, kl; Uniform has no entropy"),
        (Uniform, "beta_tf.TFBeta", "'beta_tf.TFBeta' is not a dotted name such as"),
    ],
)
def test_what_is_no_pair_of_classes_cannot_be_registered(numpy, graph, line):
    with pytest.raises(InputError, match=r"register_action_dist\('mine'\): .*") as caught:
        register_action_dist("mine", numpy, graph)
    assert line in str(caught.value)
