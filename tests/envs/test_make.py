"""Environments by name: retired ids, wrong ids, modules, the check before a run."""

import json
import sys
from types import SimpleNamespace

import crooked_envs
import gymnasium
import odd_envs  # noqa: F401 - registers environments
import pytest

from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.envs.preprocessors import NOTHING
from drl_cli.errors import EnvError

SAC = table.find("SAC")
ANY = SimpleNamespace(name="DQN", actions=("Discrete",), team=False, observations=("Box1d", "Image"))


def refusal(function, *arguments, **named):
    with pytest.raises(EnvError) as caught:
        function(*arguments, **named)
    return str(caught.value)


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        ("LunarLanderContinuous-v2", "LunarLanderContinuous-v3"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("Crooked-v2", "Crooked-v3"),
        ("BipedalWalker-v2", "BipedalWalker-v3"),
    ],
)
def test_retired_id_runs_as_the_newest_version(asked, runs):
    assert envs.resolve(asked) == (runs, asked, f"{asked} is retired and runs as {runs}.")


def test_registered_id_runs_as_it_is_without_a_word():
    assert envs.resolve("Pendulum-v1") == ("Pendulum-v1", "Pendulum-v1", None)
    assert envs.resolve("Crooked-v1") == ("Crooked-v1", "Crooked-v1", None)  # an older version that still exists


def test_id_without_version_runs_as_the_newest():
    assert envs.resolve("Crooked") == ("Crooked-v3", "Crooked", "Crooked has no version and runs as Crooked-v3.")


@pytest.mark.parametrize("asked", ["HalfCheetah-v2", "Hopper-v3", "InvertedPendulum-v2", "Swimmer-v3", "Humanoid-v1"])
def test_mujoco_id_that_is_only_a_stub_runs_as_v5(asked):
    name = envs.resolve(asked)
    assert name == (asked[:-1] + "5", asked, f"{asked} is retired and runs as {asked[:-1]}5.")


def test_mujoco_that_is_not_installed_is_named_as_the_extra(monkeypatch):
    for error in (
        gymnasium.error.DependencyNotInstalled("MuJoCo is not installed, run `pip install gymnasium[mujoco]`"),
        ModuleNotFoundError("No module named 'imageio'", name="imageio"),
    ):

        def make(*_arguments, _error=error, **_named):
            raise _error

        monkeypatch.setattr(gymnasium, "make", make)
        assert refusal(envs.make_raw, "Hopper-v5", {}) == "Hopper-v5 needs MuJoCo: pip install 'drl-cli[mujoco]'"


def test_mujoco_environment_can_be_made_where_it_is_installed():
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    env = envs.make(envs.resolve("Hopper-v2").id, {})
    assert env.reset(seed=0)[0].shape == (11,)
    env.close()


def test_retired_id_is_refused_when_strict():
    assert refusal(envs.resolve, "Pendulum-v0", strict=True) == (
        "Pendulum-v0 is retired; its current version is Pendulum-v1. Ask for that, or leave out --strict-env."
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            "LunarLanderContinous-v3",
            "There is no environment 'LunarLanderContinous-v3'. Did you mean 'LunarLanderContinuous-v3'",
        ),
        ("Pendulum-v7", "Did you mean 'Pendulum-v1'"),
        ("pendulum-v1", "Did you mean 'Pendulum-v1'"),
        ("Qwzx-v0", "If a package of yours registers it, add --import PACKAGE, or write --env PACKAGE:Qwzx-v0"),
        ("a b", "'a b' is no id of an environment"),
        ("", "'' is no id of an environment"),
        ("x" * 5000, "There is no environment"),
    ],
)
def test_unknown_id_is_refused_with_what_helps(asked, text):
    message = refusal(envs.resolve, asked)
    assert text in message and len(message) < 500


