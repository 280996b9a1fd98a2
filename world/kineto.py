"""Write a run down as torch.profiler would have: one Kineto trace per rank, as of 2021 or as of today.

What differs between the two: names of categories, whole microseconds, text for threads, "external id" in lower case,
ranges among the operators, no Python frames. The files say "simulated" in their metadata and in the GPU's name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from world.process import Process, Slice, Work

BASE_NS = 1_750_000_000_000_000_000
EPOCH_US = {"today": 5_000_000_000, "2021": 1_623_212_388_000_000}
PID = 4242
OF_2021 = {
    "cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel",
    "gpu_memcpy": "Memcpy", "gpu_memset": "Memset",
}  # fmt: skip
OF_KIND = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
CBID = {
    "cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41, "cudaMemsetAsync": 51, "cudaMalloc": 20,
    "cudaFree": 22, "cudaDeviceSynchronize": 165, "cudaStreamSynchronize": 131, "cudaEventSynchronize": 137,
    "cudaEventRecord": 135, "cudaStreamWaitEvent": 147, "cudaGraphLaunch": 311,
}  # fmt: skip
OLD_ALL_REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
Event = dict[str, Any]


def file_name(rank: int) -> str:
    """Return the name of a rank's trace."""
    return f"rank{rank}.{1_750_000_000_000 + rank}.pt.trace.json.gz"


def write(process: Process, path: Path, **about: str) -> None:
    """Write the trace of one rank, packed, with more metadata if wanted. The same process gives the same bytes."""
    writer = Writer(process)
    whole = {**writer.header(), **about, "displayTimeUnit": "ms", "traceEvents": list(writer.kept())}
    text = json.dumps(whole)  # with spaces, as Kineto: HTA looks for `"rank": 0` with one
    path.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


