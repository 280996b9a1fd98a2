from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle

_EVENTS = {"checkpoint": "pause.checkpoint_sync", "evaluation": "pause.evaluation"}
_A = {"checkpoint": "a checkpoint", "evaluation": "an evaluation", "step": "a step"}
_DATA = (
    "input.workers_too_few", "input.workers_zero", "input.cpu_transform", "input.no_overlap", "input.storage",
    "rl.env_bound", "pause.evaluation", "sync.scalar_read", "input.worker_startup",
)  # fmt: skip
_PAUSES = (
    "pause.checkpoint_sync", "pause.evaluation", "input.worker_startup", "input.no_overlap", "rl.env_bound",
    "input.storage", "host.gc_pause",
)  # fmt: skip


class Sawtooth(Rule):
    """Utilization falls to zero and comes back, again and again at one interval.

    ## Why it costs time
    The GPU waits in each dip: for the next batch where dips come with every step or every few, for a checkpoint, an
    evaluation or new workers where they come every few minutes.

    ## How we know
    Utilization goes below 10% and back over and over at intervals that hardly differ. The interval says which
    candidates come first: below a minute data that is late, above it pauses that somebody put there. Where the
    trainer's log tells when it saves or evaluates, an interval that agrees to 5% names the event.

    With fewer than ten samples to an interval, it may be an alias of much shorter steps: the idle share holds, the
    interval does not, and is told as possible only. `curve_step_time_s` of a log settles that.

    ## When to ignore it
    Dips are short, and the mean utilization is above 95% all the same.
    """

    needs = (("curve_dip_share", "curve_dip_interval_s"),)
    uses = (
        "curve_dip_s", "curve_dips", "curve_dip_event", "curve_period_s", "curve_alias_period_s", "curve_period_score",
        "curve_together_share", "curve_gpus", "curve_io_wait_share", *settle.READ,
    )  # fmt: skip

    pauses = Threshold(60, "s", source="judgement: steps of a minute are rare, and nobody saves more often")
    certain = Threshold(0.7, "correlation", source="method: below it periods of noise are found, too")
    together = Threshold(0.8, "of dips", source="method 3.2: dips of all GPUs")
    aliased = Threshold(0.6, "of confidence", source="judgement: the interval may be that of no event")
    slow_disk = Threshold(0.1, "of CPUs", source="judgement: CPUs that wait for I/O point to storage")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, event = m.number("curve_dip_share"), self._event(m)
        alias = "curve_alias_period_s" in m and "curve_period_s" not in m
        margin = m.get("curve_period_score", self.certain) / self.certain
        every = m.number("curve_dip_interval_s")
        often = f"about every {span(every)}"
        if alias:
            often = f"every {span(every)}, or more often than these samples can show"
        when = f", as often as the trainer's log has {_A[event]}" if event in _A else ""
        yield from self.finding(
            f"Utilization falls to zero {often}{when}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, min(margin, 1.0) * (self.aliased if alias else 1.0), logged=bool(event)),
            seen=self._seen(m, alias),
            locations=m.one("curve_dip_share").locations,
            fixes=(settle.by_trace("what the host does in a dip"),),
            candidates=self._candidates(m, event),
        )

    def _seen(self, m: Measurements, alias: bool) -> str:
        said = f"{m.get('curve_dips', 0.0):,.0f} dips below 10%, of {span(m.get('curve_dip_s', 0.0))} each"
        if "curve_period_score" in m:
            said += f", autocorrelation {m.number('curve_period_score'):.2f}"
        if m.get("curve_gpus", 1.0) > 1 and m.get("curve_together_share", 0.0) >= self.together:
            said += f", all {m.number('curve_gpus'):.0f} GPUs together"
        return said + ("; possibly aliased: sample five times as often to see" if alias else "")

    def _event(self, m: Measurements) -> str:
        return str(m.one("curve_dip_event").value) if "curve_dip_event" in m else ""

    def _candidates(self, m: Measurements, event: str) -> tuple[str, ...]:
        """Return the rules that look like this, the likeliest first."""
        usual = _DATA if m.number("curve_dip_interval_s") < self.pauses or event == "step" else _PAUSES
        first = [_EVENTS[event]] if event in _EVENTS else []
        if m.get("curve_io_wait_share", 0.0) >= self.slow_disk:
            first.append("input.storage")
        return tuple(dict.fromkeys((*first, *usual)))

    cases = (
        Fires(
            "every 30 s to zero",
            curve_dip_share=0.4,
            curve_dip_interval_s=30.0,
            curve_dip_s=12.0,
            curve_dips=20,
            curve_period_s=30.0,
            curve_period_score=0.9,
            curve_samples=600,
        ),
        Fires(
            "every ten minutes, when the trainer saves",
            curve_dip_share=0.1,
            curve_dip_interval_s=600.0,
            curve_dip_s=60.0,
            curve_dips=6,
            curve_dip_event="checkpoint",
            curve_samples=3600,
        ),
        Fires(
            "five samples to a dip",
            curve_dip_share=0.6,
            curve_dip_interval_s=5.0,
            curve_dip_s=3.0,
            curve_dips=12,
            curve_alias_period_s=5.0,
            curve_period_score=0.95,
            curve_samples=60,
        ),
        Silent("no dips", curve_dip_share=0.0, curve_dip_interval_s=0.0, curve_samples=600),
        Silent("a second of each minute", curve_dip_share=0.016, curve_dip_interval_s=60.0, curve_samples=600),
    )
