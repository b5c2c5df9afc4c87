"""What the pages point at is there: files, labels, pictures, tuned files, make targets; addresses outside are well formed."""

import re

import documented
import pytest

from drl_cli.experiments.tuned_files import shipped

ROOT = documented.ROOT
FOLDERS = ("docs", "tests", "benchmarks", "tuned_examples", "drl_cli")
ROOMS = tuple(path.name for path in (ROOT / "drl_cli").iterdir() if path.is_dir())
PICTURE = re.compile(r"\.\. (?:image|figure|literalinclude):: +(\S+)")
ROLE = re.compile(r":(doc|ref):`([^`]+)`")
ADDRESS = re.compile(r"https?://[^\s`<>)\]'\"]+")
LABEL = re.compile(r"^\.\. _([^:]+):$", re.MULTILINE)
every_page = pytest.mark.parametrize("page", documented.pages(), ids=documented.name_of)


def text_of(page):
    return page.read_text(encoding="utf-8")


def missing_paths(literals):
    """Return the literals that look like paths of this repository and are none."""
    wrong = []
    for literal in literals:
        for word in re.findall(r"[\w./*<>-]+", literal):
            word = re.sub(r"<.*?>", "*", word)
            first, slash, _ = word.partition("/")
            if not slash or word.startswith(("/", "-", ".")) or first not in (*FOLDERS, *ROOMS):
                continue
            home = ROOT if first in FOLDERS else ROOT / "drl_cli"
            if not any(home.glob(word.rstrip("/."))):
                wrong.append(word)
    return wrong


@every_page
def test_files_that_are_named_exist(page):
    assert missing_paths(documented.literals(text_of(page))) == []


@every_page
def test_pictures_and_included_files_exist(page):
    made = ("reference/rooms.svg", "reference/rooms.rst")  # by docs/make_architecture.py, at each build
    named = [name for name in PICTURE.findall(text_of(page)) if name not in made]
    assert [name for name in named if not (page.parent / name).is_file()] == []


@every_page
def test_tuned_files_that_are_named_exist(page):
    named = re.findall(r"(?:-f|example run|example show) ([a-z][a-z0-9-]+)(?![\w.-])", text_of(page))
    assert [name for name in named if name not in shipped() and name != "and"] == []


@every_page
def test_make_targets_and_scripts_exist(page):
    lines = [line for block in documented.blocks(text_of(page)) for line in documented.typed_lines(block.text)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert [line for line in lines if line.startswith("make ") and line.split()[1] not in targets] == []
    scripts = [line.split()[1] for line in lines if re.match(r"python3? (docs|benchmarks)/", line)]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


@every_page
def test_addresses_are_well_formed(page):
    found = ADDRESS.findall(text_of(page))
    assert [
        one for one in found if not re.fullmatch(r"https://[a-z0-9.-]+\.[a-z]{2,}(:\d+)?(/[\w./#?=&%+~-]*)?", one)
    ] == []


@every_page
def test_tests_that_are_named_exist(page):
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", text_of(page))
    assert [name for file, name in named if f"def {name}(" not in text_of(ROOT / file)] == []


def test_each_answer_to_what_happens_when_names_the_test_that_shows_it():
    paragraphs = re.split(r"\n\s*\n", text_of(ROOT / "docs" / "what_happens_when.rst"))
    answers = [" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.startswith("*")]
    assert len(answers) > 20
    assert [answer for answer in answers if not re.search(r"``tests/[\w/]+\.py::test_\w+``", answer)] == []


def test_readme_points_at_nothing_that_only_sphinx_knows():
    assert ROLE.findall(text_of(ROOT / "README.rst")) == []


def test_readme_fits_on_two_screens():
    assert len(text_of(ROOT / "README.rst").splitlines()) <= 200


def test_figures_of_the_readme_stand_in_the_measured_tables():
    rows = re.findall(r"^(?:``-f )?([a-z]+-[a-z0-9-]+)[`, ].*$", text_of(ROOT / "README.rst"), re.MULTILINE)
    assert [name for name in rows if name not in text_of(ROOT / "docs" / "measured.rst")] == []


@pytest.mark.parametrize(
    ("literal", "wrong"),
    [
        ("docs/architecture.rst", []),
        ("docs/no.rst", ["docs/no.rst"]),
        ("runtime/loops", []),
        ("a/b", []),
        ("cli/no.py", ["cli/no.py"]),
    ],
)
def test_path_is_looked_for_where_it_seems_to_be(literal, wrong):
    assert missing_paths([literal]) == wrong
