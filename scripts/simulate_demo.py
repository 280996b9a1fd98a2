"""Simulate the two recordings that `whyidle demo` shows, so that the demo needs neither a GPU nor anybody's trace.

    python scripts/simulate_demo.py [FOLDER]

The job is ResNet-18 on ImageNet-sized pictures, batch 128, SGD: once with the pictures loaded in the training
process, once by four workers with pinned memory. What is simulated is a host thread, an autograd thread and one
stream that runs kernels in order of launch; durations come from floating-point operations and bytes. The files are
Kineto JSON as PyTorch 2 writes it, with "simulated": true beside the events. The same seed gives the same bytes.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "src" / "whyidle" / "demo"
EPOCH_US = 5_000_000_000.0  # since the profiler's own base time
BASE_NS = 1_750_000_000_000_000_000
PID, AUTOGRAD, STREAM = 4242, 4377, 7
WARMUP, RECORDED = 2, 6

# The machine, in microseconds and SI units. Rates are plausible for an A100 and claim no more.
MULTIPROCESSORS = 108
CONV_FLOPS = 62e12  # reached by TF32 convolutions; the peak is 156e12
MEMORY_BPS = 1.35e12  # reached by elementwise kernels; the peak is 2.0e12
PAGEABLE_BPS, PINNED_BPS = 8.5e9, 24e9
LAUNCH_US, LATENCY_US, GAP_US = 4.5, 6.0, 1.1
PICTURE_US = 550.0  # to read and augment one picture that is stored decoded
OP_US = 5.0  # what an operator costs the host besides what it calls
BETWEEN_US = 0.6  # from the end of one to the start of the next

CONV = (
    "sm80_xmma_{}_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw"
    "_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn"
)
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{functor}, std::array<char*, {tensors}ul> >"
    "(int, at::native::{functor}, std::array<char*, {tensors}ul>)"
)
FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::TensorListMetadata<{tensors}>, "
    "at::native::(anonymous namespace)::{functor}<float, {tensors}, 1, 0> >"
)


def elementwise(functor: str, tensors: int) -> str:
    """Return the kernel name that PyTorch gives an elementwise function of so many tensors."""
    return ELEMENTWISE.format(functor=functor, tensors=tensors)


@dataclass
class Job:
    """One training process as torch.profiler would have recorded it. Time is in microseconds."""

    jitter: random.Random
    now: float = EPOCH_US  # of the host thread that runs
    drained: float = EPOCH_US  # when the stream will have run all that was launched
    tid: int = PID
    began: float = 0.0  # when recording began
    ops: list[int] = field(default_factory=list)  # External ids of the operators around us
    ids: int = 0
    correlations: int = 0
    host: list[dict[str, Any]] = field(default_factory=list)
    device: list[dict[str, Any]] = field(default_factory=list)

    def spend(self, microseconds: float, spread: float = 0.08) -> None:
        """Let the host work."""
        self.now += microseconds * self.jitter.lognormvariate(0.0, spread)

    @contextmanager
    def op(self, name: str, cat: str = "cpu_op", cost: float = OP_US, **args: int) -> Iterator[None]:
        """Run an operator or a named range around what happens inside."""
        self.ids += 1
        args = {"External id": self.ids, "Record function id": 0, **args, "Ev Idx": self.ids - 1}
        event: dict[str, Any] = {"ph": "X", "cat": cat, "name": name, "pid": PID, "tid": self.tid, "ts": self.now}
        self.host.append(event)
        self.ops.append(self.ids)
        self.spend(cost / 2)
        yield
        self.spend(cost / 2)
        self.ops.pop()
        event |= {"dur": self.now - event["ts"], "args": args}
        self.spend(BETWEEN_US)

    def leaf(self, name: str, cost: float = OP_US) -> None:
        """Run an operator that calls nothing."""
        with self.op(name, cost=cost):
            pass

    @contextmanager
    def runtime(self, name: str, cbid: int) -> Iterator[dict[str, int]]:
        """Call the CUDA runtime; yields the arguments that tie the call to what it starts."""
        self.correlations += 1
        args = {"External id": self.ops[-1] if self.ops else 0, "cbid": cbid, "correlation": self.correlations}
        event: dict[str, Any] = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": PID, "tid": self.tid}
        event["ts"] = self.now
        self.host.append(event)
        yield args
        event |= {"dur": self.now - event["ts"], "args": args}
        self.spend(BETWEEN_US)

    def enqueue(self, cat: str, name: str, us: float, call: dict[str, int], **args: Any) -> float:
        """Put work on the stream; it starts when the launch has arrived and what is before it is done."""
        start = max(self.now + LATENCY_US * self.jitter.lognormvariate(0.0, 0.05), self.drained + GAP_US)
        us *= self.jitter.lognormvariate(0.0, 0.015)
        where = {"External id": call["External id"], "device": 0, "context": 1, "stream": STREAM}
        args = {**where, "correlation": call["correlation"], **args}
        event = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": STREAM, "ts": start, "dur": us, "args": args}
        self.device.append(event)
        self.drained = start + us
        return self.drained

    def kernel(self, name: str, us: float, elements: float) -> None:
        """Launch a kernel that writes so many elements."""
        blocks = max(1, round(elements / 1024))
        with self.runtime("cudaLaunchKernel", 211) as call:
            shape = {"blocks per SM": round(blocks / MULTIPROCESSORS, 4), "grid": [blocks, 1, 1], "block": [256, 1, 1]}
            self.enqueue("kernel", name, max(us, 1.8), call, **shape)
            self.spend(LAUNCH_US)

    def to_device(self, size: int, pinned: bool) -> None:
        """Copy a batch to the device as `tensor.to("cuda")` does: the host waits until it is there."""
        with self.op("aten::to"), self.op("aten::_to_copy"):
            self.leaf("aten::empty_strided")
            with self.op("aten::copy_"):
                with self.runtime("cudaMemcpyAsync", 41) as call:
                    name = f"Memcpy HtoD ({'Pinned' if pinned else 'Pageable'} -> Device)"
                    us = 1.5 + size / (PINNED_BPS if pinned else PAGEABLE_BPS) * 1e6
                    done = self.enqueue("gpu_memcpy", name, us, call, bytes=size)
                    self.now = self.now + 6.0 if pinned else max(self.now + 6.0, done - 4.0)
                with self.runtime("cudaStreamSynchronize", 131):
                    self.now = max(self.now, self.drained) + 3.0


BATCH = 128
PICTURE = 3 * 224 * 224  # bytes: pictures travel as uint8 and become float on the GPU


@dataclass(frozen=True)
class Conv:
    """A convolution and the batch norm after it."""

    channels_in: int
    channels: int
    size: int  # of a side of the output, in pixels
    kernel: int
    relu: bool
    add: bool = False  # a residual is added before the relu

    @property
    def elements(self) -> int:
        """Return the number of values in the output."""
        return BATCH * self.channels * self.size**2

    @property
    def conv_us(self) -> float:
        """Return the time of one pass: forward, or backward to the input or to the weights."""
        return 2 * self.elements * self.channels_in * self.kernel**2 / CONV_FLOPS * 1e6

    def memory_us(self, passes: int) -> float:
        """Return the time to read or write the output so many times."""
        return passes * self.elements * 4 / MEMORY_BPS * 1e6


def resnet18() -> Iterator[Conv]:
    """Yield the layers of ResNet-18 (He et al. 2015, table 1), in order."""
    yield Conv(3, 64, 112, 7, relu=True)
    channels_in = 64
    for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        yield Conv(channels_in, channels, size, 3, relu=True)
        if channels_in != channels:
            yield Conv(channels_in, channels, size, 1, relu=False)
        yield Conv(channels, channels, size, 3, relu=True, add=True)
        yield Conv(channels, channels, size, 3, relu=True)
        yield Conv(channels, channels, size, 3, relu=True, add=True)
        channels_in = channels


LAYERS = tuple(resnet18())
PARAMETERS = 11_689_512
TENSORS = 3 * len(LAYERS) + 2


SOFTMAX = "void (anonymous namespace)::softmax_warp_{}<float, float, float, 10, true, false>"
NLL = "void at::native::(anonymous namespace)::nll_loss_{}_reduce_cuda_kernel_2d<float, long>"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float> > >"
HEAD = (  # operators, kernel, microseconds, elements
    (("aten::adaptive_avg_pool2d", "aten::mean"), MEAN, 12.0, BATCH * 512),
    (("aten::linear", "aten::addmm"), "ampere_sgemm_32x128_tn", 14.0, BATCH * 1000),
    (("aten::log_softmax", "aten::_log_softmax"), SOFTMAX.format("forward"), 4.0, BATCH * 1000),
    (("aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward"), NLL.format("forward"), 4.0, 1),
)


@contextmanager
def nest(job: Job, *names: str) -> Iterator[None]:
    """Run operators, each inside the one before."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(job.op(name, cost=7.0))
        yield


