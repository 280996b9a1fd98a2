"""The faults that can be put into a job, by the id of the cause in the taxonomy that whyidle's rules share.

A fault is two jobs that differ in nothing else: with it and without it. `amount` says how bad it is; it is calibrated
until the job without it takes the wanted share less time. What belongs to the job and not to the fault (Python that
runs after a value is read, and that the GPU's queue would hide) is in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from world.job import Every, Job

ALL = ("cnn", "resnet", "bert", "gpt", "dlrm", "diffusion")
CONVOLUTIONAL = ("cnn", "resnet", "diffusion")
SEVERITIES = (0.02, 0.05, 0.1, 0.2, 0.4)
Change = Callable[[Job, float], Job]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. `faulty` and `cured` make the two jobs of an amount; neither is asked when the amount is `neutral`."""

    id: str
    title: str
    faulty: Change
    cured: Change  # takes the same amount
    scale: Callable[[float, float], float]  # (step time in us, severity) -> a first guess of the amount
    neutral: float = 0.0
    most: float = float("inf")  # the largest amount that makes sense
    families: tuple[str, ...] = ALL
    severities: tuple[float, ...] = SEVERITIES
    min_ranks: int = 1
    max_ranks: int = 16


def extra(step: float, severity: float) -> float:
    """Return the time that has to be added to a step to make its cure worth the severity."""
    return step * severity / (1 - severity)


def slower(step: float, severity: float) -> float:  # noqa: ARG001
    """Return the factor by which a step has to be longer."""
    return 1 / (1 - severity)


def share(step: float, severity: float) -> float:  # noqa: ARG001
    """Return a first guess of a share of the work."""
    return severity


def _set(**fields: object) -> Change:
    """Return a change that sets fields of a job, whatever the amount."""
    return lambda job, _: replace(job, **fields)  # type: ignore[arg-type]


def _same(job: Job, amount: float) -> Job:  # noqa: ARG001
    return job


def _data(job: Job, **fields: object) -> Job:
    return replace(job, data=replace(job.data, **fields))  # type: ignore[arg-type]


def _work(job: Job, **fields: object) -> Job:
    return replace(job, work=replace(job.work, **fields))  # type: ignore[arg-type]


def _few(job: Job) -> int:
    return 1 + job.seed % 3


# Each kind of job that a fault needs around it. It is the same with the fault and without.


def _reading(job: Job, amount: float, by: str, reads: int) -> Job:
    """Return a job in which Python works after each of so many values, which the queue hides unless they are read."""
    return replace(
        job, reads_by=by, reads=reads, after_read_us=amount / reads, metrics_every=0, host_scale=0.5 * job.host_scale
    )


def _small(job: Job, scale: float = 0.25) -> Job:
    """Return the job with a small batch: the host's pace begins to matter."""
    return _work(job, batch_scale=job.work.batch_scale * scale)


def _paced(job: Job) -> Job:
    """Return a job whose host cannot run far ahead: it reads each step's loss, or waits for that of the step before."""
    return replace(job, metrics_every=(job.seed + 1) % 2, deferred_read=job.seed % 2 == 1)


def _host_bound(job: Job) -> Job:
    """Return a job in which a slower host soon makes a longer step, and that waits for nothing."""
    return replace(_small(job), metrics_every=0, deferred_read=False)


def _reads(fault_id: str, title: str, by: str, reads: Callable[[Job], int]) -> Fault:
    return Fault(
        fault_id, title,
        lambda job, a: _reading(job, a, by, reads(job)),
        lambda job, a: replace(_reading(job, a, by, reads(job)), reads_free=True),
        extra,
    )  # fmt: skip


def _pause(fault_id: str, title: str, field: str, count: int, around: Change = _same, **more: object) -> Fault:
    """Return a fault that holds a job up every five steps; the amount is its cost per step."""

    def faulty(job: Job, amount: float) -> Job:
        return replace(around(job, amount), **{field: Every(5, amount * 5, count)})  # type: ignore[arg-type]

    return Fault(fault_id, title, faulty, around, extra, **more)  # type: ignore[arg-type]


