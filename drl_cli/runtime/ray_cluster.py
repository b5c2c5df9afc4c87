"""The same verbs as ``runtime.cluster`` over Ray actors (``ray_actors``). The only file that starts, joins or ends Ray.

A Ray of our own is started for a run and ended with it: on loopback, without dashboard, with a token that only this
process tree knows, in a short temporary folder of ours. With an address, or inside a process that has initialised Ray,
it joins and neither configures nor shuts Ray down.

Sources: Ray 2.60 ``ray.init``; token authentication in its security documentation; socket addresses measured.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from drl_cli import process
from drl_cli.actors import node_weights
from drl_cli.contracts import Handle
from drl_cli.errors import (
    ClusterUnavailable,
    ResourcesExhausted,
    machine_failure,
)
from drl_cli.runtime.cluster import (
    HERE,
    THREAD,
    LocalHandle,
    ThreadHandle,
    close,
)
from drl_cli.runtime.ray_actors import RemoteHandle, Shell, first_line
from drl_cli.runtime.ray_folder import private_folder

OBJECT_STORE_BYTES = 256 * 2**20  # fragments are small and few are in flight
REPEATS = 3  # of one call to a part that is started again
DAEMONS, LOOK_S = ("raylet", "gcs_server"), 0.1  # whose end is the end of a Ray, and how often they are looked at
KNOCK_S = 10.0  # for a cluster's address to answer at all
GCS_KNOCK_S = 1.0  # for an answer
GCS_LOOK_S, GCS_S = 5.0, 40.0  # how often the GCS of a joined cluster is knocked at, and for how long it may be gone


class RayCluster:
    """Parts as Ray actors, or in this process."""

    is_remote = True
    _is_broken = False  # a daemon of our Ray has ended: no call to Ray returns soon
    _gcs = ""  # host:port of the GCS of a cluster that was joined
    _knocked = 0.0  # when it was last knocked at
    _silent: float | None = None  # since when it does not answer

    def __init__(self, options: Mapping[str, Any], num_cpus: float) -> None:
        """``options``: dict(address, num_cpus, num_gpus, object_store_memory, queue_trials, log_to_driver), None: not given.

        ``num_cpus`` is the demand: a Ray of our own counts so many, on purpose more than there are cores.
        """
        self.is_patient = bool(options.get("queue_trials"))  # workers that find no place are waited for without end
        self._folder = None
        self._handles = []
        self.is_hurried = False  # when it is closed: the run is to end now
        self.check = lambda: None  # called whenever something is waited for; may raise
        self._woken = threading.Condition()
        self._wakes = 0
        self._owned = False
        self._daemons: dict[int, str] = {}  # {process id: name} of Ray's own here that the run does not go on without
        self._looked = 0.0  # when they were last looked at
        if ray.is_initialized():
            return
        # What a call raised is read off one of the references that it returns; Ray would print a traceback for the others.
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        with process.signal_handlers_kept():
            if options.get("address"):
                self._join(options["address"])
            else:
                self._start(options, num_cpus)

    def _join(self, address: str) -> None:
        advice = "Start one with: ray start --head"
        try:
            _knock(address)
            if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
                advice = (
                    "Something listens there; a cluster that was started with a token wants it here too: "
                    "RAY_AUTH_MODE=token RAY_AUTH_TOKEN=... drl train ..."
                )
            ray.init(
                address=address, log_to_driver=False, configure_logging=False, namespace=f"drl-{secrets.token_hex(4)}"
            )
        except Exception as error:  # Ray raises plain ones as well
            raise ClusterUnavailable(
                f"No Ray cluster could be joined at --ray-address {address}: {first_line(error).rstrip('. ')}. {advice}"
            ) from error
        self._owned = True
        here = ray.get_runtime_context()
        self._gcs = here.gcs_address
        sockets = [node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == here.get_node_id()]
        self._daemons = _raylets(sockets)

    def _start(self, options: Mapping[str, Any], num_cpus: float) -> None:
        self._folder = private_folder()
        process.temporary_folders.append(self._folder)
        given = {name: options[name] for name in ("num_gpus",) if options.get(name) is not None}
        try:
            ray.init(
                address="local",
                num_cpus=int(options.get("num_cpus") or num_cpus),
                object_store_memory=int(options.get("object_store_memory") or OBJECT_STORE_BYTES),
                include_dashboard=False,
                log_to_driver=bool(options.get("log_to_driver")),
                configure_logging=False,
                namespace=f"drl-{secrets.token_hex(4)}",
                _temp_dir=str(self._folder),
                **given,
            )
        except Exception as error:  # Ray raises plain ones as well, where a daemon takes too long to start
            self._remove_folder()
            if reason := machine_failure(error):
                raise ResourcesExhausted(f"Ray could not be started: {reason}") from error
            raise ClusterUnavailable(
                f"Ray could not be started: {first_line(error).rstrip('.')}. Run the command again, "
                "or in one process with -s num_workers=0."
            ) from error
        self._owned = True
        named = {pid: stat[0] for pid in self._processes() if (stat := process.stat_of(pid))}
        self._daemons = {pid: name for pid, name in named.items() if name in DAEMONS}

    def spawn(
        self, name: str, factory: Any, args: tuple, place: str, resources: Mapping[str, Any] | None = None
    ) -> Handle:
        """Make the part ``factory`` ("module:Class") with ``args`` at ``place``; returns its handle.

        ``resources``: dict(num_cpus, num_gpus, resources, memory, runtime_env) of an actor, by default none of Ray's count;
        ``pinned`` True places it on the driver's node, ``near`` there if that node has the resources; ``restarts`` starts it
        again when its process is lost. Inside the placement group of a search's trial every actor takes what the trial has
        reserved, and ends with the group.
        """
        if place == HERE:
            handle = LocalHandle(name, factory, args)
        elif place == THREAD:
            handle = ThreadHandle(name, factory, args)
        else:
            self._await_gcs()
            wanted: dict[str, Any] = {"num_cpus": 0, **(resources or {})}
            pinned, near = wanted.pop("pinned", False), wanted.pop("near", False)
            if pinned or near:
                wanted |= _near_the_driver(pinned)
            # A call to a part without a state of its own is repeated where its process was lost.
            again = (-1, REPEATS) if wanted.pop("restarts", False) else (0, 0)
            # The class's name is what ps and Ray's tools show of the process.
            kind = type(name.title().replace(" ", ""), (Shell,), {})
            actor = (
                ray.remote(kind)
                .options(max_restarts=again[0], max_task_retries=again[1], **wanted)
                .remote(name, factory, args)
            )
            handle = RemoteHandle(name, actor, self._check_daemons)
        self._handles.append(handle)
        return handle

    def wait(self, references: Any, timeout: float | None = None) -> list[Any]:
        """Return those of ``references`` that are done, waiting up to ``timeout`` seconds for the first of them.

        Raises ClusterUnavailable where a daemon of our Ray has ended: Ray itself would wait for another one for minutes.
        """
        self.check()
        self._check_daemons()
        for reference in references:
            if not reference.watched:
                reference.watched = True
                reference.future.add_done_callback(self._wake)
        until = None if timeout is None else time.monotonic() + timeout
        with self._woken:
            while True:
                done = [reference for reference in references if reference.future.done()]
                left = None if until is None else until - time.monotonic()
                if done or (left is not None and left <= 0):
                    return done
                self._woken.wait(left)

    def _check_daemons(self) -> None:
        """Raise ClusterUnavailable where a daemon has ended, at most every ``LOOK_S`` seconds.

        Called before every call to a part too: Ray ends a process without a word that puts something into the store of a raylet
        that is gone.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        ended = [name for pid, name in self._daemons.items() if (process.stat_of(pid) or ("",))[0] != name]
        if ended:
            self._is_broken = True
            raise ClusterUnavailable(
                f"Ray's {' and '.join(ended)} ended (killed, or this machine ran out of memory), and with it this run's Ray."
            )
        if self._gcs and now - self._knocked >= GCS_LOOK_S:
            self._knocked = now
            self._check_gcs(now)

    def _check_gcs(self, now: float) -> None:
        """Raise where the GCS is gone for good: one that is fault-tolerant comes back, and after 60 s Ray ends this process."""
        try:
            _knock(self._gcs, GCS_KNOCK_S)
        except OSError as error:
            self._silent = now if self._silent is None else self._silent
            if now - self._silent >= GCS_S:
                self._is_broken = True
                raise ClusterUnavailable(
                    f"The cluster's GCS at {self._gcs} has not answered for {now - self._silent:.0f} s: {first_line(error)}"
                ) from error
        else:
            self._silent = None

    def _await_gcs(self) -> None:
        """Return once the GCS of a joined cluster answers. Ray's calls of it wait inside, until Ray ends the process."""
        while self._gcs:
            self._check_gcs(time.monotonic())
            if self._silent is None:
                return
            time.sleep(GCS_KNOCK_S)

    def _wake(self, _: Any) -> None:
        with self._woken:
            self._wakes += 1
            self._woken.notify_all()

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return (all, available) resources of the cluster, {name: amount}."""
        self._await_gcs()
        return ray.cluster_resources(), ray.available_resources()

    def nodes(self) -> list[Mapping[str, float]]:
        """Return {name: amount} of the resources of each node."""
        self._await_gcs()
        return [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def kill(self, handle: Any) -> None:
        """End a part; an actor's process is killed."""
        if not handle.is_remote:
            handle.close()
        elif ray.is_initialized():  # where there is no Ray, ``ray.kill`` would start one
            ray.kill(handle.actor, no_restart=True)
        if handle in self._handles:
            self._handles.remove(handle)

    def close(self) -> None:
        """End all parts, and Ray if it is ours."""
        try:
            for handle in reversed(self._handles):
                if not handle.is_remote:
                    close(handle, self.is_hurried)
                elif ray.is_initialized() and not self._is_broken:  # as in ``kill``
                    with contextlib.suppress(RayError):  # Ray itself may be what broke; the rest is ended all the same
                        ray.kill(handle.actor, no_restart=True)
            self._handles.clear()
        finally:
            if self._owned and ray.is_initialized():
                workers = self._workers()
                if (
                    self._is_broken
                ):  # what is left of it would be waited for; its orphans are no longer below the raylet
                    process.kill_descendants()
                ray.shutdown()
                for pid in workers:
                    with contextlib.suppress(OSError):  # it has just ended
                        os.kill(pid, signal.SIGKILL)
            self._remove_folder()
            node_weights.remove_leftovers()

    def _workers(self) -> list[int]:
        """Return the processes below our Ray's own: they notice only seconds later, on a busy machine, that it has ended."""
        return [worker for pid in self._processes() for worker in process.descendants(pid)]

    def _processes(self) -> list[int]:
        """Return our Ray's own processes: those that its folder was given to."""
        found = []
        for pid in process.descendants() if self._folder else ():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                if str(self._folder).encode() in file.read():
                    found.append(pid)
        return found

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            process.temporary_folders[:] = [path for path in process.temporary_folders if path != self._folder]
            self._folder = None


