"""``drl rollout`` and ``drl evaluate`` of checkpoints with several policies."""

import json

import imageio_ffmpeg
import pytest
from agents_checkpoint import OBS, SPACES, agents_setup, write_pair

from drl_cli import cli
from drl_cli.envs.video import Video
from drl_cli.errors import ResourcesExhausted


def typed(capsys, command, *words, code=0):
    """Run ``drl`` in this process; return (stdout lines, stderr in one line)."""
    assert cli.main([command, *map(str, words)]) == code
    out, err = capsys.readouterr()
    return out.splitlines(), " ".join(err.split())


@pytest.fixture
def run(tmp_path):
    """A run folder: policy a acts for agent 0, b for 1 and 2."""
    write_pair(tmp_path / "run", policy_of={"0": "a", "1": "b", "2": "b"})
    return tmp_path / "run"


def test_rollout_says_what_each_agent_and_policy_got(run, capsys):
    lines, _ = typed(capsys, "rollout", run, "--episodes", 2, "--seed", 3, "--config", "{horizon: 5}")
    assert lines[:3] == ["Episode #0: reward: 15.0", "  a: 0 5.0", "  b: 5.0, the mean of 1 5.0, 2 5.0"]
    assert lines[6].startswith("2 episodes: reward 15.0 ") and lines[7].startswith("  a: reward 5.0 ")


def test_rollout_as_json_names_agents_and_their_policies(run, capsys):
    lines, _ = typed(capsys, "rollout", run, "--episodes", 2, "--seed", 3, "--json")
    first, second, last = map(json.loads, lines)
    assert first["policies"] == {"0": "a", "1": "b", "2": "b"}
    assert first["reward"] == sum(first["agents"].values()) and first["length"] == max(first["agents"].values())
    rewards = [one["policy_reward_mean"]["b"] for one in (first, second)]
    assert rewards[0] == (first["agents"]["1"] + first["agents"]["2"]) / 2
    assert last["summary"]["policies"]["b"]["mean"] == sum(rewards) / 2


def test_same_seed_gives_the_same_rewards_and_exploring_others(run, capsys):
    words = (run, "--episodes", 3, "--seed", 3)
    first, again, explored = (typed(capsys, "rollout", *words, *more)[0] for more in ([], [], ["--explore"]))
    assert first == again != explored


def test_rollout_keeps_the_steps_of_every_agent(run, capsys, tmp_path):
    out = tmp_path / "steps.jsonl"
    typed(capsys, "rollout", run, "--episodes", 1, "--seed", 3, "--out", out, "--save-info")
    kept = json.loads(out.read_text())
    assert kept["format"] == "drl-agents-episodes-1" and list(kept["agents"]) == ["0", "1", "2"]
    lengths = set()
    for agent, own in kept["agents"].items():
        steps = len(own["action"])
        lengths.add(steps)
        assert len(own["obs"]) == steps + 1 and own["reward"] == [1.0] * steps and len(own["info"]) == steps
        assert own["terminated"] == [False] * (steps - 1) + [True] and not any(own["truncated"])
        assert own["policy"] == {"0": "a"}.get(agent, "b")
    assert len(lengths) > 1, "agents that all end together show nothing"
    _, err = typed(capsys, "rollout", run, "--out", tmp_path / "batches.json", code=2)
    assert "RLlib's sample batches hold one agent" in err


def test_rollout_films_all_agents(run, capsys, tmp_path):
    folder = tmp_path / "films"
    typed(capsys, "rollout", run, "--episodes", 1, "--seed", 3, "--video-dir", folder, "--config", "{horizon: 3}")
    (film,) = folder.iterdir()
    reader = imageio_ffmpeg.read_frames(str(film))
    assert next(reader)["size"] == (1200, 800)  # three pictures of 600 by 400, two in a row
    assert sum(1 for _ in reader) == 4


def test_disk_that_is_full_while_agents_are_filmed_is_not_called_an_environment_that_cannot_be_drawn(
    run, capsys, tmp_path, monkeypatch
):
    def add(film, frame):
        raise ResourcesExhausted(f"{film.path}: no space left.")

    monkeypatch.setattr(Video, "add", add)
    _, err = typed(capsys, "rollout", run, "--episodes", 1, "--seed", 3, "--video-dir", tmp_path / "films", code=5)
    assert "no space left." in err and "cannot be drawn" not in err


def test_evaluate_scores_each_policy_and_the_sum(run, capsys):
    (line,), _ = typed(capsys, "evaluate", run, "--episodes", 6, "--json")
    score = json.loads(line)["checkpoints"][0]["greedy"]
    a, b = score["policies"]["a"], score["policies"]["b"]
    assert score["mean"] == pytest.approx(a["mean"] + 2 * b["mean"])
    assert a["episodes"] == 6 and a["iqm_low"] <= a["iqm"] <= a["iqm_high"]
    lines, _ = typed(capsys, "evaluate", run, "--episodes", 6)
    rows = [line.split()[0] for line in lines if line.strip()]
    assert rows[-2:] == ["a", "b"]


def test_evaluate_asserts_the_score_of_a_policy(run, capsys):
    typed(capsys, "evaluate", run, "--episodes", 2, "-q", "--assert", "policies/a/mean>=1")
    _, err = typed(capsys, "evaluate", run, "--episodes", 2, "-q", "--assert", "policies/a/mean>=501", code=4)
    assert "policies/a/mean is" in err and "required >= 501" in err
    _, err = typed(capsys, "evaluate", run, "--assert", "policies/a/maen>=1", code=2)
    assert "is not a score" in err
    _, err = typed(capsys, "evaluate", run, "--assert", "policy_reward_mean/a>=1", code=2)
    assert "is not a score. There are: mean, " in err and "and policies/ID/mean … of one policy." in err


def test_assertion_about_a_policy_that_is_not_there_is_refused_before_anything_is_played(run, pendulum_run, capsys):
    out, err = typed(capsys, "evaluate", run, "--assert", "policies/aa/mean>=1", code=2)
    assert out == [] and "has no policy 'aa'. Did you mean 'a'? They are a, b." in err and "Scoring" not in err
    _, err = typed(capsys, "evaluate", pendulum_run, "--assert", "policies/a/mean>=1", code=2)
    assert "was trained with one agent. Name mean." in err and "Scoring" not in err


def test_agents_or_spaces_that_differ_from_the_trained_ones_are_refused(tmp_path, capsys):
    agents = agents_setup({"0": "a", "1": "b"})
    wide = {"obs": {**OBS, "shape": [5]}, "action": SPACES["action"]}
    write_pair(tmp_path / "wide", agents={**agents, "spaces": {"0": SPACES, "1": wide}})
    _, err = typed(capsys, "rollout", tmp_path / "wide", code=2)
    assert "was trained on CartPole-v1, obs of agent 1 of shape [5]; CartPole-v1 has shape [4]" in err
    write_pair(tmp_path / "more", agents={**agents, "count": 3})
    _, err = typed(capsys, "rollout", tmp_path / "more", code=2)
    assert "was trained with the agents 0, 1; those of CartPole-v1 are 0, 1, 2" in err


def test_environment_without_such_pictures_is_refused(tmp_path, capsys):
    write_pair(
        tmp_path, agents={**agents_setup({"0": "a", "1": "b"}), "kind": "dictionary"}, env="drl/CrashingCartPoles-v1"
    )
    _, err = typed(capsys, "rollout", tmp_path, "--env", "CartPole-v1", code=2)
    assert "its policies act for several agents, and CartPole-v1 has one" in err
