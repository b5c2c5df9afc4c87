"""Recurrent policies in worker, replay and tester: states are stored, forgotten at ends, saved, and carried through scores."""

import numpy as np
import pytest
from parts import identity, server
from recurrent import ENV, SPEC, ScriptedDiscrete, config, weights

from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.actors.tester import score
from drl_cli.errors import CheckpointError
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import DEFAULT_POLICY, NumpyPolicy

FAST = {"exploration_config": {"random_timesteps": 0}}


def _worker(*plan, pushed=True, random_steps=0, **keys):
    ScriptedDiscrete.begin(*plan)
    started = server()
    if pushed:
        started.call("push", {DEFAULT_POLICY: weights()})
    return RolloutWorker(config(**(FAST | keys)), ENV, SPEC, identity(3, random_steps), started)


def _recomputed(columns, env=0):
    """The state before each step of one environment whose first step is an episode's first, step by step."""
    forward, found = Forward(SPEC.nets[0], weights()), []
    state = NumpyPolicy(SPEC).initial_state(1)
    for step in range(len(columns["reward"])):
        found.append([part[0] for part in state])
        _, state = forward.run(columns["obs"][step, env : env + 1], state)
        if columns["terminated"][step, env] or columns["truncated"][step, env]:
            state = NumpyPolicy(SPEC).initial_state(1)
    return [np.stack(parts) for parts in zip(*found, strict=True)]


@pytest.mark.parametrize("random_steps", [0, 10**9])
def test_stored_states_equal_recomputed_ones_also_while_actions_are_random(random_steps):
    worker = _worker({"ends": (4, "terminated")}, {"ends": (3, "truncated")}, random_steps=random_steps)
    first, second = worker.collect(1)[1], worker.collect()[1]
    columns = {name: np.concatenate([first[name], second[name]]) for name in first if first[name].shape[:1] == (5,)}
    assert columns["position"][:, 0].tolist() == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2]
    for index, states in enumerate(_recomputed(columns)):
        assert columns[f"state_{index}"].dtype == np.float32
        np.testing.assert_allclose(columns[f"state_{index}"][:, 0], states, atol=1e-6)
        assert (columns[f"state_{index}"][[0, 4, 7], 0] == 0).all()
        assert np.abs(columns[f"state_{index}"][[2, 6, 8], 0]).min() > 0


def test_an_end_forgets_the_state_of_its_own_environment_alone():
    worker = _worker({"ends": (2, "terminated")}, {}, num_envs_per_worker=2)
    columns = worker.collect(1)[1]
    assert columns["position"].tolist() == [[0, 0], [1, 1], [0, 2], [1, 3], [2, 4]]
    for env in (0, 1):
        for index, states in enumerate(_recomputed(columns, env)):
            np.testing.assert_allclose(columns[f"state_{index}"][:, env], states, atol=1e-6)


def test_a_broken_step_forgets_the_state_and_the_position():
    worker = _worker({"breaks": (2, "raise")}, {})
    columns = worker.collect(1)[1]
    assert columns["obs"][:, 0].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert columns["position"][:, 0].tolist() == [0, 1, 0, 1, 2]
    for index, states in enumerate(_recomputed(columns)):
        np.testing.assert_allclose(columns[f"state_{index}"][:, 0], states, atol=1e-6)


