"""Every environment of PettingZoo and mpe2 that is installed: their API and seed tests, and 2,000 env steps of training.

    python benchmarks/pettingzoo_smoke.py                             # all that the installed packages bring
    python benchmarks/pettingzoo_smoke.py --only mpe2/ classic/chess  # ids that begin so

Each runs in the form that drl plays: parallel if there is one, else turn-based (aec). DQN trains turn-based environments, SAC
those with continuous actions, PPO all others, with small networks and without workers. Environments whose packages are not
installed are skipped, as are Atari games without multi_agent_ale_py. The exit code is 1 if anything else was not trained.
Needs: pip install 'drl-cli[multiagent]'
"""

import argparse
import contextlib
import io
import os
import platform
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec

from drl_cli import Trainer
from drl_cli.checks.env_probe import looked_at
from drl_cli.envs.multi_agent import names, open_envs
from drl_cli.errors import InputError
from drl_cli.extras import load

STEPS = 2_000
TESTS = {
    "parallel": ("pettingzoo.test:parallel_api_test", "pettingzoo.test:parallel_seed_test"),
    "aec": ("pettingzoo.test:api_test", "pettingzoo.test:seed_test"),
}
ALWAYS = {"num_workers": 0, "seed": 0, "evaluation_interval": None}
NET = {"fcnet_hiddens": [32, 32]}
IMAGES = {"dim": 42, "grayscale": True}
REPLAY = {
    "learning_starts": 500,
    "train_batch_size": 32,
    "buffer_size": 5_000,
    "timesteps_per_iteration": 500,
    "training_intensity": 4.0,  # steps learnt from for each that an agent took
}
KEYS = {
    "PPO": {"model": NET, "train_batch_size": 500, "sgd_minibatch_size": 125, "num_sgd_iter": 2},
    "DQN": {"model": NET, **REPLAY},
    "SAC": {"Q_model": NET, "policy_model": NET, **REPLAY},
}
ROW = "{:<37} {:<9} {:>6} {:>8}  {:<9} {:<8} {:<9} {:>7} {:>8}"


def main():
    """Test and train every environment, print a table, and what failed below it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=("",), metavar="START", help="first letters of ids")
    options = parser.parse_args()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    with_games = find_spec("multi_agent_ale_py") is not None
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    print("Atari games: included\n" if with_games else "Atari games: skipped, multi_agent_ale_py is not installed\n")
    print(
        ROW.format(
            "environment", "form", "agents", "policies", "algorithm", "API test", "seed test", "trained", "seconds"
        )
    )
    ids = [one for one in names.listed(with_games) if one.startswith(tuple(options.only))]
    failures = [line for env_id in ids for line in _row(env_id)]
    print(*(["", *failures] if failures else []), sep="\n")
    sys.exit(any(" trained: " in line for line in failures))


def _row(env_id):
    """Print the row of one environment; returns a line for each thing that failed."""
    began, failures = time.perf_counter(), []
    try:
        form = open_envs.kind_of(env_id, {})
        open_envs.raw(env_id, {}, form).close()
        api, seed = (_tested(env_id, form, test, failures) for test in TESTS[form])
    except InputError as error:
        print(f"{env_id:<37} skipped: {str(error).partition(', which')[0]}", flush=True)
        return []
    agents, policies, algorithm, steps = "-", "-", "-", 0
    try:
        seen = looked_at(env_id, {})
        if "error" in seen:
            raise RuntimeError(seen["error"])
        agents, algorithm = len(seen["agents"]), _algorithm(seen)
        policies, steps = _trained(env_id, algorithm, seen["spaces"]["obs"])
    except Exception as error:
        failures.append(f"{env_id} trained: {_said(error)}")
    seconds = f"{time.perf_counter() - began:.0f}"
    print(ROW.format(env_id, form, agents, policies, algorithm, api, seed, f"{steps:,}", seconds), flush=True)
    return failures


def _tested(env_id, form, test, failures):
    """Return how one of PettingZoo's tests ends: passed, warns or fails."""
    what = test.rpartition(":")[2]

    def new():
        return open_envs.raw(env_id, {}, form)

    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo's own modules
        try:
            load(test)(new if what.endswith("seed_test") else new(), 50)
        except Exception as error:  # an assertion of the test, or whatever the environment raises
            failures.append(f"{env_id} {what}: {_said(error)}")
            return "fails"
    return "warns" if warned else "passed"


def _algorithm(seen):
    """Return the name of the algorithm that fits: one of those that ``drl env check`` lists."""
    is_continuous = "SAC" in seen["fits"] and "DQN" not in seen["fits"]
    wanted = "SAC" if is_continuous else "DQN" if seen["is_turn_based"] else "PPO"
    return wanted if wanted in seen["fits"] else "PPO"


def _trained(env_id, algorithm, obs):
    """Return (number of policies, env steps) of a run of ``STEPS`` env steps; ``obs``: the space of its first agent."""
    config = {**ALWAYS, **KEYS[algorithm]}
    if obs["dtype"] == "uint8" and len(obs["shape"]) == 3:
        config["model"] = config.get("model", {}) | IMAGES
    with (
        tempfile.TemporaryDirectory() as folder,
        Trainer(algorithm, env=env_id, config=config, local_dir=folder) as trainer,
    ):
        steps = 0
        while steps < STEPS:
            result = trainer.train()
            steps = result["timesteps_total"]
        if not result["info"]["num_updates"]:
            raise RuntimeError("there was no update")
        return len(trainer.get_weights()), steps


def _said(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


if __name__ == "__main__":
    main()
