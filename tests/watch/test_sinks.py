"""Who is told of an alarm, and what happens where that fails."""

from __future__ import annotations

import json
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


def test_a_webhook_that_is_not_there() -> None:
    waited: list[float] = []
    with pytest.raises(FailedError, match="did not take an alarm"):
        webhook("http://127.0.0.1:9/", waited.append)(EVENT)
    assert waited == list(sinks.WAITS_S)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.org", "", "http://", "http://[x", "http://a:b/"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(WhyIdleError, match="--webhook is an address of HTTP"):
        webhook(url)


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
        raise FailedError("broken")

    told = Sinks([fails, got.append], warned.append)
    told.tell(EVENT)
    told.close()
    assert (warned, got) == (["broken"], [EVENT])
