"""Evaluations: confirmation at the goal, the touch, snapshots with their counters, testers that die."""

import pytest
from runtime_fakes import Later
from runtime_runs import small_config

from drl_cli import checkpoints
from drl_cli.actors.part_records import ScoredEpisode
from drl_cli.config.result_names import EVALUATION_REWARD, Goal
from drl_cli.runtime import assembly
from drl_cli.runtime.cluster import PartFailed, PartLost
from drl_cli.runtime.evaluator import Scoring, Snapshot

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]

COUNTERS = {"training_iteration": 5, "timesteps_total": 5000, "num_updates": 1800}


class FakeTester:
    """Plays what ``rewards`` says: one number (the reward of all episodes) or an exception for each call."""

    def __init__(self, rewards, own=()):
        """``own``: the return of a policy's one agent in all episodes of each call."""
        self.rewards, self.own, self.asked = list(rewards), list(own), []

    def call(self, method, version, seeds):
        assert method == "evaluate"
        self.asked.append((version, tuple(seeds)))
        later, reward = Later(), self.rewards.pop(0)
        if isinstance(reward, Exception):
            later.fail(reward)
        else:
            own = {"a": [self.own.pop(0)]} if self.own else {}
            later.finish([ScoredEpisode(float(reward), 100, seed, True, policy_rewards=own) for seed in seeds])
        return later


def scored(rewards, goal=200.0, times=1, metric=EVALUATION_REWARD, own=(), **over):
    tester = FakeTester(rewards, own)
    goal = None if goal is None else Goal(metric, goal)
    scoring = Scoring(lambda: tester, small_config(**{"evaluation_num_episodes": 10, **over}), 3, goal)
    completed = []
    for number in range(times):
        snapshot = Snapshot(40 + number, {}, {"counters": COUNTERS | {"training_iteration": 5 + number}})
        scoring.begin(snapshot)
        polls = []
        while scoring.is_busy:
            polls.append(scoring.poll())
        completed.append(polls)
    return scoring, tester, completed


def test_evaluation_below_the_goal_is_complete_at_once():
    scoring, tester, completed = scored([199.0])
    assert completed == [[True]]
    assert len(tester.asked) == 1
    assert scoring.newest_result == {
        "episode_reward_mean": 199.0,
        "episode_reward_max": 199.0,
        "episode_reward_min": 199.0,
        "episode_len_mean": 100.0,
        "episodes_this_iter": 10,
        "episodes_cut": 0,
        "training_iteration": 5,
        "timesteps_total": 5000,
        "num_updates": 1800,
        "confirmed_reward_mean": None,
        "confirmed_episodes": None,
    }
    assert scoring.touched is None


def test_highest_mean_is_known_before_fresh_episodes_and_then_theirs():
    tester = FakeTester([120.0, 200.0, 190.0, 150.0, 230.0, 110.0])
    scoring = Scoring(lambda: tester, small_config(), 3, Goal(EVALUATION_REWARD, 200.0))
    known = []
    while tester.rewards:
        scoring.begin(Snapshot(40, {}, {"counters": COUNTERS}))
        while scoring.is_busy:
            scoring.poll()
            known.append(scoring.highest)
    assert known == [120.0, 200.0, 190.0, 190.0, 230.0, 190.0]


def test_evaluation_that_is_lost_while_it_is_confirmed_leaves_no_trace_in_the_highest_mean():
    tester = FakeTester([120.0, 200.0, PartLost("tester", "gone"), 200.0, 190.0])
    scoring = Scoring(lambda: tester, small_config(), 3, Goal(EVALUATION_REWARD, 200.0))
    scoring.begin(Snapshot(40, {}, {"counters": COUNTERS}))
    assert scoring.poll()
    scoring.begin(Snapshot(41, {}, {"counters": COUNTERS}))
    assert not scoring.poll()
    with pytest.raises(PartLost):
        scoring.poll()
    assert scoring.highest == 120.0
    scoring.begin(Snapshot(41, {}, {"counters": COUNTERS}))
    assert not scoring.poll()
    assert scoring.poll()
    assert scoring.highest == 190.0


