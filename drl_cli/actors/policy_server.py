"""PolicyServer: the HTTP side of ``input: policy_server``. It checks who asks and what, and queues requests for a worker.

Used by ``external_worker``, which answers them. ``docs/external_simulators.rst`` describes the protocol. Each connection has
a thread; a request is parsed and checked there, so that a slow or malformed one costs no other client anything. Commands are
those of RLlib's PolicyServerInput (1.0.1); deviations: JSON instead of pickle, a token, truncation apart from termination.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from drl_cli import events
from drl_cli.config.sections.served_input import TOKEN_VARIABLE, PolicyServerConfig
from drl_cli.errors import ClusterUnavailable, ConfigError, reason_of
from drl_cli.version import __version__

PREFIX = "/v1"
COMMANDS = ("start_episode", "get_action", "log_action", "log_returns", "end_episode")
MOST_CONNECTIONS = 256
SILENCE_S = 120.0  # after which an idle connection is closed; a client opens another one
SPARE_BYTES = 4096  # of a body, beside its observation
BYTES_OF_A_NUMBER = 32  # as JSON
LEAST_TOKEN = 16  # characters
OVER = 410  # of HTTP: the run has ended


class Refused(Exception):
    """A request that is not carried out: ``status`` of HTTP, and what is wrong in one line."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Request:
    """One command of a client. ``answer`` or ``refuse`` is called once, by the worker."""

    def __init__(self, command: str, episode_id: str, fields: Mapping[str, Any]) -> None:
        """``fields``: what the command comes with, as ``external_worker`` read it."""
        self.command, self.episode_id, self.fields = command, episode_id, fields
        self.status, self.body = OVER, {"error": "The run has ended."}
        self._done = threading.Lock()
        self._done.acquire()

    def answer(self, **body: Any) -> None:
        """Send ``body`` as JSON."""
        self.status, self.body = 200, body
        self._done.release()

    def refuse(self, status: int, text: str) -> None:
        """Send an error."""
        self.status, self.body = status, {"error": text}
        self._done.release()

    def abandon(self) -> None:
        """Send that the run has ended."""
        self._done.release()

    def wait(self) -> None:
        """Return when the request has been answered."""
        self._done.acquire()


class PolicyServer:
    """Listens on ``address``; ``pending`` hands out the requests of all clients."""

    def __init__(
        self,
        address: tuple[str, int],
        token: str,
        read: Callable[[str, Mapping[str, Any]], Mapping[str, Any]],
        about: Mapping[str, Any],
        numbers: int,
    ) -> None:
        """``address``: (host, port); ``read(command, body)`` returns the fields of a request, or raises Refused.

        ``about``: the answer to ``GET /v1``; ``numbers``: of one observation, which bounds the size of a body. Raises
        ClusterUnavailable when the address cannot be listened on.
        """
        self._waiting: list[Request] = []
        self._changed = threading.Condition()
        self._is_closed = False
        handler = _handler(self, token, (read, about), SPARE_BYTES + BYTES_OF_A_NUMBER * numbers)
        try:
            self._http = _Listener(address, handler)
        except OSError as error:
            raise ClusterUnavailable(
                f"policy_server: {address[0]} port {address[1]} cannot be listened on ({reason_of(error)}). Set "
                "policy_server.address or policy_server.port to another one; is another run using it?"
            ) from error
        host, self.port = self._http.server_address[:2]
        self.url = f"http://{host if isinstance(host, str) else address[0]}:{self.port}"
        threading.Thread(target=self._http.serve_forever, name="policy server", daemon=True).start()

    def pending(self, timeout: float) -> list[Request]:
        """Return the requests that have come since the last call, after at most ``timeout`` seconds; [] for none."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(timeout)
            found, self._waiting = self._waiting, []
            return found

    def submit(self, request: Request) -> None:
        """Queue a request, and return when it has been answered."""
        with self._changed:
            if self._is_closed:
                return
            self._waiting.append(request)
            self._changed.notify()
        request.wait()

    def close(self) -> None:
        """Answer what waits with 410, and stop listening."""
        with self._changed:
            self._is_closed = True
            for request in self._waiting:
                request.abandon()
            self._waiting = []
        self._http.shutdown()
        self._http.server_close()


class _Listener(ThreadingHTTPServer):
    """Has at most ``MOST_CONNECTIONS``."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke concerns no other client; its episode times out."""


