"""``compute_action``: memory, stacked frames, masks, observations of every kind, in the environment's units."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from drl_cli import errors
from drl_cli.api.trainer import Trainer

pytestmark = pytest.mark.process

SMALL = {"num_workers": 0, "seed": 5}


class Seen(gymnasium.Env):
    """Gives samples of ``space``."""

    def __init__(self, space, actions):
        self.observation_space, self.action_space = space, actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


@pytest.fixture
def made(tmp_path, plug_ins):
    trainers = []

    def make(algorithm, env, **config):
        trainers.append(Trainer(algorithm, env=env, config={**SMALL, **config}, local_dir=str(tmp_path)))
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.stop()


def over(space, actions=None):
    actions = actions or Discrete(3)
    return lambda: Seen(space, actions)


def test_box_actions_are_in_the_environments_units_and_dtype(made):
    trainer = made("SAC", over(Box(-1, 1, (3,), np.float32), Box(-5.0, 15.0, (2,), np.float64)))
    actions = np.array([trainer.compute_action(np.full(3, x), explore=True) for x in np.linspace(-1, 1, 200)])
    assert (actions.dtype, actions.shape) == (np.float64, (200, 2))
    assert -5.0 <= actions.min() < 0.0
    assert 10.0 < actions.max() <= 15.0


def test_greedy_actions_repeat_and_drawn_ones_do_not(made):
    trainer = made("SAC", over(Box(-1, 1, (3,), np.float32), Box(-1.0, 1.0, (2,), np.float32)))
    greedy = [trainer.compute_action([0.5, 0.5, 0.5]).tolist() for _ in range(2)]
    drawn = [trainer.compute_action([0.5, 0.5, 0.5], explore=True).tolist() for _ in range(2)]
    assert greedy[0] == greedy[1]
    assert drawn[0] != drawn[1]


def test_lstm_needs_its_state_and_returns_the_next_one(made):
    trainer = made("PPO", "CartPole-v1", model={"use_lstm": True, "lstm_cell_size": 8})
    obs, state = np.ones(4, np.float32), trainer.get_initial_state()
    assert [part.shape for part in state] == [(8,), (8,)]
    action, after, more = trainer.compute_action(obs, state=state)
    assert (action in (0, 1), more) == (True, {})
    assert not np.array_equal(after[0], state[0])
    assert not state[0].any()
    policy = trainer._acting_policy("default_policy").policy
    _, first, _ = policy.act(obs[None], policy.initial_state(1), None, False)
    _, second, _ = policy.act(obs[None], first, None, False)
    np.testing.assert_array_equal(trainer.compute_action(obs, after)[1][1], second[1][0])
    with pytest.raises(errors.InputError, match="Begin each episode with state=trainer.get_initial_state"):
        trainer.compute_action(obs)
    with pytest.raises(errors.InputError, match=r"a state of shapes \[\(3,\)\]"):
        trainer.compute_action(obs, [np.zeros(3)])


def test_lstm_that_sees_its_last_action_and_reward_is_told_the_reward(made):
    trainer = made("PPO", "CartPole-v1", model={"use_lstm": True, "lstm_use_prev_action_reward": True})
    _, state, _ = trainer.compute_action(np.ones(4), trainer.get_initial_state())
    one, other = (trainer.compute_action(np.ones(4), state, prev_reward=reward)[1] for reward in (0.0, 9.0))
    assert not np.array_equal(one[0], other[0])


def test_policy_without_memory_has_an_empty_state_and_refuses_another(made):
    trainer = made("PPO", "CartPole-v1")
    assert trainer.get_initial_state() == []
    assert trainer.compute_action(np.ones(4), state=[]) in (0, 1)
    with pytest.raises(errors.InputError, match="a state of shapes"):
        trainer.compute_action(np.ones(4), state=[np.zeros(8)])


def test_stacked_frames_are_memory_or_handed_over_whole(made):
    images = Box(0, 255, (48, 48, 1), np.uint8)
    trainer = made("DQN", over(images), model={"framestack": 3})
    frames = [np.full((48, 48, 1), value, np.uint8) for value in (10, 20)]
    state = trainer.get_initial_state()
    assert state == [None]
    _, state, _ = trainer.compute_action(frames[0], state)
    action, state, _ = trainer.compute_action(frames[1], state)
    assert state[-1][0, 0].tolist() == [10, 10, 20]
    assert trainer.compute_action(state[-1]) == action
    with pytest.raises(
        errors.InputError, match=r"sees the last 3 observations.*or pass a stack of shape \(48, 48, 3\)"
    ):
        trainer.compute_action(frames[0])


def test_images_are_resized_as_in_training(made):
    trainer = made("DQN", over(Box(0, 255, (60, 80, 3), np.uint8)), model={"dim": 42, "grayscale": True})
    assert trainer.compute_action(np.zeros((60, 80, 3), np.uint8)) in (0, 1, 2)
    assert trainer.compute_action(np.zeros((42, 42, 1), np.uint8)) in (0, 1, 2)


@pytest.mark.parametrize(
    ("space", "obs", "flat"),
    [
        (
            Dict(a=Box(-1, 1, (2,), np.float32), b=Discrete(2)),
            {"a": np.float32([0.5, 0.25]), "b": 1},
            [0.5, 0.25, 0, 1],
        ),
        (Tuple((Discrete(2), Discrete(3))), (0, 2), [1, 0, 0, 0, 1]),
        (Discrete(4), 2, [0, 0, 1, 0]),
        (Box(-1, 1, (2, 2), np.float32), [[0.0, 0.5], [0.25, 1.0]], [0, 0.5, 0.25, 1]),
    ],
)
def test_observations_of_every_kind_are_seen_as_in_training(made, space, obs, flat):
    trainer = made("PPO", over(space))
    trainer.compute_action(obs)
    assert trainer._acting_policy("default_policy").transform(obs).tolist() == flat
    assert trainer.compute_action(obs) == trainer.compute_action(np.array(flat))


def test_mask_holds_for_every_action(made):
    space = Dict(action_mask=Box(0, 1, (3,), np.int8), obs=Box(-1, 1, (2,), np.float32))
    trainer = made("PPO", over(space))
    obs = {"action_mask": np.array([0, 0, 1], np.int8), "obs": np.zeros(2, np.float32)}
    assert {trainer.compute_action(obs, explore=True) for _ in range(20)} == {2}


@pytest.mark.parametrize("obs", [[1.0, 2.0], "here", None, {"a": 1}, np.zeros((4, 4))])
def test_what_is_no_observation_is_refused(made, obs):
    with pytest.raises(
        errors.InputError, match="is not an observation of this environment, whose observations are Box"
    ):
        made("PPO", "CartPole-v1").compute_action(obs)


NESTED = Dict({"go": Tuple((Discrete(3, start=1), Box(-5.0, 15.0, (2,), np.float64))), "on": MultiBinary(2)})


def test_actions_of_a_dictionary_come_and_go_in_the_environments_structure(made):
    memory = {"use_lstm": True, "lstm_cell_size": 4, "lstm_use_prev_action_reward": True}
    trainer = made("PPO", over(Box(-1, 1, (3,), np.float32), NESTED), model=memory)
    obs, state = np.ones(3, np.float32), trainer.get_initial_state()
    drawn = [trainer.compute_action(obs, explore=True, state=state)[0] for _ in range(30)]
    assert all(NESTED.contains(action) for action in drawn)
    assert {action["go"][0] for action in drawn} == {1, 2, 3} and type(drawn[0]["go"][0]) is int
    taken = {"go": (3, np.float64([-5.0, 5.0])), "on": np.int8([0, 1])}
    _, after, _ = trainer.compute_action(obs, state=state, prev_action=taken, prev_reward=2.0)
    _, other, _ = trainer.compute_action(obs, state=state)
    assert not np.array_equal(after[0], other[0])
    actions, _, _ = trainer.get_policy().compute_actions([obs, obs])
    assert len(actions) == 2 and NESTED.contains(actions[1])
    likely = trainer.get_policy().compute_log_likelihoods([taken, actions[0]], [obs, obs])
    assert likely.shape == (2,) and likely[1] > likely[0]


@pytest.mark.parametrize("wrong", [{"go": (4, [0.0, 0.0]), "on": [0, 1]}, {"go": 1}, (1, 2), 3])
def test_action_of_another_structure_is_refused(made, wrong):
    trainer = made("PPO", over(Box(-1, 1, (3,), np.float32), NESTED))
    with pytest.raises(errors.InputError, match=r"not 1 actions of this environment, each one of Dict\('go'"):
        trainer.get_policy().compute_log_likelihoods([wrong], [np.ones(3, np.float32)])
