"""``custom_preprocessor``: where it stands, what it may return, and the line for whatever it does wrong."""

import json
from types import SimpleNamespace

import gymnasium
import masked_envs
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from drl_cli import plugins
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.envs import make, preprocessors
from drl_cli.envs.custom_preprocessors import register_preprocessor
from drl_cli.envs.multi_agent.agent_view import view_of
from drl_cli.errors import CheckpointError, EnvError, InputError


class Signs:
    """The signs of a vector, and how many numbers of a value ``fill`` come before them."""

    def __init__(self, space, options):
        self.before = [options["fill"]] * options["count"] if options else []
        self.observation_space = Box(-9.0, 9.0, (len(self.before) + space.shape[0],), np.float32)

    def transform(self, obs):
        return [*self.before, *np.sign(obs)]


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(plugins.PREPROCESSORS, "_things", {})
    register_preprocessor("signs", Signs)


def made(name="signs", options=None, env_id="CartPole-v1", **keys):
    model = {"custom_preprocessor": name, "custom_model_config": options or {}, **keys.pop("model", {})}
    plan = preprocessors.plan(PPOConfig(model=model, **keys), env_id)
    return make.make(env_id, {}, preprocessing=plan)


def of(transform=lambda obs: obs[:2], space=Box(-1.0, 1.0, (2,), np.float32)):  # noqa: B008
    """Register a function that returns such a preprocessor, and return the environment in it."""
    register_preprocessor("mine", lambda given, options: SimpleNamespace(observation_space=space, transform=transform))
    return made("mine")


def test_observations_and_their_space_are_what_it_makes_of_them():
    env = made(options={"fill": 7.0, "count": 2})
    assert make.describe(env)["obs"] | {"low": None, "high": None} == {
        "kind": "Box",
        "shape": [6],
        "dtype": "float32",
        "low": None,
        "high": None,
    }
    obs, _ = env.reset(seed=1)
    raw, _ = env.env.reset(seed=1)
    assert obs.dtype == np.float32 and obs.tolist() == [7.0, 7.0, *np.sign(raw)]
    assert env.step(0)[0].shape == (6,)


def test_it_sees_what_the_wrappers_return_and_other_preprocessing_sees_what_it_returns():
    env = made(env_wrappers=["TimeAwareObservation"])
    assert make.describe(env)["obs"]["shape"] == [5]

    def image(space, options):
        return SimpleNamespace(
            observation_space=Box(0, 255, (20, 16, 3), np.uint8),
            transform=lambda obs: np.full((20, 16, 3), 9, np.uint8),
        )

    register_preprocessor("image", image)
    env = made("image", model={"dim": 10, "grayscale": True})
    assert make.describe(env)["obs"]["shape"] == [10, 10, 1]
    assert np.unique(env.reset(seed=0)[0]).tolist() == [9]


def test_atari_plan_has_no_other_wrappers_beside_it():
    plan = preprocessors.plan(PPOConfig(model={"custom_preprocessor": "signs"}), "CartPole-v1")
    assert plan["preprocessor"] == ["signs", {}] and plan["atari"] is None
    gymnasium.register("TestOfGames-v0", entry_point="ale_py.env:AtariEnv")
    try:
        kept = preprocessors.plan(PPOConfig(), "TestOfGames-v0")
        plan = preprocessors.plan(PPOConfig(model={"custom_preprocessor": "signs"}), "TestOfGames-v0")
    finally:
        del gymnasium.registry["TestOfGames-v0"]
    assert (kept["dim"], kept["frames"], kept["grayscale"], kept["scale_bytes"]) == (84, 4, True, True)
    assert (plan["atari"], plan["dim"], plan["frames"], plan["grayscale"], plan["scale_bytes"]) == (
        None,
        None,
        1,
        False,
        False,
    )


def test_each_of_several_agents_is_seen_through_it():
    plan = preprocessors.plan(PPOConfig(model={"custom_preprocessor": "signs"}), "CartPole-v1")
    view = view_of(Box(-5.0, 5.0, (3,), np.float32), Discrete(2), plan)
    assert view.spec["obs"]["shape"] == [3]
    assert view.obs(np.float32([-4.0, 0.0, 2.0])).tolist() == [-1.0, 0.0, 1.0]


class Halves:
    """Half of the time of ``Doors-v0``; it keeps the observations that it is given."""

    def __init__(self, space, options):
        self.space, self.given = space, []
        self.observation_space = Box(-9.0, 9.0, (2,), np.float64)

    def transform(self, obs):
        self.given.append(obs)
        return np.float64(obs["time"]) / 2


def test_an_action_mask_is_kept_beside_what_it_makes_of_the_rest():
    register_preprocessor("halves", Halves)
    env = made("halves", env_id="Doors-v0")
    described = make.describe(env)
    assert described["mask"] == [2, 4]
    assert described["obs"]["low"] == [-9, -9, 0, 0, 0, 0] and described["obs"]["high"] == [9, 9, 1, 1, 1, 1]
    obs, _ = env.reset(seed=0)
    raw, _ = env.env.reset(seed=0)
    assert obs.dtype == np.float32 and obs.tolist() == [*(raw["time"] / 2).tolist(), *raw["action_mask"].tolist()]
    assert env.observation_space.contains(obs)
    own = env._own
    assert list(own.space.spaces) == ["time"] and all(list(given) == ["time"] for given in own.given)


