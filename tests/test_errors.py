"""What foreign code raised, in one line with its file and line."""

import errno
import linecache

import numpy as np
import pytest

from drl_cli.errors import EnvError, RaisedElsewhere, failure, machine_failure, place_of, shown


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x"), "ran out of disk space (/x): "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "ran out of memory: "),
        (OSError(errno.EIO, "Input/output error", "/x"), "has a disk that fails (/x): "),
        (MemoryError(), "ran out of memory."),
        (
            ImportError("libtensorflow_cc.so.2: failed to map segment from shared object"),
            "ran out of memory: libtensor",
        ),
    ],
)
def test_failure_of_the_machine_is_named_with_its_file(error, text):
    assert machine_failure(error).startswith(f"this machine {text}")


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "no"), OSError("no number"), ImportError("no module"), ValueError()]
)
def test_failure_of_another_kind_is_none_of_the_machine(error):
    assert machine_failure(error) is None


def _caught(function):
    with pytest.raises(Exception) as caught:
        function()
    return caught.value


def _line(error):
    path, number = place_of(error).split(", in ")[0].rsplit(":", 1)
    return linecache.getline(path, int(number)).strip()


def test_an_error_of_foreign_code_ends_with_its_file_and_line():
    error = _caught(lambda: {}["missing"])
    assert failure(error) == f"KeyError: 'missing' ({place_of(error)})."
    assert place_of(error).startswith(f"{__file__}:") and _line(error) == 'error = _caught(lambda: {}["missing"])'


def test_the_place_is_the_line_that_called_a_library():
    error = _caught(lambda: np.linalg.inv(np.zeros((2, 2))))
    assert _line(error) == "error = _caught(lambda: np.linalg.inv(np.zeros((2, 2))))"


def test_an_error_of_our_own_says_what_it_says():
    assert failure(_caught(lambda: (_ for _ in ()).throw(EnvError("no such thing.")))) == "no such thing."


def test_an_error_that_was_never_raised_has_no_place():
    assert failure(FloatingPointError("not finite")) == "FloatingPointError: not finite."


def test_an_error_whose_text_ends_with_a_full_stop_has_one():
    assert failure(FloatingPointError("Not finite.")) == "FloatingPointError: Not finite."


def test_a_place_that_came_with_an_error_from_another_process_is_kept():
    error = type("Burnt", (RaisedElsewhere,), {"place": "motor.py:3, in step"})("out of fuel")
    assert failure(error) == "Burnt: out of fuel (motor.py:3, in step)."


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("s3://key:hunter2@bucket/a", '"s3://key:***@bucket/a"'),
        ("s3://key:hun/ter2@bucket/a", '"s3://key:***@bucket/a"'),
        ("s3://bucket?secret_key=hunter2&region=x", '"s3://bucket?secret_key=***&region=x"'),
        ("hdfs://host:8020/a", '"hdfs://host:8020/a"'),
    ],
)
def test_shown_uri_hides_its_secrets(typed, seen):
    assert shown(typed) == seen
