"""Search spaces of ``--search-space default``: for each algorithm the keys that matter most and the range of each.

User: ``experiments.search_choices``. Values are written as in a file (``config.search_space``). Sources:

- RL Baselines3 Zoo, ``rl_zoo3/hyperparams_opt.py`` at 0a9df503: PPO, A2C, TRPO, SAC, TD3, DDPG, DQN, QR-DQN. Deviations:
  learning rates end at 0.01 instead of 1; values that need hours are left out; a batch of on-policy algorithms counts the
  steps of all environments, n_steps there those of each.
- IMPALA and APPO: learning rate and entropy after Espeholt et al. 2018 (arXiv:1802.01561), appendix.
- Offline: around what Kumar et al. 2020 (arXiv:2006.04779, CQL), Kostrikov et al. 2021 (arXiv:2110.06169, IQL) and Fujimoto
  and Gu 2021 (arXiv:2106.06860, TD3+BC) use for several data sets; MARWIL's are ours.
- PQN: around its defaults and those of Gallici et al. 2024 (arXiv:2407.04811).
- n-step returns: 1, 3 and 5 of Hessel et al. 2018 (arXiv:1710.02298). ES and ARS: ours, around the defaults.
"""

from collections.abc import Mapping
from typing import Any

from drl_cli.algorithms import table
from drl_cli.errors import ConfigError

Space = Mapping[str, Any]

GAMMA: Space = {"gamma": {"choice": [0.9, 0.95, 0.98, 0.99, 0.995, 0.999]}}
RATE = {"loguniform": [1e-5, 1e-2]}
ON_POLICY: Space = {
    **GAMMA,
    "lr": {"loguniform": [1e-5, 2e-3]},
    "lambda": {"choice": [0.8, 0.9, 0.92, 0.95, 0.98, 0.99, 1.0]},
    "entropy_coeff": {"loguniform": [1e-8, 0.1]},
    "grad_clip": {"uniform": [0.3, 2.0]},
}
CLIPPED: Space = {
    **ON_POLICY,
    "clip_param": {"choice": [0.1, 0.2, 0.3, 0.4]},
    "train_batch_size": {"choice": [512, 1024, 2048, 4096]},
    "sgd_minibatch_size": {"choice": [32, 64, 128, 256, 512]},
    "num_sgd_iter": {"choice": [1, 5, 10, 20]},
}
STREAMED: Space = {**GAMMA, "lr": {"loguniform": [5e-6, 5e-3]}, "entropy_coeff": {"loguniform": [5e-5, 1e-2]}}
REPLAYED: Space = {**GAMMA, "train_batch_size": {"choice": [64, 128, 256, 512]}, "n_step": {"choice": [1, 3, 5]}}
TAU: Space = {"tau": {"choice": [0.001, 0.005, 0.01, 0.02, 0.05, 0.08]}}
MAX_ENTROPY: Space = {
    **REPLAYED,
    "optimization.actor_learning_rate": RATE,
    "optimization.critic_learning_rate": RATE,
    "optimization.entropy_learning_rate": RATE,
}
DETERMINISTIC: Space = {**REPLAYED, **TAU, "actor_lr": RATE, "critic_lr": RATE}
NOISE: Space = {"exploration_config.stddev": {"uniform": [0.0, 1.0]}}
VALUES: Space = {
    **GAMMA,
    "lr": RATE,
    "train_batch_size": {"choice": [32, 64, 128, 256]},
    "target_network_update_freq": {"choice": [100, 250, 500, 1000, 2000]},
}
EPSILON: Space = {"exploration_config.final_epsilon": {"uniform": [0.0, 0.2]}}
WEIGHTED: Space = {"lr": RATE, "train_batch_size": {"choice": [128, 256, 512, 1024]}}


def _offline(space: Space, **own: Any) -> Space:
    return {**{key: value for key, value in space.items() if key not in ("gamma", "n_step")}, **own}