def _ranks(
    fault_id: str, title: str, faulty: Change, cured: Change, scale: Callable[[float, float], float], **more: object
) -> Fault:
    return Fault(fault_id, title, faulty, cured, scale, min_ranks=2, **more)  # type: ignore[arg-type]


def _late(job: Job) -> Job:
    return replace(job, slow_rank=job.seed % job.ranks)


def _workers(job: Job, amount: float, workers: int, cores: int, batch_us: float, variation: float = 0.15) -> Job:  # noqa: ARG001
    return _data(job, workers=workers, cores=cores, batch_us=batch_us, variation=variation)


def _starting(job: Job, amount: float, persistent: bool) -> Job:
    """Return a job whose recording begins with an epoch."""
    return _data(replace(job, warmup=4), epoch=4, persistent=persistent, start_us=amount)


def _link(job: Job, amount: float) -> Job:
    """Return a job with so many times the gradients to reduce."""
    return replace(job, gradient_scale=amount, bucket_bytes=round(job.bucket_bytes * max(amount, 1.0)))


FAULTS: Mapping[str, Fault] = {fault.id: fault for fault in (
    Fault("input.workers_zero", "batches are made in the training process",
          lambda job, a: _paced(_data(job, workers=0, batch_us=a)),
          lambda job, a: _paced(_data(job, workers=16, batch_us=a)), extra),
    Fault("input.workers_too_few", "workers are too few, cores are free",
          lambda job, a: _workers(job, a, _few(job), 24, a * _few(job)),
          lambda job, a: _workers(job, a, 6 * _few(job), 24, a * _few(job)), lambda t, s: t / (1 - s)),
    Fault("input.cpu_transform", "all cores are busy with transforms",
          lambda job, a: _workers(job, a, 8, 6, a * 5.5),
          lambda job, a: _workers(job, a, 8, 6, a), lambda t, s: t / (1 - s)),
    Fault("input.storage", "workers wait for slow reads",
          lambda job, a: _data(job, workers=4, read_us=a * 4, batch_us=2000.0, variation=0.4),
          lambda job, a: _data(job, workers=4, read_us=a / 2, batch_us=2000.0, variation=0.4), lambda t, s: t / (1 - s)),
    Fault("input.worker_startup", "workers are started again for each epoch",
          lambda job, a: _starting(job, a, persistent=False), lambda job, a: _starting(job, a, persistent=True), lambda t, s: extra(t, s) * 10),
    Fault("input.no_overlap", "the training thread makes the batch between two steps",
          lambda job, a: _paced(_data(job, inline_us=a)),
          lambda job, a: _paced(_data(job, workers=16, batch_us=a)), extra),
    Fault("transfer.pageable_h2d", "batches are copied from pageable memory",
          lambda job, a: replace(job, copy="pageable", copy_scale=a),
          lambda job, a: replace(job, copy="stream", copy_scale=a),
          lambda t, s: 1.0, most=1e7, families=("cnn", "resnet", "dlrm", "diffusion")),
    Fault("transfer.h2d_in_step", "small tensors are made on the CPU in each step",
          lambda job, a: replace(job, small_copies=8 + job.seed % 9, small_copy_us=a / (8 + job.seed % 9)), _same, extra),
    _reads("sync.scalar_read", "values are read in each step", "scalar", lambda job: (1, 2, 4, 8)[job.seed % 4]),
    _reads("sync.data_dependent", "tensors are indexed with masks in each step", "mask", lambda job: (2, 4, 8)[job.seed % 3]),
    _reads("sync.grad_clip", "the norm of the gradients is read before the optimizer's step", "clip", lambda job: 1),
    _reads("sync.logging_metrics", "metrics are read and logged in each step", "log", lambda job: (3, 6)[job.seed % 2]),
    _reads("sync.framework", "a library synchronizes the device in each step", "framework", lambda job: 1 + job.seed % 2),
    Fault("host.launch_bound", "the host launches more slowly than the GPU works",
          lambda job, a: replace(_small(job, 0.12), host_scale=a, optimizer_scale=a),
          lambda job, a: replace(_small(job, 0.12), host_scale=a, optimizer_scale=a, graphed=True),
          lambda t, s: 1.0, neutral=0.05, most=60.0),
    Fault("host.optimizer_loop", "the optimizer loops over parameters",
          lambda job, a: replace(_host_bound(job), looped_share=min(a, 1.0), optimizer_scale=max(a, 1.0)),
          lambda job, a: replace(_host_bound(job), optimizer_scale=max(a, 1.0)), lambda t, s: s, most=30.0),
    Fault("host.python_overhead", "Python between operators holds up the launches",
          lambda job, a: replace(_host_bound(job), between_us=a), lambda job, a: _host_bound(job),
          lambda t, s: 20.0, most=5000.0),
    Fault("host.gil_contention", "another thread holds the interpreter's lock",
          lambda job, a: replace(_host_bound(job), gil=(6000.0, a)), lambda job, a: _host_bound(job),
          lambda t, s: 4000 * s, most=60000.0),
    Fault("host.cpu_quota", "the container's quota stops the process again and again",
          lambda job, a: replace(_host_bound(job), throttle=(7000.0, a)), lambda job, a: _host_bound(job),
          lambda t, s: 4000 * s, most=60000.0),
    Fault("host.cpu_oversubscription", "more threads than cores: everything on the host is slower",
          lambda job, a: replace(_host_bound(job), host_scale=a, between_us=(a - 1) * 2, optimizer_scale=a),
          lambda job, a: _host_bound(job), lambda t, s: 4.0, neutral=1.0, most=60.0),
    _pause("host.gc_pause", "the garbage collector stops the process", "gc", 1, around=lambda job, a: _paced(job)),
    _pause("compile.recompile", "the model is compiled again for new shapes", "compiling", 1, around=lambda job, a: _paced(job)),
    Fault("compile.not_used", "chains of elementwise operators are not compiled",
          lambda job, a: _work(job, compiled=True, eager_share=a),
          lambda job, a: _work(job, compiled=True), lambda t, s: 3 * s, most=1.0, families=CONVOLUTIONAL, severities=SEVERITIES[:4]),
    Fault("compute.fp32_no_tensorcore", "products run in fp32 beside the tensor cores",
          lambda job, a: _work(job, plain_share=a), _same, lambda t, s: s / 4, most=1.0),
    Fault("compute.misaligned_dims", "sizes of products do not suit tensor cores",
          lambda job, a: _work(job, odd_share=a), _same, share, most=1.0, families=("bert", "gpt", "dlrm"), severities=SEVERITIES),
    Fault("compute.dtype_cast", "weights and inputs are cast in each step",
          lambda job, a: _work(job, cast_share=min(a, 1.0), cast_passes=max(a, 1.0)), _same, lambda t, s: 4 * s, most=60.0, severities=SEVERITIES[:4]),
    Fault("compute.recompute", "activations are computed again in the backward pass",
          lambda job, a: _work(job, recompute_share=a), _same, lambda t, s: 3 * s, most=1.0, severities=SEVERITIES[:4]),
    Fault("compute.cudnn_autotune", "convolutions try algorithms on shapes that change in each step",
          lambda job, a: replace(job, search=Every(2, a, 8)), _same, lambda t, s: extra(t, s) / 100, families=CONVOLUTIONAL),
    Fault("compute.underfilled", "kernels have too few blocks to fill the GPU",
          lambda job, a: _work(job, underfill=a), _same, slower, neutral=1.0, most=30.0),
    Fault("compute.channels_last", "convolutions convert the layout of their tensors",
          lambda job, a: _work(job, layout_share=min(a, 1.0), layout_passes=max(a, 1.0)), _same, share, most=30.0, families=CONVOLUTIONAL),
    _pause("memory.allocator_thrash", "memory goes back to the driver and is asked for again", "churn", 6, around=lambda job, a: _paced(job)),
    _pause("pause.checkpoint_sync", "training stands while a checkpoint is written", "checkpoint", 1),
    _pause("pause.evaluation", "training stands while the model is evaluated", "evaluation", 4),
    Fault("pause.startup", "the first step loads code",
          lambda job, a: replace(job, warmup=0, startup_us=a), lambda job, a: replace(job, warmup=0),
          lambda t, s: extra(t, s) * 10),
    _ranks("dist.straggler", "one rank is slower than the others",
           lambda job, a: replace(_late(job), slow_gpu=a), _same, slower, neutral=1.0, most=20.0),
    _ranks("dist.input_straggler", "one rank waits for its data",
           lambda job, a: replace(_late(job), slow_data_us=a), _same, lambda t, s: t / (1 - s)),
    _ranks("dist.length_imbalance", "the ranks' shares of the work differ, another way in each step",
           lambda job, a: replace(job, imbalance=a), lambda job, a: replace(job, imbalance=a, balanced=True),
           share, most=3.0),
    _ranks("dist.bucket_overlap", "gradients are reduced after the backward pass",
           lambda job, a: replace(_link(job, a), overlap=False), _link, lambda t, s: 5.0,
           severities=SEVERITIES[:4], most=1e4),
    _ranks("dist.net_socket", "collectives take a slow path",
           lambda job, a: replace(job, link_slowdown=a), _same, lambda t, s: 10.0, neutral=1.0, most=1e4),
    _ranks("dist.accumulation_sync", "gradients are reduced in every micro-step",
           lambda job, a: replace(_link(job, a), micro_steps=2, reduce_each=True),
           lambda job, a: replace(_link(job, a), micro_steps=2), lambda t, s: 5.0, most=1e4),
    Fault("hw.thermal", "clocks fall during the recording",
          lambda job, a: replace(job, hot=a, hot_from=0.4), _same, lambda t, s: 1 + s / (1 - s) / 0.6, neutral=1.0, most=10.0),
)}  # fmt: skip


