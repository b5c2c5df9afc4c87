"""Independent random generators for every role, all from one seed, with states that are plain data."""

import numpy as np

ROLES = {
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
        ),
        1,
    )
}


def generator(seed, role, *index):
    """Return the ``numpy.random.Generator`` of ``role`` (a key of ROLES) and its index numbers under ``seed``."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, ROLES[role], *index])))


def number(seed, role, *index):
    """Return a whole number in [0, 2³¹) that depends on all arguments: the seed of one episode, say."""
    return int(np.random.SeedSequence([seed, ROLES[role], *index]).generate_state(1)[0] >> 1)


def state_of(rng):
    """Return a generator's state as JSON-able data."""
    state = rng.bit_generator.state
    return {
        "bit_generator": state["bit_generator"],
        "state": {
            name: str(value) for name, value in state["state"].items()
        },  # 128 bits: more than JSON's numbers hold
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def set_state(rng, data):
    """Put a generator into the state that ``state_of`` returned."""
    rng.bit_generator.state = {
        "bit_generator": data["bit_generator"],
        "state": {name: int(value) for name, value in data["state"].items()},
        "has_uint32": data["has_uint32"],
        "uinteger": data["uinteger"],
    }
