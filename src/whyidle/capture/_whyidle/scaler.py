"""Loss scaling: SCALE for each `GradScaler.update`, flagged where the optimizer's step was skipped.

Whether a step was skipped is known on the host without asking the device: GradScaler notes that it handled the
optimizer, and the optimizer's `step` was not called. An optimizer that checks for itself, on the device (fused), is
always called: then only a result that lies in the host's memory is read.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, optimizer, record
from _whyidle.ring import SCALE

SKIPPED = 1  # flag
MOST_SCALED = 8  # losses that are remembered with their scale
STEPPED = 2  # torch.amp.grad_scaler.OptState.STEPPED

# Scaled losses since the last update, with the scale where it is: on the device. Weak: a loss holds its graph.
scaled: deque[tuple[Any, Any]] = deque(maxlen=MOST_SCALED)


def install(module: Any) -> None:
    """Wrap `update` of the scaler classes of a module."""
    torch = module if module.__name__ == "torch" else None
    places = [module] if torch is None else [getattr(torch, "amp", None), getattr(torch.cuda, "amp", None)]
    for place in places:
        for name in ("GradScaler", "ShardedGradScaler"):
            scaler = getattr(place, name, None)
            if isinstance(scaler, type) and "update" in vars(scaler):
                _wrap(scaler)
                if record.options()["losses"]:
                    _wrap_scale(scaler)


def _wrap(scaler: Any) -> None:
    original = scaler.update
    is_compiling = hooks.compiling_test(sys.modules["torch"])

    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, *args, **kwargs)
        skipped = _skipped(self)
        start = perf_counter_ns()
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        scaled.clear()
        if skipped is not None:
            record.put(SCALE, start, perf_counter_ns() - start, 0, SKIPPED if skipped else 0)
        return result

    hooks.replace(scaler, "update", update)


def _wrap_scale(scaler: Any) -> None:
    """Remember which losses were multiplied by what; nobody asks the device for it."""
    if "scale" not in vars(scaler):
        return
    original = scaler.scale
    is_compiling = hooks.compiling_test(sys.modules["torch"])

    def scale(self: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(self, outputs, *args, **kwargs)
        try:
            result = original(self, outputs, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        try:
            if self._enabled and self._scale is not None:
                scaled.append((_weakly(result), self._scale))
        except Exception:
            record.note_error()
        return result

    hooks.replace(scaler, "scale", scale)


def _weakly(result: Any) -> Any:
    """Return a weak reference to a loss; of several losses at once, one to nothing: their scale is not looked for."""
    return weakref.ref(result) if hasattr(result, "backward") else _nothing


def _nothing() -> None:
    return None


def scale_of(loss: Any) -> Any:
    """Return by what a loss was multiplied: a tensor, None where it was not, ... where that is not known."""
    for known, scale in scaled:
        if known() is loss:
            return scale
    return ... if scaled else None


def _skipped(scaler: Any) -> bool | None:
    """Return whether an optimizer's step was skipped since the last update; None where the scaler is disabled."""
    try:
        if not scaler._enabled:
            return None
        stepped = set(optimizer.stepped_since_update)
        optimizer.stepped_since_update.clear()
        for key, state in scaler._per_optimizer_states.items():
            if getattr(state["stage"], "value", None) != STEPPED:
                continue
            if _found_on_host(state["found_inf_per_device"]):
                return True
            if key not in stepped and not _may_be_compiled(key):
                return True
    except Exception:
        record.note_error()
    return False


def _may_be_compiled(key: int) -> bool:
    """Return whether an optimizer's `step` may run without our seeing it, compiled: it was never seen to run."""
    if key in optimizer.seen_to_step:
        return False
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return bool(counters and counters.get("frames"))


def _found_on_host(found: Any) -> bool:
    """Return whether gradients were found infinite, as far as that is known without a synchronisation."""
    return any(device.type == "cpu" and bool(value.item()) for device, value in found.items())
