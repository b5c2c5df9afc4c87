"""Runs of the stream without workers repeat themselves, and go on from a checkpoint as if they had not stopped."""

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact_sync import LSTM, start, state_of  # noqa: F401  start is a fixture

from drl_cli import checkpoints

pytestmark = pytest.mark.process

TURNS = {"num_sgd_iter": 3, "minibatch_buffer_size": 2, "opt_type": "rmsprop", "momentum": 0.5}
RUNS = {
    "IMPALA": ("IMPALA", "CartPole-v1", {}),
    "IMPALA in turns": ("IMPALA", "Pendulum-v1", TURNS),
    "IMPALA LSTM": ("IMPALA", "drl/StatelessCartPole-v1", LSTM | {"broadcast_interval": 2}),
    "APPO": ("APPO", "CartPole-v1", {"use_kl_loss": True, "target_update_frequency": 3, "num_sgd_iter": 2}),
    "APPO whole episodes": ("APPO", "CartPole-v1", {"batch_mode": "complete_episodes"}),
}


@pytest.mark.parametrize(("name", "env_id", "keys"), RUNS.values(), ids=RUNS)
def test_run_interrupted_after_two_iterations_equals_the_whole_run(start, tmp_path, name, env_id, keys):  # noqa: F811
    keys = {"num_workers": 0} | keys
    whole = start(name, env_id, keys)
    before = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    arrays, plain = state_of(whole)
    sampled, trained = (before[1]["info"][f"num_steps_{kind}"] for kind in ("sampled", "trained"))
    assert sampled == trained >= 240  # nothing waits between iterations
    info, calls = (
        after[1]["info"],
        2 if "minibatch_buffer_size" in keys else 1,
    )  # of the learner, between a batch and the next
    assert 0 <= info["weight_lag_mean"] <= info["weight_lag_max"] <= 3 * calls

    resumed = start(name, env_id, keys, restore=checkpoints.load(path))
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    others, told = state_of(resumed)
    assert sorted(others) == sorted(arrays)
    assert [name for name in arrays if not np.array_equal(arrays[name], others[name])] == []
    assert told == plain


def test_run_with_replay_repeats_itself(start):  # noqa: F811
    keys = {"num_workers": 0, "replay_proportion": 0.6, "replay_buffer_num_slots": 5}
    first, second = (start("APPO", "CartPole-v1", keys) for _ in range(2))
    results = [[timeless(run.train()) for _ in range(3)] for run in (first, second)]
    assert results[0] == results[1]
    assert results[0][2]["info"]["num_steps_replayed"] > 100
    (one, _), (other, _) = state_of(first), state_of(second)
    assert [name for name in one if not np.array_equal(one[name], other[name])] == []
