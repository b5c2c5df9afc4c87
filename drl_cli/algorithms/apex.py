"""What APEX and APEX_DDPG start from in place of DQN's and DDPG's defaults (Horgan et al. 2018, arXiv:1803.00933).

Used by ``algorithms.dqn`` and ``algorithms.ddpg``. RLlib's defaults are for 32 workers; these start on two cores.
"""

from drl_cli.config.schema import default
from drl_cli.config.sections.iteration import least_seconds

APEX_DEFAULTS = {
    "num_workers": default(2, rllib=32, why="starts on two cores; raise it on larger machines and clusters"),
    "num_replay_shards": default(
        1, rllib=4, why="one actor suffices for a few workers; each further one takes time to start"
    ),
    "buffer_size": default(200_000, rllib=2_000_000, why="with 84x84 images it takes 1.4 GB, ten times the size 14 GB"),
    "learning_starts": default(2_000, rllib=50_000, why="two workers would sample for minutes before the first update"),
    "train_batch_size": default(
        128, rllib=512, why="small batches are faster on a CPU, and small nets learn as much per update"
    ),
    "rollout_fragment_length": default(25, rllib=50, why="workers get new weights twice as often"),
    "n_step": default(3),
    "prioritized_replay": default(True),
    "worker_side_prioritization": default(True),
    "training_intensity": default(
        32.0,
        rllib="null: as fast as learner and workers can",
        why="one update per four env steps, as in DQN; the ratio does not depend on the load of the machine",
    ),
    "min_iter_time_s": least_seconds(30),
    "timesteps_per_iteration": default(
        2_000, rllib=25_000, why="takes two workers about as long as 32 workers take for RLlib's"
    ),
}
