"""Whose a wait for workers is: every situation that looks the same from the training process, told apart."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from whyidle.model.evidence import Value
from whyidle.model.measurement import Measurement, Measurements
from whyidle.rank import rank
from whyidle.rules import ask
from whyidle.rules.input.late_workers import EVIDENCE, answer

# A job on a GPU that waits 40% of its time for eight workers on 16 CPUs. What is wrong is what a case adds.
JOB: dict[str, Value] = {
    "on_gpu": True, "utilization_mean_share": 0.55, "watched_s": 100.0, "watched_steps": 1000,
    "lost_data_workers_share": 0.4, "lost_data_first_share": 0.0, "epochs": 2, "batches_per_epoch": 500,
    "num_workers": 8, "persistent_workers": False, "prefetch_factor": 2, "ranks_on_machine": 1,
    "batch_seconds": 0.8, "batch_spread": 0.2,
    "batch_cpu_share": 0.96, "batch_run_delay_share": 0.01, "batch_blocked_share": 0.03,
    "job_cpu_share": 0.55, "cpus_allowed": 16, "cpus_online": 16, "cpu_quota": 16, "worker_cpus_allowed": 16,
    "affinity_narrowed": False, "compute_threads": 24, "cpu_throttled_share": 0.0, "cpu_pressure_share": 0.05,
    "io_pressure_share": 0.0, "main_run_delay_share": 0.0, "data_file_system": "ext4", "storage_read_bytes_per_s": 0.0,
}  # fmt: skip
ALL_BUSY = {"job_cpu_share": 0.98, "num_workers": 16, "batch_run_delay_share": 0.08, "batch_cpu_share": 0.9}
BLOCKED = {"batch_cpu_share": 0.08, "batch_blocked_share": 0.9, "job_cpu_share": 0.06}
STARVED = {"batch_cpu_share": 0.25, "batch_run_delay_share": 0.72, "batch_blocked_share": 0.03}

SITUATIONS: dict[str, tuple[dict[str, Value], str | None]] = {
    "too few workers, and CPUs are free": ({}, "input.workers_too_few"),
    "one worker on a laptop of four CPUs": (
        {"num_workers": 1, "cpus_allowed": 4, "cpus_online": 4, "cpu_quota": 4, "worker_cpus_allowed": 4,
         "job_cpu_share": 0.3, "batch_seconds": 0.1, "compute_threads": 5},
        "input.workers_too_few",
    ),
    "workers enough, of which some batches take ten times as long": (
        {"num_workers": 15, "batch_spread": 2.0}, "input.workers_too_few",
    ),
    "all CPUs are busy with transforms": (ALL_BUSY, "input.cpu_transform"),
    "more workers than CPUs, all busy": (
        ALL_BUSY | {"num_workers": 32, "compute_threads": 48, "batch_cpu_share": 0.48, "batch_run_delay_share": 0.5},
        "input.cpu_transform",
    ),
    "others use the CPUs": (STARVED | {"job_cpu_share": 0.3}, "input.cpu_transform"),
    "blocked on a network file system": (BLOCKED | {"data_file_system": "nfs4"}, "input.storage"),
    "blocked, nobody knows by what": (BLOCKED, "input.storage"),
    "blocked, and the quota is met now and then": (
        BLOCKED | {"cpu_throttled_share": 0.11, "cpu_quota": 8, "cpus_allowed": 8}, "input.storage",
    ),
    "blocked by a lock of their own": (
        BLOCKED | {"look_lock_share": 0.8, "look_read_share": 0.1}, "input.workers_too_few",
    ),
    "throttled by a quota": (
        STARVED | {"cpu_throttled_share": 0.6, "cpu_quota": 2, "cpus_allowed": 2, "job_cpu_share": 0.99},
        "host.cpu_quota",
    ),
    "throttled, and a pool of threads in each worker": (
        STARVED | {"cpu_throttled_share": 0.6, "cpu_quota": 2, "cpus_allowed": 2, "job_cpu_share": 0.99,
                   "compute_threads": 144},
        "host.cpu_quota",
    ),
    "pinned to one core by a library": (
        STARVED | {"worker_cpus_allowed": 1, "affinity_narrowed": True, "job_cpu_share": 0.06}, "host.cpu_affinity",
    ),
    "given one core by the batch system": (
        STARVED | {"worker_cpus_allowed": 1, "cpus_allowed": 1, "job_cpu_share": 0.99}, "host.cpu_affinity",
    ),
    "a pool of threads in each worker": (
        STARVED | {"compute_threads": 144, "job_cpu_share": 0.99, "cpu_pressure_share": 0.9},
        "host.cpu_oversubscription",
    ),
    "pools whose CPU time hides their waiting": (
        {"compute_threads": 144, "job_cpu_share": 0.99, "cpu_pressure_share": 0.9, "batch_cpu_share": 3.1,
         "batch_run_delay_share": 0.0, "batch_blocked_share": 0.0},
        "host.cpu_oversubscription",
    ),
    "few batches per epoch": (
        {"batches_per_epoch": 5, "epochs": 60, "lost_data_first_share": 0.4, "lost_data_workers_share": 0.02},
        "input.batch_granularity",
    ),
    "few batches per epoch, and workers stay": (
        {"batches_per_epoch": 5, "epochs": 60, "lost_data_first_share": 0.3, "lost_data_workers_share": 0.1,
         "persistent_workers": True},
        "input.batch_granularity",
    ),
    "only the starts of epochs": (
        {"epochs": 10, "lost_data_first_share": 0.3, "lost_data_workers_share": 0.0}, "input.worker_startup",
    ),
    "healthy": ({"lost_data_workers_share": 0.006, "utilization_mean_share": 0.97}, None),
    "healthy, with all CPUs busy": (ALL_BUSY | {"lost_data_workers_share": 0.006}, None),
    "healthy, pinned, throttled and crowded": (
        STARVED | {"lost_data_workers_share": 0.006, "worker_cpus_allowed": 1, "cpu_throttled_share": 0.5,
                   "cpu_quota": 2, "cpus_allowed": 2, "compute_threads": 144, "job_cpu_share": 0.99},
        None,
    ),
}  # fmt: skip


def measurements(given: dict[str, Value]) -> Measurements:
    return Measurements(Measurement(name, value) for name, value in given.items())


@pytest.mark.parametrize(("change", "rule"), SITUATIONS.values(), ids=SITUATIONS)
def test_one_rule_speaks_for_a_situation(change: dict[str, Value], rule: str | None) -> None:
    given = JOB | change
    findings = rank(ask(measurements(given))[0])
    assert [finding.rule for finding in findings] == ([rule] if rule else [])
    waited = float(given["lost_data_workers_share"]) + float(given["lost_data_first_share"])
    assert all((finding.lost_share or 0.0) <= waited + 1e-9 for finding in findings)
    others = {(), ("input.worker_startup",), ("host.cpu_quota",)}  # a pod's share of CPUs leaves no trace of its own
    assert all(finding.candidates in others for finding in findings), "all that can be were ruled out"


@pytest.mark.parametrize("unknown", EVIDENCE)
def test_what_was_not_measured_stays_possible(unknown: str) -> None:
    given = {name: value for name, value in JOB.items() if name not in EVIDENCE[unknown]}
    (finding,) = ask(measurements(given))[0]
    assert finding.rule == "input.workers_too_few"
    assert unknown in finding.candidates


def test_where_nothing_is_known_of_workers_all_of_the_wait_is_told() -> None:
    (finding,) = ask(measurements({"lost_data_workers_share": 0.4}))[0]
    assert (finding.rule, finding.lost_share) == ("input.workers_too_few", 0.4)
    assert finding.confidence < 0.8
    assert set(finding.candidates) == set(EVIDENCE)


def test_what_a_watched_run_shows_is_preferred_to_a_few_recorded_steps() -> None:
    recorded: dict[str, Value] = {"idle_loader_workers_share": 0.5, "steps": 6, "loader_first_wait_share": 0.9}
    assert ask(measurements(recorded))[0]
    assert not ask(measurements(recorded | {"lost_data_workers_share": 0.0, "lost_data_first_share": 0.0}))[0]


def test_what_a_cause_can_cost_bounds_what_it_claims() -> None:
    """Sixteen workers on four CPUs of eight get twice as fast, and no more."""
    change = STARVED | {"num_workers": 16, "worker_cpus_allowed": 4, "cpus_allowed": 8, "lost_data_workers_share": 0.9}
    found = answer(measurements(JOB | change))
    assert (found.rule, found.share) == ("host.cpu_affinity", 0.5)


def test_files_are_to_be_copied_only_where_files_may_be_what_is_waited_for() -> None:
    def copied(change: dict[str, Value]) -> bool:
        (finding,) = ask(measurements(JOB | BLOCKED | change))[0]
        assert ("next to nothing" in finding.seen) != any("rsync" in fix.change for fix in finding.fixes)
        return any("rsync" in fix.change for fix in finding.fixes)

    assert not copied({"storage_read_bytes_per_s": 0.0})
    assert copied({"storage_read_bytes_per_s": 0.0, "data_file_system": "nfs4"})
    assert copied({"storage_read_bytes_per_s": 0.0, "io_pressure_share": 0.3})
    assert copied({"storage_read_bytes_per_s": 5e7})
    unknown = {name: value for name, value in (JOB | BLOCKED).items() if name != "storage_read_bytes_per_s"}
    (finding,) = ask(measurements(unknown))[0]
    assert any("rsync" in fix.change for fix in finding.fixes)


def test_what_a_person_reads(snapshot: SnapshotAssertion) -> None:
    said = []
    for name, (change, _) in SITUATIONS.items():
        for finding in ask(measurements(JOB | change))[0]:
            said.append(f"{name}\n  {finding.rule} {finding.confidence:g}: {finding.message}\n  {finding.seen}")
            said += [f"    {line}" for fix in finding.fixes for line in (f"{fix.title}:", *fix.change.splitlines())]
    assert "\n".join(said) == snapshot
