"""Fragments against what a scripted environment did, what is never stored, weights, exact resume."""

import copy
import json

import numpy as np
import pytest
from parts import config, identity, server, spec, weights
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors import weight_pulls
from drl_cli.actors.fragment_transforms import clipped_rewards
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.errors import CheckpointError, RunFailed, WorkersFailed
from drl_cli.runtime.cluster import finished

SPEC = spec(2, (LOW,), (HIGH,))


def _worker(*plan, random_steps=10**9, of_spec=SPEC, started=None, **keys):
    Scripted.begin(*plan)
    return RolloutWorker(config(**keys), ENV, of_spec, identity(3, random_steps), started or server())


def test_fragment_holds_what_the_environment_did_in_order():
    worker = _worker({"ends": (2, "terminated")}, {"ends": (1, "truncated")})
    token, columns = worker.collect()
    assert columns["obs"].tolist() == [[[0, 0]], [[0, 1]], [[1, 0]], [[2, 0]], [[2, 1]]]
    assert columns["reward"].tolist() == [[0], [1], [100], [200], [201]]
    assert columns["terminated"].tolist() == [[False], [True], [False], [False], [False]]
    assert columns["truncated"].tolist() == [[False], [False], [True], [False], [False]]
    assert columns["end_obs"].tolist() == [[0, 2], [1, 1]]
    assert columns["tail_obs"].tolist() == [[2, 2]]
    assert columns["cut"].tolist() == [True]
    assert token.meta == (3, 0, 0, 0)
    assert (token.steps, token.episodes, token.bad_transitions, token.notes) == (5, ((1.0, 2), (100.0, 1)), 0, ())
    assert {name: (array.dtype.name, array.shape) for name, array in columns.items()} == {
        "obs": ("float32", (5, 1, 2)),
        "action": ("float32", (5, 1, 1)),
        "reward": ("float32", (5, 1)),
        "terminated": ("bool", (5, 1)),
        "truncated": ("bool", (5, 1)),
        "cut": ("bool", (1,)),
        "end_obs": ("float32", (2, 2)),
        "tail_obs": ("float32", (1, 2)),
    }


def test_with_no_done_at_end_a_real_end_is_learnt_from_as_a_cut():
    worker = _worker({"ends": (2, "terminated")}, {"ends": (1, "truncated")}, no_done_at_end=True)
    token, columns = worker.collect()
    assert columns["terminated"].any() == np.False_
    assert columns["truncated"][:, 0].tolist() == [False, True, True, False, False]
    assert columns["end_obs"].tolist() == [[0, 2], [1, 1]]
    assert token.episodes == ((1.0, 2), (100.0, 1))


def test_soft_horizon_ends_episodes_but_not_the_environments():
    token, columns = _worker({}, horizon=2, soft_horizon=True).collect()
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4]]
    assert columns["truncated"][:, 0].tolist() == [False, True, False, True, False]
    assert columns["end_obs"].tolist() == [[0, 2], [0, 4]]
    assert (token.episodes, Scripted.made) == (((1.0, 2), (5.0, 2)), 1)


def test_next_fragment_continues_the_stream():
    worker = _worker({"ends": (7, "terminated")})
    worker.collect()
    token, columns = worker.collect()
    assert columns["obs"][:, 0].tolist() == [[0, 5], [0, 6], [1, 0], [1, 1], [1, 2]]
    assert columns["cut"].tolist() == [False]
    assert token.meta.sequence == 1
    assert token.episodes == ((21.0, 7),)  # 0 + 1 + … + 6: the part in the fragment before counts


def test_ends_of_two_environments_are_ordered_by_step_then_environment():
    ends = [{"ends": (2, "terminated")}, {"ends": (1, "terminated")}, {"ends": (1, "truncated")}]
    _, columns = _worker(*ends, num_envs_per_worker=2, rollout_fragment_length=2).collect()
    assert columns["end_obs"].tolist() == [[1, 1], [0, 2], [2, 1]]
    assert columns["terminated"].tolist() == [[False, True], [True, False]]
    assert columns["truncated"].tolist() == [[False, False], [False, True]]


