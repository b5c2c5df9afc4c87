"""What a learner trains: variables in a session, built once, saved, restored, and pushed to the parameter server.

Used by ``learner`` and ``batch_learner``, which say what is done with them. TensorFlow is imported with this module.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from drl_cli import events, plugins
from drl_cli.actors.part_records import LearnerIdentity
from drl_cli.actors.running_filters import Observed
from drl_cli.config.sections.common import CommonKeys
from drl_cli.config.sections.resources import gpus
from drl_cli.contracts import Call, Handle
from drl_cli.envs.plugin_calls import called
from drl_cli.errors import CheckpointError, Diverged, ResourcesExhausted
from drl_cli.extras import load
from drl_cli.policies import custom_distributions_tf, custom_models_tf
from drl_cli.policies.numpy_policy import DEFAULT_POLICY
from drl_cli.policies.policy_spec import PolicySpec
from drl_cli.schedules import value_at
from drl_cli.tf1.graph import BatchGraph
from drl_cli.tf1.polyak import new_pace
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import tf
from drl_cli.tf1.weights import RAY_CLASS, Weights

COMPILING = "compiling the update (XLA)"
_POWERS = {"lr": 1, "rate": 1, "kl": 2}
"""Last word of a rate's key → the power with which ``scale_rates`` counts: a divergence goes with the square of the step."""


