"""Workers' differences add up in the learner; what is pushed is a policy and its filter of one moment."""

import numpy as np
import pytest
from parts import config, identity, server, spec
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors.learner import Learner
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.actors.running_filters import Differences, Observed
from drl_cli.algorithms import sac
from drl_cli.config.sections.on_policy import OnPolicyKeys
from drl_cli.errors import Diverged
from drl_cli.policies import filters
from drl_cli.policies.filters import moments
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec

pytestmark = pytest.mark.tensorflow

KEYS = {"observation_filter": "MeanStdFilter", "reward_scaling": True, "gamma": 0.5}
NET = spec(2, (LOW,), (HIGH,))
SPEC = PolicySpec(NET.nets, NET.distribution, NET.obs_shape, NET.action, filter=True, scaled=True)
WEIGHTS = SPEC.nets[0].initial_weights(np.random.default_rng(0), head_scale=3.0)


class Fakes:
    """Stands for a ``tf1.weights.Weights`` of the filters' variables."""

    def __init__(self):
        self.values, self.writes = {}, 0

    def set(self, values):
        self.values, self.writes = dict(values), self.writes + 1

    def get(self):
        return self.values


def _worker(*plan, started=None, index=0, **keys):
    Scripted.begin(*plan)
    made = config(**({"rollout_fragment_length": 6} | KEYS | keys))
    return RolloutWorker(made, ENV, SPEC, identity(index), started or server())


def test_fragment_s_difference_is_of_its_own_raw_observations_and_discounted_returns():
    worker = _worker({"ends": (2, "terminated")}, {"ends": (3, "truncated")})
    token, columns = worker.collect()
    assert columns["reward"][:, 0].tolist() == [0, 1, 100, 101, 102, 200]  # a replay holds raw rewards
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 0]]
    seen = token.seen
    assert seen["obs"].count == seen["return"].count == 6
    np.testing.assert_allclose(seen["obs"].mean, [5 / 6, 4 / 6])
    np.testing.assert_allclose(seen["obs"].variance(), columns["obs"][:, 0].astype(np.float64).var(axis=0))
    returns = [0, 1, 100, 151, 177.5, 200]
    np.testing.assert_allclose([seen["return"].mean, seen["return"].variance()], [np.mean(returns), np.var(returns)])
    assert token.episodes == ((1.0, 2), (303.0, 3))  # as the environment gave them
    again = worker.collect()[0].seen["return"]
    returns = [201 + 100, 202 + 150.5, 203 + 176.25, 204 + 189.625, 205 + 196.8125, 206 + 200.90625]
    np.testing.assert_allclose([again.mean, again.variance()], [np.mean(returns), np.var(returns)])


def test_discounted_return_is_part_of_the_worker_s_state():
    worker = _worker()
    worker.collect()
    arrays, facts = worker.state()
    assert arrays["discounted"].tolist() == [5 + 0.5 * (4 + 0.5 * (3 + 0.5 * (2 + 0.5)))]
    whole = worker.collect()[0].seen["return"]
    resumed = _worker()
    resumed.load(arrays, facts)
    part = resumed.collect()[0].seen["return"]
    assert (part.count, part.mean, part.m2) == (whole.count, whole.mean, whole.m2)


def _pushed(mean):
    """A parameter server whose weights hold a filter with ``mean``, as the learner pushed it."""
    started = server()
    means = {filters.MEAN: np.full(2, mean, np.float32)}
    started.call("push", {"default_policy": WEIGHTS | filters.first_weights(SPEC) | means})
    return started


def test_workers_that_share_no_filter_act_with_their_own_and_tell_the_learner_all_the_same():
    worker = _worker(started=_pushed(7.0), synchronize_filters=False)
    token, _ = worker.collect(1)
    assert worker.policy.weights[filters.MEAN].tolist() == [7.0, 7.0]  # it has seen nothing yet
    second, _ = worker.collect()
    np.testing.assert_allclose(worker.policy.weights[filters.MEAN], token.seen["obs"].mean)
    np.testing.assert_allclose(worker.policy.weights[filters.VAR][1], token.seen["obs"].variance()[1])
    assert worker.policy.weights["filter/return_var"] == 0  # rewards are the learner's matter
    worker.collect()
    both = (token.seen["obs"].mean + second.seen["obs"].mean) / 2
    np.testing.assert_allclose(worker.policy.weights[filters.MEAN], both)
    shared = _worker(started=_pushed(7.0))
    shared.collect(1), shared.collect()
    assert shared.policy.weights[filters.MEAN].tolist() == [7.0, 7.0]


