"""TD3+BC: TD3 from recorded data, whose policy maximises the critic and stays near the recorded actions.

Source: Fujimoto & Gu 2021, "A Minimalist Approach to Offline Reinforcement Learning" (arXiv 2106.06860); the update is that of
``algorithms.ddpg_graph``. Observations are normalised by ``observation_filter``.

Deviations, beside those of ``ddpg_graph``:
- Distances from the recorded actions are in halves of the action range, so that one ``alpha`` fits every environment.
- With importance weights those scale a row's loss, and the mean of |Q| is that of the batch as it was drawn.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import ddpg_graph
from drl_cli.algorithms.learner_graph import action_bounds, learner_graph
from drl_cli.algorithms.losses.imitation import cloned_gain_loss
from drl_cli.algorithms.td3bc import TD3BCConfig
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, LearnerGraph, transition_columns
from drl_cli.tf1.tensorflow import Tensor


def build(
    config: TD3BCConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build TD3+BC's variables in the current graph and return its LearnerGraph; arguments as for ``ddpg_graph.build``."""
    low, high = action_bounds(spec)

    def policy_loss(q: Tensor, action: Tensor, batch: Batch) -> Tensor:
        return cloned_gain_loss(q, (action - batch["action"]) / ((high - low) / 2), config.alpha)  # [B]

    update = ddpg_graph.TransitionUpdate(config, spec, initial, seed, scope, policy_loss)
    return learner_graph(transition_columns(config, spec), ddpg_graph.RATES, update, spec, scope)
