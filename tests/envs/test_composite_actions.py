"""Actions that are a Dict or a Tuple: described, refused where they do not fit, as vectors and back, and replayed."""

import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from composite_envs import NESTED, Levers
from gymnasium import spaces

from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS
from drl_cli.envs import carry_over, make
from drl_cli.envs.callback_episodes import CallbackEpisodes
from drl_cli.envs.composite_actions import CompositeSpace, structure_of, with_flat_actions
from drl_cli.envs.env_batch import EnvBatch
from drl_cli.envs.multi_agent.agent_view import view_of
from drl_cli.envs.multi_agent.agents_smoke_test import sampled
from drl_cli.envs.spaces import describe_space, find_mask, misfit
from drl_cli.errors import EnvError

PPO = SimpleNamespace(team=False, name="PPO", actions=ALL_ACTIONS, observations=ALL_OBSERVATIONS)
DQN = SimpleNamespace(team=False, name="DQN", actions=("Discrete",), observations=ALL_OBSERVATIONS)
OBS = describe_space(spaces.Box(-1, 1, (2,), np.float32))
VECTOR = np.float32([2, 0.5, 0.25, 0, 1, 1, 3, -0.75])


def _action():
    return {
        "arm": (1, np.float32([0.5, 0.25])),
        "bulbs": np.int8([0, 1]),
        "dials": np.int64([1, 8]),
        "tilt": np.array(-0.75),
    }


def test_nested_space_is_described_by_its_parts_in_order():
    found = describe_space(NESTED)
    assert (found["kind"], found["shape"], found["dtype"]) == ("Composite", [8], "float32")
    assert [part["path"] for part in found["parts"]] == [["arm", 0], ["arm", 1], ["bulbs"], ["dials"], ["tilt"]]
    assert [part["kind"] for part in found["parts"]] == ["Discrete", "Box", "MultiBinary", "MultiDiscrete", "Box"]
    assert found["parts"][0] == {
        "path": ["arm", 0],
        "kind": "Discrete",
        "n": 3,
        "start": -1,
        "shape": [],
        "dtype": "int64",
    }
    assert json.loads(json.dumps(found)) == found and found == describe_space(CompositeSpace(NESTED))


def test_vector_becomes_the_environments_structure_and_comes_back():
    space = CompositeSpace(NESTED)
    found, expected = space.structured(VECTOR), _action()
    assert NESTED.contains(found) and type(found["arm"][0]) is int and found["arm"][0] == 1
    np.testing.assert_equal(found, expected)
    assert found["tilt"].dtype == np.float64 and found["bulbs"].dtype == np.int8
    assert space.vector(expected).tolist() == VECTOR.tolist()


def test_samples_are_vectors_in_the_space_and_depend_on_the_seed():
    space = CompositeSpace(NESTED)
    space.seed(3)
    first = [space.sample() for _ in range(20)]
    assert all(one.dtype == np.float32 and space.contains(one) for one in first)
    space.seed(3)
    np.testing.assert_array_equal(first, [space.sample() for _ in range(20)])
    assert not space.contains(VECTOR + 5) and not space.contains(VECTOR[:7])


@pytest.mark.parametrize("wrong", [{"arm": (1,)}, (1, 2), _action() | {"more": 1}, _action() | {"bulbs": [0, 1, 1]}])
def test_vector_of_another_structure_is_refused(wrong):
    with pytest.raises(ValueError, match="is needed"):
        CompositeSpace(NESTED).vector(wrong)


def test_structure_from_a_description_takes_the_same_actions():
    space = CompositeSpace(structure_of(describe_space(NESTED)["parts"]))
    np.testing.assert_equal(space.structured(VECTOR), _action())


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"say": spaces.Text(5), "move": spaces.Discrete(2)}),
        spaces.Tuple((spaces.Sequence(spaces.Discrete(2)),)),
        spaces.Tuple((spaces.MultiDiscrete([[2, 3], [4, 5]]),)),
        spaces.Dict({0: spaces.Discrete(2)}),
        spaces.Tuple((spaces.Discrete(2), spaces.Dict({}))),
    ],
)
def test_space_with_a_part_that_has_no_vector_is_refused_in_one_line(space):
    env = SimpleNamespace(action_space=space)
    assert with_flat_actions(env) is env
    message = misfit({"obs": OBS, "action": describe_space(space)}, PPO)
    assert message.startswith(
        "PPO needs a Box, Discrete, MultiDiscrete or MultiBinary action space, or a Dict or Tuple of these; its actions are "
    )
    assert type(space).__name__ in message and "\n" not in message


