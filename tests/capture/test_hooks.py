"""What fails again and again in a hook is asked no more: a GPU that is gone must not cost every step an exception."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.capture import injecting, reading

FAILING = """
    import sys
    sys.path.insert(0, {capture!r})
    from _whyidle import hooks, record
    record.start({folder!r})
    calls = {{"step": 0, "before": 0, "after": 0, "iterate": 0}}

    def failing(name):
        def fail(*_):
            calls[name] += 1
            raise RuntimeError("the GPU is gone")
        return fail

    hooks.after_step(failing("step"))
    hooks.after_iterate(failing("iterate"))
    hooks.around("wait").append((failing("before"), lambda token, sequence: None))
    hooks.around("wait").append((lambda kind: None, failing("after")))
    for _ in range(50):
        hooks.stepped(None)
        hooks.iterated(0, None, None)
        hooks.after_wait(hooks.before_wait(1), 0)
    assert set(calls.values()) == {{hooks.MOST_FAILURES}}, calls
    assert not hooks.waits
"""


def test_what_keeps_failing_is_asked_no_more(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("jobs are watched on Linux only")
    text = dedent(FAILING).format(capture=str(injecting.CAPTURE), folder=str(tmp_path))
    job = injecting.python("-c", text, env=injecting.bare_environment(), cwd=tmp_path)
    assert (job.returncode, job.stderr) == (0, "")
    assert reading.errors(tmp_path).count("the GPU is gone") == 12
