"""``drl evaluate CHECKPOINT…``: the scores of checkpoints over seeded episodes, as a table or as JSON.

With ``--data`` they are estimated from recorded episodes instead (``cli.evaluate_data``). The table or the document goes to
stdout, everything else to stderr. Needs neither Ray nor TensorFlow. ``actors.tester`` plays the episodes,
``analysis.reward_statistics`` summarises their rewards.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import (
    evaluate_against,
    evaluate_data,
    figures,
    group,
    options,
    rich_tables,
    rllib_options,
    run_options,
    shell_words,
    terminal,
)
from drl_cli.cli.played import SCORES
from drl_cli.config.episode_metrics import success_rate
from drl_cli.errors import ConfigError, CriterionMissed, suggestion

if TYPE_CHECKING:
    from rich.console import Console

    from drl_cli.actors.part_records import ScoredEpisode
    from drl_cli.analysis.loaded_checkpoint import Subject
    from drl_cli.runs.stop_rules import Requirement

EXAMPLES = """
drl evaluate ~/ray_results/default/RUN
drl evaluate RUN_1 RUN_2 RUN_2/checkpoint_000010 --episodes 100
drl evaluate RUN --explore --seed 500
drl evaluate RUN --against RUN_2 --episodes 1000 --explore
drl evaluate RUN --data experience.json
drl evaluate RUN --json | jq '.checkpoints[0].greedy.iqm'
"""
SEED = 10_000  # first evaluation seed unless --seed is given: the same episodes today and tomorrow
LONG_NAMES = {"episode_reward_mean": "mean", "episode_reward_min": "min", "episode_reward_max": "max"}
HOW, WHERE = "How to score", "What to score, and where"

_evaluate_options = options.apply(
    [
        group.option(
            "--episodes",
            type=options.POSITIVE,
            metavar="N",
            default=20,
            group=HOW,
            help="Episodes per score.",
        ),
        group.option(
            "--against",
            metavar="OPPONENT",
            group=HOW,
            help="Play against another run or checkpoint, or against an opponent by name (random), sides exchanged.",
        ),
        group.option("--explore", is_flag=True, group=HOW, help="Also score the exploring policy."),
        group.option(
            "--seed",
            type=options.COUNT,
            metavar="N",
            default=SEED,
            group=HOW,
            help="Episode i is seeded with N + i, for every checkpoint.",
        ),
        options.max_steps_option(HOW),
        group.option(
            "--assert",
            "asserts",
            metavar="'SCORE>=VALUE'",
            multiple=True,
            group=HOW,
            help="Exit with 4 unless every greedy score meets it: mean, iqm, iqm_low, … (named as in --json); repeatable.",
        ),
        options.latest_option(WHERE),
        options.env_option(WHERE, "they were trained"),
        options.env_config_option(WHERE),
        options.run_option(WHERE),
        options.import_option(WHERE),
        *evaluate_data.OPTIONS,
        options.json_option,
        options.quiet_option("Write only warnings and errors to stderr."),
        options.speech_options,
        rllib_options.of("evaluate"),
    ]
)


@click.command("evaluate", cls=group.Command, examples=EXAMPLES)
@click.argument("checkpoints", metavar="CHECKPOINT...", nargs=-1, required=True, shell_complete=shell_words.runs)
@_evaluate_options
@click.pass_context
def evaluate(
    context: click.Context,
    checkpoints: tuple[str, ...],
    imports: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Evaluate each CHECKPOINT: a checkpoint folder, a file in it, or a run folder (its best checkpoint).

    All checkpoints play the same seeded episodes. IQM is the mean of the middle half of the rewards; the interval after it
    is a 95 % percentile bootstrap over episodes.

    With --data nothing is played: the return of the exploring policy is estimated by importance sampling from recorded
    episodes of another policy, whose actions were recorded with their probabilities. IS is unbiased, WIS has less variance;
    both are discounted. Gain is the ratio to the recorded return. Trust neither where the effective sample size is small.

    JSON: {"episodes", "seeds": [...], "confidence", "checkpoints": [{"path", "algorithm", "env", "training_iteration",
    "timesteps_total", "greedy": SCORE, "stochastic": SCORE with --explore}]}, SCORE: {"episodes", "mean", "sd",
    "median", "iqm", "iqm_low", "iqm_high", "min", "max", "length_mean", "length_min", "length_max", "cut": how many
    were cut by --max-steps, "rewards": [...], "lengths": [...], and "success_rate" where episodes
    report is_success}. With several agents these are of the sum over them, and
    "policies": {policy id: the same of the mean over its agents}; --assert 'policies/ID/mean>=195'.

    With --against each of two policies plays every side in turn; games are won, drawn and lost by returns, with 95 % Wilson
    intervals. Both act greedily, which in a game without chance gives as many different games as there are sides; with
    --explore both draw their actions. JSON: {"explore", "matches": [{"path", "env", "against", "games", "won", "drawn",
    "lost", "win_rate", "win_low", "win_high", "loss_rate", "loss_low", "loss_high", "score": draws count half}]}.

    JSON with --data: {"data", "confidence", "checkpoints": [{"path", "algorithm", "env", "training_iteration",
    "timesteps_total", "gamma", "policy", "files", "incomplete", "without_logp", "episodes", "steps",
    "effective_sample_size", "behaviour": MEAN, "is": BOTH, "wis": BOTH}]}, BOTH: {"per_step": MEAN, "per_episode": MEAN},
    MEAN: {"mean", "low", "high"}, null where there is no such number.
    """
    session, requirements = context.obj, _requirements(flags["asserts"])
    paths = [run_options.place(word) for word in checkpoints]
    evaluate_data.expect_fitting(context, bool(flags["data"]))
    options.import_modules(imports)
    if flags["data"]:
        evaluate_data.run(session, paths, flags, as_json)
        return
    from drl_cli.analysis.loaded_checkpoint import open_subject
    from drl_cli.confidence import CONFIDENCE

    overrides = options.typed_object(flags["config"], "--config")
    subjects = [open_subject(path, flags["env"], overrides, flags["latest"], "drl evaluate") for path in paths]
    options.check_run(flags["run"], subjects)
    _expect_policies(requirements, subjects)
    say = (lambda text: None) if flags["quiet"] else terminal.say
    seeds = list(range(flags["seed"], flags["seed"] + flags["episodes"]))
    for notice in dict.fromkeys(subject.notice for subject in subjects if subject.notice):
        say(notice)
    if flags["against"] is not None:
        opponent = evaluate_against.opponent_of(flags["against"], flags, subjects)
        found = evaluate_against.rows(subjects, opponent, flags, seeds)
        evaluate_against.write(session, found, flags["explore"], as_json)
        return
    rows = []
    for number, subject in enumerate(subjects, 1):
        rows.append(_facts(subject))
        for name, explore in (("greedy", False), ("stochastic", True))[: 2 if flags["explore"] else 1]:
            say(f"Scoring {number} of {len(subjects)}: {subject.path}, {name}, {len(seeds)} episodes")
            rows[-1][name] = _score(subject, seeds, explore, flags["max_steps"])
            if rows[-1][name]["cut"]:
                say(_cut(rows[-1][name]))
    document = {
        "episodes": len(seeds),
        "seeds": seeds,
        "confidence": CONFIDENCE,
        "checkpoints": rows,
    }
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps(document, allow_nan=False))
    else:
        for line in table(document, terminal.rich_console(sys.stdout, session)):
            output.line(line)
    _hold(requirements, rows)


