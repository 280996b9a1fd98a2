from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.graph_break import GraphBreak
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.host.gil_contention import GilContention


class Numa(Rule):
    """The training process may run only on CPUs of another NUMA node than its GPU's.

    ## Why it costs time
    Batches lie in memory of the process's node. On their way to the GPU they pass the link between the
    sockets, which carries less than PCIe or NVLink-C2C does: 115 in place of 330 GB/s in one measured case. Launches
    take a little longer, too.

    ## How we know
    The process's affinity holds no CPU of the node that its GPU is attached to. What that costs cannot be measured
    without moving it. It is bounded by two thirds of the time between a batch and the forward pass, in which copies are
    made, and of the copies that run alone where a trace shows them; most jobs lose less.

    ## When to ignore it
    Copies run beside kernels, or are small: then nothing is to be gained.
    """

    needs = (("numa_mismatch", "host_prepare_share"),)
    uses = (
        "h2d_exposed_share", *DebuggerOverhead.needs[0], *GilContention.needs[0], *GilContention.uses,
        *GraphBreak.needs[0], *GraphBreak.uses,
    )  # fmt: skip
    explains = ("h2d_prep",)

    slower = Threshold(0.65, "of copies", source="330 GB/s on its own node, 115 across: 1 - 115/330, a public case")
    confidence = Threshold(
        0.4, "probability", source="judgement, not calibrated yet: the mask is seen, what it costs is not"
    )
    applies = Threshold(0.7, "probability", source="judgement: if the right node has CPUs to spare")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if "numa_mismatch" not in m or "host_prepare_share" not in m or not m.one("numa_mismatch").value:
            return 0.0
        copying = min(m.number("host_prepare_share"), m.get("h2d_exposed_share", 1.0))
        claimed = (DebuggerOverhead.claimed(m), GilContention.claimed(m), GraphBreak.claimed(m))
        return min(cls.slower * copying, waits.left(m, *claimed))

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        yield from self.finding(
            f"The process runs on another NUMA node than its GPU, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                "its CPUs are all of another node than the GPU's; copying and preparing batches takes "
                f"{m.number('host_prepare_share'):.1%} of the watched time"
            ),
            locations=m.one("numa_mismatch").locations,
            fixes=(
                Fix(
                    "bind each rank to the node of its GPU",
                    "nvidia-smi topo -m   # NUMA affinity of each GPU\n"
                    "numactl --cpunodebind=NODE --membind=NODE python train.py",
                    effort="setting",
                    applies=self.applies,
                    risk="fewer CPUs for workers, if ranks were spread over both nodes",
                    edits=(Edit("scale_device", {"class": "copy"}, {"factor": 1 - self.slower, "prior": 1.0}),),
                ),
            ),
        )

    cases = (
        Fires("large batches from the far socket", numa_mismatch=True, host_prepare_share=0.2),
        Silent("the right node", numa_mismatch=False, host_prepare_share=0.2),
        Silent("the wrong node, and next to nothing is copied", numa_mismatch=True, host_prepare_share=0.01),
        Silent(
            "the wrong node, and copies run beside kernels",
            numa_mismatch=True,
            host_prepare_share=0.2,
            h2d_exposed_share=0.005,
        ),
    )
