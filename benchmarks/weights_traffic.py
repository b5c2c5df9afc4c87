"""Bytes that come into a node for each version of the weights, with 1, 2 and 4 workers on it.

    python benchmarks/weights_traffic.py
    python benchmarks/weights_traffic.py --only impala --hidden 256 256 --workers 1 8

It runs itself again by ``unshare`` in namespaces of its own, where the head of a Ray and a node that joins it have a network
each, and one cable between them: what the kernel counts at the node's end is all that comes in. The learner and the parameter
server are beside the head, which has no room for workers. Between two results of a run of some seconds the bytes are divided by
the versions that were pushed: weights, calls and whatever else Ray sends. ``weights`` is the size of what a worker acts with.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from drl_cli import process

process.prepare()
process.prepare_tensorflow(1, 1, 0, "ERROR")

from drl_cli.algorithms import table  # noqa: E402
from drl_cli.envs import make  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402

HEAD, NODE, PORT = "10.9.0.1", "10.9.0.2", 6379
STORE = ["--object-store-memory", "200000000", "--disable-usage-stats"]
APART = ["unshare", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
APART += ["bash", "-c", '"$@"; exit $?', "bash"]  # a first process that waits for the children of others
JOIN_S = 120.0
SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("PPO", "CartPole-v1", {"num_sgd_iter": 1}),
    "impala": ("IMPALA", "CartPole-v1", {}),
    "sac": ("SAC", "Pendulum-v1", {"training_intensity": 16, "learning_starts": 1000}),
}
"""Name → (algorithm, environment, config)."""


def main() -> None:
    """Run the script in namespaces of its own, and there every setting with every number of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256], help="units of each hidden layer")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="broadcast_dtype")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.apart:
        if missing := [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]:
            sys.exit(f"{', '.join(missing)} (of util-linux and iproute2) is not there")
        command = [*APART, sys.executable, __file__, *sys.argv[1:], "--apart"]
        sys.exit(subprocess.run(command, check=False).returncode)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    inside = _network()
    _start_ray(inside, max(options.workers))
    print(f"{'setting':>8}  {'workers':>7}  {'weights':>9}  {'versions':>8}  {'bytes in a version':>18}  {'ratio':>5}")
    for name in options.only:
        for workers in options.workers:
            size, versions, received = _measured(name, workers, inside, options)
            each = received / versions
            print(
                f"{name:>8}  {workers:>7}  {size:>9,}  {versions:>8,}  {each:>18,.0f}  {each / size:>5.2f}", flush=True
            )


def _network() -> int:
    """Make a second network, joined to this one by a cable; return the id of a process in it."""
    # Ray notes there which cluster this machine has: not for those outside.
    Path("/tmp/ray").mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/tmp/ray"], check=True)
    inside = subprocess.Popen(["unshare", "--net", "sleep", "infinity"]).pid
    own = os.readlink("/proc/self/ns/net")
    while os.readlink(f"/proc/{inside}/ns/net") == own:
        time.sleep(0.05)
    for words in (
        "link set lo up",
        "link add head type veth peer name node",
        f"link set node netns {inside}",
        f"addr add {HEAD}/24 dev head",
        "link set head up",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    for words in ("link set lo up", f"addr add {NODE}/24 dev node", "link set node up"):
        subprocess.run([*_within(inside), "ip", *words.split()], check=True)
    return inside


def _within(inside: int) -> list[str]:
    return ["nsenter", f"--net=/proc/{inside}/ns/net"]


def _start_ray(inside: int, cpus: int) -> None:
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *STORE]
    head = ["--head", "--node-ip-address", HEAD, "--port", str(PORT), "--num-cpus", "0", "--include-dashboard", "false"]
    node = ["--address", f"{HEAD}:{PORT}", "--node-ip-address", NODE, "--num-cpus", str(cpus)]
    for command in ([*ray, *head], [*_within(inside), *ray, *node]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOIN_S, check=False)
        if done.returncode:
            sys.exit(f"a node has not started: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def _measured(name: str, workers: int, inside: int, options: argparse.Namespace) -> tuple[int, int, int]:
    """Return (bytes of the weights that act, versions pushed, bytes that came into the node meanwhile)."""
    algorithm, env_id, keys = SETTINGS[name]
    net = {"fcnet_hiddens": options.hidden}
    nets = {"policy_model": net, "Q_model": net} if name == "sac" else {"model": net}
    keys = {
        **nets,
        "num_workers": workers,
        "num_envs_per_worker": 1,
        "rollout_fragment_length": 200,
        "seed": 100,
    } | keys
    if name != "sac":
        keys["train_batch_size"] = 200 * workers
    keys |= {"evaluation_interval": None, "min_iter_time_s": 1, "broadcast_dtype": options.dtype}
    row = table.find(algorithm)
    facts = {"id": env_id, "asked": env_id, "env_config": {}, "spaces": make.check(env_id, {}, row), "imports": ()}
    run = Driver(algorithm, load(row.config).model_validate(keys), facts, {"ray": {"address": f"{HEAD}:{PORT}"}})
    try:
        run.start()
        while len(run.parts.pool.delivered()) < workers or not run.loop.ledger.updates:
            run.train()
        run.train()
        state = run.parts.learner.call("state").result()
        size = sum(state[f"default_policy/{one}"].nbytes for one in run.setup.spec.weight_names())
        began, version, bytes_in = time.monotonic(), run.loop.ledger.version, _bytes_in(inside)
        while time.monotonic() - began < options.seconds:
            run.train()
        return size, run.loop.ledger.version - version, _bytes_in(inside) - bytes_in
    finally:
        run.close()


def _bytes_in(inside: int) -> int:
    lines = Path(f"/proc/{inside}/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("node:"))


if __name__ == "__main__":
    main()
