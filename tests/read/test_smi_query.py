"""nvidia-smi --query-gpu as CSV, in the ways that people record it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import curve_in, damaged, of, seconds, values, well_formed

from whyidle.errors import WhyIdleError
from whyidle.model.evidence import Fact

HEADER = (
    "timestamp, index, name, uuid, utilization.gpu [%], utilization.memory [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W], power.limit [W], clocks.current.sm [MHz], clocks.max.sm [MHz], temperature.gpu, "
    "clocks_event_reasons.active\n"
)
ROW = (
    "2026/01/02 03:04:{second:02d}.{ms:03d}, {gpu}, NVIDIA H100, GPU-{gpu}a, {busy} %, 10 %, 1024 MiB, 81559 MiB, "
    "312.50 W, 700.00 W, 1980 MHz, 1980 MHz, 41, 0x0000000000000004\n"
)


def recording(busy, header=HEADER):
    """Return a recording of GPUs whose utilization is given sample by sample."""
    rows = [
        ROW.format(second=second, ms=100 + 4 * gpu, gpu=gpu, busy=value)
        for second, sample in enumerate(busy)
        for gpu, value in enumerate(sample)
    ]
    return header + "".join(rows)


def test_a_recording_with_units(tmp_path):
    curve = curve_in(tmp_path, recording([(90, 0), (91, 5), ("[N/A]", 7)]))
    assert (curve.kind, curve.clock, curve.warnings) == ("nvidia-smi query", "wall", ())
    assert values(curve, "utilization_percent", 0) == [90, 91, None]
    assert values(curve, "utilization_percent", 1) == [0, 5, 7]
    assert of(curve, "utilization_percent", 1).time[0] == 1_767_323_040_104_000_000
    assert seconds(of(curve, "power_w", 0)) == [0, 1, 2]
    first = {series.name: series.value[0] for series in curve.series if series.device == 0}
    assert first == {
        "utilization_percent": 90,
        "memory_utilization_percent": 10,
        "memory_used_bytes": 2**30,
        "memory_total_bytes": 81559 * 2**20,
        "power_w": 312.5,
        "power_limit_w": 700,
        "sm_clock_mhz": 1980,
        "sm_clock_max_mhz": 1980,
        "temperature_c": 41,
        "throttle_reasons": 4,
    }
    assert Fact("name", "NVIDIA H100", "nvidia-smi --query-gpu", "gpu 1") in curve.facts
    assert Fact("memory_bytes", 81559 * 2**20, "nvidia-smi --query-gpu", "gpu 0") in curve.facts
    assert Fact("power_limit_w", 700.0, "nvidia-smi --query-gpu", "gpu 0") in curve.facts
    well_formed(curve)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace(" %,", ",").replace(" MiB,", ",").replace(" W,", ",").replace(" MHz,", ","),
        lambda text: text.replace(", ", ","),
        lambda text: text.replace("event_reasons", "throttle_reasons"),
        lambda text: text.replace("power.draw [W]", "power.draw.average [W]"),
        lambda text: text + HEADER,
        lambda text: "+ nvidia-smi -l 1\n\n" + text,
    ],
    ids=["CRLF", "BOM", "nounits", "no blanks", "old names", "new names", "header again", "lines before"],
)
def test_the_same_recording_written_otherwise(tmp_path, change):
    text = recording([(90, 0), (91, 5)])
    plain, other = curve_in(tmp_path, text), curve_in(tmp_path, change(text))
    assert len(other.series) == len(plain.series) == 20
    for one, two in zip(plain.series, other.series, strict=True):
        assert (one.name, one.subject, one.value.tolist(), one.time.tolist()) == (
            two.name,
            two.subject,
            two.value.tolist(),
            two.time.tolist(),
        )
    assert other.warnings == ()


def test_a_packed_recording(tmp_path):
    assert values(curve_in(tmp_path, recording([(90,)]), "gpus.csv.gz"), "utilization_percent") == [90]


def test_without_header_the_unit_tells_the_column(tmp_path):
    text = "".join(f"2026/01/02 03:04:{n:02d}.000, {gpu}, {n} %, 7 MiB\n" for n in range(9) for gpu in range(2))
    curve = curve_in(tmp_path, text)
    assert values(curve, "utilization_percent", 1) == list(range(9))
    assert values(curve, "memory_used_bytes", 0) == [7 * 2**20] * 9
    assert "the only column in % is taken as utilization.gpu" in curve.warnings[0]


@pytest.mark.parametrize("line", ["epoch 1, 45 %, loss 0.5", "2026/01/02 03:04:05.000, INFO: 45 %, 3 MiB"])
def test_a_log_is_not_taken_for_it(tmp_path, line):
    with pytest.raises(WhyIdleError, match="no format that whyidle knows"):
        curve_in(tmp_path, f"{line}\n" * 3)


@pytest.mark.parametrize("row", ["2026/01/02 03:04:05.000, 0, 45, 1000", "2026/01/02 03:04:05.000, 0, 45 %, 10 %"])
def test_without_header_and_unit_it_is_refused(tmp_path, row):
    with pytest.raises(WhyIdleError, match="nothing tells which column") as told:
        curve_in(tmp_path, f"{row}\n" * 3)
    assert "--format=csv" in told.value.hint


def test_without_timestamp_seconds_are_assumed_and_said(tmp_path):
    curve = curve_in(tmp_path, "index, utilization.gpu [%]\n0, 5 %\n1, 6 %\n0, 7 %\n1, 8 %\n")
    assert curve.clock == "assumed"
    assert values(curve, "utilization_percent", 1) == [6, 8]
    assert seconds(of(curve, "utilization_percent", 1)) == [0, 1]
    assert "one sample per second is assumed" in curve.warnings[0]


def test_gpus_without_index_are_told_by_uuid(tmp_path):
    rows = "".join(
        f"2026/01/02 03:04:0{n}.000, GPU-{name}, {busy} %\n" for n in range(3) for name, busy in ("b1", "a2")
    )
    curve = curve_in(tmp_path, "timestamp, uuid, utilization.gpu [%]\n" + rows)
    assert values(curve, "utilization_percent", 0) == [2, 2, 2]
    assert values(curve, "utilization_percent", 1) == [1, 1, 1]


def test_gpus_that_nothing_tells_apart_take_turns(tmp_path):
    rows = "".join(
        f"2026/01/02 03:04:{n:02d}.{100 + 3 * gpu}, {10 * gpu + n % 3} %\n" for n in range(40) for gpu in range(4)
    )
    curve = curve_in(tmp_path, "timestamp, utilization.gpu [%]\n" + rows)
    assert [values(curve, "utilization_percent", gpu)[:3] for gpu in range(4)] == [
        [10 * gpu + n for n in range(3)] for gpu in range(4)
    ]
    assert "those of 4 GPUs" in curve.warnings[0]


def test_reasons_of_low_clocks_may_have_a_column_each(tmp_path):
    names = ("sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown")
    header = ", ".join(f"clocks_throttle_reasons.{name}" for name in names)
    rows = "Active, Not Active, Not Active, Active", "Not Active, Active, [N/A], Not Active"
    text = f"timestamp, index, utilization.gpu [%], {header}\n" + "".join(
        f"{clock(2, 0, n)}, 0, 5 %, {row}\n" for n, row in enumerate(rows)
    )
    curve = curve_in(tmp_path, text)
    assert values(curve, "throttle_reasons") == [0x4 + 0x40, None]
    well_formed(curve)


def test_what_does_not_fit_is_left_out_and_said(tmp_path):
    text = recording([(1,), (2,), (3,)]).splitlines()
    text[2] = text[2][:40]
    text += ["Unable to determine the device handle for GPU0000:01:00.0: Unknown Error", ""]
    curve = curve_in(tmp_path, "\n".join(text))
    assert values(curve, "utilization_percent") == [1, 3]
    assert "2 lines do not have the columns of the header" in curve.warnings[0]


def test_mixed_units_are_said_and_a_bare_share_is_not_known(tmp_path):
    text = "timestamp, index, utilization.gpu [%], memory.used [MiB]\n" + "".join(
        f"2026/01/02 03:04:0{n}.000, 0, {busy}, {memory}\n"
        for n, (busy, memory) in enumerate([("45 %", "1 GiB"), ("0.45", "512 MiB"), ("60", "5 parsecs")])
    )
    curve = curve_in(tmp_path, text)
    assert values(curve, "utilization_percent") == [45, None, 60]
    assert values(curve, "memory_used_bytes") == [2**30, 2**29, None]
    said = " ".join(curve.warnings)
    assert "utilization_percent is written in several units" in said
    assert "memory_used_bytes is written in several units" in said
    assert "1 cells of memory_used_bytes are no numbers, or of another unit" in said


def test_mig_has_no_utilization_and_that_is_not_zero(tmp_path):
    curve = curve_in(tmp_path, recording([("[N/A]",), ("[N/A]",)]))
    assert values(curve, "utilization_percent") == [None, None]


@pytest.mark.parametrize(
    ("content", "why"),
    [(HEADER, "nothing was recorded"), (HEADER + "0, 1\n", "none of 1 rows has the columns")],
    ids=["no rows", "no row that fits"],
)
def test_nothing_recorded_is_said(tmp_path, content, why):
    with pytest.raises(WhyIdleError, match=why):
        curve_in(tmp_path, content)


def clock(hour, minute, second=0):
    return f"2026/10/25 {hour:02d}:{minute:02d}:{second:02d}.000"


def test_the_end_of_daylight_saving_is_said_and_no_row_is_lost(tmp_path):
    times = [clock(2, minute) for minute in range(50, 60)] + [clock(2, minute) for minute in range(10)]
    rows = "".join(f"{time}, 0, {n} %\n" for n, time in enumerate(times))
    curve = curve_in(tmp_path, "timestamp, index, utilization.gpu [%]\n" + rows)
    assert seconds(of(curve, "utilization_percent")) == [60 * n for n in range(20)]
    assert values(curve, "utilization_percent") == list(range(20))
    assert "jumps back 1 h after 2026-10-25 02:59:00" in curve.warnings[0]


def test_its_start_is_said_too(tmp_path):
    times = [clock(1, minute) for minute in range(50, 60)] + [clock(3, minute) for minute in range(10)]
    rows = "".join(f"{time}, 0, {n} %\n" for n, time in enumerate(times))
    curve = curve_in(tmp_path, "timestamp, index, utilization.gpu [%]\n" + rows)
    assert seconds(of(curve, "utilization_percent"))[9:11] == [540, 4200]
    assert "jumps forward 1 h at 2026-10-25 03:00:00" in curve.warnings[0]


def test_repeated_times_and_rows_out_of_order_are_said(tmp_path):
    rows = "".join(f"{clock(2, 0, second)}, 0, {second} %\n" for second in (1, 2, 2, 5, 4, 6))
    curve = curve_in(tmp_path, "timestamp, index, utilization.gpu [%]\n" + rows)
    assert values(curve, "utilization_percent") == [1, 2, 4, 5, 6]
    assert len(curve.warnings) == 2


@settings(max_examples=50)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=3, max_size=3), min_size=1, max_size=50))
def test_what_was_written_is_read(tmp_path_factory, samples):
    busy = [["[N/A]" if value is None else value for value in sample] for sample in samples]
    curve = curve_in(tmp_path_factory.mktemp("query"), recording(busy))
    for gpu in range(3):
        assert values(curve, "utilization_percent", gpu) == [sample[gpu] for sample in samples]


def test_damage_is_said_or_survived(tmp_path):
    text = "timestamp, index, utilization.gpu [%]\n" + "".join(f"{clock(2, 0, n)}, {n % 2}, {n} %\n" for n in range(4))
    damaged(tmp_path, text.encode(), "gpus.csv")


def test_gpus_that_are_sampled_together_share_their_times(tmp_path):
    rows = "".join(f"{clock(2, 0, second)}, {gpu}, 5 %\n" for second in range(5) for gpu in range(4))
    curve = curve_in(tmp_path, "timestamp, index, utilization.gpu [%]\n" + rows)
    assert len({id(series.time) for series in curve.series}) == 1
    assert np.all(np.diff(curve.series[0].time) == 10**9)
