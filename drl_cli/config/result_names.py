"""The names of an iteration's results, flattened with ``/``, and the signs that compare one with a number.

Stop rules and score attributes may name these and no others, so that a typo is refused before anything starts. Names are
RLlib's where it has them.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from drl_cli.errors import nearest

TRAINING_REWARD = "episode_reward_mean"
"""The mean reward of the last training episodes."""

EVALUATION_REWARD = "evaluation/episode_reward_mean"
"""The mean reward of the last evaluation's episodes; as a stop rule, the goal of a run."""

EVALUATION_POLICY_REWARD = "evaluation/policy_reward_mean/"
"""How the mean return of a policy's agents in the last evaluation begins; as a stop rule, the goal of a run with several."""

CONFIRMED_REWARD = "evaluation/confirmed_reward_mean"
"""The mean of the fresh episodes that confirm an evaluation which reached the goal."""

_LEARNER = "info/learner/default_policy/"

_ESTIMATED = ("step_{}", "step_{}_low", "step_{}_high", "episode_{}")

EXPLORATION_FIELDS = ("epsilon", "stddev", "scale", "temperature", "parameter_stddev", "intrinsic_reward")
"""What an exploration says of itself, the mean over the environments."""

POLICY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""What an id of a policy looks like: it is part of names of results, of arrays and of files."""

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
"""Signs of a demand: ``--assert 'episode_reward_mean>=200'``."""

TEXT_FIELDS = ("date", "hostname", "node_ip", "experiment_id", "trial_id", "done")
"""Fields that are no numbers."""

LIST_FIELDS = ("hist_stats/episode_reward", "hist_stats/episode_lengths")
"""Fields that hold a list of numbers."""

NUMBER_FIELDS = (
    TRAINING_REWARD,
    "episode_reward_max",
    "episode_reward_min",
    "episode_len_mean",
    "success_rate",
    "episodes_this_iter",
    "episodes_total",
    "training_iteration",
    "timesteps_total",
    "timesteps_this_iter",
    "timesteps_since_restore",
    "iterations_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "time_since_restore",
    "timestamp",
    "pid",
    "num_healthy_workers",
    "num_restarts",
    "transitions_lost",
    "bad_transitions",
    EVALUATION_REWARD,
    "evaluation/episode_reward_max",
    "evaluation/episode_reward_min",
    "evaluation/episode_len_mean",
    "evaluation/success_rate",
    "evaluation/episodes_this_iter",
    "evaluation/episodes_cut",
    "evaluation/training_iteration",
    "evaluation/timesteps_total",
    "evaluation/num_updates",
    CONFIRMED_REWARD,
    "evaluation/confirmed_episodes",
    "off_policy_estimator/episodes",
    "off_policy_estimator/effective_sample_size",
    *(
        f"off_policy_estimator/{method}/{name}"
        for method in ("is", "wis")
        for name in ("V_prev", *(f"V_{part.format(method.upper())}" for part in _ESTIMATED), "V_gain_est")
    ),
    "info/num_steps_sampled",
    "info/num_steps_trained",
    "info/num_updates",
    "info/num_target_updates",
    "info/training_intensity_asked",
    "info/training_intensity_got",
    "info/weight_version",
    "info/weight_lag_mean",
    "info/weight_lag_max",
    "info/fragments_requested",
    "info/fragments_learnt",
    "info/fragments_lost",
    "info/fragments_dropped",
    "info/fragments_cut_short",
    "info/workers_unequal",
    "info/fragments_late",
    "info/queue_size",
    "info/queue_capacity",
    "info/batches_joined",
    "info/aggregate_s",
    "info/num_steps_replayed",
    "info/num_steps_read",
    "info/num_episodes_read",
    "info/read_reward_mean",
    "info/read_reward_min",
    "info/read_reward_max",
    "info/num_passes",
    "info/replay_size",
    "info/replay_capacity",
    "info/replay_shards",
    *(f"info/exploration/{name}" for name in EXPLORATION_FIELDS),
    *(
        _LEARNER + name
        for name in (
            "mean_q",
            "min_q",
            "max_q",
            "mean_td_error",
            "actor_loss",
            "critic_loss",
            "alpha_loss",
            "alpha_value",
            "target_entropy",
            "alpha_choices",
            "target_entropy_choices",
            "policy_entropy",
            "grad_norm_critic",
            "grad_norm_actor",
            "loss",
            "grad_norm",
            "edge_mass",
            "learnt_steps",
            "total_loss",
            "policy_loss",
            "vf_loss",
            "vf_explained_var",
            "entropy",
            "entropy_coeff",
            "cur_lr",
            "kl",
            "clip_fraction",
            "first_kl",
            "first_clip_fraction",
            "first_ratio_deviation",
            "cur_kl_coeff",
            "surrogate_improvement",
            "expected_improvement",
            "step_fraction",
            "line_search_steps",
            "cg_residual",
            "cg_iterations",
            "grad_norm_value",
            "mean_rho",
            "max_rho",
            "behaviour_kl",
            "mean_ratio",
            "kl_coeff",
            "cql_gap",
            "alpha_prime_value",
            "alpha_prime_loss",
            "mean_advantage",
            "data_logp",
            "advantage_scale",
            "mean_advantage_weight",
            "max_advantage_weight",
        )
    ),
    "timers/start_s",
    "timers/prepare_s",
    "timers/sample_s",
    "timers/make_env_s",
    "timers/learn_s",
    "timers/wait_s",
    "timers/evaluate_s",
    "timers/sample_throughput",
    "timers/learn_throughput",
    "sampler_perf/mean_env_wait_ms",
    "sampler_perf/mean_inference_ms",
    "perf/cpu_util_percent",
    "perf/ram_util_percent",
)
"""Fields that hold one number, or null as long as there is none; what a stop rule may name."""

OWN_PREFIXES = ("custom_metrics/", "evaluation/custom_metrics/")
"""How the names of those numbers begin that callbacks report."""

RESULT_FIELDS = (*NUMBER_FIELDS, *TEXT_FIELDS, *LIST_FIELDS)
"""Every field of a result."""


_BY_POLICY = re.compile(
    r"(?:(?:evaluation/)?policy_reward_(?:mean|min|max)/(?P<rewarded>[^/]+)"
    r"|info/learner/(?P<learner>[^/]+)/(?P<statistic>[^/]+)|info/exploration/(?P<exploring>[^/]+)/(?P<exploration>[^/]+))"
)


class Goal(NamedTuple):
    """The reward at which a run has done what it was started for: an evaluation's ``field`` at ``threshold`` or above."""

    field: str  # EVALUATION_REWARD, or EVALUATION_POLICY_REWARD and the id of a policy
    threshold: float

    @property
    def reward(self) -> float | None:
        """The threshold of the episode's reward, None if the goal is a policy's own return."""
        return self.threshold if self.field == EVALUATION_REWARD else None

    def score(self, evaluation: Mapping[str, Any]) -> float | None:
        """Return what is compared with the threshold, of the nested fields of an evaluation; None where it is not there."""
        _, group, *policy = self.field.split("/", 2)
        return evaluation.get(group, {}).get(policy[0]) if policy else evaluation.get(group)

    def is_reached(self, evaluation: Mapping[str, Any]) -> bool:
        """Whether an evaluation's fields are at the goal."""
        score = self.score(evaluation)
        return score is not None and score >= self.threshold


