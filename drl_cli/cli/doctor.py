"""``drl doctor``: whether this machine has what runs need, and for each problem the command that fixes it.

Imports click and the standard library; everything heavy is tried in other processes by ``checks``.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from drl_cli.checks import doctor as checks
from drl_cli.checks.findings import failed
from drl_cli.cli import endings, group, options, tables, terminal

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl doctor
drl doctor --quick
drl doctor --json | jq '.findings[] | select(.state == "fail")'
"""


@click.command("doctor", cls=group.Command, examples=EXAMPLES)
@group.option(
    "--quick", is_flag=True, group="How", help="Skip what takes seconds: loading TensorFlow, Ray and other libraries."
)
@options.json_option
@options.quiet_option("Print only warnings and failures.")
@options.speech_options
@click.pass_obj
def doctor(session: Session, quick: bool, as_json: bool, quiet: bool) -> int:
    """Check Python, packages, TensorFlow, Ray, Box2D, ffmpeg, limits, /dev/shm, disks (kind, room, locks) and leftovers of Ray.

    The exit code is 1 if something that a run needs is broken, else 0; warnings alone give 0. Each heavy library is loaded
    in a process of its own, for at most 90 seconds.

    JSON: {"ok", "findings": [{"what", "state": ok | note | warn | fail, "text", "mend": a command or null}]}.
    """
    say = (lambda _: None) if quiet or as_json else (lambda name: terminal.say(f"Checking {name}"))
    with endings.at_once():
        found = checks.examine(checks.results_folder(), quick, say)
    is_broken = failed(found)
    output = terminal.Stdout(session)
    if as_json:
        output.line(json.dumps({"ok": not is_broken, "findings": [one._asdict() for one in found]}))
        return int(is_broken)
    for line in tables.finding_lines(found, terminal.width(), terminal.use_color(sys.stdout, session), quiet):
        output.line(line)
    counts = {state: sum(one.state == state for one in found) for state in ("fail", "warn")}
    verdict = f"{counts['fail']} broken" if is_broken else "Nothing is broken"
    more = f", {counts['warn']} to look at" if counts["warn"] else ""
    output.line(f"\n{verdict}{more}.")
    return int(is_broken)
