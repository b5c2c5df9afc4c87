"""Callbacks, an evaluation and a logger of one's own, for the pole that shall be held upright.

    cd docs/examples
    drl train --run PPO --env CartPole-v1 --import own_callbacks --logger lines \
        -s callbacks=steady -s custom_eval_function=by_angle --stop timesteps_total=20000

The run's folder then holds ``custom_metrics/angle_mean`` in progress.csv and TensorBoard, beside what drl writes anyway.
"""

import math

from drl_cli import Callbacks, register_callbacks, register_evaluation, register_logger


class Steady(Callbacks):
    """Measures how far the pole leans, and rewards it for standing straight."""

    def __init__(self):
        self.episodes = 0  # that this object has seen: each worker, the tester and the driver have one of their own

    def on_episode_start(self, *, episode, **more):
        """Begin to note angles."""
        episode.user_data["angles"] = []

    def on_episode_step(self, *, episode, **more):
        """Look into the environment: x, its speed, the angle in radians, its speed."""
        angle = episode.env.unwrapped.state[2]
        episode.user_data["angles"].append(abs(math.degrees(angle)))

    def on_episode_end(self, *, episode, **more):
        """One number for each episode, of which results hold mean, least and most; and all of them, for a histogram."""
        angles = episode.user_data["angles"]
        episode.custom_metrics["angle"] = sum(angles) / len(angles)
        episode.hist_data["angles"] = angles[::10]
        self.episodes += not episode.in_evaluation

    def on_postprocess(self, *, episode, steps, gamma, **more):
        """Shape the reward by a potential: Φ(s) = −|angle|, and what is added is γΦ(s') − Φ(s) (Ng et al. 1999, eq. 2).

        What is learnt from changes, the best policy does not, and reported rewards stay those of the environment.
        """
        before, behind = -abs(steps["obs"][:, 2]), -abs(steps["next_obs"][:, 2])
        behind[steps["terminated"]] = 0.0  # there is no state behind a real end
        steps["reward"] += gamma * behind - before

    def on_train_result(self, *, result, **more):
        """Add a figure of one's own to every row, and end the run when the pole hardly leans any more."""
        leaning = result.get("custom_metrics", {}).get("angle_mean")
        result["steadiness"] = None if leaning is None else 1.0 / (1.0 + leaning)
        if leaning is not None and leaning < 0.5:
            result["done"] = True

    def state(self):
        """Return what a checkpoint keeps of this object."""
        return {"episodes": self.episodes}

    def load(self, state):
        """Go on with it."""
        self.episodes = state["episodes"]


def by_angle(evaluation):
    """Score the policy as always, and once more on a pole that is twice as long."""
    usual = evaluation.play()

    env = evaluation.make_env()
    env.unwrapped.length *= 2
    env.unwrapped.polemass_length *= 2
    longer = [held(env, evaluation.policy, seed) for seed in evaluation.seeds]
    env.close()
    return {**evaluation.summary(usual), "longer_pole_mean": sum(longer) / len(longer)}


def held(env, policy, seed):
    """Return for how many steps a pole is held."""
    obs, _ = env.reset(seed=seed)
    state, steps, over = policy.initial_state(1), 0, False
    while not over:
        action, state, _ = policy.act(obs[None], state, None, False)
        obs, _, terminated, truncated, _ = env.step(int(policy.to_env(action)[0]))
        steps, over = steps + 1, terminated or truncated
    return steps


class Lines:
    """A logger: one line of text for each iteration."""

    def __init__(self, folder, facts, resumed):
        """``folder``: the run's; ``facts``: what its params.json holds; ``resumed``: whether it goes on."""
        self.path = folder / "lines.txt"
        self.say(f"{facts['run']} on {facts['env']}, seed {facts['seed']}" + (", resumed" if resumed else ""))

    def write(self, result):
        """Take the nested dict of an iteration."""
        self.say(f"{result['timesteps_total']}: {result['episode_reward_mean']}")

    def close(self):
        """The run is over."""
        self.say("over")

    def say(self, text):
        """Append a line."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{text}\n")


register_callbacks("steady", Steady)
register_evaluation("by_angle", by_angle)
register_logger("lines", Lines)
