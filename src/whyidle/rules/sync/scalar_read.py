from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.sync import sites
from whyidle.rules.sync.often import often


class ScalarRead(Rule):
    """The loop reads single values back from the GPU, and the GPU runs dry after each.

    ## Why it costs time
    `loss.item()`, `float(loss)`, `print(loss)` and `tensor.cpu()` wait until the GPU
    has finished everything queued before. From then on the CPU starts again with an empty queue, and
    the GPU has to wait for each launch until the CPU is ahead once more.

    ## How we know
    `aten::_local_scalar_dense` or a copy back to the host in which the CPU stands while the GPU works,
    *and* idle gaps behind it that a CPU running ahead by that time would have filled. Only the gaps
    count. Without them the read is merely where the CPU waits for a busy GPU: removing it moves the
    wait and gains nothing. Added to that is the time in which the GPU copies to the CPU and does nothing
    else.

    `whyidle run` adds the lines of the job's code that wait in this way, and how often per step.

    ## When to ignore it
    The value decides what happens next (early stopping, line search, sizes that are sent to other
    ranks). One read every hundred steps costs nothing.
    """

    needs = (("sync_scalar_lost_share",),)
    uses = (
        "sync_scalar_per_step",
        "sync_readback_lost_share",
        "sync_readback_per_step",
        "d2h_exposed_share",
        sites.SITES,
    )
    explains = (
        "sync_return", "python", "dispatch", "autograd_host", "optimizer_host", "launch_latency", "unknown",
    )  # fmt: skip
    busy = ("d2h_exposed_share",)

    confidence = Threshold(
        0.85, "probability", source="judgement, not calibrated yet: gaps after the read are counted, not the read"
    )
    tensor_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: the program may need the tensor to go on"
    )
    applies = Threshold(0.8, "probability", source="judgement: most reads are for logging")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        scalars, tensors = m.number("sync_scalar_lost_share"), m.get("sync_readback_lost_share", 0.0)
        # a large copy back also takes the GPU's own time, with nothing beside it
        copying = m.get("d2h_exposed_share", 0.0)
        what = "Copying tensors back to the CPU holds the GPU up"
        if copying < scalars + tensors:
            what = "Reading values back from the GPU lets it run dry"
        tensors += copying
        lost = scalars + tensors
        parts = ("sync_scalar_lost_share", *self.uses)
        mostly = max((name for name in parts if name.endswith("_share") and name in m), key=m.number)
        yield from self.finding(
            f"{what}, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=(self.confidence * scalars + self.tensor_confidence * tensors) / lost if lost else 0.0,
            seen=(
                f"{often(m, 'sync_scalar_per_step', 'reads of one value')} (.item(), float(t)), "
                f"{often(m, 'sync_readback_per_step', 'of tensors')} (.cpu(), .tolist()); {lost:.0%} of the time the "
                "GPU is idle behind them for want of queued work, or copies to the CPU and does nothing else"
                + sites.named(m, "scalar")
            ),
            locations=sites.places(m, "scalar", m.one(mostly).locations),
            fixes=(self._fix(self._TENSORS if tensors > scalars else self._VALUES),),
        )

    _VALUES = (
        "total += loss.detach()          # instead of total += loss.item()\n"
        "if step % 100 == 0:\n"
        "    print(total.item() / 100)\n"
        "    total.zero_()"
    )
    _TENSORS = (
        "outputs.append(output.detach())  # instead of output.cpu() in every step\n"
        "outputs = torch.cat(outputs).cpu()  # once, at the end; on the GPU as long as its memory allows"
    )

    def _fix(self, code: str) -> Fix:
        return Fix(
            "keep values on the GPU and read them rarely",
            code,
            effort="code",
            applies=self.applies,
            risk="logged values arrive later",
            edits=(Edit("remove_sync", {"kind": "scalar,readback"}),),
        )

    cases = (
        Fires("two reads per step with gaps after them", sync_scalar_lost_share=0.07, sync_scalar_per_step=2),
        Fires(
            "a tensor per step goes to the CPU for a metric",
            sync_scalar_lost_share=0.0,
            sync_scalar_per_step=0,
            sync_readback_lost_share=0.08,
            sync_readback_per_step=1,
        ),
        Fires(
            "100 MB of features go back in every step",
            sync_scalar_lost_share=0.0,
            sync_scalar_per_step=0,
            d2h_exposed_share=0.5,
        ),
        Silent("the CPU waits there for a busy GPU: no gap", sync_scalar_lost_share=0.0, sync_scalar_per_step=2),
        Silent(
            "host-bound: the step is late with and without the read (1% measured where 85% were blamed)",
            sync_scalar_lost_share=0.008,
            sync_scalar_per_step=1,
        ),
    )
