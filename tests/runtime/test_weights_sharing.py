"""What the parameter server answers workers with: weights themselves, or a reference where there are several nodes."""

import numpy as np
import pytest

from drl_cli.runtime import ray_actors
from drl_cli.runtime.ray_actors import LOOK_S, SENT_BYTES, Sharing

SMALL = {"default": {"w": np.zeros(8, np.float32)}}
LARGE = {"default": {"w": np.zeros(SENT_BYTES // 4 + 1, np.float32)}}


class FakeRay:
    """Counts its nodes; a reference is ("reference", value)."""

    def __init__(self, alive):
        self.alive, self.looks = alive, 0

    def nodes(self):
        self.looks += 1
        return [{"Alive": one} for one in self.alive]

    def put(self, value):
        return ("reference", value)


@pytest.fixture
def cluster(monkeypatch):
    """Return a function that replaces Ray by one with these nodes, and the clock, which stands still."""
    clock = [1000.0]
    monkeypatch.setattr(ray_actors.time, "monotonic", lambda: clock[0])

    def made(*alive):
        fake = FakeRay(list(alive))
        monkeypatch.setattr(ray_actors, "ray", fake)
        return fake, clock

    return made


def test_small_weights_are_part_of_the_answer_on_one_node(cluster):
    cluster(True)
    assert Sharing()(SMALL) is SMALL


def test_large_weights_are_fetched_on_one_node_too(cluster):
    cluster(True)
    assert Sharing()(LARGE) == ("reference", LARGE)


def test_a_node_among_several_fetches_small_weights_once(cluster):
    cluster(True, True)
    assert Sharing()(SMALL) == ("reference", SMALL)


def test_a_lost_node_does_not_count(cluster):
    cluster(True, False)
    assert Sharing()(SMALL) is SMALL


def test_a_node_that_joins_is_noticed_at_the_next_look(cluster):
    fake, clock = cluster(True)
    share = Sharing()
    assert share(SMALL) is SMALL
    fake.alive.append(True)
    clock[0] += LOOK_S - 1
    assert share(SMALL) is SMALL
    assert fake.looks == 1
    clock[0] += 1
    assert share(SMALL) == ("reference", SMALL)
