"""``drl checkpoint export | pack | unpack``: exporting a policy, and packing a checkpoint or a run into one file.

The work is done by ``export.export_policy``, ``runs.pack`` and ``runs.unpack``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drl_cli.cli import exports, figures, group, options, run_options, shell_words, terminal, values
from drl_cli.errors import InputError, full_or, nearest, suggestion

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session
    from drl_cli.policies.numpy_policy import NumpyPolicy

FORMATS = ("savedmodel", "onnx", "tflite")
BY_ENDING = {".onnx": "onnx", ".tflite": "tflite"}
EXPORT_EXAMPLES = """
drl checkpoint export ~/ray_results/default/RUN -o policy
drl checkpoint export ~/ray_results/default/RUN/checkpoint_000010 -o policy.onnx
drl checkpoint export RUN --latest --format tflite -o policy.tflite
"""
PACK_EXAMPLES = """
drl checkpoint pack ~/ray_results/default/RUN/checkpoint_000010 -o lander.tar.gz
drl checkpoint pack ~/ray_results/default/RUN -o run.zip --with-replay
"""
UNPACK_EXAMPLES = """
drl checkpoint unpack lander.tar.gz
drl checkpoint unpack run.zip -o ~/ray_results/from-elsewhere
"""
WHICH, OUT = "Which", "What comes out"


def _by_ending(out: str) -> str:
    """Return the format that the ending of ``out`` means; InputError for an ending that only looks like one."""
    ending = Path(out).suffix
    if ending not in BY_ENDING and (near := nearest(ending, BY_ENDING, 1)):
        right = Path(out).with_suffix(near[0])
        raise InputError(
            f"{out}: no format ends in {ending}. Did you mean '{right}'? A folder of that name: --format savedmodel."
        )
    return BY_ENDING.get(ending, "savedmodel")


@click.command("export", cls=group.Command, examples=EXPORT_EXAMPLES)
@click.argument("path", shell_complete=shell_words.runs)
@options.latest_option(WHICH)
@group.option(
    "--format",
    "form",
    type=values.OneOf(FORMATS),
    group=OUT,
    help="[default: by the ending of OUT: .onnx, .tflite, else savedmodel]",
)
@group.option(
    "-o",
    "--out",
    metavar="OUT",
    required=True,
    group=OUT,
    shell_complete=shell_words.files,
    help="File or folder to write.",
)
@group.option("--policy", metavar="ID", group=WHICH, help="With several agents: this policy alone. [default: all]")
@options.import_option(WHICH)
@options.quiet_option()
@options.json_option
@options.speech_options
@click.pass_obj
def export(
    session: Session,
    path: str,
    latest: bool,
    form: str | None,
    out: str,
    policy: str | None,
    imports: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the greedy policy of the checkpoint PATH as one function: observation in, action in the environment's units
    out.

    The observation filter, byte scaling, action mask, action scaling and clipping are part of it. Frame stacks are passed
    in stacked; the memory of recurrent policies becomes extra inputs and outputs. Wrappers, a custom preprocessor and the
    preprocessing of images are not part of it: what is to be applied first is printed. A description is written next to it
    (OUT.json, or drl.json inside a SavedModel). The exported policy is loaded again and compared with drl's own on sampled
    observations; if they differ by more than 1e-4 of half an action's range, nothing is kept and the exit code is 1.

    With several agents every policy is exported, into the folder OUT: OUT/ID.onnx, or --policy names one for OUT itself.

    savedmodel and tflite need TensorFlow, which drl installs; onnx needs pip install 'drl-cli[onnx]'.

    JSON: {"checkpoint", "path", "about", "format", "size", "samples", "difference", "differing", "ties", "state",
    "tolerance"}: the largest difference of a Box action and of a memory, the number of rows in which another choice was
    made, and how many of them are ties. A line for each of several policies, with its id: "policy".
    """
    form = form or _by_ending(out)
    from drl_cli.analysis.loaded_checkpoint import open_policies
    from drl_cli.export import export_policy

    options.import_modules(imports)
    found, facts, policies = open_policies(run_options.place(path), latest)
    output = terminal.Stdout(session)
    for name, place in _places(policies, policy, form, out).items():
        own = exports.facts_of(facts, name)
        done = exports.exported(export_policy, policies[name], own, form, place)
        named = {"policy": name} if facts.get("agents") else {}
        if as_json:
            document = {
                "checkpoint": str(found),
                **named,
                "path": str(done.path),
                "about": str(done.about),
                "format": form,
                "size": done.size,
            }
            output.json_line(document | done.comparison._asdict())
        elif not quiet:
            what = f"the greedy policy {name}" if named else "the greedy policy"
            output.line(f"{done.path}: {form}, {figures.size(done.size)}, {what} of {found}")
            for line in (
                *exports.ports(export_policy.description(policies[name], own, form)),
                *exports.apply_first(export_policy.apply_first(own)),
                exports.comparison(done.comparison),
            ):
                output.line(f"  {line}")
            output.line(f"  described in {done.about}")


