"""A policy in NumPy, from a PolicySpec and its weights: used by workers, the tester and the commands.

The features of a custom model without a NumPy forward pass are computed in a session (``policies.custom_models_tf``).

``act(obs, state, rng, explore) → action, state, columns``; ``state`` is ``()`` for feed-forward nets, arrays [N, …] of the
shapes ``spec.state`` for recurrent ones, 0 at the start of an episode; ``columns``
holds data recorded for learning: log-probabilities ("logp") if the policy is ``scored``.

If the spec has a mask, all actions, including random ones, are among those that the observation allows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from drl_cli import process
from drl_cli.errors import CheckpointError, InputError
from drl_cli.extras import load
from drl_cli.policies import distributions, policy_from_manifest, team_forward
from drl_cli.policies.action_units import BoxUnits, units_of
from drl_cli.policies.composite_distributions import distribution_of
from drl_cli.policies.filters import Filter
from drl_cli.policies.forward import BlockForward, Forward
from drl_cli.policies.policy_from_manifest import DEFAULT_POLICY as DEFAULT_POLICY

if TYPE_CHECKING:
    from drl_cli.policies.custom_models import Model
    from drl_cli.policies.forward import Acting, OwnForward
    from drl_cli.policies.nets import Heads, NetSpec, State, Weights
    from drl_cli.policies.policy_spec import PolicySpec

SESSION = "drl_cli.policies.custom_models_tf:SessionFeatures"


class NumpyPolicy:
    """Acts with the first net of ``spec``; ``set_weights`` replaces the weights between two actions."""

    def __init__(self, spec: PolicySpec, weights: Weights | None = None) -> None:
        """``spec``: PolicySpec; ``weights``: {name: float32 array} or None, to be set before the first greedy action."""
        self.spec = spec
        self.is_discrete = spec.action.kind == "Discrete"
        self.is_box = spec.action.kind == "Box"
        self._units = units_of(spec.action)
        self._is_masked = bool(spec.mask) or (spec.team is not None and not self.is_box)
        self._distribution = distribution_of(spec)
        # {name: float32 array} as they were set, for exploration; None before, when nothing but ``has_weights`` is read.
        self.weights: Weights = None  # type: ignore[assignment]
        self._forward: Any = None  # a Forward, or what ``with_net`` was given; None before weights are set
        self._judges: tuple[Any, ...] = ()  # as ``_forward``
        self._filter: Filter | None = None
        self._sessions: dict[Model, OwnForward] = {}  # what runs a model that runs in a graph only
        if weights is not None:
            self.set_weights(weights)

    @property
    def is_drawn_from(self) -> bool:
        """Whether actions have log-probabilities: all but a Box that the policy names outright, and a team's values."""
        return self.spec.distribution not in ("deterministic", "joint_q")

    @property
    def has_weights(self) -> bool:
        """Whether weights have been set."""
        return self._forward is not None

    def set_weights(self, weights: Weights) -> None:
        """Act with ``weights`` ({name: float32 array} for ``spec.weight_names()``) from now on."""
        self.weights = weights
        self._forward, *judges = (self._made(net, weights) for net in self.spec.nets)
        self._judges = tuple(judges)
        self._filter = Filter(self.spec, weights) if self.spec.filter else None

    def initial_state(self, rows: int) -> State:
        """Return the recurrent state of ``rows`` fresh episodes, zeros: ``()`` for feed-forward nets."""
        return tuple(np.zeros((rows, *shape), np.float32) for shape in self.spec.state)

    def stepped(self, obs: np.ndarray, state: State, rng: np.random.Generator | None = None) -> tuple[Heads, State]:
        """Return (the acting net's heads for ``obs`` as ``heads``, the next recurrent state)."""
        if not self.spec.state:
            return self.heads(obs, rng), state
        if not self.spec.previous:
            heads, state = self._forward.run(self._given(obs), state, rng)
            return self._with_mask(heads, obs), state
        *cells, previous = state
        heads, cells = self._forward.run([self._given(obs), previous], cells, rng)
        return self._with_mask(heads, obs), (*cells, previous)

    def noted(self, state: State, action: np.ndarray) -> State:
        """Return ``state`` after ``action`` [N, …]: where the policy sees its previous action, that is the one."""
        if not self.spec.previous:
            return state
        previous = np.zeros((len(action), self.spec.previous_size), np.float32)
        # a Box within ±1 of its bounds, choices one-hot, switches as they are
        previous[:, :-1] = self._units.encoded(action)
        return (*state[:-1], previous)

    def rewarded(self, state: State, reward: Any, rows: int | slice = slice(None)) -> None:
        """Note in ``state``, in place, what came of the last action: ``reward`` of ``rows``, as the environment gave it."""
        if self.spec.previous:
            state[-1][rows, -1] = reward

    def next_state(self, obs: np.ndarray, state: State) -> State:
        """Return the recurrent state after ``obs`` whatever is done there; without weights the state stays."""
        return self.stepped(obs, state)[1] if state and self.has_weights else state

    def heads(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> Heads:
        """Return a feed-forward net's {head: float32 [N, size]} for ``obs`` [N, *stacked_shape]; ``rng``: noisy layers draw."""
        return self._with_mask(self._forward(self._given(obs), rng), obs)

    def heads_and_features(self, obs: np.ndarray) -> tuple[Heads, np.ndarray]:
        """Return the acting net's heads, as ``heads``, and the features that they see, float32 [N, F]."""
        features = self._forward.features(self._given(obs))
        return self._forward.heads(features), features

    def judged(self, obs: np.ndarray, action: np.ndarray) -> list[Heads]:
        """Return the judging nets' heads for ``obs`` [N, *stacked_shape] and ``action`` [N, A]: a list of dicts."""
        given = self._given(obs)
        return [judge([given, action]) for judge in self._judges]

    def value(self, obs: np.ndarray, state: State) -> np.ndarray:
        """Return what is expected from ``obs`` [N, *stacked_shape] and the recurrent ``state`` on, float32 [N]; if scored.

        Of a team it is the mean over its agents.
        """
        if self._judges:
            return self._judges[0](self._given(obs))["value"].mean(axis=-1)
        return self.stepped(obs, state)[0]["value"].mean(axis=-1)

    def allowed(self, obs: np.ndarray) -> np.ndarray:
        """Return which actions ``obs`` [N, …] allows, bool [N, n]: all where it allows none; only for specs with a mask.

        Of a team bool [N, A, n].
        """
        if self.spec.team:
            return team_forward.allowed(self.spec.team, obs)
        start, count = self.spec.mask
        allowed = obs[:, start : start + count] > 0.5
        return allowed | ~allowed.any(axis=-1, keepdims=True)

    def _with_mask(self, heads: Heads, obs: np.ndarray) -> Heads:
        if self.spec.mask:
            heads["allowed"] = self.allowed(obs)
        return heads

    def _given(self, obs: np.ndarray) -> np.ndarray:
        """``obs`` as the nets take it: normalised where the policy has a filter, a row of numbers unless it is an image."""
        obs = obs if self._filter is None else self._filter(obs)
        return obs if obs.ndim == 2 or self.spec.nets[0].image else obs.reshape(len(obs), -1)

    def given(self, obs: np.ndarray) -> np.ndarray:
        """Return what the nets see of ``obs`` [N, *stacked_shape]."""
        return self._given(obs)

    def with_net(self, net: Acting) -> NumpyPolicy:
        """Return a policy that is this one but acts with ``net``: a function (inputs [N, …], rng or None) → heads."""
        other = copy.copy(self)
        other._forward = net
        return other

    @property
    def has_blocks(self) -> bool:
        """Whether ``for_rows`` fits: what acts is a function of each observation, without memory or noise."""
        return self.is_discrete and not self.spec.state and not self.spec.is_noisy

    def for_rows(self, rows: np.ndarray, block: int) -> NumpyPolicy:
        """Return a policy that is this one in ``rows`` (int [n]) of the observations, and computes nothing for the others.

        ``block``: how many rows it computes together.
        """
        return self.with_net(BlockForward(self._forward, rows, block)) if self.has_weights else self

    def net_of(self, weights: Weights) -> Acting:
        """Return the acting net with other ``weights`` ({name: float32 array} of its names), for ``with_net``."""
        return self._made(self.spec.nets[0], weights)

    def _made(self, net: NetSpec, weights: Weights) -> Any:
        """A net of the policy, ready to run: a Forward, or for a team one that runs it for each agent."""
        forward = Forward(net, weights, self._own(net))
        if self.spec.team is None:
            return forward
        return team_forward.TeamForward(self.spec.team, forward, net.copies, sees_state=net.inputs[0][0] == "state")

    def _own(self, net: NetSpec) -> OwnForward | None:
        """What runs a custom model of ``net`` that cannot run in NumPy: a session, for which TensorFlow is loaded; or None."""
        if not net.custom or net.own.has_forward:
            return None
        if net.own not in self._sessions:
            with process.muted("tensorflow"):
                features: Any = load(SESSION)
                self._sessions[net.own] = features(net.own)
        return self._sessions[net.own]

    def displaced(self, heads: Heads, noise: np.ndarray) -> np.ndarray:
        """Return a Gaussian's mean in ``heads`` with ``noise`` [N, A] added, before it is squashed if it is to be."""
        return self._distribution.displaced(heads, noise)

    def greedy(self, heads: Heads) -> np.ndarray:
        """Return the greedy action for ``heads``."""
        return self._distribution.greedy(heads)

    def drawn(self, heads: Heads, rng: np.random.Generator) -> np.ndarray:
        """Return an action drawn from the distribution of ``heads`` for each row."""
        return self._distribution.sample(heads, rng)

    def entropy(self, heads: Heads) -> np.ndarray:
        """Return the entropy of the distribution of ``heads``, float32 [N]; of scored policies."""
        return self._distribution.entropy(heads)

    def masked(self, logits: np.ndarray, heads: Heads) -> np.ndarray:
        """Return ``logits`` [N, n] with the most negative number for actions that ``heads`` does not allow."""
        return distributions.fill(logits, heads)

    def values(self, heads: Heads) -> np.ndarray:
        """Return the action values [N, n] in ``heads`` of a "q" distribution."""
        return self._distribution.values(heads)

    def atoms(self, heads: Heads) -> np.ndarray:
        """Return the atoms of the action values [N, n, atoms] in ``heads`` of a "q" distribution."""
        return self._distribution.atoms(heads)

    def q_values(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Return the values of all actions, float32 [N, n]; only for policies over action values."""
        return self._distribution.values(self.heads(obs, rng))

    def act(
        self, obs: np.ndarray, state: State, rng: np.random.Generator | None, explore: bool
    ) -> tuple[np.ndarray, State, Heads]:
        """Choose actions for ``obs`` [N, *stacked_shape].

        Returns (action, the next state, {column: array [N, …]}); actions are float32 [N, A] in the policy's bounds (a
        "gaussian" leaves them), or int32 [N] or [N, k]. Exploring draws from the policy's distribution, and noisy layers
        draw their weights. Of scored policies "logp" float32 [N] is that of the action, however it was chosen.
        """
        heads, state = self.stepped(obs, state, rng if explore else None)
        if not explore:
            action = self._distribution.greedy(heads)
        elif rng is not None:
            action = self._distribution.sample(heads, rng)
        else:
            raise ValueError("exploring draws need a generator")
        return action, self.noted(state, action), self.scores(heads, action)

    def logp(self, heads: Heads, action: np.ndarray, **drawing: Any) -> np.ndarray:
        """Return the log-probability of ``action`` [N, …] as it is recorded (``recorded``) under ``heads``, float64 [N].

        Of a Box it is the log-density in the environment's units. ``drawing``: epsilon, temperature of a policy over action
        values. Only for policies that ``is_drawn_from``.
        """
        own = self._units.unscaled(action) if isinstance(self._units, BoxUnits) else self._units.as_acted(action)
        return self._distribution.logp(heads, own, **drawing).astype(np.float64) - self._units.log_scale

    def scores(self, heads: Heads, action: np.ndarray) -> Heads:
        """Return the columns that tell how likely ``action`` was under ``heads``: "logp" float32 [N] of scored policies."""
        return {"logp": self._distribution.logp(heads, action)} if self.spec.scored else {}

    def random(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return uniform actions for ``obs`` [N, …], float32 [N, A] within the policy's bounds or int32 [N, …]."""
        if self._is_masked:
            free = self.allowed(obs)
            return np.argmax(np.where(free, rng.random(free.shape), -1.0), axis=-1).astype(np.int32)
        return self._units.random(len(obs), rng)

    def random_columns(self, obs: np.ndarray) -> Heads:
        """Return the columns of ``act`` for uniform actions: the "logp" float32 [N] of scored policies."""
        if not self.spec.scored:
            return {}
        return {"logp": self._uniform_logp(obs, recorded=False)}

    def random_logp(self, obs: np.ndarray) -> np.ndarray:
        """Return the log-probability of uniform actions at ``obs`` [N, …] as they are recorded, float32 [N]."""
        return self._uniform_logp(obs, recorded=True)

    def _uniform_logp(self, obs: np.ndarray, recorded: bool) -> np.ndarray:
        """``recorded``: whether the density of a Box is that in the environment's units or in the policy's."""
        if not self._is_masked:
            return np.full(len(obs), -self._units.volume(recorded), np.float32)
        counts = self.allowed(obs).sum(axis=-1).reshape(len(obs), -1).prod(axis=-1, dtype=float)
        return -np.log(counts).astype(np.float32)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high), float32 [A] each, in which a policy over a Box acts."""
        if not isinstance(self._units, BoxUnits):
            raise TypeError(f"{self.spec.action.kind} actions have no bounds")
        return self._units.low, self._units.high

    def to_env(self, action: np.ndarray) -> np.ndarray:
        """Map the policy's actions to what the environment takes: float32 [N, A], or whole numbers [N, …] from its start on.

        Whole numbers are int64, those of MultiBinary int8: gymnasium's own. Those of a Dict or Tuple are vectors [N, A] still
        (``envs.composite_actions``), in which choices count from 0.
        """
        return self._units.to_env(action)

    def recorded(self, action: np.ndarray) -> np.ndarray:
        """Return the policy's ``action`` [N, …] as recordings hold it: a Box in the environment's units, not clipped.

        Whole numbers stay as they are: they count from 0, whatever the environment's ``start``.
        """
        return self._units.recorded(action)

    def as_acted(self, action: np.ndarray) -> np.ndarray:
        """Return a recorded ``action`` [N, …] as the policy chose it, the inverse of ``recorded``."""
        return self._units.as_acted(action)


class StoredPolicy(Protocol):
    """What is read of a ``checkpoints.Checkpoint`` to make its policy."""

    @property
    def path(self) -> object: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...

    def arrays(self, stem: str, names: Any = None, finite: bool = False) -> Mapping[str, np.ndarray]:
        """Return the arrays ``names`` of the file ``stem``."""
        ...


def policy_from_checkpoint(checkpoint: StoredPolicy) -> NumpyPolicy:
    """Build the policy that a ``checkpoint.Checkpoint`` holds; needs neither TensorFlow nor Ray.

    Raises CheckpointError when the description or the weights do not fit one another, and for one of several policies.
    """
    policies = policies_from_checkpoint(checkpoint)
    if DEFAULT_POLICY not in policies:
        raise CheckpointError(
            f"{checkpoint.path}: it holds several policies ({', '.join(policies)}), and one is needed."
        )
    return policies[DEFAULT_POLICY]


def policies_from_checkpoint(checkpoint: StoredPolicy) -> dict[str, NumpyPolicy]:
    """Build every policy that a ``checkpoint.Checkpoint`` holds, {policy id: NumpyPolicy}; see ``policy_from_checkpoint``."""
    try:
        specs = policy_from_manifest.policy_specs(checkpoint.facts)
    except InputError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    wanted = [f"{policy}/{name}" for policy, spec in specs.items() for name in spec.weight_names()]
    stored = checkpoint.arrays("weights", names=wanted, finite=True)
    found = {}
    for policy, spec in specs.items():
        try:
            found[policy] = NumpyPolicy(spec, {name: stored[f"{policy}/{name}"] for name in spec.weight_names()})
        except ValueError as error:
            named = "" if policy == DEFAULT_POLICY else f" of {policy}"
            raise CheckpointError(
                f"{checkpoint.path}: the weights{named} do not fit the policy's description: {error}"
            ) from error
    return found
