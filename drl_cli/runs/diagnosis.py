"""Whether a run looks stuck or as if it diverges, from its results, and between two of them from the events of its progress.

User: ``experiments.run``.

Rules, each with what it measures and how far from normal it must be; a rule reports once, and again after a while if it
still holds. They stay silent where a run is merely slow or noisy: what has reached its goal is never stuck.

- *no episode*: none has ended in several times the time limit, so that there is no reward to look at.
- *entropy*: the policy is all but deterministic (Discrete: below 1 % of ln n; Box: below that of a deviation of 0.01), and
  rewards have stopped rising.
- *values*: Q values or the value's error are ten times what the rewards seen can add up to: returns of whole episodes, or
  their mean reward over 1/(1 − γ), and for SAC the entropy's share of it.
- *temperature*: SAC's alpha beyond 100: the target entropy cannot be reached.
- *making*: more than a tenth of sampling goes into making environments.
- *one score*: evaluations give exactly the same reward in every episode, again and again, and training does not move either.
- *no progress*: after many env steps training rewards are where they began, and the results name a cause: one return in all
  episodes, large rewards or observations that nothing scales.
- *needs noise*: evaluations, which are greedy, stay far below training that no longer rises, and the network gives the
  standard deviation of Box actions for each state.
- *waits*: episodes, short at first, last to the time limit, evaluations gain nothing, and the first episodes had cost much.
- *plateau*: evaluations have risen, have gained next to nothing for half of the run since, and 100,000 env steps at least, and
  are not half-way to the reward that is wanted. Where training stays far below them, less noise is advised, else more.
- *fallen*: evaluations stay below half of what they had reached.

A run in which nothing moves has no results; ``StallWatch`` looks at it between them:

- *no movement*: neither an env step nor an update for a minute, or three times the longest pause so far.
- *silence*: no event at all for three minutes: the thread of the run is inside one call all that time, so another thread looks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drl_cli import events
from drl_cli.runs.run_history import FALLEN, History, Situation

AGAIN_S, IN_A_ROW = 600.0, 3  # seconds between two reports of one finding; results that must agree
EPISODES_OVERDUE = 3  # time limits without an end
WITHOUT_LIMIT = 20_000  # steps of each environment without an end, where there is no time limit
NO_CHOICE, NO_NOISE = 0.01, 0.01  # share of the largest entropy; deviation, in units of half the action range
EXPLODED, HOT = 10.0, 100.0  # times what rewards can explain; SAC's alpha
SAME_SCORES, SAME_STEPS = 5, 30_000  # evaluations of one score, and env steps over which
NO_PROGRESS_STEPS = 100_000
BELOW_TRAINING, BELOW = 5, 0.5  # evaluations in a row, and share of what training rose by
WAITING = 5  # evaluations in a row
HALF_WAY, RISE = 0.5, 0.05  # shares of the way from the first evaluation to the reward that is wanted
SHORT, FULL = 0.5, 0.95  # shares of the time limit: the first episodes at most, the newest at least
LARGE_RETURN, LARGE_OBSERVATION = 1000.0, 20.0  # from which on gradients are dominated by units
MAKING, MAKING_S = 0.1, 1.0  # share of sampling, and seconds of sampling before it is judged


class Findings:
    """Reports what looks wrong as the event ``diagnosis``: each finding at most every ``AGAIN_S`` seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reported: dict[str, float] = {}

    def report(self, name: str, text: str) -> None:
        """Report the finding ``name`` unless it was reported a short while ago."""
        now = self._clock()
        if now - self._reported.get(name, -math.inf) >= AGAIN_S:
            self._reported[name] = now
            events.report("diagnosis", name=name, text=text)


