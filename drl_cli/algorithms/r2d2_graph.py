"""R2D2: Q-learning with an LSTM from replayed sequences, one update as a graph.

Sources: Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning": burn-in, stored
states, priorities of sequences (section 2.3); rescaled values, Pohlen et al. 2018
(``algorithms.losses.value``); double, van Hasselt et al. 2016; dueling, Wang et al. 2016; keys and their
meaning from RLlib's R2D2 (1.13).

Deviations:
- Huber's loss instead of the square, as in RLlib; its mean over the learnt steps of all sequences of a batch.
- Every learnt step has its n-step target: a sequence brings the n observations after its last one. RLlib leaves the
  last step out.
- ``target_network_update_freq``, ``tau``, ``grad_clip`` and ``policy_average`` as in ``algorithms.dqn_graph``.
- Noisy nets draw once an update for the online net, once for the target, for whole sequences.
- Statistics of values are in returns, not on the scale that is learnt; TD errors and priorities are on that scale.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms.dqn_graph import RATES, ValueNet
from drl_cli.algorithms.learner_graph import learner_graph
from drl_cli.algorithms.losses.value import huber, looked_ahead, sequence_priority, squeezed, stretched
from drl_cli.algorithms.r2d2 import R2D2Config
from drl_cli.algorithms.sequences_graph import stored_state
from drl_cli.config.sections.replay import learnt_steps
from drl_cli.policies.distributions_tf import TFActionValues
from drl_cli.policies.forward_tf import Tensors, TFNet, values_of
from drl_cli.policies.layers_tf import layer_noise
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.tf1.graph import Batch, Gradients, LearnerGraph, sequence_columns
from drl_cli.tf1.optimizers import clipped
from drl_cli.tf1.tensorflow import Tensor, tf

NOW, NEXT = 0, 2  # streams of random numbers within an update: the online net, the target; as in DQN
KAPPA = 1.0  # where Huber's loss turns from a square into a line


def build(
    config: R2D2Config, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> LearnerGraph:
    """Build the variables in the current graph and return the LearnerGraph.

    ``spec``: PolicySpec with a state; ``initial``: {name: array} of ``r2d2.initial_weights``; ``seed`` keys the noise;
    ``scope`` (ending in "/") goes before every variable's name.
    """
    update = _R2D2Update(config, spec, initial, seed, scope)
    return learner_graph(sequence_columns(config, spec), RATES, update, spec, scope)


class _R2D2Update:
    """The variables and the two halves of an update over them."""

    def __init__(
        self, config: R2D2Config, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
    ) -> None:
        self._config, self._seed, self._spec = config, seed, spec
        self._values, self._learnt_steps = TFActionValues(spec), learnt_steps(config)
        self._nets = ValueNet(config, spec, initial, scope)
        self.variables, self.number, self.apply = self._nets.variables, self._nets.number, self._nets.apply

    def gradients(self, batch: Batch, number: Tensor) -> Gradients:
        """See LearnerGraph: gradients of the net for ``batch`` (``experience.columns``) at update ``number``."""
        steps, config = self._learnt_steps, self._config
        online, mask = values_of(self._nets.online), batch["mask"]  # mask [B, L]
        q = self._q(self._nets.net, online, batch, (number, NOW))  # [B, L + n, A]
        target_q = self._q(self._nets.target_net, self._nets.target, batch, (number, NEXT))  # [B, L + n, A]
        # targets
        obs = batch["obs"][:, config.burn_in :]  # [B, L + n, …]
        greedy = self._values.best(q if config.double_q else target_q, obs)  # [B, L + n]
        value = self._chosen(target_q, greedy)  # [B, L + n]
        bootstrap = tf.stop_gradient(looked_ahead(value, batch["ahead"]))  # [B, L]
        target = batch["reward"] + batch["discount"] * self._in_returns(bootstrap)  # [B, L]
        target = squeezed(target, config.h_function_epsilon) if config.use_h_function else target  # [B, L]
        target = tf.stop_gradient(target)  # [B, L]
        # loss: the mean over the learnt steps, each with the weight of its sequence
        taken = self._chosen(q[:, :steps], batch["action"])  # [B, L]
        error = (target - taken) * mask  # [B, L]
        rows = huber(error, KAPPA)  # [B, L]
        weighted = rows * tf.expand_dims(batch["weight"], 1) if "weight" in batch else rows  # [B, L]
        count = tf.reduce_sum(mask)  # scalar
        loss = tf.reduce_sum(weighted) / count  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(online.values())), config.grad_clip)
        values = self._in_returns(taken)  # [B, L]
        stats = {
            "loss": loss,
            "mean_td_error": tf.reduce_sum(error) / count,
            "mean_q": tf.reduce_sum(values * mask) / count,
            "min_q": tf.reduce_min(tf.where(mask > 0, values, tf.fill(values.shape, np.float32(np.inf)))),
            "max_q": tf.reduce_max(tf.where(mask > 0, values, tf.fill(values.shape, np.float32(-np.inf)))),
            "learnt_steps": count,
            "grad_norm": norm,
        }
        finite = tf.math.is_finite(loss + norm)
        return Gradients(
            {"q": gradients}, stats, finite, {"priority": sequence_priority(error, mask, config.prioritized_replay_eta)}
        )

    def _q(self, net: NetSpec, weights: Tensors, batch: Batch, draw: tuple[Tensor, int]) -> Tensor:
        """Return the values of all actions after the burn-in, [B, L + n, A]; ``draw``: (update number, stream) of the noise."""
        built, state = TFNet(net, weights, layer_noise(net, self._seed, *draw)), stored_state(self._spec, batch)
        heads, _ = built.sequence(
            batch["obs"], state, batch["begins"], self._config.burn_in, looped=bool(self._config.xla)
        )
        rows = {head: tf.reshape(y, [-1, y.shape[-1]]) for head, y in heads.items()}  # [B·(L + n), size]
        atoms = self._values.atoms(rows)  # [B·(L + n), A, 1]
        return tf.reshape(atoms, [batch["obs"].shape[0], -1, atoms.shape[1]])  # [B, L + n, A]

    def _chosen(self, q: Tensor, action: Tensor) -> Tensor:
        """Return the value of one action a step, [B, T]; ``q`` [B, T, A], ``action`` int32 [B, T]."""
        return tf.reduce_sum(q * tf.one_hot(action, q.shape[-1]), axis=-1)  # [B, T]

    def _in_returns(self, values: Tensor) -> Tensor:
        return stretched(values, self._config.h_function_epsilon) if self._config.use_h_function else values
