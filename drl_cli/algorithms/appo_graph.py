"""APPO: IMPALA's stream and V-trace, with PPO's clipped surrogate measured against a target policy.

Three policies are kept apart: the behaviour policy μ, whose log-probabilities were recorded; the target π⁻, a copy
of the learnt one made now and then; and π, which learns. V-trace values π⁻, which changes seldom; the surrogate moves π away
from π⁻.

Sources: Luo et al. 2020, "IMPACT" (arXiv 1912.00167), section 3; Schulman et al. 2017, "Proximal Policy Optimization
Algorithms" (arXiv 1707.06347), eq. 7 and section 4 (the adaptive weight of the divergence); RLlib's APPO (1.0.1): the ratio
is min(μ⁺/π⁻, 2)·π/μ, that is π/π⁻ unless the target finds an action less than half as likely as the behaviour policy.

Deviations, beside those of ``algorithms.impala_graph``:
- The weight of the divergence is adapted by its value at the last pass before the target is copied.
- Without V-trace the ratio is π/μ, as in RLlib, and there is no other use of the target than the divergence.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from drl_cli.algorithms.impala import APPOConfig
from drl_cli.algorithms.impala_graph import OffPolicyUpdate, PolicyOutputs, evaluated, mean
from drl_cli.algorithms.losses.policy_gradient import adapted, clip_fraction, surrogate_loss
from drl_cli.algorithms.losses.vtrace import ratio_of
from drl_cli.policies.actor_critic_tf import ActorCritic
from drl_cli.policies.forward_tf import Tensors, values_of, variables_of
from drl_cli.policies.net_builders import target_name
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, BatchGraph
from drl_cli.tf1.polyak import every, polyak_update
from drl_cli.tf1.tensorflow import Tensor, tf

MOST_RATIO = 2.0  # of the behaviour policy over the target


def build(config: APPOConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph; arguments as for ``impala_graph.build``."""
    del seed
    net = ActorCritic(spec, initial, scope, looped=bool(config.xla), average=config.policy_average)
    return OffPolicyUpdate(config, spec, net, scope, ClippedSurrogate(config, net, initial, scope)).graph()


class TargetOutputs(NamedTuple):
    """The outputs of the target policy on a batch, without gradient."""

    heads: dict[str, Tensor]  # [E·T, size] each
    logp: Tensor  # of the actions taken, [E, T]


class ClippedSurrogate:
    """APPO's objective: PPO's clipped surrogate against the target policy."""

    stats: tuple[str, ...] = ("mean_ratio", "clip_fraction", "kl", "kl_coeff")

    def __init__(self, config: APPOConfig, net: ActorCritic, initial: Mapping[str, np.ndarray], scope: str) -> None:
        self._config, self._net = config, net
        # Names of the policy alone: the target needs no value.
        self._names = net.policy_names
        shapes = {name: net.variables[name].shape.as_list() for name in self._names}
        copies = {name: initial[name] for name in self._names}
        self._target = variables_of(shapes, copies, scope + target_name(""), trainable=False)
        start = np.float32(config.kl_coeff if config.use_kl_loss else 0.0)
        self._kl_coeff = tf.Variable(start, name=scope + "kl_coeff", use_resource=True, trainable=False)
        self.variables = {target_name(name): variable for name, variable in self._target.items()}
        self.variables["kl_coeff"] = self._kl_coeff
        # Counted in gradient steps: as often whether the passes of a batch follow one another or take turns with others.
        self._every = config.target_update_frequency * config.num_sgd_iter

    def before(self, batch: Batch) -> TargetOutputs:
        """See Objective: the outputs of the target, which does not move before the last pass."""
        values = self._net.values() | values_of(self._target)
        found = evaluated(self._net, values, batch)
        heads = {head: tf.stop_gradient(y) for head, y in found.heads.items()}  # [E·T, size] each
        return TargetOutputs(heads, tf.stop_gradient(found.logp))

    def log_rho(self, now: PolicyOutputs, batch: Batch, before: TargetOutputs) -> Tensor:
        """See Objective: V-trace is that of the target policy."""
        return before.logp - batch["logp"]  # [E, T]

    def policy_loss(
        self, now: PolicyOutputs, batch: Batch, before: TargetOutputs, advantage: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See Objective: the clipped surrogate, and with ``use_kl_loss`` the divergence from the target."""
        config, mask = self._config, batch["mask"]
        behaviour = batch["logp"]  # [E, T]
        ratio = ratio_of(now.logp - behaviour, mask)  # [E, T]
        if config.vtrace:
            ratio = tf.minimum(ratio_of(behaviour - before.logp, mask), MOST_RATIO) * ratio  # [E, T]
        rows = surrogate_loss(ratio, advantage, config.clip_param)  # [E, T]
        kl = tf.reshape(self._net.distribution.kl(before.heads, now.heads), mask.shape)  # [E, T]
        rows = rows + self._kl_coeff.read_value() * kl if config.use_kl_loss else rows  # [E, T]
        return rows, {
            "mean_ratio": mean(ratio, mask),
            "clip_fraction": mean(clip_fraction(ratio, config.clip_param), mask),
            "kl": mean(kl, mask),
            "kl_coeff": self._kl_coeff.read_value(),
        }

    def after(self, number: Tensor, stats: Tensors) -> None:
        """See Objective: every ``target_update_frequency`` batches, copy the policy into the target, adapt kl_coeff."""

        def copy() -> None:
            targets = [self._target[name] for name in self._names]
            polyak_update(targets, [self._net.variables[name] for name in self._names], 1.0)
            if self._config.use_kl_loss:
                present = self._kl_coeff.read_value()
                self._kl_coeff.assign(adapted(present, stats["kl"], self._config.kl_target))

        every(self._every, number, copy, phase=self._every - 1)
