"""Environments side by side: episodes and their seeds, what breaks, exact resume."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scripted_envs import ENV, Scripted

from drl_cli.envs.env_batch import EnvBatch
from drl_cli.errors import CheckpointError, WorkersFailed
from drl_cli.randomness import number

ZERO = np.zeros(1, np.float32)


def _batch(*plan, count=1, horizon=None):
    Scripted.begin(*plan)
    batch = EnvBatch(ENV, count, (7, 3), horizon)
    batch.reset()
    return batch


def test_step_returns_the_real_next_observation_and_begins_a_new_episode():
    batch = _batch({"ends": (2, "terminated")})
    assert batch.obs().tolist() == [[0.0, 0.0]] and batch.obs().dtype == np.float32
    reward, terminated, truncated, obs = batch.step(0, ZERO)
    assert (reward, terminated, truncated, obs.tolist()) == (0.0, False, False, [0.0, 1.0])
    reward, terminated, truncated, obs = batch.step(0, ZERO)
    assert (reward, terminated, truncated, obs.tolist()) == (1.0, True, False, [0.0, 2.0])
    assert batch.obs().tolist() == [[1.0, 0.0]]
    assert batch.episode_length(0) == 0


@pytest.mark.parametrize("kind", ["terminated", "truncated", "terminated truncated"])
def test_ends_of_both_kinds_are_kept_apart(kind):
    batch = _batch({"ends": (1, kind)})
    assert batch.step(0, ZERO)[1:3] == ("terminated" in kind, "truncated" in kind)


def test_horizon_truncates_and_leaves_a_real_end_alone():
    batch = _batch({}, {"ends": (2, "terminated")}, {"ends": (1, "terminated")}, horizon=2)
    assert [batch.step(0, ZERO)[1:3] for _ in range(5)] == [
        (False, False),
        (False, True),
        (False, False),
        (True, False),
        (True, False),
    ]


def test_every_episode_has_its_own_seed_from_seed_worker_environment_and_number():
    batch = _batch(*[{"ends": (1, "terminated")}] * 10, count=2)
    for _ in range(2):
        for index in range(2):
            batch.step(index, ZERO)
    order = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert Scripted.seeds == [number(7, "env", 3, index, episode) for index, episode in order]
    assert len(set(Scripted.seeds)) == 6


@pytest.mark.parametrize("how", ["raise", "exit", "nan obs", "nan reward", "inf reward", "shape", "word"])
def test_a_step_that_breaks_has_not_happened_and_a_new_episode_begins(how):
    batch = _batch({"breaks": (1, how)})
    batch.step(0, ZERO)
    assert batch.step(0, ZERO) is None
    assert batch.obs().tolist() == [[1.0, 0.0]]
    assert (batch.bad_steps, len(batch.notes), batch.episode_length(0)) == (1, 1, 0)
    seed = number(7, "env", 3, 0, 0)
    assert batch.notes[0].startswith(f"Scripted-v0 failed in step 1 of an episode with seed {seed}: ")
    assert batch.step(0, ZERO)[0] == 100.0


@pytest.mark.parametrize("how", ["raise", "nan", "shape"])
def test_a_reset_that_breaks_is_tried_again_with_the_next_seed(how):
    batch = _batch({"ends": (1, "terminated")}, {"reset": how}, {"reset": how})
    batch.step(0, ZERO)
    assert batch.obs().tolist() == [[3.0, 0.0]]
    assert Scripted.seeds == [number(7, "env", 3, 0, episode) for episode in range(4)]
    seed = number(7, "env", 3, 0, 1)
    assert batch.notes[0].startswith(f"Scripted-v0 failed in reset of an episode with seed {seed}: ")
    assert (batch.bad_steps, len(batch.notes)) == (0, 2)


def test_a_reset_that_always_breaks_ends_the_run_with_the_first_cause():
    with pytest.raises(WorkersFailed, match=r"more than 10 failures in a row; the first: .* no start for episode 0 \("):
        _batch(*[{"reset": "raise"}] * 50)
    assert Scripted.made == 11


def test_failures_in_a_row_are_named_after_their_own_first_cause():
    """Not after one that a good step has followed, nor after another environment's."""
    good = {"breaks": (1, "raise")}
    batch = _batch(good, good, *[{"breaks": (0, "raise")}] * 50, count=2)
    for index in (0, 1):
        batch.step(index, ZERO)
        assert batch.step(index, ZERO) is None
    with pytest.raises(WorkersFailed, match=r"the first: .* motor of episode 1 burnt \("):
        for _ in range(50):
            batch.step(1, ZERO)