def test_evaluation_at_the_goal_asks_for_fresh_episodes_of_the_same_weights():
    _, tester, completed = scored([200.0, 210.0])
    (version, seeds), (again, fresh) = tester.asked
    assert completed == [[False, True]]
    assert (version, again, len(seeds), len(fresh)) == (40, 40, 10, 50)
    assert not set(seeds) & set(fresh)


def test_confirmed_evaluation_is_the_touch():
    scoring, _, _ = scored([205.0, 201.0])
    touched = dict(scoring.touched)
    assert touched.pop("seconds") > 0
    assert touched == {
        "metric": "evaluation/episode_reward_mean",
        "target": 200.0,
        "value": 205.0,
        "confirmed": 201.0,
        "timesteps_total": 5000,
        "num_updates": 1800,
    }
    assert scoring.newest_result["confirmed_reward_mean"] == 201.0
    assert scoring.newest_result["confirmed_episodes"] == 50


def test_refuted_evaluation_is_no_touch_and_later_ones_are_asked_again():
    scoring, tester, _ = scored([205.0, 199.0, 203.0, 202.0], times=2)
    assert len(tester.asked) == 4
    assert scoring.touched["confirmed"] == 202.0
    assert scoring.newest_result["confirmed_reward_mean"] == 202.0


def test_refuted_evaluation_alone_leaves_the_run_untouched():
    scoring, _, _ = scored([205.0, 199.0])
    assert scoring.touched is None
    assert scoring.newest_result["confirmed_reward_mean"] == 199.0


def test_evaluation_at_the_goal_is_believed_without_confirmation_when_asked():
    scoring, tester, _ = scored([205.0], evaluation_confirm_episodes=0)
    assert len(tester.asked) == 1
    assert (scoring.touched["value"], scoring.touched["confirmed"]) == (205.0, None)


def test_evaluations_after_the_touch_are_not_confirmed_again():
    _, tester, _ = scored([205.0, 201.0, 220.0], times=2)
    assert [len(seeds) for _, seeds in tester.asked] == [10, 50, 10]


def test_run_without_a_goal_never_asks_for_confirmation():
    scoring, tester, _ = scored([1e9], goal=None)
    assert len(tester.asked) == 1
    assert scoring.touched is None


def test_evaluation_in_env_steps_plays_whole_rounds_until_they_are_reached():
    scoring, tester, completed = scored([1.0, 4.0], evaluation_duration_unit="timesteps", evaluation_num_episodes=1601)
    (_, first), (_, second) = tester.asked
    assert (len(first), len(second), completed) == (16, 16, [[False, True]])
    assert len(set(first) | set(second)) == 32
    found = scoring.newest_result
    assert (found["episodes_this_iter"], found["episode_reward_mean"], found["episode_reward_max"]) == (32, 2.5, 4.0)


def test_evaluation_in_env_steps_counts_each_evaluation_anew_and_confirms_in_episodes():
    over = {"evaluation_duration_unit": "timesteps", "evaluation_num_episodes": 1600}
    _, tester, _ = scored([1.0, 205.0, 201.0], times=2, **over)
    assert [len(seeds) for _, seeds in tester.asked] == [16, 16, 50]


def test_every_evaluation_has_seeds_of_its_own_and_a_restored_one_goes_on_with_them():
    scoring, tester, _ = scored([1.0, 2.0, 3.0], times=3)
    seeds = [asked for _, asked in tester.asked]
    assert len({seed for one in seeds for seed in one}) == 30
    again, other, _ = scored([1.0])
    again.load({"count": 2, "newest": None, "touched": None}, True)
    other.rewards.append(3.0)
    again.begin(Snapshot(42, {}, {"counters": COUNTERS}))
    assert other.asked[-1][1] == seeds[2]
    assert scoring.state()["count"] == 3


