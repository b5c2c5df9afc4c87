"""A run that has to end does so within seconds, whatever it is doing; inline, where all is in one process."""

import threading
import time

import gymnasium
import numpy as np
import pytest
from runtime_runs import small_config

from drl_cli import checkpoints
from drl_cli.errors import Overdue
from drl_cli.runtime import run_clock

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]

ENDLESS = "WithoutEnd-v0"
SOON_S = 20.0  # 5 s are promised on an idle machine; what is slow here takes a minute
ENDLESS_EVALUATION = {"evaluation_config": {"horizon": 10**8}, "evaluation_max_steps": 10**8}


class Endless(gymnasium.Env):
    """An episode of it never ends; a step takes ``pause`` seconds."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
    pause = 0.0

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        time.sleep(self.pause)  # plays a simulator that is slow: nothing else happens here
        return np.zeros(3, np.float32), -1.0, False, False, {}


if ENDLESS not in gymnasium.registry:
    gymnasium.register(ENDLESS, Endless)


@pytest.fixture
def asked():
    """Append to it to ask for a stop."""
    return []


def learning(run, asked, env=ENDLESS, options=None, **config):
    """A Driver that has learnt, so that nothing is compiled any more."""
    keys = {"evaluation_interval": None, "horizon": 50} | config
    trainer = run(env, small_config(**keys), stop_requested=lambda: bool(asked), options=options)
    while trainer.train()["info"]["num_updates"] == 0:
        continue
    return trainer


def soon(asked, seconds=0.1):
    """Ask for a stop in a while; returns when."""
    threading.Timer(seconds, asked.append, [True]).start()
    return time.monotonic() + seconds


def test_stop_ends_an_evaluation_whose_episodes_never_end(run, asked, reports, monkeypatch):
    config = {"evaluation_interval": 1, **ENDLESS_EVALUATION}
    trainer = run(ENDLESS, small_config(horizon=50, **config), stop_requested=lambda: bool(asked))
    score = trainer.scoring.begin
    monkeypatch.setattr(trainer.scoring, "begin", lambda snapshot: (soon(asked), score(snapshot)))
    while not asked:
        result = trainer.train()
    assert not trainer.is_overdue and result["evaluation"] == {}
    assert "The stop cut an evaluation short: it does not count." in [f.get("text") for _, f in reports]
    assert result["time_this_iter_s"] < 60


def test_seconds_of_a_stop_rule_end_an_evaluation_in_its_middle(run, monkeypatch):
    config, limits = {"evaluation_interval": 1, **ENDLESS_EVALUATION}, {"time_total_s": 1e9}
    trainer = run(ENDLESS, small_config(horizon=50, **config), options={"limits": limits})
    score = trainer.scoring.begin

    def begin(snapshot):
        limits["time_total_s"] = trainer.clock.passed()["time_total_s"] + 0.3
        return score(snapshot)

    monkeypatch.setattr(trainer.scoring, "begin", begin)
    while limits["time_total_s"] == 1e9:
        result = trainer.train()
    assert result["evaluation"] == {}
    assert limits["time_total_s"] <= result["time_total_s"] < limits["time_total_s"] + 5.0


@pytest.mark.parametrize("rule", [{"timesteps_total": 450}, {"episodes_total": 3}, {"episode_reward_mean": -1e9}])
def test_no_clock_is_waited_for_once_a_stop_rule_is_reached(run, rule):
    keys = {"min_iter_time_s": 600, "evaluation_interval": None, "horizon": 50}
    trainer = run("Pendulum-v1", small_config(**keys), options={"thresholds": rule})
    result = trainer.train()
    assert result["time_this_iter_s"] < 100
    assert all(result[field] >= threshold for field, threshold in rule.items())
    assert 200 <= result["timesteps_total"] < 800  # no shorter than timesteps_per_iteration


def test_stop_during_a_slow_fragment_saves_what_the_learner_has(run, asked, tmp_path, monkeypatch):
    trainer = learning(run, asked)
    trainer._deadline.rest_s = 0.5
    updates = trainer.loop.ledger.updates
    monkeypatch.setattr(Endless, "pause", 0.1)  # 4 s a fragment, of four environments
    at = soon(asked)
    trainer.train()
    path = trainer.save(tmp_path)
    assert time.monotonic() - at < SOON_S
    assert trainer.is_overdue and checkpoints.load(path).facts["counters"]["num_updates"] >= updates


@pytest.fixture
def slow_update():
    """Function (trainer) that makes the next update wait until the test is over."""
    over = threading.Event()

    def make(trainer):
        part = trainer.parts.learner.part
        part.learn = lambda *given, learn=part.learn: (over.wait(60), learn(*given))[1]

    yield make
    over.set()


def test_stop_during_a_slow_update_saves_the_state_before_it(run, asked, tmp_path, slow_update):
    trainer = learning(run, asked)
    trainer.loop.ledger.meters.slowest = 30.0  # as if updates had always been slow
    trainer.train()
    number = trainer.iteration
    slow_update(trainer)
    at = soon(asked)
    trainer.train()
    path = trainer.save(tmp_path)
    assert time.monotonic() - at < SOON_S
    assert path.name == f"checkpoint_{number:06d}" and checkpoints.load(path).has("weights")
    with pytest.raises(Overdue, match="not saved: the learner is busy"):
        trainer.clock.iteration += 1
        trainer.save(tmp_path)


@pytest.fixture
def slow_disk(monkeypatch):
    """Writing a replay takes for ever, in small pieces."""

    def written(path, arrays, compress=False, check=lambda: None, write=checkpoints.write_arrays):
        write(path, arrays, compress, check)
        until = time.monotonic() + (60 if path.name.startswith("replay") else 0)
        while time.monotonic() < until:
            time.sleep(0.01)  # plays the disk, between two of its pieces
            check()

    monkeypatch.setattr(checkpoints, "write_arrays", written)


def test_stop_during_a_slow_save_of_the_replay_leaves_a_checkpoint_without_it(run, asked, tmp_path, reports, slow_disk):
    trainer = learning(run, asked)
    at = soon(asked)
    path = trainer.save(tmp_path)
    assert 2.0 < time.monotonic() - at < SOON_S
    assert checkpoints.load(path).has("weights") and not list(path.glob("replay*"))
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    assert any("The replay was not written within 2.6 s" in fields.get("text", "") for _, fields in reports)


def test_stop_rule_on_seconds_leaves_a_save_the_time_that_it_needs(run, asked, tmp_path, monkeypatch):
    monkeypatch.setattr(run_clock, "SAVE_S", -1.0)
    trainer = learning(run, asked, options={"limits": {"time_total_s": 1e6}})
    trainer.clock.total_s = 2e6
    assert list(trainer.save(tmp_path).glob("replay*"))


def test_stop_while_nothing_was_learnt_yet_saves_nothing_and_says_so(run, asked, tmp_path):
    trainer = run(ENDLESS, small_config(horizon=50), stop_requested=lambda: bool(asked))
    trainer._deadline.rest_s = 0.5

    def quiesce():  # takes for ever
        while True:
            trainer._cluster.check()

    trainer.loop.quiesce = quiesce
    asked.append(True)
    trainer.train()
    with pytest.raises(Overdue, match="nothing was learnt yet"):
        trainer.save(tmp_path)
