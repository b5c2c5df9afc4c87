"""PQN: everything that is done with one batch of trajectories, as a graph.

λ-returns of the greedy values once, with the weights that sampled; then passes over the batch in shuffled minibatches, each one
step of Adam on the squared distance of Q(s, a) from them, all in one call.

Source: Gallici et al. 2024, "Simplifying Deep Temporal Difference Learning" (arXiv 2407.04811), algorithm 2 and its eq. 11:
Peng's Q(λ), whose returns are not cut at random actions (Peng & Williams 1994).

Deviations:
- Adam instead of rectified Adam; minibatches have (almost) equal numbers of rows.
- An episode that a time limit ends is bootstrapped from its last observation, as everywhere here.
- With ``policy_average`` the newest net samples, and an average of its weights is evaluated and kept.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms.losses.returns import gae
from drl_cli.algorithms.losses.value import squared
from drl_cli.algorithms.on_policy_graph import STEP_STATS, Descent, Rows, summed
from drl_cli.algorithms.pqn import PQNConfig
from drl_cli.policies import filters_tf
from drl_cli.policies.actor_critic_tf import following
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.epochs import Plan, epochs
from drl_cli.tf1.graph import Batch, BatchGraph, Learnt, Rates, trajectory_columns
from drl_cli.tf1.polyak import move_average
from drl_cli.tf1.tensorflow import Tensor, Variable, tf
from drl_cli.tf1.towers import Sums

RATES = ("lr",)
STATS = ("loss", "mean_q", "mean_td_error", "max_q")


def build(config: PQNConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``pqn.initial_weights``; ``seed`` keys the shuffles; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    net = ActionValueNet(spec, initial, scope, config.policy_average)
    update = _PQNUpdate(config, net, seed, scope)
    columns = {name: column for name, column in trajectory_columns(config, spec).items() if name != "logp"}
    descent = update.descent
    return BatchGraph(
        columns, RATES, descent.variables(), net.published, update.learn, descent.towers.in_one_place, net.sampled()
    )


class ActionValueNet:
    """A net of action values as variables, see ``on_policy_graph.TrainedNets``."""

    def __init__(self, spec: PolicySpec, initial: Mapping[str, np.ndarray], scope: str, average: float) -> None:
        """``spec``: of a policy over action values; ``average``: decay of a running average, which is published; 0: none."""
        self._spec, self._average, self._actions = spec, average, TFActionValues(spec)
        shapes = spec.weight_shapes()
        self.trained = tuple(spec.nets[0].trainable())
        own = {name: shapes[name] for name in self.trained}
        learnt = variables_of(own, initial, scope + "learnt_" if average else scope)
        self.averaged: dict[str, Variable] = variables_of(own, initial, scope, trainable=False) if average else {}
        self.variables: dict[str, Variable] = learnt | filters_tf.variables(spec, scope)
        self.published = tuple(scope + name for name in shapes)

    def values(self) -> Tensors:
        """Return {name: tensor} of all variables, read once."""
        return values_of(self.variables)

    def sampled(self) -> dict[str, str]:
        """Return {published name: exact name of the trained weights} where an average of them is published, else {}."""
        return {self.averaged[name].op.name: self.variables[name].op.name for name in self.averaged}

    def move_average(self) -> None:
        """Move the averaged weights by an update, if there are any."""
        if self.averaged:
            sources = [self.variables[name] for name in self.averaged]
            move_average(list(self.averaged.values()), sources, self._average)

    def look(self, values: Tensors, obs: Tensor) -> Tensor:
        """Return the values of all actions in ``obs`` [B, …], [B, n]."""
        atoms = self._actions.atoms(TFNet(self._spec.nets[0], values)(filters_tf.normalised(obs, values)))  # [B, n, 1]
        return self._actions.expected(atoms)  # [B, n]

    def highest(self, values: Tensors, obs: Tensor) -> Tensor:
        """Return the value of the best action that is allowed in ``obs`` [B, …], [B]."""
        q = self.look(values, obs)  # [B, n]
        return self.taken(q, self._actions.best(q, obs))  # [B]

    def taken(self, q: Tensor, action: Tensor) -> Tensor:
        """Return the values [B] of ``action`` int32 [B] in ``q`` [B, n]."""
        return self._actions.chosen(tf.expand_dims(q, 2), action)[:, 0]  # [B]


class _PQNUpdate:
    """The variables, and what is learnt from a batch."""

    def __init__(self, config: PQNConfig, net: ActionValueNet, seed: int, scope: str) -> None:
        self._config, self._net, self._seed = config, net, seed
        self.descent = Descent(config, net, scope)
        size = config.sgd_minibatch_size
        self._plan = Plan(config.num_sgd_iter, size, self.descent.towers.width(size), config.shuffle_sequences)

    def learn(self, batch: Batch, rates: Rates, number: Tensor) -> Learnt:
        """See BatchGraph."""
        rows = self._rows(batch)

        def step(minibatch: Rows, _: Tensor) -> tuple[dict[str, Tensor], Tensor]:
            return self.descent.step(*self.descent.gradients(self.loss, minibatch), rates["lr"])

        names = (*STATS, *STEP_STATS)
        passed = epochs(rows, self._plan, (self._seed, number), names, step)
        stats = {name: passed.last[name] for name in names} | {"cur_lr": rates["lr"]}
        return Learnt(stats, passed.updates, passed.finite)

    def _rows(self, batch: Batch) -> Rows:
        """Return the columns that are learnt from, [E·T, …] each; ``target``: the λ-returns of the greedy values."""
        streams, steps = batch["mask"].shape.as_list()
        values, obs = self._net.values(), tf.reshape(batch["obs"], [streams * steps, *batch["obs"].shape[2:]])
        best = tf.reshape(self._net.highest(values, obs), [streams, steps])  # [E, T]
        later = following(best, self._net.highest(values, batch["end_obs"]), batch["end_at"])  # [E, T]
        target = gae(batch, best, later, self._config.lambda_) + best  # [E, T]
        columns = {"action": batch["action"], "mask": batch["mask"], "target": target}
        flat = {name: tf.reshape(x, [streams * steps]) for name, x in columns.items()}
        return {name: tf.stop_gradient(x) for name, x in (flat | {"obs": obs}).items()}

    def loss(self, values: Tensors, minibatch: Rows) -> Sums:
        """Return the Sums of a minibatch; ``values``: {name: tensor} of the net's variables."""
        q = self._net.taken(self._net.look(values, minibatch["obs"]), minibatch["action"])  # [B]
        error = minibatch["target"] - q  # [B]
        loss = squared(error)  # [B]
        stats = {"loss": loss, "mean_q": q, "mean_td_error": error}
        return summed(loss, stats, minibatch["mask"], {"max_q": tf.abs(q)})
