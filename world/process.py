"""One process of a job: its host threads, its streams on one GPU, and a record of all that they did.

Time runs along the host: a call happens at `now`, and when it puts work on a stream, the start and the end of that work
are known at once, because all that it waits for has been put there before. Only a collective needs other processes; the
program (program.py) yields there, and goes on once all have come.

A stream runs one operation after the other. An operation starts at the latest of: its launch has arrived, the
operation before it has ended and the GPU has turned to the next, and what the stream was told to wait for has happened.
A stream takes `queue` launches; the next call returns when the oldest has ended.

What the host is doing is noted as a cause of idle time whenever it changes (`causes`). truth.py reads that, not the
trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from world.job import Job
from world.kernels import Kernel, Op

SHARED_US = 15.0  # that a second thread's call holds the lock
POOL = 8192  # jitter factors that are drawn ahead, a power of two
WRAP = POOL - 1
MAIN, AUTOGRAD, SECOND = 0, 1, 2  # threads
COMPUTE, COPIES, COLLECTIVES = 7, 13, 20  # streams
ARRIVAL, ORDER, EVENT = range(3)  # what an operation started last upon


class Slice(NamedTuple):
    """Something that a host thread did."""

    category: str  # of today's dialect
    names: tuple[str, ...]  # operators inside each other, outermost first; or one name
    thread: int
    start: float
    inner_start: float  # of the innermost
    inner_end: float
    end: float
    correlation: int = 0
    arguments: str = ""  # more JSON


class Work(NamedTuple):
    """Something that a stream did."""

    kernel: Kernel
    stream: int
    start: float
    end: float
    correlation: int
    call: float  # start of the launch call
    reason: int  # ARRIVAL, ORDER or EVENT
    arguments: str = ""


class Stream:
    """One stream: when it will have run all that it was given."""

    __slots__ = ("after", "ends", "number", "tail")

    def __init__(self, number: int) -> None:
        self.number = number
        self.tail = 0.0
        self.ends: list[float] = []  # of every operation, in order
        self.after = 0.0  # an event that the next operation waits for


class Process:
    """One rank. All times are in microseconds on one clock."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job, self.rank = job, rank
        self.now = 0.0
        self.thread = MAIN
        self.streams = {number: Stream(number) for number in (COMPUTE, COPIES, COLLECTIVES)}
        self.gpu_scale = 1.0  # how much longer kernels take
        self.host_scale = 1.0
        self.slices: list[Slice] = []
        self.work: list[Work] = []
        self.causes: list[tuple[float, str]] = []
        self.marks: list[float] = []  # ends of steps on the host
        self.step_ends: list[float] = []  # and on the GPU
        self.recording = False
        self.began = 0.0
        self.finished = 0.0
        self.launched = 0  # kernels, copies and fills
        self.collective_wait = 0.0
        self.correlation = 0
        draw = np.random.default_rng((job.seed, rank))
        self.host_jitter: list[float] = np.exp(draw.normal(-0.02, 0.2, POOL)).tolist()
        self.gpu_jitter: list[float] = draw.normal(1.0, 0.015, POOL).clip(0.9, 1.1).tolist()
        self.jitter = np.random.default_rng((job.seed, rank, 1))
        self.alarm = float("inf")  # when the host is next held up by something else
        self.alarms: list[tuple[float, str]] = []
        self._overlapping: tuple[float, float] = (0.0, 0.0)  # the last collective

    # what the host does

    def cause(self, cause: str) -> None:
        """Note what the host does from now on."""
        self.causes.append((self.now, cause))

    def spend(self, us: float, cause: str | None = None, jitter: bool = True) -> None:
        """Let the host work."""
        if us <= 0:
            return
        if cause is not None:
            self.causes.append((self.now, cause))
        if jitter:
            us *= self.host_jitter[int(self.now) % POOL]
        self.now += us * self.host_scale
        if self.now >= self.alarm:
            self.interrupt()

    @contextmanager
    def all_is(self, cause: str) -> Iterator[None]:
        """Do something of which every part, waits and launches, too, counts as one cause."""
        first = len(self.causes)
        self.cause(cause)
        yield
        self.causes[first:] = [(time, cause) for time, _ in self.causes[first:]]

    @contextmanager
    def range(self, name: str, category: str = "user_annotation") -> Iterator[None]:
        """Do something within a range of the profiler."""
        start, thread = self.now, self.thread
        self.now += 1.0
        yield
        self.now += 1.0
        self.note(category, name, start, self.now, thread)

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        """Do something within a Python function, of which a recording with stacks tells."""
        start, thread = self.now, self.thread
        yield
        if self.job.stacks:
            self.note("python_function", name, start, self.now, thread)

    @contextmanager
    def second_thread(self) -> Iterator[None]:
        """Do something on another thread, while this one goes on; both want the interpreter's lock for a moment."""
        now, causes, thread = self.now, self.causes, self.thread
        self.causes, self.thread = [], SECOND
        yield
        self.now, self.causes, self.thread = now, causes, thread
        self.spend(SHARED_US)

    def note(
        self,
        category: str,
        name: str,
        start: float,
        end: float,
        thread: int | None = None,
        correlation: int = 0,
    ) -> None:
        """Record a slice, if the profiler is on."""
        if self.recording:
            where = self.thread if thread is None else thread
            self.slices.append(Slice(category, (name,), where, start, start, end, end, correlation))

    def call(self, name: str, us: float, cause: str | None = None) -> None:
        """Call the runtime for something that puts no work on the GPU."""
        start = self.now
        self.correlation += 1
        self.spend(us, cause)
        self.note("cuda_runtime", name, start, self.now, correlation=self.correlation)

    def interrupt(self) -> None:
        """Hold the host up: by a garbage collection, by a thread that has the lock, by the scheduler."""
        while self.alarms and self.alarms[0][0] <= self.now:
            due, what = heapq.heappop(self.alarms)
            _INTERRUPTIONS[what](self, due)
        self.alarm = self.alarms[0][0] if self.alarms else float("inf")

    def wake(self, at: float, what: str) -> None:
        """Let the host be held up at that time."""
        heapq.heappush(self.alarms, (at, what))
        self.alarm = self.alarms[0][0]

    def hold(self, us: float, cause: str) -> None:
        """Hold the host up for so long."""
        before = self.causes[-1][1] if self.causes else "python"
        self.cause(cause)
        self.now += us
        self.cause(before)

    # what the host asks the GPU to do

    def run(self, ops: Sequence[Op], inside: str, between: str, offset: int = 0, scale: float = 1.0) -> None:
        """Call operators one after the other; `inside` and `between` name the cause, should the GPU have nothing to do.

        This loop is what a simulation spends its time in.
        """
        job, costs = self.job, self.job.costs
        now, thread, recording = self.now, self.thread, self.recording
        stream = self.streams[COMPUTE]
        tail, ends, queue = stream.tail, stream.ends, job.queue
        host_jitter, gpu_jitter = self.host_jitter, self.gpu_jitter
        launch_us, latency, gap = costs.launch * self.host_scale, costs.latency, costs.gap
        slow = self.host_scale * scale * 0.5
        pause = (costs.between + (job.between_us if between == "python" else 0.0)) * self.host_scale
        overhead = job.overhead_us if recording else 0.0
        slices, work, causes, gpu_scale = self.slices, self.work, self.causes, self.gpu_scale
        busy_from, busy_to = self._overlapping
        correlation, contention = self.correlation, job.contention
        place = offset
        for names, us, kernels, shapes in ops:
            place += 1
            start = now
            causes.append((now, inside))
            half = us * slow * host_jitter[place & WRAP] + overhead
            now += half
            inner_start = now
            for kernel in kernels:
                correlation += 1
                begun = now
                now += launch_us + overhead
                arrived = begun + latency * host_jitter[(place + correlation) & WRAP]
                at, reason = (tail + gap, ORDER) if tail + gap > arrived else (arrived, ARRIVAL)
                if stream.after > at:
                    at, reason = stream.after + gap, EVENT
                lasts = kernel.us * gpu_scale * gpu_jitter[(place * 31 + correlation) & WRAP]
                if busy_from < at < busy_to:
                    lasts *= contention
                tail = at + lasts
                ends.append(tail)
                if len(ends) > queue and ends[-queue - 1] > now:
                    now = ends[-queue - 1]
                work.append(Work(kernel, COMPUTE, at, tail, correlation, begun, reason))
                if recording:
                    slices.append(
                        Slice("cuda_runtime", _LAUNCH[kernel.kind], thread, begun, begun, now, now, correlation)
                    )
                    now += 0.4
            inner_end = now
            now += half
            if recording:
                slices.append(Slice("cpu_op", names, thread, start, inner_start, inner_end, now, 0, shapes))
            causes.append((now, between))
            now += pause
            if now >= self.alarm:
                self.now = now
                self.interrupt()
                now = self.now
        self.now, stream.tail, self.correlation = now, tail, correlation
        self.launched += sum(len(op.kernels) for op in ops)

    def enqueue(self, kernel: Kernel, stream: int, call: float, latency: float | None = None) -> float:
        """Put one operation on a stream by a call that began at `call`; return when it ends."""
        line, costs = self.streams[stream], self.job.costs
        at, reason = call + (costs.latency if latency is None else latency), ARRIVAL
        if line.tail + costs.gap > at:
            at, reason = line.tail + costs.gap, ORDER
        if line.after > at:
            at, reason = line.after + costs.gap, EVENT
        scale = self.gpu_scale if kernel.kind == "kernel" else 1.0
        line.tail = at + kernel.us * scale * self.gpu_jitter[(self.correlation * 7) & WRAP]
        line.ends.append(line.tail)
        self.work.append(Work(kernel, stream, at, line.tail, self.correlation, call, reason))
        self.launched += 1
        return line.tail

    def graph(self, kernels: list[Kernel], cause: str) -> None:
        """Replay a CUDA graph: one call, and all its kernels run one after the other."""
        start = self.now
        self.correlation += 1
        self.spend(12.0 + 0.02 * len(kernels), cause)
        stream = self.streams[COMPUTE]
        for row, kernel in enumerate(kernels):
            self.enqueue(kernel, COMPUTE, start, None if row == 0 else 0.0)
            stream.ends.pop()  # the graph is one launch
        stream.ends.append(stream.tail)
        self.take_place(stream)
        self.note("cuda_runtime", "cudaGraphLaunch", start, self.now, correlation=self.correlation)

    def copy(self, size: int, way: str, pinned: bool, wait: bool, stream: int = COMPUTE, scale: float = 1.0) -> None:
        """Copy between host and device. From or to pageable memory the host stands until it is done.

        Small pieces from pageable memory travel with the call; PyTorch waits for them by a synchronisation.
        """
        gpu = self.job.gpu
        rate = gpu.pinned_bps if pinned else gpu.pageable_bps
        memory = "Pinned" if pinned else "Pageable"
        name = f"Memcpy HtoD ({memory} -> Device)" if way == "HtoD" else f"Memcpy DtoH (Device -> {memory})"
        kernel = Kernel(name, 1.2 + size / rate * 1e6 * scale, 0, 0, "memcpy", size)
        start = self.now
        self.correlation += 1
        done = self.enqueue(kernel, stream, start)
        self.now += 5.0 * self.host_scale
        stands = not pinned and (size > 65_536 or way == "DtoH")
        if stands:
            self.now = max(self.now, done)
            self.now += 2.0
        self.take_place(self.streams[stream])
        self.note("cuda_runtime", "cudaMemcpyAsync", start, self.now, correlation=self.correlation)
        if wait:
            self.synchronize("cudaStreamSynchronize", stream)

    def synchronize(
        self, name: str = "cudaDeviceSynchronize", stream: int | None = None, event: float | None = None
    ) -> None:
        """Stand until a stream, an event or all of the device has finished."""
        start = self.now
        self.correlation += 1
        self.cause("sync_return")
        until = event if event is not None else self.streams[stream].tail if stream is not None else self.drained
        costs = self.job.costs
        self.now = max(self.now + costs.call, until + costs.sync_return * self.host_jitter[self.correlation & WRAP])
        self.note("cuda_runtime", name, start, self.now, correlation=self.correlation)

    @property
    def drained(self) -> float:
        """Return when all streams will have run what they were given."""
        return max(stream.tail for stream in self.streams.values())

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for what another was given so far."""
        self.call("cudaEventRecord", 1.5)
        self.call("cudaStreamWaitEvent", 1.5)
        line = self.streams[stream]
        line.after = max(line.after, self.streams[other].tail)

    def start_recording(self) -> None:
        """Turn the profiler on, which waits for the GPU."""
        self.now = max(self.now, self.drained) + 50.0
        self.recording, self.began = True, self.now

    def stop_recording(self) -> None:
        """Turn the profiler off, which waits for the GPU."""
        self.synchronize()
        self.recording, self.finished = False, self.now

    def join(
        self, start: float, end: float, kernel: Kernel, call: float, correlation: int, reason: int, arguments: str
    ) -> None:
        """Put a collective on its stream, whose end is known now that all ranks have come."""
        stream = self.streams[COLLECTIVES]
        stream.tail = end
        stream.ends.append(end)
        self.work.append(Work(kernel, COLLECTIVES, start, end, correlation, call, reason, arguments))
        self.launched += 1
        self._overlapping = (start, end)

    def take_place(self, stream: Stream) -> None:
        """Wait for a place in the queue."""
        if len(stream.ends) > self.job.queue:
            self.now = max(self.now, stream.ends[-self.job.queue - 1])


_LAUNCH = {"kernel": ("cudaLaunchKernel",), "memset": ("cudaMemsetAsync",), "memcpy": ("cudaMemcpyAsync",)}


def _collect(process: Process, _due: float) -> None:
    start = process.now
    process.hold(process.job.gc.us, "gc")
    process.note("python_function", "Python GC", start, process.now)


def _locked(process: Process, due: float) -> None:
    every, holds = process.job.gil
    left = due + holds - process.now
    if left > 0:
        start = process.now
        process.hold(left, process.causes[-1][1])
        if process.job.stacks:
            process.note("python_function", "train.py(88): prefetch_worker", start - 20, process.now, SECOND)
    process.wake(process.now + every * float(process.jitter.uniform(0.8, 1.2)), "gil")


def _stopped(process: Process, due: float) -> None:
    """What the host stood and waited for anyway is no loss."""
    every, stops = process.job.throttle
    if due + stops > process.now:
        process.hold(due + stops - process.now, process.causes[-1][1])
    process.wake(process.now + every, "quota")


_INTERRUPTIONS = {"gc": _collect, "gil": _locked, "quota": _stopped}
