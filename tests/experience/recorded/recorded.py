"""Recorded files for tests: layouts, lines as RLlib writes them, packed columns as its versions pack them."""

import json

from drl_cli.experience.recorded.pieces import layout_of

PLANE = {"kind": "Box", "shape": [2], "dtype": "float32", "low": None, "high": None}
THREE = {"kind": "Discrete", "n": 3, "start": 0, "shape": [], "dtype": "int64"}
PUSH = {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [4.0]}

# float32 [[0.5, -1.0], [0.25, 2.0], [0.125, 3.0]] as an lz4 frame of its pickle: protocols 3, 4 and 5 under NumPy 1, 5 under
# NumPy 2; written once by the libraries themselves.
PACKED = {
    "protocol 3": "BCJNGGhAswAAAAAAAAA7rAAAAPIZgANjbnVtcHkuY29yZS5tdWx0aWFycmF5Cl9yZWNvbnN0cnVjdApxACYAMgpuZB4A8w1xAUsA"
    "hXECQwFicQOHcQRScQUoSwFLA0sChnEGKwDxHWR0eXBlCnEHWAIAAABmNHEIiYiHcQlScQooSwNYAQAAADxxC05OTkr/////BQDwGUsAdHEMYolDGAAA"
    "AD8AAIC/AACAPgAAAEAAAAA+AABAQHENdHEOYi4AAAAA",
    "protocol 4": "BCJNGGhArQAAAAAAAACWowAAAFKABJWiAAEA8RyMFW51bXB5LmNvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFKQBSlIwH"
    "bmQjAPARk5RLAIWUQwFilIeUUpQoSwFLA0sChpRoA4wFZHR5cGU1AGICZjSUiYggANEDjAE8lE5OTkr/////BQDwFksAdJRiiUMYAAAAPwAAgL8AAIA+"
    "AAAAQAAAAD4AAEBAlHSUYi4AAAAA",
    "protocol 5": "BCJNGGhAmAAAAAAAAABckgAAAFKABZWNAAEA8hmMEm51bXB5LmNvcmUubnVtZXJpY5SMC19mcm9tYnVmZmVylJOUKJYYLgAAAgDxCT8A"
    "AIC/AACAPgAAAEAAAAA+AABAQJSMBUgA8RaUjAVkdHlwZZSTlIwCZjSUiYiHlFKUKEsDjAE8lE5OTkr/////BQDwBUsAdJRiSwNLAoaUjAFDlHSUUpQu"
    "AAAAAA==",
    "NumPy 2": "BCJNGGhAmQAAAAAAAABukwAAAFKABZWOAAEA8hqME251bXB5Ll9jb3JlLm51bWVyaWOUjAtfZnJvbWJ1ZmZlcpSTlCiWGC8AAAIA8Qk/AACA"
    "vwAAgD4AAABAAAAAPgAAQECUjAVJAPEWlIwFZHR5cGWUk5SMAmY0lImIh5RSlChLA4wBPJROTk5K/////wUA8AVLAHSUYksDSwKGlIwBQ5R0lFKULgAA"
    "AAA=",
}
NUMBERS = [[0.5, -1.0], [0.25, 2.0], [0.125, 3.0]]

# Packed by the libraries from things that are no plain array of numbers.
HOSTILE = {
    "a call of os.system": "BCJNGGhAMgAAAAAAAACEMQAAAFKABJUnAAEA8BiMBXBvc2l4lIwGc3lzdGVtlJOUjAx0b3VjaCBjYW5hcnmUhZRSlC4AAAAA",
    "an array of objects": "BCJNGGhAmAAAAAAAAABcjgAAAFKABJWNAAEA8R2MFm51bXB5Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1Y3SUk5SM"
    "BSoAUpSMB25kIwDwD5OUSwCFlEMBYpSHlFKUKEsBSwKFlGgDjAVkdHlwZTMAYgJPOJSJiB4A0QOMAXyUTk5OSv////8FAPACSz90lGKJXZQoSwFOZXSU"
    "Yi4AAAAA",
    "an allocation": "BCJNGGhALgAAAAAAAAA+LQAAAFKABJUjAAEA8BSMBW51bXB5lIwHbmRhcnJheZSTlIoGABCl1OgAhZSFlFKULgAAAAA=",
    "a list": "BCJNGGhAIgAAAAAAAAAuHQAAAFKABJUXAAEAYl2UKEc/8AwAsEdAAAAAAAAAAGUuAAAAAA==",
    "a record": "BCJNGGhAyQAAAAAAAAAJswAAAFKABJW+AAEA8R2MFm51bXB5Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1Y3SUk5SMBSoAUpSMB25k"
    "IwDwD5OUSwCFlEMBYpSHlFKUKEsBSwKFlGgDjAVkdHlwZTMAYgJWNJSJiB4A+QYDjAF8lE6MAWGUhZR9lGgRaAyMAmYfAKE8lE5OTkr/////BQDyB0sA"
    "dJRiSwCGlHNLBEsBSxB0lGKJQwi3AHAAAJR0lGIuAAAAAA==",
}


def layout(action=THREE, obs=PLANE, **more):
    """The Layout of an environment with two numbers to see, three things to do and episodes of at most 3 steps."""
    limits, normalized = more.pop("limits", (3,)), more.pop("normalized", False)
    return layout_of({"obs": obs, "action": action, **more}, limits, normalized)


def columns(episode, first, steps, done=False, **more):
    """The columns of steps ``first`` … of an episode whose observations are [episode, t] and whose rewards are t."""
    t = list(range(first, first + steps))
    found = {
        "t": t,
        "eps_id": [episode] * steps,
        "agent_index": [0] * steps,
        "obs": [[episode, i] for i in t],
        "new_obs": [[episode, i + 1] for i in t],
        "actions": [i % 3 for i in t],
        "rewards": [float(i) for i in t],
        "dones": [False] * (steps - 1) + [done],
    } | more
    return {name: values for name, values in found.items() if values is not None}


def batch(*parts, **more):
    """One line: a SampleBatch of what ``columns`` gave, one part behind the other."""
    joined = {name: [value for part in parts for value in part[name]] for name in parts[0]}
    return json.dumps({"type": "SampleBatch", **joined, **more})


def write(path, *lines):
    """Write ``lines`` to ``path`` and return it."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def told(piece):
    """What a Piece of ``columns`` is, in short: (episode, start, steps, terminated, truncated)."""
    return piece.episode, piece.start, piece.steps, piece.terminated, piece.truncated
