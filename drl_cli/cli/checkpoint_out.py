"""``drl checkpoint export | pack | unpack``: exporting a policy, and packing a checkpoint or a run into one file.

The work is done by ``export.export_policy``, ``runs.pack`` and ``runs.unpack``.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drl_cli.cli import exports, figures, group, options, run_options, shell_words, terminal, values
from drl_cli.errors import InputError, nearest

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

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
    imports: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the greedy policy of the checkpoint PATH as one function: observation in, action in the environment's units
    out.

    The observation filter, byte scaling, action mask, action scaling and clipping are part of it. Frame stacks are passed
    in stacked; the memory of recurrent policies becomes extra inputs and outputs. A description is written next to it
    (OUT.json, or drl.json inside a SavedModel). The exported policy is loaded again and compared with drl's own on sampled
    observations; if they differ by more than 1e-4 of half an action's range, nothing is kept and the exit code is 1.

    savedmodel and tflite need TensorFlow, which drl installs; onnx needs pip install 'drl-cli[onnx]'.

    JSON: {"checkpoint", "path", "about", "format", "size", "samples", "difference", "differing", "ties", "state",
    "tolerance"}: the largest difference of a Box action and of a memory, the number of rows in which another choice was
    made, and how many of them are ties.
    """
    form = form or _by_ending(out)
    from drl_cli.analysis.loaded_checkpoint import open_policy
    from drl_cli.export import export_policy

    export_policy.check_place(form, out)
    options.import_modules(imports)
    found, facts, policy = open_policy(run_options.place(path), latest)
    done = exports.exported(export_policy, policy, facts, form, out)
    if as_json:
        document = {
            "checkpoint": str(found),
            "path": str(done.path),
            "about": str(done.about),
            "format": form,
            "size": done.size,
        }
        terminal.Stdout(session).json_line(document | done.comparison._asdict())
    elif not quiet:
        output = terminal.Stdout(session)
        output.line(f"{done.path}: {form}, {figures.size(done.size)}, the greedy policy of {found}")
        for line in (
            *exports.ports(export_policy.description(policy, facts, form)),
            exports.comparison(done.comparison),
        ):
            output.line(f"  {line}")
        output.line(f"  described in {done.about}")


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

    done = packed(run_options.place(path), out, with_replay)
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
