from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import LOW, Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compute.zero_grad_fill import ZeroGradFill
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.host.gil_contention import GilContention
from whyidle.rules.host.optimizer_loop import OptimizerLoop
from whyidle.rules.host.shares import READ, unclaimed
from whyidle.rules.rl.env_bound import EnvBound


class PythonOverhead(Rule):
    """The GPU waits while the training thread does something other than launching work.

    ## Why it costs time
    Nothing is launched while the interpreter computes metrics, formats logs, walks over lists or waits
    for another thread that holds the interpreter lock; or while one operator computes on the CPU.

    ## How we know
    The GPU is idle, its next kernel has not been launched, and the launching thread is in no operator,
    no CUDA call and no range that says what it does; or it stays in operators, or between two nodes of
    the backward pass, for a gap of more than 1 ms, far longer than launching takes. Between nodes no Python
    of the program runs: there the thread did not get the interpreter lock or a core. Elsewhere the recording
    shows that it is Python, not which: record with `with_stack=True`, or look into the running job with
    `py-spy dump --pid PID`.

    ## When to ignore it
    A debugger, a coverage tool or a stack-recording profiler is on: `with_stack=True` slows Python
    itself. The first calls of a job set libraries up and are slow once. Data that is loaded outside a
    DataLoader without a range of its own also looks like this.
    """

    needs = (("idle_python_share", "host_stall_share"),)
    uses = (
        "backward_stall_share", "optimizer_launches_per_step", "idle_zero_grad_share", "zero_grad_fills_per_step",
        *EnvBound.needs[0], *GilContention.needs[0], *GilContention.uses, *READ,
    )  # fmt: skip
    explains = ("python", "dispatch", "autograd_host", "optimizer_host")

    confidence = Threshold(
        0.6, "probability", source="what is left over: several causes look alike; not calibrated yet"
    )
    stall_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: one slow operator may be a first call"
    )
    applies = Threshold(0.5, "probability", source="judgement: part of it is the loop itself")
    residual = Threshold(0.2, "of host time", source="judgement: a fifth of the work stays in the step")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        parts = {
            "idle_python_share": "between operators",
            "backward_stall_share": "between two nodes of the backward pass for 1 ms and more",
            "host_stall_share": "inside one operator for 1 ms and more",
        }
        lost = {name: unclaimed(m, name) for name in parts if name in m}
        lost["host_stall_share"] = max(lost["host_stall_share"] - lost.get("backward_stall_share", 0.0), 0.0)
        if "idle_optimizer_host_share" in m and not OptimizerLoop.speaks(m):
            parts["idle_optimizer_host_share"] = "in the optimizer, with few launches"
            lost["idle_optimizer_host_share"] = OptimizerLoop.host_idle(m)
        if "idle_zero_grad_share" in m and not ZeroGradFill.speaks(m):
            parts["idle_zero_grad_share"] = "in zero_grad, with few launches"
            lost["idle_zero_grad_share"] = unclaimed(m, "idle_zero_grad_share")
        most = max(lost, key=lambda name: lost[name])
        # what a watched run names is another rule's
        named = DebuggerOverhead.claimed(m) + GilContention.claimed(m) + EnvBound.claimed(m)
        total = max(sum(lost.values()) - named, 0.0)
        seen = ", ".join(f"{share:.0%} {parts[name]}" for name, share in lost.items() if share >= LOW / 2)
        places = m.one(most).locations
        named = any(".py(" in (place.name or "") for place in places)
        yield from self.finding(
            f"The CPU does something else than launching kernels while the GPU waits: {total:.0%} of the time.",
            lost_share=total,
            confidence=self.stall_confidence if most == "host_stall_share" else self.confidence,
            seen=f"GPU idle and nothing launched: {seen}" + ("" if named else "; with_stack=True would name the lines"),
            locations=places,
            fixes=(
                Fix(
                    "find the lines and take them out of the step",
                    "py-spy record --duration 30 --output loop.svg --pid PID   # pip install py-spy: shows the lines\n"
                    "# metrics, logs: every 100th step; data: in DataLoader workers; loops over elements: one operator",
                    effort="code",
                    applies=self.applies,
                    risk="logs and metrics become rarer",
                    edits=(Edit("scale_host", {"cause": "python,dispatch,autograd_host"}, {"factor": self.residual}),),
                ),
            ),
            candidates=("input.no_overlap", "sync.logging_metrics", "host.gil_contention", "host.debugger_overhead"),
        )

    cases = (
        Fires("a metric in pure Python per step", idle_python_share=0.11, host_stall_share=0.01),
        Fires("one operator holds the CPU for 0.3 s", idle_python_share=0.0, host_stall_share=0.86),
        Fires(
            "the backward pass stops for 8 ms between two nodes: another thread holds the interpreter lock",
            idle_python_share=0.01,
            host_stall_share=0.15,
            backward_stall_share=0.14,
        ),
        Fires(
            "the optimizer is fused, and its Python is what takes the time",
            idle_python_share=0.01,
            host_stall_share=0.0,
            idle_optimizer_host_share=0.12,
            optimizer_launches_per_step=4,
        ),
        Silent(
            "the environment's step: rl.env_bound",
            idle_python_share=0.6,
            host_stall_share=0.0,
            host_environment_share=0.6,
        ),
        Silent("within noise", idle_python_share=0.012, host_stall_share=0.0),
        Silent("short gaps: host.launch_bound", idle_python_share=0.01, host_stall_share=0.005),
        Silent(
            "gaps after blocking reads: sync.scalar_read",
            idle_python_share=0.05,
            host_stall_share=0.0,
            sync_host_share=0.05,
        ),
    )
