"""How a command ends: the exit codes, one message for each kind of failure, and where tracebacks go.

Used by ``main`` alone. Codes above 128 mean that trying again makes sense, as controllers of jobs read them.
Source: the project's failure catalogue; sysexits(3) for 75.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

import drl_cli.cli.terminal as terminal
from drl_cli.algorithms import table
from drl_cli.errors import DrlError, InputError, ResourcesExhausted, machine_failure, nearest
from drl_cli.extras import load
from drl_cli.stop_request import StopRequest

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXIT_CODES = {
    0: "finished",
    1: "doctor, env check: something is broken; otherwise a bug in drl (the message names the log with the traceback)",
    2: "bad input: usage, config, environment, checkpoint, folder",
    3: "the run failed: divergence, or the environment or the workers kept failing",
    4: "a score required by --assert was missed",
    5: "out of disk, memory or file descriptors, or the disk fails",
    75: "the cluster is unreachable or did not grant the resources in time",
    129: "hung up, after saving a checkpoint",
    130: "interrupted, after saving a checkpoint; a second Ctrl-C quits at once without saving",
    141: "stdout was closed by its reader",
    143: "terminated, after saving a checkpoint",
}
INTERRUPTED = (129, 130, 143)
EXIT_CODES_HELP = "Exit codes:\n" + "".join(f"  {code:>3}  {text}\n" for code, text in EXIT_CODES.items())

UNUSABLE = {
    errno.ENAMETOOLONG: "a name that is too long for a file or folder",
    errno.ELOOP: "links that lead to each other",
}


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """While this is entered nothing can be lost: a signal ends the process at once, and the probes below it with it."""
    request = StopRequest().install()
    request.before_exit(lambda *_: terminal.say("Interrupted."))
    try:
        with request.starting():
            yield
    finally:
        request.remove()


def exit_code_of(call: Callable[[], object], session: Session) -> int:
    """Run ``call()`` (which returns a code or raises), say what went wrong, and return the exit code of the process."""
    terminal.open_standard_streams(session)
    try:
        code = call()
    except BaseException as error:  # the end of the line: everything becomes a message and a code
        code = _code_of(error, session)
    try:
        sys.stdout.flush()
    except OSError:
        terminal.forget_stdout(session)
        code = code or 141
    return code if isinstance(code, int) else 0


def _code_of(error: Any, session: Session) -> int:
    """Say what ``error`` is and return its exit code."""
    if isinstance(error, (KeyboardInterrupt, click.Abort, EOFError)):
        terminal.say("Interrupted.")
        return 130
    if isinstance(error, terminal.ReaderGone) or (isinstance(error, OSError) and _is_our_stdout(error)):
        terminal.forget_stdout(session)
        return 141
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    if isinstance(error, click.ClickException):
        return _usage(error, session)
    error = _as_drl_error(error)
    if session.debug:
        terminal.say("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, DrlError):
        terminal.say(f"Error: {error}", session, "red")
        return error.exit_code
    kept = _keep_traceback(error, session)
    summary = " ".join(str(error).split())[:200]
    terminal.say(f"Error: {type(error).__name__}: {summary} (a bug in drl; traceback: {kept})", session, "red")
    return 1


def _usage(error: click.ClickException, session: Session) -> int:
    """Show a mistake in the command line, the most important line last."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        terminal.say(f"Usage: {context.command_path} {' '.join(context.command.collect_usage_pieces(context))}")
        terminal.say(f"Help:  {context.command_path} -h")
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and context is not None:
        message = f"No such option '{error.option_name}'.{_option_hint(error.option_name, context.command, context)}"
    terminal.say(f"Error: {message}", session, "red")
    return 2


def _option_hint(typed: str, command: click.Command, context: click.Context) -> str:
    """Return what is typed in the place of an unknown option: what it is here, or the nearest one the command has."""
    bare = typed.lstrip("-")
    known = [name for option in command.get_params(context) for name in option.opts if name.startswith("--")]
    close = nearest(bare, [name[2:] for name in known], count=1)
    if "--set" in known:  # only where a config can be given
        from drl_cli.config.rllib.other_libraries import option_here

        here = option_here(bare, _all_keys)
        if here and not close:
            return f" Type {here}."
    return f" Did you mean '--{close[0]}'?" if close else ""


def _all_keys() -> dict[str, str]:
    """Return {key of any algorithm's config, in any spelling that is read: the key}."""
    from drl_cli.config.key_description import fields_of
    from drl_cli.config.rllib.aliases import ALIASES

    keys = {name: name for row in table.rows() for name in fields_of(load(row.config))}
    aliases = ALIASES.items()
    return {old[0]: ".".join(new) for old, new in aliases if len(old) == 1} | keys


def _is_our_stdout(error: OSError) -> bool:
    return error.errno in terminal.GONE and error.filename is None and terminal.stdout_has_no_reader()


def _as_drl_error(error: BaseException) -> BaseException:
    """Turn what the operating system refused into the error with its exit code; return anything else as it is."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "drl_cli").split(".")[0] != "drl_cli":
        missing = (error.name or "").split(".")[0]
        return InputError(f"drl needs the package {missing}, which is not installed. Run: pip install {missing}")
    if isinstance(error, OSError) and error.errno in UNUSABLE:
        return InputError(f"{str(error.filename)[:100]}: {UNUSABLE[error.errno]}.")
    text = machine_failure(error)
    if text is None:
        return error
    exhausted = ResourcesExhausted(text)
    exhausted.__cause__ = error
    return exhausted


def _keep_traceback(error: BaseException, session: Session) -> str:
    """Append the traceback to the log of the run that is going on, else to a new temporary file; return its path."""
    text = "".join(traceback.format_exception(error))
    if session.run_folder:
        path = os.path.join(session.run_folder, session.raw_log)
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            return path
        except OSError:
            session.run_folder = None
    try:
        number, path = tempfile.mkstemp(prefix="drl-error-", suffix=".log")
        with open(number, "w", encoding="utf-8") as file:
            file.write(f"command: {' '.join(sys.argv)}\n{text}")
        return path
    except OSError as unwritable:
        terminal.say(text.rstrip())
        return f"shown above, since no log could be written: {unwritable}"
