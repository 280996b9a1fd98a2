from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from whyidle.model.evidence import Value
from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class H2dInStep(Rule):
    """Many small copies to the GPU in each step: tensors are made on the CPU inside the model or the loss.

    ## Why it costs time
    `torch.tensor(0.5, device="cuda")`, `torch.arange(n).to(device)` and indexing with a Python list
    make a tensor on the CPU and copy it. From pageable memory the CPU waits until the copy has run,
    behind all kernels that are queued on the stream. After that the queue is empty and has to be
    filled again.

    ## How we know
    Each step copies at least four pieces of at most 64 KiB to the device, more than the labels and
    masks of a batch. What they cost is the idle time in which the training thread makes such a tensor
    (Python and operators since its last launch, then the copy), and the idle time behind those that it
    waited for, as far as it would have been ahead by then without the wait.

    ## When to ignore it
    The small copies are the batch itself, a dictionary of many short tensors: then put them into one
    tensor, or let the collate function do so.
    """

    needs = (("h2d_small_per_step", "h2d_small_lost_share"),)
    uses = ("h2d_small_exposed_share",)
    explains = (
        "h2d_prep", "python", "dispatch", "sync_return", "launch_latency", "autograd_host", "optimizer_host",
    )  # fmt: skip
    busy = ("h2d_small_exposed_share",)

    many = Threshold(4, "copies per step", source="a batch brings up to three small tensors: labels, lengths, a mask")
    confidence = Threshold(
        0.7, "probability", source="judgement, not calibrated yet: a batch of many tensors looks the same"
    )
    applies = Threshold(0.8, "probability", source="judgement: nearly all such tensors can be made on the device")
    residual = Threshold(0.1, "of the wait", source="judgement: labels and masks of the batch remain")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the idle share of the window that this rule speaks for; 0 where it is silent."""
        return m.get("h2d_small_lost_share", 0.0) if m.get("h2d_small_per_step", 0.0) >= cls.many else 0.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        idle = self.claimed(m)
        copying = m.get("h2d_small_exposed_share", 0.0)
        lost = idle + copying if idle else 0.0
        count = m.number("h2d_small_per_step")
        yield from self.finding(
            f"Each step makes {count:.0f} small tensors on the CPU and copies them to the GPU, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{count:.0f} host-to-device copies of at most 64 KiB per step; while the CPU makes the tensors and "
                f"behind those that it waits for, the GPU idles {idle:.0%} of the time"
            ),
            locations=m.one("h2d_small_lost_share").locations,
            fixes=(
                Fix(
                    "make tensors where they are used, constants only once",
                    "steps = torch.arange(n, device=x.device)  # instead of torch.arange(n).to(x.device)\n"
                    'self.register_buffer("scale", torch.tensor(0.5))  # in __init__; a plain Python number also does',
                    effort="code",
                    applies=self.applies,
                    risk="a registered buffer is saved with the state_dict unless persistent=False",
                    edits=(
                        Edit("scale_host", self._SMALL, {"factor": self.residual, "prior": 1.0}),
                        Edit("scale_device", self._SMALL, {"factor": self.residual, "prior": 1.0}),
                        Edit("remove_sync", {"kind": "small_upload"}),
                    ),
                ),
            ),
        )

    _SMALL: ClassVar[dict[str, Value]] = {"copy": "HtoD", "size": "small"}

    cases = (
        Fires("constants made in forward", h2d_small_per_step=24, h2d_small_lost_share=0.11),
        Fires(
            "half of what they cost is copying",
            h2d_small_per_step=200,
            h2d_small_lost_share=0.01,
            h2d_small_exposed_share=0.012,
        ),
        Silent("labels of the batch", h2d_small_per_step=1, h2d_small_lost_share=0.05),
        Silent("many, but the GPU has work queued", h2d_small_per_step=24, h2d_small_lost_share=0.004),
    )
