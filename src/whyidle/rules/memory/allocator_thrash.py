from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


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

    ## When to ignore it
    The recording covers the first steps of the job, or lengths that grow to a new maximum now and then.
    """

    needs = (("alloc_lost_share",),)
    uses = ("steps", "alloc_calls_per_step")
    explains = ("allocator",)

    steady = Threshold(2, "steps", source="a recording of one step cannot tell growth from thrashing")
    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: steady state makes none of these calls"
    )
    applies = Threshold(
        0.8, "probability", source="judgement: if the code calls empty_cache(); 2.2x in one public case"
    )
    setting_applies = Threshold(0.6, "probability", source="judgement: helps against fragmentation only")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
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
            seen=f"cudaMalloc and cudaFree {often}, the GPU idle in them {lost:.0%} of the time",
            locations=m.one("alloc_lost_share").locations,
            fixes=(
                Fix(
                    "keep the cache",
                    "# delete torch.cuda.empty_cache() from the training step\nunset PYTORCH_NO_CUDA_MEMORY_CACHING",
                    effort="code",
                    applies=self.applies,
                    risk="other processes on the same GPU see less free memory",
                    edits=(Edit("scale_host", {"cause": "allocator"}, {"factor": 0.0}),),
                ),
                Fix(
                    "let segments grow in place of freeing them",
                    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                    effort="setting",
                    applies=self.setting_applies,
                    risk="NVIDIA on Linux only; if memory is simply full, only a smaller batch helps",
                    edits=(Edit("scale_host", {"cause": "allocator"}, {"factor": 0.0}),),
                ),
            ),
        )

    cases = (
        Fires("empty_cache() in every step", alloc_calls_per_step=46, alloc_lost_share=0.3, steps=8),
        Fires("no step marks, but it goes on all along", alloc_lost_share=0.5),
        Silent("cached: no calls", alloc_calls_per_step=0, alloc_lost_share=0.0, steps=8),
        Silent("a single step: memory may still grow", alloc_calls_per_step=30, alloc_lost_share=0.1, steps=1),
        Silent("calls while the GPU is busy", alloc_calls_per_step=3, alloc_lost_share=0.003, steps=8),
    )