class Diagnosis:
    """Looks at each result of a run and reports what looks wrong."""

    def __init__(self, facts: Situation, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds."""
        self._facts, self._findings, self._history = facts, Findings(clock), History()
        self._held: dict[str, int] = {}  # name of a rule -> results in a row for which it held
        self._sampling = (0.0, 0.0)  # seconds of sampling, and those of them in which environments were made

    def see(self, result: Mapping[str, Any]) -> None:
        """Look at one nested result and report what looks wrong."""
        self._history.add(result)
        if text := self._making(result.get("timers") or {}):
            self._findings.report("making", text)
        if self._history.has_reached(self._facts.target) or self._is_perfect():
            return
        learner = (result.get("info") or {}).get("learner") or {}
        for name, needed, text in (
            ("no episode", 1, self._no_episode(result)),
            *(found for policy, stats in learner.items() for found in self._of_policy(policy, result, stats or {})),
            ("one score", 1, self._one_score(result)),
            ("no progress", 1, self._no_progress(result)),
            ("needs noise", 1, self._needs_noise(result)),
            ("waits", 1, self._waits(result)),
            ("plateau", 1, self._plateau(result)),
            ("fallen", 1, self._fallen()),
        ):
            self._held[name] = self._held.get(name, 0) + 1 if text else 0
            if text and self._held[name] >= needed:
                self._findings.report(name, text)

    def _of_policy(
        self, policy: str, result: Mapping[str, Any], stats: Mapping[str, Any]
    ) -> Iterator[tuple[str, int, str | None]]:
        """Yield (name, results in a row for which it has to hold, text) of what a policy's updates show."""
        is_one_of_several = policy != "default_policy"
        for name, text in (
            ("entropy", self._entropy(stats)),
            ("values", self._values(result, stats)),
            ("temperature", self._temperature(stats)),
        ):
            if is_one_of_several:
                yield f"{name} of {policy}", IN_A_ROW, text and f"Policy {policy}: {text}"
            else:
                yield name, IN_A_ROW, text

    def _no_episode(self, result: Mapping[str, Any]) -> str | None:
        episodes, ended_at = self._history.ended
        steps = ((result.get("timesteps_total") or 0) - ended_at) / self._facts.streams
        limit = self._facts.limit
        if self._facts.reads or steps <= (EPISODES_OVERDUE * limit if limit else WITHOUT_LIMIT):
            return None
        since = "yet" if not episodes else f"since env step {ended_at:,}"
        lack = "is not kept" if limit else "is missing"
        return (
            f"Looks stuck: no episode has ended {since}, {steps:,.0f} steps in each environment: its time limit {lack}, "
            "and episode_reward_mean says nothing. Set horizon."
        )

    def _making(self, timers: Mapping[str, Any]) -> str | None:
        sampled = self._sampling[0] + (timers.get("sample_s") or 0.0)
        made = self._sampling[1] + (timers.get("make_env_s") or 0.0)
        self._sampling = (sampled, made) if sampled < MAKING_S else (0.0, 0.0)
        if sampled < MAKING_S or made <= MAKING * sampled:
            return None
        why = (
            "fresh_envs constructs one for every episode; omit it, and they are only reset"
            if self._facts.fresh
            else "an environment that raised is constructed again; its errors are above"
        )
        return f"Constructing environments takes {100 * made / sampled:.0f} % of sampling: {why}."

    def _entropy(self, stats: Mapping[str, Any]) -> str | None:
        entropy, facts = stats.get("entropy"), self._facts
        if entropy is None or self._history.is_rising:
            return None
        if facts.choices is not None:
            if entropy >= NO_CHOICE * facts.choices:
                return None
            measured = f"{entropy:.2g}, of {facts.choices:.2g} for a uniform choice"
        else:
            if entropy >= facts.dims * (0.5 * math.log(2 * math.pi * math.e) + math.log(NO_NOISE)):
                return None
            measured = f"{entropy:.3g}, which is less than a deviation of {NO_NOISE:g} has"
        return (
            f"Looks stuck: the policy's entropy is {measured}, and rewards have stopped rising: the policy no longer "
            f"explores. Raise entropy_coeff, or lower lr."
        )

    def _values(self, result: Mapping[str, Any], stats: Mapping[str, Any]) -> str | None:
        if self._facts.scaled or not (result.get("episodes_total") or 0):
            return None
        bound = self._explainable(result, stats)
        values = {"Q values": stats.get("mean_q")}
        for name in ("vf_loss", "critic_loss"):
            if stats.get(name) is not None and stats[name] >= 0:
                values[f"errors of the values ({name})"] = math.sqrt(stats[name])
        for name, value in values.items():
            if value is not None and abs(value) > EXPLODED * bound:
                return (
                    f"Looks as if it diverges: {name} of {value:,.3g}, where the rewards seen add up to {bound:,.3g} at most. "
                    f"{self._scale_rewards()}Lower the learning rates, set grad_clip, or update the targets more slowly."
                )
        return None

    def _explainable(self, result: Mapping[str, Any], stats: Mapping[str, Any]) -> float:
        """Return the largest value of a state that the rewards seen so far can add up to, without its sign."""
        facts, length = self._facts, max(1.0, result.get("episode_len_mean") or 1.0)
        horizon = 1.0 / (1.0 - facts.gamma) if facts.gamma < 1 else length
        bonus = (stats.get("alpha_value") or 0.0) * (facts.choices or 2.0 * facts.dims) * horizon
        largest = self._history.largest_return
        return max(1.0, largest, largest / length * horizon) + bonus

    def _temperature(self, stats: Mapping[str, Any]) -> str | None:
        alpha = stats.get("alpha_value")
        if alpha is None or alpha <= HOT:
            return None
        return (
            f"Looks as if it diverges: the temperature has grown to {alpha:,.3g}: the target entropy "
            f"({stats.get('target_entropy')}) cannot be reached. Lower target_entropy."
        )

    def _one_score(self, result: Mapping[str, Any]) -> str | None:
        score, newest = self._history.common_score(SAME_SCORES), list(self._history.evaluations)[-SAME_SCORES:]
        trained = [one.trained for one in newest if one.trained is not None]
        if score is None or not trained or newest[-1].steps - newest[0].steps < SAME_STEPS:
            return None
        if max(trained) - min(trained) > 0.02 * max(1.0, abs(max(trained, key=abs))):
            return None
        return (
            f"Looks stuck: every episode of the last {SAME_SCORES} evaluations scored exactly {score:g}, and the "
            f"training reward does not change either: rewarded states may never have been reached. "
            f"{self._cut_short(result)}{self._facts.explore}."
        )

    def _no_progress(self, result: Mapping[str, Any]) -> str | None:
        """Name the cause of a run that has learnt nothing yet; None where its results show none, as it may be slow."""
        steps = result.get("timesteps_total") or 0
        if self._facts.reads or steps < NO_PROGRESS_STEPS or not self._history.is_where_it_began:
            return None
        only, bound = self._history.only_return, self._facts.bound
        if self._one_score(result) or (only is not None and only > 0):
            return None  # that finding says the same; or there is nothing more to get
        if only is not None:
            cause = f"Every episode returned {only:g}, so that rewarded states may never have been reached. "
            cause += f"{self._cut_short(result)}{self._facts.explore}."
        elif large := self._scale_rewards():
            cause = large.rstrip()
        elif bound is not None and bound > LARGE_OBSERVATION:
            cause = f"Observations reach {bound:,.4g} and are not scaled: set observation_filter=MeanStdFilter."
        else:
            return None
        return f"Looks stuck: after {steps:,} env steps training rewards are where they began. {cause}"

    def _needs_noise(self, result: Mapping[str, Any]) -> str | None:
        if not self._facts.state_std or (result.get("timesteps_total") or 0) < NO_PROGRESS_STEPS:
            return None
        if not self._history.needs_noise(BELOW_TRAINING, BELOW):
            return None
        means = [one.mean for one in list(self._history.evaluations)[-BELOW_TRAINING:]]
        return (
            f"Looks stuck: the last {BELOW_TRAINING} evaluations, which are greedy, were {min(means):.4g} to {max(means):.4g}, "
            f"where training is at {self._history.rewards[-1]:.4g}: the policy relies on its noise. "
            "Set model={free_log_std: true}."
        )

    def _waits(self, result: Mapping[str, Any]) -> str | None:
        limit, first, length = self._facts.limit, self._history.first_length, result.get("episode_len_mean")
        if self._facts.scaled or self._facts.unscalable or limit is None or first is None or length is None:
            return None
        steps = result.get("timesteps_total") or 0
        if steps < NO_PROGRESS_STEPS or first > SHORT * limit or length < FULL * limit:
            return None
        if not self._history.gains_nothing(WAITING):
            return None
        means = [one.mean for one in list(self._history.evaluations)[-WAITING:]]
        return (
            f"Looks stuck: episodes last to their limit of {limit:,} steps, and the last {WAITING} evaluations were "
            f"{min(means):.4g} to {max(means):.4g}: the policy may have learnt to wait, since a bad end costs more than it "
            f"expects to gain. Set clip_rewards to less than such an end costs. {self._facts.explore}."
        )

    def _plateau(self, result: Mapping[str, Any]) -> str | None:
        first, best, target = self._history.first, self._history.best, self._facts.target
        if self._facts.reads or target is None or first is None or best is None:
            return None
        way = target - first.mean
        risen = self._history.last_rise(RISE * way)
        if risen is None or risen is first or best.mean - first.mean >= HALF_WAY * way:
            return None
        steps = result.get("timesteps_total") or 0
        if steps - risen.steps < max(NO_PROGRESS_STEPS, steps / 2):
            return None
        if self._waits(result) or self._needs_noise(result) or self._fallen():
            return None  # these name a cause
        return (
            f"Looks stuck: evaluations have gained next to nothing since env step {risen.steps:,}: {best.mean:,.4g} at best, "
            f"where {target:,g} is wanted.{self._length(result)} {self._noise(best.mean - first.mean)}, or try other seeds."
        )

    def _noise(self, gain: float) -> str:
        """Say which key changes the noise of a run whose evaluations have gained ``gain``, as a sentence without its stop."""
        below = self._history.training_below(IN_A_ROW)
        if not self._facts.narrower or below <= BELOW * gain:
            return self._facts.wider
        return f"Training stays {below:,.4g} or more below these greedy evaluations: noise costs much. {self._facts.narrower}"

    def _length(self, result: Mapping[str, Any]) -> str:
        """Say, after a blank, when episodes end, where they have a limit; else an empty string."""
        limit, length = self._facts.limit, result.get("episode_len_mean")
        if limit is None or length is None:
            return ""
        if length >= FULL * limit:
            return f" Episodes last to their limit of {limit:,} steps, which may be all that was learnt."
        return f" Episodes end after {length:,.0f} of {limit:,} steps."

    def _scale_rewards(self) -> str:
        """Return the advice to scale rewards, with a blank after it; an empty string where they are small or scaled."""
        largest = self._history.largest_return
        if self._facts.scaled or self._facts.unscalable or largest <= LARGE_RETURN:
            return ""
        return f"Returns reach {largest:,.4g} in size and are not scaled: set reward_scaling=true. "

    def _cut_short(self, result: Mapping[str, Any]) -> str:
        """Say, with a blank after it, where every episode of late was cut at the time limit; else an empty string."""
        limit, length = self._facts.limit, result.get("episode_len_mean")
        if limit is None or length is None or length < limit:
            return ""
        advice = "Raise horizon. " if limit == self._facts.horizon else ""
        return f"Every episode is cut after {limit:,} steps, perhaps too early. {advice}"

    def _is_perfect(self) -> bool:
        """Whether the newest evaluations all scored the same, and that may be the highest score of this environment.

        It is where the environment counts as solved; where that is not known, it may be if no episode ever got more, and some
        got less or it is more than 0.
        """
        score, facts, history = self._history.common_score(IN_A_ROW), self._facts, self._history
        if score is None:
            return False
        if facts.threshold is not None:
            return score >= facts.threshold
        if facts.target is not None or score < history.returns_to:
            return False
        return score > 0 or score > history.returns_from

    def _fallen(self) -> str | None:
        first, best = self._history.first, self._history.best
        if self._history.count < FALLEN + 2 or first is None or best is None:
            return None
        now, then = self._history.evaluations[-1].trained, best.trained
        if now is not None and then is not None and now > then + 0.1 * max(1.0, abs(then)):
            return None  # training goes better than it did then: that evaluation was luck
        highest = max(one.mean for one in self._history.evaluations)
        gain = best.mean - first.mean
        if gain <= 0.1 * max(1.0, abs(best.mean), abs(first.mean)) or highest >= 0.5 * (best.mean + first.mean):
            return None
        return (
            f"Looks as if it diverges: evaluations had reached {best.mean:.4g} (iteration {best.iteration}), the last "
            f"{FALLEN} were {highest:.4g} at most. Lower the learning rates, from the start or once evaluations are good "
            "(lr_factor_by_return); the best checkpoint is kept."
        )


STILL_S = 60.0
SILENT_S, LISTEN_S = 180.0, 5.0  # the longest evaluations and checkpoints take minutes


class StallWatch:
    """Listens to the events of one run from ``start`` on, and looks every few seconds whether there are any."""

    def __init__(self, has_limit: bool, clock: Callable[[], float] = time.monotonic, every_s: float = LISTEN_S) -> None:
        """``has_limit``: episodes have a time limit; ``clock``: seconds; ``every_s``: seconds between two looks."""
        self._has_limit, self._clock, self._every_s = has_limit, clock, every_s
        self._findings = Findings(clock)
        self._moved: tuple[tuple, float] | None = None  # (env steps and updates, when they last changed)
        self._longest = 0.0  # seconds between two changes
        self._is_compiling = False
        self._last_event = clock()
        self._over = threading.Event()

    def start(self) -> Callable[[], None]:
        """Begin to listen; returns the function that ends it."""
        unsubscribe = events.subscribe(self.hear)
        thread = threading.Thread(target=self._look, name="silence", daemon=True)
        thread.start()

        def stop() -> None:
            unsubscribe()
            self._over.set()
            thread.join(timeout=1.0)

        return stop

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            self.check_silence()

    def hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Take in one event, and report if ``progress`` shows that nothing has moved for long."""
        if kind != "diagnosis":
            self._last_event = self._clock()
        if kind in ("result", "learner"):
            self._moved = None  # what follows may be an evaluation, a checkpoint or the compiler's work
        if kind == "learner":
            self._is_compiling = bool(fields["text"])
        if kind != "progress" or self._is_compiling:
            return
        now, seen = self._clock(), (fields.get("env_steps"), fields.get("updates"))
        if self._moved is None or seen != self._moved[0]:
            if self._moved is not None:
                self._longest = max(self._longest, now - self._moved[1])
            self._moved = (seen, now)
            return
        still = now - self._moved[1]
        if still >= max(STILL_S, 3 * self._longest) and fields.get("learner") == "learning":
            waiting = fields.get("waiting")
            who = f" ({waiting})" if waiting else ""
            text = f"Looks stuck: no env step and no update for {still:.0f} s{who}. Does env.step hang?"
            self._findings.report("no movement", text)

    def check_silence(self) -> None:
        """Report it when there has been no event for long."""
        silent = self._clock() - self._last_event
        if silent >= SILENT_S:
            ends = "" if self._has_limit else " (there is no time limit: set horizon)"
            text = f"Looks stuck: no news for {silent:.0f} s: env.step may hang, or the episodes of an evaluation do not end"
            self._findings.report("silence", f"{text}{ends}, or one very long call of the learner.")
