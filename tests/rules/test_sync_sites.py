"""Lines of the job at which it waits for the GPU: shown where a recording shows that the wait costs something."""

from __future__ import annotations

import pytest

from whyidle.model.finding import Finding, Location
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask

SITES = [("item", 2.0), ("nonzero", 5.0), ("clip_grad_norm_", 1.0), ("synchronize", 1.0), ("index", 3.0), ("", 9.0)]
RECORDED = Location("trace.json", step=3)


def sites(*which: tuple[str, float]) -> list[Measurement]:
    return [
        Measurement("sync_site", often, f"train.py:{line}", (Location("train.py", line, name=call or None),))
        for line, (call, often) in enumerate(which, start=10)
    ]


def only(kind: str, *which: tuple[str, float]) -> Finding:
    lost = Measurement(f"sync_{kind}_lost_share", 0.1, locations=(RECORDED,))
    (finding,) = ask(Measurements([lost, *sites(*which)]))[0]
    return finding


@pytest.mark.parametrize(
    ("kind", "lines"),
    [("scalar", [10]), ("data_dependent", [11, 14]), ("grad_clip", [12]), ("framework", [13])],
)
def test_a_finding_names_the_lines_of_its_kind_before_the_places_in_the_recording(kind: str, lines: list[int]) -> None:
    finding = only(kind, *SITES)
    assert [place.line for place in finding.locations] == [*lines, None]
    assert f"train.py:{lines[0]} ({SITES[lines[0] - 10][0]}) {SITES[lines[0] - 10][1]:.3g} per step" in finding.seen


def test_a_line_of_no_known_kind_may_be_of_any() -> None:
    finding = only("scalar", ("nonzero", 5.0), ("", 9.0))
    assert [place.line for place in finding.locations] == [11, None]
    assert "; train.py:11 9 per step" in finding.seen


def test_without_lines_a_finding_is_as_it_was() -> None:
    finding = only("scalar")
    assert finding.locations == (RECORDED,)
    assert "train.py" not in finding.seen


def test_a_line_where_the_host_waits_is_no_finding() -> None:
    """Where the CPU blocks is not where time is lost: that takes a recording of the GPU's gaps."""
    assert ask(Measurements(sites(*SITES)))[0] == []
