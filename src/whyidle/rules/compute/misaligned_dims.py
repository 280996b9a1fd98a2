from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class MisalignedDims(Rule):
    """16-bit matrix products with a dimension that is no multiple of 8.

    ## Why it costs time
    Tensor cores read 16 bytes at a time, 8 values of 16 bits. If rows do not start on such a boundary,
    the library takes a slower kernel or copies the operand first. A vocabulary of 50257 is the
    well-known case.

    ## How we know
    The shapes and types of the operators (`record_shapes=True`), and the time of the kernels that they
    launched. What alignment would save is a prior: kernels of recent libraries cope with many odd sizes.

    ## When to ignore it
    A dimension that follows the data, such as tokens in a batch: padding those gained nothing where it
    was measured. A checkpoint that exists fixes the size of its layers.
    """

    needs = (("misaligned_share",),)
    uses = ("gpu_busy_share",)

    saved = Threshold(
        0.3, "of kernel time", source="prior: 1.04x for a vocabulary of 50304, its layer assumed an eighth of the step"
    )
    confidence = Threshold(0.4, "probability", source="one public case gained 4%, one nothing; only a trial tells")
    applies = Threshold(0.5, "probability", source="judgement: sizes of existing checkpoints are fixed")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("misaligned_share")
        lost = share * self.saved
        yield from self.finding(
            f"Matrix products with sizes that are no multiple of 8 take {share:.0%} of the step: "
            f"aligned sizes may save {lost:.0%} of the step.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"16-bit matrix products with a dimension that is no multiple of 8: {share:.0%} of the time",
            locations=m.one("misaligned_share").locations,
            fixes=(
                Fix(
                    "round the size up",
                    "vocab_size = 64 * math.ceil(vocab_size / 64)  # 50257 -> 50304; so with hidden and output sizes",
                    effort="setting",
                    applies=self.applies * m.get("gpu_busy_share", 1.0),
                    risk="the added rows are never used, but checkpoints change their shape",
                    edits=(Edit("scale_device", {"class": "misaligned"}, {"factor": 1 - self.saved}),),
                ),
            ),
        )

    cases = (
        Fires("the output layer of 50257 tokens", misaligned_share=0.2),
        Silent("a small layer of 10 classes", misaligned_share=0.01),
        Silent("a gain within noise", misaligned_share=0.05),
    )
