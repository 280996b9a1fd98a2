"""What the model and its optimizer are set to: class, size, precision, and how it is distributed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Union

Value = Union[bool, int, float, str]
Seen = tuple[str, Value, str]

MOST_MODULES = 5000  # looked at for wrappers and checkpointing
MOST_PARAMETERS = 100_000

# of DistributedDataParallel: attribute -> setting
DDP = {
    "find_unused_parameters": "ddp_find_unused_parameters",
    "static_graph": "ddp_static_graph",
    "gradient_as_bucket_view": "ddp_gradient_as_bucket_view",
    "broadcast_buffers": "ddp_broadcast_buffers",
}
FSDP = {
    "sharding_strategy": "fsdp_sharding_strategy",
    "forward_prefetch": "fsdp_forward_prefetch",
    "backward_prefetch": "fsdp_backward_prefetch",
    "limit_all_gathers": "fsdp_limit_all_gathers",
}


def optimizer(instance: Any) -> Iterator[Seen]:
    """Yield an optimizer's class and the options that change its speed."""
    yield "optimizer", type(instance).__name__, "torch"
    groups = getattr(instance, "param_groups", None) or [{}]
    for name in ("foreach", "fused", "capturable"):
        value = groups[0].get(name)
        if value is not None:
            yield f"optimizer_{name}", bool(value), "torch"
    parameter = next((one for group in groups for one in group.get("params", ())), None)
    if parameter is not None:
        yield "param_dtype", str(parameter.dtype).replace("torch.", ""), "torch"
        yield "device", str(parameter.device), "torch"


def root(torch: Any, module: Any) -> Iterator[Seen]:
    """Yield what an outermost module is; nothing where none was seen."""
    if module is None:
        return
    inner = unwrapped(module)
    yield "model", f"{type(inner).__module__}.{type(inner).__qualname__}", "torch"
    parameters = list(itertools.islice(inner.parameters(), MOST_PARAMETERS))
    yield "parameters", sum(one.numel() for one in parameters), "torch"
    yield "parameters_trainable", sum(one.numel() for one in parameters if one.requires_grad), "torch"
    yield from wrappers(torch, module)


def unwrapped(module: Any) -> Any:
    """Return the user's model inside of what compiles or distributes it."""
    for _ in range(4):
        name = type(module).__name__
        if name == "OptimizedModule":
            module = module._orig_mod
        elif name in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"):
            module = module.module
        else:
            break
    return module


def wrappers(torch: Any, module: Any) -> Iterator[Seen]:
    """Yield how a module is distributed, and whether it recomputes activations."""
    sharded = getattr(getattr(getattr(torch, "distributed", None), "fsdp", None), "FSDPModule", None)
    found: set[str] = set()
    for part in itertools.islice(module.modules(), MOST_MODULES):
        name = type(part).__name__
        if sharded is not None and isinstance(part, sharded):
            name = "fully_shard"
        checkpoints = name == "CheckpointWrapper" or (getattr(part, "gradient_checkpointing", False) is True)
        if checkpoints and "checkpointing" not in found:
            found.add("checkpointing")
            yield "gradient_checkpointing", True, "torch"
        if name in found:
            continue
        found.add(name)
        if name in ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "fully_shard"):
            yield "wrapper", name, "torch"
            yield from _options(part, name)


def _options(part: Any, name: str) -> Iterator[Seen]:
    if name == "DistributedDataParallel":
        size = getattr(part, "bucket_bytes_cap", None)
        if isinstance(size, int):
            yield "ddp_bucket_cap_mb", size / 2**20, "torch"
    table = {"DistributedDataParallel": DDP, "FullyShardedDataParallel": FSDP}.get(name, {})
    for attribute, setting in table.items():
        value = getattr(part, attribute, None)
        if value is not None:
            yield setting, value if isinstance(value, bool) else str(value), "torch"
