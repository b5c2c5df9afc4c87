"""``residual_blocks``: which layers it makes, and what it refuses."""

import pytest

from drl_cli.algorithms import ddpg, dqn, sac, table
from drl_cli.config.parse import read
from drl_cli.config.schema import Section
from drl_cli.policies.nets import Dense, Residual

VECTOR = {"kind": "Box", "shape": [3], "dtype": "float32"}
BOX = {"obs": VECTOR, "action": {"kind": "Box", "shape": [1], "low": [-1.0], "high": [1.0]}}
DISCRETE = {"obs": VECTOR, "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int64"}}


def reading(name, mapping):
    """Return (config, problems) of a mapping for the algorithm ``name``."""
    config, problems, _ = read(table.find(name), mapping, "--config", table.built_in())
    return config, problems


def made(name, mapping) -> Section:
    config, problems = reading(name, mapping)
    assert problems == []
    return config


def test_sac_has_blocks_where_they_are_asked_for():
    config = made("SAC", {"Q_model": {"residual_blocks": True, "fcnet_hiddens": [32, 32, 32]}})
    spec = sac.policy_spec(config, BOX)
    assert spec.nets[0].layers == (Dense(64), Dense(64))
    assert sac.critic_spec(config, spec).layers == (Residual(32, 3),)


@pytest.mark.parametrize("name", ["TD3", "DDPG"])
def test_deterministic_policy_and_its_critics_have_blocks(name):
    config = made(name, {"residual_blocks": True, "actor_hiddens": [16]})
    spec = ddpg.policy_spec(config, BOX)
    assert spec.nets[0].layers == (Residual(16, 1),)
    assert ddpg.critic_spec(config, spec).layers == (Residual(64, 2),)


def test_dqn_has_blocks_before_its_streams():
    (net,) = dqn.policy_spec(made("DQN", {"model": {"residual_blocks": True}}), DISCRETE).nets
    assert (net.layers, net.head_layers) == ((Residual(64, 2),), (Dense(64),))


@pytest.mark.parametrize(
    ("name", "mapping", "problem"),
    [
        (
            "SAC",
            {"Q_model": {"residual_blocks": True, "fcnet_hiddens": [64, 32]}},
            "Q_model.fcnet_hiddens: residual_blocks needs one or more entries that are all equal, such as [64, 64], not "
            "[64, 32] (--config).",
        ),
        (
            "TQC",
            {"policy_model": {"residual_blocks": True, "layer_norm": True}},
            "policy_model.layer_norm: residual_blocks have layer normalisation of their own; leave it out (--config).",
        ),
        (
            "TD3",
            {"residual_blocks": True, "critic_hiddens": []},
            "critic_hiddens: residual_blocks needs one or more entries that are all equal, such as [64, 64], not [] "
            "(--config).",
        ),
        (
            "CROSSQ",
            {"Q_model": {"residual_blocks": True}},
            "Q_model.residual_blocks: layers are normalised by the batch here; leave it out, or use SAC (--config).",
        ),
    ],
)
def test_blocks_that_cannot_be_are_refused(name, mapping, problem):
    assert reading(name, mapping)[1] == [problem]
