"""Soft actor-critic: one update as a graph, for Box and for Discrete actions.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic" (arXiv 1801.01290) and "Soft Actor-Critic Algorithms and Applications"
(arXiv 1812.05905); clipped double Q-learning from Fujimoto et al. 2018; state-dependent exploration (``use_sde``), Raffin et
al. 2021 (arXiv 2005.05719); Discrete actions, Christodoulou 2019, "Soft Actor-Critic for Discrete Action Settings" (arXiv
1910.07207); keys and their meaning from RLlib's SAC. REDQ and DroQ are in ``max_entropy_critics_graph``.

Deviations, beside those of ``max_entropy_update_graph`` and ``max_entropy_actor_graph``:
- ``target_network_update_freq`` counts env steps in RLlib; here it is turned into updates with the training intensity.
- With ``use_sde`` learning draws noise for each row by itself, with the deviation that its features give it. The authors'
  code multiplies all rows with one matrix: the same distribution for each row, but draws that depend on one another. It also
  clips means to [-2, 2], which this does not.
- Discrete actions: the entropy target is a fraction of ln n that the config sets; the paper's 0.98 asks for coin flips where
  n is 2. Both critics are in the actor's loss, as in the paper; RLlib's has the first alone. Expectations over all actions
  take the place of samples, and no random number is drawn.
- A Dict or Tuple of Box and Discrete actions: ``hybrid_sac_graph``.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import hybrid_sac_graph, sac
from drl_cli.algorithms.max_entropy_actor_graph import Actor, every_action, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import DiscreteTwinCritics, OnlineAndTarget, TwinCritics
from drl_cli.algorithms.max_entropy_update_graph import RATES, MaxEntropyUpdate
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import LearnerGraph

__all__ = ["RATES", "build"]


def build(
    config: sac.SACConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build SAC's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``sac.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before every
    variable's name.
    """
    if spec.distribution == "hybrid":
        return hybrid_sac_graph.build(config, spec, initial, seed, scope)
    is_discrete = spec.distribution == "categorical"
    actor = Actor(config, spec, initial, scope, every_action if is_discrete else reparametrized(spec, seed))
    nets = OnlineAndTarget(config, sac.critic_spec(config, spec), initial, scope)
    critics = (DiscreteTwinCritics if is_discrete else TwinCritics)(config, nets, seed)
    return MaxEntropyUpdate(config, spec, actor, critics, scope).graph()
