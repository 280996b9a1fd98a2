"""nvidia-smi pmon: GPU time of processes."""

from __future__ import annotations

import numpy as np
import pytest
from tables import curve_in, damaged, of, seconds, well_formed

from whyidle.errors import WhyIdleError
from whyidle.read.pmon import Pmon

OLD = (
    "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n"
)
NEW = (
    "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
    "# Idx           #    C/G      %      %      %      %      %      %    name \n"
)


def rows(samples, extra="      -      -"):
    """Return rows: of each sample pairs of GPU, pid and utilization."""
    return "".join(
        f"    {gpu}      {pid}     C     {busy}      7      -      -{extra}    python train.py\n"
        for sample in samples
        for gpu, pid, busy in sample
    )


@pytest.mark.parametrize(("header", "extra"), [(OLD, ""), (NEW, "      -      -")], ids=["old", "new"])
def test_processes_of_gpus(tmp_path, header, extra):
    samples = [[(0, 10, 90), (0, 11, "-"), (1, 10, 5)], [(0, 10, 91), (1, 10, 6)]]
    curve = curve_in(tmp_path, header + rows(samples, extra), "pmon.txt")
    assert (curve.kind, curve.clock) == ("nvidia-smi pmon", "assumed")
    assert of(curve, "process_utilization_percent", 0, pid=10).value.tolist() == [90, 91]
    assert of(curve, "process_utilization_percent", 1, pid=10).value.tolist() == [5, 6]
    assert np.isnan(of(curve, "process_utilization_percent", 0, pid=11).value).all()
    assert seconds(of(curve, "process_utilization_percent", 1, pid=10)) == [0, 1]
    well_formed(curve)


def test_a_process_that_comes_later_comes_later(tmp_path):
    curve = curve_in(tmp_path, NEW + rows([[(0, 10, 1)], [(0, 10, 2), (0, 12, 3)], [(0, 12, 4)]]), "pmon.txt")
    assert of(curve, "process_utilization_percent", 0, pid=12).time.tolist() == [10**9, 2 * 10**9]


def test_with_date_and_time(tmp_path):
    text = "#Date       Time        gpu        pid  type    sm   mem   enc   dec   command\n" + "".join(
        f" 20260102   03:04:{n:02d}      0      10     C     {n}      7      -      -   python\n" for n in range(3)
    )
    curve = curve_in(tmp_path, text, "pmon.txt")
    series = of(curve, "process_utilization_percent", 0, pid=10)
    assert (curve.clock, series.value.tolist()) == ("wall", [0, 1, 2])
    assert series.time[0] == 1_767_323_040 * 10**9


def test_no_process_is_said(tmp_path):
    with pytest.raises(WhyIdleError, match="saw no process"):
        curve_in(tmp_path, NEW + rows([[(0, "-", "-")]] * 3), "pmon.txt")


def test_without_utilization_it_is_refused(tmp_path):
    text = "# gpu        pid  type    fb   command\n    0      10     C     99   python\n"
    with pytest.raises(WhyIdleError, match="without utilization"):
        curve_in(tmp_path, text, "pmon.txt")


def test_a_section_of_a_capture_is_parsed(tmp_path):
    path = tmp_path / "capture.txt"
    assert Pmon.printed([b"nothing of the kind\n"], path) is None
    assert Pmon.printed([(NEW + rows([[(0, 10, 50)]]) + "\n\n").encode()], path).series[0].pid == 10


def test_damage_is_said_or_survived(tmp_path):
    damaged(tmp_path, (OLD + rows([[(0, 10, 9), (1, 11, 8)]] * 2, "")).encode(), "pmon.txt")
