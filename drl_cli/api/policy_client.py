"""PolicyClient: lets a simulator ask a running ``drl train`` (``input: policy_server``) for actions.

This file needs Python's standard library and nothing else, so that it can be copied next to a simulator:
``drl new client`` writes it. The names are those of RLlib's PolicyClient (1.0.1)::

    client = PolicyClient("http://127.0.0.1:9900", token_file="token")
    episode_id = client.start_episode()
    while not over:
        action = client.get_action(episode_id, obs)
        obs, reward, over = simulator.step(action)
        client.log_returns(episode_id, reward)
    client.end_episode(episode_id, obs)

An object serves one thread. ``docs/external_simulators.rst`` describes the protocol, for clients in other languages.
"""

from __future__ import annotations

import http.client
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

TOKEN_VARIABLE = "DRL_POLICY_TOKEN"
PAUSE_S = 0.5  # between two attempts while the server is not there yet, or has no room for another episode


class PolicyServerError(Exception):
    """The server refused a request. ``status``: of HTTP; 404: there is no such episode (any more), start another one."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{text} (HTTP {status})")
        self.status = status


class PolicyClient:
    """A connection to a policy server. Observations and actions are lists of numbers, or arrays with ``tolist``."""

    def __init__(
        self,
        address: str = "http://127.0.0.1:9900",
        token: str | None = None,
        token_file: str | None = None,
        timeout: float = 300.0,
    ) -> None:
        """``address``: as the run prints it; ``token``, or ``token_file``; with neither the environment variable.

        ``timeout``: seconds for which an answer, a free place for an episode, and, before the first answer, the server is
        waited for. While an on-policy algorithm updates, and while a run loads, an action takes as long as that.
        """
        self._where = urlsplit(address if "//" in address else f"//{address}")
        self._timeout = timeout
        if token is None and token_file is not None:
            with open(token_file, encoding="utf-8") as file:
                token = file.read().strip()
        token = token or os.environ.get(TOKEN_VARIABLE, "")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection: http.client.HTTPConnection | None = None
        self._is_known = False  # whether the server has answered before
        self._rewards: dict[str, float] = {}  # that go with the next request of their episode

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Begin an episode; returns its id. With ``training_enabled`` false it is scored: greedy, and not learnt from."""
        body = {"training_enabled": training_enabled} | ({} if episode_id is None else {"episode_id": episode_id})
        until = time.monotonic() + self._timeout
        while True:
            try:
                return self._post("start_episode", body)["episode_id"]
            except (ConnectionRefusedError, PolicyServerError) as error:
                may_come = error.status == 503 if isinstance(error, PolicyServerError) else not self._is_known
                if not may_come or time.monotonic() > until:
                    raise
            time.sleep(PAUSE_S)

    def get_action(self, episode_id: str, observation: Any) -> Any:
        """Return the policy's action for ``observation``: a number of a Discrete space, else a list of numbers."""
        body = {"episode_id": episode_id, "observation": _plain(observation)}
        return self._post("get_action", self._with_reward(body))["action"]

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Report an action that was chosen elsewhere; off-policy algorithms learn from it."""
        body = {"episode_id": episode_id, "observation": _plain(observation), "action": _plain(action)}
        self._post("log_action", self._with_reward(body))

    def log_returns(self, episode_id: str, reward: float, info: Any = None) -> None:
        """Note a reward of the last action. It is sent with the episode's next request; ``info`` is not sent."""
        self._rewards[episode_id] = self._rewards.get(episode_id, 0.0) + float(reward)

    def end_episode(self, episode_id: str, observation: Any, truncated: bool = False) -> None:
        """End an episode with its last observation. ``truncated``: a time limit ended it, and not the task."""
        body = {"episode_id": episode_id, "observation": _plain(observation), "truncated": bool(truncated)}
        self._post("end_episode", self._with_reward(body))

    def describe(self) -> dict[str, Any]:
        """Return the server's spaces: {"protocol": 1, "observation_space": …, "action_space": …}."""
        return self._request("GET", "/v1", None)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _with_reward(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "reward": self._rewards.pop(body["episode_id"], 0.0)}

    def _post(self, command: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._request("POST", f"/v1/{command}", json.dumps(body))

    def _request(self, method: str, path: str, body: str | None) -> dict[str, Any]:
        status, text = 0, b""
        for attempt in (1, 2):
            is_new = self._connection is None
            if self._connection is None:
                kind = http.client.HTTPSConnection if self._where.scheme == "https" else http.client.HTTPConnection
                self._connection = kind(self._where.hostname or "127.0.0.1", self._where.port, timeout=self._timeout)
            try:
                self._connection.request(method, path, body, self._headers)
                answer = self._connection.getresponse()
                status, text = answer.status, answer.read()
                break
            except (http.client.HTTPException, OSError) as error:
                self.close()
                # The server closes connections that are idle for long: only then is a request sent again.
                if is_new or attempt == 2 or isinstance(error, TimeoutError):
                    raise
        self._is_known = True
        if status != 200:
            raise PolicyServerError(status, json.loads(text).get("error", "") if text else "")
        return json.loads(text)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
