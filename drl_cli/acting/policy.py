"""A policy that acts in NumPy from a PolicySpec and its weights: what workers, the tester and the commands run.

``act(obs, state, rng, explore) → action, state, columns``; ``state`` is ``()`` for feed-forward nets and ``columns``
holds what learning needs from the moment of acting (log-probabilities, values; nothing for SAC).
"""

import numpy as np

from drl_cli.errors import CheckpointError
from drl_cli.networks import distributions
from drl_cli.networks.forward import Forward
from drl_cli.networks.spec import PolicySpec

DEFAULT_POLICY = "default_policy"


class NumpyPolicy:
    """Acts with the net of ``spec``; ``set_weights`` swaps the weights between two actions."""

    def __init__(self, spec, weights=None):
        """``spec``: PolicySpec; ``weights``: {name: float32 array} or None, to be set before the first greedy action."""
        self.spec = spec
        low, high = spec.action.policy_bounds()
        self._low, self._high = low, high
        self._env_low = np.asarray(spec.action.low, np.float32)
        self._env_high = np.asarray(spec.action.high, np.float32)
        self._half, self._middle = (self._env_high - self._env_low) / 2, (self._env_high + self._env_low) / 2
        self._distribution = distributions.BY_NAME[spec.distribution](low, high)
        self._forward = None
        if weights is not None:
            self.set_weights(weights)

    @property
    def has_weights(self):
        """Whether weights have been set."""
        return self._forward is not None

    def set_weights(self, weights):
        """Act with ``weights`` ({name: float32 array} for ``spec.weight_names()``) from now on."""
        self._forward = Forward(self.spec.nets[0], weights)

    def initial_state(self, rows):
        """Return the recurrent state of ``rows`` fresh episodes: ``()`` for feed-forward nets."""
        return ()

    def act(self, obs, state, rng, explore):
        """Choose actions for ``obs`` [N, *obs_shape] float32.

        Returns (action [N, A] float32 in the policy's bounds, the next state, {column: array [N, …]}).
        """
        heads = self._forward(obs.reshape(len(obs), -1))
        action = self._distribution.sample(heads, rng) if explore else self._distribution.greedy(heads)
        return action, state, {}

    def random(self, rows, rng):
        """Return uniform actions [rows, A] float32 within the policy's bounds."""
        return rng.uniform(self._low, self._high, (rows, len(self._low))).astype(np.float32)

    def to_env(self, action):
        """Map the policy's actions [N, A] to what the environment takes, float32 [N, A]."""
        if self.spec.action.normalize:
            action = action * self._half + self._middle
        if self.spec.action.clip:
            action = np.minimum(np.maximum(action, self._env_low), self._env_high)
        return action


def policy_from_checkpoint(checkpoint):
    """Build the policy that a ``checkpoint.Checkpoint`` holds; needs neither TensorFlow nor Ray.

    Raises CheckpointError when the description or the weights do not fit one another.
    """
    policies = checkpoint.facts.get("policies")
    if not isinstance(policies, dict) or DEFAULT_POLICY not in policies:
        raise CheckpointError(f"{checkpoint.path}: the manifest holds no policy named {DEFAULT_POLICY}.")
    try:
        spec = PolicySpec.from_dict(policies[DEFAULT_POLICY])
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    prefix = DEFAULT_POLICY + "/"
    stored = checkpoint.arrays("weights", names=[prefix + name for name in spec.weight_names()], finite=True)
    weights = {name.removeprefix(prefix): array for name, array in stored.items()}
    try:
        return NumpyPolicy(spec, weights)
    except ValueError as error:
        raise CheckpointError(f"{checkpoint.path}: the weights do not fit the policy's description: {error}") from error
