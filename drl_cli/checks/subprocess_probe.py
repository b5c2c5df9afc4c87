"""A question to another Python process: a JSON object in, JSON lines out, with a time limit for each line.

Used for whatever may crash, hang or take its process with it: environments, heavy imports, probes. A process is ended with
all that it started.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import IO, Any

SILENT, DEAD = "silent", "dead"  # why there is no answer


class SubprocessProbe:
    """``python -m module`` (or ``-c code``) that was given ``question`` on stdin. A context manager."""

    def __init__(
        self, module: str, question: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        """``module``: dotted name, or code if it holds a line break or a blank. ``environ``: over this process's own."""
        words = ["-c", module] if " " in module or "\n" in module else ["-m", module]
        self._command = [sys.executable, *words]
        self._question, self._environ = json.dumps(question), {**os.environ, **(environ or {})}
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []

    def __enter__(self) -> SubprocessProbe:
        self._process = process = subprocess.Popen(
            self._command,
            text=True,
            errors="replace",
            env=self._environ,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise OSError("a process was started without its pipes")
        reads = ((self._read, process.stdout), (self._listen, process.stderr))
        self._readers = [threading.Thread(target=read, args=(pipe,), daemon=True) for read, pipe in reads]
        for reader in self._readers:
            reader.start()
        try:
            process.stdin.write(self._question)
            process.stdin.close()
        except OSError:
            pass  # it has died already: ``next`` says so
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # it has ended by itself
            pass
        self._process.wait()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _listen(self, stderr: IO[str]) -> None:
        self._errors.extend(stderr)

    def next(self, limit_s: float) -> tuple[dict[str, Any] | None, str | None]:
        """Return (answer, None), or (None, SILENT or DEAD) when no line of JSON came within ``limit_s`` seconds."""
        until = time.monotonic() + limit_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                return None, SILENT
            if line is None:
                return None, DEAD
            try:
                answer = json.loads(line)
            except ValueError:
                continue  # something that a library printed
            if isinstance(answer, dict):
                return answer, None

    def end(self) -> str:
        """Return how a process that is dead ended, in words: its exit code or signal, and its last words."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(timeout=1.0)
        last = next((line.strip() for line in reversed(self._errors) if line.strip()), "")[:300]
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"{how}{f': {last}' if last else ''}"
