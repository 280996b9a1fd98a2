"""Files that are parts of one recording: a scrape each, a minute each, turned over by a logger, one for each GPU."""

from __future__ import annotations

import numpy as np
import pytest

from whyidle.measure.curve import measure
from whyidle.read import load

BUSY = [0, 95, 95, 0, 95, 95, 50, 95, 0, 20]
MEAN = float(np.mean(BUSY))
DMON = "#{date}Time        gpu    sm\n#{form}HH:MM:SS    Idx     %\n"


def judged(folder, files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return measure(load([folder]))


def scrape(busy, time=""):
    return f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",Hostname="n1"}} {busy} {time}\n'


def dmon(start, busy, dated):
    head = DMON.format(date="Date       " if dated else "", form="YYYYMMDD   " if dated else "")
    day = "20260105   " if dated else ""
    return head + "".join(f" {day}10:00:{start + place:02d}      0    {value}\n" for place, value in enumerate(busy))


def one_gpu(found, seconds):
    (device,) = found.devices
    assert device.busy_share * 100 == pytest.approx(MEAN)
    assert device.window_s == pytest.approx(seconds)


def test_scrapes_that_tell_their_time(tmp_path):
    files = {f"{n}.prom": scrape(busy, (1_767_607_200 + 30 * n) * 1000) for n, busy in enumerate(BUSY)}
    one_gpu(judged(tmp_path, files), 300)


@pytest.mark.parametrize("name", ["{:.0f}.prom", "{:.0f}000.prom"])
def test_scrapes_whose_names_tell_their_time(tmp_path, name):
    files = {f"n1-{name.format(1_767_607_200 + 30 * n)}": scrape(busy) for n, busy in enumerate(BUSY)}
    one_gpu(judged(tmp_path, files), 300)


def test_dates_in_names(tmp_path):
    files = {f"gpu_2026-01-05_10-0{n}-00.prom": scrape(busy) for n, busy in enumerate(BUSY)}
    one_gpu(judged(tmp_path, files), 600)


def test_scrapes_without_any_time_are_no_curve_and_it_is_said(tmp_path):
    found = judged(tmp_path, {f"{n}.prom": scrape(busy) for n, busy in enumerate(BUSY)})
    assert any("several files hold a moment each, and none tells its time" in said for said in found.warnings)
    assert found.devices[0].window_s < 30


@pytest.mark.parametrize("dated", [True, False])
def test_dmon_in_files_that_follow_each_other(tmp_path, dated):
    one_gpu(judged(tmp_path, {"dmon.1": dmon(0, BUSY[:5], dated), "dmon.2": dmon(5, BUSY[5:], dated)}), 10)


def test_files_that_share_some_samples_are_one_recording(tmp_path):
    one_gpu(judged(tmp_path, {"dmon.1": dmon(0, BUSY[:7], True), "dmon.2": dmon(4, BUSY[4:], True)}), 10)


def test_files_that_say_another_thing_of_the_same_time_are_not(tmp_path):
    found = judged(tmp_path, {"dmon.1": dmon(0, BUSY, True), "dmon.2": dmon(4, [7] * 5, True)})
    assert any("the longer one is used" in said for said in found.warnings)


def test_a_file_that_writes_a_gpu_in_two_ways_is_told(tmp_path):
    rows = "".join(f"2026-01-05T10:00:0{s},{gpu},{9 * s}\n" for s in range(6) for gpu in ("0", "gpu0"))
    found = judged(tmp_path, {"a.csv": "time,gpu,utilization\n" + rows.replace("gpu0,9", "gpu0,7")})
    assert any("hold utilization_percent" in said for said in found.warnings)


def test_minutes_of_the_sagemaker_profiler(tmp_path):
    row = '{{"Type":"gpu","Name":"gpu0","Dimension":"GPUUtilization","Value":{},"Timestamp":{},"NodeId":"algo-1"}}\n'
    files = {
        f"{n}.algo-1.json": "".join(row.format(busy, 1_767_607_200 + 60 * n + s) for s in range(60))
        for n, busy in enumerate(BUSY)
    }
    one_gpu(judged(tmp_path, files), 600)


def test_a_file_for_each_gpu_that_only_its_name_tells(tmp_path):
    header = "timestamp, utilization.gpu [%], memory.used [MiB]\n"
    files = {
        f"run7_gpu{gpu}.csv": header + "".join(f"2026/01/05 10:00:0{s}.000, {gpu} %, 1 MiB\n" for s in range(9))
        for gpu in (0, 3)
    }
    assert [(one.device, round(one.busy_share * 100)) for one in judged(tmp_path, files).devices] == [(0, 0), (3, 3)]
