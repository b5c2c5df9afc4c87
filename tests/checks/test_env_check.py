"""What ``checks.env_check`` finds in environments with one flaw each, in processes of their own."""

import functools
import os
from pathlib import Path

import flawed_envs  # noqa: F401 - registers them here
import pytest

from drl_cli.checks import env_check

pytestmark = pytest.mark.process

HERE = str(Path(__file__).parent)
QUESTION = {"env_config": {}, "imports": ["flawed_envs"], "seed": 0, "episodes": 8, "seconds": 5.0}


@pytest.fixture(autouse=True)
def _found_by_other_processes(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(Path(HERE).parents[1])]))


def findings(name, **over):
    report = env_check.check(f"{name}-v0", {**QUESTION, **over})
    return {one.what: (one.state, one.text) for one in report["findings"]}, report


@functools.cache
def found_quickly(name):
    """The findings of a short check, which several cases look at."""
    return findings(name, seconds=0.5)[0]


def test_sound_environment_has_nothing_to_look_at():
    found, report = findings("Sound")
    assert {state for state, _ in found.values()} == {"ok"}
    assert set(found) == {
        "interface", "algorithms", "same seed", "other seeds", "used again", "another process", "numbers", "spaces",
        "ends", "speed",
    }  # fmt: skip
    played = report["random_policy"]
    assert len(played["rewards"]) == 8 and all(40 <= length < 60 for length in played["lengths"])
    assert played["steps_per_s"] > 100 and "DQN" in report["fits"] and "TD3" not in report["fits"]


@pytest.mark.parametrize(
    ("name", "what", "state", "text"),
    [
        ("Unseeded", "same seed", "fail", "differ in the first observation: reset must seed"),
        ("Hashing", "another process", "fail", "differs in the first observation"),
        (
            "Remembering",
            "used again",
            "note",
            "a used one differs from a new one in the first observation (Remembering.before)",
        ),
        ("Remembering", "used again", "note", "With fresh_envs: true it does, at "),
        (
            "KeepsCount",
            "used again",
            "note",
            "keeps KeepsCount.before, as counters and curricula do; a resumed run starts them",
        ),
        ("Sound", "used again", "ok", "clears all earlier state: a resumed run continues bit for bit"),
        ("Heavy", "speed", "note", "s to make one: as long as "),
        (
            "Heavy",
            "speed",
            "note",
            "A run makes one for each of its environments and uses it again; with fresh_envs: true",
        ),
        ("Outside", "spaces", "warn", "the first at step 2: element 1 is 2, its bounds are [-1, 1]"),
        ("NotFinite", "numbers", "fail", "the reward of step 7 is nan"),
        ("Timed", "truncation", "warn", "all 8 episodes terminated after exactly 50 steps"),
        ("Endless", "ends", "warn", "there is no time limit: set horizon"),
    ],
)
def test_flaw_is_found(name, what, state, text):
    found = found_quickly(name)
    assert found[what][0] == state and text in found[what][1]


def test_environment_that_kills_its_process_is_a_finding():
    found, report = findings("Dying")
    assert found["process"][0] == "fail" and "the process ended, killed by SIGKILL" in found["process"][1]
    assert report["random_policy"] is None


def test_environment_that_hangs_is_a_finding(monkeypatch):
    def made(stage):  # until then a busy machine may take long
        assert stage == "making it"
        monkeypatch.setattr(env_check, "SILENCE_S", 0.5)

    report = env_check.check("Hanging-v0", {**QUESTION, "seconds": 0.0}, made)
    assert [(one.what, one.text) for one in report["findings"]] == [("process", "making it: nothing happened for 0 s")]
