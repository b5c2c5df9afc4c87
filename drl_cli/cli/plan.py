"""``drl train --plan``: the resources and the time that a run would take, shown without starting it.

``option`` is added to ``drl train``, ``show`` prints the plan, ``checks.run_plan`` computes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drl_cli.checks.findings import Finding
from drl_cli.cli import endings, figures, group, tables, terminal, train_options, values
from drl_cli.config.env_names import displayed
from drl_cli.errors import ResourcesExhausted
from drl_cli.experiments import tuned_files

if TYPE_CHECKING:
    from drl_cli.checks.run_plan import Trials
    from drl_cli.cli.terminal import Session
    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.experiments.spec import ExperimentSpec

LABEL = 11
EXIT_CODE = ResourcesExhausted.exit_code

option = group.option(
    "--plan",
    is_flag=True,
    group=train_options.WHAT,
    help="Dry run: show config, processes, memory, disk space and the expected time; fail if it does not fit.",
)


scale_option = group.option(
    "--scale",
    metavar="N[,nodes=…]",
    type=values.ClusterSize(),
    group=train_options.WHAT,
    help="With --plan: measure what passes between processes, and say which part of the run would saturate first with N "
    "workers. Of the cluster you can say nodes, cores (of a node; by default as many nodes of 16 as N needs), gib (its memory, "
    "4 for each core) and gbit (the network, 10): --scale 64,nodes=4,gbit=25.",
)


def show(
    session: Session,
    spec: ExperimentSpec,
    trials: Trials | None = None,
    as_json: bool = False,
    quiet: bool = False,
    scale: Mapping[str, Any] | None = None,
) -> int:
    """Show the plan of an ExperimentSpec, or of a search by one of its ``trials``; return the exit code: 0, or 5: cannot fit.

    JSON: {"run", "env", "experiment", "fits", "stop", "config", "weights", "policies": null, or of several agents {id: agents},
    "processes": [{"what", "count", "bytes_each"}], "memory", "disk", "probe", "time": {"seconds", "env_steps", "bound_by",
    "parts", "how"}, "trials": null, or of a search {"count", "at_once", "trial": the planned one}, "scale": null, or with
    ``scale`` {"cluster", "parts", "env_steps_per_s", "first", "measured", "memory"}, "findings", "changed": [keys that are not
    at their defaults]}.
    """
    from drl_cli.checks import run_plan

    output = terminal.Stdout(session)
    subject = f"{spec.run} on {displayed(spec.env, spec.config.env_config)}"
    say = (lambda _: None) if quiet or as_json else (lambda text: terminal.say(f"{subject}: {text}"))
    with endings.at_once():
        shape = run_plan.ClusterShape(**scale) if scale else None
        plan = run_plan.plan(spec, progress=say, trials=trials, scale=shape)
    plan["changed"] = changed(spec.config)
    tuned = tuned_files.measured(spec)
    plan["measured"] = tuned and {"name": tuned.name, "median_s": tuned.median_s, "took": tuned.took}
    lines = [json.dumps(plan)] if as_json else sheet(plan, terminal.width(), terminal.use_color(sys.stdout, session))
    for line in lines:
        output.line(line)
    return 0 if plan["fits"] else EXIT_CODE


def changed(config: CommonKeys) -> list[str]:
    """Return the dotted keys of a config that differ from its defaults."""
    from drl_cli.config import key_description, plain_data

    values = config.model_dump(mode="json", by_alias=True)
    return [
        row["key"]
        for row in key_description.keys(type(config))
        if plain_data.value_at(values, row["key"].split(".")) != row["default"] and row["key"] != "env"
    ]


def sheet(plan: Mapping[str, Any], width: int, color: bool = False) -> list[str]:
    """Return the lines of one plan."""
    from drl_cli.config.plain_data import value_at
    from drl_cli.errors import shown
    from drl_cli.runtime.footprint import sized

    lines = [f"{plan['run']} on {plan['env']} (dry run: nothing is started)", ""]
    if plan["trials"]:
        text = f"A search of {plan['trials']['count']} trials; here is the largest of them, trial {plan['trials']['trial']}:"
        lines[1:1] = [text]
    config = [f"{key}={shown(value_at(plan['config'], key.split('.')))}" for key in plan["changed"]]
    stops = " or ".join(f"{field} reaches {value:,.10g}" for field, value in plan["stop"].items()) or "never"
    parts = [f"{one['what']}{' x ' + str(one['count']) if one['count'] > 1 else ''}" for one in plan["processes"]]
    memory = plan["memory"]
    sizes = [("processes", memory["processes"]), ("replay", memory["replay"])]
    sizes += [("batches", memory["batches"]), ("object store", memory["object_store"])]
    facts = [
        ("config", ", ".join(config) or "all at their defaults"),
        ("stops when", stops),
        ("processes", ", ".join(parts)),
        ("memory", ", ".join(f"{name} {sized(count)}" for name, count in sizes if count)),
        _policies(plan),
    ]
    if memory["replay"]:
        full = "" if memory["replay"] == memory["replay_full"] else f", {sized(memory['replay_full'])} when full"
        facts.append(("replay", f"{memory['bytes_per_env_step']:,.0f} bytes per env step{full}"))
    for name, text in [*facts, *_time(plan), *_scale(plan)]:
        lines += tables.paragraph(text, width, LABEL, name or None)
    lines += ["", *tables.finding_lines([Finding(**one) for one in plan["findings"]], width, color), ""]
    return [*lines, "It fits." if plan["fits"] else "It does not fit."]


def _policies(plan: Mapping[str, Any]) -> tuple[str, str]:
    """Return the row about the policy, or about those of several agents."""
    if not plan["policies"]:
        return "policy", f"{plan['weights']:,} weights"
    from drl_cli.experiments.agent_policies import listed

    acting = "; ".join(f"{policy} acts for {listed(agents)}" for policy, agents in plan["policies"].items())
    return "policies", f"{acting}; {plan['weights']:,} weights"


def _time(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows about time."""
    rows, time = [], plan["time"]
    if time is not None:
        if time["seconds"] is None:
            rows.append(("time", f"unknown: {time['how']}"))
        else:
            until = f"{time['bound_by']} {plan['stop'][time['bound_by']]:,.10g}"
            about = "at least" if time["is_least"] else "about"
            rows.append(("time", f"{about} {figures.clock(time['seconds'])} to {until}; goals may end it earlier"))
            rows.append(("", f"from {time['how']}"))
            spent = ", ".join(f"{name} {figures.clock(value)}" for name, value in time["parts"].items() if value >= 1)
            rows += [("", f"CPU time: {spent}")] if spent else []
    if plan.get("measured"):
        rows.append(("measured", f"{plan['measured']['name']}: {plan['measured']['took'][0]}"))
    return rows


def _scale(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows about a larger cluster."""
    found = plan["scale"]
    if found is None:
        return []
    shape = found["cluster"]
    nodes = f"{shape['nodes']:,} node{'s' if shape['nodes'] > 1 else ''} of {shape['cores']:,} cores"
    about = f"{shape['workers']:,} workers on {nodes} and {shape['gib']:g} GiB, {shape['gbit']:g} Gbit/s"
    rows = [("", ""), ("cluster", f"{about}: about {figures.count(found['env_steps_per_s'])} env steps/s")]
    for part in found["parts"]:
        carries = (
            "no bound" if part["env_steps_per_s"] is None else f"{figures.count(part['env_steps_per_s'])} env steps/s"
        )
        rows.append((part["part"], f"{carries}: {part['why']}"))
    measured = found["measured"]
    return [*rows, ("", f"weights reach a process of this machine within {1000 * measured['push_s']:,.1f} ms")]