def normalize(job: Job) -> None:
    """Turn the pictures into floats of mean 0 and variance 1."""
    us = BATCH * PICTURE * 4 / MEMORY_BPS * 1e6
    with nest(job, "aten::to", "aten::_to_copy", "aten::copy_"):
        job.kernel(elementwise("direct_copy_kernel_cuda<float, unsigned char>", 2), 1.25 * us, BATCH * PICTURE)
    for operator, functor in (
        ("aten::sub", "CUDAFunctor_add<float>"),
        ("aten::div", "BinaryFunctor<float, DivFunctor>"),
    ):
        with job.op(operator):
            job.kernel(elementwise(functor, 3), 2 * us, BATCH * PICTURE)


def forward(job: Job) -> None:
    """Launch the forward pass and the loss."""
    for layer in LAYERS:
        with nest(job, "aten::conv2d", "aten::convolution", "aten::_convolution", "aten::cudnn_convolution"):
            job.kernel(CONV.format("fprop"), layer.conv_us, layer.elements)
        with job.op("aten::add_"):  # num_batches_tracked
            job.kernel(elementwise("CUDAFunctorOnSelf_add<long>", 2), 1.9, 1)
        with nest(job, "aten::batch_norm", "aten::_batch_norm_impl_index", "aten::cudnn_batch_norm"):
            name = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>"
            job.kernel(name, layer.memory_us(3), layer.elements)
        if layer.add:
            with job.op("aten::add_"):
                job.kernel(elementwise("CUDAFunctor_add<float>", 3), layer.memory_us(3), layer.elements)
        if layer.relu:
            with nest(job, "aten::relu_", "aten::clamp_min_"):
                job.kernel(elementwise("launch_clamp_scalar", 2), layer.memory_us(2), layer.elements)
    for operators, kernel, us, elements in HEAD:
        with nest(job, *operators):
            job.kernel(kernel, us, elements)


