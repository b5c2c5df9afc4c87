"""TRPO's keys: where they start, and what contradicts itself."""

import pytest
from pydantic import ValidationError

from drl_cli.algorithms.trpo import TRPOConfig


def made(**given):
    return TRPOConfig.model_validate(given)


def test_value_is_fitted_as_published_and_by_itself():
    config = made()
    assert (config.lr, config.vf_iterations, config.sgd_minibatch_size, config.grad_clip) == (1e-3, 10, 128, None)
    assert (config.lambda_, config.max_kl, config.cg_iterations, config.cg_damping) == (0.95, 0.02, 10, 0.1)
    assert not config.vf_share_layers


def test_full_config_can_be_read_again():
    config = made(max_kl=0.01, **{"lambda": 0.9})
    assert TRPOConfig.model_validate(config.model_dump(by_alias=True)) == config


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"vf_share_layers": True}, "TRPO needs false: training the value function would move the policy"),
        ({"vf_loss_coeff": 0.5}, "trains the value function separately, with learning rate lr"),
        ({"num_gpus": 2.0}, "2 means towers, which TRPO does not have"),
        ({"train_batch_size": 100}, "128 is more than train_batch_size 100"),
        ({"sgd_minibatch_size": 10, "model": {"use_lstm": True}}, "10 is less than one sequence, model.max_seq_len 20"),
        ({"line_search_shrink": 1.0}, "less than 1"),
        ({"max_kl": 0.0}, "with 0 the policy never changes"),
        ({"max_kl": [[0, 0.04], [60_000, 0.0]]}, "with 0 the policy never changes"),
        ({"max_kl": -0.1}, "greater than or equal to 0"),
    ],
)
def test_contradiction_is_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        made(**given)
