"""What APEX and APEX_DDPG start from in place of DQN's and DDPG's defaults (Horgan et al. 2018, arXiv:1803.00933).

Used by ``algorithms.dqn`` and ``algorithms.ddpg``. RLlib's defaults are for 32 workers; these start on two cores.
"""

from drl_cli.config.schema import default
from drl_cli.config.sections.iteration import least_seconds

APEX_DEFAULTS = {
    "num_workers": default(2, rllib=32, why="starts on two cores; give it what the machine or the cluster has"),
    "num_replay_shards": default(1, rllib=4, why="one actor keeps up with a few workers; more cost cores to start"),
    "buffer_size": default(
        200_000, rllib=2_000_000, why="images of 84x84 fill 1.4 GB with it, 14 GB with ten times it"
    ),
    "learning_starts": default(2_000, rllib=50_000, why="two workers would sample for minutes before the first update"),
    "train_batch_size": default(128, rllib=512, why="small nets on a CPU learn as much from each of more updates"),
    "rollout_fragment_length": default(25, rllib=50, why="fresh data and fresh weights meet twice as often"),
    "n_step": default(3),
    "prioritized_replay": default(True),
    "worker_side_prioritization": default(True),
    "training_intensity": default(
        32.0,
        rllib="null: as fast as learner and workers can",
        why="an update per four env steps, as DQN; a pace that the machine's load does not change",
    ),
    "min_iter_time_s": least_seconds(30),
    "timesteps_per_iteration": default(2_000, rllib=25_000, why="two workers make them in about as much time as 32"),
}
