"""Laws that hold for whatever was measured."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyidle.model.evidence import Value
from whyidle.model.finding import CAUSES
from whyidle.model.measurement import CATALOG, Measurement, Measurements
from whyidle.rules import all_rules, ask
from whyidle.rules.base import Rule

NAMES = sorted({name for rule in all_rules() for names in (*rule.needs, rule.uses) for name in names})
RANGES: dict[str, st.SearchStrategy[Value]] = {
    "bool": st.booleans(),
    "text": st.sampled_from(["none", "fp16", "tf32", "something new"]),
    "s": st.floats(0, 1e6),
    "B/step": st.floats(0, 1e12),
    "B/s": st.floats(0, 1e12),
    "B": st.floats(0, 1e12),
    "CPUs": st.floats(0, 1024),
    "GPUs": st.integers(0, 16),
    "workers": st.integers(0, 512),
    "ranks": st.integers(0, 1024),
    "threads": st.integers(0, 1 << 16),
    "times": st.floats(0, 100),
    "°C": st.floats(-10, 120),
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
        assert math.isfinite(finding.score)
        if finding.lost_share is None:
            assert finding.rule == "curve.hollow", "busy, and with too little: how much of it is lost nobody measured"
            continue
        assert 0 <= finding.lost_share <= 1
        shares = [measured[name] for name in read[finding.rule] if name.endswith("_share") and name in measured]
        if finding.rule == "pause.startup" and {"startup_s", "watched_s"} <= measured.keys():
            before, after = float(measured["startup_s"]), float(measured["watched_s"])
            shares.append(before / (before + after) if before else 0.0)  # a share of the run, measured in seconds
        assert finding.lost_share <= sum(map(float, shares)) + 1e-9
        for words in (finding.message, finding.seen):
            assert "nan" not in words
            assert "inf " not in words
    assert not {item.rule for item in unknown} & {finding.rule for finding in findings}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
@given(st.data())
def test_one_alternative_of_what_a_rule_needs_is_enough(rule: type[Rule], data: st.DataObject) -> None:
    """Whatever else was measured, or was not."""
    others = sorted({name for names in (*rule.needs, rule.uses) for name in names})
    names = {*data.draw(st.sampled_from(rule.needs)), *data.draw(st.sets(st.sampled_from(others)))}
    list(rule().diagnose(measurements({name: data.draw(values(name)) for name in sorted(names)})))


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


WAITS = (
    "lost_data_zero_share", "lost_data_workers_share", "lost_data_first_share", "lost_data_other_share",
    "lost_save_share", "lost_evaluation_share",
)  # fmt: skip
OF_HOST = (
    "host_prepare_share", "host_forward_share", "host_backward_share", "host_optimizer_share", "host_other_share",
    "host_environment_share",
)  # fmt: skip
LATE_WORKERS = {
    "input.workers_too_few", "input.cpu_transform", "input.storage", "input.batch_granularity", "host.cpu_quota",
    "host.cpu_affinity", "host.cpu_oversubscription",
}  # fmt: skip


@st.composite
def watched(draw: st.DrawFn) -> dict[str, Value]:
    """Return a watched run: its time split over waits and the host's work, and whatever else may be known of it."""
    names = (*WAITS, *OF_HOST)
    parts = [draw(SHARES) for _ in names]
    total = sum(parts) or 1.0
    measured: dict[str, Value] = {name: part / total for name, part in zip(names, parts, strict=True)}
    evidence = [name for name in NAMES if CATALOG[name].how.startswith("run the job under") and name not in names]
    chosen = draw(st.sets(st.sampled_from(evidence)))
    measured |= {name: draw(values(name)) for name in sorted(chosen) if name != "startup_s"}
    if "batch_cpu_share" in measured:
        measured["batch_cpu_share"] = float(measured["batch_cpu_share"]) * 4  # a worker with a pool of threads
    return measured


@given(watched())
def test_no_watched_time_is_lost_twice(measured: dict[str, Value]) -> None:
    assert sum(lost_shares(measured).values()) <= 1 + 1e-9


@given(watched())
def test_no_more_waiting_is_lost_than_was_measured(measured: dict[str, Value]) -> None:
    measured |= {"main_run_delay_share": 0.0}  # which is a wait of another kind
    found = lost_shares(measured)
    told = LATE_WORKERS | {rule for rule in found if rule.startswith(("input.", "pause."))}
    assert sum(found.get(rule, 0.0) for rule in told) <= sum(float(measured[name]) for name in WAITS) + 1e-9


@given(watched())
def test_one_rule_speaks_for_a_wait_for_workers(measured: dict[str, Value]) -> None:
    measured |= {"main_run_delay_share": 0.0, "late_loader_share": 0.0}
    speak = LATE_WORKERS & lost_shares(measured).keys()
    wait = float(measured["lost_data_workers_share"])
    assert len(speak) <= 1
    assert len(speak) == 1 or wait < 0.04, "the one that does explains half of it at least"


@given(watched(), SHARES)
def test_less_waiting_for_workers_is_never_told_as_more(measured: dict[str, Value], factor: float) -> None:
    """Another rule may speak, since what explains half of a short wait need not explain half of a long one."""
    measured |= {"main_run_delay_share": 0.0, "lost_data_first_share": 0.0}
    less = measured | {"lost_data_workers_share": float(measured["lost_data_workers_share"]) * factor}
    told = [sum(lost_shares(some).get(rule, 0.0) for rule in LATE_WORKERS) for some in (less, measured)]
    assert told[0] <= told[1] + 0.02, "below 2% nothing is told"
