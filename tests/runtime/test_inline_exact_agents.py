"""Runs of several agents with two policies repeat bit for bit, and go on from a checkpoint as if they had not stopped."""

import json

import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact_rows import Wandering  # noqa: F401  registers Wandering-v0

from drl_cli import checkpoints, events
from drl_cli.actors.custom_evaluation import register_evaluation
from drl_cli.algorithms import table
from drl_cli.envs.callbacks import Callbacks, register_callbacks
from drl_cli.errors import CheckpointError
from drl_cli.experiments import env_facts
from drl_cli.extras import load
from drl_cli.runtime import run_restore
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

NETS = {"fcnet_hiddens": [16, 16]}
SHARED = {"seed": 7, "num_workers": 0, "num_envs_per_worker": 2, "xla": False, "evaluation_num_episodes": 2}
PPO = {
    "train_batch_size": 128,
    "rollout_fragment_length": 16,
    "horizon": 16,  # most fragments have one shape, and a graph is built for each shape; DQN's episodes end when they do
    "sgd_minibatch_size": 64,
    "num_sgd_iter": 2,
    "model": NETS,
}
DQN = {
    "learning_starts": 100,
    "timesteps_per_iteration": 100,
    "buffer_size": 2000,
    "train_batch_size": 16,
    "rollout_fragment_length": 5,
    "model": NETS,
}
AGENTS = {
    "copies": 3,
    "policies": {"first": {}, "others": {"lr": 0.002}},
    "policy_mapping": {"0": "first", "*": "others"},
}

WITH_MEMORY = {
    "model": {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 8, "fcnet_hiddens": [8]},
    "observation_filter": "MeanStdFilter",
}


def experiment(algorithm, agents=AGENTS, env="CartPole-v1", **over):
    """(config, what a Driver is told of the environment)."""
    row = table.find(algorithm)
    schema = load(row.config)
    own = DQN if algorithm == "DQN" else {key: value for key, value in PPO.items() if key in schema.model_fields}
    config = schema.model_validate(SHARED | own | {"evaluation_interval": 2, "multiagent": agents} | over)
    found = env_facts.found(row, config, env)
    return found.config, {**found.facts, "asked": env, "imports": ()}


@pytest.fixture
def run():
    """Function (algorithm, restore=(checkpoint, exact), **keys) → a started Driver."""
    drivers = []

    def start(algorithm, restore=None, **over):
        driver = Driver(algorithm, *experiment(algorithm, **over))
        drivers.append(driver)
        if restore:
            driver.restore(*restore)
        driver.start()
        return driver

    yield start
    for driver in drivers:
        driver.close()


def state_of_run(driver):
    """Everything that what comes next depends on: arrays by name, and plain data."""
    arrays = dict(driver.parts.learner.call("state").result())
    own, worker = driver.parts.pool.handles()[0].call("state").result()
    arrays.update({f"worker/{name}": array for name, array in own.items()})
    counters = {name: value for name, value in driver.counters().items() if name != "time_total_s"}
    return arrays, (counters, worker, driver.loop.state(), driver.loop.ledger.version)


def results(driver, count):
    return [timeless(driver.train(), SINCE_RESTORE) for _ in range(count)]


def assert_same_state(mine, other):
    assert sorted(mine[0]) == sorted(other[0])
    assert [name for name in mine[0] if not np.array_equal(mine[0][name], other[0][name])] == []
    assert mine[1] == other[1]


