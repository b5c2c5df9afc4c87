"""A wheel and an sdist, each made and installed: ``drl`` runs from what is installed, and finds the files that it brings.

The heavy libraries are those of the interpreter that runs the tests; what is looked at is what the packages of ours hold.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from drl_cli import version

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"
pytestmark = pytest.mark.slow


def run(*words, cwd):
    """Run a command in the folder ``cwd``, its home, where it sees nothing of this checkout but what it is given."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HOME": str(cwd)}
    words = [str(word) for word in words]
    return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300)


def tracked(*folders):
    """Return the files in ``folders`` (none: in all) that git tracks and that are there, relative to the checkout."""
    listed = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0")[:-1] if (ROOT / name).is_file()]


def build(kind, source, out):
    """Make a "wheel" or "sdist" of ``source`` in ``out``; returns its path."""
    code = f"import sys; from setuptools import build_meta as b; print(b.build_{kind}(sys.argv[1]))"
    done = run(sys.executable, "-c", code, out, cwd=source)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The path of an sdist of what git tracks."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    return build("sdist", source, out)


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory):
    """The folder of the unpacked sdist."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (made,) = folder.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(unpacked, tmp_path_factory):
    """The path of a wheel that was made from the sdist."""
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(request, tmp_path_factory):
    """The folder ``bin`` of a fresh virtual environment with the package, and libraries from here."""
    place = tmp_path_factory.mktemp("venv")
    assert run(sys.executable, "-m", "venv", place, cwd=place).returncode == 0
    site = next((place / "lib").glob("python*")) / "site-packages"
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    package = request.getfixturevalue(request.param)
    pip = [place / "bin" / "pip", "install", "--no-deps", "--no-index", "--no-build-isolation", package]
    done = run(*pip, cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "bin"


def test_sdist_holds_what_building_testing_and_reading_need(unpacked):
    for name in (
        "README.rst",
        "LICENSE",
        "Makefile",
        "setup.cfg",
        "tuned_examples/cartpole-ppo.yaml",
        "docs/index.rst",
    ):
        assert (unpacked / name).is_file(), name
    held = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    wanted = tracked("drl_cli", "docs", "tests", "benchmarks", "tuned_examples")
    assert set(wanted) - held == set()
    assert [name for name in held if name.endswith(".pyc") or name.startswith("docs/reference")] == []


def test_two_builds_are_equal_byte_for_byte_and_bring_their_bill_of_materials():
    spec = importlib.util.spec_from_file_location("release_check", ROOT / "benchmarks" / "release_check.py")
    release_check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release_check)
    _, bill = release_check.repeated()  # raises where they differ
    listed = {part["name"]: part["properties"][0]["value"] for part in bill["components"]}
    assert (bill["bomFormat"], bill["specVersion"], len(listed)) == ("CycloneDX", "1.6", 16)
    assert listed["ray"].startswith("ray[rllib]") and bill["metadata"]["component"]["version"] == version.__version__


def test_wheel_holds_the_program_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked_files = tracked("drl_cli", "tuned_examples")  # modules, stubs, py.typed, published.json, tuned files
    assert names == {name if name.startswith("drl_cli/") else f"drl_cli/{name}" for name in tracked_files}


def test_drl_runs_from_what_is_installed(installed, tmp_path):
    where = run(installed / "python", "-c", "import drl_cli; print(drl_cli.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(installed.parent))
    told = json.loads(run(installed / "drl", "example", "list", "--json", cwd=tmp_path).stdout)
    assert len(told["examples"]) == len(list((ROOT / "tuned_examples").glob("*.yaml")))
    words = [
        "train",
        "-f",
        "cartpole-ppo",
        "-s",
        "num_workers=0",
        "--stop",
        "training_iteration=2",
        "--local-dir",
        tmp_path,
    ]
    done = run(installed / "drl", *words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = json.loads(done.stdout.splitlines()[-1])["finished"]["run"]
    compared = run(installed / "drl", "compare", folder, "--score", "training", "--against", "published", cwd=tmp_path)
    assert (compared.returncode, "CleanRL" in compared.stdout) == (0, True), compared.stderr


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs_with_what_is_installed(example, installed, tmp_path):
    shutil.copy(example, tmp_path)
    done = run(installed / "python", example.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
