"""A policy that follows recorded episodes: what it would have done, part by part, with memory and stacks of frames."""

import numpy as np
import pytest
from scipy import stats
from scored_policies import made

from drl_cli.algorithms.dqn import ApexConfig, DQNConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.experience.action_likelihood import Drawing, EpisodeLikelihood, drawing_of, refusal
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import ActionSpec, Conv, Dense, DiscreteSpec, NetSpec, PolicySpec, ValueSpec

RNG = np.random.default_rng(0)
KINDS = ["gaussian", "categorical", "masked", "multi_categorical", "multi_bernoulli", "composite"]


def _obs(count, size=6):
    return RNG.normal(0, 1, (count, size)).astype(np.float32)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("keys", [{}, {"lstm": 4, "lstm_use_prev_action_reward": True}])
def test_following_says_what_was_said_when_the_policy_acted(name, keys):
    spec, weights = made(name, **keys)
    policy, obs, reward = NumpyPolicy(spec, weights), _obs(9), RNG.normal(0, 1, 9).astype(np.float32)
    if name == "masked":
        obs[:, 2:5] = 1.0
    rng, state, actions, expected = np.random.default_rng(3), policy.initial_state(1), [], []
    for t in range(9):
        action, state, columns = policy.act(obs[t : t + 1], state, rng, True)
        policy.rewarded(state, reward[t])
        actions.append(policy.recorded(action)[0])
        expected.append(columns["logp"][0])
    stretch = (
        np.log([2.0, 0.5]).sum() if name in ("gaussian", "composite") else 0.0
    )  # half ranges: of the policy's density, not of ours
    following, action = EpisodeLikelihood(policy), np.stack(actions)
    found = [following.logp(obs[part], action[part], reward[part]) for part in (slice(0, 4), slice(4, 9))]
    np.testing.assert_allclose(np.concatenate(found), np.float64(expected) - stretch, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", ["squashed_gaussian", "gaussian"])
def test_density_of_a_box_action_is_in_the_environments_units(kind, normalize):
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 1), ("log_std", 1)))
    weights = {name: np.zeros(shape, np.float32) for name, shape in net.weight_shapes().items()}
    policy = NumpyPolicy(PolicySpec((net,), kind, (3,), ActionSpec((-2.0,), (6.0,), normalize)), weights)
    edges = np.linspace(-2.0, 6.0, 40_001) if kind == "squashed_gaussian" else np.linspace(-60.0, 60.0, 40_001)
    action = ((edges[1:] + edges[:-1]) / 2)[:, None]
    density = np.exp(EpisodeLikelihood(policy).logp(np.zeros((40_000, 3), np.float32), action, np.zeros(40_000)))
    assert (density * np.diff(edges)).sum() == pytest.approx(1.0, abs=1e-4)
    middle = {("squashed_gaussian", True): 0.25, ("squashed_gaussian", False): 0.25, ("gaussian", True): 0.25}
    at = np.argmin(np.abs(action[:, 0] - 2.0))
    expected = stats.norm.pdf(0.0) * middle.get((kind, normalize), 0.0) or stats.norm.pdf(2.0)
    assert density[at] == pytest.approx(expected, rel=1e-2)


def test_recorded_action_and_acted_one_are_each_others_inverse():
    spec, weights = made("gaussian")
    policy, action = NumpyPolicy(spec, weights), np.float32([[1.5, -0.5]])
    assert policy.recorded(action).tolist() == [[3.0, 0.25]]  # in the environment's units, not clipped to (2, 1)
    assert policy.as_acted(policy.recorded(action)).tolist() == [[1.5, -0.5]]


def test_stack_of_frames_goes_on_from_part_to_part():
    net = NetSpec("q", (("obs", 75),), (Dense(5),), (("q", 2),), image=(5, 5, 3), convs=(Conv(2, 3, 2),))
    spec = PolicySpec((net,), "q", (5, 5, 1), DiscreteSpec(2), obs_dtype="uint8", frames=3, value=ValueSpec())
    policy = NumpyPolicy(spec, net.initial_weights(np.random.default_rng(1)))
    obs = RNG.integers(0, 256, (7, 5, 5, 1), np.uint8)
    stacks = np.stack([np.concatenate([obs[max(0, t - 2)], obs[max(0, t - 1)], obs[t]], axis=-1) for t in range(7)])
    action, soft = np.zeros(7, np.int32), {"epsilon": 0.0, "temperature": 1.0}
    expected = policy.logp(policy.heads(stacks), action, **soft)
    following = EpisodeLikelihood(policy, Drawing(temperature=1.0))
    found = [following.logp(obs[i : i + 2], action[i : i + 2], np.zeros(2)) for i in range(0, 7, 2)]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-5)
    assert len(np.unique(expected)) == 7


def test_long_parts_are_looked_at_in_blocks(monkeypatch):
    spec, weights = made("categorical")
    policy, obs = NumpyPolicy(spec, weights), _obs(10)
    action = RNG.integers(0, 3, 10, np.int32)
    whole = EpisodeLikelihood(policy).logp(obs, action, np.zeros(10))
    monkeypatch.setattr("drl_cli.experience.action_likelihood.ROWS", 4)
    np.testing.assert_allclose(EpisodeLikelihood(policy).logp(obs, action, np.zeros(10)), whole, rtol=1e-5)


def test_policy_that_names_its_box_actions_is_refused():
    net = NetSpec("policy", (("obs", 3),), (), (("mean", 1),))
    named = NumpyPolicy(PolicySpec((net,), "deterministic", (3,), ActionSpec((-1.0,), (1.0,))))
    assert refusal(named).startswith("its policy is deterministic over a Box")
    assert refusal(NumpyPolicy(made("gaussian")[0])) is None


@pytest.mark.parametrize(
    ("config", "t", "expected", "words"),
    [
        (DQNConfig(exploration_config={"initial_epsilon": 1.0, "final_epsilon": 0.2, "epsilon_timesteps": 100}), 50,
         Drawing(0.6), "epsilon-greedy, epsilon 0.6"),
        (DQNConfig(exploration_config={"type": "SoftQ", "temperature": 0.5}), 50, Drawing(0.0, 0.5), "softmax of Q / 0.5"),
        (ApexConfig(), 50, Drawing(), "greedy"),
        (SACConfig(), 50, Drawing(), "greedy"),
    ],
)  # fmt: skip
def test_drawing_is_that_of_the_exploration_at_its_time(config, t, expected, words):
    found = drawing_of(config, t)
    assert found == pytest.approx(expected) if expected.epsilon else found == expected
    assert found.words() == words
