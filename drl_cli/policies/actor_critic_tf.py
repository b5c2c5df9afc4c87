"""An actor-critic as graph variables: what a policy with values says of observations, for every algorithm that learns so.

Used by the graphs of PG, A2C, A3C, PPO, TRPO, IMPALA and APPO. ``look`` is the TensorFlow form of
``policies.numpy_policy.NumpyPolicy``: filter and mask included. ``look_at`` looks at a whole trajectory batch
(``experience.trajectories``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from drl_cli.policies import distributions_tf, filters_tf
from drl_cli.policies.forward_tf import TFNet, values_of, variables_of
from drl_cli.tf1.polyak import move_average
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.nets import Weights
    from drl_cli.policies.policy_spec import PolicySpec


class Seen(NamedTuple):
    """What is made of B observations."""

    heads: dict  # of the distribution, {name: [B, size]}; logits that the mask forbids are filled
    value: object  # what is expected from there on, [B]


class ActorCritic:
    """The nets of ``spec`` as variables.

    ``variables``: {name without scope: variable}, all of them, the moments of filters too; ``averaged``: the same of the
    running average of the trained ones, {} without one; ``published``: the exact names in the graph of those that act.
    ``trained``,
    ``policy_names``, ``value_names``: names of what gradients change, of the weights of the acting net (layers that both
    share included) and of the net for values, () where they share. ``distribution`` has ``logp(heads, action)``,
    ``entropy(heads)`` and ``kl(old, new)``, [B] each.
    """

    def __init__(
        self, spec: PolicySpec, initial: Weights, scope: str = "", looped: bool = False, average: float = 0.0
    ) -> None:
        """``spec``: PolicySpec with ``scored``; ``initial``: {name: array}; ``scope`` (ending in "/") goes before each name.

        ``looped``: an LSTM runs in a loop, for XLA, instead of step by step (see ``policies.layers_tf``); ``average``: decay
        per update of a running average of the trained weights, which is published in their place; 0: none.
        """
        self.spec, self._looped = spec, looped
        self.policy_names = tuple(spec.nets[0].trainable())
        self.value_names = tuple(name for net in spec.nets[1:] for name in net.trainable())
        self.trained = self.policy_names + self.value_names
        shapes = spec.weight_shapes()
        trained = {name: shapes[name] for name in self.trained}
        learnt = variables_of(trained, initial, scope + "learnt_" if average else scope)
        self.averaged = variables_of(trained, initial, scope, trainable=False) if average else {}
        self._average = average
        self.variables = learnt | filters_tf.variables(spec, scope)
        self.published = tuple(scope + name for name in shapes)
        self.distribution = distributions_tf.BY_NAME[spec.distribution](spec)

    def values(self) -> dict[str, Tensor]:
        """Return {name: tensor} of all variables, read once: to look with, and to differentiate by."""
        return values_of(self.variables)

    def sampled(self) -> dict[str, str]:
        """Return {published name: exact name of the trained weights} where an average of them is published, else {}."""
        return {self.averaged[name].op.name: self.variables[name].op.name for name in self.averaged}

    def acting_values(self) -> dict[str, Tensor]:
        """Return {name: tensor} of the policy that samples: of the averaged weights where there are any."""
        return values_of(self.variables | self.averaged)

    def move_average(self) -> None:
        """Move the averaged weights by an update, if there are any."""
        if self.averaged:
            move_average(list(self.averaged.values()), [self.variables[name] for name in self.averaged], self._average)

    def look(
        self, values: Tensors, obs: Tensor, state: Sequence[Tensor] | None = None, begins: Tensor | None = None
    ) -> Seen:
        """Return what the weights ``values`` ({name: tensor}) make of ``obs``, as Seen.

        Feed-forward: ``obs`` [B, …]. With an LSTM: ``obs`` [B, L, …], ``state`` (a part [B, …] each) before the first step
        and ``begins`` float32 [B, L], 1 where an episode begins, or None; Seen has B·L rows then, in the order (b, l). Where
        the spec has ``previous`` that part of the state is given for every step, [B, L, size].
        """
        acting, *judging = self.spec.nets
        if acting.lstm and state is None:
            raise ValueError("a net with an LSTM needs its recurrent state")
        given = filters_tf.normalised(obs, values)  # [B(, L), …]
        if acting.lstm and state is not None:
            beside = state[-1:] if self.spec.previous else ()  # [B, L, size]
            cells = state[: len(acting.state_shapes)]  # [B, cells] each
            heads, _ = TFNet(acting, values).sequence(given, cells, begins, looped=self._looped, beside=beside)
            heads = {head: tf.reshape(y, [-1, y.shape[-1]]) for head, y in heads.items()}  # [B·L, size]
        else:
            heads = TFNet(acting, values)(given)  # [B, size]
        judged = TFNet(judging[0], values)(given) if judging else heads
        heads = {head: y for head, y in heads.items() if head != "value"}
        if self.spec.mask:
            rows = tf.reshape(obs, [-1, obs.shape[-1]])  # [B(·L), size]
            allowed = distributions_tf.allowed(self.spec.mask, rows)  # [B(·L), n]
            heads["logits"] = distributions_tf.masked(heads["logits"], allowed)  # [B(·L), n]
        return Seen(heads, judged["value"][:, 0])


def look_at(net: ActorCritic, values: Tensors, batch: Tensors) -> tuple[Tensors, Tensor, Tensor]:
    """Look at a trajectory batch of E streams and T steps with the weights ``values`` of the ActorCritic ``net``.

    Returns (heads {name: [E·T, size]}, value [E, T], next_value [E, T]); the next value is that of the next step, after an
    end or the last step that of the real observation there (``end_obs``). Gradients flow through all three.
    """
    streams, steps = batch["obs"].shape[:2].as_list()
    trailing = batch["obs"].shape[2:].as_list()
    if net.spec.state:
        sequences = batch["state_0"].shape[1]
        rows, length = streams * sequences, steps // sequences
        obs = tf.reshape(batch["obs"], [rows, length, *trailing])  # [E·T/L, L, …]
        begins = tf.reshape(batch["begins"], [rows, length])  # [E·T/L, L]
        seen = net.look(values, obs, state_of(net, batch, "state", rows), begins)  # [E·T, …]
        ends = batch["end_obs"].shape[0]
        state = state_of(net, batch, "end_state", ends)
        end = net.look(values, tf.expand_dims(batch["end_obs"], 1), state)  # [M, …]
    else:
        seen = net.look(values, tf.reshape(batch["obs"], [streams * steps, *trailing]))  # [E·T, …]
        end = net.look(values, batch["end_obs"])  # [M, …]
    value = tf.reshape(seen.value, [streams, steps])  # [E, T]
    return seen.heads, value, following(value, end.value, batch["end_at"])


def state_of(net: ActorCritic, batch: Tensors, name: str, rows: int) -> tuple[Tensor, ...]:
    """Return the columns ``<name>_<i>`` of ``batch`` as the recurrent state of ``rows`` sequences, as ``look`` takes it."""
    shapes = [(rows, *shape) for shape in net.spec.state]
    if net.spec.previous:
        shapes[-1] = (rows, -1, net.spec.previous_size)
    return tuple(tf.reshape(batch[f"{name}_{index}"], shape) for index, shape in enumerate(shapes))


def following(values: Tensor, end_values: Tensor, end_at: Tensor) -> Tensor:
    """Return what comes after each step, [E, T, …]: at the next step in ``values`` [E, T, …], or ``end_values`` [M, …].

    ``end_at``: int32 [M], e·T + t of the steps after which the latter come; E·T is padding.
    """
    streams, steps, *trailing = values.shape.as_list()
    later = tf.concat([values[:, 1:], tf.zeros_like(values[:, :1])], axis=1)  # [E, T, …]
    flat = tf.concat(
        [tf.reshape(later, [streams * steps, *trailing]), tf.zeros([1, *trailing])], axis=0
    )  # [E·T + 1, …]
    flat = tf.tensor_scatter_nd_update(flat, tf.expand_dims(end_at, 1), end_values)  # the last one is for padding
    return tf.reshape(flat[:-1], values.shape)  # [E, T, …]
