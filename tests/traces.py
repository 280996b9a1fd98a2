"""A trace written by hand, for tests of measurement: times in us, one call per event."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whyidle.measure.analysis import Analysis
from whyidle.model.evidence import DeviceSlices, Gpu, HostSlices, Kind, Trace

A100 = Gpu(0, "NVIDIA A100-SXM4-80GB", 108, (8, 0))
MAIN, AUTOGRAD = "1/1", "1/2"
US = 1000


@dataclass
class Recording:
    """Collects events; `trace()` sorts them into columns as the reader would."""

    host: list[tuple[int, int, Kind, str, str, int, str, str, str, str]] = field(default_factory=list)
    device: list[tuple[int, int, Kind, str, int, int, int, int, float, int, str, str, int, int]] = field(
        default_factory=list
    )
    correlation: int = 0

    def slice(self, kind, name, start, end, thread=MAIN, correlation=-1, shapes="", types="", arguments="", stack=""):
        told = (shapes, types, arguments, stack)
        self.host.append((int(start * US), int(end * US), kind, name, thread, correlation, *told))
        return self

    def op(self, name, start, end, thread=MAIN, **more):
        return self.slice(Kind.OP, name, start, end, thread, **more)

    def range(self, name, start, end, thread=MAIN):
        return self.slice(Kind.RANGE, name, start, end, thread)

    def python(self, name, start, end, thread=MAIN):
        return self.slice(Kind.PYTHON, name, start, end, thread)

    def call(self, name, start, end, thread=MAIN):
        return self.slice(Kind.RUNTIME, name, start, end, thread)

    def step(self, number, start, end):
        return self.range(f"ProfilerStep#{number}", start, end)

    def work(
        self, kind, name, start, end, launched=None, call="cudaLaunchKernel", took=5, thread=MAIN, device=0, stream=7,
        size=-1, blocks=8.0, message=-1, group="", collective="", payload=-1, members=-1,
    ):  # fmt: skip
        """Add device work; `launched` is when its launch call began, None for work without one in the recording."""
        self.correlation += 1
        if launched is not None:
            self.slice(Kind.RUNTIME, call, launched, launched + took, thread, self.correlation)
        self.device.append(
            (
                int(start * US),
                int(end * US),
                kind,
                name,
                device,
                stream,
                self.correlation,
                size,
                blocks,
                message,
                group,
                collective,
                payload,
                members,
            )
        )
        return self

    def kernel(self, start, end, launched=None, name="void at::native::vectorized_elementwise_kernel<4>", **more):
        return self.work(Kind.KERNEL, name, start, end, launched, **more)

    def copy(self, name, start, end, launched=None, size=1 << 20, call="cudaMemcpyAsync", **more):
        return self.work(Kind.MEMCPY, name, start, end, launched, call=call, size=size, **more)

    def trace(self, path="trace.json", rank=None, gpus=(A100,), **metadata):
        strings: dict[str, int] = {}
        threads: dict[str, int] = {}

        def code(text):
            return strings.setdefault(text, len(strings)) if text else -1

        host = sorted(self.host, key=lambda row: (row[0], -row[1]))
        device = sorted(self.device, key=lambda row: row[0])
        columns = [list(column) for column in zip(*host, strict=True)] or [[] for _ in range(10)]
        columns[3], *columns[6:] = ([code(text) for text in columns[i]] for i in (3, 6, 7, 8, 9))
        columns[4] = [threads.setdefault(thread, len(threads)) for thread in columns[4]]
        types = (np.int64, np.int64, np.uint8, np.int32, np.int32, np.int64, *(np.int32,) * 4)
        host_slices = HostSlices(*(np.array(c, t) for c, t in zip(columns, types, strict=True)))
        columns = [list(column) for column in zip(*device, strict=True)] or [[] for _ in range(14)]
        columns[3], columns[10], columns[11] = ([code(text) for text in columns[i]] for i in (3, 10, 11))
        types = (*types[:5], np.int64, np.int64, np.int64, np.float32, np.int64, np.int32, np.int32, np.int64, np.int64)
        device_slices = DeviceSlices(*(np.array(c, t) for c, t in zip(columns, types, strict=True)))
        first = min([row[0] for row in host] + [row[0] for row in device], default=0)
        return Trace(
            path=path,
            rank=rank,
            world_size=None,
            device_slices=device_slices,
            host_slices=host_slices,
            strings=tuple(strings),
            threads=tuple(threads),
            gpus=tuple(gpus),
            origin=first,
            events=len(host) + len(device),
            metadata=metadata,
            kind="kineto",
        )

    def analysis(self, **more):
        return Analysis(self.trace(**more))


def shares(analysis, cause_prefix="idle_"):
    """Return idle shares by cause that are not zero."""
    from whyidle.measure import questions

    return {
        m.name.removeprefix(cause_prefix).removesuffix("_share"): m.value
        for m in questions(analysis)
        if m.name.startswith(cause_prefix) and m.value
    }


def measured(analysis):
    """Return every measurement by name."""
    from whyidle.measure import questions

    return {m.name: m.value for m in questions(analysis)}
