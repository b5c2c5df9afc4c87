import pytest

from drl_cli.algorithms import dataflow, table
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config import key_description
from drl_cli.extras import load


@pytest.mark.parametrize("row", table.built_in(), ids=lambda row: row.name)
def test_every_key_has_meaning_bounds_and_a_default_in_plain_data(row):
    keys = key_description.keys(load(row.config))
    assert len(keys) == len({key["key"] for key in keys}) > 20
    for key in keys:
        assert key["meaning"].endswith(".") and key["allowed"]
        assert ("rllib" in key) == ("why" in key)


def test_a_key_is_told_with_default_unit_and_what_rllib_has():
    key = next(key for key in key_description.keys(SACConfig) if key["key"] == "train_batch_size")
    assert (key["default"], key["unit"], key["allowed"], key["rllib"]) == (
        128,
        "transitions",
        "a whole number in [1, 1000000]",
        256,
    )


def test_keys_of_an_algorithm_come_before_those_that_all_have():
    names = [key["key"] for key in key_description.keys(PPOConfig)]
    assert names.index("clip_param") < names.index("num_workers") < names.index("num_gpus")


def test_keys_inside_of_sections_have_dotted_names():
    keys = {key["key"]: key for key in key_description.keys(SACConfig)}
    assert (
        keys["Q_model.fcnet_hiddens"]["default"] == [64, 64] and keys["Q_model.fcnet_hiddens"]["section"] == "Q_model"
    )


@pytest.mark.parametrize("row", table.built_in(), ids=lambda row: row.name)
def test_dataflow_of_every_loop_is_told(row):
    short, text = dataflow.of(row)
    assert short in (
        "replay",
        "synchronous",
        "stream",
        "gradients",
        "decentralized",
        "evolution",
        "files",
    ) and text.endswith(".")