def _handler(
    server: PolicyServer, token: str, answers: tuple[Callable[..., Any], Mapping[str, Any]], most: int
) -> type[BaseHTTPRequestHandler]:
    """Return the class that handles a connection; ``answers``: (``read``, ``about``), ``most``: bytes of a body."""
    expected = f"Bearer {token}".encode()
    read, about = answers

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = f"drl/{__version__}"
        timeout = SILENCE_S
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one packet

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing: what clients send is no matter of the run's log."""

        def do_GET(self) -> None:
            try:
                self._admit()
                if self.path.rstrip("/") != PREFIX:
                    raise Refused(404, f"There is no {self.path[:60]}; GET {PREFIX} describes the server.")
                self._send(200, about)
            except Refused as error:
                self._send(error.status, {"error": str(error)}, is_last=True)

        def do_POST(self) -> None:
            try:
                self._admit()
                body = self._body()
            except Refused as error:  # what follows on this connection may be the rest of the body
                self._send(error.status, {"error": str(error)}, is_last=True)
                return
            try:
                request = _requested(self.path, body, read)
            except Refused as error:
                self._send(error.status, {"error": str(error)})
                return
            server.submit(request)
            self._send(request.status, request.body, is_last=request.status == OVER)

        def _admit(self) -> None:
            given = self.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(given, expected):
                raise Refused(401, "The token is missing or wrong: send the header 'Authorization: Bearer TOKEN'.")

        def _body(self) -> bytes:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit()):
                raise Refused(411, "Send the length of the body in the header Content-Length.")
            if len(length) > 12 or int(length) > most:
                raise Refused(413, f"The body has {length[:12]} bytes; at most {most} are accepted.")
            return self.rfile.read(int(length))

        def _send(self, status: int, body: Mapping[str, Any], is_last: bool = False) -> None:
            text = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            if status == 401:
                self.send_header("WWW-Authenticate", "Bearer")
            if is_last:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            self.wfile.write(text)

    return Handler


def _requested(path: str, text: bytes, read: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]) -> Request:
    """Return the request of a ``path`` and a body. Raises Refused."""
    prefix, _, command = path.rpartition("/")
    if prefix != PREFIX or command not in COMMANDS:
        raise Refused(404, f"There is no {path[:60]}; POST {PREFIX}/COMMAND, one of {', '.join(COMMANDS)}.")
    try:
        body = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        raise Refused(400, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Refused(400, "The body is not a JSON object.")
    episode_id = body.get("episode_id")
    if episode_id is None and command == "start_episode":
        episode_id = secrets.token_hex(8)
    if not isinstance(episode_id, str) or not 0 < len(episode_id) <= 100:
        raise Refused(400, "episode_id must be a string of 1 to 100 characters.")
    return Request(command, episode_id, read(command, body))


def announce(config: PolicyServerConfig, index: int, episodes: int) -> None:
    """Report where worker ``index`` will listen, up to ``episodes`` at once: its own process has no screen."""
    where = f"{config.address}:{config.port + index}, up to {episodes} episodes at once"
    events.report("notice", text=f"policy server: {where}, once worker {index} has started")


def token_of(config: PolicyServerConfig) -> str:
    """Return the token that clients must send: of ``token_file``, which is made if it is missing, or of the environment.

    Raises ConfigError where there is none, it is short, or others may read the file.
    """
    if config.token_file is None:
        token, place = os.environ.get(TOKEN_VARIABLE, ""), f"the environment variable {TOKEN_VARIABLE}"
        if not token:
            raise ConfigError(
                f"policy_server: clients need a token. Set policy_server.token_file to a file, which is made with a random "
                f"token, or {place}."
            )
    else:
        place = f"policy_server.token_file: {config.token_file}"
        token = _token_in(Path(config.token_file).expanduser(), place)
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{place}: a token has at least {LEAST_TOKEN} printable ASCII characters in one line.")
    return token


def _token_in(path: Path, place: str) -> str:
    try:
        _make_token(path)
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise ConfigError(f"{place} can be read by others (mode {mode:04o}). Type: chmod 600 {path}")
            return file.read(4097).strip()
    except (OSError, UnicodeError) as error:
        reason = reason_of(error)
        raise ConfigError(f"{place}: cannot be read ({reason}).") from error


def _make_token(path: Path) -> None:
    """Make the file ``path`` with a random token, unless it exists. It appears whole: several workers may look for it."""
    if path.exists():
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        if not path.exists():
            os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
