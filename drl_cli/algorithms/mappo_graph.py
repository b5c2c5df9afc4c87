"""MAPPO: everything that is done with one batch of a team's trajectories, as a graph.

What is learnt from are steps of agents, as PPO learns from steps: each with its own ratio, advantage and value. The batch was
sampled by the weights that act, so that the old log-probabilities of each agent are computed here, before the first pass; a
worker's are those of the joint action. An agent's reward stands in the observation after it (``envs.multi_agent.team``).

Source: Yu et al. 2022 (arXiv 2103.01955), appendix A: per-agent ratios and advantages, a value of the state and the agent's
observation (its "agent-specific global state"), value normalisation, death masking.

Deviations:
- The mean and deviation of value targets are those of whole batches, of which an older one counts 1 % less for each after
  it; the authors' code updates them in every minibatch, and hardly forgets.
- With ``death_masking`` an agent's episode ends with it: nothing comes after. The authors' value of a dead agent is what it
  learns to be, from shared rewards.
- Advantages are standardised over all steps of all agents that are there; agents have no memory.
"""

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms.losses.policy_gradient import explained_variance, standardized
from drl_cli.algorithms.losses.returns import gae
from drl_cli.algorithms.mappo import MAPPOConfig
from drl_cli.algorithms.on_policy_graph import OLD, Estimates, Rows
from drl_cli.algorithms.ppo_graph import Looks, PPOUpdate, batch_graph
from drl_cli.policies.actor_critic_tf import Seen, following
from drl_cli.policies.forward_tf import Tensors
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.policies.team_actor_critic_tf import TeamActorCritic
from drl_cli.policies.team_tf import TeamParts
from drl_cli.tf1.graph import Batch, BatchGraph, trajectory_columns
from drl_cli.tf1.tensorflow import Tensor, Variable, tf

KEPT = 0.99  # of the weight of a batch's value targets, at each batch after it
LEAST_DEVIATION = 1e-4  # that targets are divided by: the authors' bound of the variance, 0.01, hides small returns


def build(
    config: MAPPOConfig, spec: PolicySpec, initial: Mapping[str, np.ndarray], seed: int, scope: str
) -> BatchGraph:
    """Build the variables in the current graph and return the BatchGraph.

    ``initial``: {name: array} of ``mappo.initial_weights``; ``seed`` keys the shuffles; ``scope`` (ending in "/") goes before
    every variable's name.
    """
    net = TeamActorCritic(spec, initial, scope, config.death_masking, config.policy_average)
    norm = ValueNorm(scope, config.value_normalization)
    net.variables |= norm.variables

    def evaluate(values: Tensors, minibatch: Rows) -> tuple[Seen, Rows]:
        return net.look(values, minibatch["obs"]), minibatch

    looks = Looks(lambda batch: agent_estimates(config, net, norm, batch), evaluate)
    return batch_graph(trajectory_columns(config, spec), PPOUpdate(config, net, looks, seed, scope))


class ValueNorm:
    """Running mean and deviation of value targets; values are learnt in these units."""

    def __init__(self, scope: str, is_on: bool) -> None:
        """Without ``is_on`` values are what they are, and there are no ``variables``."""
        self.variables: dict[str, Variable] = {}
        for name in ("mean", "square", "weight") if is_on else ():
            full = f"value_norm/{name}"
            zero = np.float32(0.0)
            self.variables[full] = tf.Variable(zero, name=scope + full, use_resource=True, trainable=False)

    def original(self, values: Tensor) -> Tensor:
        """Return normalised ``values`` […] in units of return."""
        mean, deviation = self._moments()
        return values * deviation + mean  # […]

    def normalised(self, values: Tensor) -> Tensor:
        """Return ``values`` […] in units of return as they are learnt."""
        mean, deviation = self._moments()
        return (values - mean) / deviation  # […]

    def observe(self, targets: Tensor, mask: Tensor) -> None:
        """Take the valid ``targets`` of a batch into account; both […]. A batch without any changes nothing."""
        count = tf.reduce_sum(mask)
        is_new = tf.cast(count > 0.0, tf.float32) * (1.0 - KEPT)
        of_batch = [tf.reduce_sum(x * mask) / tf.maximum(count, 1.0) for x in (targets, tf.square(targets))]
        for variable, new in zip(self.variables.values(), [*of_batch, tf.ones([])], strict=False):
            variable.assign_add(is_new * (new - variable.read_value()))

    def _moments(self) -> tuple[Tensor, Tensor]:
        """The mean and the deviation, 0 and 1 before there are any."""
        if not self.variables:
            return tf.zeros([]), tf.ones([])
        mean, square, weight = (variable.read_value() for variable in self.variables.values())
        known = weight > 0.0
        mean, square = (x / tf.where(known, weight, tf.ones([])) for x in (mean, square))
        deviation = tf.sqrt(tf.maximum(square - tf.square(mean), LEAST_DEVIATION**2))
        return mean, tf.where(known, deviation, tf.ones([]))


