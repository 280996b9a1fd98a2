from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class Startup(Rule):
    """The curve begins with a long time in which the GPU does nothing.

    ## Why it costs time
    The GPU is paid for while the job installs packages, downloads its data, indexes a data set, compiles or waits for
    other machines. After a restart all of that comes again.

    ## How we know
    The first samples are below 5% utilization, for longer than 60 seconds and 2% of the recording (of recordings of
    less than five minutes: a fifth of it). What comes back later as long is no start-up: `curve.sawtooth`. What the job
    did meanwhile a curve does not show.

    ## When to ignore it
    The recording was started before the job, or the job runs for days.
    """

    needs = (("curve_startup_share", "curve_startup_s"),)
    uses = settle.READ
    explains = ()

    clear = Threshold(1.0, "of confidence", source="zeros at the start are seen, not guessed; the cause is not")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, long = m.number("curve_startup_share"), span(m.number("curve_startup_s"))
        yield from self.finding(
            f"The GPU does nothing for the first {long}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, self.clear),
            seen=f"{long} below 5% utilization before the GPU first works",
            locations=m.one("curve_startup_share").locations,
            fixes=(settle.by_trace("what the job does before its first step"),),
            candidates=("pause.startup", "compile.recompile", "input.worker_startup", "input.storage"),
        )

    cases = (
        Fires("four minutes of ten", curve_startup_share=0.4, curve_startup_s=240.0, curve_samples=600),
        Silent("it works at once", curve_startup_share=0.0, curve_startup_s=0.0, curve_samples=600),
        Silent("a minute of two hours", curve_startup_share=0.008, curve_startup_s=60.0, curve_samples=7200),
    )
