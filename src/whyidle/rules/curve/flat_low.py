from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class FlatLow(Rule):
    """The GPU works all the time, and steadily with too little.

    ## Why it costs time
    Every step leaves the GPU without work for a part of it: the host launches kernels too slowly, batches are small, or
    steps of less than a few samples wait for data each.

    ## How we know
    Utilization is steady below 95%, or 95% of its samples are below 70% (SageMaker's profiler has that limit), and it
    does not fall to zero regularly. Waits in steps that are shorter than the time between samples average out to such
    a level, so that a curve cannot tell a slow host from late batches: a step timer or a trace does.

    ## When to ignore it
    The job serves requests, and there are no more of them.
    """

    needs = (("curve_flat_share", "curve_level_share"),)
    uses = (
        "curve_spread_share",
        "curve_p95_share",
        "curve_step_time_s",
        "curve_interval_s",
        "curve_flat_gpus",
        "curve_gpus",
        *settle.READ,
    )

    steady = Threshold(0.08, "utilization", source="method 3.2: a standard deviation below 8 points is flat")
    vague = Threshold(0.7, "of confidence", source="judgement: the level itself moves")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, spread = m.number("curve_flat_share"), m.get("curve_spread_share", 0.0)
        steady = spread < self.steady
        level = f"stays at about {m.number('curve_level_share'):.0%}" if steady else "stays low"
        low, all_ = round(m.get("curve_flat_gpus", 1.0)), round(m.get("curve_gpus", 1.0))
        of = f" of {low} of {all_} GPUs" if low < all_ else ""
        yield from self.finding(
            f"Utilization{of} {level} without longer pauses, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, 1.0 if steady else self.vague),
            seen=f"median {m.number('curve_level_share'):.0%}, standard deviation {spread * 100:.0f} points"
            + self._steps(m),
            locations=m.one("curve_flat_share").locations,
            fixes=(settle.by_trace("what a step waits for"),),
            candidates=(
                "host.launch_bound", "input.workers_zero", "input.workers_too_few", "compute.underfilled",
                "host.python_overhead", "input.cpu_transform", "sync.scalar_read", "transfer.pageable_h2d",
            ),
        )  # fmt: skip

    def _steps(self, m: Measurements) -> str:
        if not {"curve_step_time_s", "curve_interval_s"} <= {n for n in self.uses if n in m}:
            return ""
        return (
            f"; a step takes {span(m.number('curve_step_time_s'))}, a sample comes every "
            f"{span(m.number('curve_interval_s'))}"
        )

    cases = (
        Fires("steady at 40%", curve_flat_share=0.6, curve_level_share=0.4, curve_spread_share=0.03, curve_samples=600),
        Silent("steady at 97%", curve_flat_share=0.0, curve_level_share=0.97, curve_samples=600),
    )
