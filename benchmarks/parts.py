"""Speed of the parts: updates, acting, the replay, the command line's answers. Ratios within one run are what counts.

python benchmarks/parts.py            all
python benchmarks/parts.py updates    only those whose name contains a word
"""

import os
import statistics
import subprocess
import sys
import time

from drl_cli import process

process.prepare()
process.prepare_tensorflow(1, 1, 0)

import gymnasium  # noqa: E402  after the thread counts are set
import numpy as np  # noqa: E402

from drl_cli.actors.parameter_server import ParameterServer  # noqa: E402
from drl_cli.actors.replay_buffer import ReplayBuffer  # noqa: E402
from drl_cli.actors.rollout_worker import RolloutWorker  # noqa: E402
from drl_cli.algorithms import sac  # noqa: E402
from drl_cli.algorithms.sac import SACConfig  # noqa: E402
from drl_cli.envs import make as envs  # noqa: E402
from drl_cli.extras import load  # noqa: E402
from drl_cli.runtime.cluster import InlineCluster  # noqa: E402

ENV = "LunarLanderContinuous-v3"


def updates():
    """SAC updates/s, 2×64, batch 128, pinned to one core: K in one call against one Session.run per update."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    one = _updates_per_second(most=1, xla=False)
    one_xla = _updates_per_second(most=1, xla=True)
    many = _updates_per_second(most=50, xla=True)
    print(f"  one per Session.run, plain graph   {one:8,.0f} /s")
    print(f"  one per Session.run, XLA           {one_xla:8,.0f} /s   {one_xla / one:.2f}×")
    print(f"  50 in one call, XLA                {many:8,.0f} /s   {many / one:.2f}×")


def _updates_per_second(most, xla):
    config = SACConfig(updates_per_call=most, xla=xla, publish_every=10**6)
    spec = sac.policy_spec(config, _spaces())
    initial = sac.initial_weights(config, spec, 0)
    server = InlineCluster().spawn("server", "drl_cli.actors.parameter_server:ParameterServer", (), "here")
    learner = load("drl_cli.actors.learner:Learner")(
        config, spec, "drl_cli.algorithms.sac_graph", initial, {"seed": 0, "with_ray": False}, server
    )
    learner.prepare()
    rng = np.random.default_rng(0)
    shapes = {"obs": (8,), "action": (2,), "reward": (), "discount": (), "next_obs": (8,)}
    block = {name: rng.uniform(-1, 1, (most, 128, *shape)).astype(np.float32) for name, shape in shapes.items()}
    return _rate(lambda: learner.learn(block, most, 0), most)


def acting():
    """Env steps/s of one worker acting in NumPy, 8 envs, against make() and pre-drawn actions."""
    bare = _bare_steps_per_second()
    rate = _rate(_worker(ENV, {}, envs=8, fragment=25).collect, 8 * 25, seconds=4)
    print(f"  bare environment      {bare:8,.0f} steps/s")
    print(f"  worker, 8 envs        {rate:8,.0f} steps/s   {rate / bare:.2f}×")


def _worker(env_id, env_config, envs, fragment):
    config = SACConfig(num_envs_per_worker=envs, rollout_fragment_length=fragment)
    spec = sac.policy_spec(config, _spaces(env_id))
    initial = sac.initial_weights(config, spec, 0)
    server = InlineCluster().spawn("server", f"{ParameterServer.__module__}:ParameterServer", (), "here")
    server.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}}).result()
    identity = {"seed": 0, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": envs, "base": 0}
    return RolloutWorker(config, {"id": env_id, "env_config": env_config}, spec, identity, server)


def _bare_steps_per_second():
    env = gymnasium.make(ENV)
    actions = np.random.default_rng(0).uniform(-1, 1, (1024, 2)).astype(np.float32)
    env.reset(seed=0)

    def steps():
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return _rate(steps, len(actions), seconds=4)


class Walk(gymnasium.Env):
    """Episodes of 200 steps that compute a little; ``making_s``: seconds that its constructor sleeps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (8,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, making_s=0.0):
        time.sleep(making_s)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._at = 0, self.np_random.standard_normal(8, dtype=np.float32)
        return self._at, {}

    def step(self, action):
        self._steps += 1
        self._at = np.tanh(self._at + 0.1 * float(action[0]))
        return self._at, float(self._at[0]), False, self._steps == 200, {}