def test_both_kinds_of_end_at_once_are_both_stored():
    _, columns = _worker({"ends": (1, "terminated truncated")}).collect()
    assert columns["terminated"][0, 0] and columns["truncated"][0, 0]


@pytest.mark.parametrize("how", ["raise", "nan obs", "nan reward", "inf reward", "shape"])
def test_a_broken_step_is_not_stored_and_what_came_before_ends_there(how):
    worker = _worker({"ends": (2, "terminated")}, {"breaks": (1, how)}, {"ends": (2, "truncated")})
    token, columns = worker.collect()
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1]]
    assert columns["reward"][:, 0].tolist() == [0, 1, 100, 200, 201]
    assert columns["terminated"][:, 0].tolist() == [False, True, False, False, False]
    assert columns["truncated"][:, 0].tolist() == [False, False, True, False, True]
    assert columns["end_obs"].tolist() == [[0, 2], [1, 1], [2, 2]]
    assert columns["cut"].tolist() == [True]
    assert token.episodes == ((1.0, 2), (401.0, 2))  # the broken episode has no score
    assert token.bad_transitions == 1 and len(token.notes) == 1
    # Six actions were taken, that of the broken step is not among those stored.
    taken = np.float32(Scripted.actions)[[0, 1, 2, 4, 5], 0]
    np.testing.assert_allclose(columns["action"][:, 0, 0] * 3 + 1, taken, rtol=1e-6)
    assert len(Scripted.actions) == 6


def test_a_step_broken_at_the_start_of_a_fragment_cuts_the_stream():
    worker = _worker({"breaks": (5, "raise")})
    _, first = worker.collect()
    assert not first["truncated"].any()
    token, second = worker.collect()
    assert second["cut"].tolist() == [True]
    assert second["obs"][:2, 0].tolist() == [[1, 0], [1, 1]]
    assert token.bad_transitions == 1
    assert worker.collect()[1]["cut"].tolist() == [False]
    assert worker.collect()[0].bad_transitions == 0


def test_only_the_environment_that_broke_is_cut():
    worker = _worker({}, {"breaks": (5, "raise")}, num_envs_per_worker=2)
    worker.collect()
    assert worker.collect()[1]["cut"].tolist() == [False, True]


def test_several_broken_steps_in_a_row_end_the_stream_once():
    worker = _worker({"breaks": (2, "raise")}, {"breaks": (0, "raise")}, {"breaks": (0, "nan reward")})
    token, columns = worker.collect()
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [3, 0], [3, 1], [3, 2]]
    assert columns["truncated"][:, 0].tolist() == [False, True, False, False, False]
    assert columns["end_obs"].tolist() == [[0, 2]]
    assert token.bad_transitions == 3


def test_a_first_step_that_breaks_behind_an_end_leaves_that_end_alone():
    worker = _worker({"ends": (2, "terminated")}, {"breaks": (0, "raise")})
    _, columns = worker.collect()
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [2, 0], [2, 1], [2, 2]]
    assert columns["terminated"][:, 0].tolist() == [False, True, False, False, False]
    assert not columns["truncated"].any()
    assert columns["end_obs"].tolist() == [[0, 2]]


def test_an_environment_that_always_breaks_ends_the_run_with_the_first_cause():
    worker = _worker(*[{"breaks": (0, "raise")}] * 50)
    with pytest.raises(WorkersFailed, match=r"the first: Scripted-v0 failed in step 0 .* motor of episode 0 burnt \("):
        worker.collect()


