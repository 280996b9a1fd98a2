from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class CudnnAutotune(Rule):
    """The search for the fastest convolution goes on after the first step: input shapes keep changing.

    ## Why it costs time
    With `torch.backends.cudnn.benchmark = True` cuDNN tries all its algorithms whenever a layer sees a
    shape for the first time, which takes up to seconds, and remembers the fastest. That pays for shapes
    that come again. Images or lengths that differ in every batch pay each time.

    ## How we know
    A layer runs several convolution algorithms for one operator, or the host is inside the search,
    after the first step of the recording.

    ## When to ignore it
    The recording covers the first steps of the job, or there are few shapes and all will have been
    seen soon. With fixed shapes leave the flag on: without it the choice is often slower.
    """

    needs = (("conv_search_share", "steps"),)

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
        lost = m.number("conv_search_share")
        yield from self.finding(
            f"cuDNN searches for convolution algorithms again and again, which costs {lost:.0%} of the step.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"algorithm search after the first of {m.number('steps'):.0f} steps: {lost:.0%} of the time",
            locations=m.one("conv_search_share").locations,
            fixes=(
                Fix(
                    "stop the search",
                    "torch.backends.cudnn.benchmark = False",
                    effort="setting",
                    applies=self.applies,
                    risk="shapes that do come again may run a slower algorithm",
                    edits=(Edit("remove_device", {"class": "conv_search"}),),
                ),
                Fix(
                    "let few shapes come again",
                    "size = 64 * math.ceil(size / 64)  # pad or resize to a few sizes, keep benchmark = True",
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
        Silent("a single step: may be the first of the job", conv_search_share=0.4, steps=1),
    )
