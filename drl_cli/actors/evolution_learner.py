"""EvolutionLearner: makes a step of the returns of perturbed policies, and pushes. NumPy alone: no TensorFlow, no session.

It has the verbs of the learners that train graphs. The directions themselves are not sent: it draws them again from their
numbers. Sources: those of ``evolution.es_update`` and ``evolution.ars_update``, which hold what one update is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli import plugins
from drl_cli.actors.part_records import BatchUpdateResult, LearnerIdentity
from drl_cli.actors.running_filters import Observed
from drl_cli.contracts import Call, Handle
from drl_cli.errors import CheckpointError, Diverged
from drl_cli.evolution import noise_table
from drl_cli.evolution.keys import EvolutionKeys
from drl_cli.evolution.net import Flat
from drl_cli.extras import load
from drl_cli.policies.filters import STREAMS
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.policies.policy_spec import PolicySpec

SCOPE = DEFAULT_POLICY + "/"


class EvolutionLearner:
    """Holds the weights as one vector; one update per round."""

    def __init__(
        self,
        config: EvolutionKeys,
        spec: PolicySpec,
        module: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """``module``: dotted name of the algorithm's update; ``initial``: {name: array}; ``server``: the parameter server."""
        plugins.adopt(identity.get("plugins"))
        self._server = server
        self._flat = Flat(spec.nets[0].weight_shapes())
        self._theta = self._flat.vector(initial)
        self._update = load(module).Update(config, self._flat.size)
        self._noise = noise_table.make(config, self._flat.size)
        self._filters = _Filters(spec, initial)
        self._observed = Observed(spec, self._filters, SCOPE)
        self._updates, self._factor = 0, 1.0  # the factor of steps
        self.version = 1  # the first weights were pushed when the parts were made

    def prepare(self) -> float:
        """Return the seconds that it took to be ready: there is nothing to build."""
        return 0.0

    def learn(self, env_steps: int, seen: Sequence[Any], *blocks: Mapping[str, np.ndarray]) -> BatchUpdateResult:
        """Make one step of a round's ``blocks`` (see ``EvolutionWorker.collect``) and push; they come in their order.

        ``seen``: a list of ``Token.seen``. Returns dict(updates, stats, seconds, version, steps): steps are those of the
        directions. Equal returns make no step: the weights stay, and so does what the optimiser remembers. Raises Diverged,
        and keeps its weights, where a return or the step is not finite.
        """
        began = time.perf_counter()
        index, returns, lengths = (
            np.concatenate([block[name] for block in blocks]) for name in ("index", "fitness", "length")
        )
        if not np.isfinite(returns).all():
            raise Diverged(
                f"A return of round {self._updates + 1} is not finite: the rewards are too large to be added up."
            )
        weights = self._update.weigh(returns)
        stats = self._step(index, weights) if weights is not None else {"grad_norm": 0.0, "update_ratio": 0.0}
        self._updates += 1
        self._observed.add(seen)  # after the step: the returns were made with the filter as it was
        self._send(keep=False)
        stats |= {
            "weights_norm": _norm(self._theta),
            "return_mean": float(returns.mean()),
            "return_stdev": float(returns.std()),
            "max_return": float(returns.max()),
            "min_return": float(returns.min()),
            "directions": len(index),
            "without_step": float(weights is None),
        }
        seconds = time.perf_counter() - began
        return {"updates": 1, "stats": stats, "seconds": seconds, "version": self.version, "steps": int(lengths.sum())}

    def _step(self, index: np.ndarray, weights: np.ndarray) -> dict[str, float]:
        ascent = np.zeros(self._flat.size)
        for number, weight in zip(index.tolist(), weights.tolist(), strict=True):
            if weight:
                ascent += weight * self._noise.direction(self._updates, number)
        after = self._update.stepped(self._theta, ascent, self._factor)
        if not np.isfinite(after).all():
            raise Diverged(
                f"Step {self._updates + 1} made weights that are not finite; it was not taken. Lower its size."
            )
        step, self._theta = _norm(after.astype(np.float64) - self._theta), after
        return {"grad_norm": _norm(ascent), "update_ratio": step / max(_norm(after), 1e-12)}

    def scale_rates(self, factor: float) -> None:
        """Multiply the size of all further steps by ``factor``; below 1 what the filter learns from a step, too."""
        self._factor = factor
        self._observed.pace = min(1.0, factor)

    def publish(self) -> tuple[int, dict[str, np.ndarray]]:
        """Push the present weights to be scored; returns (version, state) of the same moment, for a checkpoint."""
        self._send(keep=True).result()
        return self.version, self.state()

    def push(self) -> int:
        """Push the present weights; returns their version."""
        self._send(keep=False).result()
        return self.version

    def _send(self, keep: bool) -> Call:
        self.version += 1
        self._observed.write()
        acting = self._flat.weights(self._theta) | self._filters.published()
        return self._server.call("push", {DEFAULT_POLICY: acting}, keep)

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array}, copies: weights, filters, what the optimiser remembers, counters."""
        self._observed.write()
        arrays = {name: value.copy() for name, value in self._flat.weights(self._theta).items()}
        arrays |= self._update.state()
        arrays |= {"num_updates": np.int64(self._updates)}
        return {SCOPE + name: np.asarray(value) for name, value in arrays.items()} | self._filters.get()

    def load(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Continue from ``state`` of a learner with the same net, after the push of ``version``.

        CheckpointError when names, shapes or dtypes differ.
        """
        own = self.state()
        differing = sorted(set(own) ^ set(arrays)) or [
            name
            for name, value in own.items()
            if (value.shape, value.dtype) != (arrays[name].shape, arrays[name].dtype)
        ]
        if differing:
            raise CheckpointError(f"The checkpoint's weights do not fit this run's nets: {', '.join(differing[:5])}.")
        bare = {name.removeprefix(SCOPE): value for name, value in arrays.items()}
        if bare["num_updates"] < 0:
            raise CheckpointError(f"The checkpoint has made {bare['num_updates']} updates.")
        self._theta = self._flat.vector(bare)
        self._update.load(bare)
        self._filters.set({name: arrays[name] for name in self._filters.get()})
        self._observed.read()
        self._updates, self.version = int(bare["num_updates"]), version

    def close(self) -> None:
        """Give the noise back."""
        self._noise.close()