def test_failures_with_a_good_step_between_them_go_on_for_ever():
    batch = _batch(*[{"breaks": (1, "raise")}] * 50)
    found = [batch.step(0, ZERO) is None for _ in range(80)]
    assert found == [False, True] * 40


def test_a_reward_in_an_array_of_one_is_that_number():
    batch = _batch({"reward": "array"})
    reward = batch.step(0, ZERO)[0]
    assert reward == 0.0 and type(reward) is float
    assert batch.step(0, ZERO)[0] == 1.0


def test_close_without_reset_is_harmless():
    batch = EnvBatch(ENV, 2, (7, 3))
    batch.close()
    assert batch.bad_steps == 0


# -- exact resume -----------------------------------------------------------------------------------------------


def _moved(name, count, actions, size, fresh=False):
    """An EnvBatch after ``actions`` random steps, and the generator that drew them."""
    batch = EnvBatch({"id": name, "env_config": {}, "fresh_envs": fresh}, count, (7, 3))
    rng = np.random.default_rng(0)
    batch.reset()
    for _ in range(actions):
        for index in range(count):
            batch.step(index, rng.uniform(-1, 1, size).astype(np.float32))
    return batch, rng


def _stored(batch):
    """What a checkpoint gives back: arrays, and facts through JSON."""
    arrays, facts = batch.state()
    return copy.deepcopy(arrays), json.loads(json.dumps(facts))


@pytest.mark.parametrize(
    ("name", "size", "actions", "fresh"),
    [("Pendulum-v1", 1, 0, False), ("Pendulum-v1", 1, 230, False), ("BipedalWalker-v3", 4, 150, True)],
)
def test_load_goes_on_in_the_middle_of_episodes_bit_for_bit(name, size, actions, fresh):
    batch, rng = _moved(name, 2, actions, size, fresh)
    other = EnvBatch({"id": name, "env_config": {}, "fresh_envs": fresh}, 2, (7, 3))
    assert other.load(*_stored(batch)) == []
    assert np.array_equal(other.obs(), batch.obs())
    for _ in range(200):
        for index in range(2):
            action = rng.uniform(-1, 1, size).astype(np.float32)
            first, second = batch.step(index, action), other.step(index, action)
            assert first[:3] == second[:3] and np.array_equal(first[3], second[3])
    assert np.array_equal(other.obs(), batch.obs())
    batch.close()
    other.close()


def test_state_at_the_very_start_of_an_episode_can_be_saved():
    batch = _batch({"ends": (1, "terminated")})
    batch.step(0, ZERO)
    arrays, facts = batch.state()
    assert arrays["actions_0"].shape[0] == 0
    assert facts == {"episode": [2], "failures": [0]}


def test_actions_are_stored_as_given_although_the_environment_writes_to_them():
    batch = _batch({"writes to its action": True})
    batch.step(0, np.float32([0.5]))
    assert batch.state()[0]["actions_0"].tolist() == [[0.5]]


def test_load_after_a_broken_reset_finds_the_same_episode():
    plan = [{"ends": (1, "terminated")}, {"reset": "raise"}, {}]
    batch = _batch(*plan)
    batch.step(0, ZERO)
    batch.step(0, ZERO)
    stored = _stored(batch)
    running = Scripted.seeds[-1]
    Scripted.begin({}, {}, {})
    Scripted.begun = 2  # the entry that the running episode is played in
    other = EnvBatch(ENV, 1, (7, 3))
    other.load(*stored)
    assert Scripted.seeds == [running]
    assert other.obs().tolist() == [[2.0, 1.0]]


