"""Captures: what was seen at rest and what under load are two states, never one curve."""

from __future__ import annotations

import contextlib
import math

import pytest

from whyidle.errors import WhyIdleError
from whyidle.read import load

RULE = "#" * 80
HEAD = f"{RULE}\n# nvidia_gpu_exporter GPU capture\n{RULE}\ncollected_at:   2026-01-02T03:04:05Z\n"
SCREEN = """Fri Jan  2 03:0{minute}:05 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 590.48.01              Driver Version: 590.48.01      CUDA Version: 13.1     |
|=========================================+========================+======================|
|   0  NVIDIA L40S                    On  |   00000000:83:00.0 Off |                    0 |
| N/A   52C    P0            328W /  350W |    1024MiB /  46068MiB |    {busy}      Default |
+-----------------------------------------+------------------------+----------------------+
"""


def section(title, text):
    return f"\n\n{RULE}\n# {title}\n# $ nvidia-smi\n{RULE}\n{text}"


def curve_of(tmp_path, text):
    path = tmp_path / "capture.txt"
    path.write_text(text)
    (curve,) = load([path]).curves
    return curve


def utilization(curve):
    return [one.value.tolist() for one in curve.series if one.name == "utilization_percent"]


def test_only_what_was_seen_under_load_is_read_and_the_rest_is_told(tmp_path):
    text = HEAD + section("capabilities :: help", "usage: nvidia-smi")
    text += section("idle :: nvidia-smi (default table)", SCREEN.format(minute=4, busy="  0%"))
    text += section("load :: nvidia-smi (default table)", SCREEN.format(minute=5, busy="100%"))
    curve = curve_of(tmp_path, text)
    assert utilization(curve) == [[100]]
    assert any("'idle' is left out (utilization: gpu 0 0%)" in warning for warning in curve.warnings)


def test_a_capture_at_rest_alone_is_read(tmp_path):
    curve = curve_of(tmp_path, HEAD + section("idle :: nvidia-smi", SCREEN.format(minute=4, busy="  0%")))
    assert utilization(curve) == [[0]]


@pytest.mark.parametrize(("samples", "read"), [(5, [[90, 91, 92, 93, 94]]), (4, [[100]])])
def test_enough_samples_of_dmon_under_load_are_the_curve(tmp_path, samples, read):
    def dmon(first):
        return "# gpu    pwr     sm\n# Idx      W      %\n" + "".join(
            f"    0    328     {first + n}\n" for n in range(samples)
        )

    text = HEAD + section("idle :: dmon", dmon(0)).replace("$ nvidia-smi", "$ nvidia-smi dmon -c 5")
    text += section("load :: nvidia-smi (default table)", SCREEN.format(minute=5, busy="100%"))
    text += section("load :: dmon", dmon(90)).replace("$ nvidia-smi", "$ nvidia-smi dmon -c 5")
    curve = curve_of(tmp_path, text)
    assert utilization(curve) == read
    assert [fact.value for fact in curve.facts if fact.name == "name"] == ["NVIDIA L40S"]


def test_a_capture_without_a_state_is_an_error(tmp_path):
    with pytest.raises(WhyIdleError, match="without a state"):
        curve_of(tmp_path, HEAD + section("capabilities :: help", "usage"))


def test_damage_is_a_message(tmp_path):
    text = HEAD + section("idle :: nvidia-smi", SCREEN.format(minute=4, busy="  0%"))
    text += section("load :: nvidia-smi", SCREEN.format(minute=5, busy="100%"))
    path = tmp_path / "capture.txt"
    for length in range(0, len(text), 7):
        path.write_text(text[:length])
        with contextlib.suppress(WhyIdleError):
            load([path])


def test_real_captures(corpus):
    def read(name):
        (path,) = (corpus / "telemetry/nvidia_gpu_exporter_captures").glob(f"*nvidia-{name}__*")
        (curve,) = load([path]).curves
        return curve

    assert utilization(read("h200"))[0][0] == 100
    split = read("h200-mig")
    assert math.isnan(utilization(split)[0][0])
    assert any("unknown" in warning for warning in split.warnings)
