"""The expected time of a run: a probe of a few seconds, extrapolated to its stop rules. User: ``checks.run_plan``.

The probe (``checks.run_probe``) is one process. The time to a number of env steps follows from the rates of workers and
learner, in parallel or in turn, with no more processes at once than there are cores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drl_cli.algorithms import table
from drl_cli.checks.findings import FAIL, WARN, Finding
from drl_cli.checks.subprocess_probe import SILENT, SubprocessProbe
from drl_cli.config.sections.common import steps_per_iteration
from drl_cli.config.sections.replay import BufferKeys, intensity
from drl_cli.runtime import assembly

if TYPE_CHECKING:
    from drl_cli.algorithms.row import Algorithm
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.experiments.spec import ExperimentSpec

PROBE = "drl_cli.checks.run_probe"
PROBE_S = 4.0  # of the learner at work, after its start
PROBE_LIMIT_S = 150.0
RAY_START_S = 6.0  # measured on two idle cores; TensorFlow is loaded meanwhile


def probed(spec: ExperimentSpec, workers: int = 0) -> tuple[dict[str, Any] | None, Finding | None]:
    """Return (what ``checks.run_probe`` measured with ``workers``, None), or (None, the Finding that says why it could not).

    A run that is slow fits all the same; one that fails would fail again.
    """
    known = ("id", "asked", "env_config", "spaces", "preprocessing", "agents")
    env = {name: spec.env_facts[name] for name in known if name in spec.env_facts}
    config = spec.config.model_dump(mode="json", by_alias=True)
    question = {
        "run": spec.run,
        "config": config,
        "env": env,
        "imports": list(spec.imports),
        "seconds": PROBE_S,
        "workers": workers,
    }
    with SubprocessProbe(PROBE, question) as asked:
        answer, problem = asked.next(PROBE_LIMIT_S)
        if answer is not None:
            return answer, None
        if problem == SILENT:
            text = f"is unknown: a probe of {PROBE_LIMIT_S:.0f} s did not complete its first update"
            return None, Finding("time", WARN, text)
        return None, Finding("probe", FAIL, f"the probe of its speed failed: {asked.end()}")


def expected(
    row: Algorithm, config: CommonKeys, stop: Mapping[str, float], probe: Mapping[str, Any], cores: int
) -> dict[str, Any]:
    """Return {"seconds", "env_steps", "bound_by", "parts", "how", "is_least"} of a run to its stop rules.

    seconds: None where unknown; ``is_least``: learning could not be measured and is not in them. ``probe``: rates, see
    ``checks.run_probe``. "bound_by": the stop rule that is sure to come; goals are not predicted.
    """
    name, steps = _bound(config, stop)
    unknown = {"seconds": None, "env_steps": steps, "bound_by": name, "parts": {}, "is_least": False}
    if name is None:
        return unknown | {"how": "no stop rule is certain to be met"}
    if steps is None:
        return unknown | {"seconds": stop[name], "how": "given by the stop rule"}
    rate = probe["env_steps_per_s"]
    if not rate:
        return unknown | {"how": "nothing was sampled in the probe"}
    parts = {"start": _start(config, probe), "sampling": steps / rate}
    parts["learning"] = _updates(row, config, steps, probe) / probe["updates_per_s"] if probe["updates_per_s"] else 0.0
    parts["evaluating"] = _evaluating(config, steps, probe)
    workers = max(1, config.num_workers)
    if table.loop_name(row) in ("sync", "evolution"):
        work = parts["sampling"] / min(workers, cores) + parts["learning"]
    elif table.loop_name(row) == "decentralized":  # every worker learns from its own fragments
        work = (parts["sampling"] + parts["learning"]) / min(workers, cores)
    else:
        both = parts["sampling"] + parts["learning"]
        work = max(parts["sampling"] / min(workers, cores), parts["learning"], both / min(cores, workers + 1))
    if config.num_workers:  # the tester plays beside the rest, and takes its share of the cores
        work = max(work, (parts["sampling"] + parts["learning"] + parts["evaluating"]) / cores)
    else:
        work += parts["evaluating"]
    how = f"a probe of {probe['whole_s']:.0f} s in one process: {rate:,.0f} env steps/s for one worker"
    updates = probe["updates_per_s"]
    digits = 0 if updates and updates >= 10 else 2
    how += f", {updates:,.{digits}f} updates/s" if updates else "; no update in that time"
    estimate = {"seconds": parts["start"] + work, "env_steps": steps, "bound_by": name, "parts": parts, "how": how}
    return estimate | {"is_least": not probe["updates_per_s"]}


def _bound(config: CommonKeys, stop: Mapping[str, float]) -> tuple[str | None, float | None]:
    """Return (stop rule, env steps until it comes), (rule, None) for one of time, (None, None) where none is sure."""
    found = []
    if "timesteps_total" in stop:
        found.append(("timesteps_total", stop["timesteps_total"]))
    if "training_iteration" in stop:
        found.append(("training_iteration", stop["training_iteration"] * steps_per_iteration(config)))
    if found:
        return min(found, key=lambda pair: pair[1])
    return ("time_total_s" if "time_total_s" in stop else None), None


def _start(config: CommonKeys, probe: Mapping[str, Any]) -> float:
    start = probe["whole_s"] - probe["seconds"] + probe["start_s"]
    return start + (RAY_START_S if assembly.needs_ray(config) else 0.0)


def _updates(row: Algorithm, config: CommonKeys, steps: float, probe: Mapping[str, Any]) -> float:
    if table.learns_from_replay(row) and isinstance(config, BufferKeys):
        return max(0.0, steps - config.learning_starts) * intensity(config) / config.train_batch_size
    return steps * (probe["updates_per_env_step"] or 0.0)


def _evaluating(config: CommonKeys, steps: float, probe: Mapping[str, Any]) -> float:
    """Return the seconds of evaluations. Their episodes are taken to be half way between the probe's and the time limit."""
    if not config.evaluation_interval or not probe["episode_len_mean"]:
        return 0.0
    count = steps / steps_per_iteration(config) / config.evaluation_interval
    rounds = math.ceil(config.evaluation_num_episodes / 16)  # as many as the tester plays side by side
    length = (probe["episode_len_mean"] + (probe.get("episode_limit") or probe["episode_len_mean"])) / 2
    each = (
        config.evaluation_num_episodes * length * probe["env_s_per_step"] + rounds * length * probe["policy_s_per_call"]
    )
    return count * each
