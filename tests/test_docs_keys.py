"""docs/keys.rst says what the program does; every key of RLlib's common config that users need works."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORKING = (
    "num_workers num_envs_per_worker rollout_fragment_length batch_mode train_batch_size num_gpus model env env_config gamma "
    "horizon soft_horizon no_done_at_end normalize_actions clip_actions clip_rewards preprocessor_pref lr render_env "
    "record_env log_level "
    "ignore_worker_failures recreate_failed_workers log_sys_usage tf_session_args seed explore exploration_config "
    "evaluation_interval evaluation_num_episodes evaluation_duration_unit evaluation_num_workers evaluation_config "
    "evaluation_parallel_to_training observation_filter compress_observations metrics_smoothing_episodes min_iter_time_s "
    "timesteps_per_iteration min_train_timesteps_per_iteration num_cpus_per_worker num_gpus_per_worker "
    "custom_resources_per_worker num_cpus_for_driver memory_per_worker callbacks custom_eval_function "
    "extra_python_environs_for_driver extra_python_environs_for_worker remote_worker_envs "
    "synchronize_filters shuffle_buffer_size multiagent"
)
RENAMED = {
    "local_tf_session_args": "tf_session_args",
    "monitor": "record_env",
    "replay_mode": "multiagent.replay_mode",
    "sample_batch_size": "rollout_fragment_length",
    "evaluation_duration": "evaluation_num_episodes",
    "min_train_timesteps_per_reporting": "min_train_timesteps_per_iteration",
}
IDLE = [
    "create_env_on_driver",
    "always_attach_evaluation_results",
    "sample_async",
    "framework",
    "eager",
    "use_pytorch",
    "postprocess_inputs",
    "remote_env_batch_wait_ms",
]
REFUSED = ("num_learner_workers",)


@pytest.fixture(scope="module")
def keys():
    """The module docs/make_keys.py."""
    spec = importlib.util.spec_from_file_location("make_keys", DOCS / "make_keys.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_file_is_what_the_program_says(keys):
    written = (DOCS / "keys.rst").read_text(encoding="utf-8")
    assert written == keys.text(), "run: python docs/make_keys.py > docs/keys.rst"


def test_every_key_of_the_common_config_has_an_answer(keys):
    found = {name: keys.answer(name) for name in keys.common()}
    assert len(found) == 113 and all(len(text) > 3 for _, text in found.values())


@pytest.mark.parametrize("name", WORKING.split())
def test_key_that_users_need_works(name, keys):
    assert keys.answer(name)[0] == "works"


def test_other_keys_are_renamed_idle_or_refused(keys):
    assert {name: keys.answer(name) for name in RENAMED} == {name: ("renamed", new) for name, new in RENAMED.items()}
    assert {name: keys.answer(name)[0] for name in IDLE} == dict.fromkeys(IDLE, "idle")
    assert {name: keys.answer(name)[0] for name in REFUSED} == dict.fromkeys(REFUSED, "refused")
