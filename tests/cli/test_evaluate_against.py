"""``drl evaluate RUN --against OPPONENT``: the games that are counted, and one line for who cannot be played against."""

import json

import pytest
from agents_checkpoint import write_pair

from drl_cli import cli

SHARED = {"0": "main", "1": "main"}


@pytest.fixture
def run(tmp_path):
    """A run folder with one policy for both agents."""
    write_pair(tmp_path / "run", policy_of=SHARED)
    return tmp_path / "run"


def typed(capsys, *words, code=0):
    assert cli.main(["evaluate", *map(str, words)]) == code
    return capsys.readouterr()


def refused(capsys, *words):
    """The error of a command that is refused: one line, without a traceback."""
    out, err = typed(capsys, *words, code=2)
    lines = [line for line in err.splitlines() if line.strip()]
    assert out == "" and "Traceback" not in err
    return " ".join(" ".join(lines).split())


def test_games_against_an_older_checkpoint_are_counted_with_sides_exchanged(run, capsys):
    older = write_pair(run, number=5, policy_of=SHARED)
    write_pair(run, number=10, policy_of=SHARED)
    words = ("--against", older, "--episodes", 6, "--config", "{horizon: 5}", "--json")
    (match,) = json.loads(typed(capsys, run, *words).out)["matches"]
    # Every copy of CartPole lasts for the five steps.
    assert (match["games"], match["drawn"], match["against"]) == (6, 6, str(older))


def test_opponent_that_is_neither_a_name_nor_a_run_lists_the_names(run, capsys):
    text = refused(capsys, run, "--against", "minmax")
    assert "'minmax' is neither an opponent by name (" in text and "tic-tac-toe-minimax" in text


def test_opponent_by_name_of_another_game_is_refused(run, capsys):
    text = refused(capsys, run, "--against", "tic-tac-toe-minimax")
    assert (
        "--against: the opponent tic-tac-toe-minimax plays its game alone" in text and "random plays any game." in text
    )


def test_opponent_trained_in_another_environment_is_refused(run, capsys, tmp_path):
    other = write_pair(tmp_path / "other", policy_of=SHARED, env="CartPole-v0", env_asked="CartPole-v0")
    text = refused(capsys, run, "--against", other)
    assert f"--against: {other} was trained in CartPole-v0, " in text and "Name a run of CartPole-v1." in text


def test_opponent_with_several_policies_is_refused_by_their_names(run, capsys, tmp_path):
    other = write_pair(tmp_path / "other", policy_of={"0": "a", "1": "b"})
    assert "has the policies a, b; games are between runs with one policy each." in refused(
        capsys, run, "--against", other
    )


def test_run_of_one_agent_has_nobody_to_play_against(pendulum_run, capsys):
    text = refused(capsys, pendulum_run, "--against", "random")
    assert "Pendulum-v1 has one agent, so there is no opponent to play." in text
