from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whyidle.model.evidence import Value
from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.host.numa import Numa
from whyidle.rules.host.shares import READ, unclaimed


class PageableH2d(Rule):
    """Batches are copied to the GPU from pageable memory, and nothing else runs meanwhile.

    ## Why it costs time
    The GPU can read only pinned (page-locked) host memory. A copy from an ordinary tensor goes
    through a small pinned buffer of the driver: it reaches a part of the bus's bandwidth, and the CPU
    waits for it. `non_blocking=True` changes nothing as long as the source is not pinned.

    ## How we know
    Copies from host to device (`Memcpy HtoD`) run with no kernel beside them. The recording names the memory:
    `Pageable`, or `Pinned`, for which only a stream of its own is left to gain.
    Added to that is the idle time behind copies in which the CPU stood while the GPU worked: a copy from
    pageable memory, or one without `non_blocking=True`, waits for everything queued before it, and the
    CPU starts again with an empty queue. So is idle time in which the training thread prepares a copy.

    ## When to ignore it
    The copies are short against the step. Pinned memory cannot be swapped: on a machine that is short
    of memory, or with very many workers, leave it.

    Pinned copies on the default stream still run between kernels and take 0.71 of the time; only a
    stream of their own puts them beside kernels. The loss is what the second saves; the finding says
    beside it what pinning alone does.
    """

    needs = (("h2d_exposed_share",), ("sync_upload_lost_share",), ("idle_h2d_prep_share",))
    uses = ("h2d_pageable_share", "h2d_pageable_exposed_share", "h2d_bytes_per_step", *Numa.needs[0], *Numa.uses, *READ)
    explains = ("h2d_prep",)
    busy = ("h2d_exposed_share",)

    confidence = Threshold(0.9, "probability", source="the recording names the kind of memory; not calibrated yet")
    applies = Threshold(
        0.5, "probability", source="judgement: takes off the CPU's wait and a third of the copy, not all"
    )
    overlap_applies = Threshold(0.7, "probability", source="judgement: needs the batch one step ahead")
    pinned = Threshold(0.71, "of the copy", source="0.646 to 0.459 s in stas00/ml-engineering's pinning benchmark")

    prepared = Threshold(0.2, "of host time", source="judgement: the calls that launch the copies remain")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        exposed = m.get("h2d_exposed_share", 0.0)
        # the CPU prepares a copy (pins, stages), waits, and starts again with an empty queue: often in one gap
        before = unclaimed(m, "idle_h2d_prep_share") if "idle_h2d_prep_share" in m else 0.0
        behind = max(m.get("sync_upload_lost_share", 0.0), before)
        lost = max(exposed + behind - Numa.claimed(m), 0.0)  # from the far socket they take longer: its part
        pageable = m.get("h2d_pageable_exposed_share", exposed)
        pinned = self._pinned(m, exposed, pageable) and before <= max(exposed, m.get("sync_upload_lost_share", 0.0))
        what = "run alone or make the CPU wait" if pinned else "start from pageable memory and hold everything up"
        kind = "pinned" if pinned else "pageable" if "h2d_pageable_share" in m else "memory not told"
        volume = f", {m.number('h2d_bytes_per_step') / 1e6:.2g} MB per step" if "h2d_bytes_per_step" in m else ""
        saves = f"a stream for copies saves up to {lost:.1%}"
        if not pinned:
            saves = f"pinning saves {behind + pageable * (1 - self.pinned):.1%}, {saves}"
        where = max((name for names in self.needs for name in names if name in m), key=m.number)
        yield from self.finding(
            f"Copies to the GPU {what}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"copies to the GPU ({kind}{volume}) with no kernel beside them {exposed:.0%} of the time; while the "
                f"CPU makes copies, or behind those it waited for, the GPU idles {behind:.0%}; {saves}"
            ),
            locations=m.one(where).locations,
            fixes=(self._stream(),) if pinned and behind < exposed else (self._pin(), self._pin_and_stream()),
        )

    def _pinned(self, m: Measurements, exposed: float, pageable: float) -> bool:
        """Say whether most of what is copied comes from pinned memory, as far as the recording says."""
        if "h2d_pageable_share" not in m:
            return False
        return 2 * pageable < exposed if exposed else m.number("h2d_pageable_share") == 0

    def _pin(self) -> Fix:
        return Fix(
            f"pin the batches and do not wait: saves the CPU's waits and {1 - self.pinned:.0%} of the copies' time",
            "DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
            effort="argument",
            applies=self.applies,
            risk="pinned memory cannot be swapped out; a pinned tensor must not be changed before its copy is done",
            edits=(
                Edit("remove_sync", {"kind": "upload"}),
                *self._faster(),
            ),
        )

    def _faster(self) -> tuple[Edit, ...]:
        """Return what pinned memory does to copies, and to the host that no longer pins or stages them."""
        pageable: dict[str, Value] = {"copy": "HtoD", "pinned": False}
        return (
            Edit("scale_device", pageable, {"factor": self.pinned, "prior": 1.0}),
            Edit("scale_host", {"cause": "h2d_prep"}, {"factor": self.prepared, "prior": 1.0}),
        )

    def _stream(self) -> Fix:
        return Fix(
            "copy the next batch on a stream of its own: hides all of the copies",
            self._NEXT,
            effort="code",
            applies=self.overlap_applies,
            risk="GPU memory for a second batch",
            edits=(Edit("remove_sync", {"kind": "upload"}), Edit("overlap_copies", {"copy": "HtoD"})),
        )

    def _pin_and_stream(self) -> Fix:
        return replace(
            self._stream(),
            title="pin them and copy the next batch on a stream of its own: hides all of the copies",
            edits=(
                Edit("remove_sync", {"kind": "upload"}),
                Edit("overlap_copies", {"copy": "HtoD"}),
                *self._faster(),
            ),
        )

    _NEXT = (
        "copies = torch.cuda.Stream()  # once; DataLoader(..., pin_memory=True)\n"
        "with torch.cuda.stream(copies):  # right after the launches of the step before\n"
        "    following = following.to(device, non_blocking=True)\n"
        "torch.cuda.current_stream().wait_stream(copies)  # before its first use\n"
        "following.record_stream(torch.cuda.current_stream())"
    )

    cases = (
        Fires(
            "unpinned images, 12% of the step",
            h2d_exposed_share=0.12,
            h2d_pageable_share=0.13,
            h2d_bytes_per_step=77e6,
        ),
        Fires(
            "pinned, but without non_blocking: the queue is empty behind it",
            h2d_exposed_share=0.0,
            h2d_pageable_share=0.0,
            sync_upload_lost_share=0.07,
        ),
        Fires("pin_memory() in the training thread", h2d_exposed_share=0.0, idle_h2d_prep_share=0.4),
        Silent("beside kernels of another stream", h2d_exposed_share=0.0, h2d_pageable_share=0.12),
        Silent("short copies: the gain lies elsewhere", h2d_exposed_share=0.008, h2d_pageable_share=0.008),
    )
