"""Runs that recorded episodes are to judge: refused before TensorFlow where they cannot."""

import pytest
from recorded_files import write_uniform

from drl_cli.errors import ConfigError, ExperienceError
from drl_cli.experiments import spec


def _flags(run, path, **keys):
    return {"run": run, "env": "Pendulum-v1", "config": f'<"input": "{path}", "input_evaluation": ["wis"]>', **keys}


def test_files_with_probabilities_and_a_policy_that_draws_are_taken(tmp_path):
    one = spec.from_flags(_flags("SAC", write_uniform(tmp_path / "a.json")))
    assert one.config.input_evaluation == ("wis",)


def test_policy_that_names_its_actions_is_refused(tmp_path):
    with pytest.raises(
        ConfigError, match="^input_evaluation: wis is not for TD3 here: its policy is deterministic over a Box"
    ):
        spec.from_flags(_flags("TD3", write_uniform(tmp_path / "a.json")))


def test_files_without_probabilities_are_refused_with_their_line(tmp_path):
    with pytest.raises(ExperienceError, match=r"bare.json:1: the probabilities of its actions are not recorded"):
        spec.from_flags(_flags("SAC", write_uniform(tmp_path / "bare.json", scored=False)))


def test_files_whose_first_episodes_have_no_probabilities_are_taken(tmp_path):
    bare, scored = (write_uniform(tmp_path / f"{i}.json", episodes=5, seed=i, scored=bool(i)) for i in (0, 1))
    both = tmp_path / "both.json"
    both.write_bytes(open(bare, "rb").read() + open(scored, "rb").read())  # noqa: SIM115
    assert spec.from_flags(_flags("SAC", both)).config.input_evaluation == ("wis",)
