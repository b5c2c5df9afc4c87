"""Tests of ``config.sections.common``: what code that serves every algorithm may read of its config."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.model import Vision
from drl_cli.extras import load


@pytest.mark.parametrize("algorithm", table.names())
def test_config_of_every_algorithm_has_the_common_keys_and_a_model(algorithm):
    config = load(table.find(algorithm).config)()
    assert isinstance(config, CommonKeys)
    assert isinstance(config.model, Vision)
