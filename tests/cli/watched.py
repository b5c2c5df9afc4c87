"""A scripted run for the tests of the console and the screen: (seconds, kind, fields)."""

RUN = "/results/default/SAC_LunarLanderContinuous-v3_00000_2026-11-21_10-17-38_ab12cd"


def progress(**changes):
    """The fields of a progress event."""
    fields = {
        "seconds": 14.0,
        "env_steps": 61_234,
        "env_steps_per_s": 1712.3,
        "updates": 24_493,
        "updates_per_s": 644.1,
        "episodes": 412,
        "episode_reward_mean": 153.24,
        "replay_size": 61_234,
        "replay_capacity": 1_000_000,
        "weight_version": 490,
        "weight_lag": 1.2,
        "waiting": "learner is waiting for samples",
        "training_iteration": 24,
        "workers": 2,
        "learner": "learning",
    }
    return {**fields, **changes}


def result(iteration, **changes):
    """The fields of a result event."""
    values = {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "timesteps_this_iter": 1000,
        "time_this_iter_s": 0.5,
        "episodes_total": 4 * iteration,
        "episode_reward_mean": -100.0 + iteration,
        "info": {"num_updates": 400 * iteration},
    }
    return {"result": {**values, **changes}}


EVALUATION = {
    "training_iteration": 20,
    "timesteps_total": 48_000,
    "episode_reward_mean": 214.4,
    "episodes": 10,
    "confirmed": 205.6,
}
CHECKPOINT = {
    "path": RUN + "/checkpoint_000020",
    "training_iteration": 20,
    "reason": "best",
    "seconds": 0.2,
    "replay": False,
}
BEST = {
    "checkpoint": "checkpoint_000020",
    "metric": "evaluation/episode_reward_mean",
    "value": 205.6,
    "training_iteration": 20,
}
GOAL = {
    "metric": "evaluation/episode_reward_mean",
    "target": 200.0,
    "value": 214.4,
    "confirmed": 205.6,
    "seconds": 50.0,
}
SCRIPT = [
    (0.4, "notice", {"text": "LunarLanderContinuous-v2 is retired and runs as LunarLanderContinuous-v3."}),
    (0.5, "run", {"run": RUN}),
    (0.6, "phase", {"text": "starting Ray, 2 workers"}),
    (13.0, "progress", progress(env_steps=1_000, episode_reward_mean=-180.0)),
    (14.0, "progress", progress(env_steps=30_000, episode_reward_mean=-20.0)),
    (15.0, "progress", progress()),
    (40.0, "evaluation", EVALUATION),
    (40.5, "checkpoint", CHECKPOINT),
    (40.5, "best", BEST),
    (45.0, "worker_lost", {"worker": 1, "incarnation": 0, "text": "killed by signal 9"}),
    (47.0, "worker_started", {"worker": 1, "incarnation": 1}),
    (50.0, "goal", GOAL),
]
