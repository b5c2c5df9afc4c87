"""Every algorithm with every pair of features, interrupted five times in a row in one process, equals the undisturbed run.

``resume_matrix`` has the cases. Compared are all results without their times, and the last checkpoint: each array file byte by
byte, and the plain state.
"""

import itertools
import json
from collections import Counter

import pytest
import resume_matrix as matrix
from runtime_runs import CLOCKED, SINCE_RESTORE, timeless

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.config.result_names import flatten
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

ALL = [(row.name, number) for row in table.built_in() for number in range(6)]
OF_TESTER = "evaluation/custom_metrics/"  # a tester's callbacks begin anew when a run is resumed, see Callbacks.state
SAMPLE = (("ARS", 1), ("ES", 1), ("A3C", 2))  # that take seconds: a filter or memory, and callbacks


@pytest.fixture(autouse=True)
def own_callbacks():
    with matrix.registered():
        yield


def started(algorithm, case, restore=None):
    """A started Driver of the case, restored from the checkpoint ``restore``."""
    driver = Driver(algorithm, *matrix.experiment(algorithm, case))
    if restore is not None:
        driver.restore(checkpoints.load(restore, optional=True), True)
    driver.start()
    return driver


def trained(driver, count):
    return [timeless(driver.train(), SINCE_RESTORE) for _ in range(count)]


def clockless(data):
    """Plain data without what a clock fills."""
    if isinstance(data, dict):
        return {name: clockless(value) for name, value in data.items() if name not in CLOCKED | {"seconds"}}
    return [clockless(value) for value in data] if isinstance(data, list) else data


def saved(path):
    """(the bytes of each array file, the plain state) of a checkpoint."""
    arrays = {file.name: file.read_bytes() for file in path.glob("*.safetensors")}
    state = clockless(json.loads((path / "state.json").read_text()))
    (state["scoring"]["newest"] or {}).pop("custom_metrics", None)  # see OF_TESTER
    return arrays, state


def interrupted(algorithm, number, case, folder):
    """(results, the last checkpoint) of a run that ends and is restored at each of its moments."""
    results, path, at = [], None, 0
    for moment in [*matrix.moments(algorithm, number), matrix.ITERATIONS]:
        driver = started(algorithm, case, path)
        try:
            results += trained(driver, moment - at)
            path, at = driver.save(folder), moment
        finally:
            driver.close()
    return results, path


def differing(results, expected):
    """["iteration N field: value instead of value"] of what differs."""
    found = []
    for mine, other in zip(results, expected, strict=True):
        mine, other = flatten(mine), flatten(other)
        names = {name for name in {**other, **mine} if mine.get(name) != other.get(name)}
        names = sorted(name for name in names if not name.startswith(OF_TESTER))
        where = f"iteration {other['training_iteration']}"
        found += [f"{where} {name}: {mine.get(name)} instead of {other.get(name)}" for name in names]
    return found


def differences(algorithm, number, tmp_path):
    """What differs between the run of a case and the same run interrupted, in results and in the last checkpoint."""
    case = matrix.cases(algorithm)[number]
    if isinstance(case, str):
        pytest.skip(case)
    whole = started(algorithm, case)
    try:
        expected = trained(whole, matrix.ITERATIONS)
        (tmp_path / "whole").mkdir()
        path = whole.save(tmp_path / "whole")
    finally:
        whole.close()
    assert expected[-1]["info"]["num_updates"] > expected[0]["info"]["num_updates"]
    (tmp_path / "parts").mkdir()
    results, last = interrupted(algorithm, number, case, tmp_path / "parts")
    arrays, state = saved(path)
    others, told = saved(last)
    found = [f"bytes of {name}" for name in {**arrays, **others} if arrays.get(name) != others.get(name)]
    found += [f"{name} of state.json" for name in {**state, **told} if told.get(name) != state.get(name)]
    return differing(results, expected) + found


def test_combinations_have_every_pair_of_values_of_two_features():
    columns = [[case.net for case in matrix.combinations()]]
    columns += [[name in case.features for case in matrix.combinations()] for name in matrix.FEATURES]
    for one, other in itertools.combinations(columns, 2):
        pairs = Counter(zip(one, other, strict=True))
        assert len(pairs) == len(set(one)) * len(set(other))


@pytest.mark.parametrize(("algorithm", "number"), SAMPLE)
def test_run_interrupted_five_times_equals_the_whole_run(algorithm, number, tmp_path):
    assert not isinstance(matrix.cases(algorithm)[number], str)
    assert differences(algorithm, number, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "number"), ALL)
def test_run_of_the_matrix_interrupted_five_times_equals_the_whole_run(algorithm, number, tmp_path):
    assert differences(algorithm, number, tmp_path) == []
