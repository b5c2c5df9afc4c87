"""Soft actor-critic for Box actions: one update as a graph.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic" (arXiv 1801.01290) and "Soft Actor-Critic Algorithms and Applications"
(arXiv 1812.05905); twin critics from Fujimoto et al. 2018; keys and their meaning from RLlib's SAC.

Deviations:
- All gradients of an update are taken at the same weights (critic, actor and temperature), then applied; the paper's
  loop applies them one after the other. XLA can then share the forward pass.
- n-step targets: ``reward`` and ``discount`` arrive summed over the real number of steps; no off-policy correction.
- ``policy_delay`` updates actor and temperature on every k-th update only, counted over all calls.
- With ``policy_average`` what acts is a running average of the learnt policy's weights (Polyak & Juditsky 1992): the
  greedy policy of a high learning rate wobbles from update to update, its average does not. Losses never see it.
- ``target_network_update_freq`` counts env steps in RLlib; here it is turned into updates with the training intensity.
"""

import numpy as np

from drl_cli.algorithms import describing, sac_nets
from drl_cli.losses.entropy import soft_policy_loss, temperature_loss
from drl_cli.losses.value import soft_td_target, squared, td_error
from drl_cli.tf1.adam import Adam, clipped
from drl_cli.tf1.build import Net, variables_of
from drl_cli.tf1.distributions import SquashedGaussian, stateless_normal
from drl_cli.tf1.graph import Gradients, LearnerGraph
from drl_cli.tf1.tensorflow import tf

RATES = tuple(f"optimization.{part}_learning_rate" for part in ("actor", "critic", "entropy"))
NEXT_ACTION, ACTION = 0, 1  # streams of random numbers within an update


def build(config, spec, initial, seed, scope):
    """Build SAC's variables in the current graph and return its LearnerGraph.

    ``config``: SACConfig; ``spec``: PolicySpec; ``initial``: {name: array} of ``sac_nets.initial_weights``; ``seed`` keys the
    noise; ``scope`` (ending in "/") goes before every variable's name.
    """
    obs_size, action_size = spec.nets[0].input_size, spec.action.size
    columns = {
        "obs": ((obs_size,), "float32"),
        "action": ((action_size,), "float32"),
        "reward": ((), "float32"),
        "discount": ((), "float32"),
        "next_obs": ((obs_size,), "float32"),
    }
    update = _Update(config, spec, initial, seed, scope)
    published = tuple(scope + name for name in spec.weight_names())
    variables = {variable.op.name: variable for variable in update.all_variables()}
    variables["num_updates"] = variables.pop(scope + "num_updates")
    return LearnerGraph(columns, RATES, variables, published, update.gradients, update.apply)


def target_entropy(config, action_size):
    """Return the entropy that the temperature steers to: −dim(A) for "auto" (1812.05905, table 1), else the number."""
    asked = config.target_entropy
    return -float(action_size) if asked in (None, "auto") else float(asked)


