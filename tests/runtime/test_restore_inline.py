"""Restores that do not go on exactly: into a new run, without the replay, from the best evaluation."""

import numpy as np
import pytest
from runtime_runs import small_config

from drl_cli import checkpoints
from drl_cli.errors import CheckpointError
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]


@pytest.fixture
def random_actions(monkeypatch):
    """A list that gets the rows of every draw of uniform actions."""
    drawn, draw = [], NumpyPolicy.random

    def noted(self, obs, rng):
        drawn.append(len(obs))
        return draw(self, obs, rng)

    monkeypatch.setattr(NumpyPolicy, "random", noted)
    return drawn


def trained(run, folder, iterations=3, **over):
    trainer = run("Pendulum-v1", small_config(**over))
    for _ in range(iterations):
        trainer.train()
    return trainer, checkpoints.load(trainer.save(folder))


def test_restore_into_a_new_run_acts_with_the_policy_from_its_first_step(run, tmp_path, random_actions):
    first, found = trained(run, tmp_path)
    assert sum(random_actions) == 200  # learning_starts of the first run
    random_actions.clear()
    new = run("Pendulum-v1", small_config(), restore=(found, False))
    result = new.train()
    assert random_actions == []
    assert result["training_iteration"] == 4
    assert result["timesteps_total"] == 800
    assert result["info"]["num_updates"] > first.loop.ledger.updates


def test_restore_into_a_new_run_plays_episodes_of_its_own(run, tmp_path):
    first, found = trained(run, tmp_path)
    new = run("Pendulum-v1", small_config(), restore=(found, False))
    assert first.parts.pool.incarnations() == {0: 0}
    assert new.parts.pool.incarnations() == {0: 1}
    batch = run("Pendulum-v1", small_config()).parts.pool.handles()[0].part._envs.reset()
    assert not np.array_equal(new.parts.pool.handles()[0].part._envs.reset(), batch)


def test_restore_before_learning_started_acts_randomly_only_for_the_rest(run, tmp_path, random_actions):
    _, found = trained(run, tmp_path, iterations=1, learning_starts=300)
    assert sum(random_actions) == 200
    random_actions.clear()
    run("Pendulum-v1", small_config(learning_starts=300), restore=(found, False)).train()
    assert sum(random_actions) == 100


def test_restore_without_a_stored_replay_refills_before_it_learns(run, tmp_path, reports):
    config = {"store_buffer_in_checkpoints": False}
    first, found = trained(run, tmp_path, **config)
    assert not found.has("replay")
    new = run("Pendulum-v1", small_config(**config), restore=(found, True))
    updates = first.loop.ledger.updates
    assert new.loop.ledger.updates == updates
    assert new.train()["info"]["num_updates"] == updates  # 200 steps = learning_starts: nothing is owed yet
    assert new.loop.stored == 200
    result = new.train()
    assert updates + 60 <= result["info"]["num_updates"] <= updates + 80  # 0.4 a step
    assert result["timesteps_total"] == 1000
    assert [f["text"] for kind, f in reports if kind == "notice"] == [
        "checkpoint_000003 holds no replay: it fills anew before learning goes on",
        "Resumed bit for bit: a reset of Pendulum-v1 with a seed clears all earlier state.",
    ]


def test_restore_without_a_stored_replay_repeats(run, tmp_path):
    config = small_config(store_buffer_in_checkpoints=False)
    first = run("Pendulum-v1", config)
    for _ in range(3):
        first.train()
    found = checkpoints.load(first.save(tmp_path))
    rewards = [run("Pendulum-v1", config, restore=(found, True)).train()["hist_stats"] for _ in range(2)]
    assert rewards[0] == rewards[1]


def test_restore_of_the_best_evaluation_has_its_weights_and_counters(run, tmp_path):
    first = run("Pendulum-v1", small_config())
    for _ in range(2):
        first.train()
    scored = dict(first.parts.learner.call("state").result())
    counters = first.counters()
    first.train()
    path = first.save_evaluated(tmp_path)
    assert path.name == "checkpoint_000002"
    found = checkpoints.load(path)
    assert found.facts["counters"] | {"time_total_s": 0} == counters | {"time_total_s": 0}
    assert not found.has("replay")
    assert found.facts["score"]["evaluation_reward_mean"] == first.scored_result()["episode_reward_mean"]

    new = run("Pendulum-v1", small_config(), restore=(found, True))
    weights = new.parts.learner.call("state").result()
    assert [name for name in scored if not np.array_equal(weights[name], scored[name])] == []
    assert new.counters() | {"time_total_s": 0} == counters | {"time_total_s": 0}
    assert new.loop.ledger.version == int(found.json("state")["version"])
    result = new.train()
    assert (result["training_iteration"], result["timesteps_total"]) == (3, 600)
    assert result["info"]["num_updates"] == counters["num_updates"]
    assert new.train()["info"]["num_updates"] > counters["num_updates"]


def test_best_of_the_present_iteration_is_the_whole_state(run, tmp_path):
    first = run("Pendulum-v1", small_config())
    first.train()
    first.train()
    found = checkpoints.load(first.save_evaluated(tmp_path))
    assert found.number == 2
    assert found.has("replay")


def test_save_in_another_folder_writes_there_too(run, tmp_path):
    first, found = trained(run, tmp_path, iterations=1)
    assert first.save(tmp_path) == found.path
    other = tmp_path / "other"
    other.mkdir()
    assert first.save(other) == other / "checkpoint_000001"
    assert checkpoints.load(other / "checkpoint_000001").number == 1


def test_restore_with_other_nets_is_refused(graph_learner, run, tmp_path):
    _, found = trained(run, tmp_path, iterations=0)
    config = small_config(policy_model={"fcnet_hiddens": [8, 8]})
    with pytest.raises(CheckpointError, match="do not fit this run's nets.*policy/"):
        run("Pendulum-v1", config, restore=(found, False))


def test_restore_of_another_environment_shows_both(run, tmp_path):
    _, found = trained(run, tmp_path, iterations=1)
    with pytest.raises(CheckpointError, match="'Pendulum-v1', this run's is 'LunarLanderContinuous-v3'"):
        run("LunarLanderContinuous-v3", small_config(), restore=(found, False))


def test_restore_with_another_buffer_size_is_refused(run, tmp_path):
    _, found = trained(run, tmp_path, iterations=1)
    with pytest.raises(CheckpointError, match="5000 rows; this run's buffer_size is 6000"):
        run("Pendulum-v1", small_config(buffer_size=6000), restore=(found, False))


def test_restore_with_other_environments_per_worker_begins_new_episodes(run, tmp_path):
    _, found = trained(run, tmp_path)
    new = run("Pendulum-v1", small_config(num_envs_per_worker=2), restore=(found, True))
    result = new.train()
    assert result["timesteps_total"] == 800
    assert new.parts.pool.incarnations() == {0: 1}
