"""``--search-space default``: each algorithm has a space whose ends its schema accepts; what is given stays."""

import itertools
import random

import pytest

from drl_cli.algorithms import table
from drl_cli.config import search_space
from drl_cli.config.parse import read
from drl_cli.errors import ConfigError
from drl_cli.experiments import default_spaces, search_spec

CARTPOLE = {"run": "PPO", "env": "CartPole-v1", "stop": ["timesteps_total=1000"], "config": "{num_workers: 0}"}


def nested(values):
    made = {}
    for key, value in values.items():
        section, _, last = key.rpartition(".")
        (made.setdefault(section, {}) if section else made)[last] = value
    return made


@pytest.mark.parametrize("run", table.names())
def test_default_space_holds_only_values_that_the_algorithm_accepts(run):
    samplers = {key: search_space.read(value) for key, value in default_spaces.of(run).items()}
    assert len(samplers) >= 2
    rng = random.Random(0)
    drawn = [{key: one.draw(rng) for key, one in samplers.items()} for _ in range(10)]
    ends = itertools.zip_longest(*(one.extremes() for one in samplers.values()))
    first = {key: one.extremes()[0] for key, one in samplers.items()}
    points = [*drawn, *(dict(first, **{k: v for k, v in zip(samplers, row) if v is not None}) for row in ends)]
    for point in points:
        config, problems, notices = read(table.find(run), nested(point), "the space", table.rows())
        assert config is not None and not problems and not notices, point


def test_search_over_the_default_space_keeps_what_is_given():
    flags = {**CARTPOLE, "set": ["gamma=0.97", "lr={choice: [0.1, 0.2]}"]}
    found = search_spec.read(None, flags, {"search_space": "default", "num_samples": 4})
    assert len(found.specs) == 4
    assert {one.config.gamma for one in found.specs} == {0.97}
    assert {one.config.lr for one in found.specs} <= {0.1, 0.2}
    assert len({one.config.entropy_coeff for one in found.specs}) == 4
    assert found.specs[0].origins["config.clip_param"]


def test_default_space_of_an_algorithm_without_one_is_refused(monkeypatch):
    monkeypatch.setattr(default_spaces, "SPACES", {})
    with pytest.raises(ConfigError, match="there is none for PPO"):
        search_spec.read(None, CARTPOLE, {"search_space": "default"})
