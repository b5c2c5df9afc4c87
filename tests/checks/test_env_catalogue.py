"""Which environments there are, and what a probe in another process says of them."""

import os
from pathlib import Path

import flawed_envs  # noqa: F401 - registers them here
import pytest

from drl_cli.checks import env_catalogue, env_probe
from drl_cli.errors import EnvError

HERE = str(Path(__file__).parent)


def test_all_are_the_newest_versions_without_games():
    ids, notices = env_catalogue.matching()
    assert "LunarLander-v3" in ids and "CartPole-v1" in ids and "CartPole-v0" not in ids
    assert not any(one.startswith("ALE/") for one in ids)
    assert notices == [] or "Atari games are not listed" in notices[0]


def test_part_of_an_id_finds_all_that_have_it_in_any_case():
    assert env_catalogue.matching("lunarlander")[0] == ["LunarLander-v3", "LunarLanderContinuous-v3"]


def test_every_version_is_listed_where_asked():
    ids = env_catalogue.matching("cartpole", every_version=True)[0]
    assert {"CartPole-v0", "CartPole-v1"} <= set(ids)


def test_old_id_is_looked_up_under_its_current_version():
    ids, notices = env_catalogue.matching("LunarLanderContinuous-v2")
    assert ids == ["LunarLanderContinuous-v3"]
    assert notices == ["LunarLanderContinuous-v2 is retired and runs as LunarLanderContinuous-v3."]


def test_id_that_is_unknown_is_refused_with_the_nearest():
    with pytest.raises(EnvError, match="Did you mean 'LunarLander-v3'"):
        env_catalogue.matching("LunarLndr-v3")


def test_probe_tells_spaces_and_what_fits():
    told = env_probe.looked_at("Pendulum-v1")
    assert told["spaces"]["obs"]["shape"] == [3] and told["max_episode_steps"] == 200
    assert "TD3" in told["fits"] and "DQN" not in told["fits"]


def test_probe_names_the_package_that_is_missing():
    text = "cannot be made: ModuleNotFoundError: No module named 'jax.numpy' (/a/b.py:126, in import_module)."
    assert env_probe.shortened(text) == "needs a package that is not installed: pip install jax"
    assert env_probe.shortened("cannot be made: OSError: no (/a/b.py:1, in f).") == "cannot be made: OSError: no"


def test_crash_and_hang_cost_only_their_own_environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(Path(HERE).parents[1])]))
    ids = ["CartPole-v1", "crashing_env:Crash-v0", "Pendulum-v1"]
    found = list(env_catalogue.looked_at(ids, ["flawed_envs", "crashing_env"], limit_s=20.0))
    assert [one["id"] for one in found] == ids
    assert "killed by SIGKILL" in found[1]["error"]
    assert "error" not in found[0] and "error" not in found[2]


def test_pattern_of_the_shell_fits_whole_ids_in_any_case():
    assert env_catalogue.matching("lunar*")[0] == ["LunarLander-v3", "LunarLanderContinuous-v3"]
    assert env_catalogue.matching("?unarlander-v[0-9]")[0] == ["LunarLander-v3"]
    with pytest.raises(EnvError, match="No environment id matches 'LunrLander.'. Did you mean 'LunarLander-v3'"):
        env_catalogue.matching("LunrLander*")
