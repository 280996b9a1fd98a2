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
# A collective of this size reaches half of that. nccl-tests: between four nodes of 8 B200 5.4 GB/s with 1 MiB and 362
# with 1 GiB of 382, inside one 36 with 1 MiB and 723 with 1 GiB of 846: 57 to 174 MiB by the larger size.
HALF_SPEED = 64 * MIB


@dataclass(frozen=True, slots=True)
class Links:
    """GB/s in one direction: of a GPU inside a node, and of the least of its usual nodes between them (0 not known)."""

    inside: float
    between: float
    source: str


# First match wins. PCIe: what 8 cards reach without peer-to-peer copies, since that is what many servers have.
_PCIE = 10.0 / REACHED
_TABLE = (
    (has("A100", "PCIe"), Links(_PCIE, 0.0, "PCIe 4: 10-20 GB/s without peer-to-peer copies")),
    (has("H100", "(?:PCIe|NVL)"), Links(_PCIE, 0.0, "PCIe 5, of which PCIe 4 is the least")),
    (has("H200", "NVL"), Links(_PCIE, 0.0, "PCIe 5, of which PCIe 4 is the least")),
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


def expected_s(payload: Bytes, sends: Bytes, link: float) -> Bytes:
    """Return how long collectives should take, s: of so many bytes, of which each rank sends such a part, at GB/s."""
    return np.asarray(sends * (payload + HALF_SPEED) / (link * REACHED * GB))
