"""Tells of alarms: a command is run, a webhook is called, in a thread of their own that sampling never waits for."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import shlex
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from whyidle._version import __version__
from whyidle.errors import WhyIdleError

COMMAND_S = 30.0  # that a command may take
WEBHOOK_S = 10.0
WAITS_S = (1.0, 5.0, 25.0)  # before a webhook is tried again
MOST_WAITING = 100  # events; what is more is dropped, and said
END_S = 10.0  # that the end of the watch waits for what is on its way

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
        """Hand an event on, at once."""
        if not self._sinks:
            return
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

    def close(self) -> None:
        """Wait a moment for what is on its way."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            self._thread.join(END_S)


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
        try:
            done = subprocess.run(  # noqa: S603  the user's own command
                words,
                input=json.dumps(event).encode(),
                env=environ,
                timeout=COMMAND_S,
                check=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"{words[0]} was stopped: it took more than {COMMAND_S:g} s") from None
        except OSError as error:
            raise FailedError(f"{words[0]} cannot be run: {error.strerror}") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise FailedError(f"{words[0]} ended with {done.returncode}" + (f": {said}" if said else ""))

    return run


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
    if not good:
        raise WhyIdleError(f"--webhook is an address of HTTP, not {url!r}", "--webhook https://example.org/hook")
    where = parts.hostname  # a path may hold a secret: it is never shown

    def post(event: Mapping[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "User-Agent": f"whyidle/{__version__}"}
        request = urllib.request.Request(url, json.dumps(event).encode(), headers)  # noqa: S310  checked above
        for pause in (*WAITS_S, None):
            try:
                with urllib.request.urlopen(request, timeout=WEBHOOK_S):  # noqa: S310
                    return
            except urllib.error.HTTPError as error:
                why, again = f"HTTP status {error.code}", error.code >= 500 or error.code == 429
                error.close()
            except (OSError, http.client.HTTPException) as error:
                why, again = str(getattr(error, "reason", error)), True
            if not again or pause is None:
                raise FailedError(f"the webhook at {where} did not take an alarm: {why}")
            wait(pause)

    return post
