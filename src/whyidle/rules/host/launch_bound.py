from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.graph_break import GraphBreak
from whyidle.rules.host.optimizer_loop import OptimizerLoop
from whyidle.rules.host.shares import READ, unclaimed

SHOWN = 0.005  # of window: less is 0% on the screen


class LaunchBound(Rule):
    """The CPU cannot launch work as fast as the GPU finishes it.

    ## Why it costs time
    In eager mode every operator costs the CPU some 5–20 µs in Python, the dispatcher and the launch.
    If a kernel takes the GPU less than that, the GPU waits for the next launch, again and again. A
    faster GPU changes nothing; a larger batch costs next to no extra time.

    ## How we know
    The GPU is idle in many gaps of less than 1 ms, and when the next kernel at last starts, it had not
    been launched yet: the launching thread was still inside an operator or in autograd, or the launch
    was on its way. Longer gaps are not launches (`host.python_overhead`). Idle time in `Optimizer.step`,
    before and between the kernels of an optimizer that launches many, or after a blocking read is counted by the
    rules about those. Many short kernels confirm it; a few
    launches per step do not.

    ## When to ignore it
    The profiler itself makes launches slower: with thousands per step a run without it may be bound far
    less. Compare the step time with the profiler off before you rework anything. CUDA graphs need fixed
    shapes and no synchronization inside the captured part.
    """

    needs = (("launch_bound_share",),)
    uses = (
        "launches_per_step", "kernel_median_s", "kernel_short_share", "gpu_idle_share", "compiled",
        "idle_kernel_gap_share", "optimizer_launches_per_step", "optimizer_latency_share", "optimizer_kernel_gap_share",
        *GraphBreak.needs[0], *GraphBreak.uses, *READ,
    )  # fmt: skip
    explains = ("dispatch", "autograd_host", "launch_latency", "kernel_gap", "unknown")

    confidence = Threshold(0.75, "probability", source="judgement, not calibrated yet")
    short_confidence = Threshold(
        0.9, "probability", source="judgement, not calibrated yet: kernels are shorter than their launch"
    )
    few_confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: too few launches to explain the gaps"
    )
    mostly_short = Threshold(0.5, "of kernels", source="the median kernel takes less than a launch (5–11 µs measured)")
    few = Threshold(
        50, "launches per step", source="50 x 20 µs = 1 ms; smaller than any step that we have seen this in"
    )
    inflated_launches = Threshold(
        500, "launches per step", source="judgement: 500 x ~2 µs of recording is 1 ms, which shows in a short step"
    )
    inflated_idle = Threshold(
        0.2, "of window", source="judgement: below it the GPU hides what recording costs the host"
    )
    applies = Threshold(0.5, "probability", source="judgement: graph breaks, changing shapes and CPU reads prevent it")
    batch_applies = Threshold(0.4, "probability", source="judgement: memory and the learning recipe limit it")
    host_left = Threshold(0.1, "of host time", source="10 µs per graph and 2.5 µs per 100 nodes, assumed; rounded up")
    twice = Threshold(2, "times the batch", source="arithmetic: what the fix says")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        late = max(unclaimed(m, "launch_bound_share") - OptimizerLoop.latency(m) - GraphBreak.claimed(m), 0.0)
        short = m.get("kernel_short_share", 0.0) >= self.mostly_short
        # between long kernels the pauses are the GPU's own and small; of short ones they are a good part
        many = m.get("launches_per_step", self.few) >= self.few  # a graph needs no other graph
        pauses = max(m.get("idle_kernel_gap_share", 0.0) - OptimizerLoop.pauses(m), 0.0) if short and many else 0.0
        lost = late + pauses
        what = (
            "The CPU launches work more slowly than the GPU finishes it"
            if late >= pauses
            else ("Kernels are so short that the pauses between them count")
        )
        yield from self.finding(
            f"{what}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self._confidence(m),
            seen=self._seen(m, late, pauses),
            locations=m.one("launch_bound_share").locations,
            fixes=self._fixes(compiled="compiled" in m and bool(m.one("compiled").value)),
        )

    def _confidence(self, m: Measurements) -> float:
        if m.get("launches_per_step", self.few) < self.few:
            return self.few_confidence
        if m.get("kernel_short_share", 0.0) >= self.mostly_short:
            return self.short_confidence
        return self.confidence

    def _seen(self, m: Measurements, late: float, pauses: float) -> str:
        parts = [f"{late:.0%} of the time the GPU is idle and its next kernel not launched yet"]
        if pauses >= SHOWN:
            parts.append(f"{pauses:.0%} between kernels that were")
        if "launches_per_step" in m:
            parts.append(f"{m.number('launches_per_step'):.0f} launches per step")
        if "kernel_median_s" in m:
            parts.append(f"median kernel {m.number('kernel_median_s') * 1e6:.1f} µs")
        seen = ", ".join(parts)
        many = m.get("launches_per_step", 0.0) > self.inflated_launches
        if many and m.get("gpu_idle_share", 0.0) > self.inflated_idle:
            seen += "; the profiler slows such a step down: compare the step time without it"
        return seen

    def _fixes(self, *, compiled: bool) -> tuple[Fix, ...]:
        return (
            Fix(
                "replay the launches as CUDA graphs",
                'model = torch.compile(model, mode="reduce-overhead")'
                + ("  # compiled already: the mode is new" if compiled else ""),
                effort="setting",
                applies=self.applies,
                risk="first steps compile for minutes; inputs need fixed shapes; graphs hold memory of their own",
                edits=(
                    Edit("merge_launches", {"range": "step"}),
                    Edit("scale_host", {"cause": "dispatch,autograd_host"}, {"factor": self.host_left, "prior": 1.0}),
                ),
            ),
            Fix(
                "give each launch more work: a larger batch",
                "DataLoader(..., batch_size=2 * batch_size)",
                effort="setting",
                applies=self.batch_applies,
                risk="changes the learning recipe (learning rate, number of updates) and needs memory",
                edits=(Edit("larger_batch", {}, {"factor": self.twice}),),
            ),
        )

    cases = (
        Fires(
            "a small model: four of five milliseconds are launches",
            launch_bound_share=0.72,
            launches_per_step=1258,
            kernel_median_s=3e-6,
            kernel_short_share=0.85,
            gpu_idle_share=0.76,
        ),
        Fires("what removing the data wait uncovers", launch_bound_share=0.25),
        Fires(
            "kernels of 3 µs, launched in time, with pauses of 1.5 µs between them",
            launch_bound_share=0.0,
            idle_kernel_gap_share=0.33,
            kernel_short_share=1.0,
        ),
        Silent("GPU-bound: launches are queued ahead", launch_bound_share=0.01, launches_per_step=1500),
        Silent(
            "the launches are those of Optimizer.step: host.optimizer_loop",
            launch_bound_share=0.06,
            idle_kernel_gap_share=0.05,
            kernel_short_share=0.8,
            optimizer_launches_per_step=700,
            optimizer_latency_share=0.055,
            optimizer_kernel_gap_share=0.04,
        ),
        Silent(
            "the gaps follow blocking reads: sync.scalar_read",
            launch_bound_share=0.12,
            idle_dispatch_share=0.12,
            sync_host_share=0.11,
        ),
    )
