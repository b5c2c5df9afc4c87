"""When a run ends: its stop rules, and the goal that is held for a while after it was touched. User: ``driving``."""

from drl_cli import events
from drl_cli.runs.stop_rules import Stop

GOAL = "evaluation/episode_reward_mean"
SECONDS = ("time_total_s", "time_since_restore")
ON_THE_WAY = ("timesteps_total", "episodes_total", "episode_reward_mean")
"""Fields of stop rules that are known while an iteration runs."""


class Ending:
    """Reports evaluations, the goal and its holding, and says when the run is over."""

    def __init__(self, rules, config, started_at=-1):
        """``rules``: result field → threshold; ``config``: ``evaluation_hold`` and ``evaluation_confirm_episodes``.

        ``started_at``: the iteration that the run starts from; evaluations up to it were reported before.
        """
        self._started_at = started_at
        self.goal = rules.get(GOAL)
        confirm = config.evaluation_confirm_episodes or 0
        self._stop = Stop(rules, confirm)
        self._others = Stop({name: value for name, value in rules.items() if name != GOAL}, confirm)
        self._hold = config.evaluation_hold or 0
        self._touched = None
        self._seen = None
        self._held = []

    @property
    def limits(self):
        """The stop rules that are seconds of this run: {field: seconds}."""
        return {field: seconds for field, seconds in self._others.rules.items() if field in SECONDS}

    @property
    def thresholds(self):
        """The stop rules that an iteration may reach on its way: {field: threshold}."""
        return {field: value for field, value in self._others.rules.items() if field in ON_THE_WAY}

    def check(self, result, touched):
        """Return why the run ends after this nested result, or None. ``touched`` is ``Trainer.touched``."""
        fresh = self._report_evaluation(result)
        if self._touched is None and touched:
            self._touched = dict(touched)
            events.report("goal", metric=GOAL, **self._touched)
        elif self._touched and fresh is not None:
            self._held.append(fresh)
        if self._touched is None:
            return self._stop.check(result)
        if len(self._held) >= self._hold:
            return self._reason()
        return self._others.check(result)

    def report_held(self):
        """Report the mean of the evaluations after the touch, if there were any."""
        if self._held:
            mean = sum(self._held) / len(self._held)
            events.report("held", target=self.goal, value=mean, evaluations=len(self._held))

    def _reason(self):
        touched = self._touched
        text = f"{GOAL} {touched['value']:.6g} reached {touched['target']:.6g}"
        if touched.get("confirmed") is True:
            text += ", confirmed"
        elif touched.get("confirmed"):
            text += f", confirmed by a mean of {touched['confirmed']:.6g}"
        if self._held:
            text += f", and held {sum(self._held) / len(self._held):.6g} over {len(self._held)} more evaluations"
        return text

    def _report_evaluation(self, result):
        """Report an evaluation that was not seen before and return its mean; None when there is no new one."""
        evaluation = result.get("evaluation") or {}
        number = evaluation.get("training_iteration")
        if number is None or number <= self._started_at or number == self._seen:
            return None
        self._seen = number
        events.report(
            "evaluation",
            training_iteration=number,
            timesteps_total=evaluation.get("timesteps_total"),
            episode_reward_mean=evaluation.get("episode_reward_mean"),
            episode_len_mean=evaluation.get("episode_len_mean"),
            episodes=evaluation.get("episodes_this_iter"),
            confirmed=evaluation.get("confirmed_reward_mean"),
        )
        if result.get("off_policy_estimator"):
            events.report("estimates", **result["off_policy_estimator"])
        return evaluation.get("episode_reward_mean")
