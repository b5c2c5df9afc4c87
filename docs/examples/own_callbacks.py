"""Custom callbacks, a custom evaluation and a custom logger, for CartPole.

    cd docs/examples
    drl train --run PPO --env CartPole-v1 --import own_callbacks --logger lines \
        -s callbacks=steady -s custom_eval_function=by_angle --stop timesteps_total=20000

progress.csv and TensorBoard in the run's folder then also contain ``custom_metrics/angle_mean``.
"""

import math

from drl_cli import Callbacks, register_callbacks, register_evaluation, register_logger


class Steady(Callbacks):
    """Measures the pole's angle, and shapes the reward to keep the pole upright."""

    def __init__(self):
        self.episodes = 0  # of this object; each worker, the tester and the driver have their own

    def on_episode_start(self, *, episode, **more):
        """Start a list of angles."""
        episode.user_data["angles"] = []

    def on_episode_step(self, *, episode, **more):
        """Read the state of the environment: position, velocity, angle in radians, angular velocity."""
        angle = episode.env.unwrapped.state[2]
        episode.user_data["angles"].append(abs(math.degrees(angle)))

    def on_episode_end(self, *, episode, **more):
        """Report one number per episode, of which results hold mean, minimum and maximum, and a list for a histogram."""
        angles = episode.user_data["angles"]
        episode.custom_metrics["angle"] = sum(angles) / len(angles)
        episode.hist_data["angles"] = angles[::10]
        self.episodes += not episode.in_evaluation

    def on_postprocess(self, *, episode, steps, gamma, **more):
        """Potential-based shaping with Φ(s) = −|angle|: add γΦ(s') − Φ(s) to the reward (Ng et al. 1999, eq. 2).

        This changes the training rewards but not the optimal policy; reported rewards remain those of the environment.
        """
        before, after = -abs(steps["obs"][:, 2]), -abs(steps["next_obs"][:, 2])
        after[steps["terminated"]] = 0.0  # the potential of a terminal state is 0
        steps["reward"] += gamma * after - before

    def on_train_result(self, *, result, **more):
        """Add a custom field to every result, and end the run when the mean angle is small."""
        leaning = result.get("custom_metrics", {}).get("angle_mean")
        result["steadiness"] = None if leaning is None else 1.0 / (1.0 + leaning)
        if leaning is not None and leaning < 0.5:
            result["done"] = True

    def state(self):
        """Return the state of this object for checkpoints."""
        return {"episodes": self.episodes}

    def load(self, state):
        """Restore it."""
        self.episodes = state["episodes"]


def by_angle(evaluation):
    """Score the policy as usual, and again with a pole of twice the length."""
    usual = evaluation.play()

    env = evaluation.make_env()
    env.unwrapped.length *= 2
    env.unwrapped.polemass_length *= 2
    longer = [held(env, evaluation.policy, seed) for seed in evaluation.seeds]
    env.close()
    return {**evaluation.summary(usual), "longer_pole_mean": sum(longer) / len(longer)}


def held(env, policy, seed):
    """Return the length of an episode."""
    obs, _ = env.reset(seed=seed)
    state, steps, over = policy.initial_state(1), 0, False
    while not over:
        action, state, _ = policy.act(obs[None], state, None, False)
        obs, _, terminated, truncated, _ = env.step(int(policy.to_env(action)[0]))
        steps, over = steps + 1, terminated or truncated
    return steps


class Lines:
    """A logger that writes one line of text per iteration."""

    def __init__(self, folder, facts, resumed):
        """``folder``: the run's folder; ``facts``: the content of its params.json; ``resumed``: whether it is resumed."""
        self.path = folder / "lines.txt"
        self.say(f"{facts['run']} on {facts['env']}, seed {facts['seed']}" + (", resumed" if resumed else ""))

    def write(self, result):
        """Write the result of an iteration, a nested dict."""
        self.say(f"{result['timesteps_total']}: {result['episode_reward_mean']}")

    def close(self):
        """End the log when the run ends."""
        self.say("over")

    def say(self, text):
        """Append a line."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")


register_callbacks("steady", Steady)
register_evaluation("by_angle", by_angle)
register_logger("lines", Lines)
