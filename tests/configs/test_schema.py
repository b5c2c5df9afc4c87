"""The schema of SAC: every key is documented, keeps its contract default, and refuses what is not of its kind."""

import json

import pytest
from pydantic import ValidationError

from drl_cli.configs.allowed import allowed, leaves
from drl_cli.configs.iteration import min_iter_seconds
from drl_cli.configs.replay import intensity
from drl_cli.configs.sac import SACConfig

LEAVES = list(leaves(SACConfig))
NAMES = [".".join(path) for path, _ in LEAVES]

DEFAULTS = {
    "num_workers": 0,
    "num_envs_per_worker": 4,
    "rollout_fragment_length": 25,
    "train_batch_size": 128,
    "gamma": 0.99,
    "env": None,
    "env_config": {},
    "horizon": None,
    "normalize_actions": True,
    "clip_actions": True,
    "clip_rewards": None,
    "preprocessor_pref": "deepmind",
    "log_level": "WARN",
    "tf_session_args.intra_op_parallelism_threads": 1,
    "tf_session_args.inter_op_parallelism_threads": 1,
    "tf_session_args.use_per_session_threads": False,
    "tf_session_args.allow_soft_placement": True,
    "tf_session_args.log_device_placement": False,
    "tf_session_args.isolate_session_state": False,
    "tf_session_args.operation_timeout_in_ms": 0,
    "tf_session_args.gpu_options.allow_growth": True,
    "tf_session_args.gpu_options.per_process_gpu_memory_fraction": 0.0,
    "tf_session_args.device_count.CPU": 1,
    "tf_session_args.device_count.GPU": None,
    "seed": None,
    "explore": True,
    "exploration_config.type": "StochasticSampling",
    "evaluation_interval": 5,
    "evaluation_num_episodes": 10,
    "evaluation_config.explore": False,
    "evaluation_config.env_config": {},
    "evaluation_config.horizon": None,
    "evaluation_confirm_episodes": 50,
    "evaluation_hold": 0,
    "metrics_smoothing_episodes": 100,
    "min_iter_time_s": None,
    "timesteps_per_iteration": 1000,
    "num_gpus": 0.0,
    "num_cpus_per_worker": 1.0,
    "num_gpus_per_worker": 0.0,
    "custom_resources_per_worker": {},
    "num_replay_shards": 0,
    "learner_actor": False,
    "buffer_size": 1_000_000,
    "learning_starts": 1500,
    "n_step": 3,
    "training_intensity": None,
    "store_buffer_in_checkpoints": True,
    "updates_per_call": 50,
    "publish_every": 50,
    "xla": True,
    "checkpoint_compress": True,
    "twin_q": True,
    "Q_model.fcnet_hiddens": [64, 64],
    "Q_model.fcnet_activation": "relu",
    "Q_model.layer_norm": False,
    "policy_model.fcnet_hiddens": [64, 64],
    "policy_model.fcnet_activation": "relu",
    "policy_model.layer_norm": False,
    "tau": 0.01,
    "initial_alpha": 0.2,
    "target_entropy": "auto",
    "optimization.actor_learning_rate": 1e-3,
    "optimization.critic_learning_rate": 1e-3,
    "optimization.entropy_learning_rate": 1e-3,
    "grad_clip": None,
    "target_network_update_freq": 0,
    "policy_delay": 1,
    "policy_average": 0.0,
}


def nested(path, value):
    """Return the mapping in which only the key at ``path`` is set."""
    for name in reversed(path):
        value = {name: value}
    return value


def at(data, path):
    for name in path:
        data = data[name]
    return data


def test_defaults_are_those_of_the_contract():
    data = SACConfig().model_dump(mode="json")
    assert {".".join(path): at(data, path) for path, _ in LEAVES} == DEFAULTS


@pytest.mark.parametrize(("path", "field"), LEAVES, ids=NAMES)
def test_key_has_a_meaning_and_says_what_it_allows(path, field):
    assert len(field.description) > 20 and field.description.endswith(".")
    assert len(allowed(field)) >= 4


