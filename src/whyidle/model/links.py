"""What the links of a GPU carry in a large collective: a table by model, with where each number comes from.

Bus bandwidth as nccl-tests defines it: bytes that each rank has to send over the time it takes, whatever the number of
ranks. Inside a node the links of the GPUs limit it, between nodes the network cards of a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whyidle.model.hardware import has

Bytes: TypeAlias = NDArray[np.float64]

GB = 1e9
MIB = 1 << 20
# Of what the links carry on paper, what a large all-reduce reaches. nccl-tests: 235 of 300 GB/s with 8 A100, 482 of 450
# with 8 H200 (the switch adds up), 846 of 900 with 8 B200, 313 of 448 with 8 MI300X, 37 of 50 over EFA: the least.
REACHED = 0.7
# s that a collective takes beside that, whatever its size: steps of the ring or the tree. nccl-tests, all-reduce of
# 16 ranks on two nodes: 0.6 ms with 1 MiB (aws-ofi-nccl#33, V100), 1.3 ms with 16 MiB and 0.85 more with 32: 0.5 to
# start (nccl#1453, H100). Inside a node of 8: 28 us with 1 MiB, and with 16 MiB 121 us, 28 more than at 315 GB/s
# (Mooncake#3484); 51 us with 1 MiB (B200). Taken several times as long, since the least is what is expected.
START_INSIDE, START_BETWEEN = 150e-6, 600e-6


@dataclass(frozen=True, slots=True)
class Links:
    """GB/s in one direction: of a GPU inside a node, and of the least of its usual nodes between them (0 not known)."""

    inside: float
    between: float
    source: str


# First match wins. PCIe: what 8 cards reach without peer-to-peer copies, since that is what many servers have; of
# PCIe 3 half of that. V100: pairs of GPUs in a DGX-1 or an AWS P3 have one or two of the six links between them.
_PCIE = 10.0 / REACHED
_PCIE3 = _PCIE / 2
_TABLE = (
    (has("A100", "PCIe"), Links(_PCIE, 0.0, "PCIe 4: 10-20 GB/s without peer-to-peer copies")),
    (has("H100", "(?:PCIe|NVL)"), Links(_PCIE, 0.0, "PCIe 5, of which PCIe 4 is the least")),
    (has("H200", "NVL"), Links(_PCIE, 0.0, "PCIe 5, of which PCIe 4 is the least")),
    (has("V100", "PCIE"), Links(_PCIE3, 0.0, "PCIe 3: half of PCIe 4")),
    (has("V100"), Links(25.0, 3.1, "NVLink 2, one link between two GPUs; AWS p3.16xlarge: 25 Gbit/s per node")),
    (has("T4"), Links(_PCIE3, 0.0, "PCIe 3: half of PCIe 4; networks of its instances differ by ten times")),
    (has("A100"), Links(300.0, 50.0, "NVLink 3; AWS P4d: 400 Gbit/s per node")),
    (has("H100"), Links(450.0, 100.0, "NVLink 4; GCP A3 High: 800 Gbit/s per node, others 1.6 to 3.2 Tbit/s")),
    (has("H200"), Links(450.0, 100.0, "NVLink 4; as H100")),
    (has("G?B[23]00"), Links(900.0, 100.0, "NVLink 5; as H100, others 3.2 Tbit/s and more")),
    (has("MI300X"), Links(448.0, 100.0, "Infinity Fabric; as H100")),
    (has("(?:A10|A10G|L4|L40|L40S|A6000|4090|3090|5090)"), Links(_PCIE, 0.0, "PCIe 4: as A100 PCIe")),
)


def links(gpu: str) -> Links | None:
    """Return what the links of a GPU of this name carry; None for a GPU not in the table."""
    return next((found for pattern, found in _TABLE if pattern.match(gpu)), None)


def expected_s(payload: Bytes, sends: Bytes, link: float, start: float) -> Bytes:
    """Return how long collectives should take, s: of so many bytes, of which each rank sends such a part, at GB/s."""
    return np.asarray(start + sends * payload / (link * REACHED * GB))
