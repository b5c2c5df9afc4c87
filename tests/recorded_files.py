"""Files of recorded experience for the tests of estimates: what uniform actions did in an environment, line by line."""

import gymnasium
import numpy as np

from drl_cli.experience.recorded.write import line


def write_uniform(path, env_id="Pendulum-v1", episodes=30, horizon=10, seed=0, scored=True):
    """Write ``episodes`` of at most ``horizon`` steps with uniform actions to ``path``; with their probabilities if scored."""
    env, rng = gymnasium.make(env_id), np.random.default_rng(seed)
    space = env.action_space
    logp = -np.log(space.n) if hasattr(space, "n") else -np.log(space.high - space.low).sum()
    with open(path, "wb") as file:
        for episode in range(episodes):
            obs, rows = env.reset(seed=seed + episode)[0], []
            for t in range(horizon):
                action = rng.integers(space.n) if hasattr(space, "n") else rng.uniform(space.low, space.high)
                after, reward, done, _, _ = env.step(action if hasattr(space, "n") else action.astype(np.float32))
                cut = t + 1 == horizon and not done
                rows.append((obs, after, action, reward, done, cut, t))
                obs = after
                if done:
                    break
            names = ("obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "t")
            columns = {name: np.asarray(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
            columns["dones"] = columns["terminateds"] | columns["truncateds"]
            columns["eps_id"] = np.full(len(rows), episode)
            if scored:
                columns["action_logp"] = np.full(len(rows), logp, np.float32)
            file.write(line(columns))
    env.close()
    return str(path)