def test_run_that_had_touched_goes_on_touched():
    scoring, _, _ = scored([205.0, 201.0])
    other, tester, _ = scored([], times=0)
    other.load(scoring.state(), True)
    assert other.touched == scoring.touched
    assert other.newest_result == scoring.newest_result
    tester.rewards.append(300.0)
    other.begin(Snapshot(50, {}, {"counters": COUNTERS}))
    assert other.poll() is True


def test_run_that_had_touched_before_goals_had_a_metric_goes_on_touched():
    scoring, _, _ = scored([205.0, 201.0])
    facts = scoring.state()
    facts["touched"] = {name: value for name, value in facts["touched"].items() if name != "metric"}
    other, _, _ = scored([], times=0)
    other.load(facts, True)
    assert other.touched == scoring.touched


def test_goal_of_a_policy_is_touched_by_its_own_return_and_not_by_the_sum():
    metric, own = "evaluation/policy_reward_mean/a", [440.0, 460.0, 449.0, 455.0, 451.0]
    scoring, tester, _ = scored([2000.0] * 5, 450.0, 3, metric, own, evaluation_confirm_episodes=20)
    assert [len(seeds) for _, seeds in tester.asked] == [10, 10, 20, 10, 20]
    assert scoring.touched["metric"] == metric
    assert (scoring.touched["value"], scoring.touched["confirmed"]) == (455.0, 451.0)


def test_touch_does_not_pass_to_another_run_or_another_goal():
    scoring, _, _ = scored([205.0, 201.0])
    new, _, _ = scored([], times=0)
    new.load(scoring.state(), False)
    assert new.touched is None
    higher, _, _ = scored([], goal=250.0, times=0)
    higher.load(scoring.state(), True)
    assert higher.touched is None


def test_lost_testers_do_not_stop_training_and_the_third_is_said(run, reports, monkeypatch):
    made = []

    def make_tester(*_):
        made.append(FakeTester([PartLost("tester", "killed")]))
        return made[-1]

    monkeypatch.setattr(assembly, "make_tester", make_tester)
    trainer = run("Pendulum-v1", small_config(evaluation_interval=1))
    results = [trainer.train() for _ in range(6)]
    assert results[-1]["info"]["num_updates"] > 300
    assert [result["evaluation"] for result in results] == [{}] * 6
    assert [len(tester.asked) for tester in made] == [1, 1, 1]
    lost = [(f["worker"], f["incarnation"]) for kind, f in reports if kind == "worker_lost"]
    assert lost == [("tester", 0), ("tester", 1), ("tester", 2)]
    warnings = [f["text"] for kind, f in reports if kind == "warning"]
    assert len(warnings) == 1
    assert warnings[0].startswith("The tester was lost 3 times in a row: this run goes on without evaluations")


def test_environment_that_breaks_an_evaluation_does_not_stop_training(run, reports, monkeypatch):
    answers = [[PartFailed("tester failed: OSError: simulator gone")], [-500.0]]
    monkeypatch.setattr(assembly, "make_tester", lambda *_: FakeTester(answers.pop(0)))
    trainer = run("Pendulum-v1", small_config())
    results = [trainer.train() for _ in range(4)]
    assert [r["evaluation"].get("training_iteration") for r in results] == [None, None, None, 4]
    assert [f["text"] for kind, f in reports if kind == "worker_lost"] == ["tester failed: OSError: simulator gone"]


def test_tester_that_comes_back_scores_again(run, monkeypatch):
    answers = [[PartLost("tester", "killed")], [-500.0, -400.0]]
    monkeypatch.setattr(assembly, "make_tester", lambda *_: FakeTester(answers.pop(0)))
    trainer = run("Pendulum-v1", small_config(evaluation_interval=1))
    results = [trainer.train() for _ in range(4)]
    means = [result["evaluation"].get("episode_reward_mean") for result in results]
    assert means == [None, None, -500.0, -400.0]


