"""The TensorFlow form of registered action distributions (``policies.custom_distributions``): for learning, and checked first.

Used by ``policies.distributions_tf``, which builds graphs with it, and by ``actors.session_state``, which has it compared
with the NumPy form before the first update. With draws a ~ p of the NumPy form, at a few random heads, a right pair has

- the same log p(a) in both forms,
- E[∂ log p(a) / ∂heads] = 0, as of every density whose support does not depend on the heads (the score function): otherwise
  ``sample`` draws from another distribution than ``logp`` says, or ``logp`` lacks a term such as that of a change of variables,
- E[−log p(a)] for its entropy, and E[log p(a) − log q(a)] for its KL, q at other heads, unless it says ``approximate``.

Expectations are means over DRAWS draws, and are compared within six of their standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs.plugin_calls import called
from drl_cli.errors import ConfigError, PluginFailed
from drl_cli.extras import load
from drl_cli.plugins import lacking
from drl_cli.policies import custom_distributions
from drl_cli.policies.custom_distributions import ROWS, TF_METHODS, TOLERANCE
from drl_cli.policies.custom_models_tf import first_line
from drl_cli.tf1.session import new_session
from drl_cli.tf1.tensorflow import Tensor, tf

if TYPE_CHECKING:
    from drl_cli.policies.custom_distributions import CustomDistribution
    from drl_cli.policies.forward_tf import Tensors
    from drl_cli.policies.policy_spec import PolicySpec

DRAWS = 2000  # of each row
ERRORS, SLACK = 6.0, 0.02  # standard errors, and beside them nats relative to 1 + the number
_ONE_THREAD = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1, "device_count": {"GPU": 0}}


class TFCustomDistribution:
    """The registered distribution of a spec over graph tensors; what its class does wrong is a ConfigError of one line."""

    def __init__(self, spec: PolicySpec) -> None:
        """``spec``: PolicySpec with ``custom``. Raises ConfigError where the class cannot be loaded or made."""
        self._twin = custom_distributions.of(spec)
        self._names = [head for head, _ in self._twin.heads]
        form = self._twin.registered.graph
        made = self._called("its TensorFlow class", load, form) if isinstance(form, str) else form
        missing = lacking(made, *TF_METHODS)
        if missing:
            self._twin.refuse(f"its TensorFlow class {form} has no {missing[0]}")
        self._own = self._called("its TensorFlow class", made, tf, spec.action, self._twin.options)
        self.approximate = bool(getattr(self._own, "approximate", False))

    def logp(self, heads: Tensors, action: Tensor) -> Tensor:
        """Return the log-probability of ``action`` [B, …], [B]."""
        return self._asked("logp", self._of(heads), action)

    def entropy(self, heads: Tensors) -> Tensor:
        """Return the entropy, [B]."""
        return self._asked("entropy", self._of(heads))

    def kl(self, old: Tensors, new: Tensors) -> Tensor:
        """Return KL(old ‖ new), [B]."""
        return self._asked("kl", self._of(old), self._of(new))

    def greedy(self, heads: Tensors) -> Tensor | None:
        """Return the action without exploration, [B, …], None where the class does not have it."""
        if lacking(self._own, "greedy"):
            return None
        return self._called("greedy of its TensorFlow class", self._own.greedy, self._of(heads))

    def _of(self, heads: Tensors) -> dict[str, Tensor]:
        return {head: heads[head] for head in self._names}

    def _asked(self, method: str, *args: Any) -> Tensor:
        what = f"{method} of its TensorFlow class"
        found = self._called(what, lambda: tf.convert_to_tensor(getattr(self._own, method)(*args)))
        rows = args[0][self._names[0]].shape[0]
        if found.dtype != tf.float32 or not found.shape.is_compatible_with([rows]):
            self._twin.refuse(f"{what} returned {found.dtype.name} of shape {found.shape}, not float32 [rows]")
        found.set_shape([rows])
        return found

    def _called(self, what: str, function: Any, *args: Any) -> Any:
        try:
            return called(f"{self._twin.about}: {what}", function, *args)
        except PluginFailed as error:
            raise ConfigError(str(error)) from error


def greedy_action(spec: PolicySpec, heads: Tensors) -> Tensor:
    """Return the action without exploration as the policy counts it, [B, …]. Raises ConfigError where the class has none."""
    made = TFCustomDistribution(spec)
    found = made.greedy(heads)
    if found is None:
        custom_distributions.of(spec).refuse("an export needs greedy(heads) of its TensorFlow class, which has none")
    return tf.cast(found, spec.action.dtype)


def check(spec: PolicySpec) -> None:
    """Refuse (ConfigError) a registered distribution of ``spec`` whose two forms are not one distribution; see the module."""
    if not spec.custom:
        return
    twin = custom_distributions.of(spec)
    one, other = (_tiled(twin.trial_heads(seed)) for seed in (0, 1))
    try:
        with np.errstate(all="ignore"):
            action = twin.sample(one, np.random.default_rng(2))
            expected, beside = twin.logp(one, action), twin.logp(other, action)
    except PluginFailed as error:
        raise ConfigError(str(error)) from error
    found = _run(TFCustomDistribution(spec), twin, (one, other, action))
    for name, values in found.items():
        if not np.isfinite(values).all():
            twin.refuse(f"{name} of its TensorFlow class is not finite for an action that sample drew")
    _compare(twin, "logp", expected, found["logp"])
    for head, slopes in twin_slopes(found).items():
        _expect_zero(twin, head, slopes)
    if not TFCustomDistribution(spec).approximate:
        _expect(twin, "entropy", found["entropy"], -expected.astype(float))
        _expect(twin, "kl", found["kl"], expected.astype(float) - beside)
    if np.abs(found["kl of equals"]).max() > TOLERANCE:
        twin.refuse(
            f"kl of its TensorFlow class is {np.abs(found['kl of equals']).max():.3g} between equal heads, not 0"
        )


def twin_slopes(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return {head: gradients of logp [N, size]} of what ``_run`` found."""
    return {
        name.partition(" by ")[2]: values for name, values in found.items() if name.startswith("gradient of logp by ")
    }


