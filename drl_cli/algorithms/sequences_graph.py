"""What learns from sequences of a replay through an LSTM has in common: its states, its critics, its learnt steps.

Used by R2D2, RNNSAC and RNNTD3. A batch has B sequences with L learnt steps after the burn-in and n observations behind these
(``experience.columns``); R rows are the B·L learnt steps, sequence after sequence.

Sources: Kapturowski et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning", section 2.3; an LSTM of
its own for the critics, Ni et al. 2022 (arXiv 2110.05038), section 4.

Deviation: the critics share one LSTM, over observations; the action joins after it, so that Q of another action than the one
taken needs no second pass. A sequence starts with the policy's stored state, and with the critics' memory at zero: ``burn_in``
brings both up to date.
"""

import numpy as np

from drl_cli.algorithms.losses.value import sequence_priority
from drl_cli.config.sections.off_policy import RecurrentReplayKeys
from drl_cli.policies.forward_tf import Tensors, TFNet
from drl_cli.policies.policy_spec import NetSpec, PolicySpec
from drl_cli.tf1.graph import Batch
from drl_cli.tf1.tensorflow import Tensor, tf


def stored_state(spec: PolicySpec, batch: Batch) -> tuple[Tensor, ...]:
    """Return the policy's state at the start of each sequence, [B, H] each; zeros where the replay holds none."""
    rows = batch["obs"].shape[0]
    return tuple(
        batch[f"state_{index}"] if f"state_{index}" in batch else tf.zeros([rows, *shape])
        for index, shape in enumerate(spec.state)
    )


def policy_heads(
    config: RecurrentReplayKeys, spec: PolicySpec, net: NetSpec, weights: Tensors, batch: Batch
) -> Tensors:
    """Return the heads of a policy after the burn-in, {head: [B, L + n, A]}; ``net`` is that of ``spec``, or its target."""
    skip, looped = config.burn_in, bool(config.xla)
    heads, _ = TFNet(net, weights).sequence(batch["obs"], stored_state(spec, batch), batch["begins"], skip, looped)
    return heads


class RecurrentCritics:
    """Critics with a memory: an LSTM over observations, and C critics over what it says and an action."""

    def __init__(self, config: RecurrentReplayKeys, memory: NetSpec, critic: NetSpec) -> None:
        """``memory``, ``critic``: as ``net_builders.recurrent_critics`` returns them, or their targets."""
        self._config, self._memory, self._critic = config, memory, critic

    def memories(self, weights: Tensors, batch: Batch, steps: int) -> Tensor:
        """Return what the LSTM says of the first ``steps`` steps after the burn-in, [B·steps, H]."""
        net, skip = self._memory, self._config.burn_in
        obs, begins = batch["obs"][:, : skip + steps], batch["begins"][:, : skip + steps]  # [B, burn_in + steps, …]
        state = (tf.zeros([obs.shape[0], net.lstm]),) * 2
        found, _ = TFNet(net, weights).memories(obs, state, begins, skip, looped=bool(self._config.xla))
        return tf.reshape(found, [-1, net.lstm])  # [B·steps, H]

    def q(self, weights: Tensors, memories: Tensor, action: Tensor) -> Tensor:
        """Return Q of each critic, [C, R], for ``memories`` [R, H] and ``action`` [R, A]."""
        q = TFNet(self._critic, weights)(memories, action)["q"][..., 0]  # [C, R], or [R] for a single critic
        return q if self._critic.copies > 1 else tf.expand_dims(q, 0)  # [C, R]


class LearntSteps:
    """The learnt steps of a batch as R rows: ``mask`` [R], 0 in padding; ``count``, how many there are.

    ``share`` [R]: what each contributes to a loss, the mean over the learnt steps, each with the weight of its sequence.
    """

    def __init__(self, batch: Batch) -> None:
        self._mask = batch["mask"]  # [B, L]
        self.mask = tf.reshape(self._mask, [-1])
        self.count = tf.reduce_sum(self.mask)
        share = self._mask / self.count  # [B, L]
        share = share * tf.expand_dims(batch["weight"], 1) if "weight" in batch else share
        self.share = tf.reshape(share, [-1])

    def statistics(self, q: Tensor, error: Tensor) -> Tensors:
        """Return {name: scalar} of the critics' values ``q`` and errors ``error``, 0 in padding, both [C, R]."""
        far = np.float32(np.inf)
        return {
            "mean_td_error": tf.reduce_sum(tf.reduce_mean(error, axis=0)) / self.count,
            "mean_q": tf.reduce_sum(tf.reduce_mean(q, axis=0) * self.mask) / self.count,
            "min_q": tf.reduce_min(tf.where(self.mask > 0, tf.reduce_min(q, axis=0), far * tf.ones_like(self.mask))),
            "max_q": tf.reduce_max(tf.where(self.mask > 0, tf.reduce_max(q, axis=0), -far * tf.ones_like(self.mask))),
            "learnt_steps": self.count,
        }

    def priority(self, error: Tensor, eta: float) -> Tensor:
        """Return the priority of each sequence, [B], of the mean over critics of |``error``| [C, R], 0 in padding."""
        each = tf.reshape(tf.reduce_mean(tf.abs(error), axis=0), self._mask.shape)  # [B, L]
        return sequence_priority(each, self._mask, eta)
