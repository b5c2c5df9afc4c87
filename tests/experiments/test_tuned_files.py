"""The tuned files as their headers tell them."""

from pathlib import Path

import pytest

from drl_cli.config.strict_yaml import load_yaml_text
from drl_cli.errors import InputError
from drl_cli.experiments import tuned_files

TEXT = """# SAC swings it up. Two
# lines.
#
# What was found on the way: median 1.0 s of something else.
#
# goal     -200 and held: a greedy evaluation at it
# seeds    0 to 4
# took     median 13.7 s, worst 1,015.2 s from the start, 7,000 env steps; held 5 of 5
#          with num_workers 0: median 7.0 s; held 2 of 5
#          seeds 5 to 9: median 9.0 s; held 4 of 5 (beside another run)
# machine  2 cores
pendulum-sac:
  run: SAC
  env: Pendulum-v1  # here
  config:
    num_workers: 3
"""


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "pendulum-sac.yaml"
    path.write_text(TEXT)
    return tuned_files.read(path)


def test_header_is_read(written):
    assert (written.name, written.run, written.env, written.workers) == ("pendulum-sac", "SAC", "Pendulum-v1", 3)
    assert written.about == "SAC swings it up. Two lines."
    assert (written.target, written.median_s, written.worst_s, written.env_steps) == (-200.0, 13.7, 1015.2, 7000)
    assert written.notes == ["What was found on the way: median 1.0 s of something else."]
    assert written.took[1] == "with num_workers 0: median 7.0 s; held 2 of 5"


def test_held_counts_the_further_seeds_too_but_no_other_settings(written):
    assert written.held == (9, 10)


@pytest.mark.parametrize(
    ("goal", "target", "held_at"),
    [
        ("475: a greedy evaluation at it", 475.0, 475.0),
        ("495, to hold 475: a greedy evaluation at it", 495.0, 475.0),
        ("-160: a greedy evaluation at it; what touches -160 holds -200", -160.0, -200.0),
    ],
)
def test_what_a_goal_with_a_margin_holds_is_read_beside_it(tmp_path, goal, target, held_at):
    path = tmp_path / "a-b.yaml"
    path.write_text(f"# A.\n#\n# goal     {goal}\n# seeds    0\n# took     none\n# machine  x\na-b:\n  run: B\n")
    one = tuned_files.read(path)
    assert (one.target, one.held_at) == (target, held_at)


def test_what_was_not_measured_is_none(tmp_path):
    path = tmp_path / "a-b.yaml"
    path.write_text(
        "# A.\n#\n# goal     5\n# seeds    none yet\n# took     not measured yet\n# machine  x\na-b:\n  run: B\n"
    )
    one = tuned_files.read(path)
    assert (one.median_s, one.worst_s, one.env_steps, one.workers, one.env) == (None, None, None, None, "")
    assert one.held is None


@pytest.mark.parametrize("name", [one.name for one in tuned_files.every()])
def test_every_shipped_file_tells_goal_run_and_env(name):
    one = tuned_files.find(name)
    assert one.run and one.env and one.about and one.target is not None
    assert (one.median_s is None) == ("median" not in one.took[0])
    body, _ = load_yaml_text(Path(one.path).read_text("utf-8"), one.path)
    assert one.target == body[name]["stop"].get("evaluation/episode_reward_mean", one.target)


def test_environment_is_found_whatever_its_version_and_not_by_a_part_where_there_is_the_whole():
    found = tuned_files.matching(tuned_files.every(), env="CartPole-v0")
    assert {one.env for one in found} == {"CartPole-v1"}
    assert {one.env for one in tuned_files.matching(tuned_files.every(), env="lunar")} == {
        "LunarLander-v3",
        "LunarLanderContinuous-v3",
    }


def test_words_must_all_be_there():
    names = [one.name for one in tuned_files.matching(tuned_files.every(), words=["lunar", "sac"])]
    assert names == ["lunarlander-continuous-sac"]


def test_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'cartpole-ppo'"):
        tuned_files.find("cartpole-pppo")
