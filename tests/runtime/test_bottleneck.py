"""The verdicts on measured shares, and when they are told."""

import re

import pytest

from drl_cli import events
from drl_cli.runtime.bottleneck import Bottleneck, Setting, Shares, judge

pytestmark = pytest.mark.process


@pytest.fixture
def told():
    heard = []
    stop = events.subscribe(lambda kind, fields: heard.append((kind, fields)))
    yield heard
    stop()


@pytest.mark.parametrize(
    ("shares", "setting", "text"),
    [
        (Shares(0.37, 0.95), Setting("replay", 2, 4), "learner idle 63 %: replay starved; raise num_workers"),
        (Shares(0.37, 0.95), Setting("replay", 0, 4), "learner idle 63 %: replay starved; set num_workers"),
        (Shares(0.37, 0.95), Setting("replay", 4, 4), "learner idle 63 %: replay starved; all 4 cores sample already"),
        (
            Shares(0.37, 0.95, acting=0.8),
            Setting("stream", 2, 4),
            "learner idle 63 %: queue empty; raise num_envs_per_worker",
        ),
        (
            Shares(0.95, 0.3),
            Setting("replay", 2, 4),
            "workers idle 70 %: the learner sets the pace; lower training_intensity",
        ),
        (Shares(0.2, 0.9), Setting("gradients", 2, 4), "learner idle 80 %: no gradients; raise num_workers"),
        (
            Shares(0.3, 0.3),
            Setting("replay", 2, 4),
            "learner idle 70 %, workers 70 %: the way between them; raise rollout_fragment_length",
        ),
        (Shares(0.8, 0.9), Setting("replay", 2, 2), "balanced: learner 80 % busy, workers 90 %"),
        (
            Shares(0.2, 0.7),
            Setting("sync", 1, 4),
            "sampling 70 %, learning 20 %, other 10 %; raise num_workers",
        ),
        (
            Shares(0.8, 0.2),
            Setting("sync", 2, 4),
            "learning 80 %, sampling 20 %; fewer passes or larger minibatches take less",
        ),
        (Shares(0.5, 0.45), Setting("sync", 2, 4), "balanced: learning 50 %, sampling 45 %, other 5 %"),
        (
            Shares(0.15, 0.58, evaluations=0.22, checkpoints=0.02),
            Setting("sync", 0, 2),
            "sampling 58 %, evaluations 22 %, learning 15 %, other 5 %; set num_workers",
        ),
        (
            Shares(0.28, 0.25, evaluations=0.25, checkpoints=0.12),
            Setting("sync", 0, 2),
            "learning 28 %, sampling 25 %, evaluations 25 %, checkpoints 12 %, other 10 %; raise evaluation_interval",
        ),
        (
            Shares(0.2, 0.15, evaluations=0.1, checkpoints=0.1),
            Setting("sync", 0, 2),
            "learning 20 %, sampling 15 %, evaluations 10 %, checkpoints 10 %, other 45 %; "
            "raise train_batch_size and rollout_fragment_length",
        ),
        (
            Shares(0.2, 0.2),
            Setting("decentralized", 2, 2),
            "sampling 20 %, learning 20 %, other 60 %; raise rollout_fragment_length",
        ),
        (Shares(0.01, 0.97), Setting("evolution", 1, 4), "episodes take 97 % of the time; raise num_workers"),
        (
            Shares(0.01, 0.5),
            Setting("evolution", 2, 4),
            "workers idle 50 %: waiting for the last episodes of each step; lower num_envs_per_worker",
        ),
        (
            Shares(0.1, 0.1, evaluations=0.45),
            Setting("sync", 0, 2),
            "evaluations take 45 % of the time; raise evaluation_interval",
        ),
        (Shares(0.1, 0.1, checkpoints=0.5), Setting("sync", 0, 2), "checkpoints take 50 % of the time; raise checkpoint_freq"),
        (Shares(0.95, 0.1), Setting("replay", 0, 2, True), "balanced: learner 95 % busy, workers 10 %"),
    ],
)  # fmt: skip
def test_verdict_names_who_waits_and_the_key_that_helps(shares, setting, text):
    assert judge(shares, setting).text == text


@pytest.mark.parametrize("shares", [Shares(0.333, 0.333, 0.333), Shares(0.9, 0.9), Shares(0.145, 0.585, 0.025, 0.245)])
def test_shares_of_a_loop_that_takes_turns_add_up_to_a_hundred(shares):
    told = judge(shares, Setting("sync", 0, 2)).text
    assert 99 <= sum(int(number) for number in re.findall(r"(\d+) %", told)) <= 101 or "of the time" in told


def totals(learn, sample, evaluate=0.0, save=0.0, policy=0.0):
    return {"learn": learn, "sample": sample, "evaluate": evaluate, "save": save, "policy": policy}


def test_window_is_judged_by_what_was_spent_in_it_per_worker():
    seen = Bottleneck(Setting("replay", 2, 4))
    seen.look(10.0, totals(3.0, 100.0), 2)
    seen.look(14.0, totals(3.5, 107.0), 2)
    assert seen.text == ""
    seen.look(15.0, totals(5.0, 109.0), 2)
    assert (seen.shares.learner, seen.shares.workers) == (0.4, 0.9)
    assert seen.text == "learner idle 60 %: replay starved; raise num_workers"


def test_verdict_is_reported_once_it_has_held_for_two_windows(told):
    seen = Bottleneck(Setting("replay", 2, 4))
    for window in range(8):
        seen.look(5.0 * window, totals(1.0 * window, 9.0 * window), 2)
    assert [(kind, fields["name"]) for kind, fields in told] == [("bottleneck", "sampling")]
    assert told[0][1]["shares"]["learner"] == 0.2


def test_verdict_that_comes_and_goes_is_not_told_again_within_a_minute(told):
    seen, spent = Bottleneck(Setting("replay", 1, 4)), [0.0, 0.0]
    for window in range(12):
        seen.look(5.0 * window, totals(*spent), 1)
        spent = [spent[0] + (1.0 if window // 3 % 2 else 4.9), spent[1] + (4.9 if window // 3 % 2 else 1.0)]
    assert [fields["name"] for _, fields in told] == ["learning", "sampling"]


def test_nothing_is_judged_before_the_first_update():
    seen = Bottleneck(Setting("replay", 2, 4))
    seen.look(0.0, None, 2)
    seen.look(100.0, None, 2)
    seen.look(101.0, totals(0.0, 50.0), 2)
    assert seen.text == ""
