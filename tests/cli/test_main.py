"""The program as a process: help, exit codes, streams, and what it does not import."""

import json
import os
import signal
import subprocess
import sys

import pytest

from drl_cli.cli import COMMANDS, main
from drl_cli.cli.endings import EXIT_CODES

HEAVY = ("numpy", "rich", "tensorflow", "ray", "gymnasium", "pydantic", "yaml", "scipy")


def drl(*arguments, **options):
    """Run ``python -m drl_cli`` and return the finished process."""
    return subprocess.run(
        [sys.executable, "-m", "drl_cli", *arguments], capture_output=True, text=True, timeout=60, **options
    )


def python(code, **options):
    """Run ``code`` in a fresh interpreter and return the finished process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options)


def broken(statement):
    """Run ``drl train`` with a command whose body is ``statement``."""
    code = f"""
import sys, click
from drl_cli import cli, errors
from drl_cli.cli import options, group, terminal
@click.command("train", cls=group.Command)
@options.speech_options
@click.pass_obj
def fake(session):
    {statement}
sys.modules["fake"] = sys.modules["__main__"]
cli.COMMANDS["train"] = ("fake:fake", "")
sys.exit(cli.main(sys.argv[1:]))
"""
    return [sys.executable, "-c", code, "train"]


def run_broken(statement, *arguments, **options):
    return subprocess.run([*broken(statement), *arguments], capture_output=True, text=True, timeout=60, **options)


def test_help_imports_nothing_heavy():
    asked = [["--help"], ["-h"], [], ["--version"], *([name, "-h"] for name in COMMANDS)]
    seen = f"print('heavy', main(words), [m for m in {HEAVY!r} if m in sys.modules], words)"
    done = python(f"import sys\nfrom drl_cli.cli import main\nfor words in {asked!r}:\n    {seen}")
    assert (done.returncode, done.stderr) == (0, "")
    found = [line for line in done.stdout.splitlines() if line.startswith("heavy")]
    assert found == [f"heavy 0 [] {words!r}" for words in asked]


def test_bare_command_prints_help_with_examples_first():
    done = drl()
    assert done.returncode == 0
    assert done.stdout.index("Examples:") < done.stdout.index("Commands:") < done.stdout.index("Options:")
    assert "  $ drl train -f lunarlander-continuous-sac\n" in done.stdout


def test_help_lists_commands_and_exit_codes():
    text = drl("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " in text] == list(COMMANDS)
    assert list(EXIT_CODES) == [0, 1, 2, 3, 4, 5, 75, 129, 130, 141, 143]
    assert all(f"{code:>5}  {line}\n" in text for code, line in EXIT_CODES.items())


def test_train_help_groups_options():
    text = drl("train", "--help", env={**os.environ, "COLUMNS": "100"}).stdout
    headings = [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == [
        "Examples",
        "What to train",
        "When to stop",
        "Results and checkpoints",
        "Resuming",
        "Ray",
        "Many runs at once",
        "Output",
    ]


def test_version_is_printed():
    assert drl("--version").stdout == drl("-V").stdout == "drl 0.1.0\n"


@pytest.mark.parametrize("words", [[], ["train"], ["checkpoint"], ["runs", "rm"]])
def test_help_as_a_command_shows_what_the_option_shows(capsys, words):
    assert (main(["help", *words]), main([*words, "--help"])) == (0, 0)
    shown = capsys.readouterr().out
    half = len(shown) // 2
    assert shown[:half] == shown[half:] and len(shown) > 200


def test_help_as_data_has_every_command_with_its_options(capsys):
    assert main(["help", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    known = {one["name"]: one for one in document["commands"]}
    assert {*COMMANDS, "runs rm", "checkpoint card", "new file"} <= set(known) and "" in known
    assert document["exit_codes"] == {str(code): line for code, line in EXIT_CODES.items()}
    options = {name: option for option in known["plot"]["options"] for name in option["names"]}
    over = {"group": "What to draw", "default": "steps", "choices": ["steps", "seconds", "updates"], "is_flag": False}
    assert over.items() <= options["--over"].items()
    assert options["--label"]["repeatable"] and options["--no-raw"]["is_flag"] and "--help" in options
    assert known["plot"]["arguments"] == [{"name": "RUN...", "required": True, "repeatable": True}]
    assert known["plot"]["examples"][0] == "drl plot RUN --terminal" and known["plot"]["help"].startswith("Plot the")
    assert main(["help", "runs", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["commands"]] == ["runs", "runs rm"]


def test_help_of_an_unknown_command_names_the_nearest():
    done = drl("help", "runs", "rn")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'rn'. Did you mean 'rm'?" in done.stderr
    assert "drl train has no commands below it" in drl("help", "train", "fast").stderr


def test_unknown_command_names_the_nearest():
    done = drl("trian")
    assert (done.returncode, done.stdout) == (2, "")
    known = ", ".join(COMMANDS)
    last = done.stderr.splitlines()[-1]
    assert last == f"Error: No such command 'trian'. Did you mean 'train'? Commands: {known}."


def test_unknown_option_names_the_nearest():
    done = drl("train", "--experiment-nam", "x")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: No such option '--experiment-nam'. Did you mean '--experiment-name'?"


def test_abbreviated_option_is_refused():
    assert drl("train", "--checkpoint", "3").returncode == 2


def test_missing_argument_exits_2():
    done = drl("rollout")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "Error: Missing argument 'CHECKPOINT'.")


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        ("errors.ConfigError('a key is wrong')", 2, "Error: a key is wrong"),
        ("errors.Diverged('a loss is not finite')", 3, "Error: a loss is not finite"),
        ("errors.CriterionMissed('too low')", 4, "Error: too low"),
        ("errors.ResourcesExhausted('full')", 5, "Error: full"),
        ("errors.ClusterUnavailable('gone')", 75, "Error: gone"),
        ("OSError(28, 'No space left on device', '/x')", 5, "Error: this machine ran out of disk space (/x): "),
        ("OSError(5, 'Input/output error', '/x')", 5, "Error: this machine has a disk that fails (/x): "),
        ("MemoryError()", 5, "Error: this machine ran out of memory."),
        ("KeyboardInterrupt()", 130, "Interrupted."),
        ("click.Abort()", 130, "Interrupted."),
    ],
)
def test_error_becomes_its_exit_code_and_one_line(raised, code, text):
    done = run_broken(f"raise {raised}")
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.strip().startswith(text)
    assert "Traceback" not in done.stderr


def test_bug_names_a_log_with_the_traceback(tmp_path):
    done = run_broken("raise ValueError('odd')", env={**os.environ, "TMPDIR": str(tmp_path)})
    log = next(tmp_path.glob("drl-error-*.log"))
    assert done.returncode == 1
    assert done.stderr == f"Error: ValueError: odd (a bug in drl; traceback: {log})\n"
    assert "ValueError: odd" in log.read_text(encoding="utf-8").splitlines()[-1]


def test_bug_in_a_run_goes_to_the_log_of_the_run(tmp_path):
    done = run_broken(f"session.run_folder = {str(tmp_path)!r}; raise ValueError('odd')")
    assert done.stderr == f"Error: ValueError: odd (a bug in drl; traceback: {tmp_path}/drl.log)\n"
    assert (tmp_path / "drl.log").read_text(encoding="utf-8").endswith("ValueError: odd\n")


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_debug_shows_the_traceback(way):
    environ = {**os.environ, "DRL_DEBUG": "1"} if way == "variable" else None
    done = run_broken("raise errors.ConfigError('a key')", *(["--debug"] if way == "flag" else []), env=environ)
    assert done.returncode == 2
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1] == "Error: a key"


def test_error_is_red_only_when_colour_is_asked_for():
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    forced = run_broken("raise errors.ConfigError('x')", env={**environ, "FORCE_COLOR": "1"})
    never = run_broken("raise errors.ConfigError('x')", "--no-color", env={**environ, "FORCE_COLOR": "1"})
    assert (forced.stderr, never.stderr) == ("\x1b[31mError: x\x1b[0m\n", "Error: x\n")


def test_reader_that_left_ends_a_read_only_command_with_141():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        broken("terminal.Stdout(session).line('text')"), stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_reader_that_left_before_help_gives_141():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "drl_cli", "-h"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("code", ["terminal.Stdout(session).line('text')", "print('text')"])
def test_full_device_counts_as_a_reader_that_left(code):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(broken(code), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (141, "")


def test_reader_that_left_does_not_end_a_command_that_keeps_going():
    read, write = os.pipe()
    os.close(read)
    statement = "out = terminal.Stdout(session, keep_going=True); out.line('a'); out.line('b'); terminal.say('done')"
    done = subprocess.run(broken(statement), stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "done\n")


def test_broken_pipe_of_something_else_is_not_141(tmp_path):
    done = run_broken("raise BrokenPipeError(32, 'Broken pipe')", env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 1


def test_closed_streams_are_filled_so_that_files_do_not_become_stdout(tmp_path):
    path = tmp_path / "file"
    statement = f"file = open({str(path)!r}, 'w'); file.write(str(file.fileno())); print('lost')"
    done = subprocess.run(
        ["bash", "-c", '"$@" >&-', "bash", *broken(statement)], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert (done.returncode, int(path.read_text(encoding="utf-8")) > 2, done.stderr) == (0, True, "")


def test_stderr_that_is_closed_changes_no_exit_code():
    done = subprocess.run(["bash", "-c", '"$@" 2>&-', "bash", *broken("raise errors.ConfigError('x')")], timeout=60)
    assert done.returncode == 2


def test_ascii_streams_replace_what_they_cannot_say():
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run_broken("terminal.Stdout(session).line('±'); raise errors.ConfigError('Größe')", env=environ)
    assert (done.stdout, done.stderr, done.returncode) == ("?\n", "Error: Gr??e\n", 2)


def test_sigint_ends_with_130_and_one_line():
    # Whoever starts the tests in the background leaves SIGINT ignored, which children inherit.
    default = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    statement = f"import os, signal; {default}; os.kill(os.getpid(), signal.SIGINT)"
    done = run_broken(statement)
    assert signal.SIGINT == 2
    assert (done.returncode, done.stderr.strip()) == (130, "Interrupted.")


def test_wide_environment_variable_columns_is_honoured():
    text = drl("train", "-h", env={**os.environ, "COLUMNS": "60"}).stdout
    options = text[text.index("What to train:") :]
    assert max(len(line) for line in options.splitlines()) <= 60
