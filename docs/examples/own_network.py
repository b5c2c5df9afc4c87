"""A custom network, written as a TF1 graph: learned Fourier features followed by a dense layer.

Networks learn low frequencies first; Fourier features with learnt frequencies let them fit high frequencies sooner
(Li and Pathak 2021, "Functional Regularization for Reinforcement Learning via Learned Fourier Features").

    drl train --run PPO --env CartPole-v1 --import own_network -s model.custom_model=waves \\
        -s 'model.custom_model_config={"waves": 32}'
    drl rollout ~/ray_results/default/PPO_CartPole-v1_… --import own_network --episodes 3

(with this file in the current folder, or on PYTHONPATH). The network replaces convolutions and hidden layers; the layers that
the algorithm adds after it (heads, an LSTM, SAC's policy_model and Q_model) remain. Every network of an algorithm has its own
copy with separate weights: policy, value, each critic and target.
"""

import numpy as np

from drl_cli import register_model


class Waves:
    """Sines and cosines of learnt frequencies, then one dense layer: a graph, which workers evaluate in a session."""

    def __init__(self, shape, waves=64, units=64, scale=1.0):
        """``shape``: of an observation, (size,), or (height, width, channels) for images; the rest: custom_model_config."""
        (size,) = shape
        self._size, self._waves, self._scale = size, waves, scale
        self.features = units  # the number of output features
        self.variables = {  # the weights: names and shapes
            "frequency": (size, waves),
            "phase": (waves,),
            "mix/kernel": (2 * waves, units),
            "mix/bias": (units,),
        }

    def initial_weights(self, rng):
        """Return weights with a custom initialisation (default: kernels Glorot-uniform, vectors zero), from ``rng`` only."""
        return {"frequency": rng.normal(0.0, self._scale, (self._size, self._waves))}

    def graph(self, tf, weights, inputs):
        """Return float32 [rows, features] of ``inputs`` [rows, size]; ``tf`` is tensorflow.compat.v1, ``weights`` tensors.

        It is differentiated and compiled, so all operations need gradients; rows must be independent of each other.
        """
        angle = tf.matmul(inputs, weights["frequency"]) + weights["phase"]
        waves = tf.concat([tf.sin(angle), tf.cos(angle)], axis=-1)
        return tf.nn.relu(tf.matmul(waves, weights["mix/kernel"]) + weights["mix/bias"])


class FastWaves(Waves):
    """The same with a NumPy forward pass.

    Workers, evaluation and rollout then need no TensorFlow, start sooner and act several times faster; ES and ARS, which
    evaluate hundreds of weight vectors in NumPy, require it. It is compared with the graph before training.
    """

    def forward(self, weights, inputs):
        """Return the result of ``graph`` as an array; ``inputs`` must not be modified."""
        angle = inputs @ weights["frequency"] + weights["phase"]
        waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
        return np.maximum(waves @ weights["mix/kernel"] + weights["mix/bias"], 0.0)


register_model("waves", Waves)
register_model("fast_waves", FastWaves)
