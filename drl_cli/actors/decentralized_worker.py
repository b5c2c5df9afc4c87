"""DecentralizedWorker: a rollout worker that learns in its own process, beside others that do the same.

It samples a fragment with its own weights, then learns from it together with the other workers (``decentralized_learner``,
for which TensorFlow is loaded here, after the first fragment). Fragments never leave the process, weights only to be scored,
for a checkpoint, and for the successor of a worker that died. What travels between the workers are gradients.

With ``straggler_cutoff`` a worker asks the parameter server now and then, between env steps, whether enough others have
finished.
Source: Wijmans et al. 2019 (arXiv 1911.00357), section 3; theirs ask a key-value store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli.actors import worker_functions
from drl_cli.actors.part_records import Begun, RoundResult, WorkerIdentity
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms.ddppo import DDPPOConfig, finished_workers
from drl_cli.contracts import Handle
from drl_cli.envs.env_spec import EnvSetup
from drl_cli.errors import Diverged
from drl_cli.experience.columns import Token
from drl_cli.extras import load
from drl_cli.policies import filters
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.policies.policy_spec import PolicySpec

LEARNER = "drl_cli.actors.decentralized_learner:DecentralizedLearner"
LOOK_S = 0.05  # between two questions whether to end a fragment, each of which takes about a millisecond

Weights = Mapping[str, Mapping[str, np.ndarray]]  # policy id -> {name: array}


class _Done:
    """A call that has been made."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return True

    def result(self, timeout: float | None = None) -> Any:
        """Return the value."""
        del timeout
        return self._value


class OwnWeights:
    """The weights of this process, which its learner pushes and its rollout worker pulls, as from a ParameterServer."""

    name, is_remote = "own weights", False

    def __init__(self, weights: Weights) -> None:
        """``weights``: the first ones, of version 1."""
        self.weights, self.version, self._is_new = weights, 1, True

    def ready(self) -> _Done:
        """Return a call that is done."""
        return _Done(None)

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """Call ``push`` or ``pull``."""
        del returns
        return _Done({"push": self.push, "pull": self.pull}[method](*args))

    def push(self, weights: Weights, keep: bool = False, scored: Weights | None = None) -> int:
        """Take the weights of the next version; returns it. Raises Diverged when a value is not a finite number."""
        del keep, scored
        for name, array in weights[DEFAULT_POLICY].items():
            if not np.isfinite(array).all():
                raise Diverged(f"weights of {name} are no longer finite; they were not published")
        self.load(weights, self.version + 1)
        return self.version

    def pull(self, have: int, most: int | None = None) -> tuple[int, Weights] | None:
        """Return (version, weights) when they have changed since the last time, else None."""
        del have, most
        if not self._is_new:
            return None
        self._is_new = False
        return self.version, self.weights

    def load(self, weights: Weights, version: int) -> None:
        """Continue with ``weights`` as ``version``."""
        self.weights, self.version, self._is_new = weights, version, True