def agent_estimates(config: MAPPOConfig, net: TeamActorCritic, norm: ValueNorm, batch: Batch) -> Estimates:
    """Return the Estimates of ``batch`` by the present weights: rows are steps of agents, [E·T·A, …]. No gradients."""
    streams, steps, size = batch["obs"].shape.as_list()
    agents, team = net.team.count, net.team
    obs = tf.reshape(batch["obs"], [streams * steps, size])  # [E·T, D]
    rows = net.rows(obs)  # [E·T·A, R]
    values = net.values()
    seen, end = net.look(values, rows), net.look(values, net.rows(batch["end_obs"]))  # [E·T·A, …], [M·A, …]
    old = net.look(net.acting_values(), rows).heads if net.averaged else seen.heads  # [E·T·A, …]
    now, last = TeamParts(team, obs), TeamParts(team, batch["end_obs"])

    def by_step(x: Tensor) -> Tensor:
        return tf.reshape(x, [streams, steps, agents])

    def after(x: Tensor, of_ends: Tensor) -> Tensor:
        return following(by_step(x), tf.reshape(of_ends, [-1, agents]), batch["end_at"])  # [E, T, A]

    value = norm.original(seen.value)  # [E·T·A]
    next_value = after(value, norm.original(end.value))  # [E, T, A]
    reward = after(now.rewards, last.rewards)  # [E, T, A]
    if config.shared_reward:
        reward = tf.repeat(batch["reward"][..., None], agents, axis=-1)  # [E, T, A]
    there, goes_on = tf.ones_like(reward), tf.ones_like(reward)  # [E, T, A]
    if config.death_masking:
        there, goes_on = by_step(now.alive), after(now.alive, last.alive)  # [E, T, A]
    columns = {"reward": reward, "discount": batch["discount"][..., None] * goes_on}
    columns |= {"trace": batch["trace"][..., None] * goes_on, "mask": batch["mask"][..., None] * there}
    lambda_ = config.lambda_ if config.use_gae else 1.0
    of_agents = {name: _as_streams(x) for name, x in columns.items()}  # [A·E, T] each
    found = gae(of_agents, _as_streams(by_step(value)), _as_streams(next_value), lambda_)  # [A·E, T]
    advantage = tf.transpose(tf.reshape(found, [agents, streams, steps]), [1, 2, 0])  # [E, T, A]
    mask, target = columns["mask"], advantage + by_step(value)  # [E, T, A]
    stats = {"vf_explained_var": explained_variance(target, by_step(value), mask)}
    norm.observe(target, mask)  # changes the units of what comes after it
    of_one = [] if team.mask[1] else [team.widest]
    action = tf.reshape(batch["action"], [streams * steps * agents, *of_one])  # [E·T·A(, n)]
    per_agent = {"mask": mask, "advantage": standardized(advantage, mask), "target": norm.normalised(target)}
    rest = {"obs": rows, "action": action, "value": seen.value, "logp": net.distribution.logp(old, action)}
    rest |= {OLD + head: y for head, y in old.items()}
    flat = {name: tf.reshape(x, [-1]) for name, x in per_agent.items()} | rest
    return Estimates({name: tf.stop_gradient(x) for name, x in flat.items()}, stats)


def _as_streams(x: Tensor) -> Tensor:
    """[E, T, A] as [A·E, T]: what each agent did in each environment."""
    streams, steps, agents = x.shape.as_list()
    return tf.reshape(tf.transpose(x, [2, 0, 1]), [agents * streams, steps])  # [A·E, T]
