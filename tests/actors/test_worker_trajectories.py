"""What a worker sends where trajectories are learnt from: log-probabilities, states behind ends, whole episodes."""

import json

import numpy as np
import pytest
from parts import identity, server
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors import rollout_worker
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.errors import RunFailed
from drl_cli.experience.trajectories import join
from drl_cli.policies.numpy_policy import NumpyPolicy

BOX = {"kind": "Box", "shape": (1,), "low": (LOW,), "high": (HIGH,)}
SPACES = {"obs": {"kind": "Box1d", "shape": (2,), "dtype": "float32"}, "action": BOX, "frames": 1}
SMALL = {"num_envs_per_worker": 1, "rollout_fragment_length": 5, "train_batch_size": 5, "sgd_minibatch_size": 5}
LSTM = {"use_lstm": True, "lstm_cell_size": 3, "max_seq_len": 4}
WHOLE = {"batch_mode": "complete_episodes"}


def _made(*plan, model=None, random_steps=0, **keys):
    config = PPOConfig.model_validate(SMALL | {"model": {"fcnet_hiddens": [4]} | (model or {})} | keys)
    spec = actor_critic_nets.policy_spec(config, SPACES)
    weights = actor_critic_nets.initial_weights(config, spec, 5)
    weights = {name: array * 3 + 0.1 for name, array in weights.items()}  # the state shall matter
    handle = server()
    handle.call("push", {"default_policy": weights})
    Scripted.begin(*plan)
    return RolloutWorker(config, ENV, spec, identity(3, random_steps), handle), NumpyPolicy(spec, weights)


def _walked(policy, columns, env=0):
    """Go over one stream again: return the (heads' state before, state behind) of every step."""
    state, found = policy.initial_state(1), []
    for step, obs in enumerate(columns["obs"][:, env]):
        if columns["position"][step, env] == 0:
            state = policy.initial_state(1)
        after = policy.next_state(obs[None], state)
        found.append((state, after))
        state = after
    return found


def test_log_probabilities_are_those_of_the_stored_actions_under_the_weights_that_acted():
    worker, policy = _made({"ends": (3, "terminated")}, num_envs_per_worker=2)
    columns = worker.collect(1)[1]
    assert (columns["logp"].shape, columns["logp"].dtype) == ((5, 2), np.float32)
    for step in range(5):
        heads = policy.heads(columns["obs"][step])
        mean, std = heads["mean"][:, 0], np.exp(heads["log_std"][:, 0])
        distance = (columns["action"][step, :, 0] - mean) / std
        expected = -0.5 * distance**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(columns["logp"][step], expected, atol=1e-4)


