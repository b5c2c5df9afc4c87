"""Every command in README.rst, docs/ and the help of the commands is typed here, in a small form, or says why not.

A page is gone through from top to bottom in a folder of its own: files that it shows are written, its commands run in this
process, as a reader would type them, its Python is executed. What trains gets a tiny stop and no workers, what plays few
episodes. The words that stand for something of a reader's own (RUN, sac, 1a2b3c4d) are there: runs of a moment. Blocks behind
``.. not run:`` are parsed only.
"""

import importlib.util
import os
import shutil
import sys

import click
import documented
import pytest

from drl_cli.checks import run_time
from drl_cli.cli import drl, main, terminal
from drl_cli.config import strict_yaml as strict

pytestmark = pytest.mark.process

TINY = ["num_workers=0", "xla=false", "timesteps_per_iteration=64", "evaluation_num_episodes=1", "min_iter_time_s=0"]
TRAINING = [*(word for key in TINY for word in ("-s", key)), "--stop", "training_iteration=1"]
SMALL_FORM = {
    ("train",): TRAINING,
    ("example", "run"): TRAINING,
    ("rollout",): ["--episodes", "1"],
    ("evaluate",): ["--episodes", "2"],
    ("env", "check"): ["--episodes", "2"],
    ("runs", "rm"): ["--dry-run"],
    ("doctor",): ["--quick"],
}
"""What is appended to a command; of an option that is given twice the last counts."""

GOING_ON = ["--stop", "training_iteration=11"]
"""What is appended instead where a run goes on, whose keys are known."""

STAGE = (
    "default/RUN",
    "default/RUN_FOLDER",
    "default/RUN_1",
    "default/RUN_2",
    "default/PPO_1a2b3c4d",
    "default/PPO_5e6f7a8b",
    "sac/A",
    "td3/B",
)
"""Runs that pages speak of, below the folder of results."""

NOT_RUN = {
    "drl train --resume": "needs a run that was interrupted: tests/whole/test_commands.py",
    "my_module": "the reader's own module",
    "my_package": "the reader's own package",
    "mine.yaml": "the reader's own file",
    "my_file.yaml": "the reader's own file",
    "--num-samples": "starts Ray: tests/tune",
    "my-experiment": "an experiment of the reader's own",
    "/data/results": "a folder of the reader's own",
    "~/.config/fish": "a folder of the reader's own",
    "--plan": "measures for a dozen seconds: tests/checks/test_run_plan.py",
    "--against": "needs two runs of a game: tests/analysis/test_matches.py",
    "onnx": "needs an extra",
    "tflite": "loads TensorFlow's converter: tests/export",
    "-o policy": "loads TensorFlow anew: tests/export",
    "run.zip": "a file of the reader's own",
    "lander.tar.gz": "a file of the reader's own",
    "other.zip": "a file of the reader's own",
    "mean_q": "a field that the runs here, PPO's, do not have",
}
"""Why an example of the help is not run, by a word that it holds; it is parsed all the same."""


TRAINED = []
"""The commands that have trained already; the home is the same for all pages."""


