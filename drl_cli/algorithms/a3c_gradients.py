"""The gradient of the actor-critic loss in NumPy, which A3C's workers compute where their nets are dense.

The loss of a fragment is the mean over its real steps of −log π(a|s)·A + c_v·½(V − R)² − c_e·H, with A and R from the
values of the same weights, no gradient through either. ``algorithms.a3c_graph`` has the same for the graph, which
computes it where there are convolutions or an LSTM; ``tests/algorithms/test_a3c_gradients.py`` holds both together.

Sources: Mnih et al. 2016 (arXiv 1602.01783), algorithm S3 and section 5.1 (entropy); the ½ and GAE are RLlib's A3C's.
"""

import numpy as np

from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.experience import advantages
from drl_cli.experience.columns import Columns
from drl_cli.policies.backward import Backward, is_differentiable
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.policies.score_gradients import BY_NAME


def is_computed(spec: PolicySpec) -> bool:
    """Whether NumPy computes the gradients of the policy ``spec``; otherwise the graph does."""
    return spec.distribution in BY_NAME and all(is_differentiable(net) for net in spec.nets)


class NumpyGradients:
    """Maps a trajectory batch of a worker to the gradient of its loss."""

    def __init__(self, config: A3CConfig, spec: PolicySpec) -> None:
        """``spec``: a PolicySpec that ``is_computed``."""
        self._config, self._spec = config, spec
        self._score = BY_NAME[spec.distribution](spec)

    def __call__(
        self, policy: NumpyPolicy, batch: Columns, entropy_coeff: float
    ) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Return ({weight name: float32 gradient}, {name: statistic}) of a trajectory batch (``experience.trajectories``).

        ``policy``: the NumpyPolicy that acted, with its weights; ``entropy_coeff``: its present value.
        """
        spec, config = self._spec, self._config
        nets = [Backward(net, policy.weights) for net in spec.nets]
        streams, steps = batch["mask"].shape
        obs = batch["obs"].reshape(streams * steps, *spec.stacked_shape)
        heads, for_policy = nets[0](policy.given(obs))
        of_value_net, for_value = nets[1](policy.given(obs)) if len(nets) > 1 else (heads, for_policy)
        value = of_value_net.pop("value")
        if spec.mask:
            heads["allowed"] = policy.allowed(obs)
        value = value[:, 0]
        advantage, target = self._advantages(policy, nets[-1], batch, value.reshape(streams, steps))
        advantage, target = advantage.ravel(), target.ravel()
        share = batch["mask"].ravel() / max(batch["mask"].sum(), np.float32(1.0))
        scored = self._score(heads, batch["action"].reshape(streams * steps, *spec.action.shape))
        of_heads = scored.gradients(-advantage * share, np.float32(-entropy_coeff) * share)
        coefficient = np.float32(config.vf_loss_coeff if config.use_critic else 0.0)
        of_value = (coefficient * (value - target) * share)[:, None]
        if len(nets) == 1:
            gradients = nets[0].gradients(for_policy, of_heads | {"value": of_value})
        else:
            gradients = nets[0].gradients(for_policy, of_heads) | nets[1].gradients(for_value, {"value": of_value})
        stats = {
            "policy_loss": -(scored.logp * advantage * share).sum(),
            "entropy": (scored.entropy * share).sum(),
            "entropy_coeff": entropy_coeff,
        }
        if config.use_critic:
            errors = target - value
            stats["vf_loss"] = 0.5 * (np.square(errors) * share).sum()
            stats["vf_explained_var"] = 1.0 - _variance(errors, share) / max(_variance(target, share), 1e-8)
        return gradients, {name: float(number) for name, number in stats.items()}

    def _advantages(
        self, policy: NumpyPolicy, net: Backward, batch: Columns, value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (advantages, the value's targets), [E, T] each; ``net`` has the value of states, ``value`` [E, T]."""
        config = self._config
        if not config.use_critic:
            target = advantages.returns_to_go(batch)
            return target, target
        real = batch["end_at"] < value.size
        ends, _ = net(policy.given(batch["end_obs"][real]))
        next_value = advantages.next_values(value, ends["value"][:, 0], batch["end_at"][real])
        # Whole returns, less the value, are what λ = 1 gives.
        advantage = advantages.gae(batch, value, next_value, config.lambda_ if config.use_gae else 1.0)
        return advantage, advantage + value


def _variance(values: np.ndarray, share: np.ndarray) -> np.floating:
    return (np.square(values - (values * share).sum()) * share).sum()
