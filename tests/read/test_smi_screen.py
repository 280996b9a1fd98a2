"""The table of plain nvidia-smi in its layouts, and the outline of nvidia-smi -q."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.errors import WhyIdleError
from whyidle.read import load

GIB = 1 << 30
NEW = """{date}
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA L40S                    On  |   00000000:83:00.0 Off |                    0 |
| N/A   52C    P0            328W /  350W |    1024MiB /  46068MiB |    {busy}      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA L40S                    On  |   00000000:84:00.0 Off |                    0 |
| 30%   28C    P8             27W /  350W |       0MiB /  46068MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A           10291      C   python                                  566MiB |
|    0   N/A  N/A           10293    C+G   /usr/bin/some program                   442MiB |
+-----------------------------------------------------------------------------------------+
"""
OLD = """Mon Jan  2 03:04:05 2017
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.26                 Driver Version: 375.26                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla P100-SXM2...  Off  | 0000:06:00.0     Off |                    0 |
| N/A   34C    P0    55W / 300W |  15000MiB / 16276MiB |     97%      Default |
+-------------------------------+----------------------+----------------------+
|   1  GeForce GTX 1080    Off  | 0000:07:00.0     Off |                  N/A |
|  0%   30C    P8    N/A /  N/A |    100MiB /  8192MiB |     N/A      Default |
+-------------------------------+----------------------+----------------------+
+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""
SPLIT = NEW.replace("Disabled |", " Enabled |").replace(
    "+-----------------------------------------------------------------------------------------+\n| Processes:",
    """+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
|==================+==================================+===========+=======================|
|  0    2   1   0  |            1024MiB / 22000MiB    | 32      0 |  3   0    3    0    3 |
|                  |               0MiB / 59237MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
+-----------------------------------------------------------------------------------------+
| Processes:""",
)
LOG = """
==============NVSMI LOG==============

Timestamp                                 : Sat Jan  3 03:04:{second:02d} 2026
Attached GPUs                             : 1
GPU 00000000:83:00.0
    Product Name                          : NVIDIA L40S
    MIG Mode
        Current                           : Disabled
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
    FB Memory Usage
        Total                             : 46068 MiB
        Used                              : 1024 MiB
    Utilization
        Gpu                               : {busy}
        Memory                            : 7 %
    GPU Power Readings
        Average Power Draw                : 294.94 W
        Current Power Limit               : 350.00 W
    Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
    Max Clocks
        SM                                : 2520 MHz
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 12249
            Type                          : C
"""


def curve_of(tmp_path, text, name="smi.txt"):
    path = tmp_path / name
    path.write_text(text)
    (curve,) = load([path]).curves
    return curve


def values(curve, name):
    return {one.subject: one.value.tolist() for one in curve.series if one.name == name}


def at(second, busy="100%"):
    return NEW.format(date=f"Sat Jan  3 03:04:{second:02d} 2026", busy=busy)


def test_a_table_is_a_point(tmp_path):
    curve = curve_of(tmp_path, at(5))
    assert curve.clock == "wall"
    assert values(curve, "utilization_percent") == {"gpu 0": [100], "gpu 1": [0]}
    assert values(curve, "memory_used_bytes") == {"gpu 0": [GIB], "gpu 1": [0]}
    assert values(curve, "power_w") == {"gpu 0": [328], "gpu 1": [27]}
    assert values(curve, "power_limit_w") == {"gpu 0": [350], "gpu 1": [350]}
    assert values(curve, "processes") == {"gpu 0": [2], "gpu 1": [0]}
    assert [fact.value for fact in curve.facts if fact.name == "name"] == ["NVIDIA L40S", "NVIDIA L40S"]


def test_tables_again_and_again_are_a_curve(tmp_path):
    curve = curve_of(tmp_path, "".join(at(second, f"{second:3d}%") for second in range(10, 40, 2)))
    assert values(curve, "utilization_percent")["gpu 0"] == list(range(10, 40, 2))
    assert np.diff(curve.series[0].time).tolist() == [2 * 10**9] * 14


def test_without_dates_the_usual_interval_is_assumed_and_said(tmp_path):
    curve = curve_of(tmp_path, NEW.format(date="", busy="100%") * 3)
    assert curve.clock == "assumed"
    assert len(curve.series[0].time) == 3
    assert "2 s apart" in curve.warnings[0]


def test_the_layout_of_2017(tmp_path):
    curve = curve_of(tmp_path, OLD)
    assert values(curve, "utilization_percent")["gpu 0"] == [97]
    assert math.isnan(values(curve, "utilization_percent")["gpu 1"][0])
    assert math.isnan(values(curve, "power_w")["gpu 1"][0])
    names = [fact.value for fact in curve.facts if fact.name == "name"]
    assert names == ["GeForce GTX 1080"]  # the other name is cut short


def test_an_empty_list_of_processes_is_not_believed_where_memory_is_in_use(tmp_path):
    processes = values(curve_of(tmp_path, OLD), "processes")
    assert math.isnan(processes["gpu 0"][0])
    assert processes["gpu 1"] == [0]


def test_a_gpu_that_is_split_has_no_utilization(tmp_path):
    curve = curve_of(tmp_path, SPLIT.format(date="", busy="  N/A"))
    assert math.isnan(values(curve, "utilization_percent")["gpu 0"][0])
    assert values(curve, "memory_used_bytes")["gpu 0 MIG 2/1"] == [GIB]
    assert any("unknown" in warning for warning in curve.warnings)


def test_an_hour_back_is_the_end_of_daylight_saving(tmp_path):
    text = at(5) + at(5).replace("03:04:05", "03:59:59") + at(5).replace("03:04:05", "03:00:04")
    curve = curve_of(tmp_path, text)
    assert np.all(np.diff(curve.series[0].time) > 0)
    assert (curve.series[0].time[-1] - curve.series[0].time[-2]) / 1e9 == 5
    assert any("clock goes back" in warning for warning in curve.warnings)


def test_the_outline_of_q(tmp_path):
    curve = curve_of(tmp_path, LOG.format(second=5, busy="97 %") + LOG.format(second=7, busy="N/A"))
    assert curve.kind == "nvidia-smi -q"
    busy = values(curve, "utilization_percent")["gpu 0"]
    assert busy[0] == 97
    assert math.isnan(busy[1])
    assert values(curve, "throttle_reasons")["gpu 0"] == [0x4 + 0x8 + 0x40] * 2
    assert values(curve, "memory_used_bytes")["gpu 0"] == [GIB] * 2
    assert values(curve, "sm_clock_mhz")["gpu 0"] == [1980] * 2
    assert values(curve, "sm_clock_max_mhz")["gpu 0"] == [2520] * 2
    assert values(curve, "processes")["gpu 0"] == [1] * 2
    assert curve.series[0].time[1] - curve.series[0].time[0] == 2 * 10**9


@pytest.mark.parametrize("text", [at(5)[:600], "==============NVSMI LOG==============\n\nTimestamp : x\n"])
def test_no_gpu_is_an_error(tmp_path, text):
    with pytest.raises(WhyIdleError, match="cut short"):
        curve_of(tmp_path, text)


@given(st.integers(0, 3000), st.binary(max_size=4), st.sampled_from([at(5) + at(7), SPLIT, OLD, LOG]))
def test_damage_is_a_message(tmp_path_factory, place, other, whole):
    path = tmp_path_factory.mktemp("damage") / "smi.txt"
    content = whole.encode()
    for damaged in (content[:place], content[:place] + other + content[place:]):
        path.write_bytes(damaged)
        with contextlib.suppress(WhyIdleError):
            load([path])