class Writer:
    """Writes one rank's record."""

    def __init__(self, process: Process) -> None:
        self.p, self.job = process, process.job
        self.old = self.job.dialect == "2021"
        self.external_id = "external id" if self.old else "External id"
        self.work = [work for work in process.work if work.start >= process.began]
        self.launches = {work.correlation for work in self.work}
        self.around: dict[int, int] = {}  # by correlation: the operator around a call

    def kept(self) -> Iterator[Event]:
        """Yield the events, less those that the profiler lost."""
        lost = np.random.default_rng((self.job.seed, self.p.rank, 9))
        for event in self._events():
            if not self.job.missing or event["ph"] == "M" or lost.random() >= self.job.missing:
                yield event

    def _events(self) -> Iterator[Event]:
        yield from self._labels()
        for one, external in self._nested():
            if one.category != "python_function" or not self.old:
                yield from self._slice(one, external)
        for work in self.work:
            event = self._work(work)
            yield event
            flow = {"ph": "f", "id": work.correlation, **self._flow, "bp": "e"}
            yield {**flow, "pid": event["pid"], "tid": event["tid"], "ts": event["ts"]}
        span = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler"}
        yield {**span, **self._time(self.p.began, self.p.finished), "args": {"Op count": 0}}

    def _nested(self) -> Iterator[tuple[Slice, int]]:
        """Yield slices with a number: operators their own, calls that of the innermost operator around them."""
        slices = sorted(self.p.slices, key=lambda s: (s.thread, s.start, -s.end))
        around: list[tuple[float, int]] = []
        thread, numbers = -1, 0
        for one in slices:
            if one.thread != thread:
                thread, around = one.thread, []
            while around and around[-1][0] <= one.start:
                around.pop()
            if one.category in {"cpu_op", "user_annotation"}:
                yield one, numbers + 1
                numbers += len(one.names)
                around.append((one.end, numbers))
            else:
                external = around[-1][1] if around else 0
                self.around[one.correlation] = external
                yield one, external

    def _slice(self, one: Slice, external: int) -> Iterator[Event]:
        """Yield the event of a slice, or those of operators inside each other."""
        category = OF_2021.get(one.category, one.category) if self.old else one.category
        levels = len(one.names)
        for level, name in enumerate(one.names):
            share = level / levels
            start = one.start + (one.inner_start - one.start) * share
            when = self._time(start, one.end - (one.end - one.inner_end) * share)
            where = {"pid": PID, "tid": self._tid(one.thread)}
            event = {"ph": "X", "cat": category, "name": name, **where, **when}
            event["args"] = self._arguments(one, name, external + level, innermost=level == levels - 1)
            yield event
            if one.correlation in self.launches and one.category == "cuda_runtime":
                yield {"ph": "s", "id": one.correlation, **self._flow, **where, "ts": when["ts"]}

    def _arguments(self, one: Slice, name: str, external: int, *, innermost: bool) -> Event:
        if one.category == "cuda_runtime":
            return {"cbid": CBID.get(name, 0), "correlation": one.correlation, self.external_id: external}
        if one.category == "python_function":
            return {"Python id": external, "Python parent id": 0, "Python thread": 0}
        arguments: Event = {"External id": external, "Record function id": 0, "Ev Idx": external - 1}
        if innermost and one.arguments and self.job.shapes:
            sizes = one.arguments.replace("Input Dims", "Input dims") if self.old else one.arguments
            arguments |= json.loads(f"{{{sizes}}}")
        return arguments

    def _work(self, work: Work) -> Event:
        """Return the event of a kernel, a copy or a fill."""
        kernel = work.kernel
        lasts = work.end - work.start
        arguments: Event = {
            self.external_id: self.around.get(work.correlation, 0),
            "device": self._device,
            "context": 1,
        }
        arguments |= {"stream": work.stream, "correlation": work.correlation}
        if kernel.kind == "kernel":
            per = kernel.blocks / self.job.gpu.multiprocessors
            arguments |= {
                "queued": 0, "registers per thread": 32, "shared memory": 0, "blocks per SM": round(per, 6),
                "warps per SM": round(per * kernel.threads / 32, 6), "grid": [kernel.blocks, 1, 1],
                "block": [kernel.threads, 1, 1],
                "est. achieved occupancy %": min(100, round(per * kernel.threads / 20.48)),
            }  # fmt: skip
        else:
            arguments |= {
                "bytes": kernel.size,
                "memory bandwidth (GB/s)": round(kernel.size / max(lasts, 0.1) / 1e3, 3),
            }
        if work.arguments and not self.old:
            arguments |= json.loads(f"{{{work.arguments}}}")
        category = OF_KIND[kernel.kind]
        event = {"ph": "X", "cat": OF_2021[category] if self.old else category, "name": self._kernel_name(kernel.name)}
        return {
            **event,
            "pid": self._device,
            "tid": self._stream(work.stream),
            **self._time(work.start, work.end),
            "args": arguments,
        }

    def _kernel_name(self, name: str) -> str:
        return OLD_ALL_REDUCE if self.old and name.startswith("ncclDevKernel_AllReduce") else name

    def _time(self, start: float, end: float) -> Event:
        """Return start and duration in microseconds; both ends are rounded, so that what touched still touches."""
        epoch = EPOCH_US[self.job.dialect]
        if self.old or not self.job.nanoseconds:
            first, last = round(start), round(end)
            return {"ts": epoch + first, "dur": last - first}
        first, last = round(start * 1000), round(end * 1000)
        return {"ts": round(epoch + first / 1000, 3), "dur": (last - first) / 1000}

    def _tid(self, thread: int) -> int | str:
        number = PID + 31 * thread
        return str(number) if self.old else number

    def _stream(self, stream: int) -> int | str:
        return f"stream {stream}" if self.old else stream

    @cached_property
    def _flow(self) -> Event:
        return {"cat": "async", "name": "launch"} if self.old else {"cat": "ac2g", "name": "ac2g"}

    @cached_property
    def _device(self) -> int:
        return self.p.rank % 8

    def _labels(self) -> Iterator[Event]:
        """Yield names of processes and threads."""
        ts = self._time(self.p.began, self.p.began)["ts"]
        for pid, label in ((PID, "CPU"), (self._device, f"GPU {self._device}")):
            common = {"ph": "M", "ts": ts, "pid": pid, "tid": 0}
            yield {"name": "process_name", **common, "args": {"name": "python3"}}
            yield {"name": "process_labels", **common, "args": {"labels": label}}
        for thread, name in ((0, "python3"), (1, "pt_autograd_0")):
            named = f"thread {PID + 31 * thread} ({name})"
            yield {
                "name": "thread_name",
                "ph": "M",
                "ts": ts,
                "pid": PID,
                "tid": self._tid(thread),
                "args": {"name": named},
            }
        for stream in sorted({work.stream for work in self.work}):
            where = {"pid": self._device, "tid": self._stream(stream)}
            yield {"name": "thread_name", "ph": "M", "ts": ts, **where, "args": {"name": f"stream {stream} "}}

    def header(self) -> Event:
        """Return what stands beside the events."""
        gpu, job = self.job.gpu, self.job
        properties = {
            "id": self._device, "name": f"{gpu.name} (simulated)", "totalGlobalMem": gpu.memory_bytes,
            "computeMajor": gpu.capability[0], "computeMinor": gpu.capability[1], "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,
            "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 167936, "numSms": gpu.multiprocessors,
            "sharedMemPerBlockOptin": 166912,
        }  # fmt: skip
        header: Event = {"schemaVersion": 1, "simulated": True, "deviceProperties": [properties]}
        if job.ranks > 1 and not self.old:
            group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": job.ranks}
            header["distributedInfo"] = {
                "backend": "nccl", "rank": self.p.rank, "world_size": job.ranks, "pg_count": 1,
                "nccl_version": "2.21.5", "pg_config": [{**group, "ranks": list(range(job.ranks))}],
            }  # fmt: skip
        if not self.old:
            switches = {"record_shapes": int(job.shapes), "with_stack": int(job.stacks)}
            header |= {**switches, "baseTimeNanoseconds": BASE_NS, "traceName": f"rank{self.p.rank}.json"}
        return header
