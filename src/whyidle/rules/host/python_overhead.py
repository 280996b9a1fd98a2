from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import LOW, Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live, waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.graph_break import GraphBreak
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

    `whyidle run` sees the training loop from outside: batches, forward and backward passes, optimizer steps,
    checkpoints, evaluations. What lies between two of these and is none of them is the loop's own code. The place at
    which most of it passes is named, with the line at one end of it where that is known. Without a GPU that time is
    what it costs; on a GPU no more than the time in which NVML sees no kernel and no wait is known.

    `whyidle watch --pid` tells it of a running job by a main thread that computes while NVML sees the GPU rest.

    ## When to ignore it
    A debugger, a coverage tool or a stack-recording profiler is on: `with_stack=True` slows Python
    itself. The first calls of a job set libraries up and are slow once. Data that is loaded outside a
    DataLoader without a range of its own also looks like this. Between the passes may lie work that was asked for:
    a loss over a large vocabulary, transforms of a batch as tensors.
    """

    needs = (("idle_python_share", "host_stall_share"), ("host_gap_share", "host_gap"), live.NEEDS)
    uses = (
        "watched_s", "watched_steps", *waits.READ_LEFT, *DebuggerOverhead.needs[0],
        *GraphBreak.needs[0], *GraphBreak.uses,
        "backward_stall_share", "optimizer_launches_per_step", "idle_zero_grad_share", "zero_grad_fills_per_step",
        *EnvBound.needs[0], *GilContention.needs[0], *GilContention.uses, *READ, *live.READ,
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
    least_gap = Threshold(0.1, "of watched", source="judgement: a loss function, zero_grad and logs take some percent")
    gap_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: the time is measured, what runs in it is not seen"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, lambda _: tuple(self._fixes("")))
            return
        yield from self._recorded(m) if "idle_python_share" in m and "host_stall_share" in m else self._watched(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        gap, where = m.number("host_gap_share"), str(m.one("host_gap").value)
        if gap < self.least_gap or not waits.known(m):
            return
        claimed = (DebuggerOverhead.claimed(m), GilContention.claimed(m), GraphBreak.claimed(m))
        lost = min(gap, waits.left(m, *claimed))
        steps = m.get("watched_steps", 0.0)
        each = f", {gap * m.get('watched_s', 0.0) / steps * 1e3:.3g} ms per step" if steps else ""
        bound = "" if not waits.on_gpu(m) else "; NVML saw no kernel and no wait is known for at least as much of it"
        yield from self.finding(
            f"The loop's own code {where} holds up the training, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.gap_confidence,
            seen=f"{where} nothing runs that whyidle knows: {gap:.0%} of the watched time{each}" + bound,
            locations=m.one("host_gap_share").locations,
            fixes=tuple(self._fixes(where)),
            candidates=("input.no_overlap", "sync.logging_metrics"),
        )

    def _fixes(self, where: str) -> Iterator[Fix]:
        edits = (Edit("scale_host", {"cause": "python"}, {"factor": self.residual, "prior": 1.0}),)
        if where.startswith("between Optimizer.step"):
            yield Fix(
                "move logs and uploads behind the step to a thread, or do them every N steps",
                "if step % 100 == 0:\n    pool.submit(upload, numbers)  # pool = ThreadPoolExecutor(1)",
                effort="code",
                applies=self.applies,
                risk="logs become rarer; what a thread reads must not change meanwhile",
                edits=edits,
            )
        yield Fix(
            "find the line and take it out of the step",
            "py-spy dump --pid PID   # some times: at which line is the main thread?\n"
            'with torch.profiler.record_function("mine"): ...   # around what you suspect: a trace shows it',
            effort="code",
            applies=self.applies,
            risk="none by looking",
            edits=edits,
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
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
                    edits=tuple(
                        Edit("scale_host", which, {"factor": self.residual, "prior": 1.0})
                        for which in ({"cause": "python"}, {"cause": "dispatch,autograd_host", "gap": "long"})
                    ),
                ),
            ),
            candidates=("input.no_overlap", "sync.logging_metrics", "host.gil_contention", "host.debugger_overhead"),
        )

    cases = (
        Fires(
            "watched: an upload after each step",
            host_gap_share=0.92,
            host_gap="between Optimizer.step and the next batch",
            watched_s=10.0,
            watched_steps=200,
            on_gpu=False,
        ),
        Fires(
            "watched: the GPU rests as long as the loop computes before the forward pass",
            host_gap_share=0.4,
            host_gap="between a batch and the forward pass",
            on_gpu=True,
            utilization_mean_share=0.55,
        ),
        Silent(
            "watched: the loop computes while the GPU works",
            host_gap_share=0.4,
            host_gap="between a batch and the forward pass",
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
        Silent(
            "watched: whether the GPU waits for the loop is not known",
            host_gap_share=0.4,
            host_gap="between a batch and the forward pass",
            on_gpu=True,
        ),
        Silent(
            "watched: zero_grad and a loss function",
            host_gap_share=0.06,
            host_gap="between Optimizer.step and the next batch",
            on_gpu=False,
        ),
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