def test_every_registered_id_is_suggested_for_a_typo():
    # The games that Gymnasium brings along; packages that other tests import register thousands more, at 50 ms each.
    ids = [
        env_id
        for env_id, spec in gymnasium.registry.items()
        if len(env_id) > 8 and "/" not in env_id and str(spec.entry_point).startswith("gymnasium.")
    ]
    found = [f"'{env_id}'" in refusal(envs.resolve, env_id[:3] + env_id[4:]) for env_id in ids]
    assert len(ids) > 20 and sum(found) >= 0.95 * len(found)


def test_module_in_a_name_needs_trust():
    assert refusal(envs.resolve, "crooked_envs:Crooked-v3") == (
        "The environment 'crooked_envs:Crooked-v3' asks to import the module 'crooked_envs', which only the "
        "command line "
        "may. If you trust it, type: --env crooked_envs:Crooked-v3"
    )


def test_untrusted_module_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "untrusted_envs.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    refusal(envs.resolve, "untrusted_envs:X-v0")
    assert "untrusted_envs" not in sys.modules


def test_trusted_module_is_imported_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "own_envs.py").write_text(
        "import gymnasium\ngymnasium.register('Own-v2', entry_point='gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert envs.resolve("own_envs:Own-v1", trusted=True).id == "own_envs:Own-v2"
    env = envs.make("own_envs:Own-v2", {"g": 9.0})
    assert env.unwrapped.g == 9.0
    assert envs.time_limit("own_envs:Own-v2") is None


def test_module_that_is_missing_or_fails_is_refused(tmp_path, monkeypatch):
    (tmp_path / "broken_envs.py").write_text("x = 1\nraise RuntimeError('half done')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert refusal(envs.import_module, "elsewhere") == (
        "There is no module 'elsewhere', neither installed nor in the current folder. "
        "Go to its folder, or put PYTHONPATH=ITS_FOLDER before drl."
    )
    assert refusal(envs.import_module, "broken_envs") == (
        f"Importing broken_envs failed: RuntimeError: half done ({tmp_path}/broken_envs.py:2, in <module>)."
    )


def test_check_returns_spaces_that_strict_json_holds():
    spaces = envs.check("Pendulum-v1", {}, SAC)
    assert json.loads(json.dumps(spaces, allow_nan=False)) == {
        "obs": {"kind": "Box", "shape": [3], "dtype": "float32", "low": [-1.0, -1.0, -8.0], "high": [1.0, 1.0, 8.0]},
        "action": {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]},
        "frames": 1,
    }


def test_registry_facts_are_read():
    assert (envs.reward_threshold("Crooked-v3"), envs.time_limit("Crooked-v3")) == (7.5, 50)
    assert (envs.reward_threshold("Pendulum-v1"), envs.time_limit("crooked_envs:Crooked-v1")) == (None, None)


INTERFACE = (
    "the interface is reset(seed=None, options=None) -> (obs, info) and step(action) -> "
    "(obs, reward, terminated, truncated, info)."
)


@pytest.mark.parametrize(
    ("twist", "text"),
    [
        ("reset raises", "Crooked-v3: reset raised KeyError: 'no such level' ("),
        ("reset exits", "Crooked-v3: reset raised SystemExit: 3 ("),
        ("step raises", "Crooked-v3: step raised RuntimeError: motor burnt ("),
        ("close raises", "Crooked-v3: close raised OSError: stuck ("),
        ("old reset", f"Crooked-v3: reset returned a ndarray; {INTERFACE}"),
        ("old step", f"Crooked-v3: step does not return five values; {INTERFACE}"),
        ("shape", "Crooked-v3: reset returned an observation of shape (3,); its space says (2,)."),
        ("nan", "Crooked-v3: reset returned an observation whose element 1 is nan."),
        ("words", "Crooked-v3: reset returned an observation that is not an array of numbers."),
        ("reward nan", "Crooked-v3: step returned the reward nan; one finite number is needed."),
        ("reward word", "Crooked-v3: step returned the reward 'much', which is not a number."),
        ("reward pair", "Crooked-v3: step returned the reward [1.0, 2.0]; one finite number is needed."),
        ("done is int", "Crooked-v3: step returned 0 as terminated, which must be True or False; "),
        ("info is list", "Crooked-v3: step returned a tuple of 5; "),
    ],
)
def test_environment_that_misbehaves_is_refused(twist, text):
    message = refusal(envs.check, "Crooked-v3", {"twist": twist}, SAC)
    assert message.startswith(text)
    if "raise" in twist or "exits" in twist:
        assert f"{crooked_envs.__file__}:" in message and ", in " in message


