"""Fixtures that tests of several rooms share: a run folder with checkpoints of a small real policy for Pendulum-v1."""

# ruff: noqa: E402 - thread counts and TensorFlow's variables only count before NumPy and TensorFlow are imported
import os

from drl_cli import events, process

process.prepare()
process.prepare_ray()  # whichever test imports Ray first
os.environ.setdefault(process.ONEDNN, "0")  # whichever test loads TensorFlow first

import gc
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import surroundings
from plain_policy import POLICY

from drl_cli.extras import load

SPACES = {
    "obs": {"shape": [3], "dtype": "float32", "low": [-1.0, -1.0, -8.0], "high": [1.0, 1.0, 8.0]},
    "action": {"shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]},
}
SHAPES = {
    "policy/dense_0/kernel": (3, 4),
    "policy/dense_0/bias": (4,),
    "policy/mean/kernel": (4, 1),
    "policy/mean/bias": (1,),
    "policy/log_std/kernel": (4, 1),
    "policy/log_std/bias": (1,),
}


HEAVY = ("tensorflow", "ray")
LONGEST = ("ray", "learning", "process", "tensorflow")
_WHOLE_FILE = re.compile(r"^pytestmark = .*mark\.(tensorflow|ray|learning|process)\b", re.M)


class _Refusal:
    """Stands first among the importers of ``make check`` and refuses the libraries that its tests do without."""

    def find_spec(self, name, path=None, target=None):
        """Raise for a heavy library; every other module is left to the importers after this one."""
        if name.split(".")[0] in HEAVY:
            pytest.fail(f"imports {name}: mark this test with {name.split('.')[0]}, so that make check leaves it out")


def pytest_addoption(parser):
    """``--light``: what ``make check`` runs."""
    parser.addoption("--light", action="store_true", help="only tests that import neither TensorFlow nor Ray")


def pytest_configure(config):
    """Refuse TensorFlow and Ray from the first import of a test on."""
    if config.getoption("light"):
        sys.meta_path.insert(0, _Refusal())


def pytest_ignore_collect(collection_path, config):
    """Leave out, unread, the files that say at their top that all of their tests need what ``--light`` refuses."""
    if config.getoption("light") and collection_path.suffix == ".py":
        return bool(_WHOLE_FILE.search(collection_path.read_text(encoding="utf-8"))) or None
    return None


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory):
    """A home of this session's own, and no variable of the user's; fixtures that several tests share see these."""
    with pytest.MonkeyPatch.context() as patch:
        surroundings.settle(patch, tmp_path_factory.mktemp("session"))
        surroundings.hear_signals()
        yield tmp_path_factory.mktemp("tests")


@pytest.fixture(autouse=True)
def own_place(own_surroundings, monkeypatch):
    """A home and a current folder of each test's own."""
    surroundings.settle_test(monkeypatch, own_surroundings)


def _slow_cases():
    """Return {test or file: the cases that only make test-slow runs} from ``slow_cases.txt``."""
    found, cases = {}, set()
    for line in (Path(__file__).parent / "slow_cases.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            cases.add(line[4:])
        elif not line.startswith("#"):
            cases = found.setdefault(line, set())
    return found


def _mark_slow_cases(items):
    listed, found = _slow_cases(), {}
    for item in items:
        test, _, case = item.nodeid.partition("[")
        for heading in (test, test.partition("::")[0]):
            if heading in listed:
                found.setdefault(heading, set()).add(case[:-1])
                if case[:-1] in listed[heading]:
                    item.add_marker(pytest.mark.slow)
    for heading, cases in found.items():
        if len(cases) > 1 and not listed[heading] <= cases:  # one case alone was asked for by its id
            raise pytest.UsageError(f"slow_cases.txt: {heading} has no case {sorted(listed[heading] - cases)[0]!r}")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Keep the tests of a file together, and all tests that start Ray, where pytest runs in several processes.

    What takes longest begins first, so that no process idles at the end.
    """
    _mark_slow_cases(items)
    groups, ranks = {}, {}
    for item in items:
        groups[item] = group = "ray" if item.get_closest_marker("ray") else item.location[0]
        item.add_marker(pytest.mark.xdist_group(group))
        rank = next((number for number, mark in enumerate(LONGEST) if item.get_closest_marker(mark)), len(LONGEST))
        ranks[group] = min(rank, ranks.get(group, rank))
    items.sort(key=lambda item: ranks[groups[item]])


def pytest_collection_finish():
    """Leave modules and tests out of the search for garbage: of 19.7 s of graph tests it took 2.2 s, and now 0.6 s."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    """Refuse to go on where pytest-xdist does not group: it says nothing itself (its issue 1386, with pytest 9.2)."""
    if node.config.getoption("dist") == "loadgroup" and not all("@" in nodeid for nodeid in ids):
        text = "groups of tests are scattered: install pytest<9.2, or see what pytest --collect-only says"
        pytest.exit(text, returncode=4)


@pytest.fixture
def heard():
    """Every event reported during the test, as (kind, fields)."""
    found = []
    unsubscribe = events.subscribe(lambda kind, fields: found.append((kind, fields)))
    yield found
    unsubscribe()


def write_pendulum_checkpoint(run_folder, number, **facts):
    """Write a checkpoint of a fixed policy into ``run_folder`` and return its path; ``facts`` replaces facts."""
    checkpoint = load("drl_cli.checkpoints")
    rng = np.random.default_rng(number)
    weights = {f"default_policy/{name}": rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in SHAPES.items()}
    with checkpoint.Writer(run_folder, number) as writer:
        checkpoint.write_arrays(writer.folder / "weights.safetensors", weights)
        checkpoint.write_json(writer.folder / "state.json", {})
        return writer.commit(
            {
                "algorithm": "SAC",
                "env": "Pendulum-v1",
                "env_asked": "Pendulum-v1",
                "env_config": {},
                "horizon": None,
                "spaces": SPACES,
                "policies": {"default_policy": POLICY},
                "counters": {"training_iteration": number, "timesteps_total": 1000 * number},
                **facts,
            }
        )


@pytest.fixture
def pendulum_run(tmp_path):
    """A run folder with checkpoints 10 (the best) and 20 of Pendulum-v1."""
    run = tmp_path / "SAC_Pendulum-v1_0000"
    run.mkdir()
    best = write_pendulum_checkpoint(run, 10)
    write_pendulum_checkpoint(run, 20)
    (run / "best.json").write_text(json.dumps({"checkpoint": best.name}), encoding="utf-8")
    return run


@pytest.fixture
def plug_ins():
    """What a test registers is forgotten behind it."""
    with surroundings.forgetting_plug_ins() as plugins:
        yield plugins


@pytest.fixture
def write_checkpoint():
    """The function ``write_pendulum_checkpoint(run_folder, number, **facts)``."""
    return write_pendulum_checkpoint