def _tampered_obs(arrays, facts):
    arrays["obs_1"][0] += 1e-3


def _tampered_action(arrays, facts):
    arrays["actions_0"][3] += 0.5


def _shorter(arrays, facts):
    arrays["actions_0"] = arrays["actions_0"][:-1]


def _other_episode(arrays, facts):
    facts["episode"][0] += 1


@pytest.mark.parametrize(
    ("change", "index"), [(_tampered_obs, 1), (_tampered_action, 0), (_shorter, 0), (_other_episode, 0)]
)
def test_load_of_an_episode_that_comes_out_differently_names_its_environment(change, index):
    batch, _ = _moved("Pendulum-v1", 2, 20, 1)
    arrays, facts = _stored(batch)
    change(arrays, facts)
    assert EnvBatch({"id": "Pendulum-v1", "env_config": {}}, 2, (7, 3)).load(arrays, facts) == [index]


@pytest.mark.parametrize("entry", [{"breaks": (1, "raise")}, {"ends": (2, "terminated")}, {"reset": "raise"}])
def test_load_of_an_episode_that_breaks_or_ends_on_the_way_begins_another_one(entry):
    batch = _batch({})
    for _ in range(3):
        batch.step(0, ZERO)
    stored = _stored(batch)
    Scripted.begin(entry)
    again = EnvBatch(ENV, 1, (7, 3))
    assert again.load(*stored) == [0]
    again.restart(0)
    assert again.episode_length(0) == 0 and again.obs()[0, 1] == 0.0
    assert again.step(0, ZERO)[1:3] == (False, False)


def test_the_object_is_used_again_for_the_next_episode():
    batch = _batch(*[{"ends": (1, "terminated")}] * 5)
    for _ in range(5):
        batch.step(0, ZERO)
    assert (Scripted.made, Scripted.begun) == (1, 6) and batch.making_s == 0.0


def test_fresh_envs_makes_a_new_object_for_every_episode_and_closes_the_old_one():
    Scripted.begin(*[{"ends": (1, "terminated")}] * 5)
    batch = EnvBatch({**ENV, "fresh_envs": True}, 1, (7, 3))
    batch.reset()
    assert batch.making_s == 0.0
    first = batch._envs[0].unwrapped
    batch.step(0, ZERO)
    assert Scripted.made == 2 and first.is_closed and batch.making_s > 0.0


@pytest.mark.parametrize("entry", [{"breaks": (0, "raise")}, {"ends": (1, "terminated")}])
def test_an_object_that_raised_is_closed_and_made_anew(entry):
    reset_raises = {"reset": "raise"} if "ends" in entry else {}
    batch = _batch(entry, reset_raises, {})
    first = batch._envs[0].unwrapped
    batch.step(0, ZERO)
    assert Scripted.made == 2 and first.is_closed and batch._envs[0].unwrapped is not first


def test_an_object_that_raised_and_cannot_be_closed_is_made_anew_all_the_same(monkeypatch):
    batch = _batch({"breaks": (0, "raise")}, {})
    monkeypatch.setattr(Scripted, "close", lambda self: 1 / 0)
    assert batch.step(0, ZERO) is None
    assert (Scripted.made, len(batch.notes)) == (2, 1)


def test_an_error_of_the_environment_comes_with_file_and_line():
    batch = _batch({"breaks": (0, "raise")}, {})
    batch.step(0, ZERO)
    place = re.search(r"RuntimeError: motor of episode 0 burnt \((.*):(\d+), in step\)\.$", batch.notes[0])
    assert place[1].endswith("scripted_envs.py")
    line = Path(place[1]).read_text().splitlines()[int(place[2]) - 1]
    assert line.strip() == 'raise RuntimeError(f"motor of episode {self.episode} burnt")'


def _without_actions(arrays, facts):
    del arrays["actions_1"]


def _without_episodes(arrays, facts):
    del facts["episode"]


def _of_one_environment(arrays, facts):
    facts["episode"] = facts["episode"][:1]