def goal_of(rules: Mapping[str, float]) -> Goal | None:
    """Return the goal among stop rules: the evaluation's reward, else the first return of a policy in evaluations; or None."""
    fields = [field for field in rules if field.startswith(EVALUATION_POLICY_REWARD)]
    field = EVALUATION_REWARD if EVALUATION_REWARD in rules else next(iter(fields), None)
    return None if field is None else Goal(field, rules[field])


def policy_in(name: str) -> str | None:
    """Return the id of the policy that a field is of (``policy_reward_mean/ID``), None of any other field."""
    found = _BY_POLICY.fullmatch(name)
    if found is None:
        return None
    policy = found["rewarded"] or found["learner"] or found["exploring"]
    known = (
        found["rewarded"]
        or (found["statistic"] and _LEARNER + found["statistic"] in NUMBER_FIELDS)
        or found["exploration"] in EXPLORATION_FIELDS
    )
    return policy if known and POLICY_ID.fullmatch(policy) else None


def policy_problems(names: Iterable[str], policies: Sequence[str]) -> list[str]:
    """Return one line for each of ``names`` that is of a policy which a run does not have.

    ``policies``: the ids of a run with several agents, () of a run with one.
    """
    found = []
    for name in names:
        policy = policy_in(name)
        if policy is None or name in NUMBER_FIELDS or policy in policies:
            continue
        if not policies:
            found.append(f"{name} needs an environment with several agents. Name episode_reward_mean.")
            continue
        right = nearest(policy, policies, 1)
        hint = f" Did you mean '{name.replace(policy, right[0])}'?" if right else ""
        found.append(f"{name}: there is no policy {policy[:60]!r}.{hint} They are {', '.join(policies[:8])}.")
    return found


def flatten(result: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return ``{"a/b": value}`` of a nested dict, in its order; lists stay lists, empty dicts vanish."""
    flat = {}
    for key, value in result.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def is_number_field(name: str) -> bool:
    """Whether a stop rule or a ranking may name ``name``: a number of every run's results, of a policy, or of callbacks."""
    return name in NUMBER_FIELDS or name.startswith(OWN_PREFIXES) or policy_in(name) is not None


def ratings(result: Mapping[str, Any]) -> dict[str, float]:
    """Return {policy id: Elo rating} of a nested ``result``, of the policies that have one."""
    found = (result.get("info") or {}).get("learner") or {}
    return {name: own["elo"] for name, own in found.items() if isinstance(own, dict) and own.get("elo") is not None}
