from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.limited import READ, proviso, saved


class DtypeCast(Rule):
    """Many kernels of each step do nothing but change the data type.

    ## Why it costs time
    A cast reads and writes a whole tensor without computing anything. fp32 weights that are used in
    16 bits are cast again whenever the cast is not remembered: `autocast` remembers those of weights,
    but only until its `with` block ends.

    ## How we know
    Kernels launched by `aten::to` and `aten::_to_copy` from one floating-point type to another, several
    per step: by the types of target and source if the recording has them (`record_shapes=True`), else by
    kernels' names that speak of a conversion. Copies that only change the layout are none.

    ## When to ignore it
    Casts of activations at the edge of autocast are its price, and it is small: casting earlier gained
    0.6% where it was measured.
    """

    needs = (("cast_share", "casts_per_step"),)
    uses = READ

    several = Threshold(5, "per step", source="judgement: a batch and a loss need up to four")
    removable = Threshold(
        0.8,
        "of cast time",
        source="prior: a cast merged into the kernel before it, or made once, costs nothing; some of gradients stay",
    )
    confidence = Threshold(
        0.6,
        "probability",
        source="types are recorded: right in 12 of 12 simulated jobs, bench/README.md; kept below: two public cases "
        "gained 1% and 0.6%, of how much is not known",
    )
    applies = Threshold(0.6, "probability", source="judgement")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        count, share = m.number("casts_per_step"), m.number("cast_share")
        if count < self.several:
            return
        lost = saved(m, share * self.removable)
        yield from self.finding(
            f"Kernels that only change the data type take {share:.0%} of the time: "
            f"without most of them it could be {lost:.0%} shorter.",
            lost_share=lost,
            confidence=self.confidence,
            seen=f"{count:.0f} such kernels per step, {share:.0%} of the time{proviso(m)}",
            locations=m.one("cast_share").locations,
            fixes=(
                Fix(
                    "cast weights once",
                    'with torch.autocast("cuda", dtype=torch.bfloat16):  # one around all of forward, none per layer\n'
                    "    loss = criterion(model(x), y)\n"
                    "# or keep the weights in 16 bits: model.to(torch.bfloat16), with fp32 copies in the optimizer\n"
                    "# or merge casts into their neighbours: model = torch.compile(model)",
                    effort="code",
                    applies=self.applies,
                    risk="16-bit weights without fp32 copies lose small updates",
                    edits=(Edit("scale_device", {"class": "cast"}, {"factor": 1 - self.removable, "prior": 1.0}),),
                ),
            ),
        )

    cases = (
        Fires("every weight in every forward", cast_share=0.09, casts_per_step=320),
        Fires("large activations of a few layers", cast_share=0.09, casts_per_step=8),
        Silent("the batch is cast once", cast_share=0.05, casts_per_step=2),
        Silent("many, but they cost nothing", cast_share=0.02, casts_per_step=320),
        Silent("the GPU waits for the host anyway", cast_share=0.09, casts_per_step=320, gpu_limited_share=0.2),
    )
