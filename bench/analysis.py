"""How much CPU does the analysis of 5 million events take? Columns made here, no file: reading is bench/ingest.py's.

Like the recordings that we have: two threads of nested operators with launches, kernels on four streams, 100 steps.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from whyidle.judge import judge
from whyidle.model.evidence import DeviceSlices, Gpu, HostSlices, Kind, Run, Trace

OPS = [f"aten::op{i}" for i in range(400)]
KERNELS = [f"void at::native::vectorized_elementwise_kernel<{i}>" for i in range(300)]
STEPS = 100


def trace(events: int, seed: int = 0) -> Trace:
    """Return a trace of about so many slices."""
    rng = np.random.default_rng(seed)
    groups = events // 8  # an operator in an operator, three launches inside, three kernels
    start = np.arange(groups, dtype=np.int64) * 60_000 + rng.integers(0, 5_000, groups)
    thread = (np.arange(groups) * 2 // groups).astype(np.int32)
    calls = (start[:, None] + 4_000 + np.arange(3) * 15_000).ravel()
    host_start = np.concatenate((start, start + 2_000, calls))
    host_end = np.concatenate((start + 55_000, start + 52_000, calls + rng.integers(2_000, 9_000, len(calls))))
    kind = np.repeat([Kind.OP, Kind.OP, Kind.RUNTIME], [groups, groups, 3 * groups]).astype(np.uint8)
    name = np.concatenate((rng.integers(0, 400, 2 * groups), np.full(3 * groups, 400))).astype(np.int32)
    correlation = np.concatenate((np.full(2 * groups, -1), np.arange(3 * groups)))
    steps = np.linspace(0, int(host_end.max()), STEPS + 1).astype(np.int64)
    host_start, host_end = np.concatenate((host_start, steps[:-1])), np.concatenate((host_end, steps[1:]))
    kind = np.concatenate((kind, np.full(STEPS, Kind.RANGE, np.uint8)))
    name = np.concatenate((name, 401 + np.arange(STEPS))).astype(np.int32)
    correlation = np.concatenate((correlation, np.full(STEPS, -1)))
    threads = np.concatenate((thread, thread, np.repeat(thread, 3), np.zeros(STEPS, np.int32)))
    order = np.lexsort((-host_end, host_start))
    none = np.full(len(order), -1, np.int32)
    columns = (column[order] for column in (host_start, host_end, kind, name, threads, correlation))
    host = HostSlices(*columns, none, none, none, none)
    strings = [*OPS, "cudaLaunchKernel", *(f"ProfilerStep#{i}" for i in range(STEPS)), *KERNELS]
    count = 3 * groups
    kernel_start = calls + rng.integers(5_000, 30_000, count)
    order = np.argsort(kernel_start, kind="stable")
    device = DeviceSlices(
        kernel_start[order],
        (kernel_start + rng.integers(1_000, 12_000, count))[order],
        np.zeros(count, np.uint8),
        rng.integers(401 + STEPS, 401 + STEPS + 300, count).astype(np.int32),
        np.zeros(count, np.int32),
        rng.integers(7, 11, count),
        np.arange(count)[order],
        np.full(count, -1),
        np.full(count, 8.0, np.float32),
        np.full(count, -1),
        np.full(count, -1, np.int32),
        np.full(count, -1, np.int32),
        np.full(count, -1),
        np.full(count, -1),
    )
    gpus = (Gpu(0, "NVIDIA A100-SXM4-80GB", 108, (8, 0)),)
    return Trace("bench", 0, 1, device, host, tuple(strings), ("1/1", "1/2"), gpus, 0, events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    run = Run((trace(options.events),))
    best = float("inf")
    for _ in range(options.repeat):
        began = time.process_time()
        judge(run)
        best = min(best, time.process_time() - began)
    print(f"{options.events:,} events: {best:.2f} CPU s, goal 1.5")


if __name__ == "__main__":
    main()
