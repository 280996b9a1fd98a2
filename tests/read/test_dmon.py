"""nvidia-smi dmon, in every selection of columns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import curve_in, damaged, of, seconds, values, well_formed

from whyidle.errors import WhyIdleError
from whyidle.read.dmon import Dmon

# What each letter of -s adds: columns, their units, and a row of values. As drivers 560 and later print them.
SELECTIONS = {
    "p": ("pwr gtemp mtemp", "W C C", "312 54 61"),
    "u": ("sm mem enc dec jpg ofa", "% % % % % %", "87 23 0 0 0 0"),
    "c": ("mclk pclk", "MHz MHz", "2619 1980"),
    "v": ("pviol tviol", "% bool", "7 1"),
    "m": ("fb bar1 ccpm", "MB MB MB", "40960 2 0"),
    "e": ("sbecc dbecc pci", "errs errs errs", "- - 0"),
    "t": ("rxpci txpci", "MB/s MB/s", "41 8"),
}
MEANT = {
    "p": {"power_w": 312, "temperature_c": 54},
    "u": {"utilization_percent": 87, "memory_utilization_percent": 23, "encoder_percent": 0, "decoder_percent": 0},
    "c": {"sm_clock_mhz": 1980},
    "v": {"power_violation_percent": 7, "thermal_violation_percent": 100},
    "m": {"memory_used_bytes": 40960 * 2**20},
    "e": {},
    "t": {"pcie_rx_bytes_per_s": 41e6, "pcie_tx_bytes_per_s": 8e6},
}
TIMES = {"": ("", "", ""), "D": ("Date", "YYYYMMDD", "20260102"), "T": ("Time", "HH:MM:SS", "03:04:{:02d}")}
TIMES["DT"] = tuple(f"{day} {time}" for day, time in zip(TIMES["D"], TIMES["T"], strict=True))


def printed(select="pucvmet", options="", gpus=2, samples=3, csv=False):
    """Return what dmon prints."""
    date, date_unit, when = TIMES[options]
    names = f"{date} gpu " + " ".join(SELECTIONS[letter][0] for letter in select)
    units = f"{date_unit} Idx " + " ".join(SELECTIONS[letter][1] for letter in select)
    row = " ".join(SELECTIONS[letter][2] for letter in select)
    rows = [f"{when.format(second)} {gpu} {row}" for second in range(samples) for gpu in range(gpus)]
    if csv:
        return "".join(
            [
                f"#{', '.join(names.split())}\n#{', '.join(units.split())}\n",
                *(f"{', '.join(r.split())}\n" for r in rows),
            ]
        )
    pad = lambda line: " ".join(f"{word:>6}" for word in line.split())  # noqa: E731
    return "".join([f"# {pad(names)} \n# {pad(units)} \n", *(f"  {pad(row)} \n" for row in rows)])


@pytest.mark.parametrize("csv", [False, True], ids=["text", "csv"])
@pytest.mark.parametrize("options", TIMES)
@pytest.mark.parametrize("select", ["pucvmet", "u", "pu", "puc", "um", "ut", "pucm", "cu", "vu"])
def test_every_selection(tmp_path, select, options, csv):
    curve = curve_in(tmp_path, printed(select, options, csv=csv), "dmon.txt")
    meant = {name: value for letter in select for name, value in MEANT[letter].items()}
    for gpu in range(2):
        assert {one.name: one.value.tolist() for one in curve.series if one.device == gpu} == {
            name: [value] * 3 for name, value in meant.items()
        }
    assert seconds(of(curve, "utilization_percent", 1)) == [0, 1, 2]
    assert curve.kind == "nvidia-smi dmon"
    assert curve.clock == {"": "assumed", "D": "assumed", "T": "relative", "DT": "wall"}[options]
    assert len(curve.warnings) == (1 if curve.clock == "assumed" else 0)
    well_formed(curve)


def test_date_and_time_are_utc(tmp_path):
    curve = curve_in(tmp_path, printed("u", "DT"), "dmon.txt")
    assert of(curve, "utilization_percent").time[0] == 1_767_323_040 * 10**9


def test_power_alone_is_read(tmp_path):
    assert values(curve_in(tmp_path, printed("p", "DT"), "dmon.txt"), "power_w") == [312] * 3


def test_errors_alone_are_refused(tmp_path):
    with pytest.raises(WhyIdleError, match="without a counter of use"):
        curve_in(tmp_path, printed("e"), "dmon.txt")


def test_the_header_comes_again_every_few_lines(tmp_path):
    text = printed("u", "DT", samples=4).splitlines(keepends=True)
    again = "".join([*text[:6], *text[:2], *text[6:8], "\n", *text[:2], *text[8:]])
    curve = curve_in(tmp_path, again, "dmon.txt")
    assert values(curve, "utilization_percent") == [87] * 4
    assert curve.warnings == ()


def test_old_drivers_have_one_temperature(tmp_path):
    text = (
        "# gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk\n# Idx     W     C     %     %     %     %   MHz   MHz\n"
    )
    curve = curve_in(tmp_path, text + "    0    43    48     0     1     0     0  3505   936\n" * 2, "dmon.txt")
    assert (values(curve, "temperature_c"), values(curve, "sm_clock_mhz")) == ([48, 48], [936, 936])


def test_dashes_of_a_split_gpu_are_not_zero(tmp_path):
    text = printed("pu", "DT", gpus=1).replace("    87     23      0      0      0      0", "     -" * 6)
    curve = curve_in(tmp_path, text, "dmon.txt")
    assert values(curve, "utilization_percent") == [None, None, None]
    assert "memory_utilization_percent" not in {series.name for series in curve.series}


def test_midnight_passes(tmp_path):
    rows = "".join(f" {time} 0 {n}\n" for n, time in enumerate(["23:59:58", "23:59:59", "00:00:00", "00:00:01"]))
    curve = curve_in(tmp_path, f"#Time gpu sm\n#HH:MM:SS Idx %\n{rows}", "dmon.txt")
    assert seconds(of(curve, "utilization_percent")) == [0, 1, 2, 3]
    assert (curve.clock, curve.warnings) == ("relative", ())


def test_a_cut_line_is_left_out(tmp_path):
    curve = curve_in(tmp_path, printed("u", "DT", gpus=1)[:-20], "dmon.txt")
    assert values(curve, "utilization_percent") == [87, 87]
    assert "1 lines do not have the columns" in curve.warnings[0]


def test_a_section_of_a_capture_is_parsed(tmp_path):
    path = tmp_path / "capture.txt"
    assert Dmon.printed([b"nothing of the kind\n"], path) is None
    curve = Dmon.printed([b"########\n" + printed("u").encode() + b"\n\n"], path)
    assert values(curve, "utilization_percent", 1) == [87] * 3


@settings(max_examples=40)
@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=2, max_size=2), min_size=1, max_size=50))
def test_what_was_printed_is_read(tmp_path_factory, samples):
    rows = "".join(
        f" 20260102   {n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d} {gpu:>6} {'-' if value is None else value:>6} \n"
        for n, sample in enumerate(samples)
        for gpu, value in enumerate(sample)
    )
    curve = curve_in(tmp_path_factory.mktemp("dmon"), f"#Date       Time        gpu     sm\n{rows}", "dmon.txt")
    for gpu in range(2):
        assert values(curve, "utilization_percent", gpu) == [sample[gpu] for sample in samples]


def test_damage_is_said_or_survived(tmp_path):
    damaged(tmp_path, printed("u", "DT", samples=2).encode(), "dmon.txt")


def test_a_recording_of_a_training_with_four_gpus(corpus):
    path = corpus / "telemetry" / "issues" / "deepspeech_178_dmon_pucvmet.txt"
    curve = Dmon.printed([path.read_bytes()], path)
    assert [values(curve, "utilization_percent", gpu) for gpu in range(4)] == [[25], [18], [24], [18]]
    assert [values(curve, "power_w", gpu) for gpu in range(4)] == [[111], [111], [112], [86]]
    assert values(curve, "thermal_violation_percent", 3) == [0]


def test_activity_of_hopper_and_later(tmp_path):
    text = (
        "# gpu    pwr     sm    mem  smutil  mmaact    dram\n"
        "# Idx      W      %      %   GPM:%   GPM:%   GPM:%\n"
        "    0    360    100     16    71.5    30.0       -\n"
    )
    curve = curve_in(tmp_path, text, "dmon.txt")
    assert values(curve, "utilization_percent") == [100]
    assert values(curve, "sm_active_share") == pytest.approx([0.715])
    assert values(curve, "tensor_active_share") == pytest.approx([0.3])