class _Update:
    """SAC's variables and the two halves of an update over them."""

    def __init__(self, config, spec, initial, seed, scope):
        self._config, self._seed = config, seed
        self._policy_net, self._critic_net = spec.nets[0], sac_nets.critic_spec(config, spec)
        self._target_net = describing.target_of(self._critic_net)
        self._action_size = spec.action.size
        self._distribution = SquashedGaussian(*spec.action.policy_bounds())
        self._target_entropy = target_entropy(config, spec.action.size)
        self._target_every = describing.updates_per_target_update(config)
        self._acting = variables_of(self._policy_net.weight_shapes(), initial, scope)
        self._policy = self._acting
        if config.policy_average:
            self._policy = variables_of(self._policy_net.weight_shapes(), initial, scope + "learnt_")
        self._critic = variables_of(self._critic_net.weight_shapes(), initial, scope)
        self._target = variables_of(self._target_net.weight_shapes(), initial, scope, trainable=False)
        start = {"log_alpha": np.float32(np.log(config.initial_alpha))}
        self._alpha = variables_of({"log_alpha": ()}, start, scope)
        self._number = tf.Variable(np.int64(0), name=scope + "num_updates", use_resource=True, trainable=False)
        parts = {"actor": self._policy, "critic": self._critic, "entropy": self._alpha}
        self._adam = {part: Adam(scope + part, weights) for part, weights in parts.items()}

    def all_variables(self):
        groups = [self._acting, self._critic, self._target, self._alpha, *(a.variables for a in self._adam.values())]
        if self._policy is not self._acting:
            groups.append(self._policy)
        return [variable for group in groups for variable in group.values()] + [self._number]

    def gradients(self, batch, number):
        """See LearnerGraph: gradients of the three parts for ``batch`` at update ``number``."""
        policy = {name: variable.read_value() for name, variable in self._policy.items()}
        critic = {name: variable.read_value() for name, variable in self._critic.items()}
        log_alpha = self._alpha["log_alpha"].read_value()
        critic_parts, stats = self._critic_gradients(batch, number, policy, critic, tf.exp(log_alpha))
        delay = self._config.policy_delay

        def actor():
            return self._actor_gradients(batch, number, policy, critic, log_alpha)

        def nothing():
            zeros = {name: tf.zeros_like(value) for name, value in policy.items()}
            return list(zeros.values()), [tf.zeros([])], {name: tf.zeros([]) for name in ACTOR_STATS}

        actor_parts, entropy_parts, more = actor() if delay == 1 else tf.cond(self._actor_due(number), actor, nothing)
        # Skipped updates count as zeros in a mean over updates: what was computed is scaled up to make up for them.
        stats.update({name: value * float(delay) for name, value in more.items()})
        stats["alpha_value"] = tf.exp(log_alpha)
        stats["target_entropy"] = tf.constant(self._target_entropy, tf.float32)
        checked = stats["grad_norm_critic"] + stats["grad_norm_actor"] + stats["alpha_loss"] + stats["critic_loss"]
        parts = {"critic": critic_parts, "actor": actor_parts, "entropy": entropy_parts}
        return Gradients(parts, stats, tf.math.is_finite(checked))

    def _critic_gradients(self, batch, number, policy, critic, alpha):
        # inputs: actions of the present policy in the next states
        noise = self._noise(batch, number, NEXT_ACTION)  # [B, A]
        next_action, next_logp = self._distribution.sample(Net(self._policy_net, policy)(batch["next_obs"]), noise)
        # targets
        next_q = self._q(self._target_net, self._target, batch["next_obs"], next_action)  # [C, B]
        target = soft_td_target(batch["reward"], batch["discount"], next_q, next_logp, alpha)  # [B]
        # loss: the sum over the critics of the mean over the batch
        q = self._q(self._critic_net, critic, batch["obs"], batch["action"])  # [C, B]
        error = td_error(q, target)  # [C, B]
        loss = tf.reduce_sum(tf.reduce_mean(squared(error), axis=-1))  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(critic.values())), self._config.grad_clip)
        stats = {
            "critic_loss": loss,
            "mean_td_error": tf.reduce_mean(error),
            "mean_q": tf.reduce_mean(q),
            "min_q": tf.reduce_min(q),
            "max_q": tf.reduce_max(q),
            "grad_norm_critic": norm,
        }
        return gradients, stats

    def _actor_gradients(self, batch, number, policy, critic, log_alpha):
        noise = self._noise(batch, number, ACTION)  # [B, A]
        action, logp = self._distribution.sample(Net(self._policy_net, policy)(batch["obs"]), noise)  # [B, A], [B]
        q = self._q(self._critic_net, critic, batch["obs"], action)  # [C, B]
        loss = tf.reduce_mean(soft_policy_loss(logp, q, tf.exp(log_alpha)))  # scalar
        gradients, norm = clipped(tf.gradients(loss, list(policy.values())), self._config.grad_clip)
        alpha_loss = tf.reduce_mean(temperature_loss(log_alpha, logp, self._target_entropy))  # scalar
        stats = {
            "actor_loss": loss,
            "alpha_loss": alpha_loss,
            "policy_entropy": -tf.reduce_mean(logp),
            "grad_norm_actor": norm,
        }
        entropy_gradients, _ = clipped(tf.gradients(alpha_loss, [log_alpha]), self._config.grad_clip)
        return gradients, entropy_gradients, stats

    def apply(self, parts, rates, number):
        """See LearnerGraph: change the weights with ``parts``, then let the targets follow."""
        self._adam["critic"].apply(parts["critic"], rates["optimization.critic_learning_rate"])

        def actor():
            self._adam["actor"].apply(parts["actor"], rates["optimization.actor_learning_rate"])
            self._adam["entropy"].apply(parts["entropy"], rates["optimization.entropy_learning_rate"])
            return tf.constant(0)

        _when(self._config.policy_delay == 1, self._actor_due(number), actor)
        due = tf.equal((number + 1) % self._target_every, 0)
        _when(self._target_every == 1, due, self._follow)
        if self._policy is not self._acting:
            kept = self._config.policy_average
            for name, acting in self._acting.items():
                acting.assign(kept * acting + (1.0 - kept) * self._policy[name])

    def _follow(self):
        tau = self._config.tau
        for name, variable in self._critic.items():
            target = self._target[describing.target_name(name)]
            target.assign((1.0 - tau) * target + tau * variable)
        return tf.constant(0)

    def _actor_due(self, number):
        return tf.equal(number % self._config.policy_delay, 0)

    def _noise(self, batch, number, stream):
        return stateless_normal([batch["obs"].shape[0], self._action_size], self._seed, number, stream)

    def _q(self, net, weights, obs, action):
        q = Net(net, weights)(obs, action)["q"][..., 0]  # [C, B], or [B] for a single critic
        return q if net.copies > 1 else tf.expand_dims(q, 0)


ACTOR_STATS = ("actor_loss", "alpha_loss", "policy_entropy", "grad_norm_actor")


def _when(always, due, action):
    """Run ``action`` now when ``always``, else inside a conditional on the bool scalar ``due``."""
    if always:
        action()
    else:
        tf.cond(due, action, lambda: tf.constant(0))