@pytest.mark.parametrize(
    ("algorithm", "keys"), [("PPO", {}), ("DQN", {}), ("A2C", {"policy_average": 0.9})], ids=["PPO", "DQN", "A2C"]
)
def test_interrupted_run_of_two_policies_equals_an_undisturbed_one(run, tmp_path, algorithm, keys):
    whole = run(algorithm, **keys)
    before, after = results(whole, 2), results(whole, 2)
    assert set(before[-1]["policy_reward_mean"]) == set(after[-1]["info"]["learner"]) == {"first", "others"}
    assert after[-1]["info"]["num_updates"] > before[-1]["info"]["num_updates"] > 0

    first = run(algorithm, **keys)
    assert results(first, 2) == before, "a run does not repeat"
    path = first.save(tmp_path)
    assert results(first, 2) == after, "saving changed the run"

    told = []
    stop = events.subscribe(lambda kind, fields: told.append(fields.get("text") or ""))
    resumed = run(algorithm, restore=(checkpoints.load(path), True), **keys)
    stop()
    assert "Resumed bit for bit: a reset of CartPole-v1 with a seed clears all earlier state." in told
    assert results(resumed, 2) == after
    assert_same_state(state_of_run(resumed), state_of_run(whole))


class Counting(Callbacks):
    """Counts what it is called for, and reports that with each episode; shapes the rewards of one policy."""

    def __init__(self):
        self.steps = 0

    def on_episode_step(self, *, episode, **more):
        self.steps += 1

    def on_episode_end(self, *, episode, **more):
        episode.custom_metrics["agents"] = len(episode.agent_rewards)
        if not episode.in_evaluation:  # whose object's state is not in checkpoints
            episode.custom_metrics["steps"] = self.steps

    def on_postprocess(self, *, episode, steps, policy_id, **more):
        if policy_id == "others":
            steps["reward"] *= 0.1

    def state(self):
        return {"steps": self.steps}

    def load(self, state):
        self.steps = state["steps"]


@pytest.mark.parametrize(
    ("algorithm", "ways", "learner"),
    [
        (
            "A2C",
            {"callbacks": "counting agents", "batch_mode": "complete_episodes", "horizon": 8, "train_batch_size": 96},
            None,
        ),
        ("DQN", {"callbacks": "counting agents", "horizon": 7, "soft_horizon": True}, "quick_learner"),
        ("DQN", {"remote_worker_envs": True}, "quick_learner"),
        ("DQN", {"observation_filter": "MeanStdFilter"}, "quick_learner"),
    ],
    ids=["whole-episodes", "soft-horizon", "remote", "filter"],
)
def test_run_with_callbacks_and_other_ways_to_sample_goes_on_from_a_checkpoint_as_it_would_have(
    request, run, tmp_path, plug_ins, algorithm, ways, learner
):
    if learner:
        request.getfixturevalue(learner)
    register_callbacks("counting agents", Counting)
    whole = run(algorithm, **ways)
    before = results(whole, 2)
    path = whole.save(tmp_path)
    after = results(whole, 2)
    if "callbacks" in ways:
        assert before[-1]["custom_metrics"]["agents_max"] == 3.0
        assert after[-1]["custom_metrics"]["steps_max"] > before[-1]["custom_metrics"]["steps_max"]
        assert after[-1]["evaluation"]["custom_metrics"]["agents_mean"] == 3.0
    resumed = run(algorithm, restore=(checkpoints.load(path), True), **ways)
    assert results(resumed, 2) == after
    assert_same_state(state_of_run(resumed), state_of_run(whole))


def learnt(driver):
    """{name: shape} of a run's nets and filters after two iterations in which both policies learnt."""
    last = results(driver, 2)[-1]
    assert set(last["info"]["learner"]) == {"first", "others"} and last["info"]["num_updates"] > 0
    return {name: array.shape for name, array in driver.parts.learner.call("state").result().items()}


def test_memory_and_filter_are_of_the_policy_that_has_them(run):
    shapes = learnt(run("PPO", multiagent={**AGENTS, "policies": {"first": WITH_MEMORY, "others": {}}}))
    assert {name.partition("/")[0] for name in shapes if "lstm" in name} == {"first"}
    assert {name.partition("/")[0] for name in shapes if "filter" in name} == {"first"}


def test_every_policy_sees_a_stack_of_frames(run):
    model = {"framestack": 2, "conv_filters": [[4, 3, 2]], "fcnet_hiddens": [8]}
    shapes = learnt(run("DQN", env="Wandering-v0", model=model))
    assert (
        shapes["first/q/conv_0/kernel"] == shapes["others/q/conv_0/kernel"] == (3, 3, 2, 4)
    )  # two frames of one channel


