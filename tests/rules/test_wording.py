"""What findings say and advise, where one rule speaks of several situations."""

from __future__ import annotations

import pytest

from whyidle.model.evidence import Value
from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask


def only(**measured: Value) -> Finding:
    findings, _ = ask(Measurements(Measurement(name, value) for name, value in measured.items()))
    (finding,) = findings
    return finding


@pytest.mark.parametrize(("exposed", "said"), [(0.0, "run alone"), (0.01, "run alone"), (0.2, "pageable memory")])
def test_copies_are_called_what_most_of_them_are(exposed: float, said: str) -> None:
    """A quarter of the time, of which this much is pageable."""
    finding = only(h2d_exposed_share=0.25, h2d_pageable_share=exposed, h2d_pageable_exposed_share=exposed)
    assert said in finding.message
    assert ("pin the batches" in finding.fixes[0].title) == (said == "pageable memory")
    pins = any("pinned" in edit.selector for edit in finding.fixes[0].edits)
    assert pins == (said == "pageable memory")


def test_pinning_saves_nothing_of_what_is_pinned() -> None:
    finding = only(h2d_exposed_share=0.20, h2d_pageable_share=0.1, h2d_pageable_exposed_share=0.1)
    assert "pinning saves 2.9%" in finding.seen, "0.29 of the half that is pageable"


@pytest.mark.parametrize(
    ("losses", "code"),
    [
        ({"sync_scalar_lost_share": 0.1}, "loss.item()"),
        ({"sync_scalar_lost_share": 0.0, "sync_readback_lost_share": 0.1}, "output.cpu()"),
    ],
)
def test_advice_is_on_what_is_read(losses: dict[str, float], code: str) -> None:
    assert code in only(**losses).fixes[0].change


def test_without_steps_nothing_is_per_step() -> None:
    assert "per step" not in only(sync_framework_lost_share=0.1).seen
    assert "3 such synchronizations per step" in only(sync_framework_lost_share=0.1, sync_framework_per_step=3).seen


@pytest.mark.parametrize(
    ("optimizer", "code"),
    [
        ("SGD", "torch.optim.SGD(model.parameters(), ..., fused=True)"),
        ("Adagrad", "torch.optim.Adagrad(model.parameters(), ..., foreach=True)"),
        ("Shampoo", "torch.compile(optimizer.step)"),
    ],
)
def test_advice_is_on_the_optimizer_that_was_seen(optimizer: str, code: str) -> None:
    finding = only(idle_optimizer_host_share=0.14, optimizer_launches_per_step=1770, optimizer=optimizer)
    assert code in finding.fixes[0].change
    assert "AdamW" not in finding.fixes[0].change


@pytest.mark.parametrize(("kind", "code"), [("gradients", "DistributedData"), ("all_to_all", "split the batch")])
def test_advice_is_on_the_collectives_that_are_exposed(kind: str, code: str) -> None:
    change = only(collective_exposed_share=0.3, collective_kind=kind).fixes[0].change
    assert code in change
    assert ("DistributedData" in change) == (kind == "gradients")


def test_a_late_rank_with_a_slow_gpu_is_told_to_look_at_its_clock() -> None:
    late = {"collective_wait_share": 0.1, "late_share": 0.1, "late_compute_share": 0.1, "late_ranks": "3"}
    found = ask(Measurements(Measurement(name, value) for name, value in late.items()))[0]
    assert not any("clock" in fix.change.lower() for fix in found[0].fixes)
    late |= {"gpu_slowdown": 1.2, "slow_gpus": "3"}
    (finding,) = ask(Measurements(Measurement(name, value) for name, value in late.items()))[0]
    assert "1.20 times as long on the GPU of rank 3" in finding.seen
    assert "CLOCK" in finding.fixes[0].change


def test_a_wait_of_nothing_was_measured() -> None:
    assert "0% wait for a peer" in only(collective_exposed_share=0.3, collective_wait_share=0.0).seen
    assert "is not known" in only(collective_exposed_share=0.3).seen
