"""A spec and a Trainer that trains nothing: it follows a script and writes real, small checkpoints."""

import dataclasses
from pathlib import Path

import numpy as np

from drl_cli import checkpoints
from drl_cli.runs import retention
from drl_cli.stop_request import StopCondition

SPACES = {
    "obs": {"shape": [3], "dtype": "float32"},
    "action": {"kind": "Box", "shape": [1], "dtype": "float32"},
}
FACTS = {"algorithm": "SAC", "env": "Pendulum-v1", "spaces": SPACES, "policies": {}}


class Config:
    """Answers like the pydantic model."""

    takes_scaled_rewards = True

    def __init__(self, **values):
        self.values = {
            "gamma": 0.99,
            "num_workers": 0,
            "num_envs_per_worker": 1,
            "horizon": None,
            "clip_rewards": None,
            "reward_scaling": False,
            "observation_filter": "NoFilter",
            "env_timeout_s": None,
            "evaluation_interval": 1,
            "evaluation_hold": 0,
            "lr_factor_by_return": None,
            "evaluation_confirm_episodes": 0,
            "env_config": {},
            "fresh_envs": False,
            "callbacks": None,
            **values,
        }

    def __getattr__(self, name):
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def model_validate(cls, values):
        return cls(**values)

    def model_dump(self, mode, by_alias):
        return dict(self.values) if mode == "json" and by_alias else None


@dataclasses.dataclass(frozen=True)
class Spec:
    local_dir: Path
    config: Config = dataclasses.field(default_factory=Config)
    stop: dict = dataclasses.field(default_factory=lambda: {"training_iteration": 3})
    pass_criteria: dict = dataclasses.field(default_factory=dict)
    demands: tuple = ()
    export_formats: tuple = ()
    name: str = "default"
    run: str = "SAC"
    env: str = "Pendulum-v1"
    env_asked: str = "Pendulum-v0"
    checkpoint_freq: int = 0
    checkpoint_at_end: bool = True
    keep_checkpoints_num: int | None = None
    checkpoint_score_attr: str | None = None
    restore: Path | None = None
    resume: object = None
    ray: dict = dataclasses.field(default_factory=dict)
    seed: int = 7
    imports: list = dataclasses.field(default_factory=list)
    command: list = dataclasses.field(default_factory=lambda: ["drl", "train"])
    env_facts: dict = dataclasses.field(default_factory=lambda: {"id": "Pendulum-v1", "spaces": SPACES})
    trial: str = "0"
    origins: dict = dataclasses.field(default_factory=lambda: {"run": "--run", "config.gamma": "-s"})
    loggers: tuple = ()
    log_format: str = "text"
    storage_path: str | None = None


class StopRequest(StopCondition):
    """Becomes true when a test sets ``exit_code``."""

    exit_code = 0

    def __bool__(self):
        return self.exit_code != 0


class Trainer:
    """``script``: {iteration: {"reward", "evaluation", "confirmed", "do", "save"}}; ``do`` is called while training.

    ``fail`` maps a save's ordinal to the error it raises. The class keeps every instance in ``made``.
    """

    script, fail, made, start_error = {}, {}, [], None

    def __init__(self, algorithm, config, env, options, stop_requested):
        self.given = (algorithm, config, env, options["goal"])
        self.iteration = self.saves = 0
        self.evaluation = None
        self.touched = None
        self.calls = []
        self.made.append(self)

    def start(self):
        self.calls.append("start")
        if self.start_error:
            raise self.start_error

    def restore(self, found, exact):
        self.calls.append(("restore", found.number, exact))
        self.iteration = found.number

    def train(self):
        self.iteration += 1
        step = self.script.get(self.iteration, {})
        if "do" in step:
            step["do"]()
        if "evaluation" in step:
            self.evaluation = {
                "training_iteration": self.iteration,
                "timesteps_total": 1000 * self.iteration,
                "episode_reward_mean": step["evaluation"],
                "confirmed_reward_mean": step.get("confirmed"),
            }
        goal = self.given[3]
        if goal is not None and self.touched is None and step.get("evaluation", -1e9) >= goal.threshold:
            self.touched = {
                "metric": goal.field,
                "target": goal.threshold,
                "value": step["evaluation"],
                "confirmed": None,
                "seconds": 1.0,
            }
            self.touched.update(timesteps_total=1000 * self.iteration, num_updates=5)
        result = {"training_iteration": self.iteration, "timesteps_total": 1000 * self.iteration}
        result.update(episode_reward_mean=step.get("reward"), time_total_s=1.0 * self.iteration, info={})
        if self.evaluation:
            result["evaluation"] = dict(self.evaluation)
        return result

    def save(self, run_folder, reason):
        return self._save(
            run_folder, self.iteration, reason, replay=self.script.get(self.iteration, {}).get("replay", True)
        )

    def save_evaluated(self, run_folder):
        return self._save(run_folder, self.evaluation["training_iteration"], "best", replay=False)

    def _save(self, run_folder, number, reason, replay):
        self.saves += 1
        self.calls.append((reason, number))
        if self.saves in self.fail:
            raise self.fail[self.saves]
        with checkpoints.Writer(run_folder, number) as writer:
            checkpoints.write_arrays(writer.folder / "weights.safetensors", {"w": np.array([number], np.int32)})
            checkpoints.write_json(writer.folder / "state.json", {"iteration": number})
            if replay:
                checkpoints.write_arrays(writer.folder / "replay-0.safetensors", {"obs": np.zeros(10, np.float32)})
            counters = {"training_iteration": number, "timesteps_total": 1000 * number}
            given = {"algorithm": self.given[0], "env": self.given[2]["id"]}
            return writer.commit(FACTS | given | {"counters": counters})

    def close(self):
        self.calls.append("close")


def trainer(script=None, fail=None, start_error=None):
    """Return a fresh Trainer class with this script."""
    values = {"script": script or {}, "fail": fail or {}, "made": [], "start_error": start_error}
    return type("ScriptedTrainer", (Trainer,), values)


def save_small(run_folder, number=1):
    """Write a checkpoint that a run can go on from."""
    with checkpoints.Writer(run_folder, number) as writer:
        checkpoints.write_json(writer.folder / "state.json", {})
        return writer.commit({})


def left(run_folder):
    """Return {number: whether its replay is there} of the checkpoints of a run."""
    return {number: checkpoints.load(path).has("replay") for number, path in retention.numbers(run_folder)}
