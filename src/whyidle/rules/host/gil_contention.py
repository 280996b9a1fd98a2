from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.input import taken


class GilContention(Rule):
    """Another thread of the training process makes batches, and the training thread waits for the interpreter lock.

    ## Why it costs time
    Of all threads of a Python process one runs Python at a time. A prefetch thread that decodes, collates or pins in
    Python takes the lock for up to 5 ms at a time, while the training thread wants to launch kernels.

    ## How we know
    The steps' own work takes longer while another thread of the process makes a batch than while none does, by this
    factor; and the training thread does not wait for a CPU, which would look the same. What is lost is bounded by
    that part of the time that the steps' own work takes, as if a batch were made all along, and by the GPU's idle time
    that no named wait explains.

    ## When to ignore it
    A Python without the lock, or threads whose work is in C code that lets go of it: then the factor is 1.
    """

    needs = (("loading_thread_slowdown", "host_forward_share", "host_backward_share"),)
    uses = (
        "host_optimizer_share", "host_prepare_share", "host_other_share",
        *DebuggerOverhead.needs[0], *waits.READ_LEFT, *taken.READ,
    )  # fmt: skip
    explains = ("python", "dispatch", "autograd_host", "optimizer_host", "launch_latency")

    slower = Threshold(1.1, "times", source="judgement: steps differ by some percent anyway; a public case had 1.15")
    starved = Threshold(0.05, "of watched", source="judgement: then the thread waits for a CPU, not for a lock")
    confidence = Threshold(
        0.55, "probability", source="judgement, not calibrated yet: threads share memory and caches, too"
    )
    unbounded_confidence = Threshold(
        0.35, "probability", source="judgement, not calibrated yet: nobody knows whether the GPU waited"
    )
    applies = Threshold(
        0.7, "probability", source="judgement: what a thread does, a process can; twice as fast in a case"
    )
    residual = Threshold(0.2, "of the wait", source="judgement: batches still have to be received")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if any(name not in m for name in cls.needs[0]) or DebuggerOverhead.claimed(m) > 0:
            return 0.0
        slowdown = m.number("loading_thread_slowdown")
        if slowdown < cls.slower or m.get("main_run_delay_share", 0.0) >= cls.starved:
            return 0.0
        parts = ("forward", "backward", "optimizer", "prepare", "other")
        own = sum(m.get(f"host_{part}_share", 0.0) for part in parts)
        return min((1 - 1 / slowdown) * own, waits.left(m))

    def _left(self, m: Measurements) -> float:
        """Return what is left of the thread's own time once it waits for the lock only as often as it has to."""
        return 1 - (1 - self.residual) * (1 - 1 / max(m.number("loading_thread_slowdown"), 1.0))

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        yield from self.finding(
            f"A thread that makes batches holds up the training thread, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if waits.known(m) else self.unbounded_confidence,
            seen=(
                f"steps take {m.number('loading_thread_slowdown'):.2f} times as long while another thread of the "
                "process makes a batch"
            ),
            locations=m.one("loading_thread_slowdown").locations,
            fixes=(
                Fix(
                    "make batches in processes: collate and transform there, a few large tensors per batch",
                    f"DataLoader(dataset, num_workers={taken.at_most(m, 4)}, persistent_workers=True)\n"
                    "# in place of a thread of your own",
                    effort="code",
                    applies=self.applies,
                    risk="the data set has to be picklable where processes are spawned; memory for each",
                    edits=(Edit("scale_host", {"cause": "host"}, {"factor": self._left(m), "prior": 1.0}),),
                ),
            ),
            candidates=("host.python_overhead",),
        )

    cases = (
        Fires(
            "a reader thread pre-processes in Python",
            loading_thread_slowdown=1.6,
            host_forward_share=0.4,
            host_backward_share=0.3,
            host_optimizer_share=0.1,
            on_gpu=True,
            utilization_mean_share=0.5,
        ),
        Silent(
            "a thread that only copies", loading_thread_slowdown=1.01, host_forward_share=0.4, host_backward_share=0.3
        ),
        Silent(
            "there are too few CPUs: host.cpu_quota, host.cpu_oversubscription",
            loading_thread_slowdown=1.8,
            host_forward_share=0.4,
            host_backward_share=0.3,
            main_run_delay_share=0.3,
        ),
        Silent(
            "the GPU has work all along",
            loading_thread_slowdown=1.6,
            host_forward_share=0.4,
            host_backward_share=0.3,
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
    )
