"""Counters that PyTorch keeps about itself, read about once a second from the training thread after a step.

Only what is already there is read: nothing is imported, no device is initialised, and dynamo is asked only in a
process that uses it.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from _whyidle import facts, hooks, record

COUNT = 13  # kind of record
RETRIES, ALLOCATIONS, GRAPHS, BREAKS, RECOMPILATIONS, COMPILING_NS, PEAK_BYTES, BYTES = range(1, 9)  # its flags

INTERVAL_S = 1.0
MOST_REASONS = 50
LONGEST_REASON = 300  # characters

ALLOCATOR = {
    "num_alloc_retries": RETRIES,
    "num_device_alloc": ALLOCATIONS,
    "allocated_bytes.all.peak": PEAK_BYTES,
    "allocated_bytes.all.current": BYTES,
}


class Reader:
    """Reads the counters when a second has passed, and has the facts written."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._next = 0.0  # time.monotonic()
        self._reasons = (-1, -1)  # counts with which the reasons were read

    def step(self, _count: int, optimizer: Any) -> None:
        """Read, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL_S
        self.read(optimizer)

    def read(self, optimizer: Any) -> None:
        """Read all counters and record each."""
        for flag, value in (*allocator(self._torch, optimizer), *dynamo()):
            record.put(COUNT, time.perf_counter_ns(), 0, value, flag)
        self._explain()
        facts.note_errors(record.errors())
        facts.write()

    def _explain(self) -> None:
        """Say why graphs broke and were compiled again, if that happened since it was last said."""
        counts = dict(dynamo())
        if not counts:
            return
        seen = (counts.get(BREAKS, 0), counts.get(RECOMPILATIONS, 0))
        if seen != self._reasons:
            self._reasons = seen
            breaks, again = reasons()
            facts.set_section("dynamo", {"graphs": counts.get(GRAPHS, 0), "breaks": breaks, "recompilations": again})


def allocator(torch: Any, optimizer: Any) -> Iterator[tuple[int, int]]:
    """Yield the counters of the allocator of the device that an optimizer works on."""
    groups = getattr(optimizer, "param_groups", None) or [{}]
    parameter = next((one for group in groups for one in group.get("params", ())), None)
    device = getattr(parameter, "device", None)
    if device is None or device.type in ("cpu", "meta"):
        return
    if device.type == "cuda":
        if not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
            return
        stats = torch.cuda.memory_stats(device)
    elif hasattr(getattr(torch, "accelerator", None), "memory_stats"):
        stats = torch.accelerator.memory_stats(device)
    else:
        return
    for name, flag in ALLOCATOR.items():
        if name in stats:
            yield flag, int(stats[name])


def dynamo() -> Iterator[tuple[int, int]]:
    """Yield the counters of torch.compile; none where it was never imported."""
    module = sys.modules.get("torch._dynamo.utils")
    counters = getattr(module, "counters", None)
    if not counters:
        return
    yield GRAPHS, int(counters.get("stats", {}).get("unique_graphs", 0))
    yield BREAKS, int(sum(counters.get("graph_break", {}).values()))
    compiled = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    if compiled is not None:
        yield RECOMPILATIONS, int(sum(times - 1 for times in list(compiled.values())))
    spent = getattr(module, "cumulative_time_spent_ns", None)
    if spent is not None:
        phases = ("entire_frame_compile", "entire_backward_compile")
        yield COMPILING_NS, int(sum(spent.get(phase, 0) for phase in phases))
    else:  # before 2.6: seconds, by function
        times = getattr(module, "compilation_time_metrics", {})
        names = ("_compile.compile_inner", "_compile.<locals>.compile_inner")
        yield COMPILING_NS, int(1e9 * sum(sum(times.get(name, ())) for name in names))


def reasons() -> tuple[dict[str, int], dict[str, int]]:
    """Return why graphs broke and why functions were compiled again, each with how often."""
    module = sys.modules.get("torch._dynamo.utils")
    broken = dict(getattr(module, "counters", {}).get("graph_break", {}))
    failed = list(getattr(module, "guard_failures", {}).values())
    again: dict[str, int] = {}
    for texts in failed:
        for text in list(texts):
            reason = str(text() if callable(text) else text)
            again[reason] = again.get(reason, 0) + 1
    return _shortened(broken), _shortened(again)


def _shortened(counts: dict[str, int]) -> dict[str, int]:
    """Return the most frequent reasons, each on one line."""
    short: dict[str, int] = {}
    for text, count in counts.items():
        line = one_line(str(text))
        short[line] = short.get(line, 0) + count
    return dict(sorted(short.items(), key=lambda item: -item[1])[:MOST_REASONS])


def one_line(text: str) -> str:
    """Return a reason of dynamo's on one line: its title and what it was about, without the compilation's number."""
    title = re.sub(r"^\d+/\d+: ", "", text.strip()).split("\n")[0]
    about = re.search(r"Developer debug context: (.+)", text)
    return re.sub(r"\s+", " ", f"{title}: {about[1]}" if about else title)[:LONGEST_REASON]


def install(torch: Any) -> None:
    """Read the counters of this process from now on."""
    hooks.after_step(Reader(torch).step)
