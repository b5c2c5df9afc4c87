"""What a search would take: the plan of its largest trial, times those that run side by side. User: ``drl train --plan``.

How many run side by side is decided by the CPUs (and GPUs) that a trial asks for, as ``search.run_search`` starts Ray. Of a Ray
that is joined nothing is known before: it is taken to be as large as this machine.
"""

import math

from drl_cli.algorithms import table
from drl_cli.checks.run_plan import Trials
from drl_cli.config.sections.resources import total
from drl_cli.extras import load
from drl_cli.runtime import footprint, machine


def largest(found):
    """Return (the ExperimentSpec whose run takes the most memory, Trials) of a search (``experiments.search_spec.Search``)."""
    spec = max(found.specs, key=_memory)
    trial = found.specs.index(spec)
    asked, ray = total(found.data["bundles"]), found.data["ray"]
    count = found.data["num_trials"]
    there = {"CPU": ray.get("num_cpus") or max(machine.cores(), math.ceil(asked.get("CPU", 0)))}
    if ray.get("num_gpus") is not None:
        there["GPU"] = ray["num_gpus"]
    fit = min((int(there[name] / asked[name] + 1e-9) for name in there if asked.get(name)), default=count)
    return spec, Trials(count, min(count, fit), trial)


def _memory(spec):
    """Return the bytes of the processes, the replay and the batches of one trial."""
    row, config = table.find(spec.run), spec.config
    policy = load(row.nets).policy_spec(config, spec.env_facts["spaces"])
    replay = footprint.replay(row, config, policy, spec.stop)
    processes = sum(count * size for _, count, size in footprint.processes(row, config, spec.ray))
    return processes + (replay.used_bytes if replay else 0) + footprint.blocks(row, config, policy)
