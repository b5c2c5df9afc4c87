"""The actor of a maximum-entropy algorithm: its policy, its temperature, and which copy of the policy acts.

Used by ``algorithms.max_entropy_update_graph``. How the heads of a policy become actions is a function of its own:
``drawn`` for Box, ``algorithms.sac_discrete_graph`` has that of Discrete actions.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications" (arXiv 1812.05905); averaged iterates, Polyak
& Juditsky 1992.

Deviation: with ``policy_average`` what acts is a running average of the learnt policy's weights: the greedy policy of a
high learning rate wobbles from update to update, its average does not. Losses never see it. Running statistics of batch
normalisation are not averaged a second time but taken over: they are running averages of the same updates already, and a
second average would describe activations of weights twice as old as those that act.
"""

from typing import NamedTuple

import numpy as np

from drl_cli.algorithms.losses.entropy import expectation
from drl_cli.policies.distributions_tf import TFSquashedGaussian, allowed, masked
from drl_cli.policies.forward_tf import TFNet, values_of, variables_of
from drl_cli.tf1.polyak import follow
from drl_cli.tf1.stateless_random import stateless_normal

NEXT_ACTION, ACTION = 0, 1  # streams of random numbers within an update


class Choice(NamedTuple):
    """What a policy does in B states: one drawn action each, or a probability for every action."""

    action: object  # [B, A]; None where all n actions are weighed
    logp: object  # log π [B], or [B, n]
    probabilities: object = None  # [B, n]; None for a drawn action
    statistics: tuple = ()  # of batch normalisation in training mode, in the order of the actor's running variables

    def expected(self, values):
        """Return the expectation over the actions, [B], of ``values``: [B] for drawn actions (one draw), else [B, n]."""
        return values if self.probabilities is None else expectation(self.probabilities, values)


def drawn(spec, seed):
    """Return ``choose(heads, number, stream)`` of a squashed Gaussian: one reparametrised draw a row.

    ``spec``: PolicySpec with an ActionSpec; the noise depends on ``seed``, the update ``number`` and the ``stream`` alone.
    """
    distribution, size = TFSquashedGaussian(*spec.action.policy_bounds()), spec.action.size

    def choose(heads, number, stream):
        noise = stateless_normal([heads["mean"].shape[0], size], seed, number, stream)  # [B, A]
        return Choice(*distribution.sample(heads, noise))  # [B, A], [B]

    return choose


class Acting:
    """The policy as it stands at one update: an Actor, its weights ``values`` and the ``number`` that keys its noise."""

    def __init__(self, actor, values, number):
        """``values``: {name: tensor} of ``Actor.values``; ``number``: int64 scalar."""
        self._actor, self._values, self.number = actor, values, number

    def heads(self, obs):
        """Return {head: [B, size]} in ``obs`` [B, …]."""
        return self._actor.heads(self._values, obs)[0]

    def following(self, batch):
        """Return the Choice in the batch's next states."""
        return self._actor.choice(self._values, batch["next_obs"], (self.number, NEXT_ACTION))

    def present(self, batch):
        """Return the Choice in the batch's states, batch normalisation in training mode."""
        return self._actor.choice(self._values, batch["obs"], (self.number, ACTION), training=True)


class Actor:
    """Policy and temperature as variables. ``trained``, ``alpha``: {name: variable} for the optimisers."""

    def __init__(self, config, spec, initial, scope, choose):
        """``initial``: {name: array}; ``scope`` goes before every variable's name; ``choose`` as ``drawn`` returns it."""
        self._net, self._choose, self._kept = spec.nets[0], choose, config.policy_average
        self._mask = spec.mask
        shapes = self._net.weight_shapes()
        self._acting = self._learnt = variables_of(shapes, initial, scope)
        if config.policy_average:
            self._learnt = variables_of(shapes, initial, scope + "learnt_")
        names = self._net.trainable()
        self.trained = {name: self._learnt[name] for name in names}
        self._running = [name for name in self._learnt if name not in self.trained]
        self.alpha = variables_of({"log_alpha": ()}, {"log_alpha": np.float32(np.log(config.initial_alpha))}, scope)

    def variables(self):
        """Return all variables but the optimisers'."""
        copies = [self._acting] if self._acting is self._learnt else [self._acting, self._learnt]
        return [variable for group in (*copies, self.alpha) for variable in group.values()]

    def values(self):
        """Return {name: tensor} of the learnt policy."""
        return values_of(self._learnt)

    def heads(self, values, obs, training=False):
        """Return ({head: [B, size]} in ``obs`` [B, …] of the policy with the weights ``values``, its batch's statistics).

        ``training``: batch normalisation by the statistics of this batch, which are returned in the order of the running ones.
        """
        net = TFNet(self._net, values, training=training)
        heads = net(obs)  # [B, size] each
        if self._mask:
            heads["logits"] = masked(heads["logits"], allowed(self._mask, obs))  # [B, n]
        return heads, tuple(net.statistics[name] for name in self._running if training)

    def choice(self, values, obs, draw, training=False):
        """Return the Choice in ``obs`` [B, …] of the policy with the weights ``values``.

        ``draw``: (update number, stream) of the noise; ``training`` as for ``heads``.
        """
        heads, statistics = self.heads(values, obs, training)
        return self._choose(heads, *draw)._replace(statistics=statistics)

    def move_statistics(self, statistics, share):
        """Move the running statistics by ``share`` of the way to ``statistics`` of a batch (tensors, in their order)."""
        follow([self._learnt[name] for name in self._running], statistics, share)

    def average(self):
        """Let the copy that acts follow the learnt policy."""
        if self._acting is self._learnt:
            return
        follow([self._acting[name] for name in self.trained], list(self.trained.values()), 1.0 - self._kept)
        follow([self._acting[name] for name in self._running], [self._learnt[name] for name in self._running], 1.0)
