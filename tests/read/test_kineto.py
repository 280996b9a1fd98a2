"""The dialects of torch.profiler, 2021 to today, on events written by hand."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
from kineto_events import call, kernel, op, rows

from whyidle.model.evidence import Kind
from whyidle.read import columns, kineto
from whyidle.read.base import UnreadableError


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("Kernel", Kind.KERNEL),
        ("kernel", Kind.KERNEL),
        ("Memcpy", Kind.MEMCPY),
        ("gpu_memcpy", Kind.MEMCPY),
        ("Memset", Kind.MEMSET),
        ("gpu_memset", Kind.MEMSET),
    ],
)
def test_work_of_a_device(read, category, kind):
    trace = read([{**kernel(), "cat": category}])
    assert trace.device_slices.kind.tolist() == [kind]
    assert len(trace.host_slices) == 0


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("Operator", Kind.OP),
        ("cpu_op", Kind.OP),
        ("user_annotation", Kind.RANGE),
        ("python_function", Kind.PYTHON),
        ("Runtime", Kind.RUNTIME),
        ("cuda_runtime", Kind.RUNTIME),
        ("cuda_driver", Kind.RUNTIME),
        ("hip_runtime", Kind.RUNTIME),
        ("overhead", Kind.OVERHEAD),
    ],
)
def test_what_happens_on_a_host(read, category, kind):
    trace = read([op(cat=category)])
    assert trace.host_slices.kind.tolist() == [kind]
    assert len(trace.device_slices) == 0


@pytest.mark.parametrize("category", ["gpu_user_annotation", "cuda_sync", "Trace", "cuda_profiler_range"])
def test_no_slice(read, category):
    trace = read([op(), {**kernel(), "cat": category}])
    assert (trace.events, len(trace.host_slices), len(trace.device_slices)) == (2, 1, 0)
    assert trace.warnings == ()


@pytest.mark.parametrize("phase", [*"BEisftCMbnePNOD", "weird"])
def test_other_phases_are_counted_only(read, phase):
    trace = read([op(), {"ph": phase, "name": "x", "pid": 1, "tid": "a", "ts": 1}])
    assert (trace.events, len(trace.host_slices)) == (2, 1)
    assert trace.warnings == ()


@pytest.mark.parametrize("category", ["Operator", "cpu_op"])
@pytest.mark.parametrize(
    "name",
    [
        "ProfilerStep#3",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "Optimizer.step#SGD.step",
        "## forward ##",
    ],
)
def test_ranges_that_are_recorded_as_operators(read, category, name):
    trace = read([op(name, cat=category), op("aten::add", cat=category)])
    assert sorted(trace.host_slices.kind.tolist()) == [Kind.OP, Kind.RANGE]


def test_arguments_of_today(read):
    args = {"Input Dims": [[1, 2], []], "Input type": ["float", "Scalar"], "External id": 4}
    kernel_args = {"blocks per SM": 1.5, "bytes": 64, "In msg nelems": 1024}
    trace = read(
        [op(args=args), call(correlation=9, ts=2), kernel(ts=3, device=2, stream=20, correlation=9, **kernel_args)]
    )
    device, host = rows(trace).values()
    assert device == [(3000, 5000, Kind.KERNEL, "gemm", 2, 20, 9, 64, 1024, -1, -1, 1.5, None, None)]
    assert host[0][6:] == ("[[1,2],[]]", '["float","Scalar"]')
    assert host[1][5] == 9


def test_arguments_of_2021(read):
    args = {"Input dims": [[1, 2]], "Input type": ["float"]}
    kernel_args = {"external id": 4, "correlation": 9}
    track = {"pid": 1, "tid": "stream 7"}
    trace = read([op(args=args, cat="Operator", tid="7"), {**kernel(), "cat": "Kernel", "args": kernel_args, **track}])
    device, host = rows(trace).values()
    assert device[0][4:] == (1, 7, 9, -1, -1, -1, -1, None, None, None)
    assert host[0][4:] == ("7/7", -1, "[[1,2]]", '["float"]')


def test_the_call_stack_of_an_operator(read):
    stack = "train.py(12): step;train.py(30): <module>"
    trace = read([op(args={"Call stack": stack}), op(ts=100)])
    h = trace.host_slices
    assert [trace.strings[code] if code >= 0 else None for code in h.stacks.tolist()] == [stack, None]


def test_arguments_as_text_and_no_arguments(read):
    trace = read(
        [kernel(ts=1, bytes="4096", correlation="12"), {**kernel(ts=2, device=3, stream=5), "args": None}, op(args={})]
    )
    assert [row[4:8] for row in rows(trace)["device"]] == [(0, 7, 12, 4096), (3, 5, -1, -1)]


def test_correlations_beyond_int64_are_none(read):
    trace = read([kernel(correlation=2**64 - 1), kernel(correlation=5, ts=9)])
    assert trace.device_slices.correlation.tolist() == [-1, 5]


def test_argument_that_nobody_reads_may_be_anything(read):
    assert len(read([op(args={"Comms Id": 10159970886766084423123, "Concrete Inputs": [[{}]]})]).host_slices) == 1


@pytest.mark.parametrize(
    ("ts", "nanoseconds"),
    [
        ("4458676522690.655", 4458676522690655),
        ("1712195495519689.3", 1712195495519689300),
        ("1623143089861123", 1623143089861123000),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'])
def test_time_is_exact_as_number_and_as_text(read, ts, nanoseconds, quote):
    template = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": %s}'
    ts, dur = quote + ts + quote, f"{quote}0.001{quote}"
    trace = read('{"traceEvents": [' + template % (ts, dur) + "], " + '"displayTimeUnit": "ns"}')
    assert trace.host_slices.start.tolist() == [nanoseconds]
    assert trace.host_slices.end.tolist() == [nanoseconds + 1]
    assert trace.origin == nanoseconds


def test_lost_kernels_are_left_out_and_told(read):
    trace = read([kernel(ts=0, dur=0), kernel(ts=-5), kernel(ts=7), op(ts=6)])
    assert len(trace.device_slices) == 1
    assert trace.origin == 6000
    assert "2 of 3 GPU events have no time" in trace.warnings[0]


def test_durations_that_are_none_are_left_out_and_told(read):
    text = json.dumps(
        [op("a", dur=-1), op("b", dur=None), op("c"), op("d", dur=float("nan")), op("e", ts=float("inf"))]
    )
    trace = read(text)
    assert [row[3] for row in rows(trace)["host"]] == ["c"]
    assert "4 of 5 host events have no time" in trace.warnings[0]


def test_unknown_categories_are_left_out_and_told(read):
    trace = read([op(), op(cat="telepathy"), {"ph": "X", "name": "a", "ts": 1, "dur": 1}])
    assert len(trace.host_slices) == 1
    assert "2 slices not of torch.profiler" in trace.warnings[0]
    assert "telepathy" in trace.warnings[0]


def test_metadata(read):
    gpu = {"id": 4, "name": "NVIDIA A100", "numSms": 108, "computeMajor": 8, "computeMinor": 0, "totalGlobalMem": 42}
    trace = read(
        {
            "schemaVersion": 1,
            "deviceProperties": [gpu],
            "record_shapes": 1,
            "traceEvents": [op()],
            "distributedInfo": {"rank": 3, "world_size": "16"},
            "with_stack": True,
            "INFO": ["no scalar"],
        }
    )
    assert (trace.rank, trace.world_size) == (3, 16)
    assert dict(trace.metadata) == {"schemaVersion": 1, "record_shapes": 1, "with_stack": True}
    (told,) = trace.gpus
    assert (told.device, told.name, told.multiprocessors) == (4, "NVIDIA A100", 108)
    assert (told.compute_capability, told.memory_bytes) == ((8, 0), 42)


def test_gpus_of_2021_and_of_amd(read):
    old = {"id": 0, "name": "V100", "major": 7, "minor": 0, "multiProcessorCount": 80}
    assert read({"computeProperties": [old], "traceEvents": [op()]}).gpus[0].compute_capability == (7, 0)
    amd = {"id": 2, "name": "", "computeMajor": 9, "computeMinor": 4, "numSms": 304}
    trace = read({"deviceProperties": [amd], "hip_runtime_version": 6, "traceEvents": [op()]})
    assert (trace.gpus[0].compute_capability, trace.gpus[0].multiprocessors) == (None, 304)


@pytest.mark.parametrize("odd", [[], {}, None, "x", [None], [{"id": "a", "name": 3}]])
def test_metadata_that_is_not_what_it_should_be(read, odd):
    trace = read({"deviceProperties": odd, "distributedInfo": odd, "traceEvents": [op()]})
    assert trace.rank is None
    assert all(gpu.name == "" for gpu in trace.gpus)


def test_threads_and_parents(read):
    trace = read([op("child", ts=1, dur=2), op("parent", ts=1, dur=5), op("other", ts=1, dur=9, tid=8)])
    assert [(row[3], row[4]) for row in rows(trace)["host"]] == [("other", "7/8"), ("parent", "7/7"), ("child", "7/7")]


def test_too_many_slices_are_refused(read, monkeypatch):
    monkeypatch.setattr(kineto, "MOST_EVENTS", 3)
    with pytest.raises(UnreadableError, match="more than 3 slices"):
        read([op()] * 4)


def test_too_many_names_are_refused(read, monkeypatch):
    monkeypatch.setattr(columns, "MOST_TEXT", 1 << 20)
    with pytest.raises(UnreadableError, match="more than 1 MiB of distinct names"):
        read([op("x" * 600_000), op("y" * 600_000)])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_before(read, enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        read([op()])
        with pytest.raises(UnreadableError):
            read([])
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_columns_have_the_types_of_the_model(read):
    trace = read([op(), kernel()])
    device, host = trace.device_slices, trace.host_slices
    assert [getattr(device, name).dtype for name in device.__slots__] == [
        np.dtype(kind) for kind in ("i8", "i8", "u1", "i4", "i4", "i8", "i8", "i8", "f4", "i8", "i4", "i4", "i8", "i8")
    ]
    assert [getattr(host, name).dtype for name in host.__slots__] == [
        np.dtype(kind) for kind in ("i8", "i8", "u1", "i4", "i4", "i8", "i4", "i4", "i4", "i4")
    ]


@pytest.mark.parametrize(
    ("args", "group"),
    [
        ({}, None),
        ({"Process Group Name": ""}, None),
        ({"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}, "0 [0, 1]"),
        ({"Process Group Name": "", "Process Group Ranks": "[0, 1]"}, "[0, 1]"),
        ({"Process Group Ranks": "[0, 1]"}, "[0, 1]"),
        ({"Process Group Ranks": [0, 1]}, "[0,1]"),
        ({"Process Group Name": 'tp "\u00e9"'}, 'tp "\u00e9"'),
    ],
)
def test_the_process_group_of_a_collective(read, args, group):
    trace = read([kernel("gemm"), kernel("ncclDevKernel_AllReduce", ts=9.0, **args)])
    assert [trace.strings[code] if code >= 0 else None for code in trace.device_slices.group] == [None, group]


@pytest.mark.parametrize(
    ("args", "payload", "members"),
    [
        ({}, -1, -1),
        ({"Collective name": "_allgather_base", "In msg nelems": 8, "Out msg nelems": 64, "dtype": "Half"}, 128, -1),
        ({"Collective name": "allreduce", "In msg nelems": 64, "dtype": "Float", "Group size": 8}, 256, 8),
        ({"Collective name": "_reduce_scatter_base", "In msg nelems": 64, "dtype": "BFloat16"}, 128, -1),
        ({"Collective name": "allreduce", "In msg nelems": 64, "dtype": "Float4_of_2031"}, -1, -1),
        ({"Collective name": "barrier", "In msg nelems": 0, "dtype": "Byte", "Group size": 2}, 0, 2),
    ],
)
def test_what_a_collective_carries(read, args, payload, members):
    trace = read([kernel("gemm"), kernel("ncclDevKernel_AllReduce", ts=9.0, **args)])
    d = trace.device_slices
    assert [trace.strings[code] if code >= 0 else None for code in d.collective] == [None, args.get("Collective name")]
    assert (d.payload.tolist(), d.members.tolist()) == ([-1, payload], [-1, members])
