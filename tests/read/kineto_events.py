"""Events as Kineto writes them, and columns as rows that can be compared."""

from __future__ import annotations

import math

from whyidle.model.evidence import Trace


def rows(trace: Trace) -> dict[str, list[tuple]]:
    """Return the slices as rows with texts for codes, which do not depend on the order in which texts were met."""

    def texts(codes, names):
        return [names[code] if code >= 0 else None for code in codes]

    host, device = trace.host_slices, trace.device_slices
    blocks = [None if math.isnan(value) else round(float(value), 3) for value in device.blocks_per_sm]
    numbers = [
        device.device,
        device.stream,
        device.correlation,
        device.bytes,
        device.message,
        device.payload,
        device.members,
    ]
    return {
        "device": list(
            zip(
                device.start.tolist(),
                device.end.tolist(),
                device.kind.tolist(),
                texts(device.name, trace.strings),
                *(column.tolist() for column in numbers),
                blocks,
                texts(device.group, trace.strings),
                texts(device.collective, trace.strings),
                strict=True,
            )
        ),
        "host": list(
            zip(
                host.start.tolist(),
                host.end.tolist(),
                host.kind.tolist(),
                texts(host.name, trace.strings),
                texts(host.thread, trace.threads),
                host.correlation.tolist(),
                texts(host.shapes, trace.strings),
                texts(host.types, trace.strings),
                strict=True,
            )
        ),
    }


def op(name="aten::add", ts=1.0, dur=2.0, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 7, "ts": ts, "dur": dur, **more}


def kernel(name="gemm", ts=1.0, dur=2.0, *, device=0, stream=7, correlation=1, **args):
    args = {"device": device, "stream": stream, "correlation": correlation, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": args}


def call(name="cudaLaunchKernel", ts=1.0, dur=1.0, correlation=1):
    return op(name, ts, dur, cat="cuda_runtime", args={"correlation": correlation})
