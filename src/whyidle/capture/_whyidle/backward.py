"""Backward passes: BACKWARD for each call of `torch.autograd.backward`, which is what `Tensor.backward` calls.

`torch.autograd.grad` is not watched: models call it inside their forward.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import BACKWARD

# Backward passes under way, in all threads: modules that are called meanwhile are recomputed, not roots. A list, since
# threads may come and go at once, and a count that one of them loses would stay wrong for ever.
running: list[None] = []


def install(torch: Any) -> None:
    """Wrap `torch.autograd.backward`."""
    original = torch.autograd.backward
    is_compiling = hooks.compiling_test(torch)

    def backward(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        running.append(None)
        start = perf_counter_ns()
        try:
            hooks.goes_back(start, args, kwargs)
            return original(*args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        finally:
            record.put(BACKWARD, start, perf_counter_ns() - start)
            running.pop()

    hooks.replace(torch.autograd, "backward", backward)
    _tell_torchscript(torch, original)


def _tell_torchscript(torch: Any, original: Any) -> None:
    """TorchScript knows the functions that it has operators for by their ids: have it know ours, too."""
    builtins: Any = getattr(torch.jit, "_builtins", None)
    operator = dict(getattr(builtins, "_builtin_ops", ())).get(original)
    if operator is not None and hasattr(builtins, "_register_builtin"):
        wrapper = torch.autograd.backward
        builtins._register_builtin(wrapper, operator)
        hooks.on_restore(lambda: builtins._get_builtin_table().pop(id(wrapper), None))
