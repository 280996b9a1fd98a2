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
    read = {rule.id: {name for names in (*rule.needs, rule.uses) for name in names} for rule in all_rules()}
    for finding in findings:
        assert finding.lost_share is not None
        assert 0 <= finding.lost_share <= 1
        assert math.isfinite(finding.score)
        shares = [measured[name] for name in read[finding.rule] if name.endswith("_share") and name in measured]
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


HOST_WORK = ("dispatch", "autograd_host", "launch_latency", "optimizer_host", "python", "sync_return", "h2d_prep")


@st.composite
def attributions(draw: st.DrawFn, causes: tuple[str, ...]) -> dict[str, Value]:
    """Return idle time with exclusive causes, and blocking reads that explain a part of what a late host did."""
    weights = {cause: draw(SHARES) for cause in causes}
    idle, total = draw(SHARES), sum(weights.values()) or 1.0
    share = {cause: idle * weights.get(cause, 0.0) / total for cause in CAUSES}
    measured: dict[str, Value] = {f"idle_{cause}_share": value for cause, value in share.items()}
    left = sum(share[cause] for cause in HOST_WORK)
    for kind in (
        "sync_scalar", "sync_readback", "sync_data_dependent", "sync_grad_clip", "sync_upload", "sync_framework",
        "h2d_small",
    ):  # fmt: skip
        lost = draw(SHARES) * left
        left -= lost
        measured |= {f"{kind}_lost_share": lost, f"{kind}_per_step": draw(COUNTS)}
    loader, zero, short = draw(SHARES), draw(SHARES), draw(SHARES)
    reads = sum(float(value) for name, value in measured.items() if name.startswith("sync_") and "lost" in name)
    return measured | {
        "sync_host_share": reads,
        "gpu_idle_share": idle,
        "gpu_busy_share": 1 - idle,
        "data_wait_share": share["data_wait"],
        "idle_loader_zero_share": share["data_wait"] * loader * zero,
        "idle_loader_workers_share": share["data_wait"] * loader * (1 - zero),
        "idle_data_range_share": share["data_wait"] * (1 - loader),
        "loader_first_wait_share": draw(SHARES),
        "loader_start_waits": draw(st.integers(1, 5)),
        "loader_start_wait_share": draw(SHARES),
        "steps": draw(st.integers(1, 20)),
        "alloc_lost_share": share["allocator"],
        "alloc_calls_per_step": draw(COUNTS),
        "optimizer_launches_per_step": draw(COUNTS),
        "optimizer_latency_share": share["launch_latency"] * draw(SHARES),
        "optimizer_kernel_gap_share": share["kernel_gap"] * draw(SHARES),
        "optimizer_tensorwise_share": 0.0,
        "kernel_short_share": draw(SHARES),
        "idle_zero_grad_share": share["optimizer_host"] * draw(SHARES),
        "zero_grad_fills_per_step": draw(COUNTS),
        "zero_grad_share": 0.0,
        "launches_per_step": draw(COUNTS),
        "launch_bound_share": share["launch_latency"] + short * (share["dispatch"] + share["autograd_host"]),
        "backward_stall_share": (1 - short) * share["autograd_host"] * draw(SHARES),
        "host_stall_share": (1 - short) * (share["dispatch"] + share["autograd_host"]),
    }


def lost_shares(measured: dict[str, Value]) -> dict[str, float]:
    return {finding.rule: finding.lost_share or 0.0 for finding in ask(measurements(measured))[0]}


@given(attributions(HOST_WORK))
def test_what_a_late_host_did_is_not_lost_twice(measured: dict[str, Value]) -> None:
    assert sum(lost_shares(measured).values()) <= float(measured["gpu_idle_share"]) + 1e-9


@given(attributions(CAUSES))
def test_no_idle_time_is_lost_twice(measured: dict[str, Value]) -> None:
    """Pauses that have a name speak for themselves, though a read may delay them; host.* leave reads their part."""
    assert sum(lost_shares(measured).values()) <= float(measured["gpu_idle_share"]) + 1e-9


SCALED = (
    "idle_", "launch_bound", "host_stall", "backward_stall", "alloc_lost", "optimizer_latency", "optimizer_kernel",
)  # fmt: skip


@given(attributions(CAUSES), SHARES)
def test_a_smaller_loss_never_makes_a_larger_finding(measured: dict[str, Value], factor: float) -> None:
    less = {name: float(value) * factor if name.startswith(SCALED) else value for name, value in measured.items()}
    smaller, larger = lost_shares(less), lost_shares(measured)
    for rule, lost in smaller.items():
        assert larger.get(rule, 0.0) >= lost - 1e-9
