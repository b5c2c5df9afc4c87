"""The output of ``drl rollout``: lines for people, or JSON lines with documented keys.

Used by ``cli.rollout``, whose help lists the keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.cli import figures, terminal
from drl_cli.config.episode_metrics import success_rate

if TYPE_CHECKING:
    from drl_cli.analysis.loaded_checkpoint import Subject
    from drl_cli.analysis.play import PlayedEpisode
    from drl_cli.cli.terminal import Stdout

SCORES = ("mean", "sd", "median", "iqm", "iqm_low", "iqm_high", "min", "max", "length_mean", "length_min", "length_max")
MOST_AGENTS = 8  # that a line of a policy shows
NOTHING = {"episodes": 0, **dict.fromkeys(SCORES)}  # the summary of no complete episode


class EpisodeLines:
    """Episodes and summary as lines for people; on stderr while stdout takes transitions."""

    def __init__(self, output: Stdout, on_stderr: bool) -> None:
        """``output``: a terminal.Stdout."""
        self._line = terminal.say if on_stderr else output.line

    def add(self, episode: PlayedEpisode) -> None:
        """Show an Episode (``analysis.play``) that has been played."""
        cut = f" (cut after {episode.length} steps)" if episode.is_cut or not episode.complete else ""
        self._line(f"Episode #{episode.number}: reward: {round(episode.reward, 2)}{cut}")
        for line in agent_lines(episode):
            self._line(f"  {line}")

    def end(self, complete: Sequence[PlayedEpisode]) -> None:
        """Show the summary of the episodes that came to an end."""
        self._line(summary(_described(complete)))
        for name, own in _by_policy(complete).items():
            pm = terminal.plus_minus(sys.stdout)
            low, high = figures.score(own["min"]), figures.score(own["max"])
            self._line(f"  {name}: reward {own['mean']:.1f} {pm} {own['sd']:.1f} an agent (min {low}, max {high})")
        cut = [episode.length for episode in complete if episode.is_cut]
        if cut:
            self._line(f"Cut after {max(cut):,} steps (--max-steps): {len(cut)} of these.")


class EpisodeJson:
    """Episodes and summary as JSON lines."""

    def __init__(self, output: Stdout, subject: Subject, explore: bool) -> None:
        """``output``: a terminal.Stdout; ``subject``: what plays; ``explore``: whether it explores."""
        self._line, self._subject, self._explore = output.line, subject, explore

    def add(self, episode: PlayedEpisode) -> None:
        """Show an Episode (``analysis.play``) that has been played."""
        line = {"episode": episode.number, "seed": episode.seed, "reward": episode.reward, "length": episode.length}
        line |= {"terminated": episode.terminated, "truncated": episode.truncated, "cut": episode.is_cut}
        if episode.success is not None:
            line["success"] = episode.success
        if episode.policy_of:
            mean = {name: sum(own) / len(own) for name, own in episode.policy_rewards.items()}
            line |= {"agents": episode.returns, "policies": episode.policy_of, "policy_reward_mean": mean}
        self._line(json.dumps(line, allow_nan=False))

    def end(self, complete: Sequence[PlayedEpisode]) -> None:
        """Show the summary of the episodes that came to an end."""
        subject = self._subject
        facts = {
            "checkpoint": str(subject.path),
            "algorithm": subject.facts["algorithm"],
            "env": subject.env_name,
            "training_iteration": subject.iteration,
            "explore": self._explore,
        }
        policies = {"policies": _by_policy(complete)} if subject.agents else {}
        self._line(json.dumps({"summary": facts | (_described(complete) or NOTHING) | policies}, allow_nan=False))


def _described(episodes: Sequence[PlayedEpisode]) -> dict[str, Any] | None:
    """Return the statistics of complete episodes (``analysis.reward_statistics.describe``), None where there are none."""
    from drl_cli.analysis import reward_statistics

    if not episodes:
        return None
    rate = success_rate([episode.success for episode in episodes])
    reached = {} if rate is None else {"success_rate": rate}
    return reward_statistics.describe([e.reward for e in episodes], [e.length for e in episodes]) | reached


def _by_policy(episodes: Sequence[PlayedEpisode]) -> dict[str, dict[str, Any]]:
    """Return the statistics of complete episodes by policy, {} where there is one agent."""
    from drl_cli.analysis import reward_statistics

    several = [episode for episode in episodes if episode.policy_of]
    return reward_statistics.describe_policies(
        [episode.policy_rewards for episode in several], [episode.length for episode in several]
    )


def agent_lines(episode: PlayedEpisode) -> list[str]:
    """Return a line for each policy of an episode: the mean of its agents' rewards, and each agent's."""
    lines = []
    for name, values in sorted(episode.policy_rewards.items()):
        agents = [agent for agent in episode.returns if episode.policy_of[agent] == name]
        shown = ", ".join(f"{agent} {round(episode.returns[agent], 2)}" for agent in agents[:MOST_AGENTS])
        more = f" and {len(agents) - MOST_AGENTS} more" if len(agents) > MOST_AGENTS else ""
        mean = f"{round(sum(values) / len(values), 2)}, the mean of " if len(agents) > 1 else ""
        lines.append(f"{name}: {mean}{shown}{more}")
    return lines


def summary(statistics: Mapping[str, Any] | None) -> str:
    """Return the line that sums up episodes by their statistics, or by None."""
    if statistics is None:
        return "No episode was completed."
    pm = terminal.plus_minus(sys.stdout)
    return (
        f"{statistics['episodes']} episode{'s' if statistics['episodes'] > 1 else ''}: "
        f"reward {statistics['mean']:.1f} {pm} {statistics['sd']:.1f} "
        f"(min {statistics['min']:.1f}, max {statistics['max']:.1f}), length {statistics['length_mean']:.0f} "
        f"(min {statistics['length_min']}, max {statistics['length_max']}){figures.success(statistics)}"
    )
