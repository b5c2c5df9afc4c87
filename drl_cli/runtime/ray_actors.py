"""Parts in Ray actors: what runs in an actor's process, and what the driver holds of it. Used by ``ray_cluster``."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from drl_cli import process
from drl_cli.errors import ClusterUnavailable, DrlError, RunFailed
from drl_cli.extras import load
from drl_cli.runtime.cluster import PartFailed, PartLost, resolved, shown


class Shell:
    """What runs in an actor's process: makes the part there and passes calls on to it."""

    def __init__(self, name: str, factory: Any, args: tuple) -> None:
        process.prepare()
        # A terminal sends Ctrl-C to the whole process group; only the driver decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._name = name
        self._part = self._failure = None
        try:
            made: Any = load(factory)
            self._part = made(*args)
        except Exception as error:  # every call reports it; raised here it would look as if the process had died
            self._failure = shown(name, error)

    def invoke(self, method: str, *args: Any) -> Any:
        """Call the part's ``method``."""
        if self._failure is not None:
            raise self._failure
        try:
            return getattr(self._part, method)(*args)
        except PartLost as lost:  # another part: it must not be taken for this one
            raise RunFailed(str(lost)) from None
        except Exception as error:
            raise shown(self._name, error) from None

    def ready(self) -> int:
        """Return the process id, once the part is made."""
        return os.getpid()

    def node(self) -> str:
        """Return Ray's id of the node that the process runs on."""
        return ray.get_runtime_context().get_node_id()


class RemoteReference:
    """The outcome of a call to an actor."""

    watched = False  # whether a cluster wakes when it is done

    def __init__(self, name: str, reference: ray.ObjectRef) -> None:
        self._name = name
        self.reference = reference
        self._future = None

    @property
    def future(self) -> Future:
        """A ``concurrent.futures.Future`` of the value; asking for it fetches the value when it is there."""
        if self._future is None:
            self._future = self.reference.future()
        return self._future

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        if self._future is not None:
            return self._future.done()
        return bool(ray.wait([self.reference], timeout=0)[0])

    def result(self, timeout: float | None = None) -> Any:
        """Return the value, or raise what the call raised; PartLost when the actor's process died."""
        try:
            return ray.get(self.reference, timeout=timeout)
        except RayTaskError as error:
            cause = error.cause
            raise cause if isinstance(cause, DrlError) else PartFailed(f"{self._name} failed: {cause!r}") from None
        except RayActorError as error:
            if lacking := _not_importable(error):
                raise RunFailed(
                    f"{self._name} cannot be started in a process of Ray's: {lacking}. What is registered must be "
                    "importable there: start from the folder of its module, install it, or name its folder in PYTHONPATH."
                ) from None
            raise PartLost(self._name, first_line(error)) from None
        except TimeoutError:
            raise
        except RayError as error:
            raise ClusterUnavailable(f"Ray failed in a call to {self._name}: {first_line(error)}") from error


class RemoteHandle:
    """A part in an actor; travels to other actors."""

    is_remote = True

    def __init__(self, name: str, actor: Any, before: Callable[[], object] = lambda: None) -> None:
        """``before``: called before each call of this process; it does not travel."""
        self.name = name
        self.actor = actor
        self._before = before

    def __reduce__(self) -> tuple[type[RemoteHandle], tuple[str, Any]]:
        """What travels."""
        return RemoteHandle, (self.name, self.actor)

    def call(self, method: str, *args: Any, returns: int = 1) -> Any:
        """As ``LocalHandle.call``; references to objects on the cluster are passed on unread."""
        self._before()
        passed = [arg.reference if isinstance(arg, RemoteReference) else resolved([arg])[0] for arg in args]
        made = self.actor.invoke.options(num_returns=returns).remote(method, *passed)
        if returns == 1:
            return RemoteReference(self.name, made)
        return tuple(RemoteReference(self.name, one) for one in made)

    def ready(self) -> RemoteReference:
        """Return a reference to the process id that is done when the part has been made."""
        return RemoteReference(self.name, self.actor.ready.remote())

    def node_key(self) -> str:
        """Return a name for the part and the node of this process."""
        return f"{self.actor._actor_id.hex()}-{ray.get_runtime_context().get_node_id()}"

    def node(self) -> RemoteReference:
        """Return a reference to Ray's id of the node that the part is on."""
        return RemoteReference(self.name, self.actor.node.remote())


def _not_importable(error: BaseException) -> str | None:
    """Return what could not be imported where an actor's arguments were unpacked, None where it died of something else.

    ``Shell`` raises nothing: what stops it from being made is code that is not there, and never will be.
    """
    if "creation task" not in str(error):
        return None
    last = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
    return last.rstrip(".") if last.startswith(("ModuleNotFoundError", "ImportError", "AttributeError")) else None


def first_line(error: BaseException) -> str:
    """Return the first line of an error of Ray's, its class's name if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
