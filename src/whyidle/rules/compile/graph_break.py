from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.host.gil_contention import GilContention

SHOWN = 160  # characters of a reason: two lines of a report


class GraphBreak(Rule):
    """torch.compile had to leave the graph in many places: what is compiled is many small pieces.

    ## Why it costs time
    At each break Python takes over: guards are checked again, what was fused is written to memory and read back, and
    CUDA graphs end. A read of a value (`.item()`) there also waits for the GPU. Compiled code with dozens of
    breaks can be slower than uncompiled: half as fast with 41 of them in one public case, 1.6 times as fast with 3.

    ## How we know
    PyTorch counts graphs, breaks and their reasons. What breaks cost cannot be measured without taking them away. It is
    bounded from what one costs the host at least, forward and backward, once per step; by the time in the forward and
    backward pass; and by the time in which the GPU was idle. Fusion that is lost is not counted.

    ## When to ignore it
    The breaks are in code that runs once, or around work that takes long in one piece.
    """

    needs = (("graph_breaks", "graphs", "watched_s", "watched_steps", "host_forward_share", "host_backward_share"),)
    uses = (
        "graph_break_reason", *DebuggerOverhead.needs[0], *GilContention.needs[0], *GilContention.uses,
    )  # fmt: skip
    explains = ("python", "dispatch", "autograd_host", "launch_latency")

    many = Threshold(4, "breaks", source="judgement: a loss that is logged and a print are in many programs")
    each_s = Threshold(
        1.5e-4, "s", source="0.64 to 1.73 ms for 7 breaks, forward and backward, PyTorch 2.13 on a CPU: 0.156 ms each"
    )
    confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: breaks are counted, what they cost is assumed"
    )
    applies = Threshold(0.6, "probability", source="judgement: the reason names what to change; some is not the user's")
    residual = Threshold(0.2, "of breaks", source="41 to 3 in one public case; judgement for others")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if any(name not in m for name in cls.needs[0]) or m.number("graph_breaks") < cls.many:
            return 0.0
        if m.number("watched_s") <= 0 or m.number("graphs") < 1:
            return 0.0
        cost = m.number("graph_breaks") * cls.each_s * m.number("watched_steps") / m.number("watched_s")
        left = waits.left(m, DebuggerOverhead.claimed(m), GilContention.claimed(m))
        return min(cost, m.number("host_forward_share") + m.number("host_backward_share"), left)

    def _left(self, m: Measurements, lost: float) -> float:
        """Return what is left of the time in the forward and backward pass, of which breaks take what is lost."""
        work = m.number("host_forward_share") + m.number("host_backward_share")
        return 1 - (1 - self.residual) * min(lost / work, 1.0) if work > 0 else 1.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        reason = shorten(str(m.one("graph_break_reason").value), SHOWN) if "graph_break_reason" in m else ""
        yield from self.finding(
            f"torch.compile leaves the graph in {m.number('graph_breaks'):.0f} places, "
            f"which costs about {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{m.number('graphs'):.0f} graphs, {m.number('graph_breaks'):.0f} breaks, "
                f"at {self.each_s * 1e6:.0f} µs each" + (f"; most often: {reason}" if reason else "")
            ),
            locations=m.one("graph_breaks").locations,
            fixes=(
                Fix(
                    "see where it breaks, and keep such code out of what is compiled",
                    "TORCH_LOGS=graph_breaks python train.py\n"
                    "# .item(), float(t), print(t): return the tensor, read it outside;\n"
                    "# if t > 0: torch.where; still needed: torch._dynamo.config.capture_scalar_outputs = True",
                    effort="code",
                    applies=self.applies,
                    risk="larger graphs take longer to compile",
                    edits=(
                        Edit("scale_host", {"cause": "python,dispatch"}, {"factor": self._left(m, lost), "prior": 1.0}),
                    ),
                ),
            ),
            candidates=("host.launch_bound",),
        )

    cases = (
        Fires(
            "41 breaks in a step of 16 ms",
            graph_breaks=41,
            graphs=42,
            watched_s=16.0,
            watched_steps=1000,
            host_forward_share=0.5,
            host_backward_share=0.3,
            graph_break_reason="Tensor.item()",
        ),
        Silent(
            "one, for the loss that is logged",
            graph_breaks=1,
            graphs=2,
            watched_s=16.0,
            watched_steps=1000,
            host_forward_share=0.5,
            host_backward_share=0.3,
        ),
        Silent(
            "many, in steps of two seconds",
            graph_breaks=41,
            graphs=42,
            watched_s=2000.0,
            watched_steps=1000,
            host_forward_share=0.5,
            host_backward_share=0.3,
        ),
        Silent(
            "many, and the GPU never waits",
            graph_breaks=41,
            graphs=42,
            watched_s=16.0,
            watched_steps=1000,
            host_forward_share=0.5,
            host_backward_share=0.3,
            on_gpu=True,
            utilization_mean_share=0.99,
        ),
    )