def test_a_step_that_is_taken_again_has_the_log_probability_of_its_second_action():
    worker, policy = _made({"breaks": (2, "raise")}, {})
    columns = worker.collect(1)[1]
    heads = policy.heads(columns["obs"][:, 0])
    mean, std = heads["mean"][:, 0], np.exp(heads["log_std"][:, 0])
    expected = -0.5 * ((columns["action"][:, 0, 0] - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(columns["logp"][:, 0], expected, atol=1e-4)
    assert columns["truncated"][:, 0].tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("keys", [{}, WHOLE])
def test_log_probabilities_of_uniform_actions_stand_before_those_of_the_policy_s_own(keys):
    worker, policy = _made({"ends": (5, "terminated")}, random_steps=2, **keys)
    columns = worker.collect(1)[1]
    own = policy.scores(policy.heads(columns["obs"][:, 0]), columns["action"][:, 0])["logp"]
    np.testing.assert_allclose(columns["logp"][:2, 0], -np.log(2.0), rtol=1e-6)  # within ±1
    np.testing.assert_allclose(columns["logp"][2:, 0], own[2:], rtol=1e-5)
    assert not any(name.startswith("head/") for name in columns)


def test_states_behind_ends_and_tails_are_those_that_the_episode_had_led_to():
    plan = [{"ends": (2, "truncated")}, {"ends": (2, "terminated")}]
    worker, policy = _made(*plan, model=LSTM)
    columns = worker.collect(1)[1]
    walked = _walked(policy, columns)
    for index in (0, 1):
        ends = [walked[1][1][index][0], walked[3][1][index][0]]
        np.testing.assert_allclose(columns[f"end_state_{index}"], ends, atol=1e-6)
        np.testing.assert_allclose(columns[f"tail_state_{index}"], walked[4][1][index], atol=1e-6)
        np.testing.assert_allclose(columns[f"state_{index}"][4], walked[4][0][index], atol=1e-6)
    assert not np.allclose(columns["end_state_0"][0], 0)


def test_a_tail_state_does_not_change_when_its_worker_goes_on():
    worker, _ = _made({}, model=LSTM)
    columns = worker.collect(1)[1]
    before = columns["tail_state_1"].copy()
    following = worker.collect()[1]
    assert np.array_equal(columns["tail_state_1"], before)
    assert np.array_equal(following["state_1"][0], before)


def test_an_episode_that_breaks_ends_with_the_state_that_it_had():
    worker, policy = _made({"breaks": (2, "raise")}, {}, model=LSTM)
    columns = worker.collect(1)[1]
    assert columns["end_obs"].tolist() == [[0, 2]]
    walked = _walked(policy, columns)
    for index in (0, 1):
        np.testing.assert_allclose(columns[f"end_state_{index}"][0], walked[1][1][index][0], atol=1e-6)


def test_whole_episodes_end_behind_the_length_of_a_fragment_each_in_its_own_time():
    plan = [{"ends": (7, "terminated")}, {"ends": (3, "truncated")}, {"ends": (4, "terminated")}]
    worker, _ = _made(*plan, {"ends": (9, "terminated")}, {"ends": (12, "terminated")}, num_envs_per_worker=2, **WHOLE)
    token, columns = worker.collect(1)
    assert columns["length"].tolist() == [7, 7] and token.steps == 14
    assert columns["obs"][:, 0].tolist() == [[0, at] for at in range(7)]
    assert columns["obs"][:, 1].tolist() == [[1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2], [2, 3]]
    assert sorted(token.episodes) == [(21.0, 7), (303.0, 3), (806.0, 4)]
    token, columns = worker.collect(1)
    assert columns["length"].tolist() == [9, 12] and token.steps == 21
    assert columns["reward"][9:].tolist() == [[0, 409], [0, 410], [0, 411]]
    assert not columns["obs"][9:, 0].any() and not columns["logp"][9:, 0].any()
    assert columns["terminated"].sum() == 2 and columns["terminated"][8, 0] and columns["terminated"][11, 1]
    assert token.episodes == ((300.0 * 9 + 36, 9), (400.0 * 12 + 66, 12))


def test_environments_that_wait_for_others_take_no_step_and_keep_no_state():
    plan = [{"ends": (6, "terminated")}, {"ends": (30, "terminated")}, {"ends": (5, "terminated")}]
    worker, policy = _made(*plan, {"ends": (5, "truncated")}, num_envs_per_worker=2, model=LSTM, **WHOLE)
    token, columns = worker.collect(1)
    assert columns["length"].tolist() == [6, 30] and columns["obs"].shape == (30, 2, 2)
    token, columns = worker.collect()
    assert columns["obs"][:5, 0].tolist() == [[2, at] for at in range(5)]
    assert columns["position"][:5].tolist() == [[at, at] for at in range(5)]
    assert not columns["state_0"][0].any()
    assert token.episodes == ((1010.0, 5), (1510.0, 5))
    batch = join([columns], 0.9, 4)
    assert batch["mask"].sum() == 10 and batch["mask"].shape == (8, 8)


def test_an_episode_without_end_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(rollout_worker, "LONGEST_EPISODE", 100)
    worker, _ = _made({}, **WHOLE)
    with pytest.raises(RunFailed, match="goes on after 100 steps. .* set horizon"):
        worker.collect(1)
    assert _made({}, horizon=60, **WHOLE)[0].collect(1)[1]["length"].tolist() == [60]


CARTPOLE = {
    "obs": {"kind": "Box1d", "shape": (4,), "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": ()},
    "frames": 1,
}


@pytest.mark.parametrize("keys", [{}, WHOLE, {"model": LSTM}, {"model": LSTM} | WHOLE])
def test_a_worker_that_goes_on_sends_the_same_as_one_that_never_stopped(keys):
    config = PPOConfig.model_validate(SMALL | {"num_envs_per_worker": 3, "rollout_fragment_length": 17} | keys)
    spec, handle = actor_critic_nets.policy_spec(config, CARTPOLE), server()
    handle.call("push", {"default_policy": actor_critic_nets.initial_weights(config, spec, 5)})
    whole, again = (
        RolloutWorker(config, {"id": "CartPole-v1", "env_config": {}}, spec, identity(3, 0), handle) for _ in range(2)
    )
    whole.collect(1)
    arrays, facts = whole.state()
    arrays = {name: array.copy() for name, array in arrays.items()}
    after = [whole.collect() for _ in range(4)]
    again.load(arrays, json.loads(json.dumps(facts)))
    for token, columns in after:
        mine_token, mine = again.collect(1)
        assert mine_token.episodes == token.episodes and mine_token.meta == token.meta
        assert sorted(mine) == sorted(columns)
        assert [name for name in columns if not np.array_equal(mine[name], columns[name])] == []
    assert sum(len(token.episodes) for token, _ in after) > 3
