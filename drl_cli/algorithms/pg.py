"""The config of PG, policy gradients without frills: every key with its default, meaning, unit and bounds.

Names and meanings are RLlib's (PG, 1.0.1; Williams 1992, REINFORCE). Deviations: a baseline, which RLlib's lacks; returns
are never cut, where RLlib takes the rewards of a fragment for those of the episode.
"""

from drl_cli.algorithms.a2c import STANDARDIZE
from drl_cli.config.schema import default, key
from drl_cli.config.sections.on_policy import OnPolicyKeys


class PGConfig(
    OnPolicyKeys,
    defaults={
        "num_workers": default(0),
        "lr": default(3e-3, rllib=4e-4, why="for small nets; steps are means of a larger batch"),
        "rollout_fragment_length": default(64, rllib=200, why="8 environments make a batch of 512 of it"),
        "train_batch_size": default(512, rllib=200, why="the variance of whole returns wants more of them"),
        "use_critic": default(
            True, rllib=False, why="less variance, and a value for what a fragment cuts off; false is plain REINFORCE"
        ),
        "use_gae": default(False),
    },
):
    """REINFORCE: the log-probability of each action, weighted with the return that followed, less a learnt baseline."""

    standardize_advantages: bool = key(True, STANDARDIZE, rllib=False, why="one step size for returns of any scale")
