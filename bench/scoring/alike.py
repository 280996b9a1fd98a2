"""Which answers count as the same where a trace of kernels and calls cannot tell two causes apart.

Everything is scored twice: strict, with the very id that was injected, and accepted, with this table. A pair stands
here only if what separates the two is in no Kineto trace; that we have no rule for a cause yet is no reason.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alike:
    """For each of `truths`, each of `answers` is accepted."""

    truths: tuple[str, ...]
    answers: tuple[str, ...]
    why: str


def _each_other(*ids: str, why: str) -> Alike:
    return Alike(ids, ids, why)


ALIKE = (
    _each_other(
        "input.workers_too_few",
        "input.cpu_transform",
        "input.storage",
        why="all show as a wait for workers; what the workers do is in their own processes, which are not recorded",
    ),
    Alike(
        ("input.batch_granularity",),
        ("input.worker_startup",),
        why="both are one long wait where an epoch begins; batches per epoch are not recorded",
    ),
    _each_other(
        "host.python_overhead",
        "host.gil_contention",
        "host.cpu_oversubscription",
        "host.cpu_quota",
        "host.cpu_affinity",
        "host.debugger_overhead",
        why="a host thread that is slow between its operators; who holds the lock or the core is not recorded",
    ),
    Alike(
        ("host.cpu_oversubscription",),
        ("host.launch_bound",),
        why="operators that each take longer on a crowded core look like too many of them; load is not recorded",
    ),
    Alike(
        ("rl.env_bound",),
        ("host.python_overhead",),
        why="without stacks an environment's step is Python between launches",
    ),
    _each_other(
        "dist.net_socket",
        "dist.pcie_topology",
        "dist.p2p_disabled",
        why="slow collectives; transport and links are in NCCL's log and the topology only",
    ),
    _each_other(
        "hw.thermal",
        "hw.power_cap",
        "hw.gpu_shared",
        why="kernels take longer; clocks, limits and other processes are not recorded",
    ),
    _each_other(
        "host.launch_bound",
        "infer.decode_launch_bound",
        why="a decoder's steps are launch-bound steps; that it serves tokens is not recorded",
    ),
    _each_other(
        "infer.no_batching",
        "infer.low_concurrency",
        why="a GPU without requests; the queue is not recorded",
    ),
)


def answers(cause: str) -> frozenset[str]:
    """Return the ids that are accepted for a true cause, itself among them."""
    return frozenset({cause}.union(*(row.answers for row in ALIKE if cause in row.truths)))


def right(rule: str, causes: tuple[str, ...], *, strict: bool) -> bool:
    """Say whether a rule names one of the causes."""
    return rule in causes if strict else any(rule in answers(cause) for cause in causes)
