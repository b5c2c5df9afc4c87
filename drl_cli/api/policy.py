"""A policy as a program asks about it: actions, distribution, log-likelihoods, values, nets. User: ``api.trainer``.

Method names are those of RLlib's ``Policy`` (1.x) where it has them. Everything is computed in NumPy with the trainer's present
weights. Observations and actions are in the environment's units.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drl_cli.api.compute_action import ActionComputer
from drl_cli.errors import InputError
from drl_cli.policies.action_specs import CompositeSpec
from drl_cli.policies.nets import Heads, State
from drl_cli.policies.numpy_policy import NumpyPolicy


class Preprocessor(NamedTuple):
    """What the wrappers of training do to an observation. ``shape``: of the result."""

    shape: tuple[int, ...]
    transform: Callable[[Any], np.ndarray]
    """(observation of the environment) → the array that the policy sees, without stacked frames. Raises InputError."""


class ActionDistribution:
    """The distribution over the actions of N observations, without what exploration adds to it.

    ``inputs`` float32 [N, …]: its parameters, as RLlib's ``action_dist_inputs``: logits, means and log standard deviations side
    by side, or action values.
    """

    def __init__(self, policy: NumpyPolicy, heads: Heads, acting: ActionComputer, rng: np.random.Generator) -> None:
        """``heads``: of the acting net, for N observations."""
        self._policy, self._heads, self._acting, self._rng = policy, heads, acting, rng
        self.inputs = _inputs(policy, heads)

    def sample(self) -> Any:
        """Return one random action for each observation, [N, …], a deterministic policy's own; a list of dicts or tuples."""
        return self._acting.to_env(self._policy.drawn(self._heads, self._rng))

    def deterministic_sample(self) -> Any:
        """Return the greedy actions, [N, …]; a list of dicts or tuples where the action space is one."""
        return self._acting.to_env(self._policy.greedy(self._heads))

    def logp(self, actions: Any) -> np.ndarray:
        """Return the log-probability (of a Box the log-density) of ``actions`` [N, …], float64 [N].

        A policy over action values takes the best action with probability 1. Raises InputError for deterministic policies, and
        for actions that are not N of the action space.
        """
        if not self._policy.is_drawn_from:
            raise InputError(
                "A deterministic policy over continuous actions, or one of a team's values, has no log-likelihoods."
            )
        return self._policy.logp(self._heads, self._acting.as_recorded(actions, len(self.inputs)))

    def entropy(self) -> np.ndarray:
        """Return the entropy in nats, float32 [N]. Raises InputError where it has no closed form."""
        if not self._policy.spec.scored:
            raise InputError(
                f"The entropy of the distribution {self._policy.spec.distribution!r} has no closed form here."
            )
        return self._policy.entropy(self._heads)


