"""Files to learn from are looked at before anything heavy is loaded."""

import shlex
import subprocess
import sys

import pytest
from experience_files import random_set

from drl_cli.errors import ConfigError, ExperienceError
from drl_cli.experiments import spec

CART = {"env": "CartPole-v1", "stop": ["timesteps_total=1000"]}


def refused(kind, run, *settings, **more):
    with pytest.raises(kind) as caught:
        spec.from_flags(CART | {"run": run, "set": list(settings)} | more)
    return str(caught.value)


@pytest.mark.parametrize("run", ["MARWIL", "BC"])
def test_algorithm_that_only_learns_from_files_wants_some(run):
    assert refused(ConfigError, run) == (
        f"{run} learns from recorded experience, and input is sampler (the command). Give it files: --config "
        '\'{"input": "PATH"}\'; record them with output in another run.'
    )


def test_path_that_does_not_exist_and_folder_without_files_are_refused(tmp_path):
    assert f"input: {tmp_path}/none: No such file" in refused(ExperienceError, "BC", f"input={tmp_path}/none")
    assert "holds no *.json or *.jsonl file of experience" in refused(
        ExperienceError, "SAC", f"input={tmp_path}", env="Pendulum-v1"
    )
    assert "no file matches" in refused(ExperienceError, "DQN", f"input={tmp_path}/*.json")


def test_every_stream_of_a_mix_is_looked_at(tmp_path):
    good = random_set(tmp_path / "a.json", "CartPole-v1")
    config = f'{{"input": {{"sampler": 0.5, "{good}": 0.25, "{tmp_path}/b.json": 0.25}}}}'
    assert "b.json: No such file" in refused(ExperienceError, "DQN", config=config)


def test_files_of_another_environment_are_refused(tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    assert "a.json:1: obs: rows of shape (3,); the environment's observations are (4,)" in refused(
        ExperienceError, "BC", f"input={path}"
    )


def test_rule_on_episodes_that_nobody_plays_is_refused(tmp_path):
    path = random_set(tmp_path / "a.json", "CartPole-v1")
    assert refused(ConfigError, "BC", f"input={path}", stop=["episode_reward_mean=150"]) == (
        "stop: episode_reward_mean is never reported: the steps come from files, and no training episodes are played (--stop). "
        "Write evaluation/episode_reward_mean."
    )
    made = spec.from_flags(CART | {"run": "DQN", "config": f'{{"input": {{"sampler": 0.5, "{path}": 0.5}}}}',
                                   "stop": ["episode_reward_mean=150"]})  # fmt: skip
    assert made.stop == {"episode_reward_mean": 150}


def test_paths_are_kept_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random_set(tmp_path / "a.json", "CartPole-v1")
    made = spec.from_flags(CART | {"run": "BC", "set": ["input=a.json"]})
    assert made.config.input == f"{tmp_path}/a.json"


def test_recipe_of_rllib_is_understood(tmp_path):
    path = random_set(tmp_path / "a.json", "CartPole-v1")
    text = f"""
cartpole-marwil:
    env: CartPole-v0
    run: MARWIL
    stop:
        timesteps_total: 500000
    config:
        evaluation_num_workers: 0
        evaluation_interval: 1
        evaluation_config:
            input: sampler
        beta: 1.0
        input: {path}
"""
    (tmp_path / "my.yaml").write_text(text)
    (made,) = spec.from_file(str(tmp_path / "my.yaml"), {})
    assert (made.run, made.config.input, made.config.beta) == ("MARWIL", path, 1.0)


def test_refusal_loads_neither_tensorflow_nor_ray(tmp_path):
    code = (
        "import sys\nfrom drl_cli.experiments import spec\n"
        f"try:\n    spec.from_flags({{'run': 'BC', 'env': 'CartPole-v1', 'set': ['input={tmp_path}/x']}})\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
        "print(sorted({'tensorflow', 'ray'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["ExperienceError", "[]"]


@pytest.mark.parametrize("name", ["pendulum-cql", "pendulum-iql", "pendulum-marwil", "cartpole-marwil", "cartpole-bc"])
def test_tuned_file_whose_input_is_missing_names_the_command_that_records_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperienceError, match="No such file") as caught:
        spec.from_file(name, {})
    command = shlex.split(str(caught.value).partition("To record what this file reads: ")[2])
    assert command[:2] == ["drl", "train"] and any(word.startswith("output=recorded/") for word in command)
    assert command[-2] == "--stop" and "timesteps_total" in command[-1]


def test_file_without_such_a_command_only_says_what_is_missing(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("mine: {run: BC, env: CartPole-v1, config: {input: nowhere}}")
    with pytest.raises(ExperienceError) as caught:
        spec.from_file(str(path), {})
    assert "To record" not in str(caught.value)
