"""Run folders as a run writes them, made in a moment: for the tests of what reads them."""

import datetime
import json
import os
import socket

STARTED = 1_795_291_000.0  # seconds since the epoch


def iso(seconds):
    """The time ``STARTED + seconds`` as the records write it."""
    moment = datetime.datetime.fromtimestamp(STARTED + seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def row(iteration, **changes):
    """A row of result.json: 1,000 steps, 2 s and 40 updates an iteration, training return 10 × iteration."""
    values = {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "timesteps_this_iter": 1000,
        "time_this_iter_s": 2.0,
        "time_total_s": 2.0 * iteration,
        "timestamp": int(STARTED) + 10 + 2 * iteration,
        "episodes_total": 5 * iteration,
        "episode_reward_mean": 10.0 * iteration,
        "num_healthy_workers": 2,
        "evaluation": {},
        "info": {"num_updates": 40 * iteration, "weight_version": iteration, "weight_lag_mean": 0.5},
    }
    return {**values, **changes}


def evaluation(iteration, value, confirmed=None):
    """What the row of ``iteration`` holds of an evaluation of its own weights."""
    return {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "num_updates": 40 * iteration,
        "episode_reward_mean": value,
        "episodes_this_iter": 10,
        "confirmed_reward_mean": confirmed,
        "confirmed_episodes": None if confirmed is None else 50,
    }


def write_run(root, number=1, rows=(), status=None, events=(), best=None, **params):
    """Write a run folder under ``root``/<experiment> and return its path.

    ``number`` makes its name and id; status: fields of status.json over a finished run's, False for no file; events:
    (seconds, kind, fields); best: content of best.json; the other keywords are fields of params.json.
    """
    told = {
        "run": "SAC",
        "env": "Pendulum-v1",
        "experiment": "default",
        "seed": number,
        "config": {"gamma": 0.99, "seed": number, "env": "Pendulum-v1"},
        "stop": {"evaluation/episode_reward_mean": -200.0},
        "checkpoint_freq": 0,
        **params,
    }
    name = f"{told['run']}_{told['env']}_0_2026-11-21_10-00-{number % 60:02}_{number:08x}"
    path = root / told["experiment"] / name
    path.mkdir(parents=True)
    (path / "params.json").write_text(json.dumps(told), encoding="utf-8")
    (path / ".lock").write_text("{}", encoding="utf-8")
    if status is not False:
        ended = {"state": "finished", "exit_code": 0, "text": "goal reached", "pid": os.getpid()}
        times = {"host": socket.gethostname(), "started": iso(0), "updated": iso(100)}
        (path / "status.json").write_text(json.dumps({**ended, **times, **(status or {})}), encoding="utf-8")
    if rows:
        (path / "result.json").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    if best:
        (path / "best.json").write_text(json.dumps(best), encoding="utf-8")
    add_events(path, events)
    return path


def add_events(path, events):
    """Append (seconds, kind, fields) to the events.jsonl of a run."""
    with open(path / "events.jsonl", "a", encoding="utf-8") as file:
        for seconds, kind, fields in events:
            file.write(json.dumps({"time": iso(seconds), "kind": kind, **fields}) + "\n")


def add_row(path, new):
    """Append a row to the result.json of a run."""
    with open(path / "result.json", "a", encoding="utf-8") as file:
        file.write(json.dumps(new) + "\n")


def set_status(path, **fields):
    """Change fields of status.json."""
    known = json.loads((path / "status.json").read_text(encoding="utf-8"))
    (path / "status.json").write_text(json.dumps({**known, **fields}), encoding="utf-8")
