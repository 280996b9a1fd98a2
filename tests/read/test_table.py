"""Cutting and reading cells: what was written comes back, and what cannot be read is not known, never zero."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.read.number import NO_TIME
from whyidle.read.table import rows as table_rows
from whyidle.read.table.cells import Cells
from whyidle.read.table.names import meaning_of
from whyidle.read.table.rows import WHITESPACE, Cutter, lines, split_line
from whyidle.read.table.times import dates_and_times, numbers_of_time, times_of_day


def column(cells: list[str], end: str = "\n") -> Cells:
    """Return cells as the middle column of a table."""
    text = "".join(f"x,{cell},y{end}" for cell in cells).encode()
    return Cutter(b",", 3).cut(text).column(1)


blanks = st.text(" \t", max_size=3)
units = st.sampled_from(["", "%", " %", " MiB", " W", "MHz"])


@given(st.lists(st.tuples(st.integers(-(10**15), 10**15), st.integers(0, 6), blanks, blanks, units), min_size=1))
def test_numbers_come_back(parts):
    texts = [f"{number / 10**places:.{places}f}" for number, places, *_ in parts]
    cells = [f"{left}{text}{unit}{right}" for text, (_, _, left, right, unit) in zip(texts, parts, strict=True)]
    read = column(cells, "\r\n").numbers()
    assert read.wrong == 0
    digits = [sum(map(str.isdigit, text)) for text in texts]
    for value, text, count in zip(read.value.tolist(), texts, digits, strict=True):
        assert value == float(text) if count <= 15 else math.isclose(value, float(text), rel_tol=1e-15)
    told = [int(word).to_bytes(8, "little").rstrip(b"\0").decode() for word in read.unit.tolist()]
    assert told == [unit.strip() for *_, unit in parts]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_as_python_writes_them_come_back(values):
    read = column([repr(value) for value in values]).numbers()
    assert read.wrong == 0
    assert np.allclose(read.value, values, rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    "text", ["", "-", "N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "nan", "NaN", "None", "null", "inf", '""']
)
def test_what_is_not_measured_is_not_known(text):
    read = column([text, "5"]).numbers()
    assert np.isnan(read.value[0])
    assert (read.value[1], read.wrong) == (5.0, 0)


@pytest.mark.parametrize("text", ["fast", "1.2.3", "--5", "5 5", "1e", "0x", "12a34b56c78d90"])
def test_garbage_is_not_known_and_counted(text):
    numbers = column([text]).numbers()
    meaning = meaning_of("utilization.gpu [%]")
    unit = int(numbers.unit[0]).to_bytes(8, "little").rstrip(b"\0")
    assert (np.isnan(numbers.value[0]) and numbers.wrong == 1) or meaning.scale(unit) is None


def test_bits_are_read():
    read = column(["0x0000000000000004", "0x00000000000001FF", "Active", "Not Active"]).numbers()
    assert read.value.tolist() == [4, 511, 1, 0]


words = st.text(st.characters(codec="utf-8", exclude_characters="\n\r,\"' \t\0", min_codepoint=33), max_size=30)


@given(st.lists(words, min_size=1))
def test_equal_texts_have_equal_keys_and_others_others(cells):
    keys = column(cells).keys().tolist()
    assert len(set(keys)) == len(set(cells))
    assert [keys[cells.index(cell)] for cell in cells] == keys


@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1), st.sampled_from([b",", b";", b"\t"]))
def test_cells_are_cut_as_csv_does(table, delimiter):
    cells = [[cell.replace(delimiter.decode(), "") for cell in row] for row in table]
    text = "".join(delimiter.decode().join(f'"{cell}"' for cell in row) + "\n" for row in cells).encode()
    rows = Cutter(delimiter, 3).cut(text)
    assert len(rows) == len(cells)
    for index in range(3):
        found = rows.column(index)
        assert [found.text_at(row).decode() for row in range(len(rows))] == [row[index] for row in cells]


def test_a_quoted_delimiter_separates_nothing_and_a_lost_quote_costs_its_row():
    cutter = Cutter(b",", 2)
    rows = cutter.cut(b'"a, b",1\nlost",2\n"c,3\nd,4\n')
    assert [rows.column(1).text_at(row) for row in range(len(rows))] == [b"1", b"4"]
    assert (cutter.left_out, cutter.samples) == (2, [b'lost",2', b'"c,3'])


def test_rows_that_do_not_fit_are_left_out_and_counted():
    cutter = Cutter(b",", 3, header=(b"t", b"gpu", b"util"))
    rows = cutter.cut(b"0,0,1\n\nt,gpu,util\n0,1\n0,1,2,3\nt,gpu,5\n1,0,7\n")
    assert [rows.column(2).text_at(row) for row in range(len(rows))] == [b"1", b"5", b"7"]
    assert cutter.left_out == 2


def test_words_are_cut_at_blanks():
    cutter = Cutter(WHITESPACE, 3, comment=b"#")
    rows = cutter.cut(b"# gpu sm mem\n    0    25     -\r\n1\t3 4\n#Idx % %\n 2 3\n")
    assert [rows.column(1).text_at(row) for row in range(len(rows))] == [b"25", b"3"]
    assert cutter.left_out == 1


def test_the_last_column_may_be_free_text():
    rows = Cutter(WHITESPACE, 3, trailing=True).cut(b"0 1 python train.py --lr 1\n0 2 python\n")
    assert [rows.column(1).text_at(row) for row in range(len(rows))] == [b"1", b"2"]


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_pieces_are_whole_lines_and_all_of_the_content(content, sizes):
    content = content.removeprefix(table_rows.BYTE_ORDER_MARK)
    blocks, at = [], 0
    while at < len(content):
        size = sizes[len(blocks) % len(sizes)]
        blocks.append(content[at : at + size])
        at += size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "BLOCK", 16)
        pieces = list(lines(blocks))
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert b"".join(pieces) in {content, content + b"\n"}


def test_a_line_without_end_is_let_go():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "BLOCK", 16)
        patch.setattr(table_rows, "LONGEST_LINE", 16)
        assert len(b"".join(lines(b"x" * 16 for _ in range(1000)))) < 100
        assert next(lines([b"t,util\n1,2\n", *(b"x" * 16 for _ in range(1000))])) == b"t,util\n1,2\n"


def test_a_header_is_split_as_rows_are():
    assert split_line(b'"a, b", c ,"d"', b",") == [b"a, b", b"c", b"d"]


moments = st.datetimes(datetime(1990, 1, 1), datetime(2199, 1, 1))  # noqa: DTZ001 - hypothesis wants it so


@settings(max_examples=50)
@given(st.lists(moments, min_size=1, max_size=20), st.sampled_from(["iso", "space", "zone", "smi"]))
def test_times_come_back(when, way):
    zone = {"zone": "+02:00"}.get(way, "")
    texts = {
        "iso": [moment.isoformat() + "Z" for moment in when],
        "space": [str(moment) for moment in when],
        "zone": [moment.isoformat() + zone for moment in when],
        "smi": [f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d}" for moment in when],
    }[way]
    read = dates_and_times(column(texts)).ns.tolist()
    for ns, moment in zip(read, when, strict=True):
        utc = moment.replace(tzinfo=UTC) - (timedelta(hours=2) if zone else timedelta())
        micros = (utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert ns == (micros // 1000 * 1_000_000 if way == "smi" else micros * 1000)


@pytest.mark.parametrize(
    "text",
    ["2026-02-30T00:00:00", "2026-13-01T00:00:00", "2026-01-01T24:00:00", "yesterday", "", "[N/A]", "9999-01-01"],
)
def test_what_is_no_time_is_no_time(text):
    read = dates_and_times(column([text, "2026-01-01T00:00:00"])).ns.tolist()
    assert read == [NO_TIME, 1_767_225_600 * 10**9]


def test_spreadsheets_write_times_otherwise():
    assert dates_and_times(column(["1/2/2026 3:04", "1/2/2026 3:05"])).ns.tolist() == [
        1_767_323_040 * 10**9,
        1_767_323_100 * 10**9,
    ]


@pytest.mark.parametrize(
    ("text", "clock", "ns"),
    [
        ("1767225600", "wall", 1_767_225_600 * 10**9),
        ("1767225600.250", "wall", 1_767_225_600_250_000_000),
        ("1767225600250", "wall", 1_767_225_600_250_000_000),
        ("1767225600250000", "wall", 1_767_225_600_250_000_000),
        ("1767225600250000000", "wall", 1_767_225_600_250_000_000),
        ("12.5", "relative", 12_500_000_000),
        ("-1", "relative", -(10**9)),
    ],
)
def test_the_size_of_a_number_tells_what_time_it_is(text, clock, ns):
    read = numbers_of_time(column([text]))
    assert (read.clock, read.ns.tolist()) == (clock, [ns])


def test_a_week_of_milliseconds_is_no_date():
    read = numbers_of_time(column(["700000000", "700001000"]), unit=1e6)
    assert (read.clock, np.diff(read.ns).tolist()) == ("relative", [10**9])


def test_time_of_day():
    assert times_of_day(column(["00:00:01", "23:59:59.5", "24:00:00"])).ns.tolist() == [
        10**9,
        86_399_500_000_000,
        NO_TIME,
    ]


@pytest.mark.parametrize(
    ("header", "name", "device"),
    [
        ("utilization.gpu [%]", "utilization_percent", None),
        ("utilization_gpu_percent", "utilization_percent", None),
        ("gpu_util", "utilization_percent", None),
        ("system.gpu.3.gpu", "utilization_percent", 3),
        ("run 7 - system.gpu.12.gpu", "utilization_percent", 12),
        ("system/gpu_1_utilization_percentage", "utilization_percent", 1),
        ("GPUUtilization", "utilization_percent", None),
        ("gpu_percent", "utilization_percent", None),
        ("GPU Util (%)", "utilization_percent", None),
        ("metrics-daemon/cuda:0 (gpu:2)/gpu_utilization (%)/mean", "utilization_percent", 2),
        ("metrics-daemon/cuda:0 (gpu:2)/memory_used (MiB)/mean", "memory_used_bytes", 2),
        ("utilization.memory [%]", "memory_utilization_percent", None),
        ("memory.used [MiB]", "memory_used_bytes", None),
        ("system/gpu_0_memory_usage_megabytes", "memory_used_bytes", 0),
        ("system.gpu.0.memoryAllocated", "memory_used_percent", 0),
        ("mem_mb", "memory_used_bytes", None),
        ("power.draw [W]", "power_w", None),
        ("clocks.current.sm [MHz]", "sm_clock_mhz", None),
        ("clocks_throttle_reasons.active", "throttle_reasons", None),
        ("temperature_C", "temperature_c", None),
    ],
)
def test_headers_are_understood(header, name, device):
    meaning = meaning_of(header)
    assert (meaning.name, meaning.device) == (name, device)


@pytest.mark.parametrize(
    "header",
    [
        "cpu",
        "cpu_util",
        "kv_cache_usage_pct",
        "loss",
        "fan.speed [%]",
        "clocks.mem [MHz]",
        "%util",
        "usage",
        "gpu",
        "name",
        "",
    ],
)
def test_what_is_not_of_a_gpu_is_not_taken_for_it(header):
    assert meaning_of(header) is None
