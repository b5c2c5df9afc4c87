"""An environment's first steps under seeded actions, as hashes that can be compared: ``python -m drl_cli.checks.env_trace``.

Used by ``checks.env_check`` in its own process, and started as another one, whose hashes must be the same. Reads from stdin
one JSON object {"id", "env_config", "imports", "seed", "steps"}; writes one JSON line {"hashes": [...]}.
"""

import hashlib
import json
import sys

import numpy as np

from drl_cli.acting import envs
from drl_cli.acting.actions import as_action
from drl_cli.acting.spaces import MASK


def action_for(env, obs):
    """Return an action drawn from the action space of ``env``: an allowed one, where ``obs`` says which are."""
    space = env.action_space
    if isinstance(obs, dict) and MASK in obs and type(space).__name__ == "Discrete":
        allowed = (np.asarray(obs[MASK]) > 0.5).astype(np.int8)
        return space.sample(allowed) if allowed.any() else space.sample()
    return space.sample()


def stepped(env, action):
    """Step ``env`` with ``action`` as runs do it: a copy, as the interface wants it."""
    return env.step(as_action(action.copy() if hasattr(action, "copy") else action))


def hashes(env, seed, steps):
    """Return ``steps`` + 1 short hashes: of the first observation after a reset with ``seed``, and of each step.

    Episodes that end are followed by a reset without a seed, so that what continues them is compared as well.
    """
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    found = [_hash(obs)]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = stepped(env, action_for(env, obs))
        found.append(_hash((obs, float(np.asarray(reward).reshape(-1)[0]), bool(terminated), bool(truncated))))
        if terminated or truncated:
            obs, _ = env.reset()
    return found


def _hash(value):
    digest = hashlib.blake2b(digest_size=6)
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest, value):
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            digest.update(str(name).encode())
            _feed(digest, value[name])
    elif isinstance(value, (tuple, list)):
        for item in value:
            _feed(digest, item)
    elif isinstance(value, str):
        digest.update(value.encode())
    else:
        array = np.ascontiguousarray(value)
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())


def main():
    """Answer the question on stdin."""
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        envs.import_module(module)
    envs.resolve(asked["id"], trusted=True)
    env = envs.make_raw(asked["id"], asked["env_config"])
    print(json.dumps({"hashes": hashes(env, asked["seed"], asked["steps"])}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
