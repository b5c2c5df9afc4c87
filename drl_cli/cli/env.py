"""``drl env check ID``: whether an environment follows gymnasium's interface, its speed, and a random policy's score.

The findings are those of ``checks.env_check``, made in another process; the interval is ``analysis.reward_statistics``'s.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from drl_cli.checks.findings import failed
from drl_cli.cli import endings, figures, group, options, shell_words, tables, terminal, values
from drl_cli.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

TABLE = {"check": ("drl_cli.cli.env:check", "Check an environment: seeding, spaces, episode ends, speed.")}
CHECK_EXAMPLES = """
drl env check LunarLanderContinuous-v3
drl env check my_module:MyEnv-v0 --import my_module --episodes 50
drl env check MyEnv-v0 --import my_module --config '{"env_config": {"size": 8}}' --json
"""


env = group.command_group(
    "env",
    TABLE,
    CHECK_EXAMPLES,
    "Check an environment. To list what is installed: drl envs.",
)


@click.command("check", cls=group.Command, examples=CHECK_EXAMPLES)
@click.argument("env_id", metavar="ID", shell_complete=shell_words.environments)
@group.option(
    "--episodes",
    type=options.POSITIVE,
    metavar="N",
    default=20,
    group="How",
    help="Number of random episodes.",
)
@group.option(
    "--seconds", type=values.Number(min=0.1, max=3600), metavar="S", default=10.0, group="How",
    help="Time limit for them.",
)  # fmt: skip
@group.option("--seed", type=options.COUNT, metavar="N", default=0, group="How", help="First seed.")
@group.option("--config", metavar="OBJECT", group="How", help="An object with env_config, as for drl train, or @FILE.")
@options.import_option("How")
@options.json_option
@options.quiet_option("Print only warnings and failures.")
@options.speech_options
@click.pass_obj
def check(
    session: Session,
    env_id: str,
    config: str | None,
    imports: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **how: float,
) -> int:
    """Check the environment ID. The exit code is 1 if something is broken, else 0.

    Checked are the interface; that equal seeds give equal episodes in two new instances, in a used one, and in another
    process; observations against their space; non-finite numbers; termination and truncation; reset; speed; and a random
    policy's score with a 95 % interval, without drl's preprocessing. With several agents: who acts, how agents end, seeds, and
    PettingZoo's own tests for its environments; the score is the sum over agents.

    JSON: {"id", "asked", "ok", "spaces", "text", "fits": [...], "findings": [{"what", "state": ok | note | warn | fail,
    "text", "mend"}], "random_policy": {"rewards", "lengths", "steps_per_s", "reset_s", "make_s", "score": as of drl
    evaluate} or null}.
    """
    from drl_cli.analysis import reward_statistics
    from drl_cli.checks import env_check
    from drl_cli.envs import make

    options.import_modules(imports)
    overrides = options.typed_object(config, "--config")
    if other := [name for name in overrides if name != "env_config"]:
        hint = suggestion(other[0], ["env_config"])
        raise ConfigError(
            f"--config: {other[0][:60]!r} has no part in this check, which takes env_config alone.{hint} To check an "
            "environment in wrappers, register a function that returns it in them (drl_cli.register_env), and name its "
            "module: --import MODULE."
        )
    meant = make.resolve(env_id, trusted=True)
    question = {"env_config": overrides.get("env_config") or {}, "imports": list(imports), **how}
    quietly = quiet or as_json
    say = (lambda _: None) if quietly else (lambda stage: terminal.say(f"{meant.id}: {stage}"))
    with endings.at_once():
        report = env_check.check(meant.id, question, say)
    played = report["random_policy"]
    if played and played["rewards"]:
        played["score"] = reward_statistics.describe(played["rewards"], played["lengths"])
    is_broken = failed(report["findings"])
    output = terminal.Stdout(session)
    if as_json:
        found = [one._asdict() for one in report["findings"]]
        output.line(json.dumps({**report, "asked": env_id, "ok": not is_broken, "findings": found}))
        return int(is_broken)
    if meant.notice:
        terminal.say(meant.notice)
    for line in sheet(report, terminal.width(), terminal.use_color(sys.stdout, session), quiet):
        output.line(line)
    return int(is_broken)


def sheet(report: Mapping[str, Any], width: int, color: bool = False, quiet: bool = False) -> list[str]:
    """Return the lines of a report."""
    lines = []
    text = report.get("text")
    if text and not quiet:
        lines += [f"{report['id']}", *tables.paragraph(text["obs"], width, 9, "observes")]
        lines += [*tables.paragraph(text["action"], width, 9, "actions"), ""]
    lines += tables.finding_lines(report["findings"], width, color, quiet)
    played = report["random_policy"]
    if played and played.get("score") and not quiet:
        lines += ["", *tables.paragraph(_score(played["score"]), width, 8, "random")]
    bad = [one for one in report["findings"] if one.state == "fail"]
    warned = [one for one in report["findings"] if one.state == "warn"]
    verdict = f"{len(bad)} broken" if bad else "nothing broken"
    return [*lines, "", f"{report['id']}: {verdict}{f', {len(warned)} to look at' if warned else ''}."]


def _score(score: Mapping[str, Any]) -> str:
    pm = terminal.plus_minus(sys.stdout)
    low, high = score.get("iqm_low"), score.get("iqm_high")
    interval = "" if low is None else f" [{figures.reward(low)}, {figures.reward(high)}]"
    return (
        f"policy: {figures.reward(score['mean'])} {pm} {figures.reward(score['sd'])} over {score['episodes']} episodes, "
        f"IQM {figures.reward(score['iqm'])}{interval}, {figures.reward(score['min'])} to {figures.reward(score['max'])}, "
        f"{score['length_mean']:,.0f} steps each"
    )