def _requirements(values: tuple[str, ...]) -> list[Requirement]:
    """Return the Requirements of ``--assert``. Raises ConfigError."""
    from drl_cli.runs import stop_rules

    found = stop_rules.parse_requirements(values)
    found = [one._replace(field=LONG_NAMES.get(one.field, one.field)) for one in found]
    for one in found:
        prefix, _, score = one.field.rpartition("/")
        if score not in SCORES or (prefix and not prefix.startswith("policies/")):
            hint = (
                suggestion(one.field, SCORES)
                or f" There are: {', '.join(SCORES)}, and policies/ID/mean … of one policy."
            )
            raise ConfigError(f"--assert: {one.field[:60]!r} is not a score.{hint}")
    return found


def _expect_policies(requirements: Sequence[Requirement], subjects: Sequence[Subject]) -> None:
    """Raise ConfigError for a score of a policy that a checkpoint does not have."""
    for one in requirements:
        prefix, _, score = one.field.rpartition("/")
        for subject in subjects if prefix else ():
            known, policy = list(subject.policies), prefix.removeprefix("policies/")
            if subject.agents is None:
                raise ConfigError(f"--assert: {one.field}: {subject.path} was trained with one agent. Name {score}.")
            if policy not in known:
                hint = suggestion(policy, known)
                they = f"They are {', '.join(known)}."
                raise ConfigError(f"--assert: {subject.path} has no policy {policy[:60]!r}.{hint} {they}")