def test_part_without_bounds_is_refused_by_its_path():
    space = spaces.Dict({"go": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1.0, np.inf, (2, 2), np.float32)))})
    message = misfit({"obs": OBS, "action": describe_space(space)}, PPO)
    assert "; of its action go.1; action 0 has the bounds [-1.0, infinity]" in message


def test_algorithm_without_composite_actions_names_those_that_take_them():
    message = misfit({"obs": OBS, "action": describe_space(NESTED)}, DQN, {"Composite": "PPO, SAC"})
    assert message.startswith("DQN needs a Discrete action space; its actions are Dict(")
    assert message.endswith("Algorithms for such actions: PPO, SAC.")


def test_mask_beside_composite_actions_is_refused():
    with pytest.raises(ValueError, match="'action_mask', which is for Discrete actions; its actions are Dict"):
        find_mask(spaces.Dict({"action_mask": spaces.MultiBinary(3)}), NESTED, spaces.flatdim)


def test_environment_gets_its_own_structure():
    seen = make.check("Levers-v0", {}, PPO)
    assert seen["action"] == describe_space(NESTED) and NESTED.contains(Levers.given)
    env = make.make("Levers-v0", {})
    env.reset(seed=0)
    env.step(VECTOR)
    np.testing.assert_equal(Levers.given, _action())


def test_environment_as_its_package_made_it_is_checked_with_its_own_actions():
    found = carry_over.hashes(gymnasium.make("Levers-v0"), 1, 30)
    assert found == carry_over.hashes(gymnasium.make("Levers-v0"), 1, 30) and len(set(found)) > 25


def test_running_episode_is_replayed_with_the_very_actions():
    batch = EnvBatch({"id": "Levers-v0", "env_config": {}}, 2, (3, 0))
    batch.reset()
    space = CompositeSpace(NESTED)
    for _ in range(5):
        for index in range(2):
            batch.step(index, space.sample())
    arrays, facts = batch.state()
    assert arrays["actions_0"].dtype == np.float32 and arrays["actions_0"].shape == (5, 8)
    again = EnvBatch({"id": "Levers-v0", "env_config": {}}, 2, (3, 0))
    again.load(arrays, facts)
    assert np.array_equal(again.obs(), batch.obs())


def test_agent_with_such_actions_gets_its_own_structure():
    view = view_of(spaces.Box(-1, 1, (2,), np.float32), NESTED, None)
    assert view.spec["action"]["kind"] == "Composite"
    np.testing.assert_equal(view.action(VECTOR), _action())
    drawn = sampled(view.spec, np.zeros(2), np.random.default_rng(0))
    assert CompositeSpace(NESTED).contains(drawn)


def test_kind_of_the_bundled_environment_that_is_none_names_the_nearest():
    with pytest.raises(EnvError, match=r"env_config.kind: 'tupel' is no kind of action space. Did you mean 'tuple'\?"):
        make.make_raw("drl/SteerAndStop-v1", {"kind": "tupel"})


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_bundled_environment_turns_drives_and_stops(kind):
    env = make.make("drl/SteerAndStop-v1", {"kind": kind})
    obs, _ = env.reset(seed=1)

    def step(choice, angle, distance):
        return env.step(np.float32([choice, angle, distance] if kind == "tuple" else [angle, choice, distance]))

    obs, reward, *_ = step(0, np.arctan2(obs[2], obs[1]) / np.pi, 0.5)
    np.testing.assert_allclose(obs[1:], [1.0, 0.0], atol=1e-4)
    assert reward == pytest.approx(-0.02)
    away = float(obs[0])
    while obs[0] > 1e-3:
        obs, reward, terminated, _, _ = step(1, 0.9, min(float(obs[0]), 0.5))
        assert not terminated
    _, reward, terminated, _, info = step(2, 0.0, 0.0)
    assert terminated and info["is_success"] and reward == pytest.approx(0.98) and away > 0.5


def test_callbacks_get_the_action_that_the_environment_got():
    seen = []
    hooks = SimpleNamespace(
        name="seen",
        has=lambda hook: hook == "on_episode_step",
        call=lambda hook, more, episode: seen.append(episode.last_action) if hook == "on_episode_step" else None,
    )
    env = make.make("Levers-v0", {})
    env.reset(seed=0)
    watch = CallbackEpisodes(hooks)
    watch.began(0, env, lambda: np.zeros(2, np.float32))
    env.step(VECTOR)
    watch.stepped(0, VECTOR, 0.0, {})
    (action,) = seen
    assert NESTED.contains(action) and action["arm"][0] == 1 and action["dials"].tolist() == [1, 8]
    assert repr(action) == repr(Levers.given)
