"""Runs that learn from files: every kind of row, resumed bit for bit, larger sets than the replay, mixes."""

import numpy as np
import pytest
from experience_files import random_set
from runtime_runs import SINCE_RESTORE, env_facts, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.errors import ExperienceError
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {
    "seed": 7,
    "train_batch_size": 16,
    "training_intensity": 8.0,
    "timesteps_per_iteration": 100,
    "buffer_size": 1000,
    "learning_starts": 20,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 20,
    "updates_per_call": 10,
    "publish_every": 5,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "xla": False,
}
STEPS = {"CartPole-v1": 235, "Pendulum-v1": 229}  # of the sets of twelve episodes


@pytest.fixture
def start(tmp_path):
    """Function (algorithm, env_id, keys, restore=None) → a started Driver on files; it is closed after the test."""
    trainers = []

    def make(name, env_id, keys=(), restore=None):
        path = random_set(tmp_path / env_id / "a.json", env_id)
        keys = {"input": path} | dict(keys)
        if isinstance(keys["input"], float):  # a share of the files
            keys["input"] = {"sampler": 1.0 - keys["input"], path: keys["input"]}
        config = load(table.find(name).config).model_validate(SMALL | keys)
        trainer = Driver(name, config, env_facts(env_id))
        trainers.append(trainer)
        if restore:
            trainer.restore(restore, True)
        trainer.start()
        return trainer

    yield make
    for trainer in trainers:
        trainer.close()


def weights(trainer):
    return trainer.parts.learner.call("state").result()


FILTERED = {"observation_filter": "MeanStdFilter", "reward_scaling": True}
ROWS = {
    "MARWIL Discrete": ("MARWIL", "CartPole-v1", FILTERED),
    "MARWIL Box": ("MARWIL", "Pendulum-v1", {"vf_share_layers": True, "grad_clip": 1.0}),
    "BC": ("BC", "CartPole-v1", FILTERED),
    "SAC": ("SAC", "Pendulum-v1", {}),
    "TD3": ("TD3", "Pendulum-v1", {"prioritized_replay": True}),
    "CROSSQ": ("CROSSQ", "Pendulum-v1", {}),
    "DQN": ("DQN", "CartPole-v1", FILTERED),
    "QRDQN": ("QRDQN", "CartPole-v1", {}),
}


@pytest.mark.parametrize(("name", "env_id", "keys"), ROWS.values(), ids=ROWS)
def test_run_on_files_goes_on_from_a_checkpoint_bit_for_bit(start, tmp_path, name, env_id, keys):
    whole = start(name, env_id, keys)
    before = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    expected = weights(whole)
    assert [result["timesteps_total"] for result in after] == [300, 400]
    assert whole.loop.ledger.updates == 200 and whole.loop.pace.is_whole
    assert before[0]["info"]["num_steps_read"] == STEPS[env_id] and after[1]["info"]["num_steps_sampled"] == 0
    assert before[0]["episodes_total"] == 0 and after[1]["evaluation"]["episode_len_mean"] <= 30
    resumed = start(name, env_id, keys, restore=checkpoints.load(path))
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    found = weights(resumed)
    assert [key for key in expected if not np.array_equal(expected[key], found[key])] == []


@pytest.mark.usefixtures("quick_learner")
def test_run_whose_replay_was_not_stored_reads_its_files_anew_and_goes_on_alike(start, tmp_path):
    keys = {"store_buffer_in_checkpoints": False}
    whole = start("MARWIL", "CartPole-v1", keys)
    whole.train()
    path = whole.save(tmp_path)
    after = timeless(whole.train(), SINCE_RESTORE)
    resumed = start("MARWIL", "CartPole-v1", keys, restore=checkpoints.load(path))
    again = timeless(resumed.train(), SINCE_RESTORE)
    assert again["info"].pop("num_passes") < after["info"].pop("num_passes")
    assert again == after


def test_filters_see_every_step_that_is_read_once(start):
    trainer = start("MARWIL", "CartPole-v1", FILTERED)
    trainer.train()
    found = weights(trainer)
    assert found["default_policy/filter/count"] == STEPS["CartPole-v1"]
    # Made-up observations are standard normal.
    np.testing.assert_allclose(found["default_policy/filter/mean"], np.zeros(4), atol=0.25)
    np.testing.assert_allclose(found["default_policy/filter/var"], np.ones(4), atol=0.35)


@pytest.mark.parametrize("held", [0, 8])
@pytest.mark.usefixtures("quick_learner")
def test_larger_set_than_the_replay_is_read_pass_after_pass_and_resumed_alike(start, tmp_path, reports, held):
    keys = {"buffer_size": 150, "rollout_fragment_length": 5, "learning_starts": 0, "shuffle_buffer_size": held}
    whole = start("DQN", "CartPole-v1", keys)
    before = [timeless(whole.train(), SINCE_RESTORE) for _ in range(3)]
    assert sum("The files hold more than buffer_size 150" in fields.get("text", "") for _, fields in reports) == 1
    read = [result["info"]["num_steps_read"] for result in before]
    # Whole episodes fill what is read last, of other lengths when they come in another order.
    longest = 30 if held else 0
    assert read[2] >= 2 * STEPS["CartPole-v1"] - longest
    assert abs((read[2] - read[1]) - 100) < 60  # as many as are learnt from
    path = whole.save(tmp_path)
    after = timeless(whole.train(), SINCE_RESTORE)
    resumed = start("DQN", "CartPole-v1", keys, restore=checkpoints.load(path))
    assert timeless(resumed.train(), SINCE_RESTORE) == after


@pytest.mark.parametrize(("name", "env_id"), [("SAC", "Pendulum-v1"), ("MARWIL", "CartPole-v1")])
@pytest.mark.usefixtures("quick_learner")
def test_mix_of_files_and_environment_is_learnt_from_in_its_shares_and_resumed_alike(start, tmp_path, name, env_id):
    whole = start(name, env_id, {"input": 0.5})
    before = [whole.train() for _ in range(3)]
    path = whole.save(tmp_path)
    info = before[-1]["info"]
    assert info["num_steps_read"] / info["num_steps_sampled"] == pytest.approx(0.5, abs=0.1)
    assert (before[-1]["episodes_total"] > 0) == (name == "MARWIL")  # a pendulum's episode lasts 200 steps
    after = timeless(whole.train(), SINCE_RESTORE)
    resumed = start(name, env_id, {"input": 0.5}, restore=checkpoints.load(path))
    assert timeless(resumed.train(), SINCE_RESTORE) == after


def test_wrong_line_ends_the_run_with_file_and_line(start, tmp_path):
    path = tmp_path / "CartPole-v1" / "b.json"
    trainer = start("BC", "CartPole-v1", {"input": str(path.parent), "rollout_fragment_length": 5})
    trainer.close()
    path.write_text("{}\n")
    with pytest.raises(ExperienceError, match=r"b\.json:1: "):
        start("BC", "CartPole-v1", {"input": str(path.parent)}).train()


def test_result_tells_returns_of_the_files_and_none_of_training(start):
    result = start("BC", "CartPole-v1").train()
    info = result["info"]
    assert result["episode_reward_mean"] is None and info["num_episodes_read"] == 12
    assert info["read_reward_min"] < info["read_reward_mean"] < info["read_reward_max"]
    assert info["num_passes"] == pytest.approx(50 * 16 / STEPS["CartPole-v1"])
