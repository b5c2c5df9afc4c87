"""Keys of ES and ARS: RLlib's are read, what has no effect or does not fit is refused."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config import parse
from drl_cli.errors import ConfigError
from drl_cli.evolution.keys import ARSConfig, ESConfig, pairs, pairs_side_by_side

RLLIB_ES = {
    "action_noise_std": 0.01,
    "l2_coeff": 0.005,
    "noise_stdev": 0.02,
    "episodes_per_batch": 1000,
    "train_batch_size": 10000,
    "eval_prob": 0.003,
    "return_proc_mode": "centered_rank",
    "num_workers": 10,
    "stepsize": 0.01,
    "observation_filter": "MeanStdFilter",
    "noise_size": 250000000,
    "report_length": 10,
}
RLLIB_ARS = {
    "action_noise_std": 0.0,
    "noise_stdev": 0.02,
    "num_rollouts": 32,
    "rollouts_used": 32,
    "num_workers": 2,
    "sgd_stepsize": 0.01,
    "observation_filter": "MeanStdFilter",
    "noise_size": 250000000,
    "eval_prob": 0.03,
    "report_length": 10,
    "offset": 0,
}


def _parsed(name, keys):
    return parse.parse(table.find(name), keys, "a file", table.built_in())


@pytest.mark.parametrize(("name", "keys"), [("ES", RLLIB_ES), ("ARS", RLLIB_ARS)])
def test_rllib_s_own_config_is_read_as_it_is(name, keys):
    config = _parsed(name, keys)
    assert {key: getattr(config, key) for key in keys} == keys


def test_defaults_hold_together():
    assert (pairs(ESConfig()), pairs(ARSConfig())) == (32, 32)
    assert pairs(ESConfig(episodes_per_batch=5)) == 3  # the other side of the last one too
    assert [pairs_side_by_side(ESConfig(num_envs_per_worker=count)) for count in (1, 2, 5, 32)] == [1, 1, 3, 16]
    assert ESConfig().observation_filter == ARSConfig().observation_filter == "MeanStdFilter"
    assert ESConfig().noise_size is None and ESConfig().gamma == 1.0


@pytest.mark.parametrize(
    ("name", "keys", "message"),
    [
        ("ARS", {"rollouts_used": 9, "num_rollouts": 8}, "rollouts_used: 9 is more than num_rollouts 8"),
        ("ES", {"num_gpus": 1}, "num_gpus: 1: an update is a sum of a few vectors in NumPy"),
        ("ES", {"xla": True}, "xla: it is for algorithms that use TensorFlow"),
        ("ARS", {"tf_session_args": {"intra_op_parallelism_threads": 2}}, "tf_session_args: it is for algorithms"),
        ("ES", {"reward_scaling": True}, "reward_scaling: scaling rewards changes neither the order of returns"),
        ("ES", {"learner_actor": True, "num_workers": 0}, "learner_actor: true needs num_workers 1 or more"),
        ("ES", {"sgd_stepsize": 0.1}, "sgd_stepsize: a key of ARS, not of ES: the learning rate is stepsize"),
        ("ARS", {"lr": 0.1}, "not of ARS: the learning rate is sgd_stepsize"),
        (
            "ARS",
            {"episodes_per_batch": 9},
            "a key of ES, not of ARS: num_rollouts counts directions of two episodes each",
        ),
        ("ARS", {"noise_stdev": 0}, "noise_stdev"),
        ("ES", {"batch_mode": "whole"}, "not of ES: its episodes are always complete, as with"),
        ("ARS", {"exploration_config": {"type": "Random"}}, "it explores by perturbing weights"),
    ],
)
def test_what_does_not_fit_is_refused(name, keys, message):
    with pytest.raises(ConfigError, match=message):
        _parsed(name, keys)
