"""Runs of every kind go on from a checkpoint as if they had not stopped: bit for bit, priorities and exploration too."""

import gymnasium
import numpy as np
import pytest
from runtime_runs import SINCE_RESTORE, timeless
from test_inline_exact import state_of_run

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.envs import make as envs
from drl_cli.envs import preprocessors
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

SMALL = {
    "seed": 7,
    "learning_starts": 100,
    "timesteps_per_iteration": 100,
    "buffer_size": 330,  # full before the runs end
    "train_batch_size": 16,
    "training_intensity": 8.0,
    "rollout_fragment_length": 7,
    "updates_per_call": 10,
    "publish_every": 5,
    "num_workers": 0,
    "num_replay_shards": 0,
    "evaluation_interval": 2,
    "evaluation_num_episodes": 1,
    "evaluation_config": {"horizon": 30},
    "horizon": 40,
    "xla": False,
}
NET = {"fcnet_hiddens": [16]}
NETS = (
    {"policy_model": NET, "Q_model": NET},
    {"actor_hiddens": [16], "critic_hiddens": [16]},
    {"model": NET, "hiddens": [16]},
)
OU = {"exploration_config": {"type": "OrnsteinUhlenbeckNoise", "random_timesteps": 20}}
GAUSSIAN = {"exploration_config": {"type": "GaussianNoise", "scale_timesteps": 300, "final_scale": 0.1}}
SDE = {"exploration_config": {"type": "StateDependentNoise", "random_timesteps": 20, "sde_sample_freq": 9}}
NOISE = {"exploration_config": {"type": "ParameterNoise", "random_timesteps": 20}}
HELD = {"exploration_config": {"type": "EpsilonGreedy", "random_timesteps": 150, "hold_steps": 6}}
ANNEALED = {"final_prioritized_replay_beta": 1.0, "prioritized_replay_beta_annealing_timesteps": 400}
STACKED = {"framestack": 3, "conv_filters": [[4, 3, 2]], "fcnet_hiddens": [8]}
FILTERED = {"observation_filter": "MeanStdFilter", "reward_scaling": True, "num_envs_per_worker": 2}
HINDSIGHT = {"hindsight_goals": 4, "horizon": 20}
RUNS = {
    "DQN prioritized": ("DQN", "CartPole-v1", ANNEALED),
    "DQN parameter noise": ("DQN", "CartPole-v1", NOISE | {"model": {"layer_norm": True}}),
    "rainbow": ("DQN", "CartPole-v1", ANNEALED | {"noisy": True, "num_atoms": 11, "v_max": 50.0, "double_q": True}),
    "QRDQN held actions": ("QRDQN", "CartPole-v1", HELD),
    "APEX three envs": ("APEX", "CartPole-v1", {"num_envs_per_worker": 3}),
    "TD3 Gaussian": ("TD3", "Pendulum-v1", GAUSSIAN),
    "TD3 OU": ("TD3", "Pendulum-v1", OU | {"prioritized_replay": True}),
    "TD3 gSDE": ("TD3", "Pendulum-v1", SDE),
    "APEX_DDPG": ("APEX_DDPG", "Pendulum-v1", {}),
    "SAC Discrete": ("SAC", "CartPole-v1", {"prioritized_replay": True}),
    "SAC ensemble": ("SAC", "Pendulum-v1", {"num_critics": 3, "target_critics": 2, "critic_dropout": 0.1}),
    "SAC gSDE": ("SAC", "Pendulum-v1", {"use_sde": True}),
    "CROSSQ": ("CROSSQ", "Pendulum-v1", {"policy_average": 0.9}),
    "TQC": ("TQC", "Pendulum-v1", {}),
    "XQC": ("XQC", "Pendulum-v1", {"policy_average": 0.9}),
    "SAC filtered": ("SAC", "Pendulum-v1", FILTERED),
    "DQN filtered": ("DQN", "CartPole-v1", FILTERED | {"worker_side_prioritization": True}),
    "SAC hindsight": ("SAC", "drl/PointReach-v1", HINDSIGHT),
    "DQN hindsight": (
        "DQN",
        "drl/BitFlipping-v1",
        HINDSIGHT | {"prioritized_replay": True, "hindsight_strategy": "final"},
    ),
    "SAC Tuple prioritized": ("SAC", "drl/SteerAndStop-v1", {"prioritized_replay": True, "num_envs_per_worker": 2}),
    "SAC RND": ("SAC", "Pendulum-v1", {"exploration_config": {"type": "RND", "random_timesteps": 20}}),
    "DQN RND": ("DQN", "CartPole-v1", {"exploration_config": {"type": "RND", "sub_exploration": {"type": "SoftQ"}}}),
    "stacked images": ("DQN", "Wandering-v0", {"model": STACKED, "compress_observations": True}),
}


