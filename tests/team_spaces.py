"""The spaces of a team as plain data, as ``envs.make.describe`` returns them."""


def team_spaces(sizes, counts, state=0, box=False):
    """Return spaces of a team: agents of ``sizes`` numbers and ``counts`` actions, and ``state`` numbers of a state."""
    agents, longest, widest = len(sizes), max(sizes), max(counts)
    masks = 0 if box else agents * widest
    alive = agents * longest + masks
    layout = {
        "agents": [f"agent {index}" for index in range(agents)],
        "obs": longest,
        "actions": list(counts),
        "mask": [agents * longest if masks else 0, masks],
        "alive": [alive, agents],
        "rewards": [alive + agents, agents],
        "state": [alive + 2 * agents, state] if state else [0, agents * longest],
    }
    action = {"kind": "MultiDiscrete", "nvec": list(counts), "start": [0] * agents, "shape": [agents], "dtype": "int64"}
    if box:
        action = _box(agents * widest)
    return {
        "obs": {"kind": "Box", "shape": [alive + 2 * agents + state], "dtype": "float32"},
        "action": action,
        "team": layout,
    }


def _box(size):
    return {"kind": "Box", "shape": [size], "low": [-1.0] * size, "high": [1.0] * size}
