"""An environment in a process of its own, for ``remote_worker_envs``: the side of the worker.

Used by ``envs.env_batch``, and by ``envs.multi_agent.remote_agents`` for several agents. ``begin`` sends an action, so that
all environments of a worker compute at once; ``step`` then waits for the answer. What comes back is what the environment would
have returned here, to the bit, and what it raises is raised here under its own name; a process that dies costs the running
episode. The other side is ``remote_env_process``.

A message is a letter and bytes, over a socket that only these two hold; nothing is pickled. Arrays go as dtype, shape, bytes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.envs import preprocessors, remote_env_process, remote_plugins
from drl_cli.envs.remote_env_process import STEPPED, pack, unpack
from drl_cli.errors import EnvError, RaisedElsewhere

if TYPE_CHECKING:
    import gymnasium

    from drl_cli.config.sections.common import CommonKeys
    from drl_cli.envs.env_spec import EnvSetup

PATIENCE_S = 5.0  # of an end in good order


class RemoteProcess:
    """A process that holds an environment: messages go there, answers come back. ``remote_env_process`` is the other side.

    is_new: whether the environment has not been reset yet.
    """

    def __init__(self, setup: EnvSetup) -> None:
        """Start the process, and begin to make the environment of ``setup``, without waiting for it."""
        self._setup, self._is_made, self._timeout_s = setup, False, setup.get("timeout_s")
        ours, theirs = socket.socketpair()
        # The process finds what this one finds: modules of the current folder too.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-m", remote_env_process.__name__, str(theirs.fileno())]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=2, env=environ
            )
        finally:
            theirs.close()
        self._line = Connection(ours.detach())
        self.is_new = False
        self.renew()

    def renew(self) -> None:
        """Begin to make the environment anew, without waiting for it."""
        asked = {name: self._setup.get(name) for name in ("id", "env_config", "preprocessing", "imports")}
        if "agents" in self._setup:
            asked["agents"] = {name: self._setup["agents"][name] for name in ("kind", "count")}
        asked["registered"] = remote_plugins.references(self._setup)
        self._is_made, self.is_new = False, True
        self.send(b"M" + json.dumps(asked).encode("utf-8"))

    def is_alive(self) -> bool:
        """Whether it is there."""
        return self._process.poll() is None

    def reset(self, seed: int | None) -> bytes:
        """Reset the environment; returns the answer. Raises what it raises."""
        self.await_made()
        self.is_new = False
        self.send(b"R" + json.dumps(seed).encode("ascii"))
        return self.answer()

    def close(self) -> None:
        """End the environment and its process."""
        self.send(b"C")
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line.close()

    def await_made(self) -> None:
        """Wait until the environment is made. Raises what making it raised."""
        if not self._is_made:
            self.is_new = False  # where it cannot be made, it is to be made again
            self.answer()
            self._is_made = self.is_new = True

    def send(self, message: bytes) -> None:
        """Send a message; the next ``answer`` is the one to it."""
        try:
            self._line.send_bytes(message)
        except OSError:
            return  # it has died: the next ``answer`` raises

    def answer(self) -> bytes:
        """Wait for an answer. Raises what the environment raised, EnvError where the process has died, or took too long."""
        try:
            if not self._line.poll(self._timeout_s):
                self._process.kill()
                self._process.wait()
                raise EnvError(f"no answer for {self._timeout_s:g} s (env_timeout_s): its process was killed")
            answer = self._line.recv_bytes()
        except (EOFError, OSError):
            raise EnvError(f"its process died{self._how()}") from None
        if answer[:1] == b"E":
            raised = json.loads(answer[1:])
            raise type(raised["type"], (RaisedElsewhere,), {"place": raised["place"]})(raised["text"])
        return answer[1:]

    def _how(self) -> str:
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:  # it hangs in its own end: there is no code to name
            return ""
        return f" by signal {-code}" if code < 0 else f" with code {code}"


class RemoteEnv:
    """``reset``, ``step`` and ``close`` of an environment elsewhere, and what is known of it.

    setup: as EnvSetup. spaces: its observation and action space. goes_on: whether the
    episode that has just ended was a life of a game that goes on. is_new: whether it has not been reset yet.
    """

    def __init__(self, setup: EnvSetup, spaces: tuple[gymnasium.Space, gymnasium.Space]) -> None:
        self.observation_space, self.action_space = spaces
        self.goes_on, self._begun = False, False
        self._process = RemoteProcess(setup)
        self.is_alive, self.await_made, self.close = (
            self._process.is_alive,
            self._process.await_made,
            self._process.close,
        )

    @property
    def is_new(self) -> bool:
        """Whether it has not been reset yet."""
        return self._process.is_new

    def renew(self) -> None:
        """Begin to make the environment anew, without waiting for it."""
        self.goes_on = False
        self._process.renew()

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; returns (observation, {})."""
        return unpack(self._process.reset(seed)), {}

    def begin(self, action: np.ndarray) -> None:
        """Send an action; the answer is that of the next ``step``."""
        self._process.send(b"S" + pack(np.asarray(action)))
        self._begun = True

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Return (observation, reward, terminated, truncated, {}) of ``action``, or of the one that was begun."""
        if not self._begun:
            self.begin(action)
        self._begun = False
        answer = self._process.answer()
        reward, terminated, truncated, self.goes_on = STEPPED.unpack_from(answer)
        return unpack(answer[STEPPED.size :]), reward, terminated, truncated, {}


def misfits(config: CommonKeys, facts: Mapping[str, Any]) -> list[str]:
    """Return one line for each key that asks for something of an environment that stays in its process.

    ``facts``: id, env_config and preprocessing of the environment; what these name has to be known in that process.
    """
    from drl_cli.config.sections.rollout import RolloutKeys  # playing a checkpoint needs this file and no schema

    if not isinstance(config, RolloutKeys) or not config.remote_worker_envs or config.num_envs_per_worker < 2:
        return []
    film = "Record the learnt policy: drl rollout CHECKPOINT --video-dir DIR"
    kept = {
        "record_env": f"with remote_worker_envs the environments cannot be rendered. {film}",
        "render_env": f"with remote_worker_envs the environments cannot be rendered. {film}",
        "callbacks": "with remote_worker_envs the infos of a step stay in its process. Leave out one of them; num_workers too "
        "makes environments step at once.",
    }
    found = [f"{name}: {why}" for name, why in kept.items() if getattr(config, name)]
    return found + remote_plugins.misfits(facts)


def game_goes_on(env: gymnasium.Env | RemoteEnv) -> bool:
    """Whether the episode that has just ended was a life of a game that goes on with the next reset."""
    return env.goes_on if isinstance(env, RemoteEnv) else preprocessors.goes_on(env)