def test_a_worker_s_own_filter_is_part_of_its_state():
    worker = _worker(started=_pushed(7.0), synchronize_filters=False)
    worker.collect(1), worker.collect()
    arrays, facts = worker.state()
    worker.collect()
    resumed = _worker(started=_pushed(7.0), synchronize_filters=False)
    resumed.load(arrays, facts)
    resumed.collect(1)
    for name in (filters.MEAN, filters.VAR):
        assert np.array_equal(resumed.policy.weights[name], worker.policy.weights[name])
    shared_before = {name: array for name, array in arrays.items() if not name.startswith("own_")}
    begun = _worker(started=_pushed(7.0), synchronize_filters=False)
    begun.load(shared_before, facts)
    begun.collect(1)
    assert begun.policy.weights[filters.MEAN].tolist() == [7.0, 7.0]


def test_a_broken_episode_s_return_does_not_go_on():
    found = _worker({"breaks": (3, "raise")}).collect()[0].seen["return"]
    returns = [0, 1, 2.5, 100, 151, 177.5]
    np.testing.assert_allclose([found.mean, found.variance()], [np.mean(returns), np.var(returns)])


@pytest.mark.parametrize("known", [False, True])
def test_rewards_that_are_not_replayed_are_divided_by_the_worker_in_its_fragment_alone(known):
    differences = Differences(OnPolicyKeys(gamma=0.5, num_envs_per_worker=1), SPEC, 1)
    columns = {
        "obs": np.zeros((3, 1, 2), np.float32),
        "reward": np.float32([[2], [3], [9]]),
        "terminated": np.array([[False], [True], [False]]),
        "truncated": np.zeros((3, 1), bool),
        "cut": np.array([True]),
    }
    weights = filters.first_weights(SPEC) | ({"filter/return_var": np.float32(4.0)} if known else {})
    seen, left = differences.note(columns, weights)
    deviation = 2.0 if known else np.std([2, 4, 9])  # nobody knows it yet: the fragment's own
    np.testing.assert_allclose(columns["reward"][:, 0], np.float32([2, 3, 9]) / deviation, rtol=1e-6)
    assert columns["reward"].dtype == np.float32 and left == 1.0
    assert seen["return"].mean == 5.0


def test_padding_behind_complete_episodes_is_not_seen():
    differences = Differences(OnPolicyKeys(gamma=0.5, num_envs_per_worker=2), SPEC, 2)
    columns = {
        "obs": np.float32([[[1, 1], [3, 5]], [[9, 9], [5, 9]], [[9, 9], [6, 1]]]),
        "reward": np.ones((3, 2), np.float32),
        "terminated": np.array([[True, False], [False, False], [False, True]]),
        "truncated": np.zeros((3, 2), bool),
        "cut": np.array([True, True]),
        "length": np.array([1, 3]),
    }
    seen, _ = differences.note(columns, None)
    assert (seen["obs"].count, seen["obs"].mean.tolist()) == (4.0, [3.75, 4.0])
    assert (seen["return"].count, seen["return"].mean) == (4.0, (1 + 1 + 1.5 + 1.75) / 4)
    assert differences.state()["discounted"].tolist() == [0.0, 0.0]


def test_without_filters_nothing_is_seen_and_nothing_kept():
    worker = RolloutWorker(config(), ENV, NET, identity(), server())
    Scripted.begin()
    assert worker.collect()[0].seen is None
    assert "discounted" not in worker.state()[0]
    observed, fakes = Observed(NET, None, "p/"), Fakes()
    observed.add([None])
    observed.write()
    observed.read()
    assert fakes.writes == 0