def test_horizon_cuts_episodes_short_of_their_end():
    token, columns = _worker(horizon=2).collect()
    assert columns["truncated"][:, 0].tolist() == [False, True, False, True, False]
    assert not columns["terminated"].any()
    assert token.episodes == ((1.0, 2), (201.0, 2))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (None, [-3.0, -0.25, 0.0, 0.5, 7.0]),
        (False, [-3.0, -0.25, 0.0, 0.5, 7.0]),
        (True, [-1.0, -1.0, 0.0, 1.0, 1.0]),
        (0.5, [-0.5, -0.25, 0.0, 0.5, 0.5]),
        (1, [-1.0, -0.25, 0.0, 0.5, 1.0]),
        ((-0.1, 2.0), [-0.1, -0.1, 0.0, 0.5, 2.0]),
        ([0.0, 2.0], [0.0, 0.0, 0.0, 0.5, 2.0]),
    ],
)
def test_clipped_rewards_follow_the_rule(rule, expected):
    found = clipped_rewards(np.float32([[-3.0, -0.25, 0.0, 0.5, 7.0]]), rule)
    np.testing.assert_allclose(found, [expected], rtol=1e-6)
    assert found.dtype == np.float32


def test_clipped_rewards_are_learnt_from_and_raw_ones_reported():
    token, columns = _worker({"ends": (3, "terminated")}, clip_rewards=1.0).collect()
    assert columns["reward"][:, 0].tolist() == [0, 1, 1, 1, 1]
    assert token.episodes == ((3.0, 3),)


def test_first_actions_are_uniform_within_the_bounds_then_the_policys():
    started = server()
    started.call("push", {"default_policy": weights(SPEC)})
    worker = _worker(random_steps=400, started=started, rollout_fragment_length=400, explore=False)
    action = worker.collect()[1]["action"].ravel()
    assert -1.0 <= action.min() < -0.98 and 0.98 < action.max() <= 1.0
    assert abs(action.mean()) < 0.1 and abs(action.std() - 0.57735) < 0.05
    _, columns = worker.collect()
    greedy = worker._policy.act(columns["obs"][:, 0], (), None, False)[0]
    np.testing.assert_allclose(columns["action"][:, 0], greedy, rtol=1e-5)


def test_actions_stay_uniform_until_weights_have_come():
    started = server()
    worker = _worker(random_steps=0, started=started, explore=False)
    token, columns = worker.collect()
    assert token.meta.version == 0 and len(np.unique(columns["action"])) == 5
    started.call("push", {"default_policy": weights(SPEC)})
    assert worker.collect()[0].meta.version == 1


def test_newest_weights_are_adopted_before_a_fragment_and_named_in_it():
    started = server()
    for seed in range(3):
        started.call("push", {"default_policy": weights(SPEC, seed)})
    worker = _worker(random_steps=0, started=started, explore=False)
    token, columns = worker.collect(min_version=3)
    assert token.meta.version == 3
    fresh = RolloutWorker(config(), ENV, SPEC, identity(3, 0), started)
    fresh._policy.set_weights(weights(SPEC, 2))
    expected = fresh._policy.act(columns["obs"][:, 0], (), None, False)[0]
    np.testing.assert_allclose(columns["action"][:, 0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"normalize": True, "clip": True}, lambda a: a * 3 + 1),
        ({"normalize": False, "clip": True}, lambda a: a),
    ],
)
def test_environment_gets_actions_in_its_own_units(keys, expected):
    worker = _worker(of_spec=spec(2, (LOW,), (HIGH,), **keys))
    _, columns = worker.collect()
    np.testing.assert_allclose(np.float32(Scripted.actions)[:, 0], expected(columns["action"][:, 0, 0]), rtol=1e-6)
    assert np.float32(Scripted.actions).min() < 0 and np.float32(Scripted.actions).max() > 1


def test_workers_indices_and_incarnations_differ_in_actions_and_episodes():
    found = []
    for index, incarnation in ((0, 0), (1, 0), (0, 1), (0, 0)):
        Scripted.begin()
        who = identity(index) | {"incarnation": incarnation}
        token, columns = RolloutWorker(config(), ENV, SPEC, who, server()).collect()
        assert token.meta[:3] == (index, incarnation, 0)
        found.append((Scripted.seeds[0], columns["action"][0, 0, 0]))
    assert found[0] == found[3]
    assert len({seed for seed, _ in found}) == len({action for _, action in found}) == 3


