"""Small files of recorded steps in RLlib's layout, for tests of who learns from them."""

import json

import numpy as np


def line(obs, actions, rewards, end_obs=None, **columns):
    """One line: consecutive steps of one episode; without ``end_obs`` nothing is known of what came behind the last.

    ``columns``: terminated, truncated (of the last step), eps_id, t (of the first step).
    """
    steps = len(rewards)
    terminated, truncated = columns.get("terminated", False), columns.get("truncated", False)
    first = columns.get("t", 0)
    data = {
        "type": "SampleBatch",
        "obs": np.asarray(obs, float).tolist(),
        "actions": np.asarray(actions).tolist(),
        "rewards": [float(reward) for reward in rewards],
        "dones": [False] * (steps - 1) + [terminated or truncated],
        "terminateds": [False] * (steps - 1) + [terminated],
        "truncateds": [False] * (steps - 1) + [truncated],
        "eps_id": [columns.get("eps_id", 0)] * steps,
        "t": list(range(first, first + steps)),
    }
    if end_obs is not None:
        data["new_obs"] = [*data["obs"][1:], np.asarray(end_obs, float).tolist()]
    return json.dumps(data)


def write(path, *lines):
    """Write ``lines`` to ``path``, whose folder is made, and return its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    return str(path)


def random_set(path, env, episodes=12, seed=0, longest=30):
    """Write episodes of made-up steps that fit "CartPole-v1" or "Pendulum-v1"; returns the file's name."""
    rng, lines = np.random.default_rng(seed), []
    for episode in range(episodes):
        steps = int(rng.integers(5, longest))
        if env == "CartPole-v1":
            obs, actions = rng.normal(0, 1, (steps + 1, 4)), rng.integers(0, 2, steps)
        else:
            obs, actions = rng.normal(0, 1, (steps + 1, 3)), rng.uniform(-2, 2, (steps, 1))
        kind = {"terminated": episode % 2 == 0, "truncated": episode % 2 == 1}
        lines.append(line(obs[:-1], actions, rng.normal(0, 1, steps), obs[-1], eps_id=episode, **kind))
    return write(path, *lines)
