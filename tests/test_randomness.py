"""Generators by role: independent, repeatable, and saved as plain data."""

import itertools
import json

import numpy as np

from drl_cli.randomness import ROLES, generator, number, set_state, state_of


def test_a_generator_depends_on_all_its_arguments_alone():
    keys = list(itertools.product((0, 1, 2**31 - 1), ROLES, (0, 1), (0, 3)))
    first = {key: generator(*key).integers(0, 2**62) for key in keys}
    assert len(set(first.values())) == len(keys)
    assert all(generator(*key).integers(0, 2**62) == first[key] for key in keys)


def test_roles_are_uncorrelated():
    draws = np.stack([generator(7, role, 0).standard_normal(20_000) for role in ROLES])
    correlations = np.corrcoef(draws) - np.eye(len(ROLES))
    assert np.abs(correlations).max() < 0.035  # five standard errors of 1 / sqrt(20 000)


def test_numbers_are_whole_within_31_bits_and_differ_by_every_argument():
    found = [number(*key) for key in itertools.product((0, 5), ("env", "tester"), range(3), range(3), range(20))]
    assert len(set(found)) == len(found) == 720
    assert all(isinstance(value, int) and 0 <= value < 2**31 for value in found)
    assert number(0, "env", 1, 2, 3) == 840938110


def test_a_state_through_json_goes_on_with_the_same_draws():
    rng = generator(3, "worker", 1)
    rng.standard_normal(3, dtype=np.float32)  # leaves half a 64-bit draw over
    rng.integers(0, 10, dtype=np.uint32)
    data = json.loads(json.dumps(state_of(rng)))
    other = generator(99, "replay")
    set_state(other, data)
    assert np.array_equal(rng.standard_normal(5, dtype=np.float32), other.standard_normal(5, dtype=np.float32))
    assert rng.integers(0, 2**32, dtype=np.uint32) == other.integers(0, 2**32, dtype=np.uint32)
    assert rng.random() == other.random()