def episodes():
    """50 episodes of 200 steps where a constructor sleeps 0.5 s (the first not counted) against none that does: >= 0.95."""
    gymnasium.register("Walk-v0", Walk)
    rates = {0.0: [], 0.5: []}
    for _ in range(5):  # in turn, so that what else the machine does meets both
        for making_s, found in rates.items():
            worker = _worker("Walk-v0", {"making_s": making_s}, envs=1, fragment=200)
            worker.collect()
            began = time.perf_counter()
            for _ in range(50):
                worker.collect()
            found.append(50 * 200 / (time.perf_counter() - began))
            worker.close()
    cheap, costly = (statistics.median(rates[making_s]) for making_s in (0.0, 0.5))
    print(f"  constructor of 0 s     {cheap:8,.0f} steps/s")
    print(f"  constructor of 0.5 s   {costly:8,.0f} steps/s   {costly / cheap:.3f}×")


def replay():
    """Microseconds per sampled batch of 128 three-step transitions, amortised over a block of 50."""
    config = SACConfig(buffer_size=200_000)
    spec = sac.policy_spec(config, _spaces())
    buffer = ReplayBuffer(config, spec, 0)
    rng = np.random.default_rng(0)
    for sequence in range(1000):
        buffer.add(*_fragment(sequence, rng))
    rate = _rate(lambda: buffer.sample(50), 50)
    print(f"  {1e6 / rate:6.1f} µs per batch")


def _fragment(sequence, rng):
    columns, tokens = load("drl_cli.experience.columns"), (25, 4)
    meta = columns.Meta(0, 0, sequence, 1)
    ended = rng.random(tokens) < 0.01
    made = {
        "obs": rng.standard_normal((*tokens, 8), dtype=np.float32),
        "action": rng.standard_normal((*tokens, 2), dtype=np.float32),
        "reward": rng.standard_normal(tokens, dtype=np.float32),
        "terminated": ended,
        "truncated": np.zeros(tokens, bool),
        "end_obs": rng.standard_normal((int(ended.sum()), 8), dtype=np.float32),
        "tail_obs": rng.standard_normal((4, 8), dtype=np.float32),
        "cut": np.zeros(4, bool),
    }
    return columns.Token(meta, 100, (), 0, (), {}), made


def answers():
    """Seconds until the command line answers (median of 7 processes)."""
    for words in (
        ["--help"],
        ["train", "--help"],
        ["train", "--run", "SAC", "--env", "Pendulum-v1", "--config", '{"gama": 0.9}'],
        ["train", "--run", "SAC", "--env", "Pendulumm-v1"],
    ):
        seconds = statistics.median(_seconds([sys.executable, "-m", "drl_cli", *words]) for _ in range(7))
        print(f"  drl {' '.join(words):<62} {seconds:.2f} s")


def _seconds(command):
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - began


def _spaces(env_id=ENV):
    env = envs.make(env_id, {})
    try:
        return envs.describe(env)
    finally:
        env.close()


def _rate(call, amount, seconds=3.0):
    """Return the best rate of three stretches of ``seconds`` each, after a first stretch that is not counted."""
    rates = []
    for _ in range(4):
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            call()
            count += amount
        rates.append(count / (time.perf_counter() - began))
    return max(rates[1:])


PARTS = (answers, acting, episodes, replay, updates)  # updates last: it pins the process to one core


def main():
    """Run the parts whose names contain a word of the command line, or all."""
    for part in PARTS:
        if len(sys.argv) < 2 or any(word in part.__name__ for word in sys.argv[1:]):
            print(f"{part.__name__}: {part.__doc__}", flush=True)
            part()


if __name__ == "__main__":
    main()
