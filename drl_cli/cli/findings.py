"""Findings (``checks.findings``) as lines: state, what was looked at, what is to be said, and below it how to fix it."""

import click

from drl_cli.cli import tables

TONES = {"ok": "green", "note": None, "warn": "yellow", "fail": "red"}


def lines_of(findings, width, color=False, quiet=False):
    """Return the lines of Findings: state, what, text; how to fix it below."""
    shown = [one for one in findings if not quiet or one.state in ("warn", "fail")]
    size = max((len(one.what) for one in shown), default=0) + 2
    lines = []
    for one in shown:
        state = f"{one.state:<6}"
        body = tables.paragraph(one.text, width, 6 + size, state + one.what)
        if color and TONES[one.state]:
            body[0] = click.style(state, fg=TONES[one.state]) + body[0][6:]
        lines += body
        if one.mend:
            lines.append(" " * (6 + size) + f"$ {one.mend}")  # never wrapped: it is to be pasted
    return lines
