from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class DataWait(Rule):
    """The trainer's own log says that its steps wait for data.

    ## Why it costs time
    As long as the training loop waits for a batch it launches nothing, and the GPU runs dry.

    ## How we know
    The trainer prints how long it waited for data and how long the step took. Its timers are those of the host: what
    the GPU still had in its queue meanwhile is not known, so that this is the most that can be lost; where a curve
    shows how long the GPU idles, no more than that.

    ## When to ignore it
    Only some steps wait: the first of each epoch (`input.worker_startup`), or one in as many as there are workers. A
    log of every tenth step then shows more or less of it than there is.
    """

    needs = (("curve_data_wait_share",),)
    uses = ("curve_idle_share", "curve_step_time_s", "curve_steps", "curve_io_wait_share", *settle.READ)

    logged = Threshold(0.6, "probability", source="judgement: the trainer's timer names the wait, not what makes it")
    slow_disk = Threshold(0.1, "of CPUs", source="judgement: CPUs that wait for I/O point to storage")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        wait = m.number("curve_data_wait_share")
        lost = min(wait, m.get("curve_idle_share", 1.0))
        step = f" of {span(m.number('curve_step_time_s'))}" if "curve_step_time_s" in m else ""
        usual = (
            "input.workers_zero", "input.workers_too_few", "input.cpu_transform", "input.storage", "input.no_overlap",
            "input.batch_granularity", "input.worker_startup", "host.cpu_quota",
        )  # fmt: skip
        first = ("input.storage",) if m.get("curve_io_wait_share", 0.0) >= self.slow_disk else ()
        yield from self.finding(
            f"Steps wait for data {wait:.0%} of their time, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.logged,
            seen=f"the trainer's log: {wait:.0%} of a step{step} is data wait, mean of "
            f"{m.get('curve_steps', 0.0):,.0f} steps",
            locations=m.one("curve_data_wait_share").locations,
            fixes=(settle.by_trace("what the loader's workers do"),),
            candidates=tuple(dict.fromkeys((*first, *usual))),
        )

    cases = (
        Fires("a third of each step", curve_data_wait_share=0.33, curve_step_time_s=0.6, curve_steps=1000),
        Silent("batches are there", curve_data_wait_share=0.001, curve_step_time_s=0.6, curve_steps=1000),
        Silent("the GPU has work meanwhile", curve_data_wait_share=0.3, curve_idle_share=0.01, curve_steps=1000),
    )
