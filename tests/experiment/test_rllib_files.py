"""Files in RLlib's schema, written from its documented keys: they are read unchanged, old names and ids included."""

from pathlib import Path

import pytest

from drl_cli import events
from drl_cli.experiment import files, spec

FOLDER = Path(__file__).parent / "rllib_files"


def read(name):
    """Return ({experiment: spec}, texts of the notices)."""
    told = []
    unsubscribe = events.subscribe(lambda kind, fields: told.append(fields["text"]) if kind == "notice" else None)
    try:
        return {one.name: one for one in spec.from_file(str(FOLDER / name), {})}, told
    finally:
        unsubscribe()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_experiment_of_a_file_is_read_with_its_values(path):
    specs, _ = read(path.name)
    experiments = files.load(path)
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
    assert [text for text in told if text.startswith('framework "torch" changes nothing: drl is graphs only')]


def test_keys_that_were_refused_before_are_honoured():
    specs, told = read("sac.yaml")
    config = specs["pendulum-sac-tf"].config
    assert (config.no_done_at_end, config.soft_horizon, config.evaluation_duration_unit) == (True, True, "timesteps")
    assert (config.evaluation_num_episodes, config.evaluation_parallel_to_training) == (400, False)
    assert specs["pendulum-sac-tf"].stop["episode_reward_mean"] == -400  # of pass_criteria
    assert 'frameworks ["tf", "tf2", "torch"] changes nothing: ' in " ".join(told)
    assert read("pg.yaml")[0]["cartpole-crashing-pg"].config.ignore_worker_failures is True
    assert read("dqn.yaml")[0]["cartpole-dqn-tuned-by-old-names"].config.record_env is True


def test_keys_of_the_experiment_are_honoured():
    one = read("ppo.yaml")[0]["halfcheetah-ppo-like"]
    assert (one.checkpoint_freq, one.keep_checkpoints_num) == (10, 3)
    assert (one.checkpoint_score_attr, one.local_dir.name) == ("min-episode_reward_mean", "somewhere")
