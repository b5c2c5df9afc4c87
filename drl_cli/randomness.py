"""Independent random generators for every role, all from one seed, with states that are plain data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

ROLES: dict[str, int] = {
    name: number
    for number, name in enumerate(
        (
            "init",
            "worker",
            "replay",
            "tester",
            "env",
            "learner",
            "confirm",
            "noise",
            "files",
            "estimates",
            "door",
            "shuffle",
            "mapping",
            "rnd",
            "minibatch",
        ),
        1,
    )
}


def generator(seed: int, role: str, *index: int) -> np.random.Generator:
    """Return the ``numpy.random.Generator`` of ``role`` (a key of ROLES) and its index numbers under ``seed``."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, ROLES[role], *index])))


def number(seed: int, role: str, *index: int) -> int:
    """Return a whole number in [0, 2³¹) that depends on all arguments: the seed of one episode, say."""
    return int(np.random.SeedSequence([seed, ROLES[role], *index]).generate_state(1)[0] >> 1)


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state as JSON-able data."""
    state = rng.bit_generator.state
    return {
        "bit_generator": state["bit_generator"],
        # 128 bits: more than JSON's numbers hold
        "state": {name: str(value) for name, value in state["state"].items()},
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def set_state(rng: np.random.Generator, data: Mapping[str, Any]) -> None:
    """Put a generator into the state that ``state_of`` returned."""
    rng.bit_generator.state = {
        "bit_generator": data["bit_generator"],
        "state": {name: int(value) for name, value in data["state"].items()},
        "has_uint32": data["has_uint32"],
        "uinteger": data["uinteger"],
    }
