"""What the tests of run folders share."""

import pytest

from drl_cli import events


@pytest.fixture
def told():
    """The diagnoses that are reported during the test, as their fields."""
    heard = []
    stop = events.subscribe(lambda kind, fields: heard.append(fields) if kind == "diagnosis" else None)
    yield heard
    stop()