def _tiled(heads: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each row DRAWS times, row by row, [ROWS · DRAWS, size]."""
    return {head: np.repeat(values, DRAWS, axis=0) for head, values in heads.items()}


def _run(
    made: TFCustomDistribution, twin: CustomDistribution, given: tuple[Any, Any, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return {name: array} of everything that is compared, all rows."""
    one, other, action = given
    graph = tf.Graph()
    with graph.as_default(), tf.device("/CPU:0"):
        old = {head: tf.placeholder(tf.float32, values.shape) for head, values in one.items()}
        new = {head: tf.placeholder(tf.float32, values.shape) for head, values in other.items()}
        taken = tf.placeholder(action.dtype, action.shape)
        fetches = {"logp": made.logp(old, taken), "entropy": made.entropy(old), "kl": made.kl(old, new)}
        fetches["kl of equals"] = made.kl(old, old)
        fetches |= _slopes(twin, fetches["logp"], old, "logp")
        _slopes(twin, fetches["entropy"] + fetches["kl"], old, "entropy and kl")
        greedy = made.greedy(old)
        if greedy is not None:
            fetches["greedy"] = greedy
    feeds = {old[head]: values for head, values in one.items()}
    feeds |= {new[head]: values for head, values in other.items()} | {taken: action}
    session = new_session(graph, _ONE_THREAD)
    try:
        found = session.run(fetches, feeds)
    except tf.errors.OpError as error:
        twin.refuse(f"its TensorFlow class failed: {first_line(error)}")
    finally:
        session.close()
    greedy = found.pop("greedy", None)
    if greedy is not None and (
        greedy.shape != action.shape or not np.allclose(greedy, twin.greedy(one), atol=TOLERANCE)
    ):
        twin.refuse(
            f"greedy differs between its NumPy and its TensorFlow class, {greedy.dtype} of shape {greedy.shape}"
        )
    return found


def _slopes(twin: CustomDistribution, of: Tensor, heads: Tensors, what: str) -> dict[str, Tensor]:
    """Return {"gradient of logp by HEAD": [N, size]}; refuses a head that no gradient reaches."""
    try:
        slopes = tf.gradients(of, list(heads.values()))
    except LookupError as error:  # an operation without a gradient
        twin.refuse(f"{what} of its TensorFlow class cannot be differentiated: {str(error).splitlines()[0][:200]}")
    for head, slope in zip(heads, slopes, strict=True):
        if slope is None and what == "logp":
            twin.refuse(
                f"no gradient of {what} reaches the head {head}: its TensorFlow class does not use it, or stops it"
            )
    given = [(head, slope) for head, slope in zip(heads, slopes, strict=True) if slope is not None]
    return {f"gradient of {what} by {head}": tf.convert_to_tensor(slope) for head, slope in given}


def _compare(twin: CustomDistribution, what: str, numpy: np.ndarray, graph: np.ndarray) -> None:
    apart = np.abs(numpy - graph) / (1.0 + np.abs(numpy))
    if not apart.max() <= TOLERANCE:
        worst = int(np.argmax(apart))
        twin.refuse(
            f"its NumPy and its TensorFlow class are not the same distribution: {what} of the same action and heads is "
            f"{numpy[worst]:.5g} in NumPy and {graph[worst]:.5g} in TensorFlow"
        )


def _expect(twin: CustomDistribution, what: str, said: np.ndarray, draws: np.ndarray) -> None:
    """Refuse ``said`` [N], equal in the draws of a row, where it is not the mean of ``draws`` [N]."""
    rows, said = draws.reshape(ROWS, DRAWS), said.reshape(ROWS, DRAWS)[:, 0]
    if not np.isfinite(rows).all():
        return  # the other density is 0 somewhere: no mean to compare with
    mean, error = rows.mean(axis=1), rows.std(axis=1) / np.sqrt(DRAWS)
    apart = np.abs(said - mean) - ERRORS * error - SLACK * (1.0 + np.abs(mean))
    if apart.max() > 0:
        worst = int(np.argmax(apart))
        twin.refuse(
            f"{what} of its TensorFlow class is {said[worst]:.4g}, and {DRAWS} draws say {mean[worst]:.4g}, with a standard "
            f"error of {error[worst]:.2g}. Where there is no closed form, set approximate = True in that class"
        )


def _expect_zero(twin: CustomDistribution, head: str, slopes: np.ndarray) -> None:
    rows = slopes.reshape(ROWS, DRAWS, -1).astype(float)
    mean, spread = rows.mean(axis=1), rows.std(axis=1)
    apart = np.abs(mean) - ERRORS * spread / np.sqrt(DRAWS) - SLACK * (1e-3 + spread)
    if apart.max() > 0:
        twin.refuse(
            f"sample and logp are not of one distribution: over {DRAWS} draws the gradient of logp by the head {head} has the "
            f"mean {mean.flat[int(np.argmax(apart))]:.3g} instead of 0. Does logp lack a term, such as that of a change of "
            "variables?"
        )
