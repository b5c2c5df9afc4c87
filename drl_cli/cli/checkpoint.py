"""``drl checkpoint info | verify | card | export | pack | unpack``: inspecting, describing, checking and moving checkpoints.

This file has the group, ``info`` and ``verify``; ``checkpoint_card`` and ``checkpoint_out`` have the others. None needs Ray,
and only exports to TensorFlow's formats need TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import figures, group, options, run_options, shell_words, tables, terminal

if TYPE_CHECKING:
    from drl_cli.checks.verify import Verification
    from drl_cli.cli.terminal import Session

TABLE = {
    "info": ("drl_cli.cli.checkpoint:info", "Show what a checkpoint contains and what it can be used for."),
    "verify": ("drl_cli.cli.checkpoint:verify", "Check that checkpoints, runs and archives are intact."),
    "card": ("drl_cli.cli.checkpoint_card:card", "Print a card of a checkpoint, in Markdown."),
    "export": ("drl_cli.cli.checkpoint_out:export", "Export the policy as SavedModel, ONNX or TFLite."),
    "pack": ("drl_cli.cli.checkpoint_out:pack", "Pack a checkpoint or a whole run into one file."),
    "unpack": ("drl_cli.cli.checkpoint_out:unpack", "Unpack such a file, safely."),
}
EXAMPLES = """
drl checkpoint info RUN_FOLDER
drl checkpoint verify RUN_FOLDER
drl checkpoint export RUN_FOLDER -o policy.onnx
drl checkpoint pack RUN_FOLDER -o run.tar.gz
drl checkpoint unpack run.tar.gz -o elsewhere
"""
INFO_EXAMPLES = """
drl checkpoint info ~/ray_results/default/RUN
drl checkpoint info ~/ray_results/default/RUN/checkpoint_000010 --arrays
drl checkpoint info RUN --latest --json | jq .policy
"""
VERIFY_EXAMPLES = """
drl checkpoint verify ~/ray_results/default/RUN
drl checkpoint verify ~/ray_results --all
drl checkpoint verify run.tar.gz other.zip
"""
WHICH = "Which"


checkpoint = group.command_group(
    "checkpoint",
    TABLE,
    EXAMPLES,
    "Inspect a checkpoint, check that it is intact, export its policy, or pack it into one file.",
)


@click.command("info", cls=group.Command, examples=INFO_EXAMPLES)
@click.argument("path", shell_complete=shell_words.runs)
@options.latest_option(WHICH)
@options.import_option(WHICH)
@group.option("--arrays", is_flag=True, help="List every array with its shape.")
@options.json_option
@options.speech_options
@click.pass_obj
def info(session: Session, path: str, latest: bool, imports: tuple[str, ...], arrays: bool, as_json: bool) -> None:
    """Show what the checkpoint PATH contains: a checkpoint folder, a file in it, or a run folder (its best checkpoint).

    JSON: {"path", "run", "saved", "algorithm", "env", "seed", "training_iteration", "counters": {…}, "score": {…},
    "versions": {…}, "size", "files": [{"name", "size", "sha256", "part"}], "policy": {"distribution", "obs", "action",
    "filter", "scaled_rewards", "memory", "sees_previous", "values", "team": the agents that it acts for at once, or null,
    "nets": [{"name", "inputs", "image", "custom", "convs", "layers", "residual", "activations", "lstm", "heads", "copies",
    "weights"}], "weights"}, "policies": {id: the same and "agents", "trained", "differs_in"} with several agents, "arrays":
    [{"file", "name", "dtype", "shape", "bytes"}], "replay": {"shards", "rows", "bytes"}, "can": {"play", "restore", "resume":
    {"possible", "why"}}}; null where there is nothing; sizes are in bytes.
    """
    from drl_cli.runs.checkpoint_contents import holding

    options.import_modules(imports)
    held = holding(run_options.place(path), latest)
    output = terminal.Stdout(session)
    if as_json:
        output.json_line(held)
        return
    for line in sheet(held, terminal.width(), arrays):
        output.line(line)


def sheet(held: Mapping[str, Any], width: int, arrays: bool = False) -> list[str]:
    """Return the lines that show what ``runs.checkpoint_contents`` found."""
    counters, score, policy = held["counters"], held["score"], held["policy"]
    steps = f", {counters['timesteps_total']:,} env steps" if "timesteps_total" in counters else ""
    seconds = f", {figures.clock(counters['time_total_s'])} of training" if "time_total_s" in counters else ""
    scores = [
        ("evaluation", score.get("evaluation_reward_mean")),
        ("training episodes", score.get("episode_reward_mean")),
    ]
    parts = [f"{name} {figures.reward(value)}" for name, value in scores if value is not None]
    facts = [
        ("folder", held["path"]),
        ("saved", f"{held['saved']}, by {_versions(held['versions'])}"),
        ("score", ", ".join(parts) or "none yet"),
        ("seed", "-" if held["seed"] is None else str(held["seed"])),
        *(of_policies(held["policies"]) if "policies" in held else of_policy(policy) if policy else ()),
        ("replay", _replay(held["replay"])),
        ("size", f"{figures.size(held['size'])} in {len(held['files'])} files, {len(held['arrays'])} arrays"),
        *_of_doing(held["can"]),
    ]
    lines = [f"{held['algorithm']} on {held['env']}, iteration {held['training_iteration']}{steps}{seconds}", ""]
    for name, text in facts:
        lines += tables.paragraph(text, width, 10, name) if name != "folder" else [f"{name:<10}{text}"]
    if arrays:
        rows = [[a["name"], a["dtype"], _shape(a["shape"]), f"{a['bytes']:,}", a["file"]] for a in held["arrays"]]
        lines += ["", *tables.grid(["array", "dtype", "shape", "bytes", "file"], rows, width, right=(3,))]
    return lines


def _versions(versions: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def of_policies(policies: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of what each of several policies sees and does, and of its networks."""
    for name, policy in policies.items():
        keys = f", differs in {', '.join(policy['differs_in'])}" if policy["differs_in"] else ""
        yield (
            "id",
            f"{name}, acts for {_agents(policy['agents'])}{keys}{'' if policy['trained'] else ', does not learn'}",
        )
        yield from of_policy(policy)


