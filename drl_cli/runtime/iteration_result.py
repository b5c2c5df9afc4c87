"""The result of one iteration: the record that stop rules, loggers and screens read, with RLlib's field names.

Used by ``runtime.driver``, which returns one for each iteration. It is plain data: JSON, and what callbacks add to it.
"""

from __future__ import annotations

from typing import Any, TypedDict

from drl_cli import events, process
from drl_cli.config.episode_metrics import policy_rewards
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.runtime import machine
from drl_cli.runtime.assembly import RunSetup, fragment_steps
from drl_cli.runtime.block_pool import SamplePool
from drl_cli.runtime.evaluator import ESTIMATES, Scoring
from drl_cli.runtime.ledger import Ledger
from drl_cli.runtime.loop_kinds import Loop
from drl_cli.runtime.meters import mean
from drl_cli.runtime.run_clock import RunClock

EDGE_MASS = 0.25  # share of C51's target mass on its two outermost atoms that is worth a warning


class Timers(TypedDict):
    """Seconds of the iteration, those of workers over all of them."""

    sample_s: float
    make_env_s: float
    learn_s: float
    sample_throughput: float | None  # env steps per second of sampling
    learn_throughput: float | None  # updates per second of learning
    start_s: float  # from making the parts to the first step
    prepare_s: float | None  # for the learner to build its graph
    wait_s: float | None  # in which the learner had nothing to do
    evaluate_s: float  # of all evaluations so far


class _Result(TypedDict):
    training_iteration: int
    timesteps_total: int
    episodes_total: int
    time_total_s: float
    episode_reward_mean: float | None
    episode_reward_max: float | None
    episode_reward_min: float | None
    episode_len_mean: float | None
    episodes_this_iter: int
    hist_stats: dict[str, list]
    sampler_perf: dict[str, float | None]
    timesteps_this_iter: int
    time_this_iter_s: float
    time_since_restore: float
    timesteps_since_restore: int
    iterations_since_restore: int
    date: str
    timestamp: int
    pid: int
    hostname: str
    node_ip: str
    num_healthy_workers: int
    num_restarts: int
    transitions_lost: int
    bad_transitions: int
    evaluation: dict[str, Any]  # the newest one, {} before the first
    timers: Timers
    perf: dict[str, float | None]
    done: bool
    info: dict[str, Any]


class IterationResult(_Result, total=False):
    """What ``Driver.train`` returns; ``config.result_names`` lists the fields with what is nested in them."""

    custom_metrics: dict[str, float | None]  # of callbacks, where they have any
    success_rate: float  # of episodes that say whether they reached their goal
    policy_reward_mean: dict[str, float]  # of several agents: return of one agent's episode, by policy id
    policy_reward_min: dict[str, float]
    policy_reward_max: dict[str, float]
    off_policy_estimator: dict[str, Any]  # where recorded episodes judge the policy


def _fragments(pool: SamplePool, ledger: Ledger) -> dict[str, int]:
    """Return what became of the fragments requested by this process; the rest is under way, waits or was dropped."""
    return {
        "fragments_requested": pool.requested,
        "fragments_learnt": ledger.fragments,
        "fragments_lost": pool.fragments_lost,
    }


