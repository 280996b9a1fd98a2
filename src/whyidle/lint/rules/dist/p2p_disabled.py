from __future__ import annotations

from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Event, Set
from whyidle.lint.job import Job
from whyidle.lint.rules.dist.nccl import told, untold


class P2pDisabled(Check):
    """GPUs of one machine are forbidden to copy to each other directly.

    ## Why it costs time
    With `NCCL_P2P_DISABLE=1` (or `NCCL_P2P_LEVEL=LOC`) NCCL stages everything in the host's memory, though NVLink
    carries many times as much, and a shared PCIe switch more, too.

    ## How we know
    The program sets the variable to this value itself, whatever machine it runs on. Which links the GPUs have cannot be
    seen in the source.

    ## When to ignore it
    GPUs that cannot do it anyway (GeForce RTX 40 and 50), or a machine on which it hangs: with an IOMMU or ACS switched
    on, for example, which is worth mending.
    """

    cost = "network"
    sees = (Set,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Set)
        name, value = told(event, job)
        off = name == "NCCL_P2P_DISABLE" and value not in {"", "0"}
        if not (off or (name == "NCCL_P2P_LEVEL" and value in {"LOC", "0"})):
            return
        yield Hit(
            node=event.node,
            message="GPUs of a machine may not copy to each other directly: collectives go through the host's memory.",
            severity="low",
            confidence=0.5,
            title="let NCCL choose",
            change=f"# without {name}; nvidia-smi topo -p2p r shows what the machine can do",
            effort="setting",
            risk="jobs hang on machines where peer-to-peer copies do not work",
            repair=untold(event, "GPUs copy to each other directly"),
        )

    cases = (
        Invalid(
            "a remedy that stayed",
            """
import os
import torch
import torch.distributed as dist

os.environ["NCCL_P2P_DISABLE"] = "1"  # !

def setup(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
""",
        ),
        Invalid(
            "by level",
            """
import os
os.environ["NCCL_P2P_LEVEL"] = "LOC"  # !
import torch

def main(rank):
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(rank)
""",
        ),
        Valid(
            "switched on",
            """
import os
import torch

os.environ["NCCL_P2P_DISABLE"] = "0"
os.environ["NCCL_P2P_LEVEL"] = "NVL"
torch.distributed.init_process_group("nccl")
""",
        ),
        Valid(
            "only on GPUs that cannot",
            """
import os
import torch

if "RTX 40" in torch.cuda.get_device_name():
    os.environ["NCCL_P2P_DISABLE"] = "1"
torch.distributed.init_process_group("nccl")
""",
        ),
        Valid(
            "read, not set",
            """
import os
import torch

if os.environ.get("NCCL_P2P_DISABLE") == "1":
    print("peer-to-peer copies are off")
torch.distributed.init_process_group("nccl")
""",
        ),
    )
