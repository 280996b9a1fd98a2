"""The order of findings on jobs of which the answer is known."""

from __future__ import annotations

from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask

# ResNet-50 on a V100 with num_workers=0: loader 22% and host causes together 27% of the window idle.
RESNET50_WORKERS_ZERO = {
    "gpu_idle_share": 0.50, "gpu_busy_share": 0.50, "data_wait_share": 0.244, "idle_loader_zero_share": 0.22,
    "idle_dispatch_share": 0.17, "idle_autograd_host_share": 0.04,
    "idle_launch_latency_share": 0.06, "launch_bound_share": 0.27, "host_stall_share": 0.0,
    "idle_optimizer_host_share": 0.0, "idle_python_share": 0.0,
    "launches_per_step": 1600, "kernel_short_share": 0.6, "optimizer_launches_per_step": 500,
    "matmul_share": 0.35, "tensor_core_share": 0.0, "compiled": False, "elementwise_share": 0.15,
}  # fmt: skip


def ranked(**measured: bool | float | str) -> list[str]:
    findings, _ = ask(Measurements(Measurement(name, value) for name, value in measured.items()))
    return [finding.rule for finding in sorted(findings, key=lambda finding: -finding.score)]


def test_one_argument_comes_before_a_larger_loss_that_takes_more_work() -> None:
    assert ranked(**RESNET50_WORKERS_ZERO, tensor_cores="fp16")[0] == "input.workers_zero"
    assert ranked(**RESNET50_WORKERS_ZERO, tensor_cores="tf32")[0] == "input.workers_zero"


def test_once_workers_keep_up_the_launches_come_first() -> None:
    after = RESNET50_WORKERS_ZERO | {
        "idle_loader_zero_share": 0.0,
        "idle_loader_workers_share": 0.008,
        "gpu_idle_share": 0.28,
    }
    assert ranked(**after)[0] == "host.launch_bound"


def test_a_read_without_gaps_is_no_cause() -> None:
    gpu_bound = {"gpu_idle_share": 0.02, "sync_scalar_per_step": 3, "sync_scalar_lost_share": 0.0}
    assert ranked(**gpu_bound) == ["none.compute_bound"]


LATE = {
    "gpu_idle_share": 0.1, "gpu_busy_share": 0.9, "collective_share": 0.45, "collective_exposed_share": 0.3,
    "collective_wait_share": 0.25, "late_share": 0.25, "late_steps": 9,
}  # fmt: skip


def test_waiting_for_a_rank_is_told_by_what_that_rank_does() -> None:
    """The same waiting of the others, for data, for long samples, and for a host that does something else."""
    data = LATE | {"late_data_share": 0.24, "late_ranks": "8-15", "late_different_ranks": 6}
    assert ranked(**data)[0] == "dist.input_straggler"
    assert "dist.straggler" not in ranked(**data)
    lengths = LATE | {"late_compute_share": 0.24, "late_ranks": "", "late_different_ranks": 6}
    assert "dist.length_imbalance" in ranked(**lengths)
    assert "dist.straggler" not in ranked(**lengths)
    assert "dist.straggler" in ranked(**LATE | {"late_host_share": 0.25, "late_ranks": "", "late_different_ranks": 6})
    assert "dist.straggler" in ranked(**lengths | {"late_ranks": "3", "late_different_ranks": 1})


def test_a_drained_queue_is_the_reads_and_not_the_launches() -> None:
    drained = {
        "idle_dispatch_share": 0.10,
        "idle_launch_latency_share": 0.02,
        "launch_bound_share": 0.12,
        "sync_scalar_per_step": 2,
        "sync_scalar_lost_share": 0.11,
        "sync_host_share": 0.11,
    }
    assert ranked(**drained) == ["sync.scalar_read"]
