from __future__ import annotations

import json

import pytest

from whyidle.model.evidence import Trace
from whyidle.read.kineto import Kineto


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a trace from what it is given: bytes, text, events or a whole document."""

    def read_trace(content, name="trace.json") -> Trace:
        path = tmp_path / name
        if isinstance(content, list):
            content = {"schemaVersion": 1, "traceEvents": content}
        if isinstance(content, dict):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Kineto().read(path)

    return read_trace
