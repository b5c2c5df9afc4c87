"""What A3C's config refuses and starts from."""

import pytest
from pydantic import ValidationError

from drl_cli.algorithms.a3c import A3CConfig


def test_defaults_are_those_of_means_over_a_fragment():
    made = A3CConfig()
    found = (made.num_workers, made.num_envs_per_worker, made.rollout_fragment_length, made.train_batch_size)
    assert found == (2, 8, 20, None)
    assert (made.lr, made.grad_clip, made.lambda_, made.vf_loss_coeff, made.entropy_coeff) == (
        1e-3,
        0.5,
        1.0,
        0.5,
        0.01,
    )
    assert (made.opt_type, made.xla, made.use_gae, made.use_critic) == ("adam", False, True, True)


def test_batch_size_may_be_said_where_it_is_a_fragments():
    keys = {"num_envs_per_worker": 2, "rollout_fragment_length": 10}
    assert A3CConfig(**keys, train_batch_size=20).train_batch_size == 20
    with pytest.raises(ValidationError, match="200 is not num_envs_per_worker 2 x rollout_fragment_length 10"):
        A3CConfig(**keys, train_batch_size=200)


def test_several_gpus_are_refused():
    assert A3CConfig(num_gpus=0.5).num_gpus == 0.5
    with pytest.raises(ValidationError, match="there is no batch to split over GPUs"):
        A3CConfig(num_gpus=2.0)


def test_cut_returns_are_not_taken_for_whole_ones():
    with pytest.raises(ValidationError, match="false needs batch_mode complete_episodes"):
        A3CConfig(use_critic=False, use_gae=False)
    assert not A3CConfig(use_critic=False, use_gae=False, batch_mode="complete_episodes").use_critic
