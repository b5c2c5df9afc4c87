"""What critics of a maximum-entropy algorithm are to its update, their targets, and SAC's own: scalar, the lowest believed.

Critics are objects with
- ``trained``: {name: variable}, what their optimiser changes;
- ``variables()``: all variables but the optimiser's;
- ``values()``: {name: tensor} of what ``judge`` and ``worth`` read, once for both;
- ``judge(values, batch, acting, alpha)``: a Judgement of the batch, ``acting`` the policy (``soft_actor.Acting``);
- ``worth(values, batch, acting, choice)``: what the actor climbs with its ``choice`` in the batch's states, the lowest of
  axis 0: [C, B], or [C, B, n] for all actions;
- ``settle(statistics, number)``: what follows the optimiser's step at update ``number``.

Used by ``algorithms.sac_graph``, ``sac_discrete``, ``tqc``, ``crossq`` and ``cql``. Source of the pair: Fujimoto et al. 2018.
"""

from typing import NamedTuple

from drl_cli.algorithms.losses.value import soft_td_target, squared, td_error
from drl_cli.policies import net_builders
from drl_cli.policies.forward_tf import TFNet, values_of, variables_of
from drl_cli.tf1.polyak import every, follow
from drl_cli.tf1.tensorflow import tf


class Judgement(NamedTuple):
    """What C critics make of a batch."""

    losses: object  # [C, B]
    q: object  # [C, B]: expected returns
    error: object  # [C, B]: target − q
    statistics: tuple = ()  # of batch normalisation, for ``settle``
    stats: dict = {}  # name -> scalar, statistics beside those of every update


class Targets:
    """Copies of critics that follow them: ``net`` and ``weights`` to look with, ``settle`` to follow."""

    def __init__(self, config, net, leaders, initial, scope):
        """``net``: NetSpec of the critics; ``leaders``: {name: variable}, in the order of the net's weights."""
        self.net = net_builders.target_of(net)
        self.weights = variables_of(self.net.weight_shapes(), initial, scope, trainable=False)
        self._leaders, self._share = leaders, config.tau
        self._every = net_builders.updates_per_target_update(config)

    def settle(self, number):
        """Follow, when update ``number`` (int64 scalar) is one of those after which targets do."""

        def act():
            follow(list(self.weights.values()), list(self._leaders.values()), self._share)

        every(self._every, number, act, phase=self._every - 1)


class LowestOf:
    """SAC's critics of a state and a Box action: Q of each, [C, B], the target from the lowest of their targets."""

    def __init__(self, config, net, initial, scope):
        """``net``: NetSpec with the inputs obs and action and the head "q" of size 1."""
        self._net = net
        self.trained = variables_of(net.weight_shapes(), initial, scope)
        self._targets = Targets(config, net, self.trained, initial, scope)

    def variables(self):
        """See the module."""
        return [*self.trained.values(), *self._targets.weights.values()]

    def values(self):
        """See the module."""
        return values_of(self.trained)

    def judge(self, values, batch, acting, alpha):
        """See the module: the squared TD error of each critic."""
        following = acting.following(batch)
        next_q = first(head_of(self._targets.net, self._targets.weights, "q", batch["next_obs"], following.action))
        target = soft_td_target(batch["reward"], batch["discount"], next_q, following.logp, alpha)  # [B]
        q = first(head_of(self._net, values, "q", batch["obs"], batch["action"]))  # [C, B]
        error = td_error(q, target)  # [C, B]
        return Judgement(squared(error), q, error)

    def several(self, values, obs, action):
        """Return Q of several actions in each of ``obs`` [B, …], [C, B, M], for ``action`` [B, M, A]."""
        return first(with_copies(self._net, TFNet(self._net, values).several(obs, action)["q"]))  # [C, B, M]

    def worth(self, values, batch, acting, choice):
        """See the module."""
        return first(head_of(self._net, values, "q", batch["obs"], choice.action))  # [C, B]

    def settle(self, statistics, number):
        """See the module: the targets follow."""
        self._targets.settle(number)


def head_of(net, weights, head, *inputs):
    """Return a head of critics, [C, B, size], with the axis of the copies for a single one too."""
    return with_copies(net, TFNet(net, weights)(*inputs)[head])  # [C, B, size]


def with_copies(net, values):
    """Return ``values`` of ``net`` with a first axis of its copies: [C, …]."""
    return values if net.copies > 1 else tf.expand_dims(values, 0)


def first(values):
    """Return the only element of the last axis, […] of […, 1]."""
    return values[..., 0]
