"""Orthogonal initial weights of a net, drawn in NumPy so that they exist before TensorFlow is loaded.

Used by the nets of actor-critics. Sources: Saxe et al. 2014 (arXiv 1312.6120); the gains √2 behind hidden layers, 0.01 at
the policy's heads and 1 at the value's, Engstrom et al. 2020 (arXiv 2005.12729) and Andrychowicz et al. 2021 (arXiv
2006.05990, section 3.2: the policy's last layer a hundred times smaller). An LSTM's kernels are orthogonal gate by gate.
"""

import math

import numpy as np

HIDDEN_GAIN, POLICY_GAIN, VALUE_GAIN = math.sqrt(2.0), 0.01, 1.0


def orthogonal_weights(net, rng, log_std=-3.0):
    """Return {name: float32 array} for ``net`` (NetSpec) of one copy: orthogonal kernels, else as its ``initial_weights``.

    ``rng``: a ``numpy.random.Generator``. Layers without an activation have gain 1, free heads begin at 0.
    ``log_std`` fills state-dependent deviations.
    """
    weights = net.initial_weights(rng, log_std=log_std)
    activations = [(f"{net.name}/conv_{index}", conv.activation) for index, conv in enumerate(net.convs)]
    activations += [(f"{net.name}/dense_{index}", layer.activation) for index, layer in enumerate(net.layers)]
    gains = {scope: 1.0 if activation == "linear" else HIDDEN_GAIN for scope, activation in activations}
    gains |= {f"{net.name}/{head}": VALUE_GAIN if head == "value" else POLICY_GAIN for head, _ in net.affine_heads()}
    for scope, gain in gains.items():
        kernel = weights[f"{scope}/kernel"]
        weights[f"{scope}/kernel"] = orthogonal(rng, kernel.shape, gain)
    if net.lstm:
        rows, cells = weights[f"{net.name}/lstm/kernel"].shape[0], net.lstm
        gates = [[orthogonal(rng, (size, cells), 1.0) for size in (rows - cells, cells)] for _ in range(4)]
        weights[f"{net.name}/lstm/kernel"] = np.concatenate([np.concatenate(gate) for gate in gates], axis=1)
    return weights


def orthogonal(rng, shape, gain):
    """Return float32 of ``shape`` […, units], as a matrix of the rest by units: orthogonal, of length ``gain`` each way."""
    rows, units = math.prod(shape[:-1]), shape[-1]
    drawn = rng.standard_normal((max(rows, units), min(rows, units)))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # so that all orthogonal matrices are equally likely
    return (gain * (q if rows >= units else q.T)).reshape(shape).astype(np.float32)