class _Late:
    """A parameter server whose first push comes after some pulls; remote ones answer no sooner."""

    def __init__(self, after, is_remote):
        self.is_remote, self.pulls, self._after = is_remote, [], after

    def node_key(self):
        raise OSError("nothing is shared")

    def call(self, method, have, most=None):
        self.pulls.append((method, have, most))
        pushed = len(self.pulls) > self._after and have < 1
        return finished((1, {"default_policy": weights(SPEC)}) if pushed else None)


@pytest.mark.parametrize("is_remote", [False, True])
def test_waiting_for_weights_pauses_longer_and_longer_between_two_looks(monkeypatch, is_remote):
    pauses = []
    monkeypatch.setattr(weight_pulls.time, "sleep", pauses.append)
    late = _Late(9, is_remote)
    token, _ = _worker(started=late).collect(min_version=1, max_version=4)
    assert token.meta.version == 1
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]
    assert late.pulls == [("pull", 0, 4)] * 10


def test_weights_that_never_come_end_the_wait_with_an_error(monkeypatch):
    clock = iter(range(0, 10**6, 100))
    monkeypatch.setattr(weight_pulls.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(weight_pulls.time, "sleep", lambda seconds: None)
    with pytest.raises(RunFailed, match="worker 3 waited 600 s for weights of version 2; the newest are of version 1"):
        _worker(started=_Late(3, False)).collect(min_version=2)


@pytest.mark.parametrize("is_remote", [False, True])
def test_nothing_waits_where_no_version_is_asked_for(monkeypatch, is_remote):
    monkeypatch.setattr(weight_pulls.time, "sleep", lambda seconds: pytest.fail("it slept"))
    late = _Late(5, is_remote)
    assert _worker(started=late).collect()[0].meta.version == 0
    assert len(late.pulls) == 1 + is_remote  # the next fragment finds an answer


def test_no_pause_follows_an_answer_that_is_older_than_the_wait(monkeypatch):
    monkeypatch.setattr(weight_pulls.time, "sleep", lambda seconds: pytest.fail("it slept"))
    late = _Late(2, True)
    worker = _worker(started=late)
    worker.collect()  # asks for the next fragment; the weights are pushed after that
    assert worker.collect(min_version=1)[0].meta.version == 1
    assert len(late.pulls) == 3


# -- exploration ------------------------------------------------------------------------------------------------


def _with_weights():
    started = server()
    started.call("push", {"default_policy": weights(SPEC)})
    return started


def test_token_says_how_strongly_the_worker_explores_at_its_place_in_the_run():
    settings = {"type": "GaussianNoise", "random_timesteps": 100, "scale_timesteps": 1000, "final_scale": 0.5}
    made = config(exploration_config=settings)
    who = identity(0, 0) | {"streams": 10, "stream": 4, "base": 550}
    worker = RolloutWorker(made, ENV, SPEC, who, _with_weights())
    # t = 550 + 5 steps · 10 streams: half of the way from 1 to 0.5 behind the first 100 env steps
    assert worker.collect()[0].exploration == {"stddev": pytest.approx(0.075)}


def test_a_held_action_ends_with_its_episode_and_with_a_broken_one():
    plan = {"ends": (2, "terminated")}, {"breaks": (1, "raise")}
    worker = _worker(*plan, rollout_fragment_length=8, exploration_config={"hold_steps": 3})
    _, columns = worker.collect()
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3], [2, 4]]
    action = columns["action"][:, 0, 0]
    assert [len(np.unique(action[at:to])) for at, to in ((0, 2), (2, 3), (3, 6), (6, 8))] == [1, 1, 1, 1]
    assert len(np.unique(action)) == 4


