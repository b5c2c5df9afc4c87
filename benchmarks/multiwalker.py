"""PPO in PettingZoo's multiwalker_v9, against Stable-Baselines3 and SuperSuit as its tutorial runs them, at equal agent steps.

    python -m venv peer
    peer/bin/pip install torch stable-baselines3 supersuit 'pettingzoo[sisl]'
    peer/bin/python benchmarks/multiwalker.py sb3 --seeds 0 1 2     # trains and scores the peer
    drl train -f multiwalker-ppo --seed 0
    python benchmarks/multiwalker.py drl RUN                        # scores the last checkpoint of a run
    python benchmarks/multiwalker.py random

The score is the mean over the agents of the sum of an episode's rewards, by greedy actions; episodes have 500 env steps at
most. All lines play episodes of the same seeds. Intervals are 1.96 standard errors over episodes.

Source of the peer's settings: Farama-Foundation/PettingZoo, tutorials/SB3/multiwalker/sb3_multiwalker_vector.py (commit
1a2d2ef): MlpPolicy, a learning rate of 1e-3, minibatches of 256, 8 copies, 196,608 steps of agents, which are 65,536 env
steps; all else is SB3's default. The tutorial steps its copies in two processes, here it is one, which changes no result.
PPO's ``seed`` fails on SuperSuit's environments, so that the seed is torch's and NumPy's; the peer's environments have none.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

AGENT_STEPS, COPIES = 196_608, 8
Choose = Callable[[np.ndarray], np.ndarray]  # observations [A, n] float32 to actions [A, 4] float32


def main() -> None:
    """Print one line for each policy: who it is, its score, and for the peer the seconds of training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=("sb3", "drl", "random"))
    parser.add_argument("runs", nargs="*", help="checkpoint folders, or run folders, whose last checkpoint is scored")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the peer's training")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1_000_000, help="of the episodes that are scored")
    options = parser.parse_args()
    if (options.who == "drl") != bool(options.runs):
        parser.error("drl, and only drl, takes folders of runs")
    players: dict[str, Callable[[], Choose]] = {"random": random_actions}
    if options.who == "sb3":
        players = {f"SB3, seed {seed}": lambda seed=seed: trained_peer(seed) for seed in options.seeds}
    elif options.who == "drl":
        players = {run: lambda run=run: own_policy(run) for run in options.runs}
    for name, make in players.items():
        began = time.monotonic()
        choose = make()
        trained = time.monotonic() - began
        returns, lengths = scores(choose, options.episodes, options.first_seed)
        margin = 1.96 * returns.std(ddof=1) / len(returns) ** 0.5
        print(
            f"{name}: {returns.mean():.1f} ± {margin:.1f}, {len(returns)} episodes of {lengths.mean():.0f} env steps; "
            f"ready after {trained:.0f} s",
            flush=True,
        )


def scores(choose: Choose, episodes: int, first_seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over agents of each episode's sum of rewards, and the env steps of each; both [episodes] float64."""
    from pettingzoo.sisl import multiwalker_v9

    env = multiwalker_v9.parallel_env()
    returns, lengths = np.zeros(episodes), np.zeros(episodes)
    for episode in range(episodes):
        obs, _ = env.reset(seed=first_seed + episode)
        agents = list(env.agents)
        while env.agents:
            actions = choose(np.stack([obs[agent] for agent in env.agents]))
            obs, rewards, _, _, _ = env.step(dict(zip(env.agents, actions, strict=True)))
            returns[episode] += sum(rewards.values()) / len(agents)
            lengths[episode] += 1
    env.close()
    return returns, lengths


def random_actions() -> Choose:
    """Return the choice of uniform actions in [-1, 1]."""
    rng = np.random.default_rng(0)
    return lambda obs: rng.uniform(-1, 1, (len(obs), 4)).astype(np.float32)


def own_policy(run: str) -> Choose:
    """Return the greedy choice of the shared policy of a run or a checkpoint of drl."""
    from drl_cli.analysis.loaded_checkpoint import open_policy

    _, _, policy = open_policy(run, latest=True)
    return lambda obs: policy.to_env(policy.act(obs, (), None, explore=False)[0])


def trained_peer(seed: int) -> Choose:
    """Return the greedy choice of SB3's PPO after the tutorial's training, with its settings."""
    import supersuit
    import torch
    from pettingzoo.sisl import multiwalker_v9
    from stable_baselines3 import PPO

    torch.manual_seed(seed)
    np.random.seed(seed)
    env: Any = supersuit.pettingzoo_env_to_vec_env_v1(multiwalker_v9.parallel_env())
    env = supersuit.concat_vec_envs_v1(env, COPIES, num_cpus=1, base_class="stable_baselines3")
    model = PPO("MlpPolicy", env, learning_rate=1e-3, batch_size=256, device="cpu")
    model.learn(total_timesteps=AGENT_STEPS)
    if model.num_timesteps != AGENT_STEPS:
        sys.exit(f"the peer was trained for {model.num_timesteps:,} steps of agents instead of {AGENT_STEPS:,}")
    env.close()
    return lambda obs: model.predict(obs, deterministic=True)[0]


if __name__ == "__main__":
    main()