@contextmanager
def node(job: Job, name: str) -> Iterator[None]:
    """Evaluate a node of the autograd graph."""
    with job.op(f"autograd::engine::evaluate_function: {name}"), job.op(name):
        yield


def accumulate(job: Job, tensors: int) -> None:
    """Hand gradients to their parameters; with set_to_none they are stolen, not copied."""
    for _ in range(tensors):
        with node(job, "torch::autograd::AccumulateGrad"):
            job.leaf("aten::detach", cost=2)


def backward(job: Job) -> None:
    """Launch the backward pass from the autograd thread, while the main thread waits for it."""
    job.tid = AUTOGRAD
    job.spend(40)
    with node(job, "NllLossBackward0"), job.op("aten::nll_loss_backward"):
        job.kernel(
            "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float, long>", 4, BATCH
        )
    with node(job, "LogSoftmaxBackward0"), job.op("aten::_log_softmax_backward_data"):
        job.kernel(
            "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>", 4, BATCH * 1000
        )
    with node(job, "AddmmBackward0"):
        for name in ("ampere_sgemm_32x32_sliced1x4_nn", "ampere_sgemm_128x32_nt"):
            with job.op("aten::mm"):
                job.kernel(name, 15, BATCH * 512)
    accumulate(job, 2)
    for layer in reversed(LAYERS):
        if layer.relu:
            with node(job, "ReluBackward0"), job.op("aten::threshold_backward"):
                job.kernel(elementwise("threshold_kernel_impl<float>", 3), layer.memory_us(3), layer.elements)
        with node(job, "CudnnBatchNormBackward0"), job.op("aten::cudnn_batch_norm_backward", cost=12):
            name = "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>"
            job.kernel(name, layer.memory_us(5), layer.elements)
        accumulate(job, 2)
        with node(job, "ConvolutionBackward0"), job.op("aten::convolution_backward", cost=20):
            if layer is not LAYERS[0]:
                job.kernel(CONV.format("dgrad"), layer.conv_us, layer.elements)
            job.kernel(CONV.format("wgrad"), layer.conv_us, layer.elements)
        accumulate(job, 1)
    job.tid = PID
    job.spend(30)


