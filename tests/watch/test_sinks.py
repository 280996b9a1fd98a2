"""Who is told of an alarm, and what happens where that fails."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from whyidle.errors import WhyIdleError
from whyidle.watch import sinks
from whyidle.watch.sinks import FailedError, Sinks, command, webhook

EVENT: dict[str, Any] = {
    "event": "alarm",
    "host": "node7",
    "text": "GPU 3 idles",
    "cause": "free",
    "gpu": {"gpu": 3, "uuid": "GPU-3", "jobs": [{"pids": [17, 18]}]},
}


def test_a_command_gets_the_evidence(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    code = (
        "import json, os, sys; e = {k: v for k, v in os.environ.items() if k.startswith('WHYIDLE_')}; "
        f"json.dump([json.load(sys.stdin), e], open({str(out)!r}, 'w'))"
    )
    command(f'{sys.executable} -c "{code}"')(EVENT)
    event, environ = json.loads(out.read_text())
    assert event == EVENT
    assert environ["WHYIDLE_EVENT"] == "alarm"
    assert (environ["WHYIDLE_GPU"], environ["WHYIDLE_PIDS"]) == ("3", "17 18")
    assert environ["WHYIDLE_CAUSE"] == "free"


def test_no_shell_is_between(tmp_path: Path) -> None:
    with pytest.raises(WhyIdleError, match="no such command"):
        command("; touch x")
    command(f"{sys.executable} -c pass '; touch {tmp_path / 'x'}' $(touch)")(EVENT)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("line", ["", "no-such-program-here", "echo 'open"])
def test_a_command_that_cannot_be(line: str) -> None:
    with pytest.raises(WhyIdleError):
        command(line)


def test_a_command_that_fails_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FailedError, match="ended with 3: broken"):
        command(f"{sys.executable} -c \"import sys; print('broken', file=sys.stderr); sys.exit(3)\"")(EVENT)
    monkeypatch.setattr(sinks, "COMMAND_S", 0.1)
    with pytest.raises(FailedError, match="was stopped"):
        command(f'{sys.executable} -c "import time; time.sleep(60)"')(EVENT)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell and /proc")
def test_what_a_command_started_is_stopped_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds standard error open, and would hold up every alarm to come."""
    monkeypatch.setattr(sinks, "COMMAND_S", 0.3)
    began = time.monotonic()
    with pytest.raises(FailedError, match="was stopped"):
        command(f"sh -c 'sleep 60 & echo $! > {tmp_path / 'pid'}; wait'")(EVENT)
    assert time.monotonic() - began < 30
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    deadline = time.monotonic() + 10
    while child.exists() and " Z " not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.exists() or " Z " in child.read_text(), "left to init to be taken"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_command_may_leave_something_that_runs_on() -> None:
    began = time.monotonic()
    command("sh -c 'sleep 5 & exit 0'")(EVENT)
    assert time.monotonic() - began < 5


def test_a_command_that_says_much() -> None:
    with pytest.raises(FailedError, match=r"ended with 1: the end$"):
        command(
            f"{sys.executable} -c \"import sys; sys.stderr.write('x' * 9_000_000 + chr(10)); sys.exit('the end')\""
        )(EVENT)


class Hook:
    """A web server that answers with the statuses that it is given, and keeps what it got."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.got: list[Any] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(hook.statuses.pop(0) if hook.statuses else 200)
                self.send_header("Content-Length", "0")
                self.send_header("Location", hook.url)
                self.end_headers()

            def do_GET(self) -> None:  # who follows finds something
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.close()


def test_a_webhook(hook: Hook) -> None:
    webhook(hook.url)(EVENT)
    assert hook.got == [EVENT]


def test_a_webhook_is_tried_again(hook: Hook) -> None:
    hook.statuses = [503, 429]
    waited: list[float] = []
    webhook(hook.url, waited.append)(EVENT)
    assert (len(hook.got), waited) == (3, [1.0, 5.0])


def test_a_webhook_that_refuses(hook: Hook) -> None:
    hook.statuses = [404]
    with pytest.raises(FailedError, match="HTTP status 404") as refused:
        webhook(hook.url)(EVENT)
    assert "secret" not in str(refused.value)
    assert len(hook.got) == 1


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_webhook_that_lies_elsewhere_is_no_success(hook: Hook, status: int) -> None:
    """urllib follows without the body."""
    hook.statuses = [status]
    with pytest.raises(FailedError, match=f"HTTP status {status}, it lies elsewhere"):
        webhook(hook.url)(EVENT)
    assert len(hook.got) == 1


def test_a_webhook_that_is_not_there() -> None:
    waited: list[float] = []
    with pytest.raises(FailedError, match="did not take an alarm"):
        webhook("http://127.0.0.1:9/", waited.append)(EVENT)
    assert waited == list(sinks.WAITS_S)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "example.org",
        "",
        "http://",
        "http://[x",
        "http://a:b/",
        "http://a/s ecret",
        "http://a/s\u00e9cret",
        "http://a/\n",
        "a/secret",
        "https://me:secret@a/",
    ],
)
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(WhyIdleError, match="--webhook") as refused:
        webhook(url)
    assert "cret" not in str(refused.value)


def test_sampling_never_waits_for_who_is_told() -> None:
    release, began = threading.Event(), threading.Event()
    warned: list[str] = []
    got: list[Any] = []

    def slow(event: Any) -> None:
        began.set()
        release.wait(30)
        got.append(event)

    told = Sinks([slow], warned.append)
    told.tell(EVENT)
    assert began.wait(10)
    for _ in range(sinks.MOST_WAITING + 1):
        told.tell(EVENT)
    assert warned == [f"an alarm is not passed on: {sinks.MOST_WAITING} wait already"]
    release.set()
    for _ in range(1000):
        if len(got) == sinks.MOST_WAITING + 1:
            break
        time.sleep(0.01)
    told.close()
    assert len(got) == sinks.MOST_WAITING + 1


def test_one_that_fails_keeps_nothing_from_the_others() -> None:
    warned: list[str] = []
    got: list[Any] = []

    def fails(event: Any) -> None:
        raise FailedError("broken") if not warned else ValueError("embedded null byte")

    told = Sinks([fails, got.append], warned.append)
    told.tell(EVENT)
    told.tell(EVENT)
    told.close()
    assert (warned, got) == (["broken", "an alarm is not passed on: ValueError"], [EVENT, EVENT])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_sink_ends_the_watch_and_is_not_silence() -> None:
    def broken(event: Any) -> None:
        raise KeyError("a bug")

    told = Sinks([broken], [].append)
    told.tell(EVENT)
    told._thread.join(10)
    with pytest.raises(RuntimeError, match="nobody tells of alarms"):
        told.tell(EVENT)


def test_what_is_still_on_its_way_at_the_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "END_S", 0.1)
    release = threading.Event()
    warned: list[str] = []
    told = Sinks([lambda event: release.wait(30) and None], warned.append)
    told.tell(EVENT)
    told.close()
    release.set()
    assert len(warned) == 1
    assert warned[0].startswith("an alarm is still on its way")
