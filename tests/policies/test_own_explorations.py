"""``register_exploration``: what is refused, and how a registered one acts for a worker."""

import numpy as np
import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.ddpg import initial_weights, policy_spec
from drl_cli.config.parse import parse
from drl_cli.config.schema import Section, key
from drl_cli.errors import ConfigError, InputError, PluginFailed
from drl_cli.policies.exploration import make
from drl_cli.policies.exploration.custom_exploration import register_exploration
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.usefixtures("plug_ins")
SPACES = {
    "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
    "action": {"kind": "Box", "shape": [2], "dtype": "float32", "low": [-2.0, -2.0], "high": [2.0, 2.0]},
    "frames": 1,
}
PLACE = {"stream": 0, "streams": 2, "random_steps": 0, "base": 100}
OBS = np.ones((2, 3), np.float32)


class Shifted:
    """The greedy action, ``by`` more for every step that the environment has taken."""

    def __init__(self, settings, spec, count):
        self.settings, self.kind = settings, spec.action.kind
        self.memory = {"steps": np.zeros(count, np.int64)}
        self.seen = []

    def act(self, policy, obs, state, rng, at):
        action, state, columns = policy.act(obs, state, rng, False)
        self.memory["steps"][at[1]] += 1
        self.seen.append(at)
        return action * 0 + self.settings["by"] * self.memory["steps"][at[1], None], state, columns

    def ended(self, index):
        self.memory["steps"][index] = 0

    def describe(self, t):
        return {"by": self.settings["by"], "t": t}


class Bare:
    """No more than what is needed."""

    returned = None

    def __init__(self, settings, spec, count):
        pass

    def act(self, policy, obs, state, rng, at):
        return Bare.returned or policy.act(obs, state, rng, False)


def explored(**keys):
    config = parse(table.find("TD3"), {"num_envs_per_worker": 2, "exploration_config": keys}, "--config")
    spec = policy_spec(config, SPACES)
    policy = NumpyPolicy(spec, initial_weights(config, spec, 1))
    return make(config, spec, PLACE), policy


def test_it_acts_with_its_settings_and_is_told_when_and_where():
    register_exploration("Shifted", Shifted, {"by": 0.25})
    exploration, policy = explored(type="Shifted")
    action, _, _ = exploration.act(policy, OBS, (), None, 5)
    assert action.tolist() == [[0.25, 0.25], [0.25, 0.25]]
    exploration.ended(0)
    action, _, _ = exploration.act(policy, OBS, (), None, 6)
    assert action.tolist() == [[0.25, 0.25], [0.5, 0.5]]
    assert action.dtype == np.float32
    assert exploration.describe(6) == {"by": 0.25, "t": 112.0}  # 100 + 6 steps of 2 environments


def test_its_memory_is_saved_and_restored():
    register_exploration("Shifted", Shifted, {"by": 0.25})
    one, policy = explored(type="Shifted", by=0.5)
    other, _ = explored(type="Shifted", by=0.5)
    one.act(policy, OBS, (), None, 5)
    arrays, facts = one.state()
    assert facts == {"kind": "Shifted", "memory": ["kind/steps"]}
    other.load(arrays, facts)
    assert other.act(policy, OBS, (), None, 6)[0].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_what_it_lacks_is_filled_in():
    register_exploration("Bare", Bare)
    exploration, policy = explored(type="Bare")
    exploration.ended(1)
    assert exploration.describe(3) == {}
    assert exploration.logp(policy, OBS, (), np.zeros((2, 2), np.float32), 3) is None
    assert exploration.state() == ({}, {"kind": "Bare", "memory": []})


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ([1, 2], "The exploration Bare: act returned no (action, state, columns)."),
        ((np.zeros((2, 3)), (), {}), "The exploration Bare: act returned actions of shape (2, 3), not (2, 2)."),
    ],
)
def test_what_it_returns_is_checked(monkeypatch, returned, text):
    register_exploration("Bare", Bare)
    monkeypatch.setattr(Bare, "returned", returned)
    exploration, policy = explored(type="Bare")
    with pytest.raises(PluginFailed) as caught:
        exploration.act(policy, OBS, (), None, 5)
    assert str(caught.value) == text


def test_what_it_raises_ends_the_run_in_one_line_that_says_where():
    class Broken(Bare):
        def act(self, policy, obs, state, rng, at):
            return obs["wind"]

    register_exploration("Broken", Broken)
    exploration, policy = explored(type="Broken")
    with pytest.raises(
        PluginFailed, match=r"The exploration Broken: act failed: IndexError: .*test_own_explorations.py:\d+"
    ):
        exploration.act(policy, OBS, (), None, 5)


def test_keys_of_a_section_have_bounds():
    class Keys(Section):
        """Own keys."""

        by: float = key(0.25, "How far.", gt=0, le=1)

    register_exploration("Shifted", Shifted, Keys)
    with pytest.raises(
        ConfigError, match=r"exploration_config.by: Input should be less than or equal to 1 \(--config\)"
    ):
        explored(type="Shifted", by=2.0)
    assert explored(type="Shifted", by=1.0)[0].describe(0)["by"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("SoftQ", Bare), "SoftQ: a built-in exploration has that name"),
        (("so ft", Bare), "'register_exploration: so ft' is no name"),
        (("Own", 3), "Own: '3' is not a class with a method act"),
        (("Own", dict), "is not a class with a method act"),
        (("Own", Bare, {"hold_steps": 3}), "Own: the key hold_steps is a key of every exploration"),
        (("Own", Bare, {"a b": 3}), "Own: the key 'a b' with the default 3 cannot be"),
        (("Own", Bare, {"a": None}), "Own: the key 'a' with the default None cannot be"),
        (("Own", Bare, ["a"]), "are neither {key: default} nor a subclass of Section"),
        (("Own", Bare, {}, ("Boxes",)), "Own: actions ('Boxes',) is not a tuple of Box, Discrete"),
        (("Own", Bare, {}, "Box"), "Own: actions 'Box' is not a tuple of Box, Discrete"),
    ],
)
def test_what_cannot_be_registered_is_refused(arguments, text):
    with pytest.raises(InputError) as caught:
        register_exploration(*arguments)
    assert text in str(caught.value)
