"""The keys that the config of every algorithm has, and what follows from several of them.

Code that serves all algorithms annotates ``config: CommonKeys``. A key that only some of them have is read after an
``isinstance`` check of the section that declares it, as ``RolloutKeys`` for ``explore`` and ``BufferKeys`` for ``buffer_size``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from drl_cli.config.sections.deterministic import is_deterministic
from drl_cli.config.sections.environment import EnvironmentKeys
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.iteration import IterationKeys
from drl_cli.config.sections.model import Vision
from drl_cli.config.sections.offline import OutputKeys
from drl_cli.config.sections.replay import BufferKeys, replay_resources, shards
from drl_cli.config.sections.resources import ResourceKeys, gpus, learners, num_cpus_per_learner
from drl_cli.config.sections.rollout import WorkerKeys

LEAST_CPU = 0.001  # of a trial that asks for none: Ray reserves no empty place


class CommonKeys(EnvironmentKeys, WorkerKeys, OutputKeys, EvaluationKeys, IterationKeys, ResourceKeys):
    """Environments, workers, what is written, evaluation, iterations, placement; and a ``model``, each algorithm's own."""

    if TYPE_CHECKING:  # declared by each algorithm, after all other keys: here it would come before them
        model: Vision


def min_iter_seconds(config: CommonKeys) -> float:
    """Return the seconds that an iteration must last at least: ``min_iter_time_s`` with its null resolved."""
    if config.min_iter_time_s is not None:
        return config.min_iter_time_s
    return 1.0 if config.num_workers > 0 and not is_deterministic(config) else 0.0


def steps_per_iteration(config: CommonKeys) -> int:
    """Return the env steps that an iteration has at least: ``timesteps_per_iteration``, or one round of the loop."""
    return config.timesteps_per_iteration or config.rollout_fragment_length * config.num_envs_per_worker


def bundles(config: CommonKeys, asked: Mapping[str, float] | None = None) -> list[dict[str, float]]:
    """Return the resources of a trial of a search: a list of {"CPU": …, "GPU": …, …}, first that of its own process.

    ``asked``: RLlib's ``resources_per_trial`` (cpu, gpu, extra_cpu, extra_gpu), which replaces the CPUs and GPUs that follow
    from the config. ``gpu`` is for what learns, so that with ``learner_actor`` it is reserved for that process. Memory and
    custom resources follow from the config in any case: a part that requests what its trial has not reserved is never placed.
    """
    gpu = gpus(config)
    worker: dict[str, float] = {"memory": config.memory_per_worker, **config.custom_resources_per_worker}
    if asked is not None:
        own: dict[str, float] = {"CPU": asked.get("cpu", 1), "GPU": asked.get("gpu", 0)}
        gpu = max(gpu, own["GPU"])
        extra: dict[str, float] = {"CPU": asked.get("extra_cpu", 0), "GPU": asked.get("extra_gpu", 0)}
        others = [extra | {name: amount * config.num_workers for name, amount in worker.items()}]
    else:
        own = {"CPU": config.num_cpus_for_driver or LEAST_CPU, "GPU": gpu}
        worker |= {"CPU": config.num_cpus_per_worker, "GPU": config.num_gpus_per_worker}
        others = [worker] * config.num_workers
    if config.learner_actor:
        own["GPU"] = 0
        others.append({"GPU": gpu, **config.custom_resources_for_learner})
    others += [replay_resources(config)] * shards(config) if isinstance(config, BufferKeys) else []
    others += [{"CPU": num_cpus_per_learner(config)}] * (learners(config) - 1)
    kept = [{name: amount for name, amount in bundle.items() if amount} for bundle in (own, *others)]
    return [kept[0], *(bundle for bundle in kept[1:] if bundle)]