def _copying(job: Job, us: float) -> Job:
    """Return a job that copies for so long on a stream of its own."""
    return replace(job, copy="stream", copy_scale=us / 1e6 * job.gpu.pinned_bps / job.net.input_bytes)


@dataclass(frozen=True, slots=True)
class Control:
    """A job that looks like a fault and has none."""

    name: str
    title: str
    change: Change  # with the healthy job's step time in microseconds
    families: tuple[str, ...] = ALL
    min_ranks: int = 1
    max_ranks: int = 16


CONTROLS: Mapping[str, Control] = {control.name: control for control in (
    Control("read_that_waits_for_nothing", "each step looks at the loss of the step before, while the GPU has work",
            lambda job, _: replace(job, deferred_read=True)),
    Control("wait_behind_the_queue", "the loader is waited for in each step, while the GPU has a step's work queued",
            lambda job, step: _data(replace(job, deferred_read=False, warmup=6), workers=1, prefetch=4, batch_us=0.9 * step, variation=0.05)),
    Control("copies_beside_kernels", "large pinned copies on a stream of their own", lambda job, step: _copying(job, 0.3 * step)),
    Control("python_behind_the_queue", "Python in each step that the queue hides", lambda job, step: replace(job, deferred_read=True, bookkeeping_us=0.35 * step)),
    Control("collection_behind_the_queue", "garbage collections that the queue hides", lambda job, step: replace(job, deferred_read=True, gc=Every(5, 0.3 * step))),
    Control("reduction_beside_backward", "gradients are reduced while the backward pass runs", lambda job, _: replace(job, gradient_scale=1.5), min_ranks=2),
)}  # fmt: skip

MISSPECIFIED: Mapping[str, Callable[[Job], Job]] = {
    "queue_512": lambda job: replace(job, queue=512),
    "queue_2048": lambda job: replace(job, queue=2048),
    "missing_events": lambda job: replace(job, missing=0.01),
    "profiler_overhead": lambda job: replace(job, overhead_us=2.0),
    "loader_out_of_order": lambda job: _data(job, in_order=False),
    "collective_contention": lambda job: replace(job, contention=1.1),
}
