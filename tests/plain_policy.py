"""A small policy for Pendulum-v1 as plain data, as a manifest holds it."""

POLICY = {
    "nets": [
        {
            "name": "policy",
            "inputs": [["obs", 3]],
            "layers": [{"units": 4, "activation": "tanh", "layer_norm": False}],
            "heads": [["mean", 1], ["log_std", 1]],
            "copies": 1,
        }
    ],
    "distribution": "squashed_gaussian",
    "obs_shape": [3],
    "action": {"low": [-2.0], "high": [2.0], "normalize": True, "clip": True},
    "state": [],
}
