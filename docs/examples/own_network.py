"""A network of your own, written as a TF1 graph: waves whose frequencies are learnt, and a dense layer behind them.

Small networks learn smooth functions first and sharp ones late; sines of learnt frequencies let them see details sooner
(Li and Pathak 2021, "Functional Regularization for Reinforcement Learning via Learned Fourier Features").

    drl train --run PPO --env CartPole-v1 --import own_network -s model.custom_model=waves \\
        -s 'model.custom_model_config={"waves": 32}'
    drl rollout ~/ray_results/default/PPO_CartPole-v1_… --import own_network --episodes 3

(with this file in the current folder, or on PYTHONPATH). The network stands in the place of convolutions and hidden layers;
what the algorithm puts behind it (heads, an LSTM, SAC's policy_model and Q_model) stays. Every net of an algorithm has one with
weights of its own: policy, value, each critic and target.
"""

import numpy as np

from drl_cli import register_model


class Waves:
    """Sines and cosines of learnt frequencies, then one dense layer: a graph, which also acts, through a session."""

    def __init__(self, shape, waves=64, units=64, scale=1.0):
        """``shape``: of one observation, (size,), or (height, width, channels) of images; the rest: custom_model_config."""
        (size,) = shape
        self._size, self._waves, self._scale = size, waves, scale
        self.features = units  # how many numbers come out for an observation
        self.variables = {  # the weights: names and shapes
            "frequency": (size, waves),
            "phase": (waves,),
            "mix/kernel": (2 * waves, units),
            "mix/bias": (units,),
        }

    def initial_weights(self, rng):
        """Return those that shall not begin as usual (kernels Glorot-uniform, vectors zero), drawn with ``rng`` alone."""
        return {"frequency": rng.normal(0.0, self._scale, (self._size, self._waves))}

    def graph(self, tf, weights, inputs):
        """Return float32 [rows, features] of ``inputs`` [rows, size]; ``tf`` is tensorflow.compat.v1, ``weights`` tensors.

        It is differentiated and compiled, so it is made of operations with gradients; each row must be by itself.
        """
        angle = tf.matmul(inputs, weights["frequency"]) + weights["phase"]
        waves = tf.concat([tf.sin(angle), tf.cos(angle)], axis=-1)
        return tf.nn.relu(tf.matmul(waves, weights["mix/kernel"]) + weights["mix/bias"])


class FastWaves(Waves):
    """The same with a NumPy forward of its own.

    Whoever acts (workers, evaluation, rollout) then needs no TensorFlow, starts sooner and acts several times as fast; ES
    and ARS, which try hundreds of weights in NumPy, can use it at all. It is compared with the graph before a run learns.
    """

    def forward(self, weights, inputs):
        """Return what ``graph`` returns, as an array; ``inputs`` must stay as they are."""
        angle = inputs @ weights["frequency"] + weights["phase"]
        waves = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
        return np.maximum(waves @ weights["mix/kernel"] + weights["mix/bias"], 0.0)


register_model("waves", Waves)
register_model("fast_waves", FastWaves)
