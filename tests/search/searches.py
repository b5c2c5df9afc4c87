"""A search's data and trials as the tests of this folder use them, and makers of runs that train nothing."""

import dataclasses

from experiment_fakes import Spec, trainer

from drl_cli.experiments import run

METRIC = "evaluation/episode_reward_mean"
plan = {}  # what the runs are made of: local_dir, script (of the Trainer), stop, made (Trainer classes by trial)


def data(**changes):
    """Return the plain data of a search of four trials over ``lr``."""
    points = [point(number, 0.1 * (number + 1)) for number in range(4)]
    found = {
        "id": "abc12",
        "experiments": [
            {
                "name": "cartpole",
                "mapping": {"run": "PPO", "env": "CartPole-v1", "config": {"lr": {"uniform": [0, 1]}}, "stop": {}},
                "paths": {"lr": ["config", "lr"]},
            }
        ],
        "points": points,
        "flags": {"imports": []},
        "ray": {},
        "scheduler": {"name": "FIFO", "config": {}},
        "search": None,
        "samplers": {},
        "num_trials": 4,
        "metric": METRIC,
        "mode": "max",
        "goal": None,
        "max_failures": 0,
        "seed": 3,
        "bundles": [{"CPU": 1}],
        "seeded": False,
        "folder": "",
        "write": None,
    }
    return {**found, **changes}


def point(number, lr, **more):
    """Return the point of a trial."""
    return {"trial": number, "experiment": 0, "values": {"lr": lr}, "seed": 7, "bundles": [{"CPU": 1}], **more}


def trial(number, lr, score, steps=1000, state="finished", **more):
    """Return what a record holds of a trial that is over."""
    result = {METRIC: score, "timesteps_total": steps}
    return {"point": point(number, lr, **more), "state": state, "result": result}


def spec_of(search, at):
    """The maker of specs: lr goes into the config."""
    spec = Spec(plan["local_dir"], stop=plan.get("stop", {"training_iteration": 3}), name="cartpole", run="PPO")
    spec.config.values["lr"] = at["values"]["lr"]
    return dataclasses.replace(spec, trial=f"{search['id']}_{at['trial']:05d}", env="CartPole-v1")


def steps(spec, request):
    """The maker of runs: the real driving around a scripted Trainer."""
    made = trainer(plan["script"], start_error=plan.get("start_error"))
    plan.setdefault("made", []).append(made)
    return run.stepwise(spec, request, made, lambda: 0.0)
