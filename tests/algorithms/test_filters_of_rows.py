"""Rows with a replay, with filters: an update of raw observations is one of normalised ones without filters."""

import numpy as np
import pytest
from rows import CASES, block_of, machine_of

from drl_cli.policies import filters
from drl_cli.policies.filters import moments

pytestmark = pytest.mark.tensorflow

FILTERS = {"observation_filter": "MeanStdFilter", "reward_scaling": True}
RAW = np.random.default_rng(1).normal([3, -40, 0], [2, 10, 0], (99, 3)).astype(np.float32)
RETURNS = np.float32([2, 4, 12, 6])  # variance 14
# One for each way of learning.
ROWS = (
    "SAC-Box",
    "CROSSQ-Box",
    "XQC-Box",
    "CQL-Box",
    "IQL-Box",
    "TD3-Box",
    "TD3BC-Box",
    "DQN-Discrete",
    "R2D2-Discrete",
)


@pytest.mark.parametrize("name", ROWS)
def test_update_with_filters_is_that_of_what_they_let_through(name):
    case = CASES[name]
    with machine_of(case, **FILTERS) as filtered, machine_of(case) as plain:
        weights = filters.weights_of(filtered.spec, moments(RAW), moments(RETURNS))
        filtered.set(**weights)
        block = block_of(filtered)
        block["obs"] = block["obs"] * 30 - 3
        if "next_obs" in block:
            block["next_obs"] = block["next_obs"] * 30 - 3
        through = filters.Filter(filtered.spec, weights)
        seen = {key: through(block[key]) for key in ("obs", "next_obs") if key in block}
        given = block | seen | {"reward": block["reward"] / np.float32(14**0.5)}
        mine, other = filtered.run(block, 3), plain.run(given, 3)
        after, expected = filtered.values(), plain.values()
    assert mine["finite"] and mine["done"] == 3
    for key, value in other["stats"].items():
        np.testing.assert_allclose(mine["stats"][key], value, rtol=2e-3, atol=2e-4, err_msg=key)
    for key, value in expected.items():
        np.testing.assert_allclose(after[key], value, rtol=2e-3, atol=2e-4, err_msg=key)
    own = set(after) - set(expected)
    assert {key for key in own if after[key].any()} == set(weights)  # nothing moves them, the exact moments still are 0
    assert {key for key in own if f"default_policy/{key}" in filtered.graph.published} == set(weights)
