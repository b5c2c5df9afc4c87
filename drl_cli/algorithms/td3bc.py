"""The config of TD3+BC: every key with its default, meaning, unit and bounds.

RLlib has no such algorithm (Fujimoto & Gu 2021, arXiv:2106.06860); keys that TD3 has too mean what they mean there.
"""

from drl_cli.algorithms.ddpg import TD3Config
from drl_cli.config.schema import default, key
from drl_cli.config.sections.off_policy import LearnersPriorities
from drl_cli.config.sections.offline import RECORDED


class TD3BCConfig(
    LearnersPriorities,
    TD3Config,
    defaults={
        **RECORDED,
        "observation_filter": default("MeanStdFilter"),
        "train_batch_size": default(128),
    },
):
    """TD3 from recorded experience, whose policy stays near the recorded actions."""

    alpha: float = key(
        2.5,
        "Weight of the critic's gain, in means of |Q|, beside the squared distance from the recorded actions: 0 clones "
        "them, large values forget them.",
        ge=0,
        le=1e6,
    )