def test_before_the_first_weights_states_are_zeros():
    columns = _worker(pushed=False).collect()[1]
    assert columns["position"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert (columns["state_0"] == 0).all() and columns["state_1"].shape == (5, 1, 5)


def test_states_are_not_stored_where_sequences_begin_with_zeros():
    columns = _worker(zero_init_states=True).collect(1)[1]
    assert "position" in columns and not any(name.startswith("state_") for name in columns)


def test_a_worker_that_goes_on_sends_the_same_as_one_that_never_stopped():
    plan = [{"ends": (7, "terminated")}, {"ends": (30, "truncated")}]
    whole = _worker(*plan)
    whole.collect(1)
    arrays, facts = whole.state()
    after = [whole.collect()[1] for _ in range(3)]
    again = _worker(*plan)
    again.load({name: array.copy() for name, array in arrays.items()}, facts)
    for columns in after:
        mine = again.collect(1)[1]
        assert sorted(mine) == sorted(columns)
        assert [name for name in columns if not np.array_equal(mine[name], columns[name])] == []


@pytest.mark.parametrize("name", ["state_0", "position"])
def test_a_state_without_its_recurrent_part_is_refused(name):
    worker = _worker()
    worker.collect(1)
    arrays, facts = worker.state()
    del arrays[name]
    with pytest.raises(CheckpointError, match=f"lacks {name}"):
        _worker().load(arrays, facts)


def _filled(**keys):
    made, worker = config(**(FAST | keys)), _worker(*[{"ends": (9, "terminated")}] * 9, **keys)
    buffer = ReplayBuffer(made, SPEC, 7)
    for _ in range(12):
        buffer.add(*worker.collect(1))
    return buffer


@pytest.mark.parametrize("keys", [{}, {"prioritized_replay": True}, {"zero_init_states": True}])
def test_block_holds_sequences_of_static_shape(keys):
    block = _filled(**keys).sample(2)[0]
    shapes = {
        "obs": (4, 6, 3 + 4 + 2, 2),
        "begins": (4, 6, 9),
        **dict.fromkeys(("action", "reward", "discount", "ahead", "mask"), (4, 6, 4)),
    }
    if not keys.get("zero_init_states"):
        shapes |= {"state_0": (4, 6, 5), "state_1": (4, 6, 5)}
    if keys.get("prioritized_replay"):
        shapes |= {"weight": (4, 6), "serial": (4, 6)}
    assert {name: values.shape for name, values in block.items()} == shapes
    assert (block["action"].dtype, block["ahead"].dtype) == (np.int32, np.int32)
    assert np.array_equal(block["obs"][2], block["obs"][0]) and not np.array_equal(block["obs"][1], block["obs"][0])


def test_stored_state_of_a_block_leads_to_the_states_of_its_learnt_steps():
    buffer, forward = _filled(), Forward(SPEC.nets[0], weights())
    block = buffer.sample(4)[0]
    obs, begins = (block[name].reshape(24, *block[name].shape[2:]) for name in ("obs", "begins"))
    state = tuple(block[f"state_{index}"].reshape(24, 5) for index in (0, 1))
    for step in range(4):
        state = tuple(part * (1 - begins[:, step, None]) for part in state)
        _, state = forward.run(obs[:, step], state)
    columns = buffer._ring._columns
    behind = {}
    for row in range(len(buffer._ring)):
        behind[tuple(buffer._ring._ring.obs[row])] = columns["state_0"][row]
    known = [row for row in range(24) if block["mask"].reshape(24, 4)[row, 1]]
    assert len(known) > 10
    for row in known:  # the state behind the first learnt step is the one that was stored before the second
        np.testing.assert_allclose(state[0][row], behind[tuple(obs[row, 4])], atol=1e-5)


def test_priority_of_a_sequence_changes_how_often_it_is_drawn():
    buffer = _filled(prioritized_replay=True, prioritized_replay_alpha=1.0)
    block = buffer.sample(4)[0]
    serials = np.unique(block["serial"])
    for _ in range(20):
        serials = np.unique(np.concatenate([serials, buffer.sample(4)[0]["serial"].ravel()]))
    buffer.prioritize(serials, np.where(serials == serials[3], 1000.0, 0.0))
    drawn = buffer.sample(4)[0]["serial"]
    assert (drawn == serials[3]).mean() > 0.9


def test_score_carries_the_state_through_each_episode_and_no_further():
    policy = NumpyPolicy(SPEC, weights())
    ScriptedDiscrete.begin(*[{"ends": (6, "terminated")}] * 3)
    score(policy, ENV["id"], {}, [1, 2, 3])
    together = [int(action[0]) for action in ScriptedDiscrete.actions]
    alone = []
    for episode in range(3):
        state, actions = policy.initial_state(1), []
        for step in range(6):
            action, state, _ = policy.act(np.float32([[episode, step]]), state, None, False)
            actions.append(int(action[0]))
        alone.append(actions)
    assert [list(row) for row in np.reshape(together, (6, 3)).T] == alone
    fresh = [
        int(policy.act(np.float32([[e, s]]), policy.initial_state(1), None, False)[0][0])
        for e in range(3)
        for s in range(6)
    ]
    assert sum(alone, []) != fresh


def test_explored_score_draws_each_row_as_if_it_were_alone():
    policy = NumpyPolicy(SPEC, weights())
    ScriptedDiscrete.begin(*[{"ends": (6, "terminated")}] * 2)
    both = score(policy, ENV["id"], {}, [1, 2], explore=True)
    greedy = [int(action[0]) for action in ScriptedDiscrete.actions]
    ScriptedDiscrete.begin(*[{"ends": (6, "terminated")}] * 2)
    assert score(policy, ENV["id"], {}, [1, 2]) == both
    assert [
        int(action[0]) for action in ScriptedDiscrete.actions
    ] == greedy  # action values explore by what lies over them
