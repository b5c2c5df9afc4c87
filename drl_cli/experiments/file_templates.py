"""New files to start from: a commented file of an experiment, and an environment to fill in.

User: ``drl new``. Of an experiment, algorithm and keys are those of ``algorithm_choice``; other keys stand in comments, at
their defaults.
"""

import json
import keyword
import re
from string import Template
from typing import Any

from drl_cli.algorithms import table
from drl_cli.config import key_description
from drl_cli.config.origins import Layers, Where
from drl_cli.envs import make
from drl_cli.errors import ConfigError
from drl_cli.experiments import algorithm_choice, spec
from drl_cli.experiments.algorithm_choice import Choice
from drl_cli.experiments.tuned_files import EDITOR_LINE
from drl_cli.extras import load

STEPS = 1_000_000  # after which the run of a new file ends at the latest
SHOWN = (
    *("seed", "num_workers", "num_envs_per_worker", "gamma", "lambda", "lr", "train_batch_size", "sgd_minibatch_size"),
    *(
        "num_sgd_iter",
        "entropy_coeff",
        "n_step",
        "buffer_size",
        "learning_starts",
        "training_intensity",
        "observation_filter",
    ),
    *("evaluation_interval", "evaluation_num_episodes"),
)
"""Keys that are often changed, which a new file shows in comments where its algorithm has them."""
ENVIRONMENT = Template('''"""The environment $id: replace what is marked with CHANGE.

    drl env check $id --import $module
    drl train --import $module --run PPO --env $id --stop evaluation/episode_reward_mean=0.8
"""

import gymnasium as gym
import numpy as np

from drl_cli import register_env


class $name(gym.Env):
    """CHANGE: what the agent sees, does and is rewarded for. Here it walks along a line to a target."""

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, size=10, render_mode=None):
        """``size`` is a key of env_config: -s env_config.size=20."""
        self.size, self.render_mode = size, render_mode
        # CHANGE: an observation is an array of this shape and type, within these bounds.
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        # CHANGE: Discrete(n) for one of n actions, Box(low, high, shape) for continuous ones.
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """Start an episode. All randomness comes from self.np_random, so that a seed gives the same episode again."""
        super().reset(seed=seed)
        self.position, self.target = self.np_random.choice(self.size, 2, replace=False)
        return self._obs(), {}

    def step(self, action):
        """Take a step. Return observation, reward, terminated, truncated, info."""
        self.position = int(np.clip(self.position + (1 if action == 1 else -1), 0, self.size - 1))
        terminated = bool(self.position == self.target)  # CHANGE: the end of the task; the time limit stands below
        reward = 1.0 if terminated else -0.01  # CHANGE
        return self._obs(), reward, terminated, False, {}

    def render(self):
        """Return the line as text."""
        return "".join("A" if i == self.position else "x" if i == self.target else "." for i in range(self.size))

    def _obs(self):
        return np.array([self.position, self.target], np.float32) / (self.size - 1)


register_env("$id", $name, max_episode_steps=100, reward_threshold=0.8)
''')


def environment(word: str, module: str) -> str:
    """Return the source of an environment; ``word``: its name, with or without a version; ``module``: that of the file.

    Raises ConfigError for a name that is no name of a class, or a module that cannot be imported.
    """
    name, version = re.fullmatch(r"(.*?)(-v\d+)?", word, re.DOTALL).groups()  # type: ignore[union-attr]
    for what, given in (("name of a class", name), ("name of a module", module)):
        if not given.isidentifier() or not given.isascii() or keyword.iskeyword(given):
            raise ConfigError(f"{given[:60]!r} is no {what}. Use letters, digits and _, as in drl new env LineWalk.")
    return ENVIRONMENT.substitute(id=f"{name}{version or '-v0'}", name=name, module=module)


def choose(env: str, run: str | None) -> Choice:
    """Return the algorithm and the keys for ``env``, from random play of about a second; ``run``: the algorithm, if given.

    Raises ConfigError for an unknown environment or algorithm, EnvError for an environment that cannot be made, and
    either where they do not fit.
    """
    asked = None if run is None else table.find(run).name
    if asked is not None:
        spec.from_flags({"run": asked, "env": env})  # refuses what does not fit
    layers = Layers({"env": env}, Where("--env"))
    seen = algorithm_choice.look(env, layers, {"env": env}, {})
    choice = algorithm_choice.choose(seen, lambda name: asked in (None, name))
    return choice if asked in (None, choice.run) else Choice(str(asked), "as requested", {})


def experiment(choice: Choice, env: str, name: str, path: str) -> str:
    """Return the text of a file with the experiment ``name``, which is written to ``path``."""
    keys = {row["key"]: row for row in key_description.keys(load(table.find(choice.run).config))}
    lines = [
        f"{EDITOR_LINE} $schema=schema.json",
        f"# {choice.run} on {env}. Train it: drl train -f {path}",
        f"# All keys of {choice.run}: drl algorithms {choice.run}. For completion in an editor: drl schema > schema.json",
        f"{name}:",
        f"  run: {choice.run}  # {choice.why}",
        f"  env: {_value(env)}",
        "  stop:  # when one of these is reached",
    ]
    goal = make.reward_threshold(env)
    if goal is None:
        lines.append("    # evaluation/episode_reward_mean: 100  # the mean return of greedy episodes to reach")
    else:
        lines.append(f"    evaluation/episode_reward_mean: {_value(goal)}  # at which the environment counts as solved")
    lines += [f"    timesteps_total: {STEPS}", "  config:"]
    lines += _nested({key.removeprefix("config."): value for key, value in choice.keys.items()})
    lines += ["    # Keys that are often changed, at their defaults:"]
    for key in SHOWN:
        if key in keys and key not in choice.keys:
            unit = f" ({keys[key]['unit']})" if keys[key]["unit"] else ""
            lines.append(f"    # {key}: {_value(keys[key]['default'])}  # {_sentence(keys[key]['meaning'])}{unit}")
    if not choice.keys:
        lines[lines.index("  config:")] = "  config: {}  # remove {} once a key stands below"
    return "\n".join(lines) + "\n"


def _nested(keys: dict[str, tuple[Any, str]]) -> list[str]:
    """Return the lines of keys with the reason for each, those of a section below its name."""
    lines: list[str] = []
    for key, (value, why) in sorted(keys.items(), key=lambda item: ("." in item[0], item[0])):
        section, _, last = key.rpartition(".")
        if section and f"    {section}:" not in lines:
            lines.append(f"    {section}:")
        lines.append(f"{'      ' if section else '    '}{last}: {_value(value)}  # {why}")
    return lines


def _value(value: Any) -> str:
    """Return plain data as YAML on one line; floats without an exponent, which YAML 1.1 reads as a string."""
    if isinstance(value, float) and "e" in repr(value):
        return f"{value:.12f}".rstrip("0") + ("0" if value.is_integer() else "")
    return json.dumps(value)


def _sentence(text: str) -> str:
    """Return the first sentence of ``text``, without its full stop."""
    return re.split(r"(?<=[a-z0-9)])[.;:] ", text)[0].rstrip(".")
