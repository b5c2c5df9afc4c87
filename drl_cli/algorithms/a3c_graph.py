"""A3C in the graph: its learner applies gradients here, and workers compute them here where NumPy cannot.

The loss is that of ``algorithms.a3c_gradients``. Sources: Mnih et al. 2016 (arXiv 1602.01783), algorithm S3.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.algorithms.learner_graph import counter
from drl_cli.algorithms.losses import returns
from drl_cli.algorithms.losses.policy_gradient import explained_variance, policy_gradient_loss
from drl_cli.algorithms.losses.value import squared
from drl_cli.policies.actor_critic_tf import ActorCritic, look_at
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import Batch, GradientGraph, Rates
from drl_cli.tf1.optimizers import Adam, RMSProp, clipped
from drl_cli.tf1.tensorflow import Tensor, tf


def build(
    config: A3CConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> GradientGraph:
    """Return the GradientGraph of the learner: the weights, the optimiser that all workers share, and one step of it.

    ``initial``: {name: array}; ``scope`` (ending in "/") goes before the names of the weights. Nothing is drawn from ``seed``.
    """
    net = ActorCritic(spec, initial, scope)
    weights = {name: net.variables[name] for name in net.trained}
    number = counter(scope)
    if config.opt_type == "adam":
        optimiser = Adam(f"{scope}a3c", weights, config.adam_epsilon)
    else:
        optimiser = RMSProp(f"{scope}a3c", weights, config.decay, config.momentum, config.epsilon)

    def apply(gradients: Tensors, rates: Rates) -> dict[str, Tensor]:
        parts, norm = clipped([gradients[name] for name in weights], config.grad_clip)

        def step() -> Tensor:
            optimiser.apply(parts, rates["lr"])
            number.assign_add(1)
            return tf.constant(True)

        finite = tf.cond(tf.math.is_finite(norm), step, lambda: tf.constant(False))
        return {"norm": norm, "finite": finite}

    variables = [*net.variables.values(), *optimiser.variables.values()]
    named = {variable.op.name: variable for variable in variables} | {"num_updates": number}
    shapes = {name: tuple(variable.shape.as_list()) for name, variable in weights.items()}
    return GradientGraph(("lr",), named, net.published, shapes, apply)


def gradients(
    config: A3CConfig, net: ActorCritic, values: Tensors, batch: Batch, entropy_coeff: Tensor
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return ({name: tensor}, {name: scalar}): the gradient of the loss of a trajectory batch, and its statistics.

    ``values``: {name: tensor} of its weights; ``entropy_coeff``: float32 scalar.
    """
    heads, value, next_value = look_at(net, values, batch)  # [E·T, …], [E, T], [E, T]
    held = tf.stop_gradient(value)  # [E, T]
    if config.use_critic:
        # Whole returns, less the value, are what λ = 1 gives.
        advantage = returns.gae(batch, held, next_value, config.lambda_ if config.use_gae else 1.0)  # [E, T]
    else:
        advantage = returns.returns_to_go(batch)  # [E, T]
    target = advantage + held  # [E, T]
    share = batch["mask"] / tf.maximum(tf.reduce_sum(batch["mask"]), 1.0)  # [E, T]
    action = tf.reshape(batch["action"], [-1, *net.spec.action.shape])  # [E·T, …]
    logp = tf.reshape(net.distribution.logp(heads, action), value.shape)  # [E, T]
    entropy = tf.reshape(net.distribution.entropy(heads), value.shape)  # [E, T]
    stats = {
        "policy_loss": tf.reduce_sum(share * policy_gradient_loss(logp, advantage)),
        "entropy": tf.reduce_sum(share * entropy),
        "entropy_coeff": entropy_coeff,
    }
    loss = stats["policy_loss"] - entropy_coeff * stats["entropy"]
    if config.use_critic:
        stats["vf_loss"] = tf.reduce_sum(share * squared(value - target))
        stats["vf_explained_var"] = explained_variance(target, held, batch["mask"])
        loss += config.vf_loss_coeff * stats["vf_loss"]
    names = list(net.trained)
    found = tf.gradients(loss, [values[name] for name in names], unconnected_gradients="zero")
    return dict(zip(names, found, strict=True)), stats
