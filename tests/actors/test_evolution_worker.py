"""The evolution worker: a block's returns are those of its directions played one by one, whoever plays it and how slowly."""

import numpy as np
import pytest
from evolved import CARTPOLE, ENV, IDENTITY, PENDULUM, config, parts, played

from drl_cli.actors.evolution_worker import EvolutionWorker, unperturbed_episodes
from drl_cli.evolution.directions import Block

BLOCK = Block(0, 2, 3)
NOISES = {"generator": {}, "table": {"noise_size": 1000}}
PENDULUM_ENV = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}


def _worker(made, index=0, spaces=CARTPOLE, env=ENV, version=1):
    spec, weights, server = parts(made, spaces, version)
    return EvolutionWorker(made, env, spec, IDENTITY | {"index": index}, server), spec, weights


def _same(one, other):
    assert sorted(one) == sorted(other) == ["fitness", "index", "length"]
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("keys", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("hiddens", [(), (5, 4)])
def test_returns_are_those_of_each_side_of_each_direction_played_by_itself(keys, hiddens):
    made = config(model={"fcnet_hiddens": hiddens}, noise_stdev=0.5, **keys)
    worker, spec, weights = _worker(made)
    token, results = worker.collect(1, None, BLOCK)
    slow = [[played(made, spec, weights, index, sign) for sign in (1, -1)] for index in (2, 3, 4)]
    lengths = [[len(rewards) for rewards, _ in pair] for pair in slow]
    assert results["index"].tolist() == [2, 3, 4] and len({tuple(pair) for pair in lengths}) > 1
    assert results["fitness"].tolist() == results["length"].tolist() == lengths
    assert token.steps == results["length"].sum() and token.whole and token.block == BLOCK
    assert sorted(token.episodes) == sorted((float(n), n) for pair in lengths for n in pair)
    rows = np.concatenate([seen for pair in slow for _, seen in pair])
    seen = token.seen["obs"]
    assert seen.count == len(rows)
    np.testing.assert_allclose(seen.mean, rows.mean(axis=0, dtype=np.float64), atol=1e-6)
    np.testing.assert_allclose(seen.variance(), rows.astype(np.float64).var(axis=0), rtol=1e-4)
    worker.close()


def test_box_actions_offset_and_discount_make_the_return_that_is_compared():
    made = config("ARS", offset=-2.0, gamma=0.9, clip_rewards=(-3.0, 0.0), horizon=20, num_envs_per_worker=2)
    worker, spec, weights = _worker(made, spaces=PENDULUM, env=PENDULUM_ENV)
    token, results = worker.collect(1, None, Block(0, 0, 1))
    for side, sign in enumerate((1, -1)):
        rewards, _ = played(made, spec, weights, 0, sign, "Pendulum-v1")
        counted = [0.9**step * (max(reward, -3.0) + 2.0) for step, reward in enumerate(rewards)]
        np.testing.assert_allclose(results["fitness"][0, side], sum(counted), rtol=1e-4)
    raw = sorted(sum(played(made, spec, weights, 0, sign, "Pendulum-v1")[0]) for sign in (1, -1))
    np.testing.assert_allclose(sorted(reward for reward, _ in token.episodes), raw, rtol=1e-4)


def test_outcome_does_not_depend_on_the_worker_nor_on_what_it_did_before():
    made = config(action_noise_std=0.3, eval_prob=0.3, horizon=15)
    one, _, _ = _worker(made, 0, PENDULUM, PENDULUM_ENV)
    other, _, _ = _worker(made, 5, PENDULUM, PENDULUM_ENV, version=3)  # newer by number, the same weights
    other.collect(1, None, Block(4, 0, 3))
    (first, results), (second, others) = one.collect(1, None, BLOCK), other.collect(1, None, BLOCK)
    _same(results, others)
    assert (first.episodes, first.unperturbed, first.steps) == (second.episodes, second.unperturbed, second.steps)
    np.testing.assert_array_equal(first.seen["obs"].mean, second.seen["obs"].mean)
    assert (second.meta.worker, second.meta.version, second.meta.sequence) == (5, 3, 1)


def test_long_block_comes_in_calls_that_add_up_to_one():
    whole, _, _ = _worker(config())
    token, results = whole.collect(1, None, BLOCK)
    parted, _, _ = _worker(config(rollout_fragment_length=7))
    calls = [parted.collect(1, None, BLOCK)]
    while not calls[-1][0].whole:
        assert calls[-1][1] == {} and calls[-1][0].unperturbed == ()
        calls.append(parted.collect(1, None, BLOCK))
    assert len(calls) == -(-results["length"].max() // 7) > 1
    _same(results, calls[-1][1])
    assert sum(told.steps for told, _ in calls) == token.steps
    assert tuple(episode for told, _ in calls for episode in told.episodes) == token.episodes
    assert sum(told.seen["obs"].count for told, _ in calls) == token.seen["obs"].count
    assert [told.meta.sequence for told, _ in calls] == list(range(len(calls)))


def test_another_block_takes_the_place_of_one_that_was_not_finished():
    worker, _, _ = _worker(config(rollout_fragment_length=2))
    assert not worker.collect(1, None, BLOCK)[0].whole
    fresh, _, _ = _worker(config(rollout_fragment_length=100))
    expected = fresh.collect(1, None, Block(0, 8, 1))[1]
    token, results = worker.collect(1, None, Block(0, 8, 1))
    while not token.whole:
        token, results = worker.collect(1, None, Block(0, 8, 1))
    _same(results, expected)


def test_unperturbed_episodes_are_played_with_the_weights_as_they_are_and_compared_with_nothing():
    made = config(eval_prob=0.5, horizon=40)  # two beside each direction
    worker, spec, weights = _worker(made)
    token, results = worker.collect(1, None, Block(0, 0, 1))
    rewards, _ = played(made, spec, weights, 0, 0)
    assert len(token.unperturbed) == 2 and token.unperturbed[0] == sum(rewards)
    assert results["fitness"].shape == (1, 2) and len(token.episodes) == 4


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.9])
def test_share_of_unperturbed_episodes(share):
    counts = [unperturbed_episodes(share, 7, 1, index) for index in range(4000)]
    assert abs(sum(counts) / (8000 + sum(counts)) - share) < 0.01
    assert counts[:5] == [unperturbed_episodes(share, 7, 1, index) for index in range(5)]


def test_noise_on_actions_is_for_perturbed_episodes_alone():
    quiet, noisy = (config(horizon=10, eval_prob=0.5, action_noise_std=std) for std in (0.0, 0.5))
    tokens = []
    for made in (quiet, noisy):
        worker, _, _ = _worker(made, spaces=PENDULUM, env=PENDULUM_ENV)
        tokens.append(worker.collect(1, None, Block(0, 0, 1)))
    assert tokens[0][0].unperturbed == tokens[1][0].unperturbed
    assert (tokens[0][1]["fitness"] != tokens[1][1]["fitness"]).all()


def test_state_is_empty_and_a_worker_without_past_sends_the_same():
    worker, _, _ = _worker(config())
    worker.collect(1, None, BLOCK)
    assert worker.state() == ({}, {})
    results = worker.collect(1, None, Block(1, 0, 2))[1]
    other, _, _ = _worker(config())
    other.load({}, {})
    _same(results, other.collect(1, None, Block(1, 0, 2))[1])
