"""What is broken is skipped, counted and told; the rest is read."""

from __future__ import annotations

import contextlib
import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto_events import kernel, op, rows

from whyidle.errors import WhyIdleError
from whyidle.read import blocks
from whyidle.read.base import UnreadableError
from whyidle.read.kineto import Kineto

GOOD = json.dumps(op("good"))
TEXT = json.dumps({"schemaVersion": 1, "traceEvents": [op(f"op {i}", i + 1) for i in range(50)], "traceName": "x"})


def names(trace):
    return [row[3] for row in rows(trace)["host"]]


@pytest.mark.parametrize(
    ("events", "kept", "broken"),
    [
        (f"{GOOD} {GOOD}", 2, 0),
        (f"{GOOD}, {GOOD},", 2, 0),
        (f'{GOOD} {{ # comment\n "ph": "X"}}, {GOOD}', 2, 1),
        (f'{GOOD}, {{"ph": "X", "pid": 1, tid": 2, "ts": 1}}, {GOOD}', 2, 1),
        (f'{GOOD}, {{"ph": "X" "pid": 1}}, {GOOD}', 2, 1),
        (f"{GOOD}, 7, {GOOD}", 2, 1),
        (f"{GOOD}, null, {GOOD}", 2, 1),
        (f'{GOOD}, {{"ph": "X", "cat": "cpu_op", "pid": {{}}}}, {GOOD}', 2, 1),
        (f'{GOOD}, {{"ph": "X", "cat": "cpu_op", "args": []}}, {GOOD}', 2, 1),
        (f'{GOOD}, {{"name": "no phase"}}, {GOOD}', 2, 1),
        (f'{GOOD}, {{"ph": "?", "name": "unknown phase"}}, {GOOD}', 2, 0),
        (f'{GOOD}, {{"ph": "X", "cat": "cpu_op", "args": {"[" * 5000}{"]" * 5000}}}, {GOOD}', 2, 1),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("form", ['{"traceEvents": [%s], "schemaVersion": 1}', "[%s]", '{"traceEvents": [%s]}\n'])
def test_broken_events(read, events, kept, broken, form):
    trace = read(form % events)
    assert names(trace) == ["good"] * kept
    told = [warning for warning in trace.warnings if "not valid" in warning]
    assert bool(told) == bool(broken)
    assert all(f"{broken} of" in warning for warning in told)


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        (b"control \x01 \n character", "control \x01 \n character"),
        (b"no \xff utf-8", "no \N{REPLACEMENT CHARACTER} utf-8"),
        (rb"C:\Users\me\_train.py(3): f", r"C:\Users\me\_train.py(3): f"),
        (rb"half a pair \ud800 here", "half a pair ? here"),
    ],
)
def test_names_that_are_not_valid_json(read, name, seen):
    event = b'{"ph": "X", "cat": "cpu_op", "name": "%b", "pid": 1, "tid": 1, "ts": 1712195495519689.3, "dur": 1.001}'
    trace = read(b'{"traceEvents": [' + event % name + b", " + event % b"plain" + b"]}")
    assert sorted(names(trace)) == sorted([seen, "plain"])
    assert set(trace.host_slices.start.tolist()) == {1712195495519689300}
    assert trace.warnings == ()


@pytest.mark.parametrize("text", [b'["\xff"]', b'["\\q"]', b'["\x01"]', b'["\\ud800"]', b"[" * 2000 + b"]" * 2000])
def test_shapes_and_types_that_are_not_valid_json(read, text):
    event = json.dumps(op(args={"Input type": 0, "Input Dims": 0})).encode()
    trace = read(b"[" + event.replace(b'": 0', b'": ' + text) + b"," + GOOD.encode() + b"]")
    assert "good" in names(trace)


def test_nan_in_arguments_does_not_matter(read):
    trace = read('{"traceEvents": [' + json.dumps(kernel(**{"blocks per SM": float("nan"), "x": float("inf")})) + "]}")
    assert rows(trace)["device"][0][-1] is None
    assert trace.warnings == ()


@given(st.integers(1, len(TEXT) - 1), st.booleans(), st.integers(1, 300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
def test_a_file_cut_anywhere_gives_what_was_written(read, monkeypatch, length, packed, block):
    whole = names(read(TEXT))
    content = gzip.compress(TEXT.encode())
    content = content[: max(3, len(content) * length // len(TEXT))] if packed else TEXT[:length]
    with monkeypatch.context() as patched:
        patched.setattr(blocks, "BLOCK", block)
        try:
            trace = read(content)
        except UnreadableError:
            assert packed or length < TEXT.index('"op 1"')
            return
    assert names(trace) == whole[: len(trace.host_slices)]
    finished = len(trace.host_slices) == len(whole)
    assert finished or any("cut short" in warning for warning in trace.warnings)
    if not packed:
        assert len(trace.host_slices) >= TEXT[:length].count("}, {")


def test_a_gzip_with_a_broken_byte(read):
    events = [op(f"op {number}", number + 1) for number in range(30_000)]
    packed = bytearray(gzip.compress(json.dumps(events).encode()))
    packed[-6] ^= 255  # the checksum, which is compared after the last block
    trace = read(bytes(packed), "trace.json.gz")
    assert 10_000 < len(trace.host_slices) < 30_000
    assert "damaged" in trace.warnings[0]
    assert f"{trace.events:,} events" in trace.warnings[0]


@pytest.mark.parametrize(
    "filler", [" " * 300_000, "}" * 300_000, "} ," * 99_999, "{" * 99_999, "}{" * 99_999, '"' * 99_999]
)
@pytest.mark.parametrize("end", ["", "]", '"]}'])
def test_text_made_to_be_slow_is_not(read, filler, end):
    trace = read("[" + GOOD + ", " + GOOD[:-1] + filler + end)
    assert 1 <= len(trace.host_slices) <= 2
    assert trace.warnings


@given(st.binary(max_size=300) | st.text(alphabet='{}[]",:\\ tracEvnphX1.e-', max_size=200).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_noise_is_told_and_never_crashes(tmp_path, noise):
    path = tmp_path / "noise"
    for content in (noise, b'{"traceEvents": [' + GOOD.encode() + noise, b"[" + noise, gzip.compress(noise) + noise):
        path.write_bytes(content)
        with contextlib.suppress(WhyIdleError):
            trace = Kineto().read(path)
            assert len(trace.host_slices) + len(trace.device_slices)
