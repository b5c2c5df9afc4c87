"""The key xla: what it is where nothing was said."""

import pytest

from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.config.sections.resources import compiles


@pytest.mark.parametrize(
    ("keys", "sees_images", "compiled"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"num_gpus": 1}, True, True),
        ({"num_gpus": 1, "_fake_gpus": True}, True, False),
        ({"xla": True}, True, True),
        ({"xla": False}, False, False),
        ({"xla": False, "num_gpus": 1}, True, False),
    ],
)
def test_updates_are_compiled_unless_they_see_images_without_a_gpu_or_the_key_says(keys, sees_images, compiled):
    assert compiles(PPOConfig.model_validate(keys), sees_images) is compiled
