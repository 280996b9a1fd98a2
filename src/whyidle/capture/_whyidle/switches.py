"""Switches of torch that are not as the job's script has them: what `whyidle run --set torch:…` asks for.

They are set when torch was imported, and once more when training begins, over what the script set meanwhile; after the
third step it is noted whether they are in force. A model is compiled in place when it is first called to train: what
of it cannot be compiled is run as it is, and that is noted.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Callable

from _whyidle import apply, facts, forward, hooks, place, record

KIND = "torch"
DISTRIBUTED = ("DistributedDataParallel", "FullyShardedDataParallel")

_prepared: set[int] = set()  # numbers of modules
_without_graph: list[str] = []  # where modules are called of which nothing was compiled so far


def _tf32(torch: Any) -> bool:
    return bool(torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32)


def _set_tf32(torch: Any, on: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def _set_benchmark(torch: Any, on: bool) -> None:
    torch.backends.cudnn.benchmark = on


# name -> how it is read, how it is set
SWITCHES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "tf32": (_tf32, _set_tf32),
    "cudnn_benchmark": (lambda torch: bool(torch.backends.cudnn.benchmark), _set_benchmark),
    "matmul_precision": (
        lambda torch: torch.get_float32_matmul_precision(),
        lambda torch, value: torch.set_float32_matmul_precision(value),
    ),
    "threads": (lambda torch: torch.get_num_threads(), lambda torch, value: torch.set_num_threads(value)),
}


def install(torch: Any) -> None:
    """Set what was asked for, and see to it that it stays so when training begins."""
    wanted = apply.asked(KIND)
    if not wanted:
        return
    if wanted.get("compile") is False:
        _forbid_compiling()
    elif "compile" in wanted or wanted.get("channels_last"):
        forward.before_training(lambda module, number: _prepare(module, number, wanted))
    begun: list[bool] = []

    def begin(*_: Any) -> bool:
        if not begun:
            begun.append(True)
            _set(torch, wanted)
        return False

    _set(torch, wanted)
    hooks.after_iterate(begin)
    hooks.after_step(begin)


def check(torch: Any) -> None:
    """Note which switches are in force, now that the job trains."""
    wanted = apply.asked(KIND)
    for name, (read, _) in SWITCHES.items():
        if name not in wanted:
            continue
        try:
            now = read(torch)
        except Exception as error:
            record.pass_on()
            apply.note_failed(f"{KIND}:{name}", _told(error), "torch")
            continue
        if now == wanted[name]:
            apply.note(f"{KIND}:{name}", now, "torch")
        else:
            apply.note_failed(f"{KIND}:{name}", f"it is {apply.spelled(now)}: the job has set it", "torch")
    for where in _without_graph:
        apply.note_failed(f"{KIND}:compile", "torch.compile found nothing in it to compile", where)
    for name in ("compile", "channels_last"):
        if wanted.get(name) is False:
            apply.note(f"{KIND}:{name}", False, "torch")


def compiling_is_off() -> bool:
    """Return whether torch.compile was asked to do nothing."""
    return apply.asked(KIND).get("compile") is False


def _set(torch: Any, wanted: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if name in SWITCHES:
            try:
                SWITCHES[name][1](torch, value)
            except Exception:
                record.note_error(f"setting {name}")


def _forbid_compiling() -> None:
    """Have torch.compile do nothing, by its own variable."""
    os.environ["TORCHDYNAMO_DISABLE"] = os.environ["TORCH_COMPILE_DISABLE"] = "1"
    config = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.disable = True  # type: ignore[attr-defined]


def _prepare(module: Any, number: int, wanted: dict[str, Any]) -> None:
    """Change an outermost module before it is first called to train."""
    if number in _prepared or record._is_worker():
        return
    _prepared.add(number)
    torch = sys.modules["torch"]
    for name, change in (("channels_last", _to_channels_last), ("compile", _compile)):
        if not wanted.get(name):
            continue
        try:
            change(torch, module, wanted[name])
        except Exception as error:
            record.pass_on()
            apply.note_failed(f"{KIND}:{name}", _told(error), place.caller())


def _to_channels_last(torch: Any, module: Any, _on: bool) -> None:
    if type(module).__name__ in DISTRIBUTED:
        apply.note_failed(f"{KIND}:channels_last", "the model's gradients have their places already", place.caller())
        return
    if all(parameter.dim() != 4 for parameter in module.parameters()):
        apply.note_failed(f"{KIND}:channels_last", "the model has no weights of 4 dimensions", place.caller())
        return
    module.to(memory_format=torch.channels_last)
    apply.note(f"{KIND}:channels_last", True, place.caller())


def _compile(torch: Any, module: Any, mode: Any) -> None:
    where = place.caller()
    if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
        if mode is True:
            apply.note(f"{KIND}:compile", mode, where)
        else:
            apply.note_failed(f"{KIND}:compile", "the script compiles the model itself, in a mode of its own", where)
        return
    backend = _backend(torch, mode, where)
    if _is_passed_over(module):
        inline = importlib.import_module("torch._dynamo.external_utils").wrap_inline
        module._compiled_call_impl = torch.compile(inline(module._call_impl), backend=backend)
    else:
        module.compile(backend=backend)
    _without_graph.append(where)
    facts.add_setting("compile_mode", "default" if mode is True else mode, where)
    facts.add_setting("compile_backend", "inductor", where)


def _is_passed_over(module: Any) -> bool:
    """Return whether a module's class is torch's own (`nn.Sequential`), which is compiled inside other functions only.

    `torch.compile(module)` does the same for them; `module.compile()` does not.
    """
    return bool(importlib.import_module("torch._dynamo.trace_rules").check(module.forward))


def _backend(torch: Any, mode: Any, where: str) -> Any:
    """Return torch's compiler, but for what it fails at: that is run as it is, as the job would without it."""

    class Inductor(torch._TorchCompileInductorWrapper):  # type: ignore[misc]
        def __call__(self, graph: Any, inputs: Any, **options: Any) -> Any:
            try:
                made = super().__call__(graph, inputs, **options)
            except Exception as error:
                record.pass_on()
                apply.note_failed(f"{KIND}:compile", _told(error), where)
                del _without_graph[:]
                return graph.forward
            apply.note(f"{KIND}:compile", mode, where)
            del _without_graph[:]
            return made

    return Inductor(None if mode is True else mode, None, None)


def _told(error: Exception) -> str:
    return "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0])
