"""What the scripts draw comes through as it was, cannot end its element, and is small."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.render.html.reports import full, picture
from whyidle.model.picture import Chart, Lane, Line, Picture, Timeline
from whyidle.render import render
from whyidle.render.html.names import ALL, LONGEST, fitted
from whyidle.render.html.packing import column, in_script, packed, varints
from whyidle.render.words import clean

ANY = st.text(st.characters(codec=None))  # surrogates, too


def read(data: bytes, count: int) -> tuple[list[int], bytes]:
    """Read a column as web/src/data.ts does."""
    width, data = data[0], data[1:]
    if width:
        planes = [data[plane * count : (plane + 1) * count] for plane in range(width)]
        return [int.from_bytes(one, "little") for one in zip(*planes, strict=True)], data[width * count :]
    return read_leb128(data, count)


def read_leb128(data: bytes, count: int) -> tuple[list[int], bytes]:
    found, at = [], 0
    for _ in range(count):
        value, bits = 0, 0
        while True:
            value |= (data[at] & 127) << bits
            bits += 7
            at += 1
            if data[at - 1] < 128:
                break
        found.append(value)
    return found, data[at:]


def inflated(text: str) -> tuple[bytes, Any]:
    """Return the bytes of lanes, and the JSON behind them."""
    told = json.loads(text)
    block = zlib.decompress(base64.b64decode(told["bytes"]))
    return block[: told["head"]], json.loads(block[told["head"] :])


def unpacked(block: bytes, drawn: Any) -> list[tuple[list[int], ...]]:
    """Return start, end, name and depth of each lane of the first timeline."""
    lanes = []
    told = drawn["timelines"][0]
    for lane in told["lanes"]:
        rest, count = block[lane["offset"] :], lane["slices"]
        steps, rest = read(rest, count)
        lengths, rest = read(rest, count)
        names, rest = read(rest, count)
        start = (np.cumsum(steps) + told["start"]).tolist() if steps else []
        end = [a + b for a, b in zip(start, lengths, strict=True)]
        lanes.append((start, end, names, list(rest[:count])))
    return lanes


@given(st.lists(st.integers(0, 2**62), max_size=50))
def test_numbers_of_any_size(values: list[int]) -> None:
    assert read_leb128(varints(np.array(values, np.int64)), len(values)) == (values, b"")
    assert read(column(np.array(values, np.int64)) + b"rest", len(values)) == (values, b"rest")


@pytest.mark.parametrize(("most", "width"), [(2**40, 5), (200, 0)])
def test_a_column_takes_the_shorter_form(most: int, width: int) -> None:
    draws = np.random.default_rng(1)
    values = draws.integers(0, most, 3000) if width else draws.geometric(0.1, 3000)
    assert column(values)[0] == width


@given(st.lists(st.tuples(*[st.integers(0, 2**40)] * 2, st.integers(0, 9), st.integers(0, 255)), max_size=30))
def test_slices_come_through(slices: list[tuple[int, int, int, int]]) -> None:
    start = np.sort(np.array([one[0] for one in slices], np.int64)) + 7
    end = start + np.array([one[1] for one in slices], np.int64)
    name = np.array([one[2] for one in slices], np.int32)
    depth = np.array([one[3] for one in slices], np.uint8)
    lane = Lane("stream 7", "stream", start, end, name, depth, len(slices), np.zeros(0, np.float32))
    names = tuple(f"kernel {number}" for number in range(10))
    timeline = Timeline("rank 0", "t.json", 0, 7, 2**42, names, (lane, lane))
    block, drawn = inflated(packed(Picture((timeline,))))
    told = drawn["timelines"][0]["names"]
    for found in unpacked(block, drawn):
        assert found[0] == start.tolist()
        assert found[1] == end.tolist()
        assert [told[code] for code in found[2]] == [names[code] for code in name]
        assert found[3] == depth.tolist()


def test_a_chart_names_the_timeline_whose_steps_it_counts() -> None:
    shown = tuple(Timeline(f"rank {n}", f"rank{n}.json", n, 0, 99, ("a", "b"), (), window=(5, 90)) for n in range(3))
    x = np.arange(3.0)
    charts = [Chart("Step time", "ms", "step", x, (Line("", x),), timeline=name) for name in ("rank1.json", "gone", "")]
    _, drawn = inflated(packed(Picture(shown, tuple(charts))))
    assert [chart["timeline"] for chart in drawn["charts"]] == [1, None, None]
    assert drawn["timelines"][0]["window"] == [5, 90]


@given(ANY)
def test_json_cannot_end_its_element(text: str) -> None:
    for whole in (json.dumps({"a": text}), json.dumps({"a": text}, ensure_ascii=False)):
        shown = str(in_script(whole))
        assert not set("<>&\u2028\u2029") & set(shown)
        assert json.loads(shown)["a"].encode("utf-8", "replace") == text.encode("utf-8", "replace")


@given(st.lists(ANY | st.text("ab", min_size=50, max_size=400), max_size=20, unique=True), st.integers(100, 3000))
def test_names_are_short_and_told_apart(names: list[str], room: int) -> None:
    shown = fitted(names, room=room)
    assert len(shown) == len(names)
    assert all(len(name) <= LONGEST for name in shown)
    assert all(clean(name) == name for name in shown)
    for one, name in zip(shown, names, strict=True):
        if name.isprintable() and len(name) <= 8:
            assert one == name
    kept = {(one, name) for one, name in zip(shown, names, strict=True) if name.isprintable() and len(name) > LONGEST}
    assert len({one for one, _ in kept}) == len(kept)


@pytest.mark.parametrize("at", [0, 150, 5_000, 9_998])
def test_a_long_name_shows_where_it_differs(at: int) -> None:
    one = "x" * 10_000
    other = f"{one[:at]}y{one[at + 1 :]}"
    shown = fitted([one, other, "short"])
    assert shown[0] != shown[1]
    assert "y" in shown[1]
    assert len(shown[1]) <= LONGEST
    assert shown[2] == "short"


def test_many_long_names_have_room_together() -> None:
    shown = fitted([f"{n} {'n' * 5000} {n}" for n in range(20_000)])
    assert sum(map(len, shown)) <= 2 * ALL
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(("slices", "most"), [(0, 250_000), (10_000, 500_000), (100_000, 1_500_000)])
def test_a_page_is_small_whatever_it_draws(slices: int, most: int) -> None:
    """Random times of an hour, to the nanosecond, with 2,000 names: no recording compresses worse."""
    page = render(replace(full(), picture=picture(slices, names=2000)), "html")
    assert len(page.encode()) < most
