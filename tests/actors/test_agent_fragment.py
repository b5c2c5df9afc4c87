"""The columns of one policy's fragment, whose streams have as many steps as their agents took."""

from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli.actors.agent_fragment import AgentFragment

ACTION = SimpleNamespace(shape=(), dtype="int32")
SPEC = SimpleNamespace(
    obs_shape=(2,), obs_dtype="float32", action=ACTION, scored=True, state=(), frames=1, stacked_shape=(2,)
)


@pytest.mark.parametrize(
    ("steps", "lengths"), [(32, {4, 8, 16, 32, 33}), (100, {12, 25, 50, 100, 101}), (3, {1, 3, 4}), (1, {1, 2})]
)
def test_fragments_of_short_episodes_have_few_lengths_to_compile(steps, lengths):
    found = {}
    for longest in range(steps + 2):
        fragment = AgentFragment(SPEC, steps, 2)
        fragment.length[:] = longest, longest // 2
        columns, _ = fragment.close(np.zeros((2, 2), np.float32), ())
        found[longest] = len(columns["reward"])
        assert columns["obs"].shape == (found[longest], 2, 2)
    assert set(found.values()) == lengths
    assert all(rows >= longest for longest, rows in found.items())
