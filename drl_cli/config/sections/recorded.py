"""What algorithms start from that learn the values of actions from recorded experience: CQL, IQL, TD3+BC.

Used by their configs. A timestep is a step learnt from, as for MARWIL and BC: with ``training_intensity`` 1 files of n steps
are a pass every n timesteps.
"""

from drl_cli.config.schema import default

RECORDED = {
    "n_step": default(1),
    "learning_starts": default(0),
    "training_intensity": default(1.0),
    "timesteps_per_iteration": default(100_000),
    "rollout_fragment_length": default(200),
    "evaluation_interval": default(
        1,
        rllib=None,
        why="no episodes are played but those of evaluations: nothing else says how good the agent is",
    ),
}
