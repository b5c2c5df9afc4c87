"""Every row of the table with a custom model: it learns, all of its nets do, and resumed runs go on bit for bit."""

import numpy as np
import pytest
from experience_files import random_set
from own_models import QUICK, SESSION, known, of  # noqa: F401  known is for all tests
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact_rows import Wandering  # noqa: F401  registers Wandering-v0

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.errors import ConfigError
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {"seed": 7, "num_workers": 0, "timesteps_per_iteration": 100, "horizon": 30, "xla": False}
SMALL |= {"evaluation_interval": 2, "evaluation_num_episodes": 1, "evaluation_config": {"horizon": 20}}
REPLAYED = {"learning_starts": 50, "train_batch_size": 8, "rollout_fragment_length": 10, "buffer_size": 400}
READ = {"training_intensity": 1.0, "updates_per_call": 1, "learning_starts": 0}
TRAJECTORIES = {"num_envs_per_worker": 2, "rollout_fragment_length": 10, "train_batch_size": 20}
PASSES = {"sgd_minibatch_size": 10, "num_sgd_iter": 2, "vf_iterations": 2}
TRIED = {
    "num_envs_per_worker": 4,
    "episodes_per_batch": 4,
    "train_batch_size": 0,
    "num_rollouts": 2,
    "rollouts_used": 1,
}
ENVS = {"Box": "Pendulum-v1", "Discrete": "CartPole-v1"}
BY_KIND = {"trajectory": SMALL | TRAJECTORIES | PASSES, "fitness": SMALL | TRIED | {"observation_filter": "NoFilter"}}
NOISE = {"exploration_config": {"type": "ParameterNoise", "random_timesteps": 20}}
SHORT = {"lstm_cell_size": 4, "max_seq_len": 5}  # of rows that always learn from sequences
LSTM = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}
FILTERED = {"observation_filter": "MeanStdFilter"}


def cases():
    """Every row, by its name through sessions or in NumPy; and what a model can be among."""
    for row in (row for row in table.built_in() if not row.team):
        number = sum(map(ord, row.name))
        name = SESSION if row.tensorflow and number % 2 == 0 else QUICK
        kind = "Box" if "Box" in row.actions and number % 3 else "Discrete" if "Discrete" in row.actions else "Box"
        yield row.name, ENVS[kind], of(name) | (SHORT if row.postprocess == "sequences" else {}), {}
    yield "PPO", "CartPole-v1", of(SESSION) | LSTM, FILTERED
    yield "PPO", "Pendulum-v1", of(QUICK), {"use_sde": True, "vf_share_layers": True}
    yield "A2C", "CartPole-v1", of(QUICK) | LSTM | {"lstm_use_prev_action_reward": True}, {}
    yield "DQN", "CartPole-v1", of(SESSION), NOISE
    yield "DQN", "Wandering-v0", of(QUICK) | {"framestack": 2}, {"noisy": True}
    yield "DDPG", "Pendulum-v1", of(SESSION), {"prioritized_replay": True, "worker_side_prioritization": True}


def name_of(name, env_id, model, keys):
    return "-".join((name, env_id, *(part for part in ("use_lstm", "framestack") if part in model), *keys))


CASES = list(cases())


@pytest.fixture
def start(tmp_path):
    """Function (row, env, model, keys, restore=None) → a started Driver, closed behind the test."""
    trainers = []

    def make(name, env_id, model, keys, restore=None):
        row = table.find(name)
        schema = load(row.config)
        usual = BY_KIND.get(row.postprocess, SMALL | REPLAYED | (READ if row.reads else {}))
        given = {key: value for key, value in usual.items() if key in schema.model_fields} | keys | {"model": model}
        if row.reads:
            given |= {"input": random_set(tmp_path / "recorded" / "a.json", env_id)}
        config = schema.model_validate(given)
        plan = preprocessors.plan(config, env_id)
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
        trainer = Driver(name, config, facts | {"spaces": envs.check(env_id, {}, row, plan)})
        trainers.append(trainer)
        if restore:
            trainer.restore(checkpoints.load(restore), True)
        trainer.start()
        return trainer

    yield make
    for trainer in trainers:
        trainer.close()


def arrays_of(trainer):
    return dict(trainer.parts.learner.call("state").result())


@pytest.mark.parametrize(("name", "env_id", "model", "keys"), CASES, ids=[name_of(*case) for case in CASES])
def test_row_learns_with_a_custom_model_and_resumes_exactly(start, tmp_path, name, env_id, model, keys):
    whole = start(name, env_id, model, keys)
    first = load(whole.row.nets).initial_weights(whole.config, whole.setup.spec, 7)
    whole.train()
    path = whole.save(tmp_path)
    after = timeless(whole.train(), SINCE_RESTORE)
    assert after["info"]["num_updates"] > 1 and after["evaluation"]["episode_reward_mean"] is not None
    arrays = arrays_of(whole)
    own = [weight for weight in first if "/custom/" in weight]
    assert len(own) >= 2
    still = [weight for weight in own if np.array_equal(arrays[f"default_policy/{weight}"], first[weight])]
    assert [weight for weight in still if not weight.startswith("target_")] == []

    resumed = start(name, env_id, model, keys, restore=path)
    assert timeless(resumed.train(), SINCE_RESTORE) == after
    others = arrays_of(resumed)
    assert sorted(others) == sorted(arrays)
    assert [weight for weight in arrays if not np.array_equal(arrays[weight], others[weight])] == []


@pytest.mark.parametrize("name", ["ES", "ARS"])
def test_evolution_strategy_refuses_a_model_without_numpy_in_one_line(start, name):
    with pytest.raises(ConfigError) as caught:
        start(name, "CartPole-v1", of(SESSION), {})
    assert str(caught.value) == (
        "model.custom_model tests_tangent: perturbed policies are evaluated in NumPy, and it has no forward(weights, "
        "inputs). Add one next to its graph, see docs/examples/own_network.py."
    )