def lines_of(folder):
    """Names of files that begin in the same second do not sort in their order."""
    paths = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("quick_learner")
def test_resumed_recording_holds_every_step_once(run, tmp_path):
    whole = run("DQN", output=str(tmp_path / "whole"))
    expected = results(whole, 4)
    first = run("DQN", output=str(tmp_path / "first"))
    results(first, 2)
    path = first.save(tmp_path)
    results(first, 1)
    resumed = run("DQN", restore=(checkpoints.load(path), True), output=str(tmp_path / "first"))
    assert results(resumed, 2) == expected[2:]
    assert lines_of(tmp_path / "first") == lines_of(tmp_path / "whole")


@pytest.mark.usefixtures("quick_learner")
def test_run_that_reads_the_steps_of_each_policy_repeats_and_goes_on_bit_for_bit(run, tmp_path):
    results(run("DQN", output=str(tmp_path / "files"), evaluation_interval=None), 3)
    read = {"input": str(tmp_path / "files")}
    learning = run("DQN", **read)
    before, after = results(learning, 2), results(learning, 2)
    assert before[-1]["info"]["num_steps_read"] > 300 and before[-1]["info"]["num_updates"] > 0
    assert set(after[-1]["info"]["learner"]) == {"first", "others"}
    again = run("DQN", **read)
    assert results(again, 2) == before
    gone_on = run("DQN", restore=(checkpoints.load(again.save(tmp_path)), True), **read)
    assert results(gone_on, 2) == after


@pytest.mark.usefixtures("quick_learner")
def test_files_and_environment_in_shares_are_learnt_from_by_all_policies(run, tmp_path):
    results(run("DQN", output=str(tmp_path)), 2)
    row = results(run("DQN", input={"sampler": 0.5, str(tmp_path): 0.5}), 3)[-1]
    assert row["info"]["num_steps_read"] > 100 and row["info"]["num_updates"] > 0
    assert set(row["policy_reward_mean"]) == {"first", "others"}


@pytest.mark.usefixtures("quick_learner")
def test_remote_environments_change_nothing_that_is_learnt(run):
    assert results(run("DQN", remote_worker_envs=True), 2) == results(run("DQN"), 2)


@pytest.mark.usefixtures("quick_learner")
def test_evaluation_of_ones_own_scores_all_policies(run):
    def judged(evaluation):
        episodes = evaluation.play(evaluation.seeds[:1])
        env = evaluation.make_env()
        agents = len(env.agents)
        env.close()
        return {**evaluation.summary(episodes), "agents": agents, "policies": len(evaluation.policies)}

    register_evaluation("judged agents", judged)
    row = results(run("DQN", custom_eval_function="judged agents", evaluation_interval=1), 2)[-1]
    found = row["evaluation"]
    assert (found["agents"], found["policies"], found["episodes_this_iter"]) == (3, 2, 1)
    assert set(found["policy_reward_mean"]) == {"first", "others"}


@pytest.mark.usefixtures("quick_learner")
def test_environment_with_agents_of_its_own_is_resumed_bit_for_bit(run, tmp_path):
    own = {"agents": {}, "env": "drl/TicTacToe-v1"}
    whole = run("DQN", **own)
    results(whole, 2)
    path = whole.save(tmp_path)
    after = results(whole, 2)
    resumed = run("DQN", restore=(checkpoints.load(path), True), **own)
    assert results(resumed, 2) == after


@pytest.mark.usefixtures("quick_learner")
def test_checkpoint_of_other_policies_is_refused(run, tmp_path):
    driver = run("DQN")
    results(driver, 1)
    found = checkpoints.load(driver.save(tmp_path))
    config, facts = experiment("DQN", agents={"copies": 3})
    with pytest.raises(
        CheckpointError, match=r"list of policies is \['first', 'others'\], this run's is \['default_policy'\]"
    ):
        run_restore.check_fits(table.find("DQN"), config, facts, found)