def optimize(job: Job) -> None:
    """Step SGD with momentum, the foreach implementation: a few kernels for all parameters."""
    with job.op("Optimizer.step#SGD.step", "user_annotation", cost=600):
        for name, tensors in (("add", 3), ("mul", 2), ("add", 3), ("add", 3)):
            with job.op(f"aten::_foreach_{name}_", cost=90):
                functor = "BinaryOpListAlphaFunctor" if name == "add" else "BinaryOpScalarFunctor"
                for _ in range(2):
                    us = tensors * PARAMETERS * 2 / MEMORY_BPS * 1e6
                    job.kernel(FOREACH.format(tensors=tensors, functor=functor), us, PARAMETERS / 2)
    with job.op("Optimizer.zero_grad#SGD.zero_grad", "user_annotation"):
        job.spend(3 * TENSORS)


def load(job: Job, workers: int) -> None:
    """Get the next batch: from the workers' queue, or by loading every picture here and now."""
    iterator = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
    with job.op(f"enumerate(DataLoader)#{iterator}.__next__", "user_annotation"):
        if workers:
            job.spend(260, spread=0.3)
        else:
            job.spend(BATCH * PICTURE_US, spread=0.05)
            with job.op("aten::stack"), job.op("aten::cat"):
                job.spend(3200)


def train(workers: int, seed: int) -> Job:
    """Run some steps and keep what a profiler would have seen of all but the first."""
    job = Job(random.Random(seed))  # noqa: S311 (nothing secret)
    for step in range(WARMUP + RECORDED):
        if step == WARMUP:
            job.host.clear()
            job.began = job.now
        with job.op(f"ProfilerStep#{step}", "user_annotation", cost=20):
            load(job, workers)
            job.to_device(BATCH * PICTURE, pinned=bool(workers))
            job.to_device(BATCH * 8, pinned=bool(workers))
            normalize(job)
            forward(job)
            backward(job)
            optimize(job)
    with job.runtime("cudaDeviceSynchronize", 165):
        job.now = max(job.now, job.drained) + 4.0
    return job


def kineto(job: Job, title: str) -> dict[str, Any]:
    """Return the recording as Kineto writes it. What ran on the GPU when recording began lacks its launch."""
    device = [event for event in job.device if event["ts"] >= job.began]
    events: list[dict[str, Any]] = []
    for event in job.host + device:
        start, end = round(event["ts"], 3), round(event["ts"] + event["dur"], 3)
        events.append({**event, "ts": start, "dur": round(end - start, 3)})
    for pid, label in ((PID, "CPU"), (0, "GPU 0")):
        events.append(
            {"name": "process_name", "ph": "M", "ts": job.began, "pid": pid, "tid": 0, "args": {"name": "python3"}}
        )
        events.append(
            {"name": "process_labels", "ph": "M", "ts": job.began, "pid": pid, "tid": 0, "args": {"labels": label}}
        )
    for pid, tid, name in (
        (PID, PID, "thread 4242 (python3)"),
        (PID, AUTOGRAD, "thread 4377 (pt_autograd_0)"),
        (0, STREAM, "stream 7 "),
    ):
        events.append(
            {"name": "thread_name", "ph": "M", "ts": job.began, "pid": pid, "tid": tid, "args": {"name": name}}
        )
    gpu = {
        "id": 0, "name": "NVIDIA A100-SXM4-80GB (simulated)", "totalGlobalMem": 85_000_000_000,
        "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": MULTIPROCESSORS,
        "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 166912, "sharedMemPerMultiprocessor": 167936,
    }  # fmt: skip
    return {
        "schemaVersion": 1,
        "simulated": True,
        "simulation": title,
        "deviceProperties": [gpu],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": BASE_NS,
        "traceEvents": events,
    }


RECORDINGS = {
    "before": (0, "ResNet-18, batch 128, DataLoader(num_workers=0)"),
    "after": (4, "ResNet-18, batch 128, DataLoader(num_workers=4, pin_memory=True, persistent_workers=True)"),
}


def main(folder: Path) -> None:
    """Write both recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (workers, title) in RECORDINGS.items():
        text = json.dumps(kineto(train(workers, seed=20250615), title), separators=(",", ":"))
        (folder / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
