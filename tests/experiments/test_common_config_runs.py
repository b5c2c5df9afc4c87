"""RLlib's common config of 1.0, pasted whole behind --config: a run of every algorithm can start with it."""

import json
import runpy
from pathlib import Path

import pytest

from drl_cli.algorithms import table
from drl_cli.errors import ConfigError
from drl_cli.experiments import spec

FROM_FILES = ("CQL", "IQL", "TD3BC", "MARWIL", "BC")
FACTS = Path(__file__).parents[1] / "config" / "rllib" / "test_common_defaults.py"


@pytest.fixture(scope="module")
def pasted():
    """The common config as JSON."""
    return json.dumps(runpy.run_path(str(FACTS))["COMMON_CONFIG"])


@pytest.mark.parametrize("name", [name for name in table.names() if name not in FROM_FILES])
def test_run_with_the_common_config_can_start(name, pasted, tmp_path):
    env = "CartPole-v1" if "Discrete" in table.find(name).actions else "Pendulum-v1"
    env = "drl/TwoStepGame-v1" if table.find(name).team else env
    made = spec.from_flags({"run": name, "env": env, "config": pasted, "local_dir": str(tmp_path)})
    assert (made.run, made.config.num_workers, made.config.normalize_actions) == (name, 2, False)


@pytest.mark.parametrize("name", FROM_FILES)
def test_algorithm_that_learns_from_files_asks_for_them_and_nothing_else(name, pasted):
    env = "CartPole-v1" if "Discrete" in table.find(name).actions else "Pendulum-v1"
    with pytest.raises(
        ConfigError, match=f"^{name} learns from recorded experience, and input is sampler .*Give it files"
    ):
        spec.from_flags({"run": name, "env": env, "config": pasted})
