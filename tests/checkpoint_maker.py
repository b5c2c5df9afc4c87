"""Makes small checkpoints for the tests of this folder."""

import numpy as np

from drl_cli import checkpoints

FACTS = {
    "algorithm": "SAC",
    "counters": {"training_iteration": 10, "timesteps_total": 10_000},
    "score": {"episode_reward_mean": 12.5, "evaluation_reward_mean": None},
}


def save(run_folder, number=10, facts=FACTS, replay=True):
    """Save one checkpoint and return its path."""
    rng = np.random.default_rng(number)
    with checkpoints.Writer(run_folder, number) as writer:
        weights = {"default_policy/policy/dense_0/kernel": rng.normal(size=(8, 4)).astype(np.float32)}
        weights["steps"] = np.array(number, np.int64)
        checkpoints.write_arrays(writer.folder / "weights.safetensors", weights)
        checkpoints.write_json(writer.folder / "state.json", {"iteration": number, "rng": [1, 2**70, "x"]})
        checkpoints.write_arrays(writer.folder / "workers.safetensors", {})
        if replay:
            columns = {"obs": np.zeros((200, 8), np.float32), "done": np.zeros(200, bool)}
            columns["obs"][:50] = rng.normal(size=(50, 8))
            checkpoints.write_arrays(writer.folder / "replay-0.safetensors", columns, compress=True)
        return writer.commit(facts)


def read_everything(path):
    """Load a checkpoint and read every part of it."""
    found = checkpoints.load(path)
    content = {stem: found.arrays(stem, finite=True) for stem in ("weights", "workers")}
    content.update({stem: found.arrays(stem) for stem in found.files("replay")})
    content["state"] = found.json("state")
    return content