def load_docs(name):
    """Return docs/<name>.py as a module."""
    spec = importlib.util.spec_from_file_location(name, documented.ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(words):
    """Type ``drl`` and ``words``; returns the exit code."""
    return main([os.path.expanduser(os.path.expandvars(word)) for word in words])


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """A home with copies of a run of ten iterations, and recorded experience."""
    home = tmp_path_factory.mktemp("home")
    results = home / "ray_results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("RUN", str(results / "default" / "RUN"))
        patch.setenv("MPLCONFIGDIR", str(home))
        # With such a learning rate it comes nowhere near the goal that would end it sooner.
        line = "drl train -f cartpole-ppo -q --experiment-name first --checkpoint-freq 10 --seed 1 -s lr=1e-9"
        words, _ = documented.split(line)
        assert run([*words, *TRAINING[:-1], "training_iteration=10"]) == 0
        (made,) = (path for path in (results / "first").iterdir() if path.is_dir())
        for name in STAGE:
            shutil.copytree(made, results / name)
        shutil.rmtree(results / "first")
        words = ["rollout", results / "default/RUN", "--explore", "--episodes", "20", "--out", home / "experience.json"]
        assert run(map(str, words)) == 0
        yield home


@pytest.fixture
def folder(stage, tmp_path, monkeypatch, plug_ins):
    """A folder to type in, with the runs and the recorded experience of the stage, and the examples of docs/examples.

    Modules in it, and what they registered, are forgotten afterwards.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(stage))
    monkeypatch.setattr(run_time, "PROBE_S", 0.2)  # of what --plan measures
    monkeypatch.setattr(sys, "path", list(sys.path))
    for path in (stage / "experience.json", *(documented.ROOT / "docs" / "examples").glob("*.py")):
        shutil.copy(path, tmp_path)
    for name in STAGE:
        (tmp_path / os.path.basename(name)).symlink_to(stage / "ray_results" / name)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def command_of(words):
    """Return (click command, the words that name it) that ``words`` start with; fails where there is none."""
    command, named = drl, ()
    while isinstance(command, click.Group) and len(words) > len(named):
        found = command.get_command(None, words[len(named)])
        if found is None:
            break
        command, named = found, (*named, words[len(named)])
    return command, named


def parse(words):
    """Let click read the options of a command without running it."""
    command, named = command_of(words)
    assert named, f"drl {' '.join(words)}: there is no such command"
    command.make_context(named[-1], list(words[len(named) :]), obj=terminal.Session(arguments=words))


def small(words):
    """Return the words of a command in a form that takes a moment."""
    _, named = command_of(words)
    if {"--plan", "-h", "--help", "--data"} & set(words):
        return words
    if any(word.startswith("--resume") for word in words):
        return [*words, *GOING_ON]
    return [*words, *SMALL_FORM.get(named, [])]


def type_all(found, capfd):
    """Run commands and write what they redirect; returns what failed, as text. The same training is done once."""
    failed = []
    for words, target in found:
        if command_of(words)[1] == ("train",) and not target:
            if words in TRAINED:
                continue
            TRAINED.append(words)
        capfd.readouterr()
        code = run(small(words))
        output, errors = capfd.readouterr()
        if target:
            with open(os.path.expanduser(target), "w", encoding="utf-8") as file:
                file.write(output)
        is_missed = code == 4 and "--assert" in words  # the short form need not reach a score
        if (code and not is_missed) or "Traceback" in errors:
            failed.append(f"drl {' '.join(words)}: exit code {code}\n{errors[-1500:]}")
    return failed


def go_through(block, page, folder, capfd):
    """Do what a reader of a block would do; returns what failed."""
    place = f"{page.name}, line {block.line}"
    if block.file:
        path = folder / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    if block.language == "yaml":
        strict.read_yaml(block.text, place)
        return []
    if block.language == "python":
        code = compile(block.text, place, "exec")
        if not block.file and not block.reason:
            exec(code, {"__name__": "__main__"})
        return []
    found = documented.commands(block.text)
    if not block.reason:
        return type_all(found, capfd)
    for words, _ in found:
        parse(words)
    return []


@pytest.mark.parametrize("page", documented.pages(), ids=documented.name_of)
def test_commands_of_a_page_run(page, folder, capfd):
    failed = []
    for block in documented.blocks(page.read_text(encoding="utf-8")):
        failed += go_through(block, page, folder, capfd)
    assert failed == [], "\n".join(failed)


def examples():
    """Yield (name of a command, its examples)."""
    for words, command in [((), drl), *load_docs("make_reference").commands()]:
        yield pytest.param(command.examples, id="-".join(("drl", *words)))


@pytest.mark.parametrize("text", examples())
def test_examples_in_the_help_run(text, folder, capfd):
    lines = documented.typed_lines(text.strip())
    kept = [line for line in lines if not any(word in line for word in NOT_RUN)]
    for words, _ in documented.commands("\n".join(line for line in lines if line not in kept)):
        parse(words)
    failed = type_all(documented.commands("\n".join(kept)), capfd)
    assert failed == [], "\n".join(failed)


@pytest.mark.parametrize("page", documented.pages(), ids=documented.name_of)
def test_commands_in_the_text_exist(page):
    told = [literal.split() for literal in documented.literals(page.read_text(encoding="utf-8"))]
    wrong = [" ".join(words) for words in told if words[0] == "drl" and len(words) > 1 and not is_right(words[1:])]
    assert wrong == []


def is_right(words):
    """Whether a command exists that is called so, with these options; capitals and dots stand for any."""
    command, named = command_of(words)
    known = {name for option in command.params for name in option.opts} | {"-h", "--help"}
    is_known = named or words[0].startswith("-") or not words[0].islower()
    return is_known and all(word.split("=")[0] in known for word in words if word.startswith("-"))


def test_block_behind_a_mark_is_only_parsed(folder, capfd):
    page = "Text.\n\n.. not run: needs a display\n.. code-block:: text\n\n    $ drl rollout RUN \\\n        --render\n    so\n"
    (block,) = documented.blocks(page)
    assert (block.language, block.reason) == ("text", "needs a display")
    assert documented.commands(block.text) == [(["rollout", "RUN", "--render"], None)]
    assert go_through(block, documented.ROOT / "README.rst", folder, capfd) == []


def test_shell_line_ends_at_the_first_operator():
    assert documented.split("drl train --json 2> log | jq .x") == (["train", "--json", "2"], "log")
    assert documented.split("drl train -s 'a=[1, 2]' > out.jsonl || exit") == (["train", "-s", "a=[1, 2]"], "out.jsonl")
