"""Which small runs ``test_resume_matrix`` interrupts: every algorithm with every pair of features, refused ones counted.

    nice -n 10 python tests/runtime/resume_matrix.py              # prints the cases, and what the schema refuses of them
    python -m pytest -q -m slow tests/runtime/test_resume_matrix.py

Per algorithm there are six combinations, in which each pair of values of two features occurs (tested): the three kinds of nets,
twice each, with opposite values of the other features. Where the program refuses a combination, the smallest set of features
whose absence makes it acceptable is left out, and what was refused and why is part of the case. A case that leaves what another
case of the algorithm has is not run again.
"""

import contextlib
import functools
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pydantic

if __name__ == "__main__":
    from drl_cli import process

    process.prepare()
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import gymnasium
import numpy as np
import team_envs  # noqa: F401  registers environments of teams

from drl_cli import plugins
from drl_cli.algorithms import table
from drl_cli.envs.callbacks import Callbacks, register_callbacks
from drl_cli.errors import DrlError
from drl_cli.experiments import env_facts
from drl_cli.extras import load
from drl_cli.runtime import assembly

ITERATIONS, INTERRUPTIONS = 8, 5
NETS = ("feed-forward", "LSTM", "images")
FEATURES = ("filter", "priorities", "callbacks", "agents")
# Row k of each feature's three bits is its value in the first of the two combinations with net k. No two features have equal or
# opposite bits, so that any two of them have equal values with one net and different ones with another.
BITS = {"filter": (0, 0, 0), "priorities": (0, 0, 1), "callbacks": (0, 1, 0), "agents": (0, 1, 1)}
SMALL = {
    "seed": 7,
    "num_workers": 0,
    "num_replay_shards": 0,
    "num_envs_per_worker": 2,
    "xla": False,
    "horizon": 16,
    "evaluation_interval": 3,
    "evaluation_num_episodes": 1,
    "timesteps_per_iteration": 60,
    "learning_starts": 60,
    "buffer_size": 300,  # full before the run ends
    "rollout_fragment_length": 8,
    "train_batch_size": 16,
    "training_intensity": 4.0,
    "updates_per_call": 4,
    "publish_every": 4,
    "num_sgd_iter": 2,
    "vf_iterations": 2,
    "sgd_minibatch_size": 16,
    "burn_in": 2,
    "episodes_per_batch": 6,
    "num_rollouts": 4,
    "rollouts_used": 2,
    "bc_iters": 2,
    "num_actions": 2,
    "mixing_embed_dim": 4,
}
ON_POLICY = {"train_batch_size": 32, "rollout_fragment_length": 16}
NET = {"fcnet_hiddens": [8]}
SIZES = (
    {"policy_model": NET, "Q_model": NET},
    {"actor_hiddens": [8], "critic_hiddens": [8]},
    {"hiddens": [8]},
)
MEMORY = {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4}
IMAGE = {"conv_filters": [[4, 3, 2], [4, 3, 2]]}
AGENTS = {
    "copies": 2,
    "policies": {"first": {}, "other": {}},
    "policy_mapping": {"0": "first", "*": "other"},
}
ALWAYS_SEQUENCES = ("R2D2", "RNNSAC", "RNNTD3")
TEAMS = {"VDN": "drl/TwoStepGame-v1", "QMIX": "drl/TwoStepGame-v1", "MAPPO": "drl/TwoStepGame-v1"}
TEAMS |= {"MADDPG": "drl/TwoStepGame-v1"}


class Case(NamedTuple):
    """``net`` of ``NETS`` and ``features``, those of ``FEATURES`` that are on; ``refused``: {feature left out: why}."""

    net: str
    features: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def what(self) -> tuple[str, ...]:
        """What differs from a plain run."""
        return ((self.net,) if self.net != NETS[0] else ()) + self.features


def combinations() -> list[Case]:
    """Return the six combinations, see the head of the file."""
    found = []
    for k, net in enumerate(NETS):
        for opposite in (0, 1):
            found.append(Case(net, tuple(name for name in FEATURES if BITS[name][k] ^ opposite)))
    return found


class Counting(Callbacks):
    """Counts steps in its state, reports the count with each episode, and adds a little to rewards."""

    def __init__(self) -> None:
        self.steps = 0

    def on_episode_step(self, **more: Any) -> None:
        """Count."""
        self.steps += 1

    def on_episode_end(self, *, episode: Any, **more: Any) -> None:
        """Report."""
        episode.custom_metrics["steps"] = float(self.steps)

    def state(self) -> dict[str, int]:
        """What a checkpoint keeps."""
        return {"steps": self.steps}

    def load(self, state: dict[str, int]) -> None:
        """Go on from a checkpoint."""
        self.steps = state["steps"]


class Dot(gymnasium.Env):
    """A bright dot on 12 x 12 pixels, moved by the action and by chance; an edge ends the episode."""

    observation_space = gymnasium.spaces.Box(0, 255, (12, 12, 1), np.uint8)

    def __init__(self, is_continuous: bool = False) -> None:
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,)) if is_continuous else gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; returns (pixels uint8 [12, 12, 1], {})."""
        super().reset(seed=seed)
        self._at = [int(self.np_random.integers(2, 10)), 6]
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Make a step."""
        self._at[1] += 1 if np.asarray(action).ravel()[0] > 0 else -1
        self._at[0] = (self._at[0] + int(self.np_random.integers(0, 3)) - 1) % 12
        ended = not 0 <= self._at[1] < 12
        self._at[1] %= 12
        return self._seen(), 1.0, ended, False, {}

    def _seen(self) -> np.ndarray:
        image = np.zeros((12, 12, 1), np.uint8)
        image[self._at[0], self._at[1]] = 255
        return image


