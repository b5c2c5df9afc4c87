"""Every kind of exploration goes on from its state bit for bit, and what all kinds have in common."""

import numpy as np
import pytest
from exploring import acted, constant, explorer, policy, restored, saved, spec, wandered

from drl_cli.policies.numpy_policy import NumpyPolicy

BOX, VALUES, GAUSSIAN = spec("deterministic"), spec("q"), spec("squashed_gaussian")
SMOOTH = spec("squashed_gaussian", sde=True)
OVER = {"type": "GaussianNoise", "stddev": 0.3}
KINDS = {
    "sampling": (GAUSSIAN, {"type": "StochasticSampling"}),
    "gsde": (SMOOTH, {"type": "StochasticSampling", "sde_sample_freq": 5}),
    "random": (BOX, {"type": "Random"}),
    "random held": (BOX, {"type": "Random", "hold_steps": 4}),
    "epsilon": (VALUES, {"type": "EpsilonGreedy", "epsilon_timesteps": 100}),
    "epsilon held": (VALUES, {"type": "EpsilonGreedy", "hold_steps": 3, "epsilon_timesteps": 300}),
    "epsilon ladder": (VALUES, {"type": "PerWorkerEpsilonGreedy"}),
    "soft": (VALUES, {"type": "SoftQ", "temperature": 0.1}),
    "gaussian": (BOX, {"type": "GaussianNoise", "stddev": 0.3}),
    "gaussian ladder": (BOX, {"type": "PerWorkerGaussianNoise", "stddev": 0.3}),
    "gaussian on the mean": (GAUSSIAN, {"type": "GaussianNoise", "stddev": 0.3}),
    "ou": (BOX, {"type": "OrnsteinUhlenbeckNoise"}),
    "ou ladder": (BOX, {"type": "PerWorkerOrnsteinUhlenbeckNoise"}),
    "state-dependent": (BOX, {"type": "StateDependentNoise", "stddev": 0.5, "sde_sample_freq": 6}),
    "parameters": (BOX, {"type": "ParameterNoise"}),
    "parameters, gaussian": (BOX, {"type": "ParameterNoise", "sub_exploration": OVER}),
    "parameters, values": (VALUES, {"type": "ParameterNoise"}),
    "rnd": (GAUSSIAN, {"type": "RND"}),
    "rnd, ou": (BOX, {"type": "RND", "feature_dim": 4}),
    "rnd, parameters": (VALUES, {"type": "RND", "sub_exploration": {"type": "ParameterNoise"}}),
    "random phase": (BOX, {"type": "GaussianNoise", "hold_steps": 10}),
}


def _made(name):
    of_spec, settings = KINDS[name]
    place = {"random_steps": 60} if name == "random phase" else {}
    return explorer(of_spec, use_sde=of_spec is SMOOTH, place=place, **settings), policy(of_spec, head_scale=3.0)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("steps", [0, 1, 53])
def test_state_goes_on_with_the_same_actions_bit_for_bit(name, steps):
    explored, by = _made(name)
    rng = np.random.default_rng(3)
    if steps:
        wandered(explored, by, rng, steps)
    state = saved(explored, rng)
    expected = wandered(explored, by, rng, 130, begin=steps)
    other, same = _made(name)
    found = wandered(other, same, restored(other, state), 130, begin=steps)
    assert found.tobytes() == expected.tobytes()
    assert len(np.unique(found.reshape(-1))) > 2


@pytest.mark.parametrize("name", KINDS)
def test_saving_changes_nothing(name):
    found = []
    for saves in (True, False):
        explored, by = _made(name)
        rng = np.random.default_rng(3)
        for step in range(0, 60, 10):
            if saves:
                saved(explored, rng)
            last = wandered(explored, by, rng, 10, begin=step)
        found.append(last)
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("name", ["parameters", "gsde", "epsilon"])
def test_new_weights_after_a_load_act_as_they_would_have(name):
    found = []
    for reloads in (True, False):
        explored, by = _made(name)
        rng = np.random.default_rng(3)
        wandered(explored, by, rng, 20)
        if reloads:
            state = saved(explored, rng)
            explored, by = _made(name)
            rng = restored(explored, state)
        by.set_weights(policy(by.spec, head_scale=3.0, seed=8).weights)
        found.append(wandered(explored, by, rng, 20, begin=20))
    assert found[0].tobytes() == found[1].tobytes()


