"""XQC for Box actions: CrossQ's pass over both states, a cross-entropy over atoms, and kernels that stay on the unit sphere.

Source: Palenicek et al. 2025, "XQC: Well-conditioned Optimization Accelerates Deep Reinforcement Learning" (arXiv 2509.25174),
and its authors' code where the paper is silent. What batch normalisation (bounded activations), weight normalisation (a
constant effective learning rate) and cross-entropy (bounded gradients) have in common is a well-conditioned loss.

- Critics see (s, a) and (s′, a′) in one pass in training mode, and so do the target critics, whose statistics are not kept.
- The target is the distribution of the target critic with the lower mean, of which each atom is moved by reward, discount
  and entropy and projected onto the atoms. The policy maximises the lower of the critics' means, by running statistics.
- After each step of the optimiser the columns of all kernels of critics and policy, those of the heads included, are divided
  by their lengths. Layers have no bias. Rewards are in deviations of the discounted return (``reward_scaling``).

Deviations, beside those of ``max_entropy_update_graph`` and ``max_entropy_actor_graph``:
- The learning rate falls only where a schedule says so (authors: from 3e-4 to 3e-5 over the run), and there is one update for
  each env step at most unless ``training_intensity`` says otherwise (authors: two).
- Target networks follow ten times as fast by default (``tau`` 0.05): distributions begin broad, and each update of the targets
  narrows them by the discount alone. HalfCheetah's first 20,000 steps gave 4,786 with it, 3,189 with 0.3, 1,559 with 0.005
  (one seed, ``docs/measured.rst``).
- ``target_entropy: auto`` is minus the number of action dimensions, as in SAC (authors: half of that).
- The normalisation of a net's input has no offset, of which nothing is left after the next normalisation: its gradient is
  nothing but rounding, which Adam would turn into steps of full size.
- Convolutions have neither normalisation. First kernels are Glorot's, divided by their lengths (authors: orthogonal ones).
- A row's priority is the mean over the critics of |mean of the target − mean of the critic|.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from drl_cli.algorithms import xqc
from drl_cli.algorithms.losses.value import cross_entropy, lowest_distribution, soft_projected, td_error
from drl_cli.algorithms.max_entropy_actor_graph import ActionChoice, Actor, CurrentPolicy, reparametrized
from drl_cli.algorithms.max_entropy_critics_graph import CriticLosses, head_of, with_copies
from drl_cli.algorithms.max_entropy_update_graph import MaxEntropyUpdate
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of, variables_of
from drl_cli.policies.policy_spec import NetSpec, PolicySpec, ValueSpec
from drl_cli.tf1.graph import Batch, LearnerGraph
from drl_cli.tf1.optimizers import project_columns
from drl_cli.tf1.polyak import every, polyak_update
from drl_cli.tf1.tensorflow import Tensor, Variable, tf


def build(
    config: xqc.XQCConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build XQC's variables in the current graph and return its LearnerGraph.

    ``initial``: {name: array} of ``xqc.initial_weights``; ``seed`` keys the noise; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    actor = Actor(config, spec, initial, scope, reparametrized(spec, seed))
    critics = CategoricalCritics(config, xqc.critic_spec(config, spec), initial, scope)
    return MaxEntropyUpdate(config, spec, actor, critics, scope, config.bn_momentum, config.beta_1).graph()


class CategoricalCritics:
    """Critics of distributions over M atoms with batch normalisation over both states of a transition, [C, B, M]."""

    def __init__(self, config: xqc.XQCConfig, net: NetSpec, initial: Mapping[str, np.ndarray], scope: str) -> None:
        """``net``: NetSpec of ``xqc.critic_spec``; ``initial``: {name: array} of critics and targets."""
        self._net, self._share, self._tau = net, 1.0 - config.bn_momentum, config.tau
        self._atoms = ValueSpec("categorical", config.num_atoms, config.v_min, config.v_max)
        self._every = net_builders.updates_per_target_update(config)
        shapes = net.weight_shapes()
        self._weights = variables_of(shapes, initial, scope)
        self.trained = {name: self._weights[name] for name in net.trainable()}
        self._running = [name for name in self._weights if name not in self.trained]
        targets = {net_builders.target_name(name): shapes[name] for name in self.trained}
        self._target = variables_of(targets, initial, scope, trainable=False)

    def variables(self) -> list[Variable]:
        """See Critics."""
        return [*self._weights.values(), *self._target.values()]

    def values(self) -> dict[str, Tensor]:
        """See Critics."""
        return values_of(self._weights)

    def losses(self, values: Tensors, batch: Batch, policy: CurrentPolicy, alpha: Tensor) -> CriticLosses:
        """See Critics: the cross-entropy between the projected target and each critic's distribution."""
        choice, support = policy.next_choice(batch), self._atoms.support()  # support: [M]
        obs = tf.concat([batch["obs"], batch["next_obs"]], axis=0)  # [2B, …]
        action = tf.concat([batch["action"], choice.action], axis=0)  # [2B, A]
        net = TFNet(self._net, values, training=True)
        target_net = TFNet(net_builders.target_of(self._net), self._target, training=True)
        rows = batch["obs"].shape[0]
        logits = with_copies(self._net, net.of_rows(slice(rows), obs, action)["q"])  # [C, B, M]
        next_logits = with_copies(self._net, target_net.of_rows(slice(rows, None), obs, action)["q"])  # [C, B, M]
        following = lowest_distribution(tf.nn.softmax(next_logits), support)  # [B, M]
        reward, entropy = batch["reward"], -alpha * choice.logp  # [B], [B]
        target = soft_projected(
            reward, batch["discount"], following, entropy, self._atoms.low, self._atoms.high
        )  # [B, M]
        q, expected = self._mean(logits), tf.reduce_sum(target * support, axis=-1)  # [C, B], [B]
        stats = {"edge_mass": tf.reduce_mean(target[:, 0] + target[:, -1])}
        statistics = tuple(net.statistics[name] for name in self._running)
        return CriticLosses(cross_entropy(target, logits), q, td_error(q, expected), statistics, stats)

    def policy_value(self, values: Tensors, batch: Batch, policy: CurrentPolicy, choice: ActionChoice) -> Tensor:
        """See Critics: the means, by the running statistics."""
        return self._mean(head_of(self._net, values, "q", batch["obs"], choice.action))  # [C, B]

    def _mean(self, logits: Tensor) -> Tensor:
        """Return the means of the distributions with ``logits`` [C, B, M], [C, B]."""
        return tf.reduce_sum(tf.nn.softmax(logits) * self._atoms.support(), axis=-1)  # [C, B]

    def after_step(self, statistics: Sequence[Tensor], number: Tensor) -> None:
        """See Critics: the kernels return to the sphere, the targets follow, the running statistics move to the batch's."""
        project_columns(self._weights[name] for name in self._net.unit_names())

        def act() -> None:
            polyak_update(list(self._target.values()), list(self.trained.values()), self._tau)

        every(self._every, number, act, phase=self._every - 1)
        polyak_update([self._weights[name] for name in self._running], statistics, self._share)
