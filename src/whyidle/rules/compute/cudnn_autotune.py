from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class CudnnAutotune(Rule):
    """The search for the fastest convolution goes on after the first step: input shapes keep changing.

    ## Why it costs time
    With `torch.backends.cudnn.benchmark = True` cuDNN runs all its algorithms whenever a layer sees a
    shape for the first time, which takes up to seconds, and remembers the fastest. That pays for shapes
    that come again. Images or lengths that differ in every batch pay each time. On AMD GPUs the same
    flag turns on the search ("find") of MIOpen, which also keeps its results on disk for later runs.

    ## How we know
    One call of a convolution runs many different products, not counting conversions, transposes and
    reductions around them, and either the same operator on the same shapes runs at most half as many in
    another step, or the call takes the time of what it runs (`cudaEventElapsedTime`). Calls of the first
    step do not count, and of a search only what an ordinary call would not have taken.

    ## When to ignore it
    The recording covers the first steps of the job, or there are few shapes and all will have been
    seen soon. With fixed shapes leave the flag on: without it the choice is often slower.
    """

    needs = (("conv_search_share", "steps"),)
    uses = READ

    steady = Threshold(2, "steps", source="a recording of one step cannot tell the first search from new shapes")
    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: a search after warm-up means new shapes"
    )
    applies = Threshold(
        0.9, "probability", source="judgement: the flag is a line; another algorithm may be a little slower"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if m.number("steps") < self.steady:
            return
        share = m.number("conv_search_share")
        lost = saved(m, share)
        yield from self.finding(
            f"The search for convolution algorithms goes on in steady state, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"calls of convolutions that try algorithms after the first of {m.number('steps'):.0f} steps: "
                f"{share:.0%} of the time beyond ordinary calls{proviso(m)}"
            ),
            locations=m.one("conv_search_share").locations,
            fixes=(
                Fix(
                    "stop the search",
                    "torch.backends.cudnn.benchmark = False  # on AMD it is MIOpen's search that this turns off",
                    effort="setting",
                    applies=self.applies,
                    risk="shapes that do come again may run a slower algorithm",
                    edits=(Edit("remove_device", {"class": "conv_search"}),),
                ),
                Fix(
                    "let few shapes come again",
                    "size = 64 * math.ceil(size / 64)  # pad or resize images to it; keep benchmark = True",
                    effort="code",
                    applies=self.applies,
                    risk="computes padding",
                    edits=(Edit("remove_device", {"class": "conv_search"}),),
                ),
            ),
        )

    cases = (
        Fires("each batch of images has its own size", conv_search_share=0.4, steps=10),
        Silent("fixed shapes: searched once", conv_search_share=0.0, steps=10),
        Silent("a rare new shape", conv_search_share=0.01, steps=10),
        Silent("the GPU waits for the host anyway", conv_search_share=0.1, steps=10, gpu_limited_share=0.1),
        Silent("a single step: may be the first of the job", conv_search_share=0.4, steps=1),
    )
