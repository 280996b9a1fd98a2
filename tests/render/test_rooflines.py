"""Operators next to what the GPU could do, and how fast copies are: tables of `--all`."""

from __future__ import annotations

from whyidle.model.detail import Copies, Detail, Roofline
from whyidle.model.finding import Report, RunInfo, Summary
from whyidle.render import render
from whyidle.render.words import decimal

ROWS = (
    Roofline("aten::mm", "bf16", 1200, 0.5, 785e9 * 100, 3 << 30, 0.625, "compute"),
    Roofline("aten::add_", "", 90, 0.0021, 0.0, 1 << 30, 0.004, "latency"),
)


def test_tables():
    summary = Summary("Healthy.", mfu=0.38, mfu_peak="312 TFLOP/s, bf16 on A100 SXM 80GB")
    copies = (Copies("HtoD", True, 3, 64 << 20, 0.004, 0.01, 16.8e9),)
    report = Report(RunInfo(), summary, detail=Detail(rooflines=ROWS, copies=copies))
    text = render(report, width=100, everything=True)
    assert "38% of 312 TFLOP/s, bf16 on A100 SXM 80GB" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["aten::mm", "bf16", "1,200", "500", "ms", "78.5", "T", "3", "GiB", "62%", "compute"] in lines
    assert ["aten::add_", "90", "2.1", "ms", "1", "GiB", "<1%", "latency"] in lines
    assert ["HtoD", "pinned", "3", "64", "MiB", "4", "ms", "16.8", "GB/s", "1%"] in lines


def test_decimal_prefixes():
    numbers = (0, 5, 1500, 785e9, 25.1e12)
    assert [f"{decimal(n)}B" for n in numbers] == ["0 B", "5 B", "1.5 kB", "785 GB", "25.1 TB"]
