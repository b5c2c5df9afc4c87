"""``env_wrappers``: names, keywords and what they return; where they stand; the plan of a manifest."""

import json

import gymnasium
import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.config.env_names import named_wrappers
from drl_cli.envs import env_wrappers, make, preprocessors
from drl_cli.errors import CheckpointError, EnvError, InputError


class Doubled(gymnasium.RewardWrapper):
    def __init__(self, env, factor=2.0):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward):
        return self.factor * reward


@pytest.fixture
def plug_ins(monkeypatch):
    monkeypatch.setattr(plugins.ENV_WRAPPERS, "_things", {})
    env_wrappers.register_env_wrapper("doubled", Doubled)


def made(*wrappers, env_id="CartPole-v1"):
    plan = preprocessors.plan(PPOConfig(env_wrappers=wrappers), env_id)
    return make.make(env_id, {}, preprocessing=plan)


def test_wrappers_stand_around_the_environment_in_their_order(plug_ins):
    env = made({"doubled": {"factor": 3}}, "doubled", {"TimeLimit": {"max_episode_steps": 2}})
    env.reset(seed=1)
    _, reward, _, truncated, _ = env.step(0)
    assert (reward, truncated) == (6.0, False)
    assert env.step(1)[3] is True and env.env.factor == 2.0 and env.env.env.factor == 3
    assert make.bound_of(env, None) is None  # it has a limit of its own


def test_preprocessing_sees_what_the_wrappers_return():
    env = made({"FrameStackObservation": {"stack_size": 3}})
    assert make.describe(env)["obs"]["shape"] == [12]
    obs, _ = env.reset(seed=1)
    np.testing.assert_array_equal(obs[:4], obs[8:])
    assert make.describe(made("TimeAwareObservation"))["obs"]["shape"] == [5]
    discrete = made({"DiscretizeAction": {"bins": 5}}, env_id="Pendulum-v1")
    assert make.describe(discrete)["action"]["n"] == 5


def test_entries_are_names_or_mappings_of_one_name():
    config = PPOConfig(env_wrappers=["ClipAction", {"TimeLimit": {"max_episode_steps": 9}}])
    assert named_wrappers(config.env_wrappers) == [("ClipAction", {}), ("TimeLimit", {"max_episode_steps": 9})]
    for value, text in (
        ([{"a": {}, "b": {}}], "a mapping of one name"),
        ([{"a": 1}], "the keywords of a are a mapping"),
    ):
        with pytest.raises(ValueError, match=text):
            PPOConfig(env_wrappers=value)


@pytest.mark.parametrize(
    ("wrappers", "text"),
    [
        (["FrameStackObservatio"], "There is no wrapper 'FrameStackObservatio'. Did you mean 'FrameStackObservation'"),
        (["dubled"], "Did you mean 'doubled'"),
        (["qqqqqq"], "There is no wrapper 'qqqqqq'. It takes those of gymnasium.wrappers"),
        (["NormalizeObservation"], "use observation_filter: MeanStdFilter"),
        (["RecordVideo"], "--video-dir"),
        (["TransformReward"], "it takes functions"),
    ],
)
def test_names_that_are_not_known_are_answered(plug_ins, wrappers, text):
    (line,) = env_wrappers.problems(PPOConfig(env_wrappers=wrappers))
    assert line.startswith("env_wrappers: ") and text in line
    with pytest.raises(EnvError, match=text.replace("(", r"\(")):
        made(*wrappers)


@pytest.mark.parametrize(
    ("wrapper", "text"),
    [
        ({"DelayObservation": {"delays": 1}}, "unknown keyword 'delays'. Did you mean 'delay'?"),
        ({"FrameStackObservation": {"stack": 4}}, "unknown keyword 'stack'. It takes stack_size, padding_type."),
        (
            "FrameStackObservation",
            r"FrameStackObservation needs stack_size: {FrameStackObservation: {stack_size: ...}}",
        ),
        ({"ClipAction": {"low": 1}}, "It takes no keywords"),
        ({"FrameStackObservation": {"stack_size": -1}}, "env_wrappers.FrameStackObservation cannot be applied"),
        ("GrayscaleObservation", "env_wrappers.GrayscaleObservation cannot be applied"),
        ("broken", "env_wrappers.broken returned int"),
    ],
)
def test_wrappers_that_do_not_fit_are_refused_in_one_line(plug_ins, wrapper, text):
    env_wrappers.register_env_wrapper("broken", lambda env: 7)
    with pytest.raises(EnvError) as found:
        made(wrapper)
    assert text in str(found.value) and "\n" not in str(found.value)


def test_every_name_is_one_of_gymnasium():
    for name in env_wrappers.GYMNASIUM:
        assert issubclass(env_wrappers.find(name), gymnasium.Wrapper)
    assert not set(env_wrappers.GYMNASIUM) & set(env_wrappers.REFUSED)
    known = set(gymnasium.wrappers.__all__) | {"ArrayConversion"}
    assert set(env_wrappers.GYMNASIUM) <= known and set(env_wrappers.REFUSED) <= known | {"JaxToNumpy", "JaxToTorch"}


def test_names_of_gymnasium_cannot_be_taken():
    for name in ("ClipAction", "RecordVideo"):
        with pytest.raises(InputError, match="is the name of a wrapper of gymnasium"):
            env_wrappers.register_env_wrapper(name, Doubled)
    with pytest.raises(InputError, match="is not a class or a function"):
        env_wrappers.register_env_wrapper("mine", 7)


def test_plan_of_a_manifest_holds_the_wrappers():
    plan = preprocessors.plan(PPOConfig(env_wrappers=["ClipAction"]), "CartPole-v1")
    assert preprocessors.from_facts(json.loads(json.dumps(plan))) == plan
    assert "wrappers" not in preprocessors.plan(PPOConfig(), "CartPole-v1")
    for wrong in (7, [["ClipAction"]], [["ClipAction", 1]], [[1, {}]], [["ClipAction", {}]] * 33):
        with pytest.raises(CheckpointError, match="preprocessing in the manifest"):
            preprocessors.from_facts({**plan, "wrappers": wrong})
