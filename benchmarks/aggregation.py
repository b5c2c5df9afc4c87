"""What ``num_aggregation_workers`` of IMPALA and APPO takes off the process of the run, for large fragments.

    python benchmarks/aggregation.py                          # 0, 1 and 2 aggregators; fragments of 8 x 20 frames of 84x84x4
    python benchmarks/aggregation.py --envs 1 --fragments 32  # many small workers

Fragments of random images are in Ray's object store, where workers leave them. Without aggregators the process of the run
reads those of a batch and joins them, as the learner's thread does; with them an aggregator joins, one batch ahead for each,
and the process reads the batch. The turns of the numbers of aggregators alternate. ``driver`` is the processor time of the
process of the run, ``wall`` the time between batches if learning took none; both for one fragment.
"""

import argparse
import os
import platform
import statistics
import time
from collections import deque

from drl_cli import process

process.prepare()
process.prepare_ray()
os.environ.setdefault("RAY_worker_niceness", "0")  # aggregators compete on equal terms

import numpy as np  # noqa: E402
import ray  # noqa: E402

from drl_cli.actors.aggregator import Joining  # noqa: E402
from drl_cli.runtime.cluster import ACTOR  # noqa: E402
from drl_cli.runtime.loops.stream import AGGREGATOR  # noqa: E402
from drl_cli.runtime.ray_actors import RemoteReference  # noqa: E402
from drl_cli.runtime.ray_cluster import RayCluster  # noqa: E402

IMAGE = (84, 84, 4)
HOW = Joining(gamma=0.99, sequence=1, stepwise=(), every_end=False)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aggregators", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=20, help="of a fragment, of each environment")
    parser.add_argument("--envs", type=int, default=8, help="environments of a fragment")
    parser.add_argument("--fragments", type=int, default=4, help="of a batch")
    parser.add_argument("--batches", type=int, default=20, help="of a turn")
    parser.add_argument("--turns", type=int, default=5, help="of each number; one before them is not counted")
    options = parser.parse_args()
    size = options.steps * options.envs * np.prod(IMAGE) / 2**20
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}, "
        f"fragments of {size:.1f} MiB, {options.fragments} a batch"
    )
    store = int(2**20 * size * options.fragments * (4 + 3 * max(options.aggregators))) + 2**28
    cluster = RayCluster({"object_store_memory": store}, max(options.aggregators) + 1)
    try:
        made = [cluster.spawn(f"aggregator {i}", AGGREGATOR, (), ACTOR) for i in range(max(options.aggregators))]
        for handle in made:
            handle.ready().result()
        rng = np.random.default_rng(0)
        stored = [RemoteReference("fragment", ray.put(_fragment(rng, options))) for _ in range(options.fragments)]
        found = {count: [] for count in options.aggregators}
        for turn in range(options.turns + 1):
            for count in options.aggregators:
                took = _turn(stored, made[:count], options.batches)
                if turn:
                    found[count].append(took)
    finally:
        cluster.close()
    print(f"\n{'aggregators':>11}  {'driver µs':>10}  {'of turns':>17}  {'wall µs':>10}  {'of turns':>17}")
    for count, turns in found.items():
        cells = "  ".join(_cell(values) for values in zip(*turns, strict=True))
        print(f"{count:>11}  {cells}")


def _cell(values):
    """The median of the turns, and the least and the most of them."""
    return f"{statistics.median(values):>10,.0f}  {min(values):>7,.0f} - {max(values):>7,.0f}"


def _turn(stored, aggregators, batches):
    """Take ``batches`` batches; returns (processor time of this process, time), microseconds a fragment."""
    began, used = time.perf_counter(), time.process_time()
    if aggregators:
        ahead, asked = deque(), 0
        for _ in range(batches):
            while len(ahead) < len(aggregators) and asked < batches:
                handle = aggregators[asked % len(aggregators)]
                ahead.append(handle.call("join", HOW, *stored, returns=2)[1])
                asked += 1
            ahead.popleft().result()
    else:
        for _ in range(batches):
            HOW.batch(*[one.result() for one in stored])
    count = batches * len(stored)
    return 1e6 * (time.process_time() - used) / count, 1e6 * (time.perf_counter() - began) / count


def _fragment(rng, options):
    """A fragment as a worker of IMPALA on images leaves it: columns [T, N, …], no episode ends in it."""
    steps, envs = options.steps, options.envs
    return {
        "obs": rng.integers(0, 256, (steps, envs, *IMAGE), np.uint8),
        "action": rng.integers(0, 6, (steps, envs), np.int32),
        "reward": rng.random((steps, envs), np.float32),
        "logp": rng.random((steps, envs), np.float32),
        "terminated": np.zeros((steps, envs), bool),
        "truncated": np.zeros((steps, envs), bool),
        "end_obs": np.zeros((0, *IMAGE), np.uint8),
        "tail_obs": rng.integers(0, 256, (envs, *IMAGE), np.uint8),
    }


if __name__ == "__main__":
    main()
