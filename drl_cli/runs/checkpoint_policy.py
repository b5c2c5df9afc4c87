"""Which checkpoints a run makes and keeps: periodic, best, final; and what happens when the disk is full.

User: ``experiments.run``. The best is the evaluation with the highest mean (the confirmed one where there is one),
or without evaluations the highest ``episode_reward_mean``; ties go to the newer. Only the newest whole checkpoint keeps
its replay, and a checkpoint that was made only for being the best goes when a better one is there. A save that fails
is tried again after 1, 2, 4, … 30 minutes; the checkpoints before it are never touched for it.
"""

import time

from drl_cli import checkpoints, events
from drl_cli.config.result_names import flatten
from drl_cli.errors import CheckpointError, Overdue, RunFolderError
from drl_cli.runs import retention
from drl_cli.runs.run_folder import now

BEST_EVERY = 10  # iterations between two saves of a best that is only a mean of training episodes
RETRY_SECONDS, MAX_RETRY_SECONDS = 60.0, 1800.0
EVALUATED, TRAINED = "evaluation/episode_reward_mean", "episode_reward_mean"


class Keeping:
    """The checkpoint policy of one run; ``best`` and ``saved``: paths of the best and the newest whole one, or None."""

    def __init__(self, spec, opening, trainer, clock=time.monotonic):
        """``opening`` is the Opening of the run, ``trainer`` saves, ``clock`` returns monotonic seconds."""
        self._spec, self._folder, self._trainer, self._clock = spec, opening.folder, trainer, clock
        self._freq = spec.checkpoint_freq or 0
        self._score = spec.checkpoint_score_attr or "training_iteration"
        self._evaluating = bool(spec.config.evaluation_interval)
        self._values = {}
        for row in opening.rows:
            self._note_value(row)
        started = opening.start
        self._protected = [started.path] if started else []
        self._saved_at = started.number if started and opening.exact else None
        self.saved = started.path if started and opening.exact else None
        self.best, self._best_value, self._best_at = None, None, None
        self._only_best = False  # whether the best was made for nothing else
        self._started_at = started.number if started else -1
        self._earlier_best = None  # the number of a best that a resumed run made beyond where it goes on from
        if opening.exact:
            self._take_over_best()
        self._seen_evaluation = None
        self._owed = self._warned = False
        self.is_overdue = False  # nothing could be saved in the time that a stop leaves
        self._delay, self._retry_at = RETRY_SECONDS, None

    def after(self, result):
        """Save, prune and drop what is due after one iteration (``result`` is its nested result dict)."""
        number = result["training_iteration"]
        self._note_value(result)
        better = self._better(result)
        periodic = self._freq > 0 and number % self._freq == 0
        if self._retry_at is not None and self._clock() < self._retry_at:
            self._owed = self._owed or periodic
            return
        if periodic or self._owed:
            if number == self._earlier_best and not better:
                self._owed = True  # its name is taken by the best so far: one iteration later
            else:
                self._owed = not self._save_whole(result, "periodic")
        if better:
            self._save_best(result)

    def now(self, result, for_good=False):
        """Save the state after ``result`` whether it is due or not; returns its path, None when the disk refused.

        ``for_good``: it is kept, whatever comes later.
        """
        if self._saved_at != result["training_iteration"] and not self._save_whole(result, "periodic"):
            return None
        if for_good:
            self._spare(self.saved)
        return self.saved

    def _spare(self, path):
        self._protected.append(path)
        if self._only_best and self.best == path:
            self._only_best = False
            self._quietly(
                lambda: self._folder.write("best.json", self._folder.read("best.json") | {"only_best": False})
            )

    def final(self, result):
        """Save the last state of the run; returns False when it could not be written."""
        if self._saved_at != result["training_iteration"] and not self._save_whole(result, "final"):
            return False
        if retention.number_of(self.saved) != result["training_iteration"]:
            return True  # an earlier state, all that was at hand: this result is not its own
        value, best = result.get(TRAINED), self._best_value
        better = not self._evaluating and value is not None and (best is None or value >= best)
        if better or self.best is None or self._earlier_best == result["training_iteration"]:
            self._name_best(self.saved, result, TRAINED, only=False)
        return True

    def _note_value(self, result):
        self._values[result["training_iteration"]] = flatten(result).get(self._score.removeprefix("min-"))

    def _better(self, result):
        """Whether this result brings a score that is at least as good as the best so far."""
        value = result.get(TRAINED)
        if self._evaluating:
            evaluation = result.get("evaluation") or {}
            seen = (evaluation.get("training_iteration"), evaluation.get("confirmed_reward_mean"))
            # One from before the start comes along with the results: its weights are not here to be saved.
            if seen[0] is None or seen[0] <= self._started_at or seen == self._seen_evaluation:
                return False
            self._seen_evaluation = seen
            value = _evaluated(evaluation)
        elif self._best_at is not None and 0 <= result["training_iteration"] - self._best_at < BEST_EVERY:
            return False
        return value is not None and (self._best_value is None or value >= self._best_value)

    def _save_best(self, result):
        if not self._evaluating:
            before = self._saved_at == result["training_iteration"]
            if before or self._save_whole(result, "best"):
                self._name_best(self.saved, result, TRAINED, only=not before)
            return
        evaluation = result["evaluation"]
        number = evaluation["training_iteration"]
        before = self._saved_at == number
        path = self.saved if before else self._save(self._trainer.save_evaluated, number, "best")
        if path is None:
            self._seen_evaluation = None  # look at it again when the disk may have room
            return
        self._name_best(path, evaluation, EVALUATED, only=not before)

    def _save_whole(self, result, reason):
        number = result["training_iteration"]
        path = self._save(lambda folder: self._trainer.save(folder, reason), number, reason)
        if path is None:
            return False
        self.saved, self._saved_at = path, number
        self._tidy(path)
        return True

    def _save(self, save, number, reason):
        """Call ``save(run_folder)``, report it, and return the path, or None when the disk refused."""
        began = self._clock()
        try:
            path = save(self._folder.path)
        except OSError as error:
            self._retry_at = self._clock() + self._delay
            again = f"trying again in {self._delay / 60:g} min" if reason != "final" else "earlier ones are untouched"
            self._delay = min(2 * self._delay, MAX_RETRY_SECONDS)
            text = f"checkpoint {number} could not be written ({error.strerror or error}); {again}"
            events.report("checkpoint_failed", path=str(self._folder.path / f"checkpoint_{number:06d}"), text=text)
            return None
        except Overdue as overdue:
            self.is_overdue = True
            events.report("warning", text=str(overdue))
            return None
        number = retention.number_of(path)
        self._delay, self._retry_at = RETRY_SECONDS, None
        replay = any(path.glob("replay-*.safetensors"))
        seconds = self._clock() - began
        told = {"training_iteration": number, "reason": reason, "seconds": seconds, "replay": replay}
        events.report("checkpoint", path=str(path), **told)
        return path

    def _name_best(self, path, scored, metric, only):
        value = _evaluated(scored) if metric == EVALUATED else scored.get(TRAINED)
        data = {"checkpoint": path.name, "metric": metric, "value": value, "only_best": only, "time": now()}
        data.update({name: scored.get(name) for name in ("training_iteration", "timesteps_total")})
        try:
            self._folder.write("best.json", data)
        except OSError as error:
            events.report(
                "warning", text=f"best.json cannot be written ({error.strerror}): it still names the one before"
            )
            return
        if self._only_best and self.best not in (path, self.saved, *self._protected):
            self._quietly(lambda: retention.remove(self.best))
        self.best, self._best_value, self._best_at = path, value, scored.get("training_iteration")
        self._only_best, self._earlier_best = only, None
        _report_best(data)

    def _take_over_best(self):
        """Go on from the best.json of the run that is resumed."""
        try:
            name = retention.best_name(self._folder.path)  # a plain name, so that nothing outside can be meant
            data = self._folder.read("best.json") or {}
            value, number = data.get("value"), data.get("training_iteration")
            fits = data.get("metric") == (EVALUATED if self._evaluating else TRAINED)
            if not fits or not isinstance(value, (int, float)) or not isinstance(number, int):
                return
            self.best = checkpoints.load(self._folder.path / name).path
        except (CheckpointError, RunFolderError) as error:
            events.report("warning", text=f"the best checkpoint so far cannot be used: {error}")
            return
        self._best_value, self._best_at = value, number
        _report_best(data)
        self._only_best = data.get("only_best") is True
        if self._saved_at is not None and number > self._saved_at:
            self._earlier_best = number

    def _tidy(self, newest):
        """Drop the replays of all but the newest whole checkpoint, and prune."""
        for _, path in retention.numbers(self._folder.path):
            if path != newest and any(path.glob("replay-*.safetensors")):
                self._quietly(lambda path=path: retention.drop_replay(path))
        keep = self._spec.keep_checkpoints_num
        if keep is not None:
            spared = [*self._protected, newest]
            self._quietly(lambda: retention.prune(self._folder.path, keep, spared, self._score, self._values))

    def _quietly(self, tidy):
        """Call ``tidy``; an old checkpoint that cannot be tidied up is only worth a warning, once."""
        try:
            tidy()
        except (OSError, CheckpointError, RunFolderError) as error:
            if not self._warned:
                events.report("warning", text=f"old checkpoints could not be tidied up: {error}")
            self._warned = True


def _report_best(data: dict) -> None:
    """Report the content of best.json."""
    names = ("checkpoint", "metric", "value", "training_iteration", "timesteps_total")
    events.report("best", **{name: data.get(name) for name in names})


def _evaluated(evaluation):
    confirmed = evaluation.get("confirmed_reward_mean")
    return evaluation.get("episode_reward_mean") if confirmed is None else confirmed