def _agents(agents: Sequence[str], most: int = 8) -> str:
    more = f" and {len(agents) - most} more" if len(agents) > most else ""
    return f"{'agent' if len(agents) == 1 else 'agents'} {', '.join(agents[:most])}{more}"


def of_policy(policy: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of what a policy sees and does, and of its networks."""
    obs, action = policy["obs"], policy["action"]
    seen = "an image " if len(obs["shape"]) == 3 else ""
    seen += f"{_shape(obs['shape'])} {obs['dtype']}"
    more = [f"the last {obs['frames']} stacked"] if obs["frames"] > 1 else []
    more += ["normalised by a running filter"] if policy["filter"] else []
    more += ["with an action mask"] if obs["mask"] else []
    if policy["team"]:
        yield "team", f"{_agents(policy['team'])}, which act as one"
    yield "observes", ", ".join([seen, *more])
    yield "acts", _acts(action)
    memory = f", memory of {' and '.join(_shape(shape) for shape in policy['memory'])}" if policy["memory"] else ""
    yield "policy", f"{policy['distribution']}{memory}, {policy['weights']:,} weights"
    for net in policy["nets"]:
        yield "net", _net(net)


def _acts(action: Mapping[str, Any]) -> str:
    if action["kind"] == "Box":
        clipped = ", clipped" if action["clip"] else ", not clipped"
        return f"Box of {len(action['low'])}, from {_numbers(action['low'])} to {_numbers(action['high'])}{clipped}"
    if action["kind"] == "Discrete":
        return f"Discrete, {action['n']} actions from {action['start']} on"
    if action["kind"] == "MultiDiscrete":
        return f"MultiDiscrete of {_numbers(action['nvec'])} actions"
    if action["kind"] == "Composite":
        return f"{len(action['parts'])} parts: {'; '.join(_acts(part) for part in action['parts'][:8])}"
    return f"MultiBinary, {action['n']} binary actions"


def _numbers(values: Sequence[float], most: int = 8) -> str:
    shown = ", ".join(f"{value:g}" for value in values[:most])
    return f"[{shown}{', …' if len(values) > most else ''}]"


def _net(net: Mapping[str, Any]) -> str:
    convs = [f"{filters} of {kernel}x{kernel}/{stride}" for filters, kernel, stride in net["convs"]]
    lstm = [f"LSTM {net['lstm']}"] if net["lstm"] else []
    inputs = " + ".join(f"{name} {size}" for name, size in net["inputs"].items())
    heads = " + ".join(f"{name} {size}" for name, size in net["heads"].items())
    own = [f"custom {net['custom']}"] if net["custom"] else []
    block = "residual " if net["residual"] else ""
    parts = [inputs, *own, *convs, *(f"{block}{units}" for units in net["layers"]), *lstm, heads]
    kinds = f" ({', '.join(net['activations'])})" if net["activations"] else ""
    copies = f"{net['copies']} x " if net["copies"] > 1 else ""
    return f"{copies}{net['name']}: {' > '.join(parts)}{kinds}, {net['weights']:,} weights"


def _replay(replay: Mapping[str, Any] | None) -> str:
    if replay is None:
        return "none"
    rows = f"{replay['rows']:,} rows, " if replay["rows"] is not None else ""
    return f"{rows}{figures.size(replay['bytes'])}" + (f" in {replay['shards']} shards" if replay["shards"] > 1 else "")


def _of_doing(can: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines about what can be done with a checkpoint, the possible in one."""
    words = {"play": "play it (drl rollout)", "restore": "start a new run from it (drl train --restore)"}
    words["resume"] = "resume its run (drl train --resume)"
    possible = [words[name] for name, one in can.items() if one["possible"]]
    yield "can", "; ".join(possible) or "nothing"
    why_not = {}
    for name, one in can.items():
        if not one["possible"]:
            why_not.setdefault(one["why"], []).append(name)
    for why, names in why_not.items():
        yield "cannot", f"{', '.join(names)}: {why}"


def _shape(shape: Sequence[int]) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"


@click.command("verify", cls=group.Command, examples=VERIFY_EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, shell_complete=shell_words.runs)
@group.option(
    "--all",
    "every",
    is_flag=True,
    group=WHICH,
    help="Also check the other checkpoints of its run; given a folder of runs, all of them.",
)
@options.import_option(WHICH)
@options.quiet_option("Print only what is damaged.")
@options.json_option
@options.speech_options
@click.pass_obj
def verify(
    session: Session, paths: tuple[str, ...], every: bool, imports: tuple[str, ...], quiet: bool, as_json: bool
) -> int:
    """Check that each PATH is intact: a checkpoint, a run folder (all of its checkpoints), or an archive of drl
    checkpoint pack.

    COMMIT is compared with the manifest, the size and SHA-256 of every file are checked, the replay's too, every header is
    read, and the weights must be finite and fit the policy. Exits with 2 if anything is damaged, and names the file.
    Changes nothing.

    JSON: {"checked": [{"path", "whole", "damage", "files", "size", "note"}], "damaged": N}.
    """
    from drl_cli.checks.verify import Verification, best_damage, places
    from drl_cli.checks.verify import verify as verified

    options.import_modules(imports)
    output = terminal.Stdout(session)
    found, damaged = [], 0
    for path in dict.fromkeys(
        place for given in paths for place in places(run_options.place(given, wanted="whole"), every)
    ):
        verdict = verified(path)
        found.append(verdict)
        damaged += verdict.damage is not None
        if not as_json and (verdict.damage or not quiet):
            output.line(_said(verdict))
    for run in dict.fromkeys(one.path.absolute().parent for one in found):
        damage = best_damage(run)
        if damage:
            found.append(Verification(run, damage))
            damaged += 1
            if not as_json:
                output.line(f"damaged  {damage}")
    if as_json:
        entries = [{**one._asdict(), "path": str(one.path), "whole": one.damage is None} for one in found]
        output.json_line({"checked": entries, "damaged": damaged})
    elif not quiet and len(found) > 1:
        terminal.say(f"{damaged} of {len(found)} damaged." if damaged else f"All {len(found)} are intact.")
    return 2 if damaged else 0


def _said(verdict: Verification) -> str:
    if verdict.damage:
        return f"damaged  {verdict.damage}"
    note = f"; {verdict.note}" if verdict.note else ""
    return f"intact   {verdict.path} ({verdict.files} files, {figures.size(verdict.size)}{note})"
