"""Figures say in words and numbers what they draw, with or without scripts."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.render.html.charted import banded, by_step, drawing, gpus, report, spread
from whyidle.model.picture import Chart, Line, Mark, Whole
from whyidle.render.base import Look
from whyidle.render.html import Html
from whyidle.render.html.figures import figure, number, said_once, spans, sparkline
from whyidle.render.html.sections import curves, steps


def text(html: str) -> str:
    """What a reader sees of it, a line for each element that has text."""
    return "\n".join(line for part in re.split(r"<[^>]+>", html) if (line := part.strip()))


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)


@pytest.mark.parametrize("name", ["curve", "many", "steps", "spread"])
def test_a_figure_reads_well(name: str, snapshot: SnapshotAssertion) -> None:
    charts = {"curve": banded("Power", "W", 280.0, 400.0), "many": gpus(8), "steps": by_step(), "spread": spread()}
    drawn = figure(charts[name], 0, tall=name in {"steps", "spread"})
    said = re.search(r'aria-label="([^"]*)"', drawn)
    assert said is not None
    assert f"{said[1]}\n--\n{text(drawn)}" == snapshot


@pytest.mark.parametrize("chart", [gpus(1), gpus(8), banded("Power", "W", 280.0), by_step(), spread()])
def test_a_figure_is_well_formed_and_has_no_style(chart: Chart) -> None:
    html = figure(chart, 3)
    assert "style=" not in html
    root = parsed(html.replace("&nbsp;", " "))
    assert root.attrib["data-chart"] == "3"
    assert len(root.attrib["data-roles"].split()) == len(chart.lines)


def test_names_from_files_stay_text() -> None:
    evil = "</svg><img src=x onerror=alert(1)>\u202e"
    chart = replace(gpus(1), title=evil, unit=evil, note=evil, lines=(Line(evil, np.array([1.0, 2.0])),) * 2)
    chart = replace(chart, x=np.arange(2.0), marks=(Mark("event", evil, 0.0, 0.0),), clock=evil)
    html = figure(chart, 0)
    assert "<img" not in html
    assert "\u202e" not in html
    parsed(html)


@pytest.mark.parametrize("axis", ["s", "step", "step_time_s"])
@pytest.mark.parametrize("values", [[], [1.0], [float("nan")], [float("nan"), 2.0, float("nan")], [0.0, 0.0]])
def test_a_chart_of_little_or_nothing_is_still_a_figure(axis: str, values: list[float]) -> None:
    line = Line("GPU 0", np.array(values))
    chart = Chart("Power", "W", axis, np.arange(float(len(values))), (line,))  # type: ignore[arg-type]
    html = figure(chart, 0)
    parsed(html)
    assert not values or "nan" not in text(html)


def test_numbers_are_those_of_all_samples() -> None:
    y = np.array([10.0, 20.0])
    drawn = figure(Chart("Power", "W", "s", np.arange(2.0), (Line("GPU 0", y, whole=Whole(60, 1, 14, 99)),)), 0)
    assert "GPU 0: least 1 W, mean 14 W, most 99 W" in drawn
    spread_ = Line("before", y, whole=Whole(20_000, 0.1, 0.11, 3.0))
    drawn = figure(Chart("How long", "% of steps", "step_time_s", np.array([0.1, 0.2]), (spread_,)), 0)
    assert "before: steps 20,000, shortest 100 ms, longest 3 s" in drawn


def test_what_was_not_measured_is_said_not_drawn_as_zero() -> None:
    line = Line("GPU 0", np.array([float("nan")] * 3))
    assert "GPU 0: least not measured, mean not measured, most not measured" in figure(
        Chart("Power", "W", "s", np.arange(3.0), (line,)), 0
    )


def test_charts_of_a_group_share_their_x_axis() -> None:
    first, second = gpus(1), banded("Power", "W", 280.0)
    shared = spans([first, replace(second, x=second.x + 500)])
    assert (shared["run"].low, shared["run"].high) == (0.0, 1688.0)


def test_what_all_charts_say_is_said_once() -> None:
    charts = [banded("Power", "W", 280.0), banded("SM clock", "MHz", 1300.0)]
    once = said_once(charts)
    assert once[0] == "time from the start of the recording"
    assert once[1].startswith("Every point")
    assert said_once([*charts, gpus(1)]) == once[:1]
    made = curves.section(drawing(*charts))
    assert made is not None
    assert made.html.count("Every point") == 1


def test_sections_hold_their_charts_in_order() -> None:
    made = [curves.section(report()), steps.section(report())]
    found = [re.findall(r'data-chart="(\d+)"', section.html) for section in made if section is not None]
    assert found == [["0", "1", "2", "3", "4", "5", "6"], ["7", "8"]]


def test_without_charts_there_is_no_section() -> None:
    assert curves.section(drawing()) is None
    assert steps.section(drawing()) is None
    assert curves.section(replace(drawing(), picture=None)) is None


def test_many_charts_have_headings_by_what_they_are_of() -> None:
    titles = ["GPU utilization", "SM clock", "Power", "GPU memory reads and writes", "Host CPU busy"]
    titles += [
        "CPUs that loader workers use",
        "Some task waits for I/O",
        "Disk reads",
        "Network in",
        "Samples per second",
    ]
    made = curves.section(drawing(*(replace(gpus(1), title=title) for title in titles)))
    assert made is not None
    parts = re.split(r"<h3>(.*?)</h3>", made.html)[1:]
    counts = {title: html.count("<figure") for title, html in zip(parts[::2], parts[1::2], strict=True)}
    assert counts == {"GPU": 4, "Host": 3, "Disk and network": 2, "Job": 1}


def test_a_page_of_many_charts_stays_small() -> None:
    charts = [replace(gpus(8), title=f"Utilization {n}") for n in range(10)]
    html = Html().render(drawing(*charts), Look())
    static = sum(len(figure(chart, 0)) for chart in charts)
    assert static < 300_000
    assert "nan" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL).lower()


def test_a_sparkline_is_a_path_that_needs_its_number_beside_it() -> None:
    html = sparkline([0.0, 5.0, 10.0])
    assert 'aria-hidden="true"' in html
    assert 'd="M2 22l48-10 48-10"' in html
    assert "M" not in str(parsed(sparkline([]))[0].attrib["d"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (12.345, "12.3"), (1234.5, "1,234"), (0.5, "0.5"), (0.01234, "0.0123"), (100.0, "100")],
)
def test_numbers_have_three_digits(value: float, expected: str) -> None:
    assert number(value) == expected
