"""``register_env``: how creators are called, what is refused, and how other processes hear of it."""

import gymnasium
import numpy as np
import pytest

from drl_cli import plugins
from drl_cli.envs import custom_envs, make
from drl_cli.envs.custom_envs import register_env
from drl_cli.errors import EnvError, InputError

pytestmark = pytest.mark.usefixtures("plug_ins")


class Told(gymnasium.Env):
    """Keeps what it was made with."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, length=5, render_mode=None):
        self.told, self.render_mode = {"length": length}, render_mode


class ToldByMapping(Told):
    def __init__(self, config):
        self.told, self.render_mode = config, None


def made(name, env_config, render_mode=None):
    return make.make_raw(name, env_config, render_mode).unwrapped


def test_class_with_keywords_gets_what_is_in_env_config():
    register_env("Told-v3", Told)
    assert made("Told-v3", {"length": 7}).told == {"length": 7}
    assert made("Told-v3", {}).told == {"length": 5}


@pytest.mark.parametrize(
    "creator",
    [
        ToldByMapping,
        lambda env_config: ToldByMapping(env_config),
        lambda config=None: ToldByMapping(config),
        lambda anything: ToldByMapping(anything),
    ],
)
def test_creator_of_one_mapping_gets_env_config_as_rllib_hands_it_over(creator):
    register_env("told", creator)
    assert made("told", {"corridor_length": 9}).told == {"corridor_length": 9}


def test_creator_without_arguments_is_called_without():
    register_env("told", lambda: Told(3))
    with pytest.raises(EnvError, match="env_config.length: told has no such argument. Omit it."):
        made("told", {"length": 4})


def test_required_parameter_named_in_env_config_is_given_by_name():
    register_env("told", lambda size: Told(size))
    assert made("told", {"size": 4}).told == {"length": 4}


def test_render_mode_goes_to_creators_that_know_it_alone():
    register_env("Told-v3", Told)
    register_env("told", ToldByMapping)
    assert made("Told-v3", {}, "rgb_array").render_mode == "rgb_array"
    assert made("told", {}, "rgb_array").told == {}


def test_keywords_of_gymnasium_are_held():
    register_env("Told-v3", Told, max_episode_steps=9, reward_threshold=2.5)
    assert (make.time_limit("Told-v3"), make.reward_threshold("Told-v3")) == (9, 2.5)
    assert make.resolve("Told").id == "Told-v3"


def test_same_name_again_replaces_the_creator_without_a_warning(recwarn):
    register_env("told", Told, max_episode_steps=3)
    register_env("told", lambda: Told(8), max_episode_steps=4)
    assert (made("told", {}).told, make.time_limit("told")) == ({"length": 8}, 4)
    assert list(recwarn) == []


@pytest.mark.parametrize(
    ("name", "creator", "spec", "text"),
    [
        ("CartPole-v1", Told, {}, "CartPole-v1 is already the name of another environment"),
        ("drl/StatelessCartPole-v1", Told, {}, "is already the name of another environment"),
        ("a:told", Told, {}, "'a:told' is no name for an environment"),
        ("", Told, {}, "'' is no name for an environment"),
        (7, Told, {}, "'7' is no name for an environment"),
        ("told", "Told", {}, "told: 'Told' is not callable; pass a class or a function."),
        ("told", Told, {"max_steps": 3}, "unknown keyword 'max_steps'. Did you mean 'max_episode_steps'?"),
    ],
)
def test_what_cannot_be_registered_is_refused(name, creator, spec, text):
    before = set(gymnasium.registry)
    with pytest.raises(InputError) as caught:
        register_env(name, creator, **spec)
    assert text in str(caught.value)
    assert set(gymnasium.registry) == before


def test_what_is_no_environment_is_said_with_its_name():
    register_env("told", lambda: 3)
    with pytest.raises(EnvError, match="told made int, which is not a gymnasium.Env"):
        made("told", {})


def test_another_process_knows_the_name_once_it_is_made_ready():
    register_env("told", Told, max_episode_steps=6)
    carried = plugins.registered()
    plugins.ENVIRONMENTS._things = {}
    del gymnasium.registry["told"]
    make.make_ready({"plugins": carried})
    assert (made("told", {}).told, make.time_limit("told")) == ({"length": 5}, 6)


def test_name_of_an_installed_plug_in_is_found_when_nothing_else_is(monkeypatch):
    monkeypatch.setattr(plugins, "discover", lambda: register_env("Told-v3", Told))
    assert make.resolve("Told-v3").id == "Told-v3"
    assert "Told-v3" in make.registered_ids()


@pytest.mark.parametrize(("creator", "name"), [(Told, "Told"), (lambda: 1, "Environment"), (made, "made")])
def test_class_without_a_name_is_named_after_itself(creator, name):
    assert custom_envs.name_of(creator) == name
