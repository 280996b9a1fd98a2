from __future__ import annotations

from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Event, Set
from whyidle.lint.job import Job
from whyidle.lint.rules.dist.nccl import told, untold


class NetSocket(Check):
    """NCCL is told to use sockets between machines, whatever network there is.

    ## Why it costs time
    With `NCCL_IB_DISABLE=1` or `NCCL_NET=Socket` collectives between nodes go through TCP and the host's memory: a
    fraction of what InfiniBand or RoCE with GPUDirect carries.

    ## How we know
    The program sets the variable itself, on every machine that it runs on. Whether it runs on several machines, and
    whether they have such a network, cannot be seen in the source.

    ## When to ignore it
    One machine, or a network of plain Ethernet.
    """

    cost = "network"
    sees = (Set,)

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Set)
        name, value = told(event, job)
        if not ((name == "NCCL_IB_DISABLE" and value not in {"", "0"}) or (name == "NCCL_NET" and value == "SOCKET")):
            return
        yield Hit(
            node=event.node,
            message="NCCL may only use sockets between machines: on several nodes collectives get a fraction of an "
            "InfiniBand's or RoCE's bandwidth.",
            severity="low",
            confidence=0.5,
            title="let NCCL choose the network",
            change=f"# without {name}; NCCL_DEBUG=INFO tells which network it uses",
            effort="setting",
            risk="jobs hang where the fast network is set up wrongly",
            repair=untold(event, "NCCL chooses the network"),
        )

    cases = (
        Invalid(
            "InfiniBand is off for everybody",
            """
import os
import torch
import torch.distributed as dist

os.environ["NCCL_IB_DISABLE"] = "1"  # !
os.environ["NCCL_SOCKET_IFNAME"] = "eth0"

def setup(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
""",
        ),
        Invalid(
            "by the name of the transport",
            """
import os
import torch

os.environ["NCCL_NET"] = "Socket"  # !
torch.distributed.init_process_group("nccl")
""",
        ),
        Valid(
            "it is left on",
            """
import os
import torch

os.environ["NCCL_IB_DISABLE"] = "0"
os.environ["NCCL_IB_HCA"] = "mlx5"
torch.distributed.init_process_group("nccl")
""",
        ),
        Valid(
            "only where somebody asks for it",
            """
import argparse
import os
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--no-ib", action="store_true")
args = parser.parse_args()
if args.no_ib:
    os.environ["NCCL_IB_DISABLE"] = "1"
torch.distributed.init_process_group("nccl")
""",
        ),
        Valid(
            "which interface is no choice of transport",
            """
import os
import torch

os.environ["NCCL_SOCKET_IFNAME"] = "ib0"
torch.distributed.init_process_group("nccl")
""",
        ),
    )
