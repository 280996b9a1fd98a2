"""Laws that hold for whatever was measured."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.evidence import Value
from whyidle.model.finding import CAUSES
from whyidle.model.measurement import CATALOG, Measurement, Measurements
from whyidle.rules import all_rules, ask

NAMES = sorted({name for rule in all_rules() for names in (*rule.needs, rule.uses) for name in names})
RANGES: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.booleans(),
    "text": st.sampled_from(["none", "fp16", "tf32", "something new"]),
    "s": st.floats(0, 1e6),
    "B/step": st.floats(0, 1e12),
}
COUNTS = st.floats(0, 1e6)
SHARES = st.floats(0, 1)


def values(name: str) -> st.SearchStrategy[Value]:
    return SHARES if name.endswith("_share") else RANGES.get(CATALOG[name].unit, COUNTS)


MEASURED = st.fixed_dictionaries({}, optional={name: values(name) for name in NAMES})


def measurements(given: dict[str, Value]) -> Measurements:
    return Measurements(Measurement(name, value) for name, value in given.items())


@given(MEASURED)
def test_a_loss_is_a_share_and_no_more_than_was_measured(measured: dict[str, Value]) -> None:
    findings, unknown = ask(measurements(measured))
    needed = {rule.id: {name for names in rule.needs for name in names} for rule in all_rules()}
    for finding in findings:
        assert finding.lost_share is not None
        assert 0 <= finding.lost_share <= 1
        assert math.isfinite(finding.score)
        shares = [measured[name] for name in needed[finding.rule] if name.endswith("_share") and name in measured]
        assert finding.lost_share <= sum(map(float, shares)) + 1e-9
        for words in (finding.message, finding.seen):
            assert "nan" not in words
            assert "inf " not in words
    assert not {item.rule for item in unknown} & {finding.rule for finding in findings}


@given(MEASURED)
def test_findings_can_be_written_as_json(measured: dict[str, Value]) -> None:
    findings, _ = ask(measurements(measured))
    assert json_rules(msgspec.json.encode(findings)) == [finding.rule for finding in findings]


def json_rules(encoded: bytes) -> list[str]:
    return [item["rule"] for item in msgspec.json.decode(encoded)]


@st.composite
def attributions(draw: st.DrawFn) -> dict[str, Value]:
    """Return idle time with exclusive causes, and blocking reads that explain a part of the host's."""
    weights = {cause: draw(st.floats(0, 1)) for cause in CAUSES}
    idle, total = draw(SHARES), sum(weights.values()) or 1.0
    measured: dict[str, Value] = {f"idle_{cause}_share": idle * weight / total for cause, weight in weights.items()}
    wait, loader = float(measured["idle_data_wait_share"]), draw(SHARES)
    host = ("dispatch", "autograd_host", "launch_latency", "optimizer_host", "python", "sync_return", "h2d_prep")
    left = sum(float(measured[f"idle_{cause}_share"]) for cause in host)
    for kind in ("sync_scalar", "sync_data_dependent", "sync_grad_clip", "h2d_small"):
        measured[f"{kind}_lost_share"] = draw(SHARES) * left
        left -= float(measured[f"{kind}_lost_share"])
        measured[f"{kind}_per_step"] = draw(COUNTS)
    return measured | {
        "gpu_idle_share": idle,
        "gpu_busy_share": 1 - idle,
        "data_wait_share": wait,
        "idle_loader_share": wait * loader,
        "idle_data_range_share": wait * (1 - loader),
        "loader_in_process": draw(st.booleans()),
        "loader_first_wait_share": draw(SHARES),
        "steps": draw(st.integers(1, 20)),
        "alloc_lost_share": measured["idle_allocator_share"],
        "alloc_calls_per_step": draw(COUNTS),
        "optimizer_launches_per_step": draw(COUNTS),
        "launches_per_step": draw(COUNTS),
    }


@given(attributions())
def test_no_idle_time_is_lost_twice(measured: dict[str, Value]) -> None:
    findings, _ = ask(measurements(measured))
    assert sum(finding.lost_share or 0.0 for finding in findings) <= float(measured["gpu_idle_share"]) + 1e-9


@given(attributions(), SHARES)
def test_more_idle_time_never_makes_a_finding_smaller(measured: dict[str, Value], factor: float) -> None:
    less = {name: value * factor if name.startswith("idle_") else value for name, value in measured.items()}
    lost = {finding.rule: finding.lost_share or 0.0 for finding in ask(measurements(less))[0]}
    more = {finding.rule: finding.lost_share or 0.0 for finding in ask(measurements(measured))[0]}
    for rule in lost.keys() - {"none.compute_bound"}:
        assert more.get(rule, 0.0) >= lost[rule] - 1e-9
