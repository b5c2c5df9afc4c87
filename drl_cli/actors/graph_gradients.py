"""GraphGradients: the gradient of a worker's fragment from TensorFlow, for nets that NumPy does not differentiate.

Convolutions and LSTMs. Used by ``gradient_worker``, which loads this module, and with it TensorFlow, when it has its first
fragment. The weights are fed with every call, so that the session holds none.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drl_cli.algorithms import a3c_graph
from drl_cli.algorithms.a3c import A3CConfig
from drl_cli.policies.actor_critic_tf import ActorCritic
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.tf1.graph import trajectory_columns
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import tf


class GraphGradients:
    """As ``algorithms.a3c_gradients.NumpyGradients``: the same arguments, the same gradients."""

    def __init__(self, config: A3CConfig, spec: PolicySpec) -> None:
        """``config``: A3CConfig; ``spec``: PolicySpec of an actor-critic."""
        self._config, self._spec = config, spec
        self._columns = {name: column for name, column in trajectory_columns(config, spec).items() if name != "logp"}
        self._calls = {}  # shape of a batch -> (session, {name: placeholder} of weights and columns, fetches)

    def __call__(
        self, policy: NumpyPolicy, batch: dict[str, np.ndarray], entropy_coeff: float
    ) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """See ``NumpyGradients``; a shape of batch is built when it is first seen, and they are few."""
        rows: tuple[int, ...] = batch["mask"].shape  # [E, T]
        shape, acting = (rows[0], rows[1], len(batch["end_at"])), policy.weights
        if acting is None:
            raise RuntimeError("a policy without weights has no gradient")
        if shape not in self._calls:
            self._calls[shape] = self._built(shape, acting)
        session, weights, columns, coefficient, fetches = self._calls[shape]
        feeds = {placeholder: acting[name] for name, placeholder in weights.items()}
        feeds |= {placeholder: batch[name] for name, placeholder in columns.items()}
        gradients, stats = session.run(fetches, feeds | {coefficient: entropy_coeff})
        return gradients, {name: float(number) for name, number in stats.items()}

    def _built(self, shape: tuple[int, int, int], initial: Mapping[str, np.ndarray]) -> tuple:
        streams, steps, ends = shape
        length = self._config.model.max_seq_len if self._spec.state else 1
        axes = {"step": (streams, steps), "end": (ends,), "sequence": (streams, steps // length)}
        graph = tf.Graph()
        with graph.as_default(), tf.device("/CPU:0"):
            net = ActorCritic(self._spec, initial)
            weights = {name: tf.placeholder(tf.float32, shape) for name, shape in self._spec.weight_shapes().items()}
            columns = {
                name: tf.placeholder(dtype, [*axes[kind], *trailing])
                for name, (trailing, dtype, kind) in self._columns.items()
            }
            coefficient = tf.placeholder(tf.float32, [])
            fetches = a3c_graph.gradients(self._config, net, weights, columns, coefficient)
        graph.finalize()
        # A worker computes on the CPU; a GPU that it sees is the learner's.
        options = self._config.tf_session_args.model_dump(exclude_none=True)
        session = new_session(graph, options | {"device_count": {"GPU": 0}})
        return session, weights, columns, coefficient, fetches