class Results:
    """Makes the results of a run."""

    def __init__(self, setup: RunSetup, start_s: float, is_local: bool) -> None:
        """``start_s``: seconds that it took to make the parts; ``is_local``: no other machine takes part."""
        self._setup, self._start_s, self._is_local = setup, start_s, is_local
        self._edges_warned = False
        self._busy_before = None  # of the machine's processors, when the last iteration ended

    def close(
        self, loop: Loop, pool: SamplePool, clock: RunClock, scoring: Scoring, spent: tuple[float, int]
    ) -> IterationResult:
        """Return the result of the iteration that has just ended; ``spent``: its (seconds, env steps)."""
        (spent_s, new_steps), config = spent, self._setup.config
        closed = loop.ledger.meters.close_iteration()
        self._warn_of_edges(closed.learner.get("edge_mass"))
        target_updates = load(self._setup.row.nets).target_updates(config, loop.ledger.updates)
        ledger, meters = loop.ledger, loop.ledger.meters
        scored = dict(scoring.newest_result or {})
        estimates = scored.pop(ESTIMATES, {})
        rewards, lengths, seconds, steps = closed.rewards, closed.lengths, closed.seconds, closed.steps
        idle = max(0.0, spent_s - seconds["learn"]) if loop.is_learning else None
        # Optional fields stand where they always stood: the columns of a CSV come in this order.
        custom = {"custom_metrics": closed.custom_metrics} if closed.custom_metrics else {}
        custom |= policy_rewards(closed.policy_rewards)
        custom |= {} if closed.success_rate is None else {"success_rate": closed.success_rate}
        estimated = {ESTIMATES: estimates} if estimates else {}
        result = {
            "training_iteration": clock.iteration,
            "timesteps_total": loop.sampled,
            "episodes_total": meters.episodes,
            "time_total_s": clock.total_s,
            "episode_reward_mean": mean(rewards),
            "episode_reward_max": max(rewards, default=None),
            "episode_reward_min": min(rewards, default=None),
            "episode_len_mean": mean(lengths),
            "episodes_this_iter": closed.episodes,
            "hist_stats": {"episode_reward": rewards, "episode_lengths": lengths} | closed.hist_data,
            "sampler_perf": {
                "mean_env_wait_ms": 1e3 * seconds["env"] / steps if steps else None,
                "mean_inference_ms": 1e3 * seconds["policy"] / steps if steps else None,
            },
            **custom,
            "timesteps_this_iter": new_steps,
            "time_this_iter_s": spent_s,
            "time_since_restore": clock.total_s - clock.since.seconds,
            "timesteps_since_restore": loop.sampled - clock.since.steps,
            "iterations_since_restore": clock.iteration - clock.since.iterations,
            **machine.identity(self._is_local),
            "num_healthy_workers": pool.healthy,
            "num_restarts": pool.restarts,
            "transitions_lost": pool.fragments_lost * fragment_steps(config),
            "bad_transitions": meters.bad_transitions,
            "evaluation": scored,
            **estimated,
            "timers": {
                "sample_s": seconds["total"],
                "make_env_s": seconds["making"],
                "learn_s": seconds["learn"],
                "sample_throughput": steps / seconds["total"] if seconds["total"] else None,
                "learn_throughput": closed.updates / seconds["learn"] if seconds["learn"] else None,
                "start_s": self._start_s,
                "prepare_s": meters.prepare_seconds,
                "wait_s": idle,
                "evaluate_s": scoring.seconds,
            },
            "perf": self._use_of_machine(),
            "done": False,
            "info": {
                "num_steps_sampled": loop.sampled,
                "num_steps_trained": loop.trained(),
                "num_updates": ledger.updates,
                "num_target_updates": target_updates,
                "weight_version": ledger.version,
                "weight_lag_mean": closed.lag,
                "exploration": closed.exploration,
                "learner": self._by_policy(closed.learner),
            }
            | (_fragments(pool, ledger) if config.num_workers else {})
            | loop.info(),
        }
        return IterationResult(**result)

    def _by_policy(self, stats: dict[str, float]) -> dict[str, dict[str, float]]:
        """Return the statistics of updates by policy id; those of several policies come as "policy/name"."""
        if self._setup.policies is None:
            return {DEFAULT_POLICY: stats}
        found: dict[str, dict[str, float]] = {name: {} for name in self._setup.policies}
        for full, value in stats.items():
            name, _, what = full.partition("/")
            found[name][what] = value
        return found

    def _warn_of_edges(self, mass: float | None) -> None:
        if mass is None or mass <= EDGE_MASS or self._edges_warned:
            return
        self._edges_warned = True
        config = self._setup.config
        low, high = (getattr(config, name) for name in ("v_min", "v_max"))  # keys of DQN, whose statistic it is
        events.report(
            "warning",
            text=f"{100 * mass:.0f} % of the returns' mass sits on the outermost atoms: v_min {low:g} and v_max {high:g} are "
            "too narrow for this environment's discounted returns. Widen them.",
        )

    def _use_of_machine(self) -> dict[str, float | None]:
        if not self._setup.config.log_sys_usage:
            return {"cpu_util_percent": None, "ram_util_percent": None}
        cpu, memory, self._busy_before = process.use_of_machine(self._busy_before)
        return {"cpu_util_percent": cpu, "ram_util_percent": memory}
