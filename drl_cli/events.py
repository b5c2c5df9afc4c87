"""``report(kind, **fields)``: the one way in which anything below the command line speaks.

The live screen, ``drl.log``, ``events.jsonl`` and ``status.json`` are listeners; nothing else prints. Fields are plain
data (numbers, strings, lists, dicts of them). Reports may come from any thread; listeners run in the thread that
reports, one report at a time.

Kinds and their fields:

    run          run                              path of the run's folder, once it is open
    phase        text                             something that takes time begins ("starting Ray, 2 workers")
    notice       text                             something the user should know once ("…-v2 runs as …-v3")
    choice       text                             a line about the algorithm chosen for a command without --run
    warning      text                             something that is probably not meant
    progress     counters (see Trainer.progress)  several times a second while training; for screens only
    bottleneck   name, text, shares               what the run waits for by now, from measured times (runtime.bottleneck)
    diagnosis    name, text                       it looks stuck or as if it diverges, and why (runs.diagnosis)
    milestone    name ("first_sample" | "learner_ready" | "first_update"), seconds since the process started
    result       result                           the nested result dict of one iteration
    evaluation   training_iteration, timesteps_total, episode_reward_mean, episode_len_mean, episodes, confirmed
                 (``confirmed``: mean of the fresh episodes of the same weights, None when none were asked for)
    estimates    off_policy_estimator of a result: what recorded episodes say of the weights of the evaluation before it
    best         checkpoint, metric, value, training_iteration, timesteps_total   what best.json holds from now on
    history      rewards, result, best, checkpoint, seconds_ago   what a resumed run has: [env steps, episode_reward_mean] of
                 its iterations, its last result, what best.json holds (or None), the checkpoint that it goes on from, and the
                 age of its evaluation and of that checkpoint
    learner      text                             what the learner is at before it can learn, empty when it can
    goal         metric, target, value, confirmed, seconds, timesteps_total, num_updates   the touch
    held         target, value, evaluations       mean of the evaluations after the touch
    checkpoint   path, training_iteration, reason ("periodic" | "best" | "final"), seconds, replay (bool)
    checkpoint_failed  path, text
    worker_started     worker, incarnation
    worker_lost        worker, incarnation, text
    stopping     text
    trial        trial, point, state ("pending" | "running" | "paused" | "finished" | "stopped" | "failed" | "interrupted"),
                 and what is known: result (numbers by flat field), run_folder, text, failures, best     (of a search)
    finished     state ("finished" | "interrupted" | "failed"), text, exit_code, run, final, best
"""

import threading
from collections.abc import Callable
from typing import Any

Listener = Callable[[str, dict[str, Any]], object]

_listeners: list[Listener] = []
_lock = threading.RLock()


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call ``listener(kind, fields)`` for every report from now on; returns a function that ends this."""
    with _lock:
        _listeners.append(listener)

    def unsubscribe() -> None:
        with _lock:
            if listener in _listeners:
                _listeners.remove(listener)

    return unsubscribe


def report(kind: str, **fields: Any) -> None:
    """Hand ``kind`` and its fields (plain data) to every listener, in the order they subscribed."""
    with _lock:
        for listener in tuple(_listeners):
            listener(kind, fields)
