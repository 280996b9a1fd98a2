"""The machines that jobs run on: GPUs, hosts and links, by the rates that programs reach, not by their peaks.

The rates are round figures, plausible for the part and claiming no more: a job's truth comes from running it again on
the same machine, so nothing that is scored depends on how well a rate is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One model of GPU. Rates in FLOP/s and bytes/s."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    tensor_flops: float  # 16-bit products on tensor cores
    tf32_flops: float  # fp32 products on tensor cores; 0 where there are none
    fp32_flops: float
    memory_bps: float
    pinned_bps: float  # host to device
    pageable_bps: float
    link_bps: float  # busbw of a large all-reduce inside a node
    network_bps: float  # and between nodes


_TABLE = (
    # name, capability, multiprocessors, memory; then tensor, TF32, fp32 (TFLOP/s); then memory, pinned, pageable, link
    # and network (GB/s)
    ("V100", "Tesla V100-SXM2-32GB", (7, 0), 80, 34_084_028_416, (82, 0, 13), (760, 11, 5.4, 120, 40)),
    ("A100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 85_094_825_984, (235, 110, 17), (1600, 23, 8.5, 230, 150)),
    ("H100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 84_929_347_584, (640, 330, 50), (2700, 50, 12, 360, 300)),
)
GPUS = {
    key: Gpu(name, capability, count, memory, *(rate * 1e12 for rate in flops), *(rate * 1e9 for rate in bytes_))
    for key, name, capability, count, memory, flops, bytes_ in _TABLE
}

RANKS_PER_NODE = 8
LATENCY_US = {True: 5.0, False: 18.0}  # per hop of a ring: inside a node, between nodes


@dataclass(frozen=True, slots=True)
class HostCosts:
    """What the host's side of a CUDA program costs, in microseconds."""

    launch: float = 4.6  # a cudaLaunchKernel call
    latency: float = 6.5  # from the start of that call to the start of the kernel on an idle GPU
    gap: float = 1.1  # between two kernels of a stream that are both queued
    sync_return: float = 9.0  # from the end of what is waited for until the host goes on
    call: float = 2.0  # any other runtime call
    between: float = 1.4  # Python between two operators


def all_reduce_us(size: int, ranks: int, bps: float, hop_us: float) -> float:
    """Return how long an all-reduce of `size` bytes takes once all ranks are there, microseconds.

    The quicker of two algorithms, as NCCL chooses. In a ring each rank sends 2(n-1)/n of the data in 2(n-1) hops; in a
    tree all of it goes up and down, pipelined, in 2 log2(n) hops.
    """
    if ranks < 2:
        return 0.0
    ring = 2 * (ranks - 1) / ranks * size / bps * 1e6 + 2 * (ranks - 1) * hop_us
    tree = 2 * size / bps * 1e6 + 2 * math.ceil(math.log2(ranks)) * hop_us
    return min(ring, tree)
