"""Estimates for checkpoints from recorded files: against the policy's own episodes, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from drl_cli.analysis import play, rollout_files
from drl_cli.analysis.checkpoint_estimates import Candidate, EstimateOptions, doubts, estimate_options
from drl_cli.analysis.loaded_checkpoint import open_policy, open_subject
from drl_cli.checkpoints import load
from drl_cli.errors import CheckpointError, ConfigError, ExperienceError, InputError
from drl_cli.policies.numpy_policy import policy_from_checkpoint

CONFIG = {"gamma": 0.5}


@pytest.fixture
def recorded(tmp_path, write_checkpoint):
    """(A checkpoint, a file with 12 episodes of 5 steps that its policy drew, their rewards)."""
    path = write_checkpoint(tmp_path, 1, config=CONFIG)
    subject = open_subject(path)
    player = play.Player(subject.policy, subject.make_env, explore=True, keep=play.CHOICES)
    file = rollout_files.BatchFile(str(tmp_path / "experience.json"))
    episodes = list(player.play(play.Limits(episodes=12, horizon=5), seed=0))
    for episode in episodes:
        file.add(episode)
    file.close()
    return path, str(tmp_path / "experience.json"), [episode.rewards for episode in episodes]


def test_policy_s_own_episodes_give_its_own_mean(recorded):
    path, file, rewards = recorded
    found, notes = Candidate(path, EstimateOptions((file,))).estimate()
    mean = np.mean([sum(r * 0.5**t for t, r in enumerate(each)) for each in rewards])
    assert (found["gamma"], found["policy"], found["files"], found["incomplete"], notes) == (
        0.5,
        "stochastic",
        1,
        0,
        [],
    )
    assert found["effective_sample_size"] == pytest.approx(12.0, rel=1e-3)
    for kind in ("is", "wis"):
        for by in ("per_step", "per_episode"):
            assert found[kind][by]["mean"] == pytest.approx(mean, rel=1e-3)
    assert doubts(found) == [doubts(found)[0]] and "as much as 12.0 of this policy's own" in doubts(found)[0]


def test_discount_may_be_another_one(recorded):
    path, file, rewards = recorded
    found, _ = Candidate(path, EstimateOptions((file,), gamma=1.0)).estimate()
    assert found["behaviour"]["mean"] == pytest.approx(np.mean([sum(each) for each in rewards]), rel=1e-5)


def test_another_policy_is_weighed_by_its_ratios(recorded, write_checkpoint):
    path, file, _ = recorded
    other = write_checkpoint(path.parent, 2, config=CONFIG)
    found, _ = Candidate(other, EstimateOptions((file,))).estimate()
    policies = [policy_from_checkpoint(load(each)) for each in (path, other)]
    ratios, returns = [], []
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        batch = json.loads(line)
        obs, action = np.float32(batch["obs"]), np.float32(batch["actions"])
        one, two = (policy.logp(policy.heads(obs), action) for policy in policies)
        np.testing.assert_allclose(one, batch["action_logp"], atol=1e-3)
        ratios.append(np.exp((two - one).sum()))
        returns.append(sum(r * 0.5**t for t, r in enumerate(batch["rewards"])))
    assert found["wis"]["per_episode"]["mean"] == pytest.approx(np.average(returns, weights=ratios), rel=1e-3)
    assert found["is"]["per_episode"]["mean"] == pytest.approx(np.mean(np.multiply(ratios, returns)), rel=1e-3)


def test_policy_that_names_its_actions_is_refused(tmp_path, write_checkpoint):
    facts = load(write_checkpoint(tmp_path, 1)).facts["policies"]["default_policy"]
    net = {**facts["nets"][0], "heads": [["mean", 1]]}
    named = {**facts, "nets": [net], "distribution": "deterministic"}
    path = write_checkpoint(tmp_path, 2, policies={"default_policy": named})
    with pytest.raises(InputError, match="its policy is deterministic over a Box.+Score it in its environment instead"):
        Candidate(path, EstimateOptions(("x.json",)))


def test_share_of_random_actions_is_refused_for_a_policy_that_draws(recorded):
    with pytest.raises(InputError, match="--epsilon is for policies that value each of a few actions"):
        Candidate(recorded[0], EstimateOptions((recorded[1],), epsilon=0.1))


@pytest.mark.parametrize("config", [None, {}, {"gamma": "much"}, {"gamma": 2.0}, {"gamma": True}])
def test_checkpoint_without_a_discount_asks_for_one(tmp_path, write_checkpoint, config):
    path = write_checkpoint(tmp_path, 1, config=config)
    with pytest.raises(CheckpointError, match=r"its discount gamma cannot be read. Say it: --gamma 0.99"):
        Candidate(path, EstimateOptions(("x.json",)))
    assert Candidate(path, EstimateOptions(("x.json",), gamma=0.9)).acts == "stochastic"


def test_file_that_is_not_there_is_refused_by_the_option(recorded):
    with pytest.raises(ExperienceError, match=r"^--data: .+nothing.json: No such file"):
        Candidate(recorded[0], EstimateOptions((recorded[1] + ".nothing.json",))).estimate()


def test_file_of_another_environment_is_refused_with_its_line(recorded, tmp_path):
    other = {"type": "SampleBatch", "obs": [[0.0] * 5], "actions": [[0.0]], "rewards": [1], "dones": [True]}
    (tmp_path / "other.json").write_text(json.dumps(other) + "\n")
    with pytest.raises(ExperienceError, match=r"other.json:1: obs: rows of shape \(5,\)"):
        Candidate(recorded[0], EstimateOptions((str(tmp_path / "other.json"),))).estimate()


def test_policy_is_opened_without_its_environment(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path, 1, env="Nowhere-v1")
    found, facts, policy = open_policy(path)
    assert (found, facts["env"], policy.spec.obs_shape) == (path, "Nowhere-v1", (3,))


def test_keys_that_say_nothing_of_files_are_refused():
    assert estimate_options({"actions_in_input_normalized": True}, ["a"], 0.9, None) == EstimateOptions(
        ("a",), 0.9, None, True
    )
    with pytest.raises(ConfigError, match="--config: 'horizon' has no effect on estimates from --data"):
        estimate_options({"horizon": 3}, ["a"], None, None)
    with pytest.raises(ConfigError, match="actions_in_input_normalized is true or false, not 1"):
        estimate_options({"actions_in_input_normalized": 1}, ["a"], None, None)


def _found(**changed):
    both = {"per_step": {"mean": 1.0}, "per_episode": {"mean": 1.0}}
    plain = {
        "episodes": 100,
        "incomplete": 0,
        "without_logp": 0,
        "effective_sample_size": 50.0,
        "is": both,
        "wis": both,
    }
    return {**plain, **changed}


NONE = {"per_step": {"mean": None}, "per_episode": {"mean": None}}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, []),
        ({"effective_sample_size": 3.21}, ["as much as 3.2 of this policy's own"]),
        ({"effective_sample_size": 0.0, "wis": NONE}, ["this policy has probability 0 for every recorded episode"]),
        ({"is": NONE}, ["the ordinary estimate (IS) overflows"]),
        ({"incomplete": 11}, ["11 more episodes are incomplete"]),
        ({"without_logp": 1}, ["1 episodes without action probabilities"]),
    ],
)
def test_doubts_say_what_speaks_against_the_numbers(changed, words):
    found = doubts(_found(**changed))
    assert len(found) == len(words) and all(word in line for word, line in zip(words, found, strict=True))
