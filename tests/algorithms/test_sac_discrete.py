"""Discrete SAC: its update against a slow one in float64, its entropy target, and what it learns."""

import numpy as np
import pytest
from machine import SCOPE, discrete_spaces
from max_entropy_machine import N, block, config, machine
from slow import SlowUpdate, compare, follow_targets
from slow_sac import DiscreteLosses

from drl_cli.algorithms import sac
from drl_cli.algorithms.max_entropy_update_graph import target_entropy
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

CASES = {
    "plain": {},
    "single critic": {"twin_q": False},
    "policy delay": {"policy_delay": 2},
    "target entropy a number": {"target_entropy": 0.5},
    "another share": {"target_entropy_fraction": 0.9},
    "prioritized": {"prioritized_replay": True},
    "several": {"twin_q": False, "policy_delay": 2, "target_entropy": 0.5, "prioritized_replay": True},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config("discrete", tau=0.2, **keys)
    with machine("discrete", made) as started:
        slow = SlowUpdate(made, started.values(), DiscreteLosses(made), follow_targets(0.2))
        assert compare(started, slow, block("discrete", made), updates=3) == 3


def test_entropy_target_is_a_share_of_the_largest_entropy():
    with machine("discrete", config("discrete")) as started:
        spec = started.spec
    assert spec.distribution == "categorical" and spec.action.n == 3
    assert target_entropy(config("discrete", target_entropy_fraction=0.98), spec) == pytest.approx(1.0766400)
    assert target_entropy(config("discrete", target_entropy=None), spec) == pytest.approx(0.3295837)  # 0.3·ln 3
    assert target_entropy(config("discrete", target_entropy=0.5), spec) == 0.5


def test_images_go_through_convolutions_of_policy_and_critics():
    made = config("discrete", updates_per_call=1, model={"conv_filters": [[2, 3, 2]]})
    rng, transitions = np.random.default_rng(0), block("discrete", made)
    for name in ("obs", "next_obs"):
        transitions[name] = rng.integers(0, 256, (1, 4, 8, 8, 1), dtype=np.uint8)
    with machine("discrete", made, discrete_spaces((8, 8, 1), N)) as started:
        assert started.graph.columns["obs"] == ((8, 8, 1), "uint8")
        assert started.values()["critic/q/kernel"].shape == (2, 3, N)
        assert started.changed(transitions, 1) == set(started.values())


LOOP, FIRST, LAST, CHOOSE = range(4)


def test_critics_reach_the_values_of_a_synthetic_world_and_the_policy_its_best_action():
    """Reward 1 for ever at gamma 0.9 is worth 10, a real end its exact sum; of two actions the paid one is taken."""
    made = config("discrete", hiddens=(32,), train_batch_size=64, updates_per_call=50, tau=0.1, initial_alpha=1e-6)
    rng = np.random.default_rng(0)
    with machine("discrete", made, discrete_spaces(4, 2), xla=True) as started:
        for rate in [1e-2] * 25 + [1e-3] * 10:
            state, action = rng.integers(0, 4, (50, 64)), rng.integers(0, 2, (50, 64)).astype(np.int32)
            reward = np.float32([1.0, 1.0, 2.0, 0.0])[state] + np.float32(state == CHOOSE) * action
            transitions = {
                "obs": np.eye(4, dtype=np.float32)[state],
                "action": action,
                "reward": reward.astype(np.float32),
                "discount": np.float32([0.9, 0.9, 0.0, 0.0])[state],
                "next_obs": np.eye(4, dtype=np.float32)[np.array([LOOP, LAST, LAST, LAST])[state]],
            }
            assert started.run(transitions, 50, entropy_learning_rate=0.0, critic_learning_rate=rate)["finite"]
        values, spec = started.values(), started.spec
    policy = NumpyPolicy(spec)
    policy.set_weights({name: values[name] for name in spec.weight_names()})
    states = np.eye(4, dtype=np.float32)
    assert policy.act(states, (), rng, False)[0][CHOOSE] == 1
    net = sac.critic_spec(config("discrete", hiddens=(32,), twin_q=False), spec)
    for copy in (0, 1):
        own = {name: value[copy] for name, value in values.items() if name.startswith("critic/")}
        q = Forward(net, own)(states)["q"]
        np.testing.assert_allclose(q[LOOP], [10.0, 10.0], atol=0.3)
        np.testing.assert_allclose(q[[FIRST, LAST]], [[2.8, 2.8], [2.0, 2.0]], atol=0.1)  # 1 + 0.9·2
        np.testing.assert_allclose(q[CHOOSE], [0.0, 1.0], atol=0.1)


def test_every_probability_reaches_the_actor_and_both_critics_count():
    """Swapping the critics changes nothing: the lower of both is what every loss sees."""
    made = config("discrete")
    with machine("discrete", made) as started:
        transitions = block("discrete", made)
        start = started.values()
        started.run(transitions, 1)
        first = started.values()
        swapped = {n: v[::-1] if n.startswith(("critic/", "target_critic/")) else v for n, v in start.items()}
        started.set(**swapped)
        started.run(transitions, 1)
        second = started.values()
    assert {SCOPE + name for name in first if name.startswith("policy/")} == set(started.graph.published)
    for name in (name for name in first if name.startswith("policy/")):
        np.testing.assert_allclose(first[name], second[name], atol=1e-6)
        assert not np.array_equal(first[name], start[name])
