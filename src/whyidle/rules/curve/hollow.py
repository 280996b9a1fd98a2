from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class Hollow(Rule):
    """Utilization is high, and the multiprocessors or tensor cores hardly work.

    ## Why it costs time
    One thread in one kernel makes a GPU count as fully utilized. Small kernels, kernels that wait for memory,
    arithmetic in fp32 and collectives that wait for a peer fill the time without using what the GPU can do.

    ## How we know
    DCGM's counters: while utilization is at 90% or more, a warp is on the multiprocessors in less than half of the
    cycles (NVIDIA calls 0.5 likely ineffective), or tensor cores work in less than a tenth. How much of that another
    program would save a curve does not tell, so that no loss is claimed.

    ## When to ignore it
    The job has no matrix products, or is limited by the bandwidth of memory (`curve_dram_active_share` near 1).
    """

    needs = (("curve_hollow_share", "curve_sm_active_share"), ("curve_hollow_share", "curve_tensor_active_share"))
    uses = ("curve_sm_active_share", "curve_tensor_active_share", "curve_dram_active_share", "curve_gpus", *settle.READ)

    most = Threshold(0.2, "of curve", source="xprof's limit for high: less of the time is not the job's state")
    idle_sm = Threshold(0.5, "of cycles", source="DCGM's documentation: below 0.5 SM activity is likely ineffective")
    memory = Threshold(0.6, "of cycles", source="judgement: DRAM busy in 60% of the cycles is near its usable limit")
    known = Threshold(0.9, "of confidence", source="counters of the hardware; what they mean for this job is open")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("curve_hollow_share")
        if share < self.most:
            return
        sm = m.get("curve_sm_active_share", 1.0)
        what = "multiprocessors" if sm < self.idle_sm else "tensor cores"
        parts = [
            f"{words} active in {m.number(name):.0%} of the cycles"
            for words, name in (
                ("multiprocessors", "curve_sm_active_share"),
                ("tensor cores", "curve_tensor_active_share"),
                ("memory", "curve_dram_active_share"),
            )
            if name in m
        ]
        yield from self.finding(
            f"Utilization is high {share:.0%} of the time, but the {what} hardly work.",
            lost_share=None,
            confidence=settle.sure(m, self.known),
            seen=", ".join(parts) + " while utilization is at 90% or more",
            locations=m.one("curve_hollow_share").locations,
            fixes=(settle.by_trace("which kernels fill the time"),),
            candidates=self._candidates(m, sm),
        )

    def _candidates(self, m: Measurements, sm: float) -> tuple[str, ...]:
        """Return the rules that look like this, the likeliest first."""
        several = m.get("curve_gpus", 1.0) > 1  # collectives spin on few multiprocessors
        network = ("dist.net_socket", "dist.exposed", "dist.bucket_overlap") if several else ()
        if sm < self.idle_sm:
            return ("compute.underfilled", "host.launch_bound", "dist.straggler", *network)
        first = ("compute.channels_last",) if m.get("curve_dram_active_share", 0.0) >= self.memory else ()
        return (*first, "compute.fp32_no_tensorcore", "compute.misaligned_dims", "dist.straggler", *network)

    cases = (
        Fires(
            "small kernels",
            curve_hollow_share=0.9,
            curve_sm_active_share=0.2,
            curve_tensor_active_share=0.02,
            curve_samples=600,
        ),
        Fires(
            "fp32",
            curve_hollow_share=0.9,
            curve_sm_active_share=0.9,
            curve_tensor_active_share=0.0,
            curve_samples=600,
        ),
        Silent("full", curve_hollow_share=0.0, curve_sm_active_share=0.9, curve_samples=600),
    )
