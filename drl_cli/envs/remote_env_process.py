"""An environment in a process of its own: the side of the environment. Run as a module by ``envs.remote_env``.

Reads a message, answers it, until the other side hangs up. What the environment prints goes to stderr. The first letter says
what to do: M make, R reset, S step, C close; an answer begins with O, or with E and what was raised.
"""

from __future__ import annotations

import json
import math
import signal
import struct
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from drl_cli.envs import make, preprocessors, remote_plugins
from drl_cli.envs.env_smoke_test import close
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.multi_agent_env import MultiAgentEnv
from drl_cli.envs.steps import as_action, as_number
from drl_cli.errors import place_of

STEPPED = struct.Struct("<d???")  # reward, terminated, truncated, whether the episode was a life of a game that goes on


def pack(array: np.ndarray) -> bytes:
    """Return an array as bytes that say its dtype and shape."""
    header = f"{array.dtype.str} {','.join(map(str, array.shape))}\n".encode("ascii")
    return header + np.ascontiguousarray(array).tobytes()


def unpack(data: bytes) -> np.ndarray:
    """Return the array of ``pack``, its own copy."""
    header, _, body = bytes(data).partition(b"\n")
    kind, _, shape = header.decode("ascii").partition(" ")
    sizes = [int(size) for size in shape.split(",") if size]
    return np.frombuffer(body, np.dtype(kind), math.prod(sizes)).reshape(sizes).copy()


def pack_by_agent(arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return arrays by agent as bytes, with the plain ``facts`` beside them."""
    bodies = [pack(np.asarray(array)) for array in arrays.values()]
    header = {"sizes": dict(zip(arrays, map(len, bodies), strict=True)), "facts": facts}
    return json.dumps(header).encode("ascii") + b"\n" + b"".join(bodies)


def unpack_by_agent(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays by agent and the facts of ``pack_by_agent``."""
    first, _, rest = bytes(data).partition(b"\n")
    header, arrays, start = json.loads(first), {}, 0
    for agent, size in header["sizes"].items():
        arrays[agent] = unpack(rest[start : start + size])
        start += size
    return arrays, header["facts"]


class Host:
    """The environment and the answers to messages about it."""

    def __init__(self) -> None:
        self._env: Any = None  # a gymnasium.Env or a MultiAgentEnv, once the first message has asked for it

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message, or raise what the environment raises."""
        kind, rest = message[:1], message[1:]
        if kind == b"M":
            self._make(json.loads(rest))
            return b""
        if isinstance(self._env, MultiAgentEnv):
            return self._of_agents(self._env, kind, rest)
        if kind == b"R":
            seed = json.loads(rest)
            return pack(np.asarray(self._env.reset(seed=seed)[0] if seed is not None else self._env.reset()[0]))
        obs, reward, terminated, truncated, _ = self._env.step(as_action(unpack(rest)))
        goes_on = bool(terminated or truncated) and preprocessors.goes_on(self._env)
        return STEPPED.pack(as_number(reward), bool(terminated), bool(truncated), goes_on) + pack(np.asarray(obs))

    @staticmethod
    def _of_agents(env: MultiAgentEnv, kind: bytes, rest: bytes) -> bytes:
        step = env.reset(json.loads(rest)) if kind == b"R" else env.step(unpack_by_agent(rest)[0])
        facts = {"rewards": dict(step.rewards), "is_over": step.is_over, "notes": list(env.notes)}
        facts |= {"terminated": sorted(step.terminated), "truncated": sorted(step.truncated)}
        env.notes.clear()
        return pack_by_agent(step.obs, facts)

    def _make(self, asked: dict[str, Any]) -> None:
        self.close()
        make.make_ready({"imports": asked["imports"] or ()})
        remote_plugins.register(asked["registered"])
        if "agents" in asked:
            self._env = open_envs.open_setup(asked)
            return
        self._env = make.make(asked["id"], asked["env_config"], None, asked["preprocessing"])

    def close(self) -> None:
        """Close the environment, if there is one."""
        env, self._env = self._env, None
        if env is not None:
            close(env)


def main(number: int) -> None:
    """Serve the other end of the socket whose file descriptor is ``number``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, to the whole process group: the worker decides
    line, host = Connection(number), Host()
    while True:
        try:
            message = line.recv_bytes()
        except (EOFError, OSError):
            message = b"C"
        if message == b"C":
            host.close()
            return
        try:
            answer = b"O" + host.answer(message)
        except (Exception, SystemExit) as error:
            raised = {"type": type(error).__name__, "text": str(error), "place": place_of(error)}
            answer = b"E" + json.dumps(raised).encode("utf-8")
        line.send_bytes(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
