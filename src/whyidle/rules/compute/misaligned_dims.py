from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved

# which size is off: how to name it, how to round it up, what that changes
_SIZES = {
    "outputs": (
        "an output size (vocabulary, classes)",
        "vocab_size = 8 * math.ceil(vocab_size / 8)  # the output layer's size; multiples of 64 are safest: 50304",
        "the added outputs are never used, but checkpoints change their shape",
    ),
    "hidden": (
        "a hidden size",
        "hidden_size = 8 * math.ceil(hidden_size / 8)  # of the layers named in `seen`; multiples of 64 are safest",
        "a model of another size: checkpoints do not fit",
    ),
    "heads": (
        "the size of an attention head",
        "num_heads = hidden_size // 64  # heads of 64 or 128, at least of a multiple of 8",
        "a model with other heads: checkpoints do not fit",
    ),
}


class MisalignedDims(Rule):
    """16-bit matrix products with a layer size that is no multiple of 8.

    ## Why it costs time
    Tensor cores read 16 bytes at a time, 8 values of 16 bits. If rows do not start on such a boundary,
    the library takes a slower kernel or copies the operand first. A vocabulary of 50257 is the
    well-known case.

    ## How we know
    The shapes and types of the operators (`record_shapes=True`), and the time of the kernels that they
    launched. Only the dimension that is contiguous in memory has to be a multiple of 8: the input and
    output sizes of linear layers and the size of attention heads. Rows are tokens or items of a batch
    and may have any number; a size that may be one of them is not counted. Kernels of recent libraries cope
    with many odd sizes: what alignment would save shows in the aligned products of the same recording, if
    there are any that are large. The odd ones are taken to reach the same FLOP/s. Where there are none to
    compare with, and for small products, it is a prior.

    ## When to ignore it
    A checkpoint that exists fixes the size of its layers. Sequence lengths in attention follow the
    data; padding those gained nothing where it was measured.
    """

    needs = (("misaligned_share",),)
    uses = ("misaligned_size", "misaligned_product", "misaligned_compared_share", "misaligned_slow_share", *READ)

    recoverable = Threshold(
        0.3, "of kernel time", source="prior: 1.04x for a vocabulary of 50304, its layer assumed an eighth of the step"
    )
    confidence = Threshold(0.4, "probability", source="one public case gained 4%, one nothing; only a trial tells")
    compared_confidence = Threshold(
        0.75, "probability", source="judgement: slower than aligned ones beside them; other sizes have other rates, too"
    )
    applies = Threshold(0.5, "probability", source="judgement: sizes of existing checkpoints are fixed")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("misaligned_share")
        compared, slow = m.get("misaligned_compared_share", 0.0), m.get("misaligned_slow_share", 0.0)
        guessed = max(share - compared, 0.0) * self.recoverable
        lost = saved(m, min(slow, share) + guessed)
        left = 1 - (min(slow, share) + guessed) / share if share else 1.0
        prior = {"prior": 1.0} if guessed else {}
        which = str(m.one("misaligned_size").value) if "misaligned_size" in m else ""
        example = str(m.one("misaligned_product").value) if "misaligned_product" in m else ""
        name, change, risk = _SIZES.get(which, _SIZES["outputs"])
        yield from self.finding(
            f"16-bit matrix products with {name} that is no multiple of 8 take {share:.0%} of the time: "
            f"aligned, {lost:.0%} of the time may be saved.",
            lost_share=lost,
            confidence=self.compared_confidence if slow > guessed else self.confidence,
            seen=(
                f"matrix products with a layer size that is no multiple of 8: {share:.0%} of the time"
                f"{f', most in {example}' if example else ''}"
                + (f"; at the rate of aligned ones {slow:.0%} of the time less" if slow else "")
                + proviso(m)
            ),
            locations=m.one("misaligned_share").locations,
            fixes=(
                Fix(
                    "round the size up",
                    change,
                    effort="setting",
                    applies=self.applies,
                    risk=risk,
                    edits=(Edit("scale_device", {"class": "misaligned"}, {"factor": left} | prior),),
                ),
            ),
        )

    cases = (
        Fires(
            "the output layer of 50257 tokens", misaligned_share=0.2, misaligned_size="outputs",
            misaligned_product="[8192, 768] @ [768, 50257]",
        ),
        Fires(
            "odd hidden sizes, at half of the rate of aligned ones", misaligned_share=0.2, misaligned_size="hidden",
            misaligned_compared_share=0.2, misaligned_slow_share=0.1,
        ),
        Silent(
            "an odd vocabulary, as fast as aligned products", misaligned_share=0.2, misaligned_size="outputs",
            misaligned_compared_share=0.2, misaligned_slow_share=0.004,
        ),
        Fires("heads of 20", misaligned_share=0.3, misaligned_size="heads"),
        Silent("a small layer of 10 classes", misaligned_share=0.01, misaligned_size="outputs"),
        Silent("a gain within noise", misaligned_share=0.05, misaligned_size="hidden"),
        Silent("the GPU waits for the host anyway", misaligned_share=0.2, gpu_limited_share=0.1),
    )  # fmt: skip
