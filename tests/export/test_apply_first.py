"""What an exported policy does not hold of what stood before it: described, and said by the command."""

import pytest

from drl_cli.cli import exports
from drl_cli.envs.preprocessors import NOTHING
from drl_cli.errors import CheckpointError
from drl_cli.export import export_policy

WRAPPED = {
    **NOTHING,
    "wrappers": [["half", {}], ["FrameStackObservation", {"stack_size": 4}]],
    "preprocessor": ["angle", {"fastest": 8.0}],
}
GAME = {"noop_max": 30, "frame_skip": 4, "fire": True, "lives": True}


@pytest.mark.parametrize(
    ("facts", "steps"),
    [
        ({}, []),
        ({"preprocessing": NOTHING}, []),
        (
            {"preprocessing": WRAPPED, "spaces": {"mask": [2, 4]}},
            [
                "env_wrappers half",
                'env_wrappers FrameStackObservation {"stack_size": 4}',
                'model.custom_preprocessor angle {"fastest": 8.0}, and the action mask after its vector',
            ],
        ),
        (
            {"preprocessing": {**NOTHING, "dim": 42, "grayscale": True}},
            ["images resized to 42 x 42", "images converted to grayscale"],
        ),
        (
            {"preprocessing": {**NOTHING, "dim": 84, "grayscale": True, "atari": GAME, "frames": 4}},
            ["gymnasium's AtariPreprocessing"],
        ),
    ],
)
def test_what_stood_before_the_policy_is_named_in_order(facts, steps):
    assert export_policy.apply_first(facts) == steps


def test_a_plan_that_cannot_be_read_is_refused():
    with pytest.raises(CheckpointError, match="preprocessing in the manifest"):
        export_policy.apply_first({"preprocessing": {**NOTHING, "wrappers": 7}})


def test_the_line_on_the_screen_joins_the_steps_and_is_left_out_without_any():
    assert exports.apply_first(["a", "b"]) == ["apply first, it is not part of the export: a; b"]
    assert exports.apply_first([]) == []