def test_touch_inline_ends_with_a_checkpoint_of_what_was_scored(run, tmp_path, monkeypatch):
    monkeypatch.setattr(assembly, "make_tester", lambda *_: FakeTester([-300.0, -150.0, -160.0]))
    trainer = run("Pendulum-v1", small_config(), options={"goal": Goal(EVALUATION_REWARD, -200.0)})
    for _ in range(4):
        trainer.train()
    assert trainer.touched["confirmed"] == -160.0
    assert trainer.touched["timesteps_total"] == 800
    trainer.train()
    found = checkpoints.load(trainer.save_evaluated(tmp_path))
    weights = found.arrays("weights")
    assert found.facts["counters"]["num_updates"] == int(weights["default_policy/num_updates"])
    assert found.facts["score"]["evaluation_reward_mean"] == -160.0


@pytest.mark.parametrize("interval", [None, 3])
def test_evaluations_come_when_they_are_due(run, monkeypatch, interval):
    monkeypatch.setattr(assembly, "make_tester", lambda *_: FakeTester([-1.0, -2.0, -3.0]))
    trainer = run("Pendulum-v1", small_config(evaluation_interval=interval))
    means = [trainer.train()["evaluation"].get("episode_reward_mean") for _ in range(6)]
    expected = [None] * 6 if interval is None else [None, None, -1.0, -1.0, -1.0, -2.0]
    assert means == expected


@pytest.mark.parametrize(("goal", "first"), [(-1e6, 2), (1e6, 5)])
def test_first_evaluation_comes_at_once_when_training_episodes_are_at_the_goal(run, monkeypatch, goal, first):
    monkeypatch.setattr(assembly, "make_tester", lambda *_: FakeTester([-150.0, -160.0, -170.0, -180.0]))
    config = small_config(evaluation_interval=5, evaluation_confirm_episodes=0, horizon=30, learning_starts=300)
    trainer = run("Pendulum-v1", config, options={"goal": Goal(EVALUATION_REWARD, goal)})
    results = [trainer.train()["evaluation"] for _ in range(6)]
    assert [result.get("training_iteration") for result in results] == [None] * (first - 1) + [first] * (5 - first) + [
        5,
        5,
    ]


class Judging(FakeTester):
    """Gives ``told`` for estimates, plays for the rest."""

    def __init__(self, rewards, told):
        super().__init__(rewards)
        self.told, self.judged = told, []

    def call(self, method, version, *rest):
        if method != "estimate":
            return super().call(method, version, *rest)
        self.judged.append((version, *rest))
        later = Later()
        later.finish(self.told)
        return later


def _judged(told, times=1):
    tester = Judging([199.0] * times, told)
    scoring = Scoring(
        lambda: tester, small_config(input="a.json", input_evaluation="wis"), 3, Goal(EVALUATION_REWARD, 200.0)
    )
    for number in range(times):
        scoring.begin(Snapshot(40 + number, {}, {"counters": COUNTERS}))
        while scoring.is_busy:
            scoring.poll()
    return scoring, tester


def test_recorded_episodes_judge_the_weights_that_are_scored():
    scoring, tester = _judged({"episodes": 9, "wis": {"V_step_WIS": 1.5}})
    assert tester.judged == [(40, 5000)] and [version for version, _ in tester.asked] == [40]
    assert scoring.newest_result["off_policy_estimator"] == {"episodes": 9, "wis": {"V_step_WIS": 1.5}}
    assert scoring.newest_result["episode_reward_mean"] == 199.0


def test_reason_why_nothing_is_estimated_is_said_once(reports):
    scoring, _ = _judged({"text": "no episode is whole"}, times=3)
    assert "off_policy_estimator" not in scoring.newest_result and scoring.count == 3
    assert reports == [("warning", {"text": "The policy is not judged by recorded episodes: no episode is whole"})]