class DecentralizedWorker:
    """The same surface as a RolloutWorker, and what ``loops.decentralized`` calls to learn."""

    def __init__(
        self, config: DDPPOConfig, env: EnvSetup, spec: PolicySpec, identity: WorkerIdentity, server: Handle
    ) -> None:
        """See RolloutWorker; ``identity`` has ``learns``: the dotted names of the algorithm's graph and nets."""
        self._config, self._spec, self._server = config, spec, server
        row = identity.get("learns")
        if row is None:
            raise RuntimeError("a worker that learns needs the names of its algorithm's graph and nets")
        nets: Any = load(row["nets"])
        initial = nets.initial_weights(config, spec, identity["seed"]) | filters.first_weights(spec)
        self._own = OwnWeights({DEFAULT_POLICY: {name: initial[name] for name in spec.weight_names()}})
        self._worker = RolloutWorker(config, env, spec, identity, self._own)
        self._made_of = (row["graph"], initial)
        self._identity = {"seed": identity["seed"], "with_ray": server.is_remote, "plugins": env.get("plugins")}
        self._index = identity["index"]
        self._learner: Any = None
        self._columns: dict[str, np.ndarray] | None = None  # of the fragment to be learnt from
        self._round, self._looked = 0, 0.0
        if finished_workers(config, config.num_workers) < config.num_workers:
            self._worker.is_cut = self._is_cut
        self.close, self.set_task, self.load = self._worker.close, self._worker.set_task, self._worker.load
        self.state, self.foreach_env = self._worker.state, self._worker.foreach_env

    apply = worker_functions.apply

    @property
    def check(self) -> Callable[[], None]:
        """Called before every env step, see RolloutWorker."""
        return self._worker.check

    @check.setter
    def check(self, function: Callable[[], None]) -> None:
        self._worker.check = function

    def collect(self, min_version: int = 1, max_version: int | None = None) -> tuple[Token, None]:
        """Sample one fragment with the present weights, whose version is ``min_version``, and keep it to be learnt from."""
        self._round, self._looked = min_version, time.monotonic()
        token, self._columns = self._worker.collect(min_version, max_version)
        return token, None

    def _is_cut(self) -> bool:
        """Whether so many others have finished sampling that this worker is to end its fragment."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return False
        self._looked = now
        return self._server.call("newest_cut").result() >= self._round

    # -- learning -----------------------------------------------------------------------------------------------

    def prepare(self) -> float:
        """Load TensorFlow and build the graph; returns the seconds that it took."""
        if self._learner is not None:
            return 0.0
        made: Any = load(LEARNER)
        learner = made(self._config, self._spec, self._made_of, self._identity, self._own, self._index)
        seconds = learner.prepare()
        self._learner = learner
        return seconds

    def begin(self, env_steps: int, factor: float = 1.0) -> Begun:
        """Begin a round with the fragment that was sampled last; see DecentralizedLearner."""
        self.prepare()
        if self._columns is None:
            raise RuntimeError("there is no fragment to learn from")
        return self._learner.begin(self._columns, env_steps, factor)

    def plan(self, begun: Sequence[Begun]) -> int:
        """See DecentralizedLearner; returns the steps that were taken of the round."""
        self._learner.plan(begun)
        return len(self._learner.taken)

    def step(self, number: int, *answers: Any) -> tuple[int, Any]:
        """Return (steps taken of the round, the Answer for the others); see DecentralizedLearner."""
        answer = self._learner.step(number, *answers)
        return len(self._learner.taken), answer

    def end(self, seen: Sequence[Any]) -> RoundResult:
        """End the round; see ``DecentralizedLearner.close``."""
        self._columns = None  # learnt from once
        return self._learner.close(seen)

    # -- states -------------------------------------------------------------------------------------------------

    def trained(self) -> dict[str, np.ndarray]:
        """Return {name: array} of every variable that is trained."""
        self.prepare()
        return self._learner.state()

    def held(self) -> tuple[dict[str, np.ndarray], int, list[dict[str, float]]]:
        """Return what ``adopt`` takes: (every variable, version, statistics of the steps taken of the round)."""
        return self.trained(), self._own.version, self._learner.taken

    def adopt(self, held: tuple[dict[str, np.ndarray], int, list[dict[str, float]]]) -> None:
        """Go on from where another worker stands, in the same round."""
        arrays, version, taken = held
        self.load_trained(arrays, version)
        self._learner.taken = list(taken)

    def load_trained(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Continue with the variables ``arrays`` of another worker or a checkpoint, as ``version``. Raises CheckpointError."""
        self.prepare()
        self._learner.load(arrays, version)
        acting = {name: arrays[f"{DEFAULT_POLICY}/{name}"] for name in self._spec.weight_names()}
        self._own.load({DEFAULT_POLICY: acting}, version)

    def version(self) -> int:
        """Return the version of the present weights, which all workers have."""
        return self._own.version

    def publish(self) -> tuple[int, dict[str, np.ndarray]]:
        """Push the present weights to the parameter server to be scored; returns (version, every variable)."""
        version, weights = self._own.version, self._own.weights
        # There versions are counted by pushes, of which most are not needed here.
        self._server.call("load", weights, version - 1).result()
        self._server.call("push", weights, True).result()
        return version, self.trained()
