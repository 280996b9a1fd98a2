"""The training loop that a process runs, step by step, as its Job says.

A generator: it yields each collective when its rank has come there, and is resumed when all ranks have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from world.families import optimizer
from world.job import Data, Job
from world.kernels import Kernel, Maker, Op
from world.loader import Workers
from world.machine import LATENCY_US, RANKS_PER_NODE, all_reduce_us
from world.nets import Gradient, call
from world.process import ARRIVAL, AUTOGRAD, COLLECTIVES, COMPUTE, COPIES, EVENT, MAIN, ORDER, Process

FIRST_STEP = 5  # the number of the first recorded ProfilerStep
DATALOADER = "torch/utils/data/dataloader.py"
ITEM = "<built-in method item of Tensor object at 0x7f21c0a3e3b0>"
STACK = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 1, 128, 1>"
COMPARE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CompareFunctor<float>, std::array<char*, 2ul> >"
)
COUNT = "void at_cuda_detail::cub::DeviceReduceSingleTileKernel<at_cuda_detail::cub::DeviceReducePolicy>"
SELECT = "void at_cuda_detail::cub::DeviceSelectSweepKernel<at_cuda_detail::cub::DeviceSelectPolicy>"
SAVED = 20  # one parameter in so many is saved, as of an adapter: the pause is the write's and not the copy's
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True, slots=True)
class Collective:
    """A rank that has come to a collective: when its kernel starts there, and how long the transfer takes."""

    ready: float
    us: float
    kernel: Kernel
    call: float
    correlation: int
    reason: int
    arguments: str


class Program:
    """The program of one rank."""

    def __init__(self, process: Process, job: Job) -> None:
        self.p, self.job = process, job
        self.net = job.net
        self.optimizer = optimizer(self.net.parameters, job.gpu, job.looped_share)
        self.workers: Workers | None = None
        self.batches = 0
        self.last_loss = 0.0  # when the loss of the step before was there
        self.copied = 0.0  # when the next batch is on the GPU
        self.data = self._data(job.data)
        self.loads = np.random.default_rng((job.seed, 77))  # the same on all ranks

    def _data(self, data: Data) -> Data:
        if self.p.rank == self.job.slow_rank and self.job.slow_data_us:
            return replace(data, batch_us=self.job.slow_data_us * max(data.workers, 1))
        return data

    def run(self) -> Iterator[Collective]:
        """Train; the steps before the recorded ones let queues and loaders fill."""
        p, job = self.p, self.job
        self._set_alarms()
        for step in range(-job.warmup, job.steps):
            if step == 0:
                p.start_recording()
            with self._named(f"ProfilerStep#{step + FIRST_STEP}", job.marks), p.frame("train.py(31): train_one_step"):
                yield from self.step(step)
            p.marks.append(p.now)
            p.step_ends.append(p.drained)
        p.stop_recording()

    def step(self, step: int) -> Iterator[Collective]:
        """Run one step."""
        job = self.job
        self._set_clocks(step)
        if step == 0 and job.startup_us:
            self._start_up()
        for micro in range(job.micro_steps):
            self.load()
            self.upload()
            if job.graphed:
                self._replay()
            else:
                self.forward(step)
                yield from self.backward(step, last=micro == job.micro_steps - 1)
        if job.graphed and job.ranks > 1:
            yield from self._reduce(sum(self.net.parameters))
            self.p.wait(COMPUTE, COLLECTIVES)
        if job.reads_by == "clip":
            self._clip()
        self.optimize()
        self._after(step)

    # the parts of a step

    def load(self) -> None:
        """Get a batch."""
        p, data = self.p, self.data
        if data.inline_us:
            with p.range("load_batch"), p.frame("train.py(57): load_batch"):
                p.spend(data.inline_us, "data_wait")
            return
        kind = "_MultiProcessing" if data.workers else "_SingleProcess"
        with p.range(f"enumerate(DataLoader)#{kind}DataLoaderIter.__next__"), p.frame(f"{DATALOADER}(708): __next__"):
            p.cause("data_wait")
            if not data.workers:
                with p.frame("torch/utils/data/_utils/fetch.py(52): fetch"):
                    p.spend(
                        data.batch_us * 0.93 * float(p.jitter.gamma(1 / data.variation**2, data.variation**2)),
                        jitter=False,
                    )
                    p.run([call("aten::stack", "aten::cat", us=data.batch_us * 0.07)], "data_wait", "data_wait")
                p.cause("python")
                return
            self._new_epoch()
            assert self.workers is not None
            p.now = max(p.now, self.workers.take(p.now))
            p.spend(data.fetch_us)
            p.cause("python")
        self.batches += 1
        wanted = self.workers.computing + 1
        p.host_scale = max(1.0, wanted / data.cores)

    def _new_epoch(self) -> None:
        """Start the workers at the start of an epoch, unless they live on."""
        data = self.data
        first = self.workers is None
        if first or (data.epoch and self.batches % data.epoch == 0 and not data.persistent):
            draws = np.random.default_rng((self.job.seed, self.p.rank, 2, self.batches))
            self.workers = Workers(replace(data, start_us=0.0) if first else data, self.p.now, draws)

    def upload(self) -> None:
        """Copy the batch to the GPU."""
        p, job = self.p, self.job
        size = round(self.net.input_bytes * job.copy_scale)
        if job.copy == "stream":  # the batch was copied during the step before; now the next one is
            p.call("cudaStreamWaitEvent", 1.5, "python")
            p.streams[COMPUTE].after = max(p.streams[COMPUTE].after, self.copied)
            with p.second_thread() if job.second_thread else nullcontext():
                self._to_device(size, COPIES)
                p.call("cudaEventRecord", 1.5)
            self.copied = p.streams[COPIES].tail
            return
        self._to_device(size, COMPUTE)
        self._to_device(self.net.samples * 8, COMPUTE)

    def _to_device(self, size: int, stream: int) -> None:
        p, job = self.p, self.job
        pinned = job.copy != "pageable"
        start = p.now
        p.spend(6.0, "h2d_prep")
        inner = p.now
        p.copy(size, "HtoD", pinned, wait=job.copy in {"pageable", "blocking"}, stream=stream)
        end = p.now
        p.cause("h2d_prep")
        p.spend(6.0)
        p.cause("python")
        self._operators(("aten::to", "aten::_to_copy", "aten::copy_"), start, inner, end)

    def forward(self, step: int) -> None:
        """Run the forward pass, with what the fault puts into it."""
        p, job = self.p, self.job
        ops = self._searching(step, self.net.forward)
        stops = job.small_copies or (job.reads if job.reads_by in {"scalar", "mask"} else 0)
        if not stops:
            p.run(ops, "dispatch", "python", offset=step * 17, scale=job.host_scale)
            return
        # the last stop comes after the last operator, the others in between
        edges = [round(len(ops) * (row + 1) / stops) for row in range(stops)]
        begin = 0
        for end in edges:
            p.run(ops[begin:end], "dispatch", "python", offset=step * 17 + begin, scale=job.host_scale)
            begin = end
            if job.small_copies:
                self._make_tensor()
            else:
                self._read(job.reads_by)

    def backward(self, step: int, last: bool) -> Iterator[Collective]:
        """Run the backward pass on autograd's thread; gradients are reduced in buckets as they become ready."""
        p, job = self.p, self.job
        p.spend(25.0, "python")
        p.thread = AUTOGRAD
        reduces = job.ranks > 1 and (last or job.reduce_each)
        waiting, place, buffered = 0, 0, list[Op]()
        for gradient in self._gradients(step):
            buffered += gradient.ops
            waiting += sum(gradient.parameters)
            if reduces and job.overlap and waiting * 4 * job.gradient_scale >= job.bucket_bytes:
                p.run(buffered, "autograd_host", "autograd_host", offset=step * 29 + place, scale=job.host_scale)
                place, buffered = place + len(buffered), []
                yield from self._reduce(waiting)
                waiting = 0
        p.run(buffered, "autograd_host", "autograd_host", offset=step * 29 + place, scale=job.host_scale)
        if reduces and waiting:
            yield from self._reduce(waiting, now=not job.overlap)
        if reduces:
            p.wait(COMPUTE, COLLECTIVES)
        p.thread = MAIN
        p.cause("python")
        p.spend(20.0)

    def _gradients(self, step: int) -> Sequence[Gradient]:
        if not self.job.search.steps:
            return self.net.backward
        return [Gradient(tuple(self._searching(step, g.ops)), g.parameters) for g in self.net.backward]

    def _reduce(self, elements: int, now: bool = False) -> Iterator[Collective]:
        """Reduce gradients over all ranks; `now` without buckets: all of them, one after the other."""
        p, job = self.p, self.job
        most = job.bucket_bytes // 4
        total = max(1, round(elements * job.gradient_scale))
        for begin in range(0, total, total if not now else most * 4):
            size = min(total - begin, total if not now else most * 4)
            yield from self._all_reduce(size)
        p.cause("autograd_host" if p.thread == AUTOGRAD else "python")

    def _all_reduce(self, elements: int) -> Iterator[Collective]:
        p, job, gpu = self.p, self.job, self.job.gpu
        inside = job.ranks <= RANKS_PER_NODE
        bps = (gpu.link_bps if inside else gpu.network_bps) / job.link_slowdown
        us = all_reduce_us(elements * 4, job.ranks, bps, LATENCY_US[inside])
        start = p.now
        p.spend(12.0, "autograd_host" if p.thread == AUTOGRAD else "dispatch")
        p.wait(COLLECTIVES, COMPUTE)
        begun = p.now
        p.correlation += 1
        correlation = p.correlation
        p.spend(6.0)
        p.note("cuda_runtime", "cudaLaunchKernelExC", begun, p.now, correlation=correlation)
        line, costs = p.streams[COLLECTIVES], job.costs
        arrived, ready = begun + costs.latency, max(line.tail + costs.gap, line.after + costs.gap)
        arguments = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements}
        arguments |= {"Group size": job.ranks, "dtype": "Float", "Process Group Name": "0"}
        arguments |= {"Process Group Ranks": str(list(range(job.ranks)))}
        p.spend(5.0)
        p.note("cpu_op", "c10d::allreduce_", start + 3, p.now - 1)
        p.note("user_annotation", "nccl:all_reduce", start + 6, p.now - 2)
        reason = EVENT if line.after >= line.tail else ORDER
        kernel = Kernel(ALL_REDUCE, us, 24, 544)
        yield Collective(
            max(arrived, ready),
            us,
            kernel,
            begun,
            correlation,
            reason if ready > arrived else ARRIVAL,
            json.dumps(arguments)[1:-1],
        )
        p.take_place(line)

    def optimize(self) -> None:
        """Step the optimizer."""
        p, job = self.p, self.job
        name = "AdamW"
        p.cause("optimizer_host")
        with p.range(f"Optimizer.step#{name}.step"), p.frame("torch/optim/adamw.py(220): step"):
            if job.graphed:
                p.graph([k for op in self.optimizer for k in op.kernels], "optimizer_host")
            else:
                p.spend(60.0)
                p.run(self.optimizer, "optimizer_host", "optimizer_host", offset=3, scale=job.optimizer_scale)
        p.cause("optimizer_host")
        with p.range(f"Optimizer.zero_grad#{name}.zero_grad"):
            p.spend(0.25 * len(self.net.parameters))
            if job.fill_us:
                make = Maker(job.gpu, "fp32")
                fills = [call("aten::zero_", "aten::fill_", kernels=(make.fill(n),)) for n in self.net.parameters]
                p.run([op._replace(us=job.fill_us) for op in fills], "optimizer_host", "optimizer_host")
        p.cause("python")

    def _replay(self) -> None:
        """Run forward and backward as CUDA graphs."""
        p = self.p
        with p.range("Torch-Compiled Region: 0/0", "cpu_op"):
            p.spend(40.0, "dispatch")
            p.graph([k for op in self.net.forward for k in op.kernels], "dispatch")
        p.spend(30.0, "python")
        p.graph([k for g in self.net.backward for op in g.ops for k in op.kernels], "dispatch")
        p.cause("python")

    def _after(self, step: int) -> None:
        """Do what comes after the optimizer: bookkeeping, metrics, logs, pauses."""
        p, job = self.p, self.job
        p.spend(job.bookkeeping_us, "python")
        for _ in range(job.deferred_reads):
            self._deferred()
        if job.metrics_every and step % job.metrics_every == 0:
            self._scalar()
        if job.reads_by == "log":
            self._log()
        if job.reads_by == "framework":
            for _ in range(job.reads):
                self._read("device")
        self._pause(step)

    def _pause(self, step: int) -> None:
        """Do what comes every so many steps."""
        job = self.job
        pauses = (
            (job.churn, self._churn),
            (job.compiling, lambda: self._compile(step)),
            (job.checkpoint, self._checkpoint),
            (job.evaluation, self._evaluate),
            (job.gc, self._collect),
        )
        for every, pause in pauses:
            if every.due(step):
                pause()

    def _collect(self) -> None:
        self.p.wake(self.p.now, "gc")
        self.p.interrupt()

    def _log(self) -> None:
        """Read metrics and hand them to a logger."""
        p = self.p
        with p.all_is("logging"), p.frame("wandb/sdk/wandb_run.py(1701): log"), p.range("log_metrics"):
            for _ in range(self.job.reads):
                self._read("scalar", "logging")
        p.cause("python")

    # synchronisations

    def _read(self, by: str, afterwards: str = "python") -> None:
        """Read from the GPU, then do something in Python; `reads_free` leaves the read out."""
        p, job = self.p, self.job
        if not job.reads_free:
            {"scalar": self._scalar, "mask": self._mask, "device": self._synchronize}[by]()
        p.spend(job.after_read_us, afterwards)

    def _synchronize(self) -> None:
        """Wait for the device, as a library does to time something."""
        with self.p.frame("torch/cuda/__init__.py(1040): synchronize"):
            self.p.synchronize()

    def _scalar(self) -> None:
        """Read one value: `.item()`."""
        p = self.p
        start = p.now
        with p.frame(ITEM):
            p.spend(4.0, "dispatch")
            inner = p.now
            p.copy(4, "DtoH", pinned=False, wait=True)
            end = p.now
            p.spend(3.0, "dispatch")
        p.cause("python")
        self._operators(("aten::item", "aten::_local_scalar_dense"), start, inner, end)

    def _mask(self) -> None:
        """Index with a mask: its size has to be known before anything is allocated."""
        p = self.p
        p.run([call("aten::lt", kernels=(Kernel(COMPARE, 4.0, 64),))], "dispatch", "python")
        start = p.now
        count, select = Kernel(COUNT, 4.0, 1), Kernel(SELECT, 4.0, 64)
        p.run([call("aten::sum", kernels=(count, select))], "dispatch", "dispatch")
        inner = p.now
        p.copy(8, "DtoH", pinned=False, wait=True)
        end = p.now
        p.spend(5.0, "dispatch")
        p.cause("python")
        self._operators(("aten::index", "aten::nonzero"), start, inner, end)

    def _clip(self) -> None:
        """Clip the gradients' norm and look at it."""
        p, job = self.p, self.job
        make = Maker(job.gpu, "fp32")
        total = sum(self.net.parameters)
        norms = call("aten::_foreach_norm", kernels=(make.foreach("LpNormFunctor", 1, total),), us=40)
        stack = call("aten::stack", "aten::cat", kernels=(Kernel(STACK, 3.0, 1),))
        whole = call("aten::linalg_vector_norm", kernels=(make.elementwise("NormTwoOps", 1000),))
        scale = call("aten::_foreach_mul_", kernels=(make.foreach("BinaryOpScalarTensorFunctor", 2, total),), us=40)
        with p.frame("torch/nn/utils/clip_grad.py(22): clip_grad_norm_"):
            p.run([norms, stack, whole], "dispatch", "python")
            for _ in range(job.reads):
                self._read("scalar")
            p.run([scale], "dispatch", "python")

    def _deferred(self) -> None:
        """Look at the loss of the step before: it was copied to pinned memory long ago."""
        p = self.p
        p.copy(4, "DtoH", pinned=True, wait=False)
        p.call("cudaEventRecord", 1.5)
        event = p.streams[COMPUTE].tail
        if self.last_loss:
            p.synchronize("cudaEventSynchronize", event=self.last_loss)
        self.last_loss = event
        p.cause("python")

    def _make_tensor(self) -> None:
        """Make a small tensor on the CPU and copy it."""
        p, job = self.p, self.job
        p.spend(job.small_copy_us, "python")
        start = p.now
        p.spend(5.0, "h2d_prep")
        inner = p.now
        p.copy(4096, "HtoD", pinned=False, wait=True)
        end = p.now
        p.spend(3.0, "h2d_prep")
        p.cause("python")
        self._operators(("aten::to", "aten::_to_copy", "aten::copy_"), start, inner, end)

    # pauses

    def _churn(self) -> None:
        """Give memory back to the driver and ask for it again."""
        p, job = self.p, self.job
        each = job.churn.us / max(1, 2 * job.churn.count)
        for name in ("cudaFree", "cudaMalloc"):
            for row in range(job.churn.count):
                start = p.now
                p.correlation += 1
                if name == "cudaFree" and row == 0:
                    p.cause("allocator")
                    p.now = max(p.now, p.drained)
                p.spend(each, "allocator")
                p.note("cuda_runtime", name, start, p.now, correlation=p.correlation)
        p.cause("python")

    def _compile(self, step: int) -> None:
        """Compile the model again: a guard has failed."""
        p, job = self.p, self.job
        p.cause("compile")
        with (
            p.range(f"Torch-Compiled Region: 0/{step + 1}", "cpu_op"),
            p.range("_compile.compile_inner (dynamo_timed)", "cpu_op"),
            p.range("entire_frame_compile (dynamo_timed)", "cpu_op"),
        ):
            p.spend(job.compiling.us * 0.35)
            with (
                p.range("backend_compile (dynamo_timed)", "cpu_op"),
                p.frame("torch/_inductor/compile_fx.py(1552): compile_fx"),
            ):
                p.spend(job.compiling.us * 0.65, "compile")
        p.cause("python")

    def _checkpoint(self) -> None:
        """Save the parameters."""
        p, job = self.p, self.job
        with p.all_is("checkpoint"), p.range("save_checkpoint"), p.frame("torch/serialization.py(943): save"):
            pieces = 6
            for _ in range(pieces):
                start = p.now
                p.copy(sum(self.net.parameters) * 4 // pieces // SAVED, "DtoH", pinned=False, wait=True)
                self._operators(("aten::to", "aten::_to_copy", "aten::copy_"), start, start + 1, p.now - 1)
                p.spend(job.checkpoint.us / pieces, "checkpoint")
        p.cause("python")

    def _evaluate(self) -> None:
        """Run batches without gradients, and read a metric of each."""
        p, job = self.p, self.job
        with p.all_is("evaluation"), p.range("evaluate"), p.frame("train.py(120): evaluate"):
            left = job.evaluation.us / job.evaluation.count
            for row in range(job.evaluation.count):
                p.spend(0.6 * left, "evaluation")
                p.run(self._as_long_as(0.4 * left), "evaluation", "evaluation", offset=row * 13)
                self._scalar()
        p.cause("python")

    def _as_long_as(self, us: float) -> list[Op]:
        """Return as much of the forward pass as takes the GPU so long."""
        ops: list[Op] = []
        forward = self.net.forward
        while us > 0:
            op = forward[len(ops) % len(forward)]
            ops.append(op)
            us -= max(1.0, sum(kernel.us for kernel in op.kernels))
        return ops

    def _start_up(self) -> None:
        """Load code that is used for the first time."""
        p, job = self.p, self.job
        for _ in range(6):
            p.call("cuModuleLoadData", job.startup_us / 6, "compile")
        p.cause("python")

    def _searching(self, step: int, ops: Sequence[Op]) -> Sequence[Op]:
        """Return the operators, of which convolutions try algorithms on shapes that they have not seen."""
        search = self.job.search
        if not search.steps or step % search.steps:
            return ops
        return [self._tries(op, step) if "conv" in op.names[-1] and op.kernels else op for op in ops]

    def _tries(self, op: Op, step: int) -> Op:
        """Return a convolution that runs every algorithm once before it runs the fastest."""
        search = self.job.search
        first = op.kernels[len(op.kernels) // 2]
        tried = tuple(
            first._replace(name=f"{first.name}_algo{n}", us=max(2.0, search.us * (0.6 + 0.1 * n)))
            for n in range(search.count)
        )
        unseen = re.sub(r"\[\[(\d+)", lambda size: f"[[{int(size[1]) + step}", op.shapes, count=1)
        return Op(op.names, op.us + 6 * search.count, (*tried, *op.kernels), unseen)

    # what surrounds a step

    def _set_clocks(self, step: int) -> None:
        """Set how fast this rank's GPU is in this step."""
        p, job = self.p, self.job
        scale = job.slow_gpu if p.rank == job.slow_rank else 1.0
        if job.hot > 1 and step >= job.hot_from * job.steps:
            scale *= job.hot
        if job.imbalance:
            shares = self.loads.lognormal(0.0, job.imbalance, job.ranks)
            scale *= float(np.mean(shares) if job.balanced else shares[p.rank])
        p.gpu_scale = scale

    def _set_alarms(self) -> None:
        if self.job.gil[0]:
            self.p.wake(self.job.gil[0] * 0.7, "gil")
        if self.job.throttle[0]:
            self.p.wake(self.job.throttle[0] * 0.5, "quota")

    def _named(self, name: str, named: bool) -> AbstractContextManager[None]:
        return self.p.range(name) if named else nullcontext()

    def _operators(self, names: tuple[str, ...], start: float, inner: float, end: float) -> None:
        """Record operators around what has just been done."""
        p = self.p
        for level, name in enumerate(names):
            share = level / len(names)
            p.note("cpu_op", name, start + (inner - start) * share, p.now - (p.now - end) * share)