gymnasium.register("ResumeDot-v0", entry_point=f"{__name__}:Dot")
gymnasium.register("ResumeDotBox-v0", entry_point=f"{__name__}:Dot", kwargs={"is_continuous": True})


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Have the callbacks of the cases registered; the runs of other tests shall not carry them."""
    register_callbacks("resume_matrix", Counting)
    try:
        yield
    finally:
        plugins.CALLBACKS._things.pop("resume_matrix")


def experiment(algorithm: str, case: Case) -> tuple[Any, dict[str, Any]]:
    """Return (config, what a Driver is told of the environment). Raises DrlError or ValidationError where it is refused."""
    row = table.find(algorithm)
    schema = load(row.config)
    keys = {**SMALL, **(ON_POLICY if row.loop != "replay" else {})}
    keys = {name: value for name, value in keys.items() if name in schema.model_fields}
    keys |= next((own for own in SIZES if own.keys() <= schema.model_fields.keys()), {})
    has_own_sizes = keys.keys() & {"policy_model", "actor_hiddens"}
    model = dict(NET) if "model" in schema.model_fields and not has_own_sizes else {}
    model |= {"LSTM": MEMORY, "images": IMAGE}.get(case.net, {})
    keys |= {"model": model} if model else {}
    keys |= {"observation_filter": "MeanStdFilter" if "filter" in case.features else "NoFilter"}
    keys |= {"prioritized_replay": "priorities" in case.features} if _has_priorities(schema, case) else {}
    if "priorities" not in case.features and "worker_side_prioritization" in schema.model_fields:
        keys["worker_side_prioritization"] = False
    if case.net != "LSTM" and algorithm not in ALWAYS_SEQUENCES:
        keys.pop("burn_in", None)
    keys |= {"callbacks": "resume_matrix"} if "callbacks" in case.features else {}
    keys |= {"multiagent": AGENTS} if "agents" in case.features else {}
    is_discrete = "Discrete" in row.actions
    env = "CartPole-v1" if is_discrete else "Pendulum-v1"
    env = TEAMS.get(algorithm, env)
    if case.net == "images":
        env = "ResumeDot-v0" if is_discrete else "ResumeDotBox-v0"
    found = env_facts.found(row, schema.model_validate(keys), env)
    return found.config, {**found.facts, "asked": env, "imports": ()}


def _has_priorities(schema: Any, case: Case) -> bool:
    """Whether the key is to be given: where it is wanted, known or not, and where it would be on by default."""
    return "priorities" in case.features or "prioritized_replay" in schema.model_fields


def refusal(algorithm: str, case: Case) -> str | None:
    """Return in one line why the program refuses the case, None where it takes it."""
    try:
        assembly.setup_of(
            table.find(algorithm), *experiment(algorithm, case)
        )  # nets refuse some, as a run does at its start
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:160]
    except DrlError as error:
        return " ".join(str(error).split())[:160]
    return None


def _without(case: Case, left_out: tuple[str, ...]) -> Case:
    net = NETS[0] if case.net in left_out else case.net
    return Case(net, tuple(name for name in case.features if name not in left_out))


def reduced(algorithm: str, case: Case) -> Case | None:
    """Return the case without the fewest features whose absence makes it acceptable, None where nothing does."""
    why = refusal(algorithm, case)
    if why is None:
        return case
    for count in range(1, len(case.what) + 1):
        for left_out in itertools.combinations(reversed(case.what), count):
            candidate = _without(case, left_out)
            if refusal(algorithm, candidate) is None:
                reasons = {name: _alone(algorithm, name) or why for name in left_out}
                return candidate._replace(refused=tuple(reasons.items()))
    return None


def _alone(algorithm: str, name: str) -> str | None:
    """Return why a plain run with that feature only is refused, None where it is not."""
    return refusal(algorithm, Case(name, ()) if name in NETS else Case(NETS[0], (name,)))


@functools.cache
def cases(algorithm: str) -> tuple[Case | str, ...]:
    """Return what becomes of each combination: the Case to run, or why it is not run."""
    found: list[Case | str] = []
    for case in combinations():
        own = reduced(algorithm, case)
        if own is None:
            found.append(f"refused: {refusal(algorithm, Case(NETS[0], ()))}")
        elif any(isinstance(one, Case) and one[:2] == own[:2] for one in found):
            found.append(
                f"refused: {', '.join(f'{name} ({why})' for name, why in own.refused)}; the rest is another case"
            )
        else:
            found.append(own)
    return tuple(found)


def moments(algorithm: str, number: int) -> list[int]:
    """Return the iterations after which the run of a case is interrupted, in order."""
    return sorted(random.Random(f"{algorithm} {number}").sample(range(1, ITERATIONS), INTERRUPTIONS))


def main() -> None:
    """Print what is run and what is refused."""
    ran = refused = 0
    for row in table.built_in():
        for number, case in enumerate(cases(row.name)):
            if isinstance(case, str):
                refused += 1
                print(f"{row.name:10} {number}  -- {case}")
                continue
            ran += 1
            left_out = "".join(f"; without {name}: {why}" for name, why in case.refused)
            print(f"{row.name:10} {number}  {', '.join(case.what) or 'plain'}{left_out}")
    print(f"{ran} cases are run, {refused} are refused or the same as another")


if __name__ == "__main__":
    with registered():
        main()
