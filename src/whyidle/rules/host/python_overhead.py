from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.shares import READ, unclaimed


class PythonOverhead(Rule):
    """The GPU waits while the training thread runs Python outside of any PyTorch operator.

    ## Why it costs time
    Nothing is launched while the interpreter computes metrics, formats logs, walks over lists or waits
    for another thread that holds the interpreter lock.

    ## How we know
    The GPU is idle, its next kernel has not been launched, and the launching thread is in no operator,
    no CUDA call and no range that says what it does. The recording shows that it is Python, not which:
    record with `with_stack=True`, or look into the running job with `py-spy dump --pid PID`.

    ## When to ignore it
    A debugger, a coverage tool or a stack-recording profiler is on: `with_stack=True` slows Python
    itself. Data that is loaded outside a DataLoader without a range of its own also looks like this.
    """

    needs = (("idle_python_share",),)
    uses = ("launches_per_step", *READ)

    confidence = Threshold(
        0.6, "probability", source="what is left over: several causes look the same; not calibrated yet"
    )
    applies = Threshold(0.5, "probability", source="judgement: part of it is the loop itself")
    residual = Threshold(0.2, "of host time", source="docs/method.md: host gaps x0.2 is what replay was tested with")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = unclaimed(m, "idle_python_share")
        launches = f", {m.number('launches_per_step'):.0f} launches per step" if "launches_per_step" in m else ""
        yield from self.finding(
            f"The training thread runs Python between operators, which costs {lost:.0%} of the step.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{lost:.0%} of the time the GPU is idle and the launching thread in no operator{launches}; "
                "with_stack=True names the lines"
            ),
            locations=m.one("idle_python_share").locations,
            fixes=(
                Fix(
                    "find the lines and take them out of the step",
                    "py-spy record --duration 30 --output loop.svg --pid PID   # pip install py-spy\n"
                    "# then: every 100 steps only, or in a worker process, or vectorised in one operator",
                    effort="code",
                    applies=self.applies,
                    risk="logs and metrics become rarer",
                    edits=(Edit("scale_host", {"cause": "python"}, {"factor": self.residual}),),
                ),
            ),
            candidates=("input.no_overlap", "sync.logging_metrics", "host.gil_contention", "host.debugger_overhead"),
        )

    cases = (
        Fires("a metric in pure Python per step", idle_python_share=0.11, launches_per_step=1219),
        Silent("within noise", idle_python_share=0.012),
        Silent("gaps after blocking reads: sync.scalar_read", idle_python_share=0.05, sync_scalar_lost_share=0.05),
    )
