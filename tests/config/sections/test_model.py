"""Keys of networks, and which convolutions they mean."""

import pytest
from pydantic import ValidationError

from drl_cli.config.sections.model import FullyConnected, Network, Vision, conv_filters
from drl_cli.errors import ConfigError


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((84, 84), [(16, 8, 4, "same"), (32, 4, 2, "same"), (256, 11, 1, "valid")]),
        ((42, 42), [(16, 4, 2, "same"), (32, 4, 2, "same"), (256, 11, 1, "valid")]),
        ((16, 16), [(16, 4, 2, "same"), (64, 3, 1, "valid")]),
        ((8, 8), [(64, 3, 1, "valid")]),
        ((64, 64), [(16, 8, 4, "same"), (32, 4, 2, "same"), (64, 3, 1, "valid")]),
        ((96, 96), [(16, 8, 4, "same"), (32, 4, 2, "same"), (32, 4, 2, "same"), (64, 3, 1, "valid")]),
        ((8, 200), [(16, 8, 4, "same"), *[(32, 4, 2, "same")] * 3, (64, 1, 1, "valid")]),
    ],
)
def test_filters_for_an_image(size, expected):
    assert conv_filters(Vision(), *size) == expected


def test_given_filters_are_taken_whatever_the_size():
    model = Vision(conv_filters=[[8, [4, 4], 2], [16, 2, 1]])
    assert model.conv_filters == ((8, 4, 2), (16, 2, 1))
    assert conv_filters(model, 84, 84) == [(8, 4, 2, "same"), (16, 2, 1, "valid")]


def test_last_kernel_may_be_as_large_as_what_is_left_and_no_larger():
    assert conv_filters(Vision(conv_filters=[[8, 4, 2], [16, 9, 1]]), 17, 30)[-1] == (16, 9, 1, "valid")
    with pytest.raises(ConfigError) as refused:
        conv_filters(Vision(conv_filters=[[8, 4, 2], [16, 10, 1]]), 17, 30)
    assert str(refused.value) == (
        "model.conv_filters: the last kernel is 10x10, and images of 17x30 are 9x15 by then. "
        "Take a smaller kernel, smaller strides, or null for filters that fit."
    )


@pytest.mark.parametrize(
    "wrong",
    [[], [[8, 4]], [[8, [4, 3], 2]], [[0, 4, 2]], [[8, 4, 0]], [[8, 4, 2, 1]], 3, "x", [[8, True, 1]], [[8, 4, 1.5]]],
)
def test_filters_of_another_form_are_refused(wrong):
    with pytest.raises(ValidationError):
        Vision(conv_filters=wrong)
    assert Vision(conv_filters=[[8, 4.0, 2]]).conv_filters == ((8, 4, 2),)


@pytest.mark.parametrize("value", [None, True, False, 1, 16])
def test_framestack_takes_each_of_its_forms(value):
    kept = Vision(framestack=value).framestack
    assert kept is value or (kept == value and type(kept) is type(value))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("framestack", 0),
        ("framestack", 17),
        ("framestack", "4"),
        ("dim", 7),
        ("dim", True),
        ("grayscale", 1),
        ("zero_mean", None),
    ],
)
def test_value_out_of_bounds_is_refused(key, value):
    with pytest.raises(ValidationError):
        Vision(**{key: value})
    assert getattr(Vision(), key) == {"zero_mean": True}.get(key)


def test_network_has_the_keys_of_both_and_the_same_defaults():
    both = Network().model_dump()
    assert both == Vision().model_dump() | FullyConnected().model_dump()
    assert (both["fcnet_hiddens"], both["conv_activation"], both["zero_mean"]) == ((64, 64), "relu", True)
