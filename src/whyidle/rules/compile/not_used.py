from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class NotUsed(Rule):
    """Elementwise kernels follow each other that torch.compile would merge: a model, or part of one, is not compiled.

    ## Why it costs time
    Each elementwise operator, normalization and copy reads its input from the GPU's memory and writes
    its output back, for a few operations per byte. `torch.compile` merges chains of them into one
    kernel that reads and writes once.

    ## How we know
    The GPU is well used, and on one stream elementwise, copy and reduction kernels follow each other that are not
    `torch.compile`'s. The longest of each such chain is taken to stay, and one for each reduction or normalization in
    it; the time of the others is what could be saved. Not counted are single ones between products, casts
    (`compute.dtype_cast`), the kernels of the optimizer and those that add up gradients, and what gathers or joins
    rows (embeddings, indexing, `torch.cat`). If the recording holds kernels or ranges of `torch.compile`, too, a part
    of the model was left out of it.

    ## When to ignore it
    Short runs: compiling takes seconds to minutes and pays off over epochs. Shapes that change every
    step compile again and again. If the GPU idles, that comes first.
    """

    needs = (("compiled", "mergeable_share", "gpu_busy_share"),)
    uses = ("elementwise_share", *READ)

    well_used = Threshold(0.8, "of window", source="below it more is to be had from the idle time; judgement")
    confidence = Threshold(
        0.55,
        "probability",
        source="PyTorch 2.0 compiled 93% of 163 public models, which trained 43% faster; of six of mmaction2 two did",
    )
    applies = Threshold(0.5, "probability", source="judgement: graph breaks and changing shapes take the gain away")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if m.number("gpu_busy_share") < self.well_used:
            return
        share, compiled = m.number("mergeable_share"), bool(m.one("compiled").value)
        lost = saved(m, share)
        said = "they are not compiled, unlike others" if compiled else "nothing is compiled"
        yield from self.finding(
            f"Elementwise kernels follow each other and {said}: torch.compile may save {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"in chains of elementwise, copy and reduction kernels all but the longest take {share:.0%} of the time"
                + (f", all of them {m.number('elementwise_share'):.0%}" if "elementwise_share" in m else "")
                + ("; other kernels are torch.compile's" if compiled else "; no trace of torch.compile")
                + proviso(m)
            ),
            locations=m.one("mergeable_share").locations,
            fixes=(self._breaks() if compiled else self._compile(),),
        )

    def _compile(self) -> Fix:
        return Fix(
            "try torch.compile",
            "model = torch.compile(model)",
            effort="setting",
            applies=self.applies,
            risk="the first steps compile for minutes; slower where the graph breaks or shapes change",
            edits=(Edit("remove_device", {"class": "mergeable"}, {"prior": 1.0}),),
        )

    def _breaks(self) -> Fix:
        return Fix(
            "see what torch.compile leaves out, and why",
            "TORCH_LOGS=graph_breaks,recompiles python train.py  # the line and the reason of each break\n"
            "# compile the whole model rather than some layers: model = torch.compile(model)",
            effort="setting",
            applies=self.applies,
            risk="none by looking",
            edits=(Edit("remove_device", {"class": "mergeable"}, {"prior": 1.0}),),
        )

    cases = (
        Fires("eager, full GPU", compiled=False, mergeable_share=0.15, elementwise_share=0.35, gpu_busy_share=0.97),
        Fires(
            "a part of the model is left out",
            compiled=True,
            mergeable_share=0.1,
            elementwise_share=0.4,
            gpu_busy_share=0.97,
        ),
        Silent("compiled", compiled=True, mergeable_share=0.002, elementwise_share=0.35, gpu_busy_share=0.97),
        Silent(
            "single kernels between products",
            compiled=False,
            mergeable_share=0.0,
            elementwise_share=0.3,
            gpu_busy_share=0.99,
        ),
        Silent("idle time comes first: host.launch_bound", compiled=False, mergeable_share=0.1, gpu_busy_share=0.5),
        Silent(
            "the GPU waits for the host anyway",
            compiled=False,
            mergeable_share=0.15,
            gpu_busy_share=0.85,
            gpu_limited_share=0.1,
        ),
    )
