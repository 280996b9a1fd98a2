from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import live
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_workers
from whyidle.rules.input.late_workers import STORAGE, WAIT


class Storage(Rule):
    """The DataLoader's workers are blocked most of the time that a batch takes: they wait for storage or the network.

    ## Why it costs time
    A read from a disk takes 0.1 to 10 ms, from a network file system or an object store up to 100 ms, and many small
    files take one such wait each. Workers that wait use no CPU, and the GPU waits for them.

    ## How we know
    The training waits for workers, and these neither compute nor wait for a CPU for most of the time that a
    batch takes: they are blocked. That may be storage, the network, or a lock. Bytes that the job reads from storage,
    a network file system, time that the machine waits for storage (PSI) and, with `whyidle run --workers`, workers
    that were met inside a read make it sure. Workers that were met waiting for a lock are not counted here.

    What can be saved is bounded by the wait, and by the part of a batch's time that is blocked.

    `whyidle watch --pid` tells it of a running job by workers, or a main thread, that are met in reads, or by stacks
    of workers that sleep inside a batch.

    Where the job was seen to read next to nothing, and its data are not on a network file system, the wait may as well
    be for a server that gives samples, or a sleep: then no copying of files is advised.

    ## When to ignore it
    Only the first epoch is slow: it reads a cold disk, later ones the page cache.
    """

    needs = ((WAIT, "batch_blocked_share"), live.NEEDS)
    uses = (
        "storage_read_bytes_per_s", "io_pressure_share", "data_file_system", "look_site", *late_workers.READ,
        *live.READ,
    )  # fmt: skip
    explains = ("data_wait",)

    blocked = late_workers.BLOCKED
    reads = Threshold(1e6, "B/s", source="judgement: less is logs and modules, or comes from the page cache")
    pressure = Threshold(0.1, "of watched", source="judgement: a machine at rest is at 0 to 0.02")
    confidence = Threshold(
        0.8, "probability", source="judgement, not calibrated yet: workers are blocked and something is read"
    )
    blocked_confidence = Threshold(
        0.55, "probability", source="judgement, not calibrated yet: blocked, but nobody saw by what"
    )
    stage_applies = Threshold(0.6, "probability", source="judgement: needs room on a local disk or in memory")
    more_applies = Threshold(0.5, "probability", source="judgement: helps against latency, not against bandwidth")
    residual = Threshold(0.1, "of the wait", source="judgement: the first reading of each file remains")
    half = Threshold(0.5, "of the wait", source="arithmetic: twice as many reads at a time")
    network = frozenset({"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "fuse", "9p", "glusterfs"})

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if live.watched(m):
            yield from live.finding(self, m, self._fixes)
            return
        lost = late_workers.claimed(m, STORAGE)
        file_system = self._file_system(m)
        site = str(m.one("look_site").value) if "look_site" in m else ""
        said = [f"workers are blocked {m.number('batch_blocked_share'):.0%} of the time that a batch takes"]
        if self._reads_nothing(m):
            said.append("the job reads next to nothing from storage: it may be a remote service, or a sleep")
        elif "storage_read_bytes_per_s" in m:
            said.append(f"the job reads {m.number('storage_read_bytes_per_s') / 1e6:.3g} MB/s from storage")
        if file_system:
            said.append(f"the data set is on {file_system}")
        if site:
            said.append(f"most time goes to {site}")
        yield from self.finding(
            f"The DataLoader's workers wait for storage or the network, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if self._seen_to_read(m) else self.blocked_confidence,
            seen="; ".join(said),
            locations=m.one("look_site" if site else WAIT).locations,
            fixes=self._fixes(m),
            candidates=late_workers.undecided(m, STORAGE),
        )

    def _file_system(self, m: Measurements) -> str:
        return str(m.one("data_file_system").value) if "data_file_system" in m else ""

    def _seen_to_read(self, m: Measurements) -> bool:
        return (
            m.get("storage_read_bytes_per_s", 0.0) >= self.reads
            or m.get("io_pressure_share", 0.0) >= self.pressure
            or m.get("look_read_share", 0.0) >= self.blocked
            or self._file_system(m).split(".", maxsplit=1)[0] in self.network
        )

    def _reads_nothing(self, m: Measurements) -> bool:
        """Say whether it was seen that what blocks the workers is no reading of files."""
        return m.get("storage_read_bytes_per_s", self.reads) < self.reads and not self._seen_to_read(m)

    def _fixes(self, m: Measurements) -> tuple[Fix, ...]:
        # blocked workers take little of a CPU: there may be more of them than CPUs
        known = m.get("num_workers", 0.0) >= 1
        workers = 2 * int(m.get("num_workers", 0.0))
        more = f"{workers}" if known else "2 * num_workers"
        coefficients = {"factor": self.half, "prior": 1.0} | ({"workers": workers, "prefetch": 4} if known else {})
        edits = (Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0}),)
        return (
            Fix(
                "have more reads under way: workers that wait take no CPU",
                f"DataLoader(..., num_workers={more}, prefetch_factor=4, persistent_workers=True)",
                effort="argument",
                applies=self.more_applies,
                risk="no gain where the bandwidth is used up; memory for more batches; others on the same storage",
                edits=(Edit("scale_host", {"cause": "data_wait"}, coefficients),),
            ),
            Fix(
                "if it is a server: ask it for many samples at once, or keep what it gave on a local disk",
                "see what they wait for: whyidle run --workers",
                effort="code",
                applies=self.more_applies,
                risk="room on the disk; what is kept gets old",
                edits=edits,
            )
            if self._reads_nothing(m)
            else Fix(
                "read from a local disk or memory, in large files",
                "rsync -a DATA_SET /local/  # before training; many small files: pack them (tar shards, HDF5, LMDB)",
                effort="setting",
                applies=self.stage_applies,
                risk="takes time before the first step, and room on the disk",
                edits=edits,
            ),
        )

    cases = (
        Fires(
            "a network file system, workers blocked nine tenths of the time",
            lost_data_workers_share=0.5,
            batch_blocked_share=0.9,
            batch_cpu_share=0.08,
            batch_run_delay_share=0.02,
            job_cpu_share=0.1,
            data_file_system="nfs4",
            storage_read_bytes_per_s=4e7,
            num_workers=8,
        ),
        Fires("blocked, and nobody saw by what", lost_data_workers_share=0.5, batch_blocked_share=0.9),
        Silent(
            "they wait for a lock of their own",
            lost_data_workers_share=0.5,
            batch_blocked_share=0.9,
            look_lock_share=0.8,
            look_read_share=0.05,
        ),
        Silent(
            "they compute: input.workers_too_few or input.cpu_transform",
            lost_data_workers_share=0.5,
            batch_blocked_share=0.03,
            batch_cpu_share=0.95,
            storage_read_bytes_per_s=1e8,
        ),
        Silent("reads a lot, and the GPU waits for none of it", lost_data_workers_share=0.01, batch_blocked_share=0.95),
    )