def test_the_mask_of_each_of_several_agents_is_kept():
    register_preprocessor("halves", Halves)
    plan = preprocessors.plan(PPOConfig(model={"custom_preprocessor": "halves"}), "Doors-v0")
    space = Dict({"action_mask": masked_envs.MASK, "time": Box(0, 1, (2,), np.float32)})
    view = view_of(space, Discrete(masked_envs.N), plan)
    assert view.spec["mask"] == [2, 4]
    seen = view.obs({"time": np.float32([0.5, 1.0]), "action_mask": np.int8([0, 1, 1, 0])})
    assert seen.tolist() == [0.25, 0.5, 0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("env_config", "space", "line"),
    [
        (
            {},
            Box(0, 255, (8, 8, 3), np.uint8),
            "its observation_space is an image, .* have an action_mask, which has no",
        ),
        ({"mask": MultiBinary(3)}, Box(0, 1, (2,)), "its 'action_mask' is MultiBinary.* for 4 actions it is"),
        ({"actions": Box(0, 1, (2,))}, Box(0, 1, (2,)), "'action_mask', which is for Discrete actions; .* rename it"),
    ],
)
def test_a_mask_that_would_be_lost_is_refused(env_config, space, line):
    register_preprocessor(
        "mine", lambda given, options: SimpleNamespace(observation_space=space, transform=lambda obs: obs)
    )
    plan = preprocessors.plan(PPOConfig(model={"custom_preprocessor": "mine"}), "Doors-v0")
    with pytest.raises(EnvError, match=f"^Doors-v0: .*{line}"):
        make.make("Doors-v0", env_config, preprocessing=plan)


def test_plan_of_a_manifest_holds_its_name_and_options():
    model = {"custom_preprocessor": "signs", "custom_model_config": {"fill": 1.0, "count": 1}}
    plan = preprocessors.plan(PPOConfig(model=model), "CartPole-v1")
    assert preprocessors.from_facts(json.loads(json.dumps(plan))) == plan
    for wrong in (7, ["signs"], ["signs", 1], [1, {}], ["signs", {}, {}]):
        with pytest.raises(CheckpointError, match="preprocessing in the manifest"):
            preprocessors.from_facts({**plan, "preprocessor": wrong})


@pytest.mark.parametrize(
    ("transform", "line"),
    [
        (lambda obs: obs, r"transform returned an array of shape \(4,\); its observation_space says \(2,\)"),
        (lambda obs: obs[:2] * np.nan, "transform returned a number that is not finite"),
        (lambda obs: ["a", "b"], "transform returned an array of <U1; its observation_space says float32"),
        (lambda obs: [[1, 2], [3]], "transform returned no array"),
        (lambda obs: obs["x"], r"transform failed: IndexError: .*test_custom_preprocessors.py:\d+"),
        (lambda obs: obs.__imul__(2)[:2], "two different things of the same observation, or modifies it"),
    ],
)
def test_what_transform_does_wrong_is_one_line(transform, line):
    env = of(transform)
    with pytest.raises(EnvError, match=f"^model.custom_preprocessor mine: .*{line}") as caught:
        env.reset(seed=0)
    assert "\n" not in str(caught.value)


def test_a_preprocessor_with_a_state_is_refused_at_the_first_observation():
    seen = []
    env = of(lambda obs: seen.append(obs) or np.float32([len(seen), 0]))
    with pytest.raises(EnvError, match="it must have no state"):
        env.reset(seed=0)


def test_bytes_are_bytes():
    env = of(lambda obs: np.zeros((8, 8), np.int64), Box(0, 255, (8, 8), np.uint8))
    with pytest.raises(EnvError, match="returned an array of int64; its observation_space says uint8"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("space", "line"),
    [
        (None, "its observation_space is 'None'; it must be a gymnasium.spaces.Box"),
        (Dict({"a": Discrete(2)}), "it must be a gymnasium.spaces.Box"),
        (Box(0, 1, (3, 3)), r"has the shape \(3, 3\); it must have one dimension, or be an image"),
        (Box(0, 1, ()), r"has the shape \(\)"),
    ],
)
def test_a_space_that_no_network_sees_is_refused(space, line):
    with pytest.raises(EnvError, match=f"CartPole-v1: model.custom_preprocessor mine: .*{line}"):
        of(space=space)


def test_what_cannot_be_made_is_refused_in_one_line():
    register_preprocessor("broken", lambda space, options: options["missing"])
    with pytest.raises(EnvError, match="CartPole-v1: model.custom_preprocessor broken failed: KeyError: 'missing'"):
        made("broken")
    register_preprocessor("nothing", lambda space, options: 7)
    with pytest.raises(EnvError, match=r"model.custom_preprocessor nothing has no transform\(obs\); it returned int"):
        made("nothing")
    with pytest.raises(
        EnvError, match=r"No preprocessor is registered as 'sign'. Did you mean 'signs'\?.*--import MODULE"
    ):
        made("sign")


@pytest.mark.parametrize(
    ("thing", "line"),
    [(7, "'7' is not a class or a function"), (SimpleNamespace, "SimpleNamespace has no method transform")],
)
def test_what_is_no_preprocessor_cannot_be_registered(thing, line):
    with pytest.raises(InputError, match=rf"register_preprocessor\('mine'\): .*{line}"):
        register_preprocessor("mine", thing)
