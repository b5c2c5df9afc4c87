"""Scores in the particle environments (mpe2): of scripts to compare with, and by the measures of papers.

    python benchmarks/particles.py spread                     # random actions, greedy assignment
    python benchmarks/particles.py spread --run RUN           # and a run of MAPPO
    python benchmarks/particles.py speaker-listener --run RUN # the share of episodes that end at the landmark

``spread``: the mean over agents of the sum of an episode's rewards (simple_spread_v3, N = 3, local_ratio 0.5, 25 steps).
``speaker-listener``: the share of episodes whose listener ends within 0.1 of its landmark, and its mean distance at the end
(the measure of Lowe et al. 2017, arXiv 1706.02275), and the team's return, which is that of an evaluation. RUN is a run folder,
whose best checkpoint is scored, or a checkpoint; its policy acts greedily. Intervals are 1.96 standard errors.
"""

import argparse
import itertools

import numpy as np

from drl_cli.analysis.loaded_checkpoint import open_policy
from drl_cli.envs.multi_agent.team import TeamEnv

DT, DAMPING, FORCE = 0.1, 0.25, 5.0  # of mpe2's world and agents
PUSHES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) * FORCE * DT  # [5, 2], changes of velocity
REACHED = 0.1  # distance to the landmark
IDS = {"spread": "mpe2/simple_spread-v3", "speaker-listener": "mpe2/simple_speaker_listener-v4"}


def main():
    """Print one line for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=IDS)
    parser.add_argument("--run", help="a run or checkpoint folder to score as well")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first episode")
    options = parser.parse_args()
    env_config, players = {}, {"random": lambda env, _: env.action_space.sample()}
    players |= (
        {"greedy assignment": greedy_assignment} if options.env == "spread" else {"straight there": straight_there}
    )
    scripts = set(players)
    if options.run:
        path, facts, policy = open_policy(options.run)
        env_config = facts["env_config"]["env_config"]
        players[str(path)] = lambda _, obs: policy.to_env(policy.act(obs[None], (), None, explore=False)[0])[0]
    for name, choose in players.items():
        # The scripts' actions are numbers.
        own = env_config if name not in scripts else {**env_config, "continuous_actions": False}
        env = TeamEnv(IDS[options.env], own)
        env.action_space.seed(options.seed)
        seeds = range(options.seed, options.seed + options.episodes)
        rewards = np.array([_rewards(env, choose, seed) for seed in seeds])  # [episodes, steps, A]
        print(f"{name}: {_spread(rewards) if options.env == 'spread' else _reached(rewards)}", flush=True)


def greedy_assignment(env, obs):
    """Return the action that brings each agent to rest closest to its landmark: the nearest pairs are assigned first."""
    each = _each(env, obs)
    count = len(each)
    speed, to_landmarks = each[:, :2], each[:, 4 : 4 + 2 * count].reshape(count, count, 2)
    distance = np.linalg.norm(to_landmarks, axis=-1)  # [A, landmarks]
    action, free = np.zeros(count, int), set(itertools.product(range(count), repeat=2))
    while free:
        agent, landmark = min(free, key=lambda pair: distance[pair])
        free = {pair for pair in free if pair[0] != agent and pair[1] != landmark}
        action[agent] = _closest_push(speed[agent], to_landmarks[agent, landmark])
    return action


def straight_there(env, obs):
    """Return the action that brings the listener to rest closest to its landmark, which only the speaker sees."""
    speaker, listener = _each(env, obs)
    landmark = np.argmax(speaker[:3])  # by its colour
    return np.array([0, _closest_push(listener[:2], listener[2:8].reshape(3, 2)[landmark])])


def _each(env, obs):
    """Return the agents' observations of a team's, [A, as many as the widest has]."""
    layout = env.team_layout
    return obs[: len(layout["agents"]) * layout["obs"]].reshape(len(layout["agents"]), -1)


def _closest_push(speed, to_landmark):
    """Return the push after which an agent comes to rest closest to the landmark.

    It moves by DT·v in this step; then v decays by DAMPING a step, in all DT / DAMPING·v further.
    """
    rest = DT * speed + DT / DAMPING * ((1 - DAMPING) * speed + PUSHES)  # [5, 2]
    return np.argmin(np.linalg.norm(to_landmark - rest, axis=-1))


def _rewards(env, choose, seed):
    """Return the agents' rewards of one episode, [steps, A]."""
    start, size = env.team_layout["rewards"]
    obs, _ = env.reset(seed=seed)
    rewards, is_over = [], False
    while not is_over:
        obs, _, terminated, truncated, _ = env.step(choose(env, obs))
        rewards.append(obs[start : start + size])
        is_over = terminated or truncated
    return rewards


def _spread(rewards):
    return f"mean over agents of an episode's sum {_with_interval(rewards.sum(axis=1).mean(axis=1))}"


def _reached(rewards):
    distance = np.sqrt(-rewards[:, -1, 0])  # a reward is minus the squared distance
    share = _with_interval(100.0 * (distance < REACHED))
    score = f"return of the team {_with_interval(rewards.sum(axis=(1, 2)))}"
    return f"{share} % end within {REACHED} of the landmark; mean distance {_with_interval(distance)}; {score}"


def _with_interval(values):
    return f"{values.mean():.3f} ± {1.96 * values.std(ddof=1) / len(values) ** 0.5:.3f}"


if __name__ == "__main__":
    main()
