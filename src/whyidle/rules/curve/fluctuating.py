from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class Fluctuating(Rule):
    """Utilization goes up and down between nothing and full without a rhythm.

    ## Why it costs time
    The GPU can work at full load, and often has nothing to do: batches that take unequal time to load or compute,
    remote storage that is fast and slow, garbage collection, validation now and then.

    ## How we know
    The samples spread by 30 points and more from the lowest 5% to the highest 5%, which are above 70% (SageMaker's
    profiler asks for below 10% and above 70%), or fewer of them are so low that 5% of the time is idle all the same;
    and they do not fall to zero at one interval. A period at which they fall less far is told. Steps that are a little
    shorter or longer than the time between samples look the same if the GPU counts over less than that, so that
    "without a rhythm" is only said of what the samples can show.

    ## When to ignore it
    The job serves requests that come at random, and has to be there for them.
    """

    needs = (("curve_fluctuating_share",),)
    uses = (
        "curve_p05_share", "curve_p95_share", "curve_zero_share", "curve_io_wait_share", "curve_period_s",
        "curve_dip_interval_s", *settle.READ,
    )  # fmt: skip

    clear = Threshold(0.9, "of confidence", source="judgement: many things are irregular")
    slow_disk = Threshold(0.1, "of CPUs", source="judgement: CPUs that wait for I/O point to storage")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = m.number("curve_fluctuating_share")
        usual = (
            "input.cpu_transform", "input.workers_too_few", "input.storage", "dist.length_imbalance", "host.gc_pause",
            "pause.evaluation", "rl.env_bound", "sync.scalar_read", "input.worker_startup",
        )  # fmt: skip
        first = ("input.storage",) if m.get("curve_io_wait_share", 0.0) >= self.slow_disk else ()
        every = self._every(m)
        yield from self.finding(
            f"Utilization goes up and down {every or 'without a rhythm'}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, self.clear),
            seen=f"5% of the samples below {m.get('curve_p05_share', 0.0):.0%}, 5% above "
            f"{m.get('curve_p95_share', 1.0):.0%}, {m.get('curve_zero_share', 0.0):.0%} at zero; "
            + ("not to zero each time" if every else "no period"),
            locations=m.one("curve_fluctuating_share").locations,
            fixes=(settle.by_trace("what slow steps wait for"),),
            candidates=tuple(dict.fromkeys((*first, *usual))),
        )

    def _every(self, m: Measurements) -> str:
        """Return at which interval it does, where there is one and no regular dips to zero have it."""
        known = "curve_period_s" in m and not m.get("curve_dip_interval_s", 0.0)
        return f"about every {span(m.number('curve_period_s'))}" if known else ""

    cases = (
        Fires(
            "idle a third of the time, now and then",
            curve_fluctuating_share=0.33,
            curve_p05_share=0.0,
            curve_p95_share=1.0,
            curve_zero_share=0.2,
            curve_samples=600,
        ),
        Fires(
            "half the work every 70 s",
            curve_fluctuating_share=0.16,
            curve_p05_share=0.53,
            curve_p95_share=0.97,
            curve_period_s=70.0,
            curve_dip_interval_s=0.0,
            curve_samples=600,
        ),
        Silent("steady", curve_fluctuating_share=0.0, curve_samples=600),
    )
