from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.graph_break import GraphBreak
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.host.gil_contention import GilContention
from whyidle.rules.host.numa import Numa


class AllocatorThrash(Rule):
    """GPU memory is returned to the driver and asked for again while training runs.

    ## Why it costs time
    PyTorch keeps freed memory in a cache, so that after the first steps `cudaMalloc` and `cudaFree` are
    no longer called. `cudaFree` waits for the whole GPU. They come back if the code calls
    `torch.cuda.empty_cache()` in the loop, if memory is so short or so fragmented that the cache has to
    be emptied before an allocation succeeds, or if `PYTORCH_NO_CUDA_MEMORY_CACHING=1` switches it off.

    ## How we know
    `cudaMalloc` and `cudaFree` occur after the first recorded step, and the GPU is idle meanwhile.
    `torch.cuda.memory_stats()["num_alloc_retries"]` that keeps rising says that memory is short; if it
    stays at 0, look for `empty_cache()`.

    `whyidle run` reads these counters without a trace. What the calls cost is then an estimate: their number per
    step in the second half of the run, half a millisecond each, and never more than the time in which a model
    allocates (forward, backward, optimizer), nor than the GPU was idle for no other reason that has a name.

    ## When to ignore it
    The recording covers the first steps of the job, or lengths that grow to a new maximum now and then.
    """

    needs = (
        ("alloc_lost_share",),
        ("device_allocations_per_step", "watched_s", "watched_steps", "host_forward_share", "host_backward_share"),
    )
    uses = (
        "steps", "alloc_calls_per_step", "alloc_retries", "host_optimizer_share", "device_allocations_per_step",
        "watched_s", "watched_steps", "host_forward_share", "host_backward_share", *Numa.needs[0], *Numa.uses,
    )  # fmt: skip
    explains = ("allocator",)

    steady = Threshold(2, "steps", source="a recording of one step cannot tell growth from thrashing")
    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: steady state makes none of these calls"
    )
    applies = Threshold(
        0.8, "probability", source="judgement: if the code calls empty_cache(); 2.2x in one public case"
    )
    call_s = Threshold(
        0.0005, "s", source="judgement: cudaMalloc takes 0.1 to 1 ms, and the cudaFree before it waits for the GPU"
    )
    counted_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: calls were counted, what they cost is assumed"
    )
    few = Threshold(0.05, "per step", source="judgement: a growing maximum asks for memory now and then")
    setting_applies = Threshold(0.6, "probability", source="judgement: helps against fragmentation only")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        yield from self._recorded(m) if "alloc_lost_share" in m else self._counted(m)

    def _counted(self, m: Measurements) -> Iterator[Finding]:
        calls = m.number("device_allocations_per_step")
        if calls < self.few or m.number("watched_s") <= 0:
            return
        working = sum(m.get(f"host_{part}_share", 0.0) for part in ("forward", "backward", "optimizer"))
        claimed = (DebuggerOverhead, GilContention, GraphBreak, Numa)
        room = waits.left(m, *(rule.claimed(m) for rule in claimed))
        lost = min(calls * self.call_s * m.number("watched_steps") / m.number("watched_s"), working, room)
        retries = (
            f"; the allocator had to empty its cache {m.number('alloc_retries'):.0f} times"
            if ("alloc_retries" in m)
            else ""
        )
        yield from self.finding(
            f"GPU memory is freed and allocated anew while training runs, which costs about {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.counted_confidence,
            seen=f"{calls:.3g} calls of cudaMalloc per step in the second half of the run{retries}",
            locations=m.one("device_allocations_per_step").locations,
            fixes=self._fixes(short=m.get("alloc_retries", 0.0) >= 1),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        if m.get("steps", self.steady) < self.steady:
            return
        lost = m.number("alloc_lost_share")
        often = (
            f"{m.number('alloc_calls_per_step'):.3g} per step after the first"
            if "alloc_calls_per_step" in m
            else "all along"
        )
        yield from self.finding(
            f"GPU memory is freed and allocated anew while training runs, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"cudaMalloc and cudaFree {often}, the GPU idle in them {lost:.0%} of the time"
            + (f"; its cache emptied {m.number('alloc_retries'):.0f} times" if "alloc_retries" in m else ""),
            locations=m.one("alloc_lost_share").locations,
            fixes=self._fixes(short=m.get("alloc_retries", 0.0) >= 1),
        )

    def _fixes(self, *, short: bool) -> tuple[Fix, ...]:
        """Return the fixes; where memory was short and the allocator itself emptied the cache, no call is to blame."""
        cache, segments = (
            Fix(
                "keep the cache",
                "# delete torch.cuda.empty_cache() from the training step\nunset PYTORCH_NO_CUDA_MEMORY_CACHING",
                effort="code",
                applies=self.applies,
                risk="other processes on the same GPU see less free memory",
                edits=self._EDITS,
            ),
            Fix(
                "let segments grow in place of freeing them",
                "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                effort="setting",
                applies=self.setting_applies,
                risk="NVIDIA on Linux only; if memory is simply full, only a smaller batch helps",
                edits=self._EDITS,
            ),
        )
        return (segments,) if short else (cache, segments)

    # cudaFree waits for the GPU, and cudaMalloc does where it has to free first
    _EDITS = (Edit("scale_host", {"cause": "allocator"}, {"factor": 0.0}), Edit("remove_sync", {"kind": "allocator"}))

    cases = (
        Fires(
            "counted: empty_cache() in every step",
            device_allocations_per_step=60,
            alloc_retries=0,
            watched_s=60.0,
            watched_steps=300,
            host_forward_share=0.4,
            host_backward_share=0.5,
        ),
        Fires(
            "counted: memory is full, and the allocator tries again and again",
            device_allocations_per_step=25,
            alloc_retries=200,
            watched_s=100.0,
            watched_steps=200,
            host_forward_share=0.4,
            host_backward_share=0.5,
        ),
        Silent(
            "counted: none after the first steps",
            device_allocations_per_step=0,
            watched_s=60.0,
            watched_steps=300,
            host_forward_share=0.4,
            host_backward_share=0.5,
        ),
        Fires("empty_cache() in every step", alloc_calls_per_step=46, alloc_lost_share=0.3, steps=8),
        Fires("no step marks, but it goes on all along", alloc_lost_share=0.5),
        Silent("cached: no calls", alloc_calls_per_step=0, alloc_lost_share=0.0, steps=8),
        Silent("a single step: memory may still grow", alloc_calls_per_step=30, alloc_lost_share=0.1, steps=1),
        Silent("calls while the GPU is busy", alloc_calls_per_step=3, alloc_lost_share=0.003, steps=8),
    )