def _near_the_driver(pinned: bool) -> dict[str, Any]:
    """Return the options that place an actor on the driver's node, as what holds state is: a lost node then costs workers only.

    Not ``pinned``: only if that node has its resources. In a placement group a pinned actor gets the bundle of the group that
    is on this node; another one whichever bundle has its resources, as Ray does for all children of the group's actors.
    """
    here = ray.get_runtime_context().get_node_id()
    group = ray.util.get_current_placement_group()
    if group is None:
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=not pinned)}
    if not pinned:
        return {}
    nodes = ray.util.placement_group_table(group)["bundles_to_node_id"]
    own = min((index for index, node in nodes.items() if node == here), default=None)
    if own is None:  # the driver is no part of the group
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False)}
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=own)}


def _raylets(sockets: list[str]) -> dict[int, str]:
    """Return {process id: name} of the raylets of this machine that listen on ``sockets``."""
    wanted = {f"--raylet_socket_name={path}".encode() for path in sockets}
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            if wanted.intersection(path.read_bytes().split(b"\0")) and (stat := process.stat_of(int(path.parent.name))):
                found[int(path.parent.name)] = stat[0]
    return found


def _knock(address: str, seconds: float = KNOCK_S) -> None:
    """Raise OSError when nothing listens at host:port. Ray itself would try again in silence for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