class _Filters:
    """The filters' weights and exact moments by name, for ``Observed``: the twin of the graph's variables."""

    def __init__(self, spec: PolicySpec, initial: Mapping[str, np.ndarray]) -> None:
        names = [name for name in spec.weight_names() if name.startswith("filter/")]
        held = {name: np.array(initial[name]) for name in names}
        if names:
            prefix, shape = STREAMS["obs"], tuple(spec.obs_shape)
            held |= {
                prefix + "count": np.zeros(()),
                prefix + "exact_mean": np.zeros(shape),
                prefix + "m2": np.zeros(shape),
            }
        self._names, self._held = names, {SCOPE + name: value for name, value in held.items()}

    def get(self) -> dict[str, np.ndarray]:
        """Return {name: array}, copies."""
        return {name: value.copy() for name, value in self._held.items()}

    def set(self, values: Mapping[str, np.ndarray]) -> None:
        """Take ``values`` for all of them."""
        self._held = {name: np.array(values[name]) for name in self._held}

    def published(self) -> dict[str, np.ndarray]:
        """Return those that act, under the policy's names."""
        return {name: self._held[SCOPE + name].copy() for name in self._names}


def _norm(vector: np.ndarray) -> float:
    """Return the Euclidean norm, in float64: the squares of weights that are finite are too large for float32."""
    return float(np.linalg.norm(vector.astype(np.float64)))
