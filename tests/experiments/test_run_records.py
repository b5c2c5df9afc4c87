"""params.json and versions.json: everything resolved, secrets hidden."""

from experiment_fakes import Config, Spec

from drl_cli import __version__
from drl_cli.config.secrets import redact_command
from drl_cli.experiments import run_records


def test_params_hide_secrets_by_key_name(tmp_path):
    config = Config(env_config={"api_key": "abc", "inner": [{"my_password": "def", "size": 3}], "Token": {"a": 1}})
    data = run_records.params(Spec(tmp_path, config=config))
    assert data["config"]["env_config"] == {
        "api_key": "***",
        "inner": [{"my_password": "***", "size": 3}],
        "Token": "***",
    }
    assert (data["run"], data["env"], data["env_asked"], data["seed"]) == ("SAC", "Pendulum-v1", "Pendulum-v0", 7)
    assert data["stop"] == {"training_iteration": 3} and data["config"]["gamma"] == 0.99


def test_command_line_hides_secrets_in_every_spelling():
    words = [
        "drl",
        "--config",
        '{"env_config": {"token": "abc", "n": 1}}',
        "-s",
        "env_config.api_key=def",
        "--secret",
        "g",
    ]
    hidden = redact_command(words)
    assert hidden == [
        "drl",
        "--config",
        '{"env_config": {"token": ***, "n": 1}}',
        "-s",
        "env_config.api_key=***",
        "--secret",
        "***",
    ]
    assert redact_command(["--passwd=x", "--seed", "1"]) == ["--passwd=***", "--seed", "1"]


def test_versions_name_python_packages_git_and_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = run_records.versions(Spec(tmp_path))
    assert data["drl"] == __version__ and data["packages"]["numpy"].count(".") >= 2
    assert (data["git"], data["command"], data["seed"]) == (None, ["drl", "train"], 7)


def test_versions_outside_of_git_and_without_git_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert run_records.versions(Spec(tmp_path))["git"] is None