def _hold(requirements: Sequence[Requirement], rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise CriterionMissed, which names each missed criterion, unless every greedy score meets ``requirements``."""
    from drl_cli.runs.stop_rules import unmet_requirements

    lines = [f"{row['path']}: {line}" for row in rows for line in unmet_requirements(requirements, row["greedy"])]
    if lines:
        raise CriterionMissed("\n  ".join(lines))


def _facts(subject: Subject) -> dict[str, Any]:
    counters = subject.facts["counters"]
    return {
        "path": str(subject.path),
        "algorithm": subject.facts["algorithm"],
        "env": subject.env_name,
        "training_iteration": counters["training_iteration"],
        "timesteps_total": counters["timesteps_total"],
    }


def _cut(score: Mapping[str, Any]) -> str:
    cut, longest = score["cut"], max(score["lengths"])
    return (
        f"{cut} of {len(score['lengths'])} episodes {'was' if cut == 1 else 'were'} cut after {longest:,} steps; "
        "their rewards up to then are counted. --max-steps sets the limit."
    )


def _score(subject: Subject, seeds: Sequence[int], explore: bool, max_steps: int | None) -> dict[str, Any]:
    from drl_cli.analysis import reward_statistics

    episodes = _episodes(subject, seeds, explore, max_steps)
    rewards, lengths = [episode.reward for episode in episodes], [episode.length for episode in episodes]
    score = reward_statistics.describe(rewards, lengths)
    score["cut"] = sum(episode.is_cut for episode in episodes)
    rate = success_rate([episode.success for episode in episodes])
    score |= {} if rate is None else {"success_rate": rate}
    if subject.agents:
        score["policies"] = reward_statistics.describe_policies([one.policy_rewards for one in episodes], lengths)
    return {**score, "rewards": [float(reward) for reward in rewards], "lengths": [int(length) for length in lengths]}


def _episodes(subject: Subject, seeds: Sequence[int], explore: bool, max_steps: int | None) -> list[ScoredEpisode]:
    from drl_cli.actors import agents_tester, tester

    if subject.agents:
        setting = {**subject.setup(), "explore": explore, "max_steps": max_steps or subject.max_steps}
        envs = agents_tester.OpenEnvs(setting)
        try:
            return agents_tester.play(subject.policies, setting, seeds, envs)
        finally:
            envs.close()
    return tester.score(
        subject.policy,
        subject.env,
        subject.env_config,
        seeds,
        explore=explore,
        horizon=subject.horizon,
        max_steps=max_steps or subject.max_steps,
        preprocessing=subject.preprocessing,
        fresh_envs=subject.fresh_envs,
    )


def table(document: Mapping[str, Any], console: Console) -> list[str]:
    """Return the lines of the table for ``document`` (what --json prints), rendered for a rich Console."""
    rows, seeds = document["checkpoints"], document["seeds"]
    pm = terminal.plus_minus(console.file)
    names = ("", "policy", f"mean {pm} sd", "median", "IQM [95 %]", "min", "max", "length")
    grid = rich_tables.ruled(names, ["policy"], (1, 0), console)
    for number, row in enumerate(rows, 1):
        for name in ("greedy", "stochastic"):
            if name in row:
                grid.add_row(str(number) if name == "greedy" else "", name, *_cells(row[name], pm))
                for policy, own in row[name].get("policies", {}).items():
                    grid.add_row("", f"  {policy}", *_cells(own, pm))
    rich_tables.widen(console, grid)
    heads = [
        f"{number}  {row['path']}\n"
        f"   {row['algorithm']} on {row['env']}, iteration {row['training_iteration']}, "
        f"{figures.count(row['timesteps_total'])} steps"
        for number, row in enumerate(rows, 1)
    ]
    about = f"\n{document['episodes']} episodes per score, seeds {seeds[0]} to {seeds[-1]}."
    return rich_tables.rendered([*heads, about, grid], console)


def _cells(score: Mapping[str, Any], pm: str) -> tuple[str, ...]:
    interval = f" {figures.interval(score['iqm_low'], score['iqm_high'])}".rstrip()
    return (
        f"{figures.score(score['mean'])} {pm} {figures.score(score['sd'])}",
        figures.score(score["median"]),
        figures.score(score["iqm"]) + interval,
        figures.score(score["min"]),
        figures.score(score["max"]),
        f"{score['length_mean']:,.0f}",
    )
