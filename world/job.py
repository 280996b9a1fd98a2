"""A job: everything that is decided before it runs. Two jobs that differ in one field are a fault and its cure."""

from __future__ import annotations

from dataclasses import dataclass, field

from world.families import build
from world.machine import GPUS, Gpu, HostCosts
from world.nets import Net, Work


@dataclass(frozen=True, slots=True)
class Data:
    """How batches are made. Times in microseconds."""

    workers: int = 8  # 0: in the training process
    prefetch: int = 2  # batches that each worker may have outstanding
    batch_us: float = 20_000.0  # of CPU time for one batch
    read_us: float = 0.0  # of waiting for storage before it, on no core
    cold: int = 0  # batches that are not in the page cache yet
    cold_scale: float = 8.0  # how much longer those are waited for
    variation: float = 0.15  # standard deviation over mean of both
    cores: int = 24  # for the workers and the training process of one rank
    in_order: bool = True
    epoch: int = 0  # batches of an epoch; 0: the recording lies within one
    persistent: bool = True  # workers live on from epoch to epoch
    start_us: float = 0.0  # until a new worker is ready
    fetch_us: float = 180.0  # of the training thread, to take a batch from the queue
    inline_us: float = 0.0  # of the training thread, making the batch outside any loader


@dataclass(frozen=True, slots=True)
class Every:
    """Something that happens every so many steps."""

    steps: int = 0  # 0: never
    us: float = 0.0
    count: int = 0

    def due(self, step: int) -> bool:
        """Return whether it happens at the end of this step; step 0 is the first that is recorded."""
        return self.steps > 0 and step >= 0 and step % self.steps == self.steps // 2


@dataclass(frozen=True, slots=True)
class Job:
    """One training job. Times are microseconds; host costs are before jitter."""

    family: str = "resnet"
    gpu_name: str = "A100"
    ranks: int = 1
    seed: int = 0
    steps: int = 10
    warmup: int = 3
    work: Work = field(default_factory=Work)
    data: Data = field(default_factory=Data)

    # the host
    costs: HostCosts = field(default_factory=HostCosts)
    host_scale: float = 1.0  # of what operators cost
    between_us: float = 0.0  # more Python between operators
    bookkeeping_us: float = 0.0  # Python once per step
    looped_share: float = 0.0  # of the parameters that the optimizer goes through one by one; the others are fused
    optimizer_scale: float = 1.0
    graphed: bool = False  # forward, backward and optimizer are a CUDA graph each
    queue: int = 1024  # launches that a stream takes before it makes the host wait
    gc: Every = field(default_factory=Every)
    gil: tuple[float, float] = (0.0, 0.0)  # every so many microseconds another thread holds the lock for so many
    second_thread: bool = False  # another thread copies the batches
    throttle: tuple[float, float] = (
        0.0,
        0.0,
    )  # every so many microseconds a quota stops the training process for so many

    # copies and synchronisations
    copy: str = "pinned"  # pageable, blocking (pinned, but waited for), pinned, or stream (pinned, on its own stream)
    copy_scale: float = 1.0  # of the family's bytes
    small_copies: int = 0
    small_copy_us: float = 0.0  # of host time, to make the tensor that is copied
    reads: int = 0  # values that are read from the GPU, spread over the step
    reads_by: str = ""  # scalar, mask, clip, log, framework
    reads_free: bool = False  # the same program with the values left on the GPU
    after_read_us: float = 0.0  # Python after each, with the value or without
    deferred_reads: int = 0  # of values of the step before, when they are long done
    metrics_every: int = 0  # steps between reads of the loss

    # pauses
    checkpoint: Every = field(default_factory=Every)
    evaluation: Every = field(default_factory=Every)
    compiling: Every = field(default_factory=Every)
    startup_us: float = 0.0
    churn: Every = field(default_factory=Every)  # cudaMalloc and cudaFree, `count` of each taking `us` together
    search: Every = field(default_factory=Every)  # convolutions that try `count` algorithms, taking `us` of the GPU
    fill_us: float = 0.0  # of host time, to set one gradient to zero; 0: gradients are dropped

    # ranks
    overlap: bool = True  # buckets of gradients are reduced while the backward pass runs
    bucket_bytes: int = 26_214_400
    link_slowdown: float = 1.0
    gradient_scale: float = 1.0  # of the bytes that are reduced: parameters that the network does not show
    micro_steps: int = 1
    reduce_each: bool = False  # in every micro-step
    slow_rank: int = -1
    slow_gpu: float = 1.0
    slow_data_us: float = 0.0  # between two batches, of that rank
    imbalance: float = 0.0  # standard deviation of the ranks' shares of a step's work
    balanced: bool = False  # the same work, dealt out evenly

    # hardware
    hot_from: float = 1.0  # share of the recording after which clocks fall
    hot: float = 1.0  # how much longer kernels then take

    # the recording
    dialect: str = "today"  # or 2021
    nanoseconds: bool = False  # times with decimals of microseconds, as since 2024
    stacks: bool = False
    shapes: bool = True
    marks: bool = True  # ProfilerStep
    missing: float = 0.0  # share of events that the profiler lost
    overhead_us: float = 0.0  # of the profiler, per operator and call
    contention: float = 1.0  # how much longer kernels take beside a collective

    @property
    def gpu(self) -> Gpu:
        """Return the model of GPU."""
        return GPUS[self.gpu_name]

    @property
    def net(self) -> Net:
        """Return the network."""
        return build(self.family, self.gpu, self.work)
