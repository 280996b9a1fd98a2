from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class NetSocket(Rule):
    """Large collectives move their bytes far more slowly than the links of these GPUs can.

    ## Why it costs time
    NCCL falls back to slower ways without an error: to plain TCP sockets where it finds no InfiniBand, RoCE or EFA
    plugin, to copies through host memory where GPUs may not reach each other. Then all-reduces and all-gathers take
    several times as long, and what computation does not hide of that is added to each step.

    ## How we know
    Collectives of 16 MiB and more, with their size, their ranks and the time that they carry data: all ranks leave one at
    once, so the shortest kernel is that of the rank that came last. Even the fastest of them stays below half of what
    nccl-tests reaches with such GPUs. With one rank's recording that is a bound, since each of them may have waited for a
    rank that is always late.

    The recording does not name the transport. Between nodes it is most often plain sockets or the wrong network card;
    inside a node, peer-to-peer copies that are turned off (`dist.p2p_disabled`) or cards that sit behind different PCIe
    switches (`dist.pcie_topology`).

    ## When to ignore it
    The instance has no faster network: then fewer bytes help, or gradient accumulation. A neighbour or a storage system
    that uses the same links makes them slower for a while.
    """

    needs = (("link_exposed_share",),)
    uses = ("link_speed_share", "busbw_bytes_per_s", "link", "collective_wait_share")

    slow = Threshold(0.5, "of expected", source="docs/method.md: with good links large collectives reach 80% and more")
    far_below = Threshold(0.25, "of expected", source="docs/method.md: no congestion, but another transport")
    confidence = Threshold(0.5, "probability", source="judgement: congestion or contention halve the speed, too")
    far_confidence = Threshold(
        0.8, "probability", source="all ranks, and far below: right in 14 of 14 simulated jobs, bench/README.md"
    )
    alone_confidence = Threshold(0.4, "probability", source="judgement: a rank that is always late looks the same")
    applies = Threshold(0.5, "probability", source="judgement: a setting or a plugin is missing, or it is not to be had")
    half_applies = Threshold(0.5, "probability", source="judgement: gradients are exchanged in 32 bits")
    half = Threshold(0.5, "of the bytes", source="arithmetic: 16 bits instead of 32")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the window that this rule speaks for; 0 where it is silent."""
        speed = m.get("link_speed_share", 1.0)
        return m.get("link_exposed_share", 0.0) * (1 - speed) if speed < cls.slow else 0.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost, speed = self.claimed(m), m.get("link_speed_share", 1.0)
        where = str(m.one("link").value) if "link" in m else ""
        together = bool(m.each("collective_wait_share"))
        sure = self.far_confidence if speed < self.far_below else self.confidence
        between = where == "between nodes"
        yield from self.finding(
            f"Large collectives {where} reach {speed:.0%} of the speed that these GPUs' links allow, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=sure if together else self.alone_confidence,
            seen=(
                f"the fastest of 16 MiB and more has a bus bandwidth of {m.get('busbw_bytes_per_s', 0.0) / 1e9:.1f} GB/s; "
                f"they run alone for {m.number('link_exposed_share'):.0%} of the time"
                + ("" if together else "; of one rank, so each may have waited for another")
            ),
            locations=m.one("link_exposed_share").locations,
            fixes=(self._between(speed) if between else self._inside(speed), self._fewer_bytes()),
            candidates=("dist.straggler",) if between else ("dist.p2p_disabled", "dist.pcie_topology", "dist.straggler"),
        )

    def _between(self, speed: float) -> Fix:
        return Fix(
            "see which network NCCL takes, and give it the fast one",
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET python train.py 2>&1 | grep NET/\n"
            "# NET/Socket: install the plugin of your cloud (aws-ofi-nccl for EFA), mount /dev/infiniband;\n"
            "# NET/IB with the wrong card: NCCL_IB_HCA=mlx5; wrong interface: NCCL_SOCKET_IFNAME=eth0",
            effort="setting",
            applies=self.applies,
            risk="no gain where the instances have no faster network; the first line only prints",
            edits=(Edit("scale_device", {"class": "collective", "size": "large"}, {"factor": speed}),),
        )

    def _inside(self, speed: float) -> Fix:
        return Fix(
            "see how the GPUs reach each other, and let them do it directly",
            "nvidia-smi topo -m; NCCL_DEBUG=INFO python train.py 2>&1 | grep ' via '\n"
            "# via SHM though topo says NV#: unset NCCL_P2P_DISABLE, turn off ACS and IOMMU; PHB or SYS: other slots",
            effort="setting",
            applies=self.applies,
            risk="no gain where the GPUs have no direct links; the first line only prints",
            edits=(Edit("scale_device", {"class": "collective", "size": "large"}, {"factor": speed}),),
        )

    def _fewer_bytes(self) -> Fix:
        return Fix(
            "send gradients in 16 bits",
            "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
            "model.register_comm_hook(None, default_hooks.bf16_compress_hook)  # FSDP: MixedPrecision(reduce_dtype=...)",
            effort="code",
            applies=self.half_applies,
            risk="gradients are rounded before they are added: watch the loss",
            edits=(Edit("scale_device", {"class": "collective"}, {"factor": self.half, "prior": 1.0}),),
        )

    cases = (
        Fires(
            "sockets between nodes of eight H100",
            link_speed_share=0.03,
            link_exposed_share=0.6,
            busbw_bytes_per_s=1.8e9,
            link="between nodes",
        ),
        Fires(
            "eight A100 that copy through host memory",
            link_speed_share=0.08,
            link_exposed_share=0.2,
            busbw_bytes_per_s=16e9,
            link="inside a node",
        ),
        Silent(
            "fast, and exposed: dist.bucket_overlap",
            link_speed_share=0.85,
            link_exposed_share=0.3,
            busbw_bytes_per_s=200e9,
            link="inside a node",
        ),
        Silent("no collectives", link_exposed_share=0.0),
        Silent(
            "slow, and hidden behind backward",
            link_speed_share=0.1,
            link_exposed_share=0.01,
            busbw_bytes_per_s=2e9,
            link="between nodes",
        ),
    )
