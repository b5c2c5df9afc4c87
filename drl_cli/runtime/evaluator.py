"""Evaluations inside a run: greedy episodes of a snapshot, and their confirmation when they reach the goal.

A snapshot is the weights of one moment: pushed to the parameter server to be scored, and held as the learner's whole
state, so that the checkpoint of the best evaluation holds exactly what was scored while training goes on.

Where recorded episodes judge the policy too (``input_evaluation``), the same snapshot is first estimated from them.

With ``evaluation_duration_unit: timesteps`` episodes are played in rounds of so many as a tester steps side by side, until
they have the env steps that were asked for.

An evaluation at the goal is confirmed by ``evaluation_confirm_episodes`` fresh episodes of the same snapshot; when their
mean is at the goal too, that is the touch.
"""

import time

from drl_cli import events, process
from drl_cli.config.episode_metrics import summary
from drl_cli.config.sections.estimates import methods
from drl_cli.randomness import number

ROUND = 16  # episodes of a round: what a tester steps side by side (actors.tester)
ESTIMATES = "off_policy_estimator"  # what recorded episodes say, beside the scores of a snapshot


class Snapshot:
    """The learner's state at one moment, the plain data that belongs to it, and its scores."""

    def __init__(self, version, arrays, moment):
        """``moment``: what ``runtime.run_state.moment`` returned together with ``version`` and ``arrays``."""
        self.version, self.arrays, self.moment = version, arrays, moment
        self.counters = moment["counters"]
        self.result = None  # the nested dict `evaluation` of a result, once it has been scored


class Scoring:
    """Runs one evaluation at a time through the tester."""

    def __init__(self, tester, config, seed, goal=None):
        """``tester``: function without arguments that returns the tester's handle (made when first needed)."""
        self._tester, self._config, self._seed, self._goal = tester, config, seed, goal
        self._call = self._snapshot = self._first = None
        self._played = []  # episodes of earlier rounds of this evaluation
        self.count = 0  # evaluations begun
        self.newest = None  # the last Snapshot that has been scored
        self.newest_result = None  # its scores; known after a restore too
        self.touched = None
        self.seconds = 0.0
        self._began = 0.0
        self._is_estimating = self._told_why = self._told_cut = False
        self._estimates = None  # of the running evaluation

    @property
    def is_busy(self):
        """Whether an evaluation is under way."""
        return self._call is not None

    def begin(self, snapshot):
        """Score ``snapshot`` on fresh seeds."""
        self.count += 1
        self._snapshot, self._first, self._estimates, self._played = snapshot, None, None, []
        self._is_estimating = bool(methods(self._config))
        if self._is_estimating:
            self._began = time.perf_counter()
            self._call = self._tester().call("estimate", snapshot.version, snapshot.counters["timesteps_total"])
        else:
            self._ask_first()

    def _ask_first(self):
        self._ask("tester", ROUND if self._counts_steps else self._config.evaluation_num_episodes)

    @property
    def _counts_steps(self):
        return self._config.evaluation_duration_unit == "timesteps"

    def _ask(self, role, episodes, first=0):
        seeds = [number(self._seed, role, self.count, index) for index in range(first, first + episodes)]
        self._began = time.perf_counter()
        method = "evaluate_otherwise" if self._config.custom_eval_function else "evaluate"
        self._call = self._tester().call(method, self._snapshot.version, seeds)

    def poll(self):
        """Deal with what the tester has finished; returns True when an evaluation has just been completed."""
        if self._call is None or not self._call.done():
            return False
        call, self._call = self._call, None
        found = call.result()
        self.seconds += time.perf_counter() - self._began
        if self._is_estimating:
            self._is_estimating = False
            self._note(found)
            self._ask_first()
            return False
        if self._config.custom_eval_function:
            return self._take_metrics(found)
        if self._first is None:
            self._played += found
            steps = sum(episode.length for episode in self._played)
            if self._counts_steps and steps < self._config.evaluation_num_episodes:
                self._ask("tester", ROUND, len(self._played))
                return False
            self._first = self._summed(self._played)
            if self._needs_confirmation():
                self._ask("confirm", self._config.evaluation_confirm_episodes)
                return False
            return self._complete(None)
        return self._complete(self._summed(found))

    def _summed(self, episodes):
        """Return the summary of ``episodes``; say once that some of them were cut."""
        cut = [episode.length for episode in episodes if episode.is_cut]
        if cut and not self._told_cut:
            self._told_cut = True
            text = (
                f"{len(cut)} of {len(episodes)} episodes of an evaluation were cut after {max(cut):,} steps; their returns "
                "count as they stood. evaluation_max_steps sets after how many."
            )
            events.report("warning", text=text)
        return summary(episodes)

    def _take_metrics(self, found):
        """Deal with what a function of the user's said."""
        if self._first is not None:
            return self._complete({"episodes_this_iter": self._config.evaluation_confirm_episodes} | found)
        self._first = found
        if self._needs_confirmation():
            self._ask("confirm", self._config.evaluation_confirm_episodes)
            return False
        return self._complete(None)

    def _note(self, estimates):
        """Keep ``estimates`` for the result, or say, once, why there are none."""
        if "text" not in estimates:
            self._estimates = estimates
        elif not self._told_why:
            self._told_why = True
            events.report("warning", text=f"The policy is not judged by recorded episodes: {estimates['text']}")

    def _needs_confirmation(self):
        asked = self._goal is not None and self._config.evaluation_confirm_episodes > 0 and self.touched is None
        return asked and self._first["episode_reward_mean"] >= self._goal

    def _complete(self, confirming):
        result = dict(self._first)
        result["training_iteration"] = self._snapshot.counters["training_iteration"]
        result["timesteps_total"] = self._snapshot.counters["timesteps_total"]
        result["num_updates"] = self._snapshot.counters["num_updates"]
        mean = confirming["episode_reward_mean"] if confirming else None
        result["confirmed_reward_mean"] = mean
        result["confirmed_episodes"] = confirming["episodes_this_iter"] if confirming else None
        if self._estimates is not None:
            result[ESTIMATES] = self._estimates
        self._snapshot.result = result
        self.newest, self.newest_result = self._snapshot, result
        reached = self._first["episode_reward_mean"] if mean is None else mean
        if self._goal is not None and self.touched is None and reached >= self._goal:
            self._touch(result)
        return True

    def _touch(self, result):
        self.touched = {
            "target": self._goal,
            "value": result["episode_reward_mean"],
            "confirmed": result["confirmed_reward_mean"],
            "seconds": process.seconds_since_start(),
            "timesteps_total": result["timesteps_total"],
            "num_updates": result["num_updates"],
        }

    def state(self):
        """Return what a checkpoint keeps."""
        return {"count": self.count, "newest": self.newest_result, "touched": self.touched}

    def load(self, facts, exact):
        """Continue from ``state``; only the same run (``exact``) with the same goal has touched it already."""
        self.count, self.newest_result = facts["count"], facts["newest"]
        if exact and facts["touched"] and facts["touched"]["target"] == self._goal:
            self.touched = facts["touched"]

    def abandon(self):
        """Forget an evaluation whose tester was lost."""
        self._call = None
