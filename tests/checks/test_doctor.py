"""The doctor's probes on machines made up for them, and that none can hurt another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from drl_cli.checks import doctor, library_probes, machine_probes, package_versions
from drl_cli.checks.findings import Finding
from drl_cli.runtime import machine

pytestmark = pytest.mark.process

GB = 2**30


def states(found):
    return [one.state for one in found]


@pytest.mark.parametrize(
    ("version", "specifier", "does"),
    [
        ("2.60.0", ">=2.59.1,<2.61", True),
        ("2.61.0", ">=2.59.1,<2.61", False),
        ("2.59", ">=2.59.1,<2.61", False),
        ("2.21.0rc1", ">=2.16,<2.22", True),
        ("3.14.0", ">=3.10,<3.14", False),
        ("1.0", "", True),
        ("1.0", "~=1.0", True),
    ],
)
def test_version_is_compared_with_its_window(version, specifier, does):
    assert package_versions.fits(version, specifier) is does


def test_what_is_needed_is_read_from_the_programs_own_metadata():
    needed = package_versions.needed()
    assert needed["ray"].replace(" ", "") == ">=2.59.1,<2.61" and "click" in needed and "pytest" not in needed


def test_missing_and_odd_packages_are_told_with_the_command(monkeypatch):
    monkeypatch.setattr(package_versions, "needed", lambda: {"ray": ">=2.59.1,<2.61", "click": ">=8", "lz4": ">=4"})
    monkeypatch.setattr(package_versions, "installed", {"ray": "2.70.0", "click": "8.1"}.get)
    found = {one.what: one for one in package_versions.probe()}
    assert found["ray"].state == "warn" and found["ray"].mend == "pip install 'ray[rllib]>=2.59.1,<2.61'"
    assert found["lz4"].state == "fail" and found["lz4"].mend == "pip install 'lz4>=4'"
    assert found["packages"].text == "click 8.1"


@pytest.mark.parametrize(
    ("there", "state"), [(("pygame-ce",), "ok"), (("pygame",), "ok"), (("pygame", "pygame-ce"), "warn"), ((), "fail")]
)
def test_pygame_and_pygame_ce_damage_each_other_and_either_will_do(monkeypatch, there, state):
    monkeypatch.setattr(package_versions, "needed", lambda: {"pygame-ce": ">=2.3"})
    monkeypatch.setattr(package_versions, "installed", dict.fromkeys(there, "2.6.1").get)
    found = [one for one in package_versions.probe() if one.what not in package_versions.OPTIONAL]
    assert [one.state for one in found] == [state]
    if state == "warn":
        assert found[0].mend == "pip uninstall -y pygame pygame-ce; pip install 'pygame-ce>=2.3'"


def test_quota_below_the_cores_is_a_warning(monkeypatch):
    monkeypatch.setattr(machine, "cores", lambda: 8)
    monkeypatch.setattr(machine, "cpu_quota", lambda: 1.5)
    (found,) = machine_probes.processors()
    assert (found.state, "1.5" in found.text) == ("warn", True)


@pytest.mark.parametrize(("free", "state"), [(1 * GB, "fail"), (2 * GB, "warn"), (8 * GB, "ok")])
def test_memory_is_judged_by_what_is_free(monkeypatch, free, state):
    monkeypatch.setattr(machine, "memory_free", lambda: free)
    assert states(machine_probes.memory()) == [state]


@pytest.mark.parametrize(
    ("sizes", "state"), [((None, None), "warn"), ((64 * 2**20, 64 * 2**20), "warn"), ((GB, GB), "ok")]
)
def test_shared_memory_is_judged(monkeypatch, sizes, state):
    monkeypatch.setattr(machine, "shared_memory", lambda: sizes)
    assert states(machine_probes.shared_memory()) == [state]


@pytest.mark.parametrize(
    ("limits", "state", "mend"),
    [
        ((256, 4096), "fail", "ulimit -n 4096"),
        ((1024, 2**20), "warn", "ulimit -n 65536"),
        ((1024, 1024), "warn", "docker run --ulimit nofile=65536 …"),
        ((65536, 65536), "ok", None),
    ],
)
def test_open_files_are_judged_with_the_command_that_can_help(monkeypatch, limits, state, mend):
    monkeypatch.setattr(machine, "open_files", lambda: limits)
    monkeypatch.setattr(machine, "process_limit", lambda: None)
    (found,) = machine_probes.limits()
    assert (found.state, found.mend) == (state, mend)


@pytest.mark.parametrize(
    ("file", "space", "expected"),
    [
        (None, None, []),
        (2**20, None, [("file size", "fail")]),
        (2**32, GB, [("file size", "warn"), ("address space", "fail")]),
    ],
)
def test_limits_of_sizes_are_judged_where_there_are_any(monkeypatch, file, space, expected):
    monkeypatch.setattr(machine, "file_size_limit", lambda: file)
    monkeypatch.setattr(machine, "address_space_limit", lambda: space)
    assert [(one.what, one.state) for one in machine_probes.sizes()] == expected


def test_threads_that_the_user_set_are_told():
    (found,) = machine_probes.threads({"OMP_NUM_THREADS": "8", "MKL_NUM_THREADS": "1"})
    assert (found.state, found.mend) == ("warn", "unset OMP_NUM_THREADS")
    assert states(machine_probes.threads({})) == ["ok"]


def test_results_folder_that_cannot_be_made_fails(tmp_path):
    (tmp_path / "file").write_text("")
    found = machine_probes.results(tmp_path / "file" / "results")
    assert found[-1].state == "fail" and found[-1].mend == "export TUNE_RESULT_DIR=/another/folder"
    assert machine_probes.results(tmp_path / "new")[-1].state in ("ok", "warn")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def denied(_path, exist_ok):
    raise PermissionError(13, "Permission denied")


def test_folder_that_is_missing_is_to_be_made_and_one_that_is_closed_to_be_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    assert machine_probes.results(tmp_path)[0].mend == f"mkdir -p {tmp_path}/nowhere"
    (tmp_path / "nowhere").mkdir()
    monkeypatch.setattr(machine_probes.os, "access", lambda path, mode: False)
    monkeypatch.setattr(machine_probes.Path, "touch", denied)
    assert machine_probes.results(tmp_path)[0].mend == f"chmod u+w {tmp_path}/nowhere"


def process(proc, number, words, parent):
    folder = proc / str(number)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in words))
    (folder / "stat").write_text(f"{number} (some (name)) S {parent} 0 0\n")


def test_daemons_of_ray_without_a_parent_are_told(tmp_path):
    process(tmp_path, 10, ["/x/ray/core/src/ray/raylet/raylet", "--a"], 1)
    process(tmp_path, 11, ["/x/gcs_server"], 1)
    process(tmp_path, 12, ["/x/raylet"], 500)
    process(tmp_path, 13, ["vim", "raylet"], 1)
    found = machine_probes.processes(tmp_path, os.getuid())
    assert (found.state, found.mend) == ("warn", "kill 10 11")


def test_daemons_of_runs_that_go_on_are_none_left_over(tmp_path):
    process(tmp_path, 12, ["/x/raylet"], 500)
    assert machine_probes.processes(tmp_path, os.getuid()) == Finding(
        "Ray's processes", "ok", "1 running, of active runs"
    )


def test_large_sessions_are_told(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "log").write_bytes(b"x" * 1000)
    monkeypatch.setattr(machine_probes, "MANY_BYTES", 900)
    assert machine_probes.sessions([tmp_path]).mend == f"rm -r {tmp_path}/*"
    assert machine_probes.sessions([tmp_path / "none"]).state == "ok"


def test_probe_that_breaks_is_a_finding_and_the_others_go_on():
    def broken():
        raise OSError("no /proc here")

    (found,) = doctor.isolated("memory", broken)
    assert (found.what, found.state) == ("memory", "fail") and "OSError: no /proc here" in found.text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import json; print('chatter'); print(json.dumps({'text': 'fine'}))", "fine"),
        ("raise ImportError('libx.so: cannot open')", "cannot be used: exit code 1: ImportError: libx.so: cannot open"),
        ("import os; os.kill(os.getpid(), 11)", "cannot be used: killed by SIGSEGV"),
        ("import time; time.sleep(60)", "cannot be used: no answer within 2 s"),
        ("import no_such_package.sub", "cannot be used: the package no_such_package is missing"),
    ],
)
def test_library_is_tried_in_a_process_that_may_crash_or_hang(code, text):
    limit_s = 2.0 if "sleep" in code else 60.0  # a busy machine takes its time to start Python
    found, _ = library_probes.attempt(library_probes.LibraryProbe("x", code, "pip install x", limit_s=limit_s))
    assert found.text == text
    assert (found.state, found.mend) == (("ok", None) if text == "fine" else ("fail", "pip install x"))


def test_optional_library_that_breaks_is_only_a_note():
    found, _ = library_probes.attempt(
        library_probes.LibraryProbe("x", "raise OSError('no')", "cure", is_needed=False, limit_s=20.0)
    )
    assert found.state == "note"


def test_gpu_without_tensorflow_seeing_it_is_a_note(tmp_path):
    (tmp_path / "version").write_text("NVRM")
    assert states(doctor._gpu({"gpus": 0}, tmp_path / "version")) == ["note"]
    assert doctor._gpu({"gpus": 1}, tmp_path / "version") == []
    assert doctor._gpu({"gpus": 0}, tmp_path / "none") == []


def test_doctor_runs_where_half_of_everything_is_broken(tmp_path):
    for name in ("tensorflow", "ray", "pydantic", "rich", "numpy", "gymnasium", "yaml", "Box2D", "imageio_ffmpeg"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('{name} is broken')")
    root = str(Path(__file__).resolve().parents[2])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([root, str(tmp_path)]), "COLUMNS": "100"}
    words = [sys.executable, "-m", "drl_cli", "doctor", "-q"]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, timeout=120)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    for name in ("TensorFlow", "Ray", "gymnasium", "Box2D", "files"):
        assert f"fail  {name}" in done.stdout
    assert "RuntimeError: tensorflow is broken" in done.stdout or "RuntimeError: numpy is broken" in done.stdout
