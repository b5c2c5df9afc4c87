"""The reference is whole: every command, option, exit code, algorithm, key, tuned file and result field; the pages build."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import click
import documented
import pytest

from drl_cli.algorithms import table
from drl_cli.cli import drl, endings
from drl_cli.config.key_description import leaves
from drl_cli.config.result_names import RESULT_FIELDS
from drl_cli.experiments import tuned_files
from drl_cli.experiments.tuned_files import shipped
from drl_cli.extras import load

pytestmark = pytest.mark.process

ROOT = documented.ROOT
SHORT = {
    "lander-c": "lunarlander-continuous",
    "lander": "lunarlander",
    "pole": "cartpole",
    "car": "mountaincar-continuous",
}
SHORT |= {"walker": "bipedalwalker", "pendulum": "pendulum", "acrobot": "acrobot"}
SHORT |= {"pole-pomdp": "stateless-cartpole", "two-step-game": "two-step-game"}
SHORT |= {"pendulum-pomdp": "stateless-pendulum"}
SHORT |= {
    "cheetah": "halfcheetah",
    "mujoco-walker": "walker2d",
    "pusher": "pusher",
    "reacher": "reacher",
    "hopper": "hopper",
    "humanoid": "humanoid",
    "ant": "ant",
}
SHORT |= {"simple-spread": "simple-spread", "foraging": "foraging-8x8-2p-2f-coop"}
SHORT |= {"speaker-listener": "simple-speaker-listener"}
"""How the README calls environments."""


def load_docs(name):
    """Return docs/<name>.py as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made():
    """{name of a page: its text} of the generated reference."""
    return load_docs("make_reference").pages()


def commands(command=drl, words=("drl",)):
    """Yield (words, command) for everything that can be typed."""
    yield words, command
    for name in getattr(command, "table", ()):
        yield from commands(command.get_command(None, name), (*words, name))


COMMANDS = [pytest.param(words, command, id=" ".join(words)) for words, command in commands() if len(words) > 1]


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_command_is_told_with_every_option(words, command, made):
    page = made["commands.rst"]
    start = page.index(f".. _{'-'.join(words)}:")
    section = page[start:].split("\n.. _")[0]
    assert f"\n{' '.join(words)}\n---" in section
    shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    told = {
        name
        for literal in documented.literals(page.split("Exit codes")[0] + section)
        for name in re.split(r"[ ,/]+", literal)
    }
    assert [name for option in shown for name in option.opts if name not in told] == []


def test_exit_codes_are_told(made):
    listed = re.findall(r"    \* - (\d+)\n      - (.+)", made["commands.rst"])
    assert {int(code): text for code, text in listed} == endings.EXIT_CODES


@pytest.mark.parametrize("row", table.built_in(), ids=lambda row: row.name)
def test_algorithm_is_told_with_every_key(row, made):
    told = re.findall(r"^``(\S+)`` = ``", made[f"algorithms/{row.name}.rst"], re.MULTILINE)
    assert sorted(told) == sorted(".".join(path) for path, _ in leaves(load(row.config)))
    assert f":ref:`{row.name} <algorithm-{row.name}>`" in made["algorithms/index.rst"]


def test_tuned_files_are_told(made):
    assert re.findall(r"^([a-z][a-z0-9-]+)\n-+$", made["tuned.rst"], re.MULTILINE) == list(shipped())


def test_result_fields_are_told():
    told = set(documented.literals((ROOT / "docs" / "files.rst").read_text(encoding="utf-8")))
    assert [field for field in RESULT_FIELDS if field not in told and field.rpartition("/")[2] not in told] == []


def test_figures_in_measured_tables_are_those_of_the_files():
    text = (ROOT / "docs" / "measured.rst").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^([a-z]+-[a-z0-9-]+) +(-?\d+  +[\d.]+  +[\d.]+) ", text, re.MULTILINE))
    known = {one.name: (one.median_s, one.worst_s) for one in tuned_files.every()}
    figures = {name: tuple(map(float, cells.split()[1:])) for name, cells in rows.items()}
    assert len(figures) >= 40
    assert {name: known[name] for name in figures} == figures


def test_figures_in_the_table_of_algorithms_are_those_of_the_files():
    text = (ROOT / "README.rst").read_text(encoding="utf-8")
    table_of_algorithms = text[text.index("\n--run ") : text.index("*any* means")]
    figures, name = {}, ""
    for line in table_of_algorithms.splitlines()[2:]:
        name = line[:11].strip().lower().replace("_", "-") or name
        figures |= {(name, short): float(seconds) for short, seconds in re.findall(r"([a-z-]+) (\d+\.\d)", line[86:])}
    known = {one.name: one.median_s for one in tuned_files.every()}
    assert len(figures) >= 40
    assert {(name, short): known.get(f"{SHORT[short]}-{name}") for name, short in figures} == figures


needs_sphinx = pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None, reason="Sphinx is not installed: pip install '.[docs]'"
)


@needs_sphinx
def test_pages_build_without_a_warning_and_show_no_error(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("reference"))
    for name in ("drl_cli", "tuned_examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *["-W", "--keep-going", "-q", "-b", "html"],
        tmp_path / "docs",
        tmp_path / "made",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert "drl train" in (tmp_path / "made" / "reference" / "commands.html").read_text(encoding="utf-8")


@needs_sphinx
def test_build_with_an_error_box_in_a_page_fails(tmp_path):
    """The theme paints one over a table of contents of the page's own, without a warning."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("conf.py", "error_boxes.py", "make_architecture.py", "make_reference.py"):
        shutil.copy(ROOT / "docs" / name, docs)
    (docs / "_static").symlink_to(ROOT / "docs" / "_static")
    (tmp_path / "drl_cli").symlink_to(ROOT / "drl_cli")
    (tmp_path / "tuned_examples").symlink_to(ROOT / "tuned_examples")
    (docs / "index.rst").write_text("A page\n======\n\n.. contents::\n\nPart\n----\n\nText.\n", encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-D", "exclude_patterns=reference"]
    command += [docs, tmp_path / "made"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}  # for the log that Sphinx writes when it fails
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environ)
    assert done.returncode != 0
    assert "index.html shows an error box: a table of contents inside the page" in done.stderr


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<aside class="system-message">x</aside>', ["what docutils could not read"]),
        (
            '<a href="#id1"><span class="problematic" id="id2">x</span></a>',
            ["a reference or role that could not be resolved"],
        ),
        ('<nav class="contents local" id="contents">', ["a table of contents inside the page"]),
        ('<nav class="contents this-will-duplicate-information-and-it-is-still-useful-here">', []),
        ("<p>class system-message is what docutils calls it</p>", []),
    ],
)
def test_error_box_is_found_in_a_page(html, found):
    assert load_docs("error_boxes").complaints(html) == found


def test_readme_is_read_without_a_warning(tmp_path):
    """As a package index shows it: plain docutils, which knows no role or directive of Sphinx."""
    core = pytest.importorskip("docutils.core")
    heard = tmp_path / "warnings"
    with open(heard, "w", encoding="utf-8") as stream:
        settings = {"report_level": 1, "warning_stream": stream, "syntax_highlight": "none"}
        core.publish_doctree((ROOT / "README.rst").read_text(encoding="utf-8"), settings_overrides=settings)
    assert heard.read_text(encoding="utf-8") == ""
