"""The Python API: ``drl train``, ``rollout`` and ``evaluate`` from your own program.

python python_api.py
"""

import gymnasium as gym

from drl_cli import Trainer
from drl_cli.errors import ConfigError

CONFIG = {  # the keys that RLlib's tutorials use; drl algorithms DQN lists all of them
    "num_workers": 0,  # no Ray: everything in this process, and reproducible
    "lr": 1e-3,
    "learning_starts": 500,
    "timesteps_per_iteration": 1000,
    "exploration_config": {"epsilon_timesteps": 3000},
    "evaluation_interval": None,  # this program calls evaluate() itself
    "seed": 1,
}


def main(iterations=6, episodes=5):
    """Train DQN on CartPole, save a checkpoint, and continue from it."""
    # The config is validated here, before anything starts; a wrong key raises an exception that names the right one.
    try:
        Trainer("DQN", env="CartPole-v1", config={"learning_rate": 1e-3})
    except ConfigError as error:
        print(f"Refused: {error}")

    # The run starts with the first iteration, and is closed at the end of the block, even after an exception.
    with Trainer("DQN", env="CartPole-v1", config=CONFIG, checkpoint_freq=5) as trainer:
        for _ in range(iterations):
            result = trainer.train()  # nested plain data, as in a line of result.json
            print(f"iteration {result['training_iteration']}: mean reward {result['episode_reward_mean']:.1f}")
        checkpoint = trainer.save()
        print(f"greedy: {trainer.evaluate(episodes)['evaluation']['episode_reward_mean']:.1f}")
    print(f"The run is in {trainer.run_folder}: curves, log, checkpoints. Watch it with drl rollout {checkpoint}")

    # Later, in another program: the checkpoint can act immediately, without TensorFlow.
    player = Trainer("DQN", env="CartPole-v1", config=CONFIG)
    player.restore(checkpoint)
    env, total = gym.make("CartPole-v1"), 0.0
    obs, _ = env.reset(seed=7)
    terminated = truncated = False
    while not (terminated or truncated):
        obs, reward, terminated, truncated, _ = env.step(player.compute_action(obs))
        total += reward
    print(f"One episode played: {total:.0f}")

    # Training continues from it in a new folder, with the counters of the checkpoint.
    with player:
        result = player.train()
        print(f"Continued with iteration {result['training_iteration']} in {player.run_folder.name}")
        biggest = max(player.get_weights()["default_policy"].items(), key=lambda item: item[1].size)
        print(f"The largest of its weights: {biggest[0]} {biggest[1].shape}")
    return result


if __name__ == "__main__":
    main()
