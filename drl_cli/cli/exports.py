"""Exports of ``drl checkpoint export`` and ``drl train --export-formats``: making them and describing them.

``drl train`` exports the best policy into the run's folder. A failure is raised after the summary is printed, since the run
itself is complete.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from drl_cli import process
from drl_cli.cli import terminal
from drl_cli.errors import DrlError

if TYPE_CHECKING:
    from drl_cli.experiments.run import Outcome
    from drl_cli.export.export_policy import Exported
    from drl_cli.export.parity import Comparison
    from drl_cli.policies.numpy_policy import NumpyPolicy


def facts_of(facts: Mapping[str, Any], policy: str) -> Mapping[str, Any]:
    """Return a manifest's facts as they are of one ``policy``: with several agents its own spaces, and its id."""
    agents = facts.get("agents")
    return {**facts, "spaces": agents["policies"][policy]["spaces"], "policy": policy} if agents else facts


def exported(
    exporting: ModuleType,
    policy: NumpyPolicy,
    facts: Mapping[str, Any],
    form: str,
    out: str,
    replace: bool = False,
) -> Exported:
    """Export quietly: what TensorFlow and its converter write to stderr says nothing; the errors of ours are raised."""
    process.prepare_tensorflow(1, 1, 0, "ERROR")
    diversion = terminal.Diversion()
    diversion.into("/dev/null")
    try:
        return exporting.export(policy, facts, form, out, replace)
    finally:
        diversion.end()


def ports(about: Mapping[str, Any]) -> list[str]:
    """Return a line for each input and output of an exported policy."""
    named = [(way, port) for way, side in (("in", "inputs"), ("out", "outputs")) for port in about[side]]
    width = max(len(port["name"]) for _, port in named)
    lines = []
    for way, port in named:
        shape = ", ".join(["N", *(str(size) for size in port["shape"])])
        lines.append(f"{way:<4} {port['name']:<{width}}  {port['dtype']} [{shape}]: {port['meaning']}")
    return lines


def apply_first(steps: Sequence[str]) -> list[str]:
    """Return the line, if any, that says what is to be applied to the environment before an exported policy acts there."""
    return [f"apply first, it is not part of the export: {'; '.join(steps)}"] if steps else []


def comparison(found: Comparison) -> str:
    """Return in words how far an exported policy is from the original (``export.parity.Comparison``)."""
    samples = f"{found.samples:,} sampled observations"
    if found.difference is not None:
        text = f"largest difference of an action {found.difference:.2g} on {samples}"
    elif found.differing:
        text = f"{found.differing} different actions, all of them ties, on {samples}"
    else:
        text = f"identical actions on {samples}"
    return text if found.state is None else f"{text}; largest difference of the memory {found.state:.2g}"


class Exports:
    """The exports of one run, made when this is."""

    def __init__(self, formats: tuple[str, ...], outcome: Outcome) -> None:
        """``formats``: those of ``drl checkpoint export``; ``outcome``: an ``experiments.run.Outcome``."""
        self._formats, self._done, self._failure, self._why_not = formats, [], None, None
        self._first: list[str] = []
        checkpoint = outcome.best or outcome.final
        if not formats:
            return
        if outcome.state != "finished" or checkpoint is None:
            self._why_not = f"the run {'kept no checkpoint' if outcome.state == 'finished' else 'was ' + outcome.state}"
            return
        try:
            from drl_cli.analysis.loaded_checkpoint import open_policies
            from drl_cli.export import export_policy

            _, facts, policies = open_policies(checkpoint)
            self._first = apply_first(export_policy.apply_first(facts))
            for form in formats:
                for name, policy in policies.items():
                    named = f"model-{name}" if len(policies) > 1 else "model"
                    place = os.path.join(outcome.run_folder, f"{named}{export_policy.ENDINGS[form]}")
                    own = facts_of(facts, name)
                    self._done.append((form, exported(export_policy, policy, own, form, place, replace=True)))
        except DrlError as error:
            self._failure = error

    def lines(self) -> list[str]:
        """Return the lines about them that follow the summary of the run."""
        if self._why_not:
            return [f"  Exported  nothing, because {self._why_not}; use drl checkpoint export instead"]
        lines = [f"  Exported  {done.path.name} ({form}; {comparison(done.comparison)})" for form, done in self._done]
        return [*lines, *(f"            {line}" for line in self._first if lines)]

    def paths(self) -> dict[str, list[str]]:
        """Return their part of the last line of ``--json``: {"exported": [path, …]}, {} where none was requested."""
        return {"exported": [str(done.path) for _, done in self._done]} if self._formats else {}

    def raise_failure(self) -> None:
        """Raise what kept an export from being made, if anything did."""
        if self._failure is not None:
            raise self._failure
