"""Whether a run looks stuck or as if it diverges, from its results. User: ``experiments.run``.

Rules, each with what it measures and how far from normal it must be; a rule speaks once, and again after a while if it
still holds. They are made to stay silent where a run is merely slow or noisy: what has reached its goal is never stuck.

- *no episode*: none has ended in several times the time limit, so that there is no reward to look at.
- *no movement*: neither an env step nor an update for a minute; or no news at all for three, which a thread looks after.
- *entropy*: the policy hardly draws any more (Discrete: below 1 % of ln n; Box: below what a deviation of 0.01 has), and
  rewards have stopped rising.
- *values*: Q values or the value's error are ten times what the rewards seen can add up to: returns of whole episodes, or
  their mean reward over 1/(1 − γ), and for SAC the entropy's share of it.
- *temperature*: SAC's alpha beyond 100: the entropy that is asked for cannot be reached.
- *making*: more than a tenth of sampling goes into making environments.
- *one score*: evaluations give exactly the same reward in every episode, again and again, and training does not move either.
- *fallen*: evaluations stay below half of what they had reached.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from drl_cli import events
from drl_cli.config.sections.offline import reads_only
from drl_cli.envs import make

if TYPE_CHECKING:
    from drl_cli.config.sections.common import CommonKeys

AGAIN_S = 600.0
IN_A_ROW = 3  # results that must agree
STILL_S = 60.0
SILENT_S, LISTEN_S = 180.0, 5.0  # the longest evaluations and checkpoints take minutes
EPISODES_OVERDUE = 3  # time limits without an end
WITHOUT_LIMIT = 20_000  # steps of each environment without an end, where there is no time limit
NO_CHOICE, NO_NOISE = 0.01, 0.01  # share of the largest entropy; deviation, in units of half the action range
EXPLODED = 10.0  # times what rewards can explain
HOT = 100.0
SAME_SCORES, SAME_STEPS = 5, 30_000  # evaluations of one score, and env steps over which
FALLEN = 8  # evaluations in a row
MAKING, MAKING_S = 0.1, 1.0  # share of sampling, and seconds of sampling before it is judged
STILL_RISING = 0.05  # of the spread of rewards so far


class Situation(NamedTuple):
    """What is known of a run before it starts.

    gamma, streams (environments side by side), limit: steps after which an episode is cut, or None; target: the reward that
    is wanted, or None; threshold: that at which the registry calls the environment solved, or None; choices: ln of the number
    of choices of Discrete actions, None for Box; dims: numbers of an action; scaled: rewards are learnt from in other units
    than they are told in; reads: all is read from files, nobody plays; fresh: every episode has a new environment.
    """

    gamma: float = 0.99
    streams: int = 1
    limit: int | None = None
    target: float | None = None
    threshold: float | None = None
    choices: float | None = None
    dims: int = 1
    scaled: bool = False
    reads: bool = False
    fresh: bool = False


def situation(config: CommonKeys, env: str, env_facts: Mapping[str, Any], goal: float | None = None) -> Situation:
    """Return the Situation of a run; ``env_facts``: those of its spec, ``goal``: the reward at which it stops, or None."""
    choices, dims = _choices((env_facts.get("spaces") or {}).get("action") or {})
    limits = [config.horizon, _registered(make.time_limit, env)]
    threshold = _registered(make.reward_threshold, env)
    return Situation(
        gamma=config.gamma,
        streams=max(1, config.num_workers) * config.num_envs_per_worker,
        limit=min((limit for limit in limits if limit), default=None),
        target=goal if goal is not None else threshold,
        threshold=threshold,
        choices=choices,
        dims=dims,
        reads=reads_only(config),
        fresh=config.fresh_envs,
        scaled=bool(config.reward_scaling or config.clip_rewards),
    )


def _registered(look_up, env_id):
    try:
        return look_up(env_id)
    except Exception:  # an id that the registry of this process does not know raises one of gymnasium's many
        return None


def _choices(action):
    """Return (ln of the choices, None for Box; numbers of an action)."""
    kind = action.get("kind")
    if kind == "Discrete":
        return math.log(max(2, action["n"])), 1
    if kind == "MultiDiscrete":
        return sum(math.log(max(2, n)) for n in action.get("nvec", [2])), len(action.get("nvec", [2]))
    if kind == "MultiBinary":
        return action["n"] * math.log(2), action["n"]
    return None, math.prod(action.get("shape") or [1])


class Diagnosis:
    """Looks at each result of a run, and at its progress in between."""

    def __init__(self, facts, clock=time.monotonic):
        """``facts``: a Situation; ``clock``: seconds."""
        self._facts, self._clock = facts, clock
        self._said = {}  # name of a rule -> when it spoke
        self._rewards = deque(maxlen=20)  # episode_reward_mean of the newest results
        self._lowest = self._highest = None  # of them all
        self._largest = 0.0  # return of an episode, without its sign
        self._most, self._least = -math.inf, math.inf  # returns of episodes, those of evaluations too
        self._ended = (0, 0)  # (episodes, env steps) when an episode last ended
        self._held = {}  # name of a rule -> results in a row for which it held
        self._evaluations = deque(maxlen=FALLEN)  # (iteration, mean, least, largest, env steps, training reward)
        self._scored = 0  # evaluations so far
        self._first = self._best = None  # mean of the first; the best mean, its iteration and training reward
        self._moved = None  # (env steps and updates, when they last changed)
        self._longest = 0.0
        self._compiling = False
        self._sampling = (0.0, 0.0)  # seconds of sampling, and those of them in which environments were made
        self._heard = clock()  # any news

    # -- between results ----------------------------------------------------------------------------------------

    def hear(self, kind, fields):
        """Listen to ``progress``: a run in which nothing moves has no results."""
        if kind != "diagnosis":
            self._heard = self._clock()
        if kind in ("result", "learner"):
            self._moved = None  # what follows may be an evaluation, a checkpoint or the compiler's work
        if kind == "learner":
            self._compiling = bool(fields["text"])
        if kind != "progress" or self._compiling:
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
            self._say("no movement", text)

    def check_silence(self):
        """Say so when there has been no news for long: whoever should have them is in one call all the time."""
        silent = self._clock() - self._heard
        if silent >= SILENT_S:
            ends = "" if self._facts.limit else " (there is no time limit: set horizon)"
            text = f"Looks stuck: no news for {silent:.0f} s: an env.step that hangs, an evaluation whose episodes do not end"
            self._say("silence", f"{text}{ends}, or one very long call of the learner.")

    # -- results ------------------------------------------------------------------------------------------------

    def see(self, result):
        """Look at one nested result and report what looks wrong."""
        self._remember(result)
        if text := self._making(result.get("timers") or {}):
            self._say("making", text)
        if self._has_reached() or self._is_perfect():
            return
        stats = ((result.get("info") or {}).get("learner") or {}).get("default_policy") or {}
        for name, text in (
            ("no episode", self._no_episode(result)),
            ("entropy", self._entropy(stats)),
            ("values", self._values(result, stats)),
            ("temperature", self._temperature(stats)),
            ("one score", self._one_score()),
            ("fallen", self._fallen()),
        ):
            self._held[name] = self._held.get(name, 0) + 1 if text else 0
            needed = IN_A_ROW if name in ("entropy", "values", "temperature") else 1
            if text and self._held[name] >= needed:
                self._say(name, text)

    def _say(self, name, text):
        now = self._clock()
        if now - self._said.get(name, -math.inf) >= AGAIN_S:
            self._said[name] = now
            events.report("diagnosis", name=name, text=text)

    def _remember(self, result):
        reward = result.get("episode_reward_mean")
        if reward is not None:
            self._rewards.append(reward)
            self._lowest = reward if self._lowest is None else min(self._lowest, reward)
            self._highest = reward if self._highest is None else max(self._highest, reward)
        for name in ("episode_reward_max", "episode_reward_min"):
            if result.get(name) is not None:
                self._largest = max(self._largest, abs(result[name]))
                self._most, self._least = max(self._most, result[name]), min(self._least, result[name])
        episodes, steps = result.get("episodes_total") or 0, result.get("timesteps_total") or 0
        if episodes != self._ended[0]:
            self._ended = (episodes, steps)
        self._remember_evaluation(result.get("evaluation") or {}, steps, reward)

    def _remember_evaluation(self, told, steps, reward):
        number, mean = told.get("training_iteration"), told.get("episode_reward_mean")
        if number is None or mean is None or (self._evaluations and self._evaluations[-1][0] == number):
            return
        least, largest = told.get("episode_reward_min"), told.get("episode_reward_max")
        self._evaluations.append((number, mean, least, largest, steps, reward))
        self._scored += 1
        self._first = mean if self._first is None else self._first
        self._best = max(self._best or (mean, number, reward), (mean, number, reward), key=lambda best: best[0])

    def _has_reached(self):
        """Whether the reward that is wanted was seen: such a run is neither stuck nor lost."""
        target = self._facts.target
        if target is None:
            return False
        seen = [value for value in (self._highest, self._best and self._best[0]) if value is not None]
        return any(value >= target for value in seen)

    def _is_rising(self):
        """Whether training rewards have risen lately, by what is worth mentioning of their spread."""
        if len(self._rewards) < self._rewards.maxlen:
            return True  # too early to say that they do not
        half = len(self._rewards) // 2
        before, after = list(self._rewards)[:half], list(self._rewards)[half:]
        return sum(after) / len(after) - sum(before) / len(before) > STILL_RISING * (self._highest - self._lowest)

    def _no_episode(self, result):
        steps = ((result.get("timesteps_total") or 0) - self._ended[1]) / self._facts.streams
        limit = self._facts.limit
        if self._facts.reads or steps <= (EPISODES_OVERDUE * limit if limit else WITHOUT_LIMIT):
            return None
        since = "yet" if not self._ended[0] else f"since env step {self._ended[1]:,}"
        lack = "is not kept" if limit else "is missing"
        return (
            f"Looks stuck: no episode has ended {since}, {steps:,.0f} steps in each environment: its time limit {lack}, "
            "and episode_reward_mean says nothing. Set horizon."
        )

    def _making(self, timers):
        sampled, made = self._sampling
        self._sampling = sampled, made = (
            sampled + (timers.get("sample_s") or 0.0),
            made + (timers.get("make_env_s") or 0.0),
        )
        if sampled < MAKING_S:
            return None
        self._sampling = (0.0, 0.0)
        if made <= MAKING * sampled:
            return None
        why = (
            "fresh_envs makes a new one for every episode; leave it out, and a reset is enough"
            if self._facts.fresh
            else "one that raised is made anew; its errors are above"
        )
        return f"Making environments takes {100 * made / sampled:.0f} % of sampling: {why}."

    def _entropy(self, stats):
        entropy, facts = stats.get("entropy"), self._facts
        if entropy is None or self._is_rising():
            return None
        if facts.choices is not None:
            if entropy >= NO_CHOICE * facts.choices:
                return None
            told = f"{entropy:.2g}, of {facts.choices:.2g} for a uniform choice"
        else:
            floor = facts.dims * (0.5 * math.log(2 * math.pi * math.e) + math.log(NO_NOISE))
            if entropy >= floor:
                return None
            told = f"{entropy:.3g}, which is less than a deviation of {NO_NOISE:g} has"
        return (
            f"Looks stuck: the policy's entropy is {told}, and rewards have stopped rising: it no longer tries anything. "
            "Raise entropy_coeff, or lower lr."
        )

    def _values(self, result, stats):
        if self._facts.scaled or not (result.get("episodes_total") or 0):
            return None
        bound = self._explainable(result, stats)
        told = {"Q values": stats.get("mean_q")}
        for name in ("vf_loss", "critic_loss"):
            if stats.get(name) is not None and stats[name] >= 0:
                told[f"errors of the values ({name})"] = math.sqrt(stats[name])
        for name, value in told.items():
            if value is not None and abs(value) > EXPLODED * bound:
                return (
                    f"Looks as if it diverges: {name} of {value:,.3g}, where the rewards seen add up to {bound:,.3g} at most. "
                    "Lower the learning rates, set grad_clip, or let targets follow more slowly."
                )
        return None

    def _explainable(self, result, stats):
        """Return the largest value of a state that the rewards seen so far can add up to, without its sign."""
        facts, length = self._facts, max(1.0, result.get("episode_len_mean") or 1.0)
        ahead = 1.0 / (1.0 - facts.gamma) if facts.gamma < 1 else length
        bonus = 0.0
        if stats.get("alpha_value") is not None:
            bonus = stats["alpha_value"] * (facts.choices or 2.0 * facts.dims) * ahead
        return max(1.0, self._largest, self._largest / length * ahead) + bonus

    def _temperature(self, stats):
        alpha = stats.get("alpha_value")
        if alpha is None or alpha <= HOT:
            return None
        return (
            f"Looks as if it diverges: the temperature has grown to {alpha:,.3g}: the entropy that is asked for "
            f"({stats.get('target_entropy')}) cannot be reached. Lower target_entropy."
        )

    def _one_score(self):
        newest = list(self._evaluations)[-SAME_SCORES:]
        if len(newest) < SAME_SCORES:
            return None
        scores = {value for _, _, least, largest, _, _ in newest for value in (least, largest)}
        trained = [reward for *_, reward in newest if reward is not None]
        if len(scores) != 1 or None in scores or newest[-1][4] - newest[0][4] < SAME_STEPS:
            return None
        if not trained or max(trained) - min(trained) > 0.02 * max(1.0, abs(max(trained, key=abs))):
            return None
        return (
            f"Looks stuck: every episode of the last {SAME_SCORES} evaluations scored exactly {scores.pop():g}, and training "
            "does not move either: what would be rewarded may never have been seen. Explore more, or longer."
        )

    def _is_perfect(self) -> bool:
        """Whether the newest evaluations all scored what may be all that there is to get."""
        newest = list(self._evaluations)[-IN_A_ROW:]
        scores = {value for _, _, least, largest, _, _ in newest for value in (least, largest)}
        return len(newest) == IN_A_ROW and len(scores) == 1 and None not in scores and self._may_be_perfect(*scores)

    def _may_be_perfect(self, score: float) -> bool:
        """Whether ``score``, the same in all evaluations, may be all that there is to get in this environment.

        It is where the environment counts as solved; where nobody says when, it may be if no episode ever got more, and some
        got less or it is more than nothing.
        """
        if self._facts.threshold is not None:
            return score >= self._facts.threshold
        if self._facts.target is not None or score < self._most:
            return False
        return score > 0 or score > self._least

    def _fallen(self):
        if self._scored < FALLEN + 2:
            return None
        first, (best, number, then) = self._first, self._best
        now = self._evaluations[-1][-1]
        if None not in (now, then) and now > then + 0.1 * max(1.0, abs(then)):
            return None  # training goes better than it did then: that evaluation was luck
        highest = max(mean for _, mean, *_ in self._evaluations)
        if best - first <= 0.1 * max(1.0, abs(best), abs(first)) or highest >= 0.5 * (best + first):
            return None
        return (
            f"Looks as if it diverges: evaluations had reached {best:.4g} (iteration {number}), the last {FALLEN} were "
            f"{highest:.4g} at most. Lower the learning rates; the best checkpoint is kept."
        )


class Listening:
    """A thread that lets a Diagnosis look after silence every few seconds, from ``start`` to ``stop``."""

    def __init__(self, diagnosis, every_s=LISTEN_S):
        """``diagnosis``: whose ``check_silence`` is called."""
        self._diagnosis, self._every_s = diagnosis, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="silence", daemon=True)

    def start(self):
        """Begin; returns the function that ends it."""
        self._thread.start()
        return self.stop

    def stop(self):
        """End the thread."""
        self._over.set()
        self._thread.join(timeout=1.0)

    def _listen(self):
        while not self._over.wait(self._every_s):
            self._diagnosis.check_silence()