def _of_another_shape(arrays, facts):
    arrays["actions_0"] = arrays["actions_0"][:, None, :]


@pytest.mark.parametrize("change", [_without_actions, _without_episodes, _of_one_environment, _of_another_shape])
def test_load_of_what_is_no_state_of_these_environments_is_refused(change):
    batch, _ = _moved("Pendulum-v1", 2, 5, 1)
    arrays, facts = _stored(batch)
    change(arrays, facts)
    with pytest.raises(CheckpointError, match="Pendulum-v1"):
        EnvBatch({"id": "Pendulum-v1", "env_config": {}}, 2, (7, 3)).load(arrays, facts)


HOWS = ["raise", "exit", "nan obs", "nan reward", "inf reward", "shape", "word"]


@pytest.mark.parametrize("seed", range(8))
def test_a_step_of_all_is_a_step_of_each(seed):
    """Random scripts of ends and breaks, one environment a batch so that the order of new objects is the same."""
    rng = np.random.default_rng(seed)
    plan = [
        {"ends": (int(rng.integers(1, 6)), rng.choice(["terminated", "truncated"])), "reward": "array"}
        | ({"breaks": (int(rng.integers(0, 4)), rng.choice(HOWS))} if rng.random() < 0.4 else {})
        for _ in range(200)
    ]
    each, found = _batch(*plan, horizon=4), []
    for _ in range(60):
        found.append(each.step(0, ZERO))
    state = each.state()
    together = _batch(*plan, horizon=4)
    for one in found:
        stepped = together.step_all(ZERO[None])
        if one is None:
            assert stepped == ([0.0], [], [0])
            continue
        reward, terminated, truncated, obs = one
        assert stepped.rewards == [reward] and stepped.broken == []
        assert [(*end[:3], end[3].tolist()) for end in stepped.ends] == (
            [(0, terminated, truncated, obs.tolist())] if terminated or truncated else []
        )
    assert (together.bad_steps, together.notes) == (each.bad_steps, each.notes)
    again = together.state()
    assert again[1] == state[1]
    assert all(np.array_equal(again[0][name], state[0][name]) for name in state[0])


def test_one_that_breaks_among_others_is_all_that_is_lost():
    batch = _batch({}, {"breaks": (1, "raise")}, {"ends": (2, "truncated")}, count=3)
    assert batch.step_all(np.zeros((3, 1), np.float32)) == ([0.0, 100.0, 200.0], [], [])
    rewards, ends, broken = batch.step_all(np.ones((3, 1), np.float32))
    assert (rewards, broken) == ([1.0, 0.0, 201.0], [1])
    assert [(*end[:3], end[3].tolist()) for end in ends] == [(2, False, True, [2.0, 2.0])]
    assert batch.obs().tolist() == [[0.0, 2.0], [3.0, 0.0], [4.0, 0.0]]
    assert [batch.episode_length(index) for index in range(3)] == [2, 0, 0]
    assert batch.step(1, ZERO)[0] == 300.0
    assert batch.step_all(np.ones((3, 1), np.float32)).rewards == [2.0, 301.0, 400.0]


def test_those_that_stand_still_are_not_stepped():
    batch = _batch(count=3)
    batch.step_all(np.zeros((3, 1), np.float32))
    assert batch.step_all(np.ones((3, 1), np.float32), [0, 2]) == ([1.0, 0.0, 201.0], [], [])
    assert [batch.episode_length(index) for index in range(3)] == [2, 1, 2]
    assert batch.state()[0]["actions_1"].tolist() == [[0.0]]
    assert batch.obs().tolist() == [[0.0, 2.0], [1.0, 1.0], [2.0, 2.0]]


def test_an_environment_that_writes_to_its_action_changes_no_other_and_no_record():
    batch = _batch({"writes to its action": True}, {}, count=2)
    batch.step_all(np.float32([[0.25], [0.5]]))
    assert [action.tolist() for action in Scripted.actions] == [[0.25], [0.5]]
    assert [batch.state()[0][f"actions_{index}"].tolist() for index in (0, 1)] == [[[0.25]], [[0.5]]]
