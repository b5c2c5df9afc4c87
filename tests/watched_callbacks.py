"""Callbacks for tests, registered under names: they note what they are called with, shape rewards, or fail."""

from drl_cli.envs.callbacks import Callbacks, register_callbacks


class Noting(Callbacks):
    """Appends (hook, env index, length, total reward) to ``heard``, a list of the class; counts steps in its state."""

    heard = []

    def __init__(self):
        self.steps = 0

    def on_episode_start(self, *, episode, **more):
        episode.user_data["seen"] = [episode.last_obs.tolist()]
        self.heard.append(("start", episode.env_index, episode.length, episode.total_reward))

    def on_episode_step(self, *, episode, **more):
        self.steps += 1
        episode.user_data["seen"].append(episode.last_obs.tolist())
        self.heard.append(("step", episode.env_index, episode.length, episode.total_reward))

    def on_episode_end(self, *, episode, **more):
        episode.custom_metrics["last"] = episode.last_reward
        episode.hist_data["lengths"] = [episode.length, self.steps]
        self.heard.append(("end", episode.env_index, episode.length, episode.total_reward))

    def state(self):
        return {"steps": self.steps}

    def load(self, state):
        self.steps = state["steps"]


class Shaping(Callbacks):
    """Adds 1000, takes the env step's number in the episode away, and keeps what it was given."""

    parts = []

    def on_episode_step(self, *, episode, **more):
        episode.user_data["steps"] = episode.length

    def on_postprocess(self, *, episode, steps, gamma, **more):
        kept = {name: array.copy() for name, array in steps.items()}
        self.parts.append((kept, gamma, None if episode is None else episode.user_data.get("steps")))
        steps["reward"] += 1000.0


class Replacing(Callbacks):
    """Puts another array in the place of the rewards."""

    def on_postprocess(self, *, steps, **more):
        steps["reward"] = -steps["reward"]


class Sampled(Callbacks):
    """Changes whole fragments: halves rewards in place; ``how`` says what it does wrong."""

    how = None

    def on_sample_end(self, *, samples, worker_index, **more):
        samples["reward"] *= 0.5
        if self.how == "shape":
            samples["reward"] = samples["reward"][:1]
        if self.how == "flags":
            samples["terminated"][:] = True


class Failing(Callbacks):
    """Raises in the step after ``after``."""

    after = 0

    def on_episode_step(self, *, episode, **more):
        if episode.length > self.after:
            raise KeyError("motor")


class Odd(Callbacks):
    """Says something of an episode that is no number."""

    said = {}

    def on_episode_end(self, *, episode, **more):
        for name, values in self.said.items():
            getattr(episode, name).update(values)


class Results(Callbacks):
    """Adds to results, and ends the run at the second."""

    def __init__(self):
        self.results = 0

    def on_train_result(self, *, result, **more):
        self.results += 1
        result["own"] = {"results": self.results}
        result["done"] = self.results == 2

    def state(self):
        return {"results": self.results}

    def load(self, state):
        self.results = state["results"]


for _one in (Noting, Shaping, Replacing, Sampled, Failing, Odd, Results):
    register_callbacks(_one.__name__.lower(), _one)
