"""TD3+BC: its keys and its row; the nets are TD3's. The update is ``td3bc_graph``.

RLlib has no such algorithm (Fujimoto & Gu 2021, arXiv:2106.06860); keys that TD3 has too mean what they mean there.
"""

from drl_cli.algorithms.ddpg import TD3, TD3Config
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
        "Weight of the normalised Q-value relative to the behavior-cloning term: 0 is pure cloning, large values "
        "are close to TD3.",
        ge=0,
        le=1e6,
    )


TD3BC = TD3._replace(name="TD3BC", config=TD3BCConfig, graph="drl_cli.algorithms.td3bc_graph", reads=True)
