"""Q-learning of a team, QMIX and VDN: one update as a graph.

Each agent's net values its own actions from what it observes; the mixing network makes one value of them, which is learnt as
DQN learns its own. What each agent does best is then best for the team, so that agents act by themselves.

Sources: Sunehag et al. 2018 (VDN, arXiv 1706.05296); Rashid et al. 2018 (QMIX, arXiv 1803.11485), eq. 5 and 6; double
Q-learning, van Hasselt et al. 2016 (arXiv 1509.06461), for each agent, as in the authors' code (PyMARL).

Deviations:
- Adam instead of RMSProp (as RLlib's ``optim_alpha``, ``optim_eps``); transitions instead of episodes.
- Agents that are not there count as a value of 0; PyMARL's go on with an action that does nothing.
- Half the square of the error; PyMARL takes the whole.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import qmix
from drl_cli.algorithms.learner_graph import counter, learner_graph, row_mean
from drl_cli.algorithms.losses import mixers
from drl_cli.algorithms.losses.value import squared, value_target
from drl_cli.algorithms.qmix import QMIXConfig
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.policies.team_tf import TeamParts, by_agent
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, Parts, Rates, transition_columns
from drl_cli.tf1.optimizers import Adam, clipped
from drl_cli.tf1.polyak import every, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

RATES = ("lr",)


def build(
    config: QMIXConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``initial``: {name: array} of ``qmix.initial_weights``; ``scope`` (ending in "/") goes before every variable's name.
    Nothing is drawn at random: ``seed`` has no use.
    """
    del seed
    return learner_graph(
        transition_columns(config, spec), RATES, _QMIXUpdate(config, spec, initial, scope), spec, scope
    )


class _QMIXUpdate:
    """The variables and the two halves of an update over them."""

    def __init__(self, config: QMIXConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str) -> None:
        if spec.team is None:
            raise TypeError("a policy of a team is needed")
        self._config, self._team = config, spec.team
        self._net, self._mixer = spec.nets[0], qmix.mixer_spec(config, spec)
        agents = self._net.weight_shapes()
        shapes = agents | (self._mixer.weight_shapes() if self._mixer else {})
        acting = variables_of(agents, initial, scope)
        self._acting = {name: acting[name] for name in agents}
        mixer = variables_of({name: shape for name, shape in shapes.items() if name not in agents}, initial, scope)
        learnt = variables_of(agents, initial, scope + "learnt_") if config.policy_average else acting
        self._online = learnt | mixer
        targets = {net_builders.target_name(name): shape for name, shape in shapes.items()}
        self._target = variables_of(targets, initial, scope, trainable=False)
        self.number = counter(scope)
        self._adam = Adam(scope + "q", self._online, epsilon=config.adam_epsilon)
        self._target_every = net_builders.updates_per_target_update(config)

    def variables(self) -> list[Variable]:
        """Return all variables but the counter."""
        groups = [self._online, self._target, self._adam.variables]
        if self._config.policy_average:
            groups.append(self._acting)
        return [variable for group in groups for variable in group.values()]

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of all nets for ``batch`` at update ``number``."""
        del number
        online = values_of(self._online)
        target_of = {name: self._target[net_builders.target_name(name)] for name in online}
        # targets
        following = TeamParts(self._team, batch["next_obs"])
        next_values = by_agent(self._net, target_of, following.each)["q"]  # [B, A, n]
        choosing = by_agent(self._net, online, following.each)["q"] if self._config.double_q else next_values
        best = mixers.best_of_each(choosing, following.allowed)  # [B, A]
        next_total = self._mixed(target_of, following, mixers.value_of_each(next_values, best))  # [B]
        target = value_target(batch["reward"], batch["discount"], next_total)  # [B]
        # loss: the mean over the batch, each row with its weight
        parts = TeamParts(self._team, batch["obs"])
        values = by_agent(self._net, online, parts.each)["q"]  # [B, A, n]
        total = self._mixed(online, parts, mixers.value_of_each(values, batch["action"]))  # [B]
        error = target - total  # [B]
        loss = row_mean(squared(error), batch)  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(online.values())), self._config.grad_clip)
        stats = {
            "loss": loss,
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(total),
            "min_q": tf.reduce_min(total),
            "max_q": tf.reduce_max(total),
            "grad_norm": norm,
        }
        priority = tf.stop_gradient(tf.abs(error))  # [B]
        return Gradients({"q": gradients}, stats, tf.math.is_finite(loss + norm), {"priority": priority})

    def apply(self, parts: Parts, rates: Rates, number: Tensor) -> None:
        """See LearnerGraph: change the weights with ``parts``, then move the targets and the average."""
        self._adam.apply(parts["q"], rates["lr"])
        targets = [self._target[net_builders.target_name(name)] for name in self._online]

        def move_targets() -> None:
            polyak_update(targets, list(self._online.values()), self._config.tau)

        every(self._target_every, number, move_targets, phase=self._target_every - 1)
        if self._config.policy_average:
            learnt = [self._online[name] for name in self._acting]
            polyak_update(list(self._acting.values()), learnt, 1.0 - self._config.policy_average)

    def _mixed(self, weights: Tensors, parts: TeamParts, values: Tensor) -> Tensor:
        """One value, [B], of ``values`` [B, A] of the agents that are there."""
        present = values * parts.alive  # [B, A]
        if self._mixer is None:
            return mixers.summed_values(present)  # [B]
        return mixers.monotonic_mix(present, TFNet(self._mixer, weights)(parts.state))  # [B]
