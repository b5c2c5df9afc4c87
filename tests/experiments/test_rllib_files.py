"""Files in RLlib's schema, written from its documented keys: they are read unchanged, old names and ids included."""

from pathlib import Path

import pytest

from drl_cli import events
from drl_cli.errors import ConfigError
from drl_cli.experiments import experiment_files, search_spec, spec

FOLDER = Path(__file__).parent / "rllib_files"


def read(name):
    """Return ({experiment: spec}, texts of the notices)."""
    told = []
    unsubscribe = events.subscribe(lambda kind, fields: told.append(fields["text"]) if kind == "notice" else None)
    try:
        return {one.name: one for one in spec.from_file(str(FOLDER / name), {})}, told
    finally:
        unsubscribe()


@pytest.fixture
def notices():
    """The texts of the notices that are reported during the test."""
    texts = []
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind == "notice" else None)
    yield texts
    unsubscribe()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_of_a_file_is_read_with_its_values(path):
    specs, _ = read(path.name)
    experiments = experiment_files.load(path)
    assert list(specs) == [name for name, _, _ in experiments] != []
    for name, mapping, _ in experiments:
        one, config = specs[name], mapping["config"]
        assert one.run == mapping["run"] and one.env_asked == mapping["env"]
        same = {key for key in config if hasattr(one.config, key) and isinstance(config[key], (int, float))}
        assert {key: getattr(one.config, key) for key in same} == {key: config[key] for key in same}
        assert set(mapping.get("stop", {})) <= set(one.stop)


def test_old_environments_run_as_their_current_version():
    assert read("sac.yaml")[0]["pendulum-sac"].env == "Pendulum-v1"
    assert read("impala.yaml")[0]["frozenlake-appo-vtrace"].env == "FrozenLake-v1"


def test_framework_is_said_once_and_changes_nothing():
    _, told = read("sac.yaml")
    assert [text for text in told if text.startswith('framework "torch" has no effect: drl always uses')]


def test_keys_that_were_refused_before_are_honoured():
    specs, told = read("sac.yaml")
    config = specs["pendulum-sac-tf"].config
    assert (config.no_done_at_end, config.soft_horizon, config.evaluation_duration_unit) == (True, True, "timesteps")
    assert (config.evaluation_num_episodes, config.evaluation_parallel_to_training) == (400, False)
    assert specs["pendulum-sac-tf"].stop["episode_reward_mean"] == -400  # of pass_criteria
    assert 'frameworks ["tf", "tf2", "torch"] has no effect: ' in " ".join(told)
    assert read("pg.yaml")[0]["cartpole-crashing-pg"].config.ignore_worker_failures is True
    assert read("dqn.yaml")[0]["cartpole-dqn-tuned-by-old-names"].config.record_env is True


def test_keys_of_the_experiment_are_honoured():
    one = read("ppo.yaml")[0]["halfcheetah-ppo-like"]
    assert (one.checkpoint_freq, one.keep_checkpoints_num) == (10, 3)
    assert (one.checkpoint_score_attr, one.local_dir.name) == ("min-episode_reward_mean", "somewhere")


THEIRS = {
    "pace": "pendulum:\n  run: DDPG\n  env: Pendulum-v1\n  config: {sample_batch_size: 1, train_batch_size: 64}\n",
    "epsilon": "lake:\n  run: PPO\n  env: CartPole-v1\n  config: {num_workers: 1, lr: 0.001}\n",
}


def written(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(THEIRS[name], "utf-8")
    return str(path)


def test_file_that_says_the_batch_learns_at_rllibs_pace_and_says_so(tmp_path, notices):
    (one,) = spec.from_file(written(tmp_path, "pace"), {})
    assert one.config.training_intensity == 64
    assert one.origins["config.training_intensity"] == "as in RLlib"
    assert [text for text in notices if text.startswith("training_intensity 64, as in RLlib where")]
    kept = spec.from_file(written(tmp_path, "pace"), {"set": ["training_intensity=16"]})[0]
    assert kept.config.training_intensity == 16


def test_flags_that_say_the_batch_learn_at_rllibs_pace_and_bare_ones_at_ours():
    flags = {"run": "DDPG", "env": "Pendulum-v1", "stop": ["{}"]}
    assert spec.from_flags({**flags, "set": ["train_batch_size=64"]}).config.training_intensity == 64
    assert spec.from_flags(flags).config.training_intensity is None


def test_file_has_rllibs_epsilon_and_iterations_and_a_command_has_ours(tmp_path, notices):
    (one,) = spec.from_file(written(tmp_path, "epsilon"), {})
    assert (one.config.adam_epsilon, one.config.min_iter_time_s) == (1e-8, 0)
    assert (
        "As in RLlib, since the file does not say: adam_epsilon 1e-08 (a bare command: 1e-05), min_iter_time_s 0 (a bare "
        "command: 1)." in notices
    )
    bare = spec.from_flags({"run": "PPO", "env": "CartPole-v1", "set": ["num_workers=1", "lr=0.001"], "stop": ["{}"]})
    assert (bare.config.adam_epsilon, bare.config.min_iter_time_s) == (1e-5, None)


def test_trials_mean_what_a_single_run_of_the_same_words_means(tmp_path):
    from_file = search_spec.read(written(tmp_path, "epsilon"), {"set": ["num_workers=0"]}, {"seeds": "0,1"})
    assert [one.config.adam_epsilon for one in from_file.specs] == [1e-8, 1e-8]
    assert search_spec.spec_of(from_file.data, from_file.data["points"][0]).config.adam_epsilon == 1e-8
    flags = {"run": "PPO", "env": "CartPole-v1", "set": ["num_workers=0"], "stop": ["{}"]}
    of_flags = search_spec.read(None, flags, {"seeds": "0,1"})
    assert [one.config.adam_epsilon for one in of_flags.specs] == [1e-5, 1e-5]
    assert search_spec.spec_of(of_flags.data, of_flags.data["points"][0]).config.adam_epsilon == 1e-5


def test_stop_rules_of_later_versions_are_read_by_our_names(tmp_path):
    path = tmp_path / "stops.yaml"
    path.write_text(
        "pole:\n  run: PPO\n  env: CartPole-v1\n"
        "  stop: {num_env_steps_sampled: 100, sampler_results/episode_reward_mean: 150, use_pytorch: false,\n"
        "         evaluation/env_runners/episode_return_mean: 475}\n",
        "utf-8",
    )
    (one,) = spec.from_file(str(path), {})
    assert one.stop == {"timesteps_total": 100, "episode_reward_mean": 150, "evaluation/episode_reward_mean": 475}


def test_result_field_under_two_names_is_refused(tmp_path):
    path = tmp_path / "stops.yaml"
    path.write_text(
        "pole:\n  run: PPO\n  env: CartPole-v1\n  stop: {num_env_steps_sampled: 100, timesteps_total: 200}\n", "utf-8"
    )
    with pytest.raises(ConfigError, match="num_env_steps_sampled .* is another name of timesteps_total"):
        spec.from_file(str(path), {})
