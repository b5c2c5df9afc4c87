"""A simulator with a loop of its own, which asks a run for actions: a room whose heater is to hold 20 degrees.

    cd docs/examples
    drl new client
    drl train --run DQN --env drl/External-v1 --config '{"input": "policy_server",
        "policy_server": {"token_file": "token"}, "timesteps_per_iteration": 500, "min_iter_time_s": 0,
        "env_config": {"observation_space": {"Box": {"shape": [2]}}, "action_space": {"Discrete": 2}}}' \
        --stop evaluation/episode_reward_mean=-15

and meanwhile, in another terminal in the same folder, as often as you like:

    python external_simulator.py 127.0.0.1:9900 token

It uses no package but the client, which needs none.
"""

import random
import sys

from policy_client import PolicyClient, PolicyServerError

STEPS = 60  # minutes of an episode
SCORED = 5  # every so many episodes one is played to be scored


class Room:
    """Inside and outside temperature in degrees Celsius."""

    def __init__(self, rng):
        self.inside, self.outside = rng.uniform(10, 25), rng.uniform(-5, 10)

    def obs(self):
        """Return [distance from 20 degrees, outside temperature], both in tens of degrees."""
        return [(self.inside - 20) / 10, self.outside / 10]

    def minute(self, heater):
        """Heat or not for a minute; return the reward."""
        self.inside += 0.03 * (self.outside - self.inside) + (1.5 if heater else 0.0)
        return -abs(self.inside - 20) / 10


def play(client, rng, is_scored):
    """Play an episode; return the sum of its rewards."""
    room, total = Room(rng), 0.0
    episode_id = client.start_episode(training_enabled=not is_scored)
    for _ in range(STEPS):
        reward = room.minute(client.get_action(episode_id, room.obs()))
        client.log_returns(episode_id, reward)
        total += reward
    client.end_episode(episode_id, room.obs(), truncated=True)
    return total


def main(address, token_file, seed=0):
    """Play until the run ends; return the sums of rewards of the episodes."""
    client, rng, totals = PolicyClient(address, token_file=token_file), random.Random(seed), []
    while True:
        try:
            totals.append(play(client, rng, is_scored=len(totals) % SCORED == 0))
        except PolicyServerError as error:
            if error.status != 404:  # 404: the run was resumed, or the episode timed out; the next one goes on
                break
        except OSError:
            break
    client.close()
    return totals


if __name__ == "__main__":
    sums = main(*sys.argv[1:3])
    print(f"{len(sums)} episodes; the first brought {sums[0]:.1f}, the last {sums[-1]:.1f}")
