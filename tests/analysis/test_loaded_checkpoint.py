import pytest

from drl_cli.analysis.loaded_checkpoint import essence, open_subject
from drl_cli.errors import CheckpointError, ConfigError, EnvError


def test_run_folder_opens_its_best_checkpoint(pendulum_run):
    subject = open_subject(pendulum_run)
    assert (subject.path.name, subject.iteration, subject.env, subject.horizon) == (
        "checkpoint_000010",
        10,
        "Pendulum-v1",
        None,
    )
    assert (subject.notice, subject.frames_per_second) == (None, 30.0)
    assert subject.render_modes == ("human", "rgb_array")


def test_latest_opens_the_newest(pendulum_run):
    assert open_subject(pendulum_run, latest=True).iteration == 20


def test_overrides_are_laid_over_what_was_stored(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path, 1, env_config={"g": 9.0}, horizon=50)
    assert open_subject(path).env_config == {"g": 9.0}
    changed = open_subject(path, overrides={"env_config": {"g": 5.0}, "horizon": None})
    assert (changed.env_config, changed.horizon) == ({"g": 5.0}, None)


def test_a_policy_is_scored_in_the_environment_of_its_runs_evaluations(tmp_path, write_checkpoint):
    own = {"evaluation_config": {"env_config": {"g": 7.0}, "horizon": 20, "explore": False}}
    subject = open_subject(write_checkpoint(tmp_path, 1, env_config={"g": 9.0}, horizon=50, config=own))
    assert (subject.env_config, subject.horizon) == ({"g": 7.0}, 20)
    typed = open_subject(subject.path, overrides={"env_config": {"g": 5.0}, "horizon": 30})
    assert (typed.env_config, typed.horizon) == ({"g": 5.0}, 30)


def test_unknown_override_names_the_nearest(pendulum_run):
    with pytest.raises(
        ConfigError, match=r"--config: 'horizn' cannot be set here. Did you mean 'horizon'\? Keys: env_config, horizon."
    ):
        open_subject(pendulum_run, overrides={"horizn": 3})


def test_key_of_a_config_that_has_no_part_in_playing_is_said_and_left_out(pendulum_run):
    given = {"num_workers": 0, "framework": "torch", "evaluation_config": {"horizon": 7}, "explore": False}
    subject = open_subject(pendulum_run, overrides=given)
    assert subject.horizon == 7
    assert subject.notice == (
        "--config: num_workers, framework, explore have no part in playing a checkpoint: one process "
        "plays its policy, in NumPy."
    )


@pytest.mark.parametrize(
    ("given", "option"), [({"explore": True}, "--explore"), ({"monitor": True}, "--video-dir DIR")]
)
def test_key_of_a_config_that_is_an_option_names_it(pendulum_run, given, option):
    with pytest.raises(ConfigError, match=f"type {option}"):
        open_subject(pendulum_run, overrides=given)


@pytest.mark.parametrize("overrides", [{"horizon": 0}, {"horizon": True}, {"horizon": 1.5}, {"env_config": [1]}])
def test_override_of_the_wrong_type_is_refused(pendulum_run, overrides):
    with pytest.raises(ConfigError, match="--config"):
        open_subject(pendulum_run, overrides=overrides)


def test_environment_with_other_spaces_is_refused(pendulum_run):
    with pytest.raises(
        CheckpointError, match=r"trained on Pendulum-v1, obs of shape \[3\]; MountainCarContinuous-v0 has shape \[2\]"
    ):
        open_subject(pendulum_run, env="MountainCarContinuous-v0")


PLAN = {"frames": 1, "dim": None, "grayscale": False, "atari": None, "scale_bytes": False, "fresh_after": 0}


def test_preprocessing_of_the_manifest_is_what_plays(tmp_path, write_checkpoint):
    subject = open_subject(write_checkpoint(tmp_path, 1, preprocessing=PLAN))
    assert (subject.preprocessing, subject.frames) == (PLAN, 1)
    assert open_subject(write_checkpoint(tmp_path, 2)).preprocessing is None
    env = subject.make_env()
    assert env.reset(seed=0)[0].shape == (3,)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (
            PLAN | {"frames": 4},
            "checkpoint_000001: its policy acts on 1 observations at a time, its preprocessing stacks 4",
        ),
        (PLAN | {"frames": "many"}, "checkpoint_000001: The preprocessing in the manifest cannot be read"),
        (PLAN | {"dim": 84}, "Pendulum-v1: model.dim, grayscale and framestack are for images"),
    ],
)
def test_preprocessing_that_does_not_fit_is_refused(tmp_path, write_checkpoint, plan, text):
    with pytest.raises((CheckpointError, EnvError), match=text):
        open_subject(write_checkpoint(tmp_path, 1, preprocessing=plan))


@pytest.mark.parametrize(
    ("name", "space", "words"),
    [
        ("obs", {"kind": "Box", "shape": [84, 84, 1], "dtype": "uint8"}, "shape [84, 84, 1] of bytes"),
        ("obs", {"kind": "Box", "shape": [84, 84, 1], "dtype": "float32"}, "shape [84, 84, 1]"),
        ("obs", {"kind": "Box", "shape": [3], "dtype": "float64"}, "shape [3]"),
        ("action", {"kind": "Discrete", "n": 4, "start": 3, "shape": [], "dtype": "int64"}, "4 numbers from 3"),
    ],
)
def test_spaces_are_compared_by_what_a_policy_depends_on(name, space, words):
    assert essence(name, space) == words


def test_unknown_environment_is_refused(pendulum_run):
    with pytest.raises(EnvError, match="Pendulum-v1"):
        open_subject(pendulum_run, env="Pendulumm-v1")


def test_retired_id_gives_a_notice(pendulum_run):
    subject = open_subject(pendulum_run, env="Pendulum-v0")
    assert (subject.env, subject.notice) == ("Pendulum-v1", "Pendulum-v0 is retired and runs as Pendulum-v1.")


def test_module_stored_in_a_checkpoint_is_refused_with_the_command_that_allows_it(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path, 1, env="antigravity:Pendulum-v1")
    with pytest.raises(EnvError) as refused:
        open_subject(path, command="drl evaluate")
    assert str(refused.value) == (
        f"{path}: its environment antigravity:Pendulum-v1 would import a module. "
        f"If you trust it, run: drl evaluate {path} --env antigravity:Pendulum-v1"
    )


def test_module_typed_by_the_user_is_imported(pendulum_run):
    assert open_subject(pendulum_run, env="gymnasium:Pendulum-v1").env == "gymnasium:Pendulum-v1"


def test_missing_checkpoint_is_refused(tmp_path):
    with pytest.raises(CheckpointError):
        open_subject(tmp_path / "nowhere")
