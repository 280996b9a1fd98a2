"""Tells of alarms: a command is run, a webhook is called, in a thread of their own that sampling never waits for."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any
from urllib.parse import urlsplit

from whyidle._version import __version__
from whyidle.errors import WhyIdleError

COMMAND_S = 30.0  # that a command may take
WEBHOOK_S = 10.0
WAITS_S = (1.0, 5.0, 25.0)  # before a webhook is tried again
MOST_WAITING = 100  # events; what is more is dropped, and said
MOST_SAID = 4096  # bytes of what a command said last
END_S = 10.0  # that the end of the watch waits for what is on its way

# What the system says no to: a full disk, a name with a zero byte in it, a host name that is none.
REFUSED = (OSError, ValueError)

Sink = Callable[[Mapping[str, Any]], None]


class FailedError(Exception):
    """A sink did not take an event."""


class Sinks:
    """Hands events on.

    Args:
        sinks: who is told.
        warn: is told what failed; from another thread.
    """

    def __init__(self, sinks: list[Sink], warn: Callable[[str], None]) -> None:
        self._sinks = sinks
        self._warn = warn
        self._waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="whyidle alarms", daemon=True)
        if sinks:
            self._thread.start()

    def tell(self, event: Mapping[str, Any]) -> None:
        """Hand an event on, at once. A sink with a bug ends the thread, and then this: no alarm is lost unseen."""
        if not self._sinks:
            return
        if not self._thread.is_alive():
            raise RuntimeError("nobody tells of alarms any more")
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._warn(f"an alarm is not passed on: {MOST_WAITING} wait already")

    def _work(self) -> None:
        while (event := self._waiting.get()) is not None:
            for sink in self._sinks:
                try:
                    sink(event)
                except FailedError as error:
                    self._warn(str(error))
                except REFUSED as error:
                    self._warn(f"an alarm is not passed on: {type(error).__name__}")

    def close(self) -> None:
        """Wait a moment for what is on its way."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(END_S)
            if self._thread.is_alive():
                left = self._waiting.qsize()
                self._warn(f"an alarm is still on its way after {END_S:g} s" + (f", {left} more wait" if left else ""))


def command(line: str) -> Sink:
    """Return what runs a command with the event as JSON on its input and WHYIDLE_… in its environment; no shell.

    Raises:
        WhyIdleError: where the line cannot be split or its program is not there.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise WhyIdleError(f"--on-alarm: {error}: {line}", "--on-alarm 'notify.sh --gpu-idle'") from None
    if not words or shutil.which(words[0]) is None:
        name = words[0] if words else ""
        raise WhyIdleError(f"--on-alarm: no such command: {name!r}", "it is run without a shell: sh -c '…' for one")

    def run(event: Mapping[str, Any]) -> None:
        environ = {**os.environ, **variables(event)}
        # Files, no pipes: what it started in turn may hold its end of a pipe open for ever.
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
            told.write(json.dumps(event).encode())
            told.seek(0)
            try:
                process = subprocess.Popen(  # noqa: S603  the user's own command
                    words, stdin=told, env=environ, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
                )
            except OSError as error:
                raise FailedError(f"{words[0]} cannot be run: {error.strerror}") from None
            try:
                code = process.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                _end(process)
                raise FailedError(f"{words[0]} was stopped: it took more than {COMMAND_S:g} s") from None
            if code:
                raise FailedError(f"{words[0]} ended with {code}" + _last_line(said))

    return run


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started, and take its exit code, so that no zombie is left."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _last_line(said: IO[bytes]) -> str:
    """Return what a command said last, after a colon; empty for nothing."""
    said.seek(max(said.seek(0, os.SEEK_END) - MOST_SAID, 0))
    last = said.read(MOST_SAID).decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return f": {last}" if last else ""


def variables(event: Mapping[str, Any]) -> dict[str, str]:
    """Return an event as variables of an environment."""
    gpu = event["gpu"]
    told = {
        "EVENT": event["event"],
        "HOST": event["host"],
        "GPU": gpu["gpu"],
        "UUID": gpu["uuid"],
        "CAUSE": event["cause"] or "",
        "TEXT": event["text"],
        "PIDS": " ".join(str(pid) for job in gpu["jobs"] or () for pid in job["pids"]),
    }
    return {f"WHYIDLE_{name}": str(value) for name, value in told.items()}


class _Direct(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: urllib would ask the other place without what was to be posted, and call that done."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def webhook(url: str, wait: Callable[[float], None] = time.sleep) -> Sink:
    """Return what posts an event as JSON, four times at most.

    Raises:
        WhyIdleError: for an address that is none of HTTP.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    # What it may hold of a secret is not repeated: standard error often ends up in a log.
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise WhyIdleError("--webhook is an address of HTTP", "--webhook https://example.org/hook")
    if "@" in parts.netloc:
        raise WhyIdleError("--webhook: no name and password are sent", "--webhook https://example.org/hook")
    where = parts.hostname  # a path may hold a secret: it is never shown
    opener = urllib.request.build_opener(_Direct)

    def post(event: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"whyidle/{__version__}"}
        request = urllib.request.Request(url, json.dumps(event).encode(), headers)  # noqa: S310  checked above
        for pause in (*WAITS_S, None):
            try:
                with opener.open(request, timeout=WEBHOOK_S):
                    return
            except urllib.error.HTTPError as error:
                why, again = f"HTTP status {error.code}", error.code >= 500 or error.code == 429
                why += ", it lies elsewhere" if 300 <= error.code < 400 else ""
                error.close()
            except (OSError, http.client.HTTPException) as error:
                why, again = str(getattr(error, "reason", error)), True
            if not again or pause is None:
                raise FailedError(f"the webhook at {where} did not take an alarm: {why}")
            wait(pause)

    return post
