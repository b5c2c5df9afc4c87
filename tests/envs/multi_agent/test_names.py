"""The ids of PettingZoo's environments."""

import subprocess
import sys

import pettingzoo
import pytest

from drl_cli.envs import make
from drl_cli.envs.multi_agent import names
from drl_cli.errors import EnvError, InputError


@pytest.mark.parametrize(
    ("asked", "runs", "notice"),
    [
        ("classic/connect_four-v3", "classic/connect_four-v3", None),
        ("classic/connect_four_v3", "classic/connect_four-v3", None),
        ("mpe2/simple_spread_v3", "mpe2/simple_spread-v3", None),
        ("mpe2/simple-v3", "mpe2/simple-v3", None),
        ("sisl/pursuit_v4", "sisl/pursuit-v5", "sisl/pursuit_v4 is retired and runs as sisl/pursuit-v5."),
        ("sisl/multiwalker", "sisl/multiwalker-v9", "sisl/multiwalker has no version and runs as sisl/multiwalker-v9."),
    ],
)
def test_ids_with_hyphen_underscore_or_older_version_are_one_environment(asked, runs, notice):
    assert make.resolve(asked) == (runs, asked, notice)


def test_older_version_is_refused_where_that_is_asked_for():
    with pytest.raises(
        EnvError, match="its current version is sisl/pursuit-v5. Ask for that, or leave out --strict-env."
    ):
        make.resolve("sisl/pursuit_v4", strict=True)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("classic/conect_four_v3", "Did you mean 'classic/connect_four-v3'"),
        ("connect_four_v3", "Did you mean 'drl/ConnectFour-v1'"),
        ("simple_spread_v3", "Did you mean 'mpe2/simple_spread-v3'"),
        ("clasic/tictactoe_v3", "Did you mean 'classic/tictactoe-v3'"),
        ("classic/connect_four_v9", "Did you mean 'classic/connect_four-v3'"),
        ("mpe/simple_tag_v3", "The particle environments are in the package mpe2 now: write mpe2/simple_tag_v3."),
        ("sisl/qqqqqqqq", "There are sisl/multiwalker-v9, sisl/pursuit-v5."),
    ],
)
def test_unknown_ids_name_the_nearest(asked, text):
    with pytest.raises(EnvError) as caught:
        make.resolve(asked)
    assert str(caught.value).startswith(f"There is no environment {asked!r}. ") and text in str(caught.value)


def test_missing_package_is_named_with_the_extra_that_installs_it(monkeypatch):
    for package in ("pettingzoo", "mpe2", "lbforaging"):
        monkeypatch.setitem(sys.modules, package, None)
    for env_id, package in [
        ("classic/rps-v2", "pettingzoo"),
        ("mpe2/simple-v3", "mpe2"),
        ("Foraging-9x9-v3", "lbforaging"),
    ]:
        with pytest.raises(
            InputError, match=f"^{package} is not installed. Run: pip install 'drl-cli\\[multiagent\\]'"
        ):
            make.resolve(env_id)


def test_single_agent_environment_imports_no_package_of_several_agents():
    code = (
        "import sys; from drl_cli.envs import make; from drl_cli.envs.multi_agent import open_envs;"
        "meant = make.resolve('CartPole-v1').id; assert open_envs.kind_of(meant, {}) is None; make.make(meant, {});"
        "print({'pettingzoo', 'mpe2', 'lbforaging', 'pygame'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "set()", done.stderr


def test_environments_of_a_module_that_registers_with_pettingzoo_are_known(monkeypatch):
    monkeypatch.setitem(pettingzoo.aec_registry, "mine/duel-v0", pettingzoo.spec("aec", "classic/rps-v2"))
    assert names.is_pettingzoo("mine/duel-v0") and make.resolve("mine/duel_v0").id == "mine/duel-v0"
    assert not names.is_pettingzoo("mine/other-v0") and not names.is_pettingzoo("CartPole-v1")