def _places(policies: Mapping[str, NumpyPolicy], chosen: str | None, form: str, out: str) -> dict[str, str]:
    """Return {policy id: where it is written}: ``out`` for a single or ``chosen`` one, else files in the folder ``out``.

    Raises InputError, before anything is written, for a policy that is not there and a place that is taken.
    """
    from drl_cli.export import export_policy

    if chosen is not None and chosen not in policies:
        hint = suggestion(chosen, policies) or f" There {'is' if len(policies) == 1 else 'are'}: {', '.join(policies)}."
        raise InputError(f"--policy: the checkpoint has no policy {chosen[:60]!r}.{hint}")
    if chosen is not None or len(policies) == 1:
        name = chosen or next(iter(policies))
        export_policy.check_place(form, out)
        return {name: out}
    folder = Path(out).expanduser()
    if folder.suffix and folder.suffix == export_policy.ENDINGS[form]:
        names = ", ".join(policies)
        raise InputError(
            f"{out}: the checkpoint has several policies ({names}). Choose one with --policy, or give the name of a folder "
            f"and --format {form}: each is exported into it."
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise full_or(error, InputError)(f"{out}: cannot be made ({error.strerror}).") from error
    places = {name: str(folder / f"{name}{export_policy.ENDINGS[form]}") for name in policies}
    for place in places.values():
        export_policy.check_place(form, place)
    return places


@click.command("pack", cls=group.Command, examples=PACK_EXAMPLES)
@click.argument("path", shell_complete=shell_words.runs)
@group.option(
    "-o",
    "--out",
    metavar="FILE",
    required=True,
    group=OUT,
    shell_complete=shell_words.files,
    help="File to write: .tar.gz or .zip.",
)
@group.option("--with-replay", is_flag=True, group=OUT, help="Include replay buffers, which may be large.")
@options.quiet_option()
@options.json_option
@options.speech_options
@click.pass_obj
def pack(session: Session, path: str, out: str, with_replay: bool, quiet: bool, as_json: bool) -> None:
    """Pack PATH into one file: a checkpoint, or a whole run with its results, log and checkpoints.

    The same content always gives the same bytes. Everything is verified first; the file contains a manifest of hashes.

    JSON: {"path", "kind", "name", "files", "size", "packed", "left_out": [{"path", "why"}]}, sizes in bytes.
    """
    from drl_cli.runs.pack import pack as packed

    done = packed(run_options.place(path, wanted="whole"), out, with_replay)
    if as_json:
        left = [{"path": str(one), "why": why} for one, why in done.left_out]
        terminal.Stdout(session).json_line(done._asdict() | {"path": str(done.path), "left_out": left})
        return
    if quiet:
        return
    for one, why in done.left_out:
        terminal.say(f"Left out: {one} ({why})")
    output = terminal.Stdout(session)
    sizes = f"{done.files} files, {figures.size(done.size)} in {figures.size(done.packed)}"
    output.line(f"{done.path}: {done.kind} {done.name}, {sizes}")
    output.line(f"Unpack it  drl checkpoint unpack {shlex.quote(str(done.path))}")


@click.command("unpack", cls=group.Command, examples=UNPACK_EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=shell_words.files)
@group.option(
    "-o",
    "--out",
    metavar="DIR",
    default=".",
    show_default="here",
    group=OUT,
    shell_complete=shell_words.folders,
    help="Folder to unpack into; created if it does not exist.",
)
@options.quiet_option()
@options.json_option
@options.speech_options
@click.pass_obj
def unpack(session: Session, file: str, out: str, quiet: bool, as_json: bool) -> None:
    """Unpack FILE, which drl checkpoint pack made, into a new folder in DIR.

    FILE need not be trusted: names, sizes and hashes are checked against its manifest, links and devices are refused, and
    checkpoints are verified before the folder gets its name. Nothing is overwritten.

    JSON: {"path", "kind", "files", "size"}.
    """
    from drl_cli.runs.unpack import unpack as unpacked

    found, contents = unpacked(file, out)
    if as_json:
        document = {"path": str(found), "kind": contents.kind, "files": contents.files, "size": contents.size}
        terminal.Stdout(session).json_line(document)
    elif not quiet:
        output = terminal.Stdout(session)
        output.line(f"{found}: a {contents.kind} of {contents.files} files, {figures.size(contents.size)}")
        output.line(f"Look at it  drl checkpoint info {shlex.quote(str(found))}")
        output.line(f"Play it     drl rollout {shlex.quote(str(found))}")
