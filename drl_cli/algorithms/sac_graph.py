"""Soft actor-critic: one update as a graph, for Box actions here, for Discrete ones in ``algorithms.sac_discrete_graph``.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic" (arXiv 1801.01290) and "Soft Actor-Critic Algorithms and Applications"
(arXiv 1812.05905); twin critics from Fujimoto et al. 2018; state-dependent exploration (``use_sde``), Raffin et al. 2021
(arXiv 2005.05719); keys and their meaning from RLlib's SAC.

Deviations, beside those of ``soft_update`` and ``soft_actor``:
- ``target_network_update_freq`` counts env steps in RLlib; here it is turned into updates with the training intensity.
- With ``use_sde`` learning draws noise for each row by itself, with the deviation that its features give it. The authors'
  code multiplies all rows with one matrix: the same distribution for each row, but draws that depend on one another. It also
  clips means to [-2, 2], which this does not.
"""

from drl_cli.algorithms import sac_discrete_graph, sac_nets
from drl_cli.algorithms.max_entropy_actor_graph import Actor, drawn
from drl_cli.algorithms.max_entropy_critics_graph import LowestOf
from drl_cli.algorithms.max_entropy_update_graph import RATES, SoftUpdate

__all__ = ["RATES", "build"]


def build(config, spec, initial, seed, scope):
    """Build SAC's variables in the current graph and return its LearnerGraph.

    ``config``: SACConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``sac_nets.initial_weights``; ``seed`` keys the
    noise; ``scope`` (ending in "/") goes before every variable's name.
    """
    if spec.distribution == "categorical":
        return sac_discrete_graph.build(config, spec, initial, scope)
    actor = Actor(config, spec, initial, scope, drawn(spec, seed))
    critics = LowestOf(config, sac_nets.critic_spec(config, spec), initial, scope)
    return SoftUpdate(config, spec, actor, critics, scope).graph()