SPACES: Mapping[str, Space] = {
    "SAC": {**MAX_ENTROPY, **TAU},
    "RNNSAC": {**MAX_ENTROPY, **TAU},
    "TQC": {**MAX_ENTROPY, **TAU},
    "CROSSQ": MAX_ENTROPY,
    "XQC": {**MAX_ENTROPY, **TAU},
    "TD3": {**DETERMINISTIC, **NOISE},
    "RNNTD3": {**DETERMINISTIC, **NOISE},
    "DDPG": DETERMINISTIC,
    "APEX_DDPG": DETERMINISTIC,
    "MADDPG": {**GAMMA, **TAU, "actor_lr": RATE, "critic_lr": RATE},
    "DQN": {**VALUES, **EPSILON, "n_step": {"choice": [1, 3, 5]}},
    "QRDQN": {**VALUES, **EPSILON, "n_step": {"choice": [1, 3, 5]}},
    "SimpleQ": {**VALUES, **EPSILON},
    "APEX": {**VALUES, "n_step": {"choice": [1, 3, 5]}},
    "R2D2": {**GAMMA, "lr": RATE, "target_network_update_freq": VALUES["target_network_update_freq"], **EPSILON},
    "PQN": {
        **GAMMA,
        **EPSILON,
        "lr": RATE,
        "lambda": {"choice": [0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95]},
        "train_batch_size": {"choice": [128, 256, 512, 1024]},
        "sgd_minibatch_size": {"choice": [32, 64, 128]},
        "num_sgd_iter": {"choice": [1, 2, 4, 8]},
    },
    "VDN": {**VALUES, **EPSILON},
    "QMIX": {**VALUES, **EPSILON},
    "PPO": CLIPPED,
    "DDPPO": {key: value for key, value in CLIPPED.items() if key != "train_batch_size"},
    "MAPPO": CLIPPED,
    "TRPO": {
        **GAMMA,
        "lr": RATE,
        "lambda": ON_POLICY["lambda"],
        "max_kl": {"choice": [0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1]},
        "train_batch_size": {"choice": [512, 1024, 2048, 4096]},
    },
    "PG": {key: value for key, value in ON_POLICY.items() if key != "lambda"},
    "A2C": {**ON_POLICY, "train_batch_size": {"choice": [64, 128, 256, 512]}},
    "A3C": ON_POLICY,
    "IMPALA": STREAMED,
    "APPO": {**STREAMED, "clip_param": {"choice": [0.1, 0.2, 0.3, 0.4]}},
    "CQL": _offline({**MAX_ENTROPY, **TAU}, min_q_weight={"choice": [1.0, 5.0, 10.0]}),
    "IQL": _offline(DETERMINISTIC, beta={"choice": [0.5, 3.0, 10.0]}, expectile={"choice": [0.5, 0.7, 0.9]}),
    "TD3BC": _offline(DETERMINISTIC, alpha={"choice": [1.0, 2.0, 2.5, 3.0, 4.0]}),
    "MARWIL": {**WEIGHTED, "beta": {"choice": [0.25, 0.5, 1.0, 2.0]}},
    "BC": WEIGHTED,
    "ES": {"stepsize": {"loguniform": [0.01, 0.3]}, "noise_stdev": {"loguniform": [0.02, 0.3]}},
    "ARS": {"sgd_stepsize": {"loguniform": [0.01, 0.3]}, "noise_stdev": {"loguniform": [0.02, 0.3]}},
}
"""Name of an algorithm → {dotted key: what it is drawn from}."""


def of(run: str) -> Space:
    """Return the space of the algorithm ``run``, in any spelling. Raises ConfigError where there is none."""
    name = table.find(run).name
    if name not in SPACES:
        raise ConfigError(
            f"--search-space default: there is none for {name}. Write, say, -s 'lr={{loguniform: [1e-5, 1e-2]}}'."
        )
    return SPACES[name]
