"""What a recording is called: on the page, in the tab of a browser, and as a file that a reader saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from whyidle.diagnosis import diagnose, name_of
from whyidle.model.finding import Report
from whyidle.model.picture import Picture
from whyidle.render import render

RUNS = Path(__file__).parents[2] / "runs"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (str(RUNS / "healthy"), "healthy"),
        ([RUNS / "healthy", RUNS / "curve"], "healthy"),
        ("traces/rank0.1750000000000.pt.trace.json.gz", "rank0.1750000000000"),
        ("run.v2", "run.v2"),
        (f"{RUNS}/curve/../healthy/.", "healthy"),
        ("train.log", "train"),
        ("sagemaker://my-job?region=us-east-1", "my-job"),
        ("prometheus+http://me:secret@node:9090/?match=x", "node:9090"),
        ([], ""),
    ],
)
def test_a_recording_is_called_as_it_was_given(given: str | list[Path], name: str) -> None:
    assert name_of(given) == name


def test_the_page_says_what_it_is_of() -> None:
    html = render(diagnose(RUNS / "healthy", picture=True), "html")
    assert "% of the time · healthy</title>" in html
    assert '<p class="job"><span>healthy</span> · ' in html
    assert 'download="healthy-report.json"' in html


@pytest.mark.parametrize(
    ("name", "file"),
    [('../a b"<c>', "a-b-c-report.json"), ("日本", "whyidle-report.json"), ("x" * 300, f"{'x' * 80}-report.json")],
)
def test_a_report_is_saved_under_a_name_that_any_system_takes(predicted: Report, name: str, file: str) -> None:
    html = render(replace(predicted, picture=Picture(name=name)), "html")
    assert f'download="{file}"' in html
    assert "<c>" not in html
