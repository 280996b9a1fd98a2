from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class NotUsed(Rule):
    """The GPU spends much of its time on elementwise kernels, and the model is not compiled.

    ## Why it costs time
    Each elementwise operator, normalization and copy reads its input from the GPU's memory and writes
    its output back, for a few operations per byte. `torch.compile` merges chains of them into one
    kernel that reads and writes once.

    ## How we know
    The GPU is well used, elementwise, copy and reduction kernels take a large share of the time, and
    the recording holds no kernel or range of `torch.compile`. The optimizer's kernels are not counted,
    nor those that gather or join rows (embeddings, indexing, `torch.cat`): compiling a model leaves
    them. How much of the rest can be merged is not to be seen: the share that we name is a prior, and
    only a trial tells.

    ## When to ignore it
    Short runs: compiling takes seconds to minutes and pays off over epochs. Shapes that change every
    step compile again and again. If the GPU idles, that comes first.
    """

    needs = (("compiled", "elementwise_share", "gpu_busy_share"),)
    uses = ("cast_share", *READ)

    well_used = Threshold(0.8, "of window", source="below it more is to be had from the idle time; judgement")
    large = Threshold(0.2, "of window", source="below it merging gains less than 8% by the prior for `mergeable`")
    mergeable = Threshold(
        0.4,
        "of elementwise time",
        source="prior: torchtitan's Llama 3.1 8B gained 14% (5762 to 6667 tokens/s/GPU), a third assumed elementwise",
    )
    confidence = Threshold(0.4, "probability", source="only a trial tells; +10% in one public case, a loss in others")
    applies = Threshold(0.5, "probability", source="judgement: graph breaks and changing shapes take the gain away")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("elementwise_share")
        if m.one("compiled").value or m.number("gpu_busy_share") < self.well_used or share < self.large:
            return
        lost = saved(m, max(share - m.get("cast_share", 0.0), 0.0) * self.mergeable)
        yield from self.finding(
            f"Elementwise kernels take {share:.0%} of the time and nothing is compiled: "
            f"torch.compile may save {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"elementwise, copy and reduction kernels outside the optimizer: {share:.0%} of the time; "
                f"no trace of torch.compile{proviso(m)}"
            ),
            locations=m.one("elementwise_share").locations,
            fixes=(
                Fix(
                    "try torch.compile",
                    "model = torch.compile(model)",
                    effort="setting",
                    applies=self.applies,
                    risk="the first steps compile for minutes; slower where the graph breaks or shapes change",
                    edits=(Edit("scale_device", {"class": "elementwise"}, {"factor": 1 - self.mergeable}),),
                ),
            ),
        )

    cases = (
        Fires("eager, full GPU", compiled=False, elementwise_share=0.35, gpu_busy_share=0.97),
        Silent("compiled", compiled=True, elementwise_share=0.35, gpu_busy_share=0.97),
        Silent(
            "matrix products dominate: none.compute_bound", compiled=False, elementwise_share=0.1, gpu_busy_share=0.99
        ),
        Silent("idle time comes first: host.launch_bound", compiled=False, elementwise_share=0.3, gpu_busy_share=0.5),
    )