def test_a_held_action_leads_to_the_flag_where_single_ones_do_not():
    env, flags = {"id": "MountainCarContinuous-v0", "env_config": {}, "imports": ()}, {}
    of_spec = spec(2, (-1.0,), (1.0,))
    for hold in (1, 8):
        made = config(num_envs_per_worker=10, rollout_fragment_length=999, exploration_config={"hold_steps": hold})
        worker = RolloutWorker(made, env, of_spec, identity(0), server())
        flags[hold] = int(worker.collect()[1]["terminated"].any(axis=0).sum())
        worker.close()
    assert flags[1] == 0 and flags[8] >= 4  # of ten environments; 0.2 % and 59 % of episodes


# -- exact resume -----------------------------------------------------------------------------------------------


def _real(name, of_spec, started, fragment=25, fresh=False):
    env = {"id": name, "env_config": {}, "imports": ()}
    made = config(num_envs_per_worker=2, rollout_fragment_length=fragment, fresh_envs=fresh)
    return RolloutWorker(made, env, of_spec, identity(0, 30), started)


@pytest.mark.parametrize(
    ("name", "of_spec", "fragments", "fresh"),
    [
        ("Pendulum-v1", spec(3, (-2.0,), (2.0,)), 0, False),
        ("Pendulum-v1", spec(3, (-2.0,), (2.0,)), 1, False),
        ("Pendulum-v1", spec(3, (-2.0,), (2.0,)), 8, False),  # 200 steps: both episodes have just ended
        ("BipedalWalker-v3", spec(24, (-1.0,) * 4, (1.0,) * 4), 7, True),
    ],
)
def test_load_goes_on_with_the_same_fragments_bit_for_bit(name, of_spec, fragments, fresh):
    started = server()
    started.call("push", {"default_policy": weights(of_spec)})
    worker = _real(name, of_spec, started, fresh=fresh)
    for _ in range(fragments):
        worker.collect()
    arrays, facts = copy.deepcopy(worker.state())
    other = _real(name, of_spec, started, fresh=fresh)
    assert other.load(arrays, json.loads(json.dumps(facts))) == 0
    for _ in range(9):
        (token, columns), (token_2, columns_2) = worker.collect(), other.collect()
        assert token[:5] == token_2[:5]
        assert all(columns[name].tobytes() == columns_2[name].tobytes() for name in columns)
    worker.close()
    other.close()


def test_an_episode_that_comes_out_differently_begins_anew_and_cuts_its_stream():
    of_spec, started = spec(3, (-2.0,), (2.0,)), server()
    started.call("push", {"default_policy": weights(of_spec)})
    worker = _real("Pendulum-v1", of_spec, started)
    worker.collect()
    arrays, facts = copy.deepcopy(worker.state())
    arrays["obs_1"] += 1.0
    other = _real("Pendulum-v1", of_spec, started)
    assert other.load(arrays, json.loads(json.dumps(facts))) == 1
    assert other.state()[0]["cut"].tolist() == [False, True]
    (token, columns), (_, same) = other.collect(), worker.collect()
    assert columns["cut"].tolist() == [False, True] and token.episodes == ()
    assert np.array_equal(columns["obs"][:, 0], same["obs"][:, 0])
    assert not np.array_equal(columns["obs"][0, 1], same["obs"][0, 1])
    assert other.collect()[1]["cut"].tolist() == [False, False]
    assert other.state()[0]["lengths"].tolist() == [75, 50]


def test_saving_changes_nothing():
    of_spec, started = spec(3, (-2.0,), (2.0,)), server()
    started.call("push", {"default_policy": weights(of_spec)})
    worker, other = (_real("Pendulum-v1", of_spec, started) for _ in range(2))
    for _ in range(9):
        worker.state()
        first, second = worker.collect()[1], other.collect()[1]
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_an_incomplete_state_is_refused():
    worker = _worker()
    arrays, facts = worker.state()
    del facts["place"]
    with pytest.raises(CheckpointError, match="state of a worker is incomplete .'place'."):
        worker.load(arrays, facts)