def test_sound_environment_passes():
    assert envs.check("Crooked-v3", {}, SAC)["action"]["shape"] == [2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("discrete", "its actions are Discrete(2). Algorithms for such actions: DQN, PPO."),
        (
            "unbounded",
            "action 0 has the bounds [-1.0, infinity]. Rescale the actions with gymnasium.wrappers.RescaleAction",
        ),
        ("huge", "which span no usable range."),
        ("matrix", "its actions are a Box of shape (2, 2). Reshape them in a wrapper."),
        ("whole", "its actions are whole numbers (int32)."),
        (
            "multi",
            "its actions are MultiDiscrete([2 3]). No algorithm supports such actions; convert them to one Discrete or one",
        ),
        ("image", "its observations are images of shape (32, 32, 3). Algorithms for images: DQN."),
    ],
)
def test_space_that_does_not_fit_is_refused_with_what_would(name, text):
    needs = SimpleNamespace(name="SAC", actions=("Box",), team=False, observations=("Box1d",))
    fitting = {"Discrete": "DQN, PPO", "Image": "DQN"}
    message = refusal(envs.check, f"Crooked-{name}-v0", {}, needs, fitting=fitting)
    assert text in message and message.startswith(f"Crooked-{name}-v0: SAC needs ")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lie", "reset returned the observation array([0., 0.], dtype=float32); its space says Discrete(5)."),
        ("wrongtype", "reset returned an observation of float64; its space says uint8."),
        ("sequence", "its observations are Sequence(Discrete(3), stack=False), which drl cannot flatten."),
        ("empty", "its observations are empty, of shape (0,)."),
        ("dictaction", "its actions are Dict('a': Text(1, 3, "),
        ("box", "DQN needs a Discrete action space; its actions are a Box of [3]. Algorithms for such actions: TD3."),
    ],
)
def test_observations_and_actions_that_cannot_be_used_are_refused(name, text):
    assert text in refusal(envs.check, f"Odd-{name}-v0", {}, ANY, fitting={"Box": "TD3"})


@pytest.mark.parametrize("name", ["number", "numbers", "bits", "dict", "tuple", "table", "scalar", "bytes", "from3"])
def test_observations_of_every_kind_pass_as_vectors(name):
    spaces = envs.check(f"Odd-{name}-v0", {}, ANY)
    assert len(spaces["obs"]["shape"]) == 1 and spaces["action"]["kind"] == "Discrete"


def test_images_pass_with_their_stack():
    spaces = envs.check("Odd-gray-v0", {}, ANY, NOTHING | {"frames": 4})
    assert (spaces["obs"]["shape"], spaces["frames"]) == ([16, 12, 1], 4)


def test_atari_game_without_ale_py_is_refused_with_the_extra(monkeypatch):
    monkeypatch.setattr(envs, "find_spec", lambda name: None)
    for asked in ("ALE/Nosuchgame-v5", "NosuchgameNoFrameskip-v4"):
        assert refusal(envs.resolve, asked) == (
            f"There is no environment {asked!r}. It looks like an Atari game. "
            "These come with: pip install 'drl-cli[atari]'"
        )


@pytest.mark.parametrize(
    ("env_id", "env_config", "text"),
    [
        ("Pendulum-v1", {"gg": 1}, "env_config.gg: Pendulum-v1 has no such argument. Omit it."),
        ("Pendulum-v1", {"id": "x"}, "Pendulum-v1 cannot be made with env_config {'id': 'x'}: TypeError"),
    ],
)
def test_environment_that_cannot_be_made_is_refused(env_id, env_config, text):
    assert refusal(envs.make, env_id, env_config).startswith(text)
