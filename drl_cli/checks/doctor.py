"""Whether this machine has what a run needs: a list of independent probes. User: ``drl doctor``.

Imports nothing but the standard library and light rooms, so that it runs where half of what it looks for is broken.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drl_cli.checks import library_probes, machine_probes, mount_probes, package_versions
from drl_cli.checks.findings import FAIL, NOTE, Finding

SIDE_BY_SIDE = 2  # heavy imports at once


def examine(
    results_folder: Path, quick: bool = False, progress: Callable[[str], object] = lambda what: None
) -> list[Finding]:
    """Return all Findings. ``results_folder``: where runs go. ``quick``: without loading heavy libraries.

    ``progress(name)`` is called before something that takes a while.
    """
    findings = []
    for name, probe in (
        ("Python", machine_probes.python),
        ("packages", package_versions.probe),
        ("CPU", machine_probes.processors),
        ("memory", machine_probes.memory),
        ("/dev/shm", machine_probes.shared_memory),
        ("limits", machine_probes.limits),
        ("sizes", machine_probes.sizes),
        ("BLAS", machine_probes.threads),
        ("results", lambda: machine_probes.results(results_folder)),
        ("temporary", machine_probes.temporary),
        ("disks", lambda: mount_probes.disks(results_folder)),
        ("Ray's processes", lambda: [machine_probes.processes()]),
        ("Ray's folders", lambda: [machine_probes.sessions()]),
    ):
        findings += isolated(name, probe)
    if not quick:
        findings += _libraries(progress)
    return findings


def isolated(name: str, probe: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what ``probe()`` finds; a probe that breaks is a finding itself."""
    try:
        return probe()
    except Exception as error:  # whatever half a system raises
        return [
            Finding(name, FAIL, f"could not be checked: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
        ]


def _libraries(progress: Callable[[str], object]) -> list[Finding]:
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        calls = [(trial, pool.submit(library_probes.attempt, trial)) for trial in library_probes.PROBES]
        findings = []
        for trial, call in calls:
            progress(trial.name)
            findings += isolated(trial.name, lambda call=call: [call.result()[0]])
        for trial, call in calls:
            if trial.name == "TensorFlow":
                findings += isolated("GPU", lambda call=call: _gpu(call.result()[1]))
    return findings


def _gpu(answer: Mapping[str, Any] | None, driver: Path = Path("/proc/driver/nvidia/version")) -> list[Finding]:
    """Return a Finding where there is a GPU that TensorFlow does not see."""
    if answer is None or answer.get("gpus") or not driver.exists():
        return []
    text = "there is an NVIDIA GPU that TensorFlow does not use"
    return [Finding("GPU", NOTE, text, "pip install 'drl-cli[gpu]'")]


def results_folder() -> Path:
    """Return where results go; what the program itself uses, or plainly the home folder where that is broken."""
    try:
        from drl_cli.runs import run_folder

        return run_folder.results_folder()
    except Exception:  # NumPy is missing, for example, which another finding reports
        return Path("~/ray_results").expanduser()