@pytest.mark.parametrize(("path", "field"), LEAVES, ids=NAMES)
def test_key_that_differs_from_rllib_says_why(path, field):
    notes = field.json_schema_extra
    assert ("rllib" in notes) == ("why" in notes)
    if "rllib" in notes:
        assert notes["rllib"] != field.default and len(notes["why"]) > 15


NEVER_VALID = {
    "text that is no choice": "~~",
    "a mapping of lists": {"x": []},
    "a list of nulls": [None],
    "a huge number": 1e300,
}


@pytest.mark.parametrize(("path", "field"), LEAVES, ids=NAMES)
def test_key_refuses_every_wrong_type(path, field):
    refused = 0
    for value in NEVER_VALID.values():
        if path[-1] in ("env_config",) and isinstance(value, dict):
            continue
        if path[-1] == "env" and isinstance(value, str):
            continue
        with pytest.raises(ValidationError):
            SACConfig.model_validate(nested(path, value))
        refused += 1
    assert refused >= 3


@pytest.mark.parametrize(("path", "field"), LEAVES, ids=NAMES)
def test_number_refuses_a_bool_and_bool_refuses_a_number(path, field):
    default = DEFAULTS[".".join(path)]
    if isinstance(default, bool):
        wrong = 1
    elif isinstance(default, (int, float)) or path[-1] in ("horizon", "seed", "grad_clip", "GPU", "training_intensity"):
        wrong = True
    else:
        wrong = object()
    with pytest.raises(ValidationError):
        SACConfig.model_validate(nested(path, wrong))
    assert SACConfig.model_validate(nested(path, default)) == SACConfig()


def test_config_survives_json_unchanged():
    config = SACConfig.model_validate(
        {"optimization": {"actor_learning_rate": [[0, 1e-3], [100000, 0]]}, "buffer_size": 1e5}
    )
    assert SACConfig.model_validate(json.loads(json.dumps(config.model_dump(mode="json"), allow_nan=False))) == config
    assert config.optimization.actor_learning_rate == ((0, 0.001), (100000, 0.0))


def test_whole_number_written_as_float_is_an_int():
    config = SACConfig.model_validate({"buffer_size": 1e6})
    assert config.buffer_size == 1_000_000 and isinstance(config.buffer_size, int)


def test_config_is_frozen():
    with pytest.raises(ValidationError):
        SACConfig().gamma = 0.5
    assert SACConfig().gamma == 0.99


@pytest.mark.parametrize(
    ("given", "kept"), [(None, None), (True, True), (False, False), (1, 1.0), (0.5, 0.5), ([-1, 2], (-1.0, 2.0))]
)
def test_clip_rewards_takes_each_of_its_forms(given, kept):
    config = SACConfig.model_validate({"clip_rewards": given})
    assert config.clip_rewards == kept and isinstance(config.clip_rewards, type(kept))


@pytest.mark.parametrize("given", [0, -1, [2, 1], [1], [1, 2, 3], "sign"])
def test_clip_rewards_refuses_other_forms(given):
    with pytest.raises(ValidationError):
        SACConfig.model_validate({"clip_rewards": given})
    assert SACConfig().clip_rewards is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"learning_starts": 10, "buffer_size": 5}, "learning would never start"),
        ({"learner_actor": True}, "needs num_workers 1 or more"),
        ({"num_replay_shards": 1}, "needs num_workers 1 or more"),
    ],
)
def test_keys_that_contradict_are_refused(given, why):
    with pytest.raises(ValidationError, match=why):
        SACConfig.model_validate(given)


def test_intensity_null_is_two_fifths_of_an_update_per_step():
    assert intensity(SACConfig(train_batch_size=100)) == 40.0
    assert intensity(SACConfig(training_intensity=7.0)) == 7.0


def test_min_iter_seconds_null_depends_on_workers():
    assert min_iter_seconds(SACConfig()) == 0.0
    assert min_iter_seconds(SACConfig(num_workers=2)) == 1.0
    assert min_iter_seconds(SACConfig(min_iter_time_s=3.5)) == 3.5
