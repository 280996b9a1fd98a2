from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.graph_break import GraphBreak
from whyidle.rules.host.debugger_overhead import DebuggerOverhead
from whyidle.rules.host.gil_contention import GilContention


class CpuFallback(Rule):
    """The machine has a GPU, and the job trains on the CPU.

    ## Why it costs time
    `device = "cuda" if torch.cuda.is_available() else "cpu"` falls back without a word: where PyTorch was installed
    without CUDA, where its CUDA is newer than the driver, where CUDA_VISIBLE_DEVICES is empty or the container was
    started without GPUs. A network takes several times as long on the CPU.

    ## How we know
    NVML sees a GPU on this machine, and the job never used one. On a machine without GPUs this rule cannot be asked.
    What a GPU would save cannot be measured here: most of the time in forward, backward and optimizer is assumed,
    since other waits stay.

    ## When to ignore it
    The job is meant for the CPU: a small network, a test, a GPU that is left to others.
    """

    needs = (("on_gpu", "gpus_on_host", "host_forward_share", "host_backward_share"),)
    uses = (
        "host_optimizer_share", *DebuggerOverhead.needs[0], *GilContention.needs[0], *GilContention.uses,
        *GraphBreak.needs[0], *GraphBreak.uses,
    )  # fmt: skip
    busy = ("host_forward_share", "host_backward_share", "host_optimizer_share")

    present = Threshold(1, "GPUs", source="arithmetic: none, nothing to fall back from")
    saved = Threshold(0.87, "of the work", source="153 to 20 s per epoch in a public case: 1 - 20/153")
    confidence = Threshold(0.6, "probability", source="judgement, not calibrated yet: some jobs are meant for the CPU")
    applies = Threshold(0.7, "probability", source="judgement: an installation, a variable or an option")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if m.one("on_gpu").value or m.number("gpus_on_host") < self.present:
            return
        work = sum(m.get(f"host_{part}_share", 0.0) for part in ("forward", "backward", "optimizer"))
        claimed = (DebuggerOverhead.claimed(m), GilContention.claimed(m), GraphBreak.claimed(m))
        lost = min(self.saved * work, waits.left(m, *claimed))
        yield from self.finding(
            f"The job trains on the CPU though this machine has a GPU, which costs about {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{m.number('gpus_on_host'):.0f} GPUs on this machine, none of them used; forward, backward and "
                f"optimizer take {work:.0%} of the time on the CPU"
            ),
            locations=m.one("on_gpu").locations,
            fixes=(
                Fix(
                    "find out why PyTorch does not see it",
                    'python -c "import torch; print(torch.version.cuda, torch.cuda.is_available())"\n'
                    "# None: a build without CUDA; False: nvidia-smi, CUDA_VISIBLE_DEVICES, docker run --gpus all\n"
                    "# True: model.to(device) and batch.to(device) are missing",
                    effort="setting",
                    applies=self.applies,
                    risk="none by looking",
                    edits=(Edit("scale_host", {"cause": "compute"}, {"factor": 1 - self.saved, "prior": 1.0}),),
                ),
            ),
        )

    cases = (
        Fires(
            "a build without CUDA",
            on_gpu=False,
            gpus_on_host=1,
            host_forward_share=0.3,
            host_backward_share=0.5,
            host_optimizer_share=0.1,
        ),
        Silent("no GPU there", on_gpu=False, gpus_on_host=0, host_forward_share=0.3, host_backward_share=0.5),
        Silent("trains on it", on_gpu=True, gpus_on_host=8, host_forward_share=0.3, host_backward_share=0.5),
        Silent(
            "next to no time goes to the network: others are first",
            on_gpu=False,
            gpus_on_host=1,
            host_forward_share=0.01,
            host_backward_share=0.01,
        ),
    )
