"""Simulated times against what can be worked out on paper, to within 2%."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from world.job import Data, Job
from world.kernels import Kernel, Op
from world.loader import Workers
from world.machine import HostCosts, all_reduce_us
from world.nets import Work
from world.process import COLLECTIVES, COMPUTE, Process
from world.simulation import run

QUIET = HostCosts(launch=5.0, latency=6.0, gap=1.0, sync_return=8.0, call=2.0, between=2.0)


def process(**fields: object) -> Process:
    job = replace(Job(costs=QUIET), **fields)  # type: ignore[arg-type]
    quiet = Process(job, 0)
    quiet.host_jitter = quiet.gpu_jitter = [1.0] * len(quiet.host_jitter)
    return quiet


def test_a_launch_bound_stream_takes_launches_times_cost() -> None:
    p = process()
    p.run([Op(("aten::add",), 13.0, (Kernel("k", 2.0, 1),))] * 1000, "dispatch", "python")
    assert p.streams[COMPUTE].tail == pytest.approx(1000 * (13.0 + 5.0 + 2.0), rel=0.02)


def test_a_full_gpu_takes_kernels_and_the_gaps_between_them() -> None:
    p = process()
    p.run([Op(("aten::add",), 13.0, (Kernel("k", 100.0, 1),))] * 1000, "dispatch", "python")
    assert p.streams[COMPUTE].tail == pytest.approx(1000 * (100.0 + 1.0), rel=0.02)


def test_a_host_that_runs_ahead_is_held_at_the_queue() -> None:
    """With a queue of 100 the host returns from the last of 1,000 launches when 900 have run."""
    p = process(queue=100)
    p.run([Op(("aten::add",), 13.0, (Kernel("k", 100.0, 1),))] * 1000, "dispatch", "python")
    assert p.now == pytest.approx(900 * 101.0, rel=0.02)


def test_a_read_waits_for_all_that_is_queued_and_returns() -> None:
    p = process()
    p.run([Op(("aten::add",), 13.0, (Kernel("k", 100.0, 1),))] * 50, "dispatch", "python")
    p.synchronize("cudaStreamSynchronize", COMPUTE)
    assert p.now == pytest.approx(50 * 101.0 + 8.0, rel=0.02)


# method: wait share of an in-order loader, 4 workers, 2 batches each; gamma batch times of this variation
TABLE = {
    0.2: (0.0, 0.001, 0.037, 0.194, 0.393),
    0.5: (0.037, 0.089, 0.156, 0.282, 0.452),
    1.0: (0.208, 0.295, 0.360, 0.444, 0.574),
}


@pytest.mark.parametrize("variation", TABLE)
def test_an_in_order_loader_waits_as_a_simulation_of_the_queue_says(variation: float) -> None:
    """Within 2 points; the table itself is from 6,000 batches, and at variation 1 seeds differ by as much."""
    for rho, expected in zip((0.8, 0.9, 1.0, 1.2, 1.6), TABLE[variation], strict=True):
        shares = [waiting(rho, variation, seed) for seed in range(3)]
        assert np.mean(shares) == pytest.approx(expected, abs=0.02 if variation < 1 else 0.03)


def waiting(rho: float, variation: float, seed: int, step: float = 1000.0, batches: int = 3000) -> float:
    data = Data(workers=4, prefetch=2, batch_us=rho * 4 * step, variation=variation, cores=100)
    workers = Workers(data, 0.0, np.random.default_rng(seed))
    now = begun = wait = 0.0
    for batch in range(batches):
        if batch == 300:
            begun, wait = now, 0.0
        arrived = workers.take(now)
        wait += arrived - now
        now = arrived + step
    return wait / (now - begun)


def test_workers_on_too_few_cores_share_them() -> None:
    """8 workers and the training thread want 9 cores and get 3."""
    data = Data(workers=8, batch_us=8000.0, variation=0.0, cores=3)
    workers = Workers(data, 0.0, np.random.default_rng(0))
    now = 0.0
    for _ in range(400):
        now = workers.take(now)
    assert now / 400 == pytest.approx(8000.0 / 8 * 9 / 3, rel=0.02)


@pytest.mark.parametrize(("ranks", "megabytes"), [(2, 64), (4, 64), (8, 256)])
def test_an_all_reduce_reaches_its_bus_bandwidth(ranks: int, megabytes: int) -> None:
    """nccl-tests: busbw = size / time * 2(n-1)/n."""
    size = megabytes * 2**20
    busbw = size / (all_reduce_us(size, ranks, 230e9, 5.0) / 1e6) * 2 * (ranks - 1) / ranks
    hops = 2 * (ranks - 1) * 5.0
    assert busbw == pytest.approx(230e9 / (1 + hops / (all_reduce_us(size, ranks, 230e9, 5.0) - hops)), rel=0.02)


def test_ranks_that_come_together_wait_only_for_the_transfer() -> None:
    job = Job("gpt", "A100", ranks=4, steps=3, work=Work())
    kernels = [w.end - w.start for p in run(job).ranks for w in p.work if w.stream == COLLECTIVES]
    sizes = sorted({round(w.kernel.us, 3) for p in run(job).ranks for w in p.work if w.stream == COLLECTIVES})
    assert min(kernels) == pytest.approx(max(2.0, sizes[0]), rel=0.02)


def test_a_late_rank_makes_the_others_wait() -> None:
    even, late = (run(Job("bert", "A100", ranks=2, steps=4, slow_rank=1, slow_gpu=slow)) for slow in (1.0, 1.3))
    assert late.step_us == pytest.approx(1.3 * even.step_us, rel=0.03)
    assert late.ranks[0].collective_wait > 10 * late.ranks[1].collective_wait