class Wandering(gymnasium.Env):
    """A bright dot on 16 x 16 pixels wanders; the action moves it left or right, an edge ends the episode."""

    observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = [int(self.np_random.integers(3, 13)), 8]
        return self._seen(), {}

    def step(self, action):
        self.at[1] += 2 * int(action) - 1
        self.at[0] = (self.at[0] + int(self.np_random.integers(0, 3)) - 1) % 16
        ended = not 0 <= self.at[1] < 16
        self.at[1] %= 16
        return self._seen(), 1.0, ended, False, {}

    def _seen(self):
        image = np.zeros((16, 16, 1), np.uint8)
        image[self.at[0], self.at[1]] = 255
        return image


gymnasium.register("Wandering-v0", entry_point=Wandering)


@pytest.fixture
def start():
    """Function (row, env, keys, restore=None) → a started Driver, closed behind the test."""
    trainers = []

    def make(name, env_id, keys, restore=None):
        row = table.find(name)
        schema = load(row.config)
        nets = next(own for own in NETS if own.keys() <= schema.model_fields.keys())
        config = schema.model_validate(SMALL | nets | keys)
        plan = preprocessors.plan(config, env_id)
        facts = {"id": env_id, "asked": env_id, "env_config": {}, "imports": (), "preprocessing": plan}
        trainer = Driver(name, config, facts | {"spaces": envs.check(env_id, {}, row, plan)})
        trainers.append(trainer)
        if restore:
            trainer.restore(restore, True)
        trainer.start()
        return trainer

    yield make
    for trainer in trainers:
        trainer.close()


def whole_state(trainer):
    """``state_of_run`` with the replay's priorities, and its observations unpacked."""
    arrays, plain = state_of_run(trainer)
    replay = trainer.parts.replay.handles[0].part
    if replay._priorities is not None:
        arrays |= {f"replay/{name}": array.copy() for name, array in replay._priorities.state().items()}
    return arrays, plain


@pytest.mark.parametrize(("name", "env_id", "keys"), RUNS.values(), ids=RUNS)
def test_run_interrupted_after_two_iterations_equals_the_whole_run(start, tmp_path, name, env_id, keys):
    whole = start(name, env_id, keys)
    before = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    path = whole.save(tmp_path)
    after = [timeless(whole.train(), SINCE_RESTORE) for _ in range(2)]
    arrays, plain = whole_state(whole)
    assert before[1]["info"]["num_updates"] > 10 and whole.loop.ledger.updates > 100
    assert whole.parts.replay.size() == 330  # the oldest rows have made room
    assert ("replay/priority" in arrays) == whole.config.prioritized_replay
    if whole.config.prioritized_replay:
        assert len(np.unique(arrays["replay/priority"])) > 50  # updates or workers gave them

    resumed = start(name, env_id, keys, restore=checkpoints.load(path))
    assert [timeless(resumed.train(), SINCE_RESTORE) for _ in range(2)] == after
    others, told = whole_state(resumed)
    assert sorted(others) == sorted(arrays)
    assert [name for name in arrays if not np.array_equal(arrays[name], others[name])] == []
    assert told == plain
