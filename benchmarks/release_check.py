"""What is checked before a release: builds that repeat, the bill of materials, the licences of all dependencies, known holes.

    python benchmarks/release_check.py            # make release-check
    python benchmarks/release_check.py --licences # only the table of licences
    python benchmarks/release_check.py --lock .ci/requirements.txt  # make lock: the versions that pip would install today

Builds the wheel twice, in folders of their own, of what git tracks, and compares them byte for byte; lists what the installed
``drl-cli`` depends on, directly and not, with version and licence; runs pip-audit on it where that is installed. Exits with 1
where builds differ, a licence is not known, or pip-audit names a vulnerability. Sources: PEP 770; reproducible-builds.org on
SOURCE_DATE_EPOCH.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys; from setuptools import build_meta as b; print(b.build_wheel(sys.argv[1]))"
ANSWERED = {"namex": "Apache-2.0"}  # what the licence file says where the metadata is silent
EPOCH = "1735689600"  # 2025-01-01: the time of every file in a wheel


def wheel(folder: Path) -> Path:
    """Build a wheel of what git tracks, in the new ``folder``; returns its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    source = folder / "source"
    for name in listed.split("\0")[:-1]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    words = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(words, cwd=source, env=environ, capture_output=True, text=True, check=True)
    return folder / done.stdout.splitlines()[-1]


def repeated() -> tuple[str, dict[str, Any]]:
    """Build twice; returns (SHA-256 of both wheels, their bill of materials). SystemExit where they differ."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        built = [wheel(Path(folder)) for folder in (one, other)]
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in built]
        if hashes[0] != hashes[1]:
            raise SystemExit(f"two builds differ: {hashes}")
        with zipfile.ZipFile(built[0]) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/sboms/drl-cli.cdx.json")]
            return hashes[0], json.loads(archive.read(name))


def lock(path: Path) -> int:
    """Write what pip would install here for tests and pages, each with its version and SHA-256; returns how many."""
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
        ".[test]",
    ]
    report = json.loads(subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    lines = []
    for one in report["install"]:
        about, hashes = one["metadata"], one["download_info"].get("archive_info", {}).get("hashes")
        if hashes:  # all but this package itself
            lines.append(f"{about['name'].lower()}=={about['version']} --hash=sha256:{hashes['sha256']}\n")
    where = f"Python {report['environment']['python_version']}, {report['environment']['platform_machine']}"
    path.write_text(f"# Made by make lock, for {where}. Used with make test LOCK={path}\n" + "".join(sorted(lines)))
    return len(lines)


def closure(name: str = "drl-cli") -> dict[str, importlib.metadata.Distribution]:
    """Return {name: distribution} of all that ``name`` needs here, directly or not, extras left out."""
    found, waiting = {}, [name]
    while waiting:
        try:
            one = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # another platform's, or replaced by another package
        key = re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
        if key in found:
            continue
        found[key] = one
        for requirement in map(Requirement, one.requires or ()):
            extras = ("", "rllib") if requirement.marker and key == "ray" else ("",)
            if not requirement.marker or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def licence(one: importlib.metadata.Distribution) -> str:
    """Return the licence of a distribution as its metadata says it, an empty string where that is silent."""
    said = next(iter(one.metadata.get_all("License-Expression") or ()), "")
    classes = [
        text.split(" :: ")[-1] for text in one.metadata.get_all("Classifier") or () if text.startswith("License")
    ]
    short = next(iter(one.metadata.get_all("License") or ()), "").strip().splitlines()
    return said or ", ".join(classes) or (short[0][:60] if short else ANSWERED.get(one.metadata["Name"], ""))


def main() -> int:
    """Check what the options ask for, and print it."""
    parser = argparse.ArgumentParser(description="What is checked before a release; see the head of this file.")
    parser.add_argument("--licences", action="store_true", help="only the table of licences")
    parser.add_argument("--lock", type=Path, help="write this file of versions and hashes, and check nothing")
    options = parser.parse_args()
    if options.lock:
        print(f"{options.lock}: {lock(options.lock)} packages")
        return 0
    found = closure()
    rows = [(name, one.version, licence(one)) for name, one in found.items()]
    for row in rows:
        print(f"{row[0]:32}{row[1]:20}{row[2] or 'UNKNOWN'}")
    unknown = [name for name, _, said in rows if not said]
    print(f"{len(rows)} packages; without a licence in their metadata: {', '.join(unknown) or 'none'}")
    if options.licences:
        return 0
    sha256, bill = repeated()
    print(f"two builds are equal: SHA-256 {sha256}")
    print(f"bill of materials: {len(bill['components'])} requirements")
    audit = shutil.which("pip-audit", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if audit is None:
        print("pip-audit is not installed, so nothing was asked for known vulnerabilities: pip install pip-audit")
        return int(bool(unknown))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(f"{name}=={version}\n" for name, version, _ in rows if name != "drl-cli")
        file.flush()
        code = subprocess.run([audit, "--no-deps", "--disable-pip", "--strict", "-r", file.name]).returncode
    return int(bool(code or unknown))


if __name__ == "__main__":
    sys.exit(main())