class Trained:
    """An algorithm's graph and its session."""

    def __init__(
        self,
        config: CommonKeys,
        spec: PolicySpec,
        module: Any,
        initial: Mapping[str, np.ndarray],
        identity: LearnerIdentity,
        server: Handle,
    ) -> None:
        """``module``: the algorithm's graph, as its row names it; ``initial``: {name: array} of its first weights.

        ``identity``: dict(seed, with_ray, plugins: of ``plugins.registered``, or None; policy: its id); ``server``: handle of
        the parameter server.
        """
        plugins.adopt(identity.get("plugins"))
        self._config, self._spec, self._server = config, spec, server
        self._module, self._initial, self._identity = module, initial, identity
        self._policy = identity.get("policy", DEFAULT_POLICY)
        self._scope = self._policy + "/"
        self.updates = self._pushed_at = 0
        self._factor = 1.0  # of learning rates
        self._paced = None  # (operation that sets the pace of averages, its placeholder), once the graph is there
        self.version = 1  # the first weights were pushed when the parts were made

    def open(self, add: Callable[[Any], None], warm: Callable[[], Any]) -> None:
        """Build the graph and open its session.

        ``add(built)`` adds the operations that learn to what the graph module built; ``warm()`` runs them once, to compile
        them. Afterwards the variables have their first values, whatever ``warm`` did.
        """
        config = self._config
        events.report("learner", text="building the graph")
        self.graph = tf.Graph()
        # TensorFlow sets a GPU and its memory up once for a process, by the options of what comes first, and a tf.function that
        # is built has none: the session is opened before it.
        self.session = new_session(self.graph, config.tf_session_args.model_dump(exclude_none=True), gpus(config))
        custom_models_tf.check(self._spec)
        custom_distributions_tf.check(self._spec)
        with self.graph.as_default(), self.device():
            pace, given_pace = new_pace(), tf.placeholder(tf.float32, [], name="pace")
            set_pace = pace.assign(given_pace, read_value=False)
        with custom_models_tf.blamed(self._spec, bool(config.xla)), self.graph.as_default(), self.device():
            graph: Any = load(self._module)
            build: Any = graph if callable(graph) else graph.build
            own = not (isinstance(self._module, str) and self._module.startswith("drl_cli."))
            given = (config, self._spec, self._initial, self._identity["seed"], self._scope)
            built = called("The graph of this algorithm", build, *given) if own else build(*given)
            add(built)
            with tf.device("/CPU:0"):
                start = tf.variables_initializer([pace, *built.variables.values()])
        self.session.run(start)
        # The compiler runs outside of Python: what has to be imported from Ray is imported beside it.
        beside = threading.Thread(target=load, args=(RAY_CLASS,)) if self._identity["with_ray"] else None
        if beside:
            beside.start()
        events.report("learner", text=COMPILING if config.xla else "preparing the first update")
        with custom_models_tf.blamed(self._spec, bool(config.xla)):
            warm()
        self.session.run(start)
        if beside:
            beside.join()
        with self.graph.as_default():
            named = {variable.op.name: variable for variable in built.variables.values()}
            self._all = Weights(self.session, named, with_ray=False)
            published = {name: named[name] for name in built.published}
            self._published = Weights(self.session, published, self._identity["with_ray"])
            replaced = built.sampled if isinstance(built, BatchGraph) else {}
            # {variable that workers sample with: the published name that it gets}
            self._sources = {replaced.get(name, name): name for name in built.published} if replaced else {}
            sources = {name: named[name] for name in self._sources}
            self._sampling = Weights(self.session, sources, self._identity["with_ray"]) if replaced else None
            filters = {name: variable for name, variable in named.items() if name.startswith(self._scope + "filter/")}
            self._observed = Observed(self._spec, Weights(self.session, filters, with_ray=False), self._scope)
        self._paced = (set_pace, given_pace)
        self.scale_rates(self._factor)
        events.report("learner", text="")

    def observe(self, seen: Sequence[Any]) -> None:
        """Take note of what workers saw, a list of ``Token.seen``: it holds from the next push or ``filter_anew`` on."""
        self._observed.add(seen)

    def filter_anew(self) -> None:
        """Let the filters be what all that has been observed makes them."""
        self._observed.write()

    def device(self) -> Any:
        """The device that learns, to be entered while operations are added."""
        return tf.device("/GPU:0" if gpus(self._config) else "/CPU:0")

    def run(self, fetches: Any, feeds: dict[Any, Any], rates: Mapping[str, Any], env_steps: int) -> Any:
        """Run ``fetches`` with ``feeds``; ``rates``: {dotted key of the config: placeholder}, set to where they are by then."""
        for name, placeholder in rates.items():
            value = value_at(operator.attrgetter(name)(self._config), env_steps)
            feeds[placeholder] = value * self._factor ** _POWERS.get(name.rpartition("_")[2], 0)
        try:
            return self.session.run(fetches, feeds)
        except tf.errors.ResourceExhaustedError as error:
            raise ResourcesExhausted(f"TensorFlow ran out of memory: {error.message.splitlines()[0]}") from error

    def scale_rates(self, factor: float) -> None:
        """Multiply the learning rates of all further updates by ``factor``, a trust region by its square.

        Below 1 the steps of averaged weights are multiplied too: a good average must not follow a policy that is frozen
        in one of the swings that it averages. So is what the filters of observations and rewards learn from a step: a
        policy acts otherwise with other filters.
        """
        self._factor = factor
        if self._paced is not None:
            operation, placeholder = self._paced
            self.session.run(operation, {placeholder: min(1.0, factor)})
            self._observed.pace = min(1.0, factor)

    def made(self, updates: int, finite: bool) -> None:
        """Count ``updates`` that were made; Diverged when the one after them was not ``finite``."""
        self.updates += int(updates)
        if not finite:
            raise Diverged(
                f"Update {self.updates + 1} gave a loss or gradient that is not finite; it was not applied. Lower the "
                "learning rates, set grad_clip, or check for very large rewards."
            )

    @property
    def unpushed(self) -> int:
        """Updates since the last push."""
        return self.updates - self._pushed_at

    def publish(self) -> tuple[int, dict[str, np.ndarray]]:
        """Push the present weights to be scored; returns (version, state) of the same moment, for a checkpoint."""
        self.send(keep=True).result()
        return self.version, self.state()

    def push(self, keep: bool = False) -> int:
        """Push the present weights, to be kept for scoring with ``keep``; returns their version."""
        self.send(keep).result()
        return self.version

    def send(self, keep: bool) -> Call:
        """Push the present weights, to be kept for scoring with ``keep``; returns the reference of the call."""
        self._pushed_at = self.updates
        self.version += 1
        self.filter_anew()
        if self._sampling is None:
            return self._server.call("push", self._acting(self._published), keep)
        scored = self._acting(self._published) if keep else None
        return self._server.call("push", self._acting(self._sampling), keep, scored)

    def _acting(self, weights: Weights) -> dict[str, dict[str, np.ndarray]]:
        """Return ``weights`` as the parameter server takes them, under the names that the policy has for them."""
        values = weights.get()
        return {self._policy: {self._sources.get(n, n).removeprefix(self._scope): value for n, value in values.items()}}

    def state(self) -> dict[str, np.ndarray]:
        """Return {name: array} of every variable: nets, targets, optimiser slots, temperature, counters."""
        self.filter_anew()
        return self._all.get()

    def load(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Continue from ``state`` of a learner with the same nets, after the push of ``version``.

        Where workers sample with other weights than the published ones, the parameter server gets them. CheckpointError when
        names or shapes differ.
        """
        try:
            self._all.set(arrays)
        except ValueError as error:
            raise CheckpointError(f"The checkpoint's weights do not fit this run's nets: {error}") from error
        self._observed.read()
        self.version = version
        self.updates = self._pushed_at = int(arrays[self._scope + "num_updates"])
        if self._sampling is not None:
            self._server.call("load", self._acting(self._sampling), version).result()
