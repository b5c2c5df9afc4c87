"""Anything as strict JSON data."""

import json

import numpy as np

from drl_cli.config.plain_data import plain


def test_plain_makes_strict_json_of_numpy_and_of_what_is_not_finite():
    given = {
        "a": np.float32(0.5),
        "b": float("nan"),
        "c": [np.int64(2), np.inf],
        "d": np.array([1, 2]),
        "e": (True, None),
        "f": {"g": np.array([[np.inf]])},
        3: {"x"},
        "h": np.bool_(True),
        "i": np.float64(0.25),
        "j": np.array(1.5),
        "k": np.float32("nan"),
    }
    found = plain(given)
    assert found == {
        "a": 0.5,
        "b": None,
        "c": [2, None],
        "d": [1, 2],
        "e": [True, None],
        "f": {"g": [[None]]},
        "3": ["x"],
        "h": True,
        "i": 0.25,
        "j": 1.5,
        "k": None,
    }
    assert type(found["i"]) is float
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_other_objects_become_their_string_cut_where_a_length_is_given():
    long = type("Long", (), {"__str__": lambda self: "y" * 5000})()
    assert plain({"f": object}) == {"f": "<class 'object'>"}
    assert len(plain(long, 1000)) == 1000 and len(plain(long)) == 5000
    assert plain("x" * 2000, 1000) == "x" * 2000
