from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class DebuggerOverhead(Rule):
    """A debugger, tracer or coverage tool looks at every line or call of the training's Python.

    ## Why it costs time
    `sys.settrace` and `sys.setprofile` call a function for each line or call that Python runs. One that does
    nothing at all makes loops 3 to 4 times as slow and calls 4 to 7 times. The training thread launches kernels later,
    and the GPU waits.

    ## How we know
    A trace function was set in the training process while it trained. What it costs is not measurable without taking it
    away: half of the time that the thread spends around the model's own operators is assumed (preparing batches,
    forward, optimizer, the rest of the loop), and no more than the GPU's idle time that no named wait explains.

    ## When to ignore it
    You are debugging: then a slow step is the price of it. Measure without the tool.
    """

    needs = (("tracing", "host_forward_share", "host_optimizer_share", "host_prepare_share", "host_other_share"),)
    uses = waits.READ_LEFT
    explains = ("python", "dispatch", "autograd_host", "optimizer_host", "launch_latency")

    part = Threshold(
        0.5,
        "of host time",
        source="judgement: Python is 3 to 7 times as slow (measured, Python 3.11), operators are not",
    )
    confidence = Threshold(
        0.7, "probability", source="judgement, not calibrated yet: it is on, what it costs is assumed"
    )
    unbounded_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: nobody knows whether the GPU waited"
    )
    applies = Threshold(0.9, "probability", source="judgement: nobody needs it in production")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if any(name not in m for name in cls.needs[0]) or not str(m.one("tracing").value):
            return 0.0
        host = sum(m.number(name) for name in cls.needs[0][1:])
        return min(cls.part * host, waits.left(m))

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        tool = str(m.one("tracing").value)
        yield from self.finding(
            f"{tool} looks at every line or call of the training, which costs about {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if waits.known(m) else self.unbounded_confidence,
            seen=(
                f"a trace function ({tool}) is set in the training process; of the host's time around operators "
                f"{self.part:.0%} is assumed to be its"
            ),
            locations=m.one("tracing").locations,
            fixes=(
                Fix(
                    "run without it",
                    "python train.py   # not under a debugger, coverage or a Python profiler\n"
                    "# to see where Python spends its time: py-spy record --pid PID looks from outside",
                    effort="setting",
                    applies=self.applies,
                    risk="breakpoints and coverage are gone",
                    edits=(
                        Edit(
                            "scale_host",
                            {"cause": "python,dispatch,optimizer_host"},
                            {"factor": self.part, "prior": 1.0},
                        ),
                    ),
                ),
            ),
        )

    cases = (
        Fires(
            "an editor's debugger is attached",
            tracing="pydevd",
            host_forward_share=0.4,
            host_optimizer_share=0.1,
            host_prepare_share=0.1,
            host_other_share=0.2,
            on_gpu=True,
            utilization_mean_share=0.3,
        ),
        Silent(
            "none is",
            tracing="",
            host_forward_share=0.4,
            host_optimizer_share=0.1,
            host_prepare_share=0.1,
            host_other_share=0.2,
        ),
        Silent(
            "coverage is on, and the GPU is busy all along",
            tracing="coverage",
            host_forward_share=0.4,
            host_optimizer_share=0.1,
            host_prepare_share=0.1,
            host_other_share=0.2,
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
        Silent(
            "the time is lost waiting for data",
            tracing="coverage",
            host_forward_share=0.01,
            host_optimizer_share=0.01,
            host_prepare_share=0.0,
            host_other_share=0.01,
            lost_data_workers_share=0.9,
        ),
    )
