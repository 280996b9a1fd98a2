"""However the bytes arrive, the columns are the same."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kineto_events import call, kernel, op, rows

from whyidle.read import blocks, chunks
from whyidle.read.base import UnreadableError
from whyidle.read.chunks import EventText
from whyidle.read.columns import longest_first

HEADER = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A100"}, {"id": 1, "name": "A100"}]}
TRAILER = {"traceName": "x", "distributedInfo": {"rank": 3, "list": [{"name": "a"}, {"name": "b"}]}}
SHAPED = {"Input Dims": [[2, 3], []], "Input type": ["float", ""]}

names = st.sampled_from(
    ["aten::add", 'quote " {"ph": "X"}, {"ph": "X"', "void f<1, 2>()", "back\\slash", "}, {", "ü", ""]
)
nested = st.just({"list": [{"ph": "X", "name": "inside"}, {"ph": "X", "name": "inside"}]})
events = st.lists(
    st.one_of(
        st.builds(op, names, st.integers(1, 99), st.integers(0, 50), args=st.one_of(st.just(SHAPED), nested)),
        st.builds(kernel, names, st.floats(1, 99).map(lambda us: round(us, 3)), st.integers(0, 50)),
        st.builds(call, ts=st.integers(1, 99), correlation=st.integers(0, 2**40)),
        st.just({"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 3, "cat": "ac2g", "name": "ac2g"}),
        st.just({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}),
    ),
    min_size=1,
    max_size=12,
).filter(lambda events: any(event["ph"] == "X" for event in events))


def expected(events):
    """Return (name, start, end) of the slices, without our reader."""
    return sorted(
        (event["name"], round(event["ts"] * 1000), round(event["ts"] * 1000) + round(event["dur"] * 1000))
        for event in events
        if event["ph"] == "X"
    )


def seen(trace):
    found = rows(trace)
    return sorted((row[3], row[0], row[1]) for row in found["host"] + found["device"])


@given(events, st.sampled_from([None, 1, 4]), st.integers(1, 200))
@example([op(args={"list": [{"ph": "X"}] * 9}), op("b")], None, 40)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_layout_packing_and_block_size_change_nothing(read, monkeypatch, events, indent, block):
    whole = HEADER | {"traceEvents": events} | TRAILER
    separators = (",", ":") if indent is None else None
    text = json.dumps(whole, indent=indent, separators=separators, ensure_ascii=False)
    plain = read(text)
    assert seen(plain) == expected(events)
    assert plain.events == len(events)
    assert plain.rank == 3
    assert [gpu.name for gpu in plain.gpus] == ["A100", "A100"]
    assert plain.warnings == ()
    with monkeypatch.context() as patched:
        patched.setattr(blocks, "BLOCK", block)
        patched.setattr(blocks, "PACKED_BLOCK", block)
        for again in (read(text), read(gzip.compress(text.encode()), "trace.json.gz")):
            assert rows(again) == rows(plain)
            assert (again.events, again.rank, again.gpus, again.origin) == (plain.events, 3, plain.gpus, plain.origin)
            assert again.warnings == ()
    assert rows(read(json.dumps(events))) == rows(plain)
    last = {"traceEvents": events, **HEADER, **TRAILER}
    assert rows(read(json.dumps(last))) == rows(plain)
    assert read(json.dumps(last)).gpus == plain.gpus


def test_several_gzip_members_and_padding(read):
    text = json.dumps([op("a"), op("b")]).encode()
    packed = gzip.compress(text[:50]) + gzip.compress(text[50:]) + b"\0" * 512
    trace = read(packed, "trace.json.gz")
    assert [row[3] for row in rows(trace)["host"]] == ["a", "b"]
    assert trace.warnings == ()


def test_text_without_events_does_not_fill_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(chunks, "MOST_EVENT", 1 << 16)
    endless = (b'[{"ph": "X", "name": "' if not number else b"x" * 4096 for number in range(10**9))
    with pytest.raises(UnreadableError, match="without an end of an event"):
        list(EventText(endless, tmp_path))


def test_a_header_without_end_does_not_fill_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(chunks, "MOST_HEADER", 1 << 16)
    text = EventText((b'{"a": "' if not number else b"x" * 4096 for number in range(10**9)), tmp_path)
    assert list(text) == []
    assert not text.found
    assert len(text.header) < 1 << 17


def test_a_trailer_without_end_does_not_fill_memory(monkeypatch, read):
    monkeypatch.setattr(chunks, "MOST_TRAILER", 1 << 10)
    monkeypatch.setattr(blocks, "BLOCK", 512)
    document = {"traceEvents": [op()], "INFO": [{"ph": "x" * 100}] * 1000, "distributedInfo": {"rank": 1}}
    trace = read(document)
    assert len(trace.host_slices) == 1
    assert any("metadata" in warning for warning in trace.warnings)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_order_is_by_start_then_the_longest_then_the_file(slices):
    start = np.array([start for start, _ in slices], np.int64)
    end = start + np.array([duration for _, duration in slices], np.int64)
    wanted = sorted(range(len(slices)), key=lambda row: (start[row], -end[row], row))
    assert longest_first(start, end).tolist() == wanted
