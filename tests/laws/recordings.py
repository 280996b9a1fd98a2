"""Any recording at all: nested or crossing, launched or not, of several devices, streams and threads."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.traces import AUTOGRAD, MAIN, Recording
from whyidle.model.evidence import Kind

HOST_NAMES = [
    (Kind.OP, "aten::add"), (Kind.OP, "aten::item"), (Kind.OP, "aten::to"), (Kind.OP, "AddBackward0"),
    (Kind.RANGE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
    (Kind.RANGE, "Optimizer.step#SGD.step"),
    (Kind.RANGE, "save_checkpoint"), (Kind.RANGE, "validation"), (Kind.RUNTIME, "cudaStreamSynchronize"),
    (Kind.RUNTIME, "cudaMalloc"), (Kind.PYTHON, "train.py(3): main"), (Kind.RUNTIME, "cudaModuleLoadData"),
]  # fmt: skip
DEVICE_NAMES = [
    (Kind.KERNEL, "sgemm"), (Kind.KERNEL, "ncclDevKernel_AllReduce"), (Kind.MEMSET, "Memset (Device)"),
    (Kind.MEMCPY, "Memcpy HtoD (Pageable -> Device)"), (Kind.MEMCPY, "Memcpy DtoH (Device -> Pageable)"),
]  # fmt: skip
times = st.integers(0, 4000)
lengths = st.integers(0, 1500)


@st.composite
def recordings(draw):
    r = Recording()
    for start, length, which, thread in draw(
        st.lists(st.tuples(times, lengths, st.sampled_from(HOST_NAMES), st.sampled_from([MAIN, AUTOGRAD])), max_size=25)
    ):
        r.slice(*which, start, start + length, thread)
    device = st.tuples(
        times, lengths, st.sampled_from(DEVICE_NAMES), st.none() | times, st.integers(0, 1), st.integers(7, 8)
    )
    for start, length, (kind, name), launched, gpu, stream in draw(st.lists(device, min_size=1, max_size=25)):
        took = draw(st.integers(1, 2000))
        r.work(kind, name, start, start + length + 1, launched, took=took, device=gpu, stream=stream)
    for number in range(draw(st.integers(0, 4))):
        r.step(number, number * 900, number * 900 + 850)
    return r