class Policy:
    """One policy of a Trainer. It stays valid while the trainer trains, and always acts with the present weights."""

    def __init__(self, policy_id: str, acting: Callable[[], ActionComputer], rng: np.random.Generator) -> None:
        """``acting()`` returns what acts at present."""
        self.policy_id, self._acting, self._rng = policy_id, acting, rng

    def __repr__(self) -> str:
        """Name the policy, its distribution and its observations."""
        spec = self._acting().policy.spec
        kind = spec.custom[0] if spec.custom else spec.distribution
        return f"<Policy {self.policy_id}: {kind} of observations {list(spec.stacked_shape)}>"

    def get_initial_state(self) -> list[np.ndarray]:
        """Return the recurrent state of one episode's beginning; [] without recurrent cells."""
        return [part[0] for part in self._acting().policy.initial_state(1)]

    def compute_actions(
        self, obs_batch: Any, state_batches: Sequence[Any] | None = None, explore: bool = False
    ) -> tuple[Any, list[np.ndarray], dict[str, np.ndarray]]:
        """Return (actions, next states, one array [N, …] each, and what was computed on the way, see ``fetched``).

        Actions are an array [N, …], or a list of N dicts or tuples where the action space is one.

        ``obs_batch``: N observations; where frames are stacked, whole stacks. ``state_batches``: arrays [N, …] like those of
        ``get_initial_state``; None: episodes begin. ``explore``: draw the actions. Raises InputError for what does not fit.
        """
        acting = self._acting()
        obs, state = self._given(acting, obs_batch, state_batches)
        policy = acting.policy
        heads, after = policy.stepped(obs, state)
        chosen = policy.drawn(heads, self._rng) if explore else policy.greedy(heads)
        return acting.to_env(chosen), list(policy.noted(after, chosen)), fetched(policy, obs, state, heads, chosen)

    def action_distribution(self, obs_batch: Any, state_batches: Sequence[Any] | None = None) -> ActionDistribution:
        """Return the ActionDistribution for N observations; arguments as for ``compute_actions``."""
        acting = self._acting()
        obs, state = self._given(acting, obs_batch, state_batches)
        return ActionDistribution(acting.policy, acting.policy.stepped(obs, state)[0], acting, self._rng)

    def compute_log_likelihoods(
        self, actions: Any, obs_batch: Any, state_batches: Sequence[Any] | None = None
    ) -> np.ndarray:
        """Return the log-likelihoods of ``actions`` [N, …] of N observations, float64 [N]; see ``ActionDistribution.logp``."""
        return self.action_distribution(obs_batch, state_batches).logp(actions)

    def value_function(self, obs_batch: Any, state_batches: Sequence[Any] | None = None) -> np.ndarray:
        """Return the values V(s) of N observations, float32 [N]. Raises InputError for a policy without a value net."""
        acting = self._acting()
        if not acting.policy.spec.scored:
            raise InputError("This policy estimates no state values: algorithms like PPO, A2C and IMPALA do.")
        return acting.policy.value(*self._given(acting, obs_batch, state_batches))

    def q_values(self, obs_batch: Any, state_batches: Sequence[Any] | None = None) -> np.ndarray:
        """Return the values Q(s, a) of all actions, float32 [N, actions]; the mean where Q is a distribution.

        Raises InputError for a policy that does not act by action values: those of SAC's critics, for example, are not here.
        """
        acting = self._acting()
        if acting.policy.spec.distribution != "q":
            raise InputError("This policy does not act by action values: DQN, APEX, R2D2 and their kind do.")
        obs, state = self._given(acting, obs_batch, state_batches)
        return acting.policy.values(acting.policy.stepped(obs, state)[0])

    def summary(self) -> str:
        """Return a table of the weights that act: name, shape and count of each, and the number of parameters."""
        shapes = self._acting().policy.spec.weight_shapes()
        width = max(len(name) for name in shapes)
        rows = [f"{name:<{width}}  {shape!s:<16} {math.prod(shape):>12,}" for name, shape in shapes.items()]
        total = sum(math.prod(shape) for shape in shapes.values())
        return "\n".join([repr(self)[1:-1], *rows, f"{'total':<{width}}  {'':<16} {total:>12,}"])

    def _given(
        self, acting: ActionComputer, obs_batch: Any, state_batches: Sequence[Any] | None
    ) -> tuple[np.ndarray, State]:
        """Return (observations [N, *stacked_shape], state) as the policy takes them."""
        shape = acting.policy.spec.stacked_shape
        try:
            rows = [acting.transform(obs) for obs in obs_batch]
        except TypeError:  # no batch: refused below
            rows = []
        if not rows or any(row.shape != shape for row in rows):
            raise InputError(
                f"{self.policy_id}: a batch is a list or an array of observations, which the policy sees as arrays of shape "
                f"{list(shape)}; one of them is a batch of its own: [obs]."
            )
        state = acting.policy.initial_state(len(rows))
        if state_batches is not None:
            shapes = [np.shape(part) for part in state_batches]
            if shapes != [part.shape for part in state]:
                raise InputError(f"{self.policy_id}: states of shapes {shapes}; {[part.shape for part in state]} fit.")
            state = tuple(np.array(part, np.float32) for part in state_batches)
        return np.stack(rows), state


def fetched(
    policy: NumpyPolicy, obs: np.ndarray, state: State, heads: Heads, chosen: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what RLlib calls extra fetches, arrays [N, …] of the names that it uses.

    "action_dist_inputs"; "action_logp" and "action_prob" where actions have a likelihood; "vf_preds" where there is a value
    net; "q_values" of policies over action values. ``chosen``: the actions as ``policy`` chose them.
    """
    found = {"action_dist_inputs": _inputs(policy, heads)}
    if policy.is_drawn_from:
        found["action_logp"] = policy.logp(heads, policy.recorded(chosen))
        found["action_prob"] = np.exp(found["action_logp"])
    if policy.spec.scored:
        found["vf_preds"] = policy.value(obs, state)
    if policy.spec.distribution == "q":
        found["q_values"] = policy.values(heads)
    return found


def first_row(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the first row of each of ``columns``."""
    return {name: column[0] for name, column in columns.items()}


def _inputs(policy: NumpyPolicy, heads: Heads) -> np.ndarray:
    if policy.spec.distribution == "q":
        return policy.values(heads)
    if policy.spec.custom:
        return np.concatenate([heads[name] for name, _ in policy.spec.nets[0].heads if name != "value"], axis=-1)
    if isinstance(policy.spec.action, CompositeSpec):
        names = [name for name, _ in policy.spec.nets[0].heads if name != "value"]
        return np.concatenate([heads[name] for name in names], axis=-1)
    parts = [policy.masked(heads["logits"], heads)] if "logits" in heads else []
    parts += [heads[name] for name in ("mean", "log_std", "q") if name in heads]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=-1)