def test_two_workers_statistics_merge_to_those_of_all_observations_in_any_order():
    started = server()
    workers = [_worker({"ends": (at, "terminated")}, started=started, index=at) for at in (4, 9)]
    found, rows = [], []
    for number in (0, 1, 1, 0, 1):
        token, columns = workers[number].collect()
        found.append(token.seen)
        rows.append(columns["obs"].reshape(-1, 2).astype(np.float64))
    rows, fakes = np.concatenate(rows), Fakes()
    for order in (found, found[::-1]):
        observed = Observed(SPEC, fakes, "p/")
        observed.add(order[:2])
        observed.add([None, *order[2:]])
        observed.write()
        assert fakes.values["p/filter/count"] == len(rows) == 30
        np.testing.assert_allclose(fakes.values["p/filter/exact_mean"], rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(fakes.values["p/filter/mean"], rows.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(fakes.values["p/filter/var"], rows.var(axis=0), rtol=1e-6)
        np.testing.assert_allclose(fakes.values["p/filter/m2"] / 30, rows.var(axis=0), rtol=1e-12)


def test_variables_are_written_once_for_each_change_and_gone_on_from_bit_for_bit():
    fakes, rng = Fakes(), np.random.default_rng(0)
    rows = rng.normal(0, 1, (9, 7, 2))
    seen = [{"obs": moments(part), "return": moments(part[:, 0])} for part in rows]
    observed = Observed(SPEC, fakes, "p/")
    observed.add(seen[:5])
    observed.write()
    observed.write()
    assert fakes.writes == 1
    other, copies = Observed(SPEC, Fakes(), "p/"), {name: np.array(value) for name, value in fakes.values.items()}
    other._weights.values = copies
    other.read()
    for each in (observed, other):
        each.add(seen[5:])
        each.write()
    assert sorted(copies) == sorted(fakes.values)
    assert [name for name in copies if not np.array_equal(other._weights.values[name], fakes.values[name])] == []


def test_rows_count_by_the_pace_at_which_they_are_added():
    rows = np.random.default_rng(0).normal(3, 2, (2, 40, 2))
    fakes = Fakes()
    half = Observed(SPEC, fakes, "p/")
    half.add([{"obs": moments(rows[0]), "return": moments(rows[0, :, 0])}])
    half.pace = 0.5
    half.add([{"obs": moments(rows[1]), "return": moments(rows[1, :, 0])}])
    half.write()
    mean = np.average(np.concatenate(rows), axis=0, weights=np.repeat([1.0, 0.5], 40))
    variance = np.average(np.square(np.concatenate(rows) - mean), axis=0, weights=np.repeat([1.0, 0.5], 40))
    assert fakes.values["p/filter/count"] == 60
    np.testing.assert_allclose(fakes.values["p/filter/exact_mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(fakes.values["p/filter/m2"] / 60, variance, rtol=1e-12)


MODEL = {"fcnet_hiddens": (8, 8), "fcnet_activation": "tanh"}
SMALL = {"train_batch_size": 4, "updates_per_call": 6, "publish_every": 4, "xla": False}


def _learner():
    made, started = config(**(SMALL | KEYS | {"policy_model": MODEL, "Q_model": MODEL})), server()
    initial = sac.initial_weights(made, SPEC, 3) | filters.first_weights(SPEC)
    started.call("push", {"default_policy": {name: initial[name] for name in SPEC.weight_names()}})
    learner = Learner(made, SPEC, "drl_cli.algorithms.sac_graph", initial, {"seed": 3, "with_ray": False}, started)
    learner.prepare()
    return learner, started


def _block(seed):
    rng, lead = np.random.default_rng(seed), (6, 4)
    return {
        "obs": rng.normal(5, 1, (*lead, 2)).astype(np.float32),
        "action": rng.uniform(-1, 1, (*lead, 1)).astype(np.float32),
        "reward": rng.normal(0, 1, lead).astype(np.float32),
        "discount": np.full(lead, 0.9, np.float32),
        "next_obs": rng.normal(5, 1, (*lead, 2)).astype(np.float32),
    }


def test_weights_and_filter_are_of_one_version_and_a_learner_goes_on_with_both():
    learner, started = _learner()
    rows = np.random.default_rng(1).normal(5, 2, (3, 40, 2))
    seen = [{"obs": moments(part), "return": moments(part[:, 0])} for part in rows]
    learner.observe(seen[:1])
    assert learner.learn(_block(0), 4, 0)["version"] == 2
    learner.observe(seen[1:2])  # is not in what was pushed before
    version, pushed = started.call("pull", 1).result()
    np.testing.assert_allclose(pushed["default_policy"]["filter/mean"], rows[0].mean(axis=0), rtol=1e-6)
    assert version == 2
    # The next push brings both: what has been learnt since, and what has been seen before it.
    assert learner.learn(_block(1), 2, 0)["version"] == 2 and learner.push() == 3
    state, both = learner.state(), rows[:2].reshape(-1, 2)
    pushed = started.call("pull", 2).result()[1]["default_policy"]
    np.testing.assert_allclose(pushed["filter/var"], both.var(axis=0), rtol=1e-6)
    assert all(np.array_equal(value, state[f"default_policy/{name}"]) for name, value in pushed.items())
    assert state["default_policy/filter/count"] == 80
    assert NumpyPolicy(SPEC, pushed).act(np.float32([[5, 5]]), (), None, False)[0].shape == (1, 1)
    other, _ = _learner()
    other.load(state, 3)
    for each in (learner, other):
        each.observe(seen[2:])
        each.learn(_block(2), 3, 0)
    mine, others = learner.state(), other.state()
    assert [name for name in mine if not np.array_equal(mine[name], others[name])] == []
    assert mine["default_policy/filter/count"] == 120


def test_updates_see_what_was_observed_before_them():
    results = []
    for observes in (False, True):
        learner, _ = _learner()
        if observes:
            rows = np.random.default_rng(1).normal(5, 2, (40, 2))
            learner.observe([{"obs": moments(rows), "return": moments(rows[:, 0])}])
        results.append(learner.learn(_block(0), 3, 0)["stats"]["critic_loss"])
    assert results[0] != results[1]
    block = _block(0)
    block["reward"][1, 1] = np.inf
    with pytest.raises(Diverged):
        learner.learn(block, 3, 0)
