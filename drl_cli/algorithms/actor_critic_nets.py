"""The nets of an on-policy actor-critic as plain data: PG, A2C, A3C, PPO, TRPO, IMPALA and APPO.

Keys and their meaning from RLlib's (``model``, ``vf_share_layers``, ``free_log_std``). Light, as the modules of these
algorithms, whose rows name ``NETS``.

Deviations: with an LSTM policy and value always share their layers (RLlib's do too, whatever ``vf_share_layers`` says);
log_std is bounded to [``log_std_min``, 2]. With ``lstm_use_prev_action_reward`` the previous action and reward enter in front
of the dense layers (RLlib: after them, in front of the LSTM).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drl_cli.algorithms.row import Nets
from drl_cli.algorithms.row import no_targets as target_updates
from drl_cli.config.sections.on_policy import OnPolicyKeys, StateDependentKeys

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.envs.env_spec import EnvSpec
    from drl_cli.policies.policy_spec import PolicySpec

__all__ = ["DISTRIBUTIONS", "NETS", "initial_weights", "policy_spec", "target_updates"]

DISTRIBUTIONS = {
    "Box": "gaussian",
    "Discrete": "categorical",
    "MultiDiscrete": "multi_categorical",
    "MultiBinary": "multi_bernoulli",
    "Composite": "composite",
}


def policy_spec(config: OnPolicyKeys, spaces: EnvSpec) -> PolicySpec:
    """Return the PolicySpec for ``spaces`` (see ``envs.make.describe``).

    ``config`` has the section ``model`` (RecurrentNetwork with ``free_log_std``) and ``vf_share_layers``. The first net is
    "policy"; values are a head of it, or a net "value" of the same layers.
    """
    from drl_cli.policies import custom_distributions, net_builders
    from drl_cli.policies.policy_spec import VALUE_HEAD, NetSpec, PolicySpec

    model, action = config.model, net_builders.action(config, spaces)
    about, seen = net_builders.observation(config, spaces)
    cells = model.lstm_cell_size if model.use_lstm else 0
    custom = net_builders.custom_distribution(config.model, spaces)
    heads = custom_distributions.made(custom, action).heads if custom else net_builders.drawing_heads(action)
    free = tuple(head for head, _ in heads if head.startswith("log_std")) if model.free_log_std else ()
    is_shared = config.vf_share_layers or bool(cells)
    previous = bool(cells) and model.lstm_use_prev_action_reward
    extra = (("previous", action.size + 1),) if previous else ()
    seen["inputs"] += extra
    acting = NetSpec(
        name="policy",
        layers=net_builders.layers(model),
        heads=(*heads, VALUE_HEAD) if is_shared else heads,
        lstm=cells,
        free_heads=free,
        sde=action.kind == "Box" and isinstance(config, StateDependentKeys) and config.use_sde,
        **seen,
    )
    value = NetSpec(name="value", layers=net_builders.layers(model), heads=(VALUE_HEAD,), **seen)
    return PolicySpec(
        nets=(acting,) if is_shared else (acting, value),
        distribution="custom" if custom else DISTRIBUTIONS[action.kind],
        action=action,
        state=acting.state_shapes + tuple((size,) for _, size in extra),
        scored=True,
        mask=net_builders.mask(spaces),
        previous=previous,
        custom=custom,
        log_std_min=model.log_std_min,
        **about,
    )


def initial_weights(config: OnPolicyKeys, spec: PolicySpec, seed: int) -> dict[str, np.ndarray]:
    """Return {name: float32 array} of all nets, drawn from ``seed`` alone."""
    from drl_cli.policies.nets import orthogonal_weights
    from drl_cli.randomness import generator

    rng = generator(seed, "init")
    log_std = config.model.log_std_init
    if isinstance(config, StateDependentKeys) and config.use_sde:
        log_std = config.log_std_init
    return {name: value for net in spec.nets for name, value in orthogonal_weights(net, rng, log_std).items()}


NETS = Nets(policy_spec, initial_weights, target_updates)