def test_the_state_of_another_kind_is_left_alone():
    ou, by = _made("ou")
    wandered(ou, by, np.random.default_rng(0), 20)
    arrays, facts = ou.state()
    gaussian, _ = _made("parameters")
    gaussian.load(arrays, facts)
    assert gaussian.state()[0]["kind/seed"].tolist() == [-1] * 4


def test_the_state_of_other_sizes_is_left_alone():
    ou, by = _made("ou")
    wandered(ou, by, np.random.default_rng(0), 20)
    arrays, facts = ou.state()
    assert np.abs(arrays["kind/process"]).min() > 0
    wider = explorer(BOX, count=5, type="OrnsteinUhlenbeckNoise")
    wider.load(arrays, facts)
    assert wider.state()[0]["kind/process"].tolist() == [[0.0, 0.0]] * 5


@pytest.mark.parametrize("name", KINDS)
def test_one_environment_acts_alone(name):
    explored, by = _made(name)
    wandered(explored, by, np.random.default_rng(0), 5)
    before = {key: array.copy() for key, array in explored.state()[0].items()}
    explored.ended(2)
    action, _, _ = explored.act(by, np.zeros((1, 3), np.float32), (), np.random.default_rng(1), 5, env=2)
    assert action.shape == (1, *by.spec.action.shape) and action.dtype == by.spec.action.dtype
    for key, array in explored.state()[0].items():
        if len(array) == 4:  # what all environments share has another length
            assert np.array_equal(np.delete(array, 2, 0), np.delete(before[key], 2, 0)), key


# -- the random phase -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_actions_are_uniform_until_weights_have_come(name):
    explored, by = _made(name)
    action = acted(explored, NumpyPolicy(by.spec), 3000, begin=10**6)
    if by.is_discrete:
        shares = np.bincount(action.ravel(), minlength=3) / action.size
        np.testing.assert_allclose(shares, 1 / 3, atol=0.03)
    else:
        np.testing.assert_allclose(action.mean((0, 1)), 0.0, atol=0.06)
        np.testing.assert_allclose(action.std((0, 1)), 0.57735, atol=0.03)


@pytest.mark.parametrize("explore", [True, False])
def test_the_random_phase_ends_after_its_steps(explore):
    explored = explorer(BOX, explore=explore, place={"random_steps": 10}, type="GaussianNoise", stddev=0.001)
    by = constant(BOX, mean=(0.5, -0.5))
    action = acted(explored, by, 12)
    assert len(np.unique(action[:10])) == 80
    np.testing.assert_allclose(action[10:], np.broadcast_to([0.46211716, -0.46211716], (2, 4, 2)), atol=0.01)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "random phase"])
def test_without_explore_actions_are_greedy(name):
    of_spec, settings = KINDS[name]
    explored = explorer(of_spec, explore=False, use_sde=of_spec is SMOOTH, **settings)
    by, obs = policy(of_spec, head_scale=3.0), np.eye(4, 3, dtype=np.float32)
    found, _, _ = explored.act(by, obs, (), None, 10**6)
    assert np.array_equal(found, by.act(obs, (), None, False)[0])
    assert explored.describe(0) == {}


def test_held_actions_stay_for_their_steps_and_end_with_the_episode():
    explored = explorer(BOX, count=2, type="Random", hold_steps=3)
    action = acted(explored, policy(BOX), 9, count=2, ends=[(3, 1)])[..., 0]
    assert [len(np.unique(action[at : at + 3, 0])) for at in (0, 3, 6)] == [1, 1, 1]
    assert len(np.unique(action[:, 0])) == 3
    # Environment 1: steps 0–2, then 3 alone, cut by the end, then 4–6 and 7–8.
    assert [len(np.unique(action[at:to, 1])) for at, to in ((0, 3), (3, 4), (4, 7), (7, 9))] == [1, 1, 1, 1]
    assert len(np.unique(action[:, 1])) == 4
