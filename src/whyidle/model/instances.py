"""What rented machines are made of: instance types of AWS with the GPUs and CPUs that they have.

From the EC2 instance type pages as known in June 2025. SageMaker calls the same machines `ml.` and asks more for them;
what a GPU-hour costs is `hardware.list_price` of its name, a price of EC2. GPUs are named as NVIDIA's driver does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_SMALL: Final = {"xlarge": (1, 4), "2xlarge": (1, 8), "4xlarge": (1, 16), "8xlarge": (1, 32), "16xlarge": (1, 64)}
_G: Final = {**_SMALL, "12xlarge": (4, 48), "24xlarge": (4, 96), "48xlarge": (8, 192)}

# By family: the GPU, and by size (GPUs, vCPUs).
_FAMILIES: Final[dict[str, tuple[str, dict[str, tuple[int, int]]]]] = {
    "p2": ("Tesla K80", {"xlarge": (1, 4), "8xlarge": (8, 32), "16xlarge": (16, 64)}),
    "p3": ("Tesla V100-SXM2-16GB", {"2xlarge": (1, 8), "8xlarge": (4, 32), "16xlarge": (8, 64)}),
    "p3dn": ("Tesla V100-SXM2-32GB", {"24xlarge": (8, 96)}),
    "p4d": ("NVIDIA A100-SXM4-40GB", {"24xlarge": (8, 96)}),
    "p4de": ("NVIDIA A100-SXM4-80GB", {"24xlarge": (8, 96)}),
    "p5": ("NVIDIA H100 80GB HBM3", {"4xlarge": (1, 16), "48xlarge": (8, 192)}),
    "p5e": ("NVIDIA H200", {"48xlarge": (8, 192)}),
    "p5en": ("NVIDIA H200", {"48xlarge": (8, 192)}),
    "p6-b200": ("NVIDIA B200", {"48xlarge": (8, 192)}),
    "g4dn": ("Tesla T4", {**_SMALL, "12xlarge": (4, 48), "metal": (8, 96)}),
    "g5": ("NVIDIA A10G", _G),
    "g6": ("NVIDIA L4", _G),
    "gr6": ("NVIDIA L4", {"4xlarge": (1, 16), "8xlarge": (1, 32)}),
    "g6e": ("NVIDIA L40S", _G),
}


@dataclass(frozen=True, slots=True)
class Instance:
    """A type of machine with GPUs."""

    name: str  # of EC2: "p4d.24xlarge"
    gpu: str
    gpus: int
    vcpus: int


def instance(name: str) -> Instance | None:
    """Return the machine of an EC2 or SageMaker type ("ml.p4d.24xlarge"); None if it is not one with GPUs we know."""
    ec2 = name.strip().lower().removeprefix("ml.")
    family, _, size = ec2.partition(".")
    gpu, sizes = _FAMILIES.get(family, ("", {}))
    if size not in sizes:
        return None
    gpus, vcpus = sizes[size]
    return Instance(ec2, gpu, gpus, vcpus)
