"""``deterministic`` and ``num_env_blocks``: who has them, what excludes them, and what follows from them."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config.parse import parse
from drl_cli.config.sections.common import min_iter_seconds
from drl_cli.config.sections.deterministic import has_blocks, is_deterministic, sources
from drl_cli.errors import ConfigError
from drl_cli.extras import load

ON = {"deterministic": True, "num_workers": 2}


def message(name, mapping):
    with pytest.raises(ConfigError) as caught:
        parse(table.find(name), mapping, "--config", table.built_in())
    return str(caught.value)


def test_typing_error_in_the_key_is_answered_with_its_name():
    assert message("PPO", {"determinstic": True}) == (
        "determinstic: unknown key (--config). Did you mean 'deterministic'?"
    )


@pytest.mark.parametrize("name", ["TD3", "A2C", "A3C", "ARS", "PQN"])
def test_algorithm_without_the_key_refuses_it_and_names_those_that_have_it(name):
    text = message(name, {"deterministic": True})
    assert text.startswith("deterministic: a key of ") and "PPO" in text and text.endswith(f"not of {name} (--config).")


@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("PPO", {"min_iter_time_s": 1}, "min_iter_time_s: a clock would decide how much an iteration learns"),
        ("PPO", {"straggler_cutoff": 0.5}, "straggler_cutoff: a clock would decide what is learnt from"),
        ("PPO", {"num_learners": 2}, "num_learners: without workers there is one learner; set it to 1"),
        (
            "IMPALA",
            {"num_aggregation_workers": 1},
            "num_aggregation_workers: without workers there are none; set it to 0",
        ),
        ("PPO", {"broadcast_dtype": "float16"}, "broadcast_dtype: without workers nothing is rounded"),
        ("PPO", {"output": "logdir"}, "output: recordings are not numbered by environments"),
        ("ES", {"ignore_worker_failures": True}, "ignore_worker_failures: workers that die are replaced"),
        ("APEX", {"num_replay_shards": 2}, "num_replay_shards: without workers there is one; set it to 1"),
        ("DQN", {"input": "steps.json"}, "input: it is for runs that step environments"),
    ],
)
def test_key_with_which_timing_or_processes_decide_is_refused_beside_it(name, keys, text):
    assert message(name, ON | keys) == f"deterministic: true excludes {text} (--config)."


def test_more_workers_than_blocks_are_refused():
    assert message("PPO", {"deterministic": True, "num_workers": 3, "num_env_blocks": 2}) == (
        "num_workers: 3 is more than num_env_blocks 2, which deterministic workers share; raise num_env_blocks, which changes "
        "the run, or use fewer (--config)."
    )


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("PPO", ON, (True, True, 4, 0.0)),
        ("PPO", ON | {"deterministic": False}, (False, False, 2, 1.0)),
        ("PPO", {"deterministic": True, "num_workers": 0, "num_env_blocks": 3}, (True, True, 3, 0.0)),
        ("ES", ON, (True, False, 2, 0.0)),
        ("TD3", {"num_workers": 0}, (False, False, 1, 0.0)),
    ],
)
def test_streams_of_fragments_are_the_blocks_where_there_are_some(name, keys, expected):
    config = load(table.find(name).config).model_validate(keys)
    assert (is_deterministic(config), has_blocks(config), sources(config), min_iter_seconds(config)) == expected
