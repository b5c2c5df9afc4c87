"""One learner and two of one thread each, on equal batches of PPO: seconds and processor seconds of an update, and their ratio.

    python benchmarks/learners.py                              # minibatches of 16384, a net of 2 x 512, three turns each
    python benchmarks/learners.py --minibatch 4096 --turns 5 --learners 2 3

The turns of the numbers of learners alternate, each on the same batch. ``cpu own`` and ``cpu others`` are the processor
seconds of the own process of the run and of the other learners; where learners share cores with each other or with other
programs, the ratio of wall times says little, and ``possible`` is what the processor seconds allow: those of one learner
over the largest share of several.
"""

import argparse
import os
import platform
import statistics
import time

from drl_cli import process

process.prepare()
process.prepare_tensorflow(1, 1, 0, "ERROR")
process.prepare_ray()
os.environ.setdefault("RAY_worker_niceness", "0")  # the learners compete on equal terms

import numpy as np  # noqa: E402
import psutil  # noqa: E402

from drl_cli.actors.batch_learner import BatchLearner  # noqa: E402
from drl_cli.algorithms import actor_critic_nets  # noqa: E402
from drl_cli.algorithms.ppo import PPOConfig  # noqa: E402
from drl_cli.runtime import loop_kinds  # noqa: E402
from drl_cli.runtime.cluster import ACTOR, LocalHandle  # noqa: E402
from drl_cli.runtime.ray_cluster import RayCluster  # noqa: E402

OBS, ACTIONS, STREAMS = 64, 8, 16


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minibatch", type=int, default=16384, help="steps of a gradient step")
    parser.add_argument("--hidden", type=int, default=512, help="units of each of two layers")
    parser.add_argument("--learners", type=int, nargs="+", default=[2], help="numbers of learners beside one")
    parser.add_argument("--turns", type=int, default=3, help="calls of each; one before them is not counted")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    cluster = RayCluster({"log_to_driver": False}, max(options.learners) + 1)
    try:
        counts = [1, *options.learners]
        found = {count: _Learner(cluster, count, options) for count in counts}
        fragment = _fragment(2 * options.minibatch // STREAMS)
        for turn in range(options.turns + 1):
            for learner in found.values():
                learner.learn(fragment, turn > 0)
    finally:
        cluster.close()
    one = found[1]
    print(f"\n{'learners':>8}  {'s/update':>9}  {'cpu own':>8}  {'cpu others':>10}  {'ratio':>6}  {'possible':>8}")
    for count, learner in found.items():
        own, others = (sum(part) / learner.updates for part in zip(*learner.cpu, strict=True))
        wall = statistics.median(learner.seconds)
        possible = sum(cpu for cpu, _ in one.cpu) / one.updates / max(own, others / max(1, count - 1))
        ratio = statistics.median(one.seconds) / wall
        print(f"{count:>8}  {wall:>9.4f}  {own:>8.4f}  {others:>10.4f}  {ratio:>6.2f}  {possible:>8.2f}")
        turns = ", ".join(f"{a / b:.2f}" for a, b in zip(one.seconds, learner.seconds, strict=True))
        print(f"{'':>8}  ratio of each turn: {turns}; load at the end {os.getloadavg()[0]:.1f}")
    gap = max(_gap(one.state, learner.state) for learner in found.values())
    print(f"largest difference of a weight: {gap:.1e} of the largest of its array, after {one.updates} counted updates")


class _Learner:
    """A learner with its replicas, and what its calls have taken."""

    def __init__(self, cluster, count, options):
        hidden = [options.hidden, options.hidden]
        config = PPOConfig.model_validate(
            {"num_workers": 1, "num_learners": count, "train_batch_size": 2 * options.minibatch, "num_sgd_iter": 10}
            | {"sgd_minibatch_size": options.minibatch, "xla": True, "model": {"fcnet_hiddens": hidden}}
        )
        spaces = {
            "obs": {"kind": "Box1d", "shape": (OBS,), "dtype": "float32"},
            "action": {"kind": "Discrete", "n": ACTIONS, "start": 0, "shape": ()},
            "frames": 1,
        }
        spec = actor_critic_nets.policy_spec(config, spaces)
        initial = actor_critic_nets.initial_weights(config, spec, 0)
        identity = {"seed": 0, "with_ray": False}
        args = (config, spec, "drl_cli.algorithms.ppo_graph", initial)
        made = (*args, identity.copy())
        handles = [cluster.spawn(f"learner {n}", loop_kinds.REPLICA, made, ACTOR) for n in range(1, count)]
        if handles:
            identity["replicas"] = handles
        self._others = [psutil.Process(handle.ready().result()) for handle in handles]
        self._learner = BatchLearner(*args, identity, LocalHandle("parameter server", loop_kinds.SERVER, ()))
        self._learner.prepare(STREAMS, 2 * options.minibatch // STREAMS)
        self.seconds, self.cpu, self.updates = [], [], 0

    def learn(self, fragment, counts):
        """Learn from ``fragment`` once."""
        before, began = self._cpu(), time.perf_counter()
        result = self._learner.learn(0, None, fragment)
        if counts:
            self.seconds.append((time.perf_counter() - began) / result["updates"])
            self.cpu.append([after - start for after, start in zip(self._cpu(), before, strict=True)])
            self.updates += result["updates"]

    def _cpu(self):
        times = [process.cpu_times() for process in self._others]
        return time.process_time(), sum(each.user + each.system for each in times)

    @property
    def state(self):
        """The learner's variables."""
        return self._learner.state()


def _fragment(steps):
    rng = np.random.default_rng(0)
    lead = (steps, STREAMS)
    return {
        "obs": rng.normal(0, 1, (*lead, OBS)).astype(np.float32),
        "action": rng.integers(0, ACTIONS, lead).astype(np.int32),
        "reward": rng.normal(0, 1, lead).astype(np.float32),
        "logp": np.full(lead, -np.log(ACTIONS), np.float32),
        "terminated": np.zeros(lead, bool),
        "truncated": np.zeros(lead, bool),
        "tail_obs": rng.normal(0, 1, (STREAMS, OBS)).astype(np.float32),
        "end_obs": np.zeros((0, OBS), np.float32),
        "position": np.arange(steps)[:, None].repeat(STREAMS, 1).astype(np.int32),
    }


def _gap(one, other):
    return max(np.abs(one[name] - other[name]).max() / max(np.abs(one[name]).max(), 1e-6) for name in one)


if __name__ == "__main__":
    main()
