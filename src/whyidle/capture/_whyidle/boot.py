"""Waits for the job to import torch, and only then loads what records it.

This runs in every Python process of the job, most of which never import torch: it imports nothing, reads no file, and
costs a dictionary look-up per import. A hook is named here by the module whose import it waits for.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Module of the job -> our modules whose `install(module)` is called as soon as it was imported.
HOOKS = {
    "torch": (
        *("loader_trial", "loader", "optimizer", "backward", "losses", "forward", "save", "scaler", "garbage"),
        *("switches", "settings", "gpu", "syncs", "profiler", "counters", "worker"),
    ),
    "torch.distributed.checkpoint.state_dict_saver": ("save",),
    "torch.distributed.fsdp.sharded_grad_scaler": ("scaler",),
    "torch._dynamo.utils": ("forward",),
    "torch._dynamo.callback": ("forward",),
    "torchdata.stateful_dataloader.stateful_dataloader": ("loader_trial", "loader", "settings"),
    "safetensors.torch": ("save",),
    "transformers.trainer": ("ranges",),
    "lightning.pytorch.loops.evaluation_loop": ("ranges",),
    "pytorch_lightning.loops.evaluation_loop": ("ranges",),
    "gymnasium.core": ("environment",),
    "gymnasium.vector.vector_env": ("environment",),
    "gym.core": ("environment",),
    "gym.vector.vector_env": ("environment",),
}
OPTIONAL = frozenset(("loader_trial", "losses"))  # of these modules, the ones that only an option of their name needs


class _Finder:
    """Finds nothing itself: it lets the others find, and asks to be told when a module of HOOKS was executed."""

    def __init__(self) -> None:
        self.busy: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in HOOKS or name in self.busy:
            return None
        self.busy.add(name)  # other finders may import, and would come here again
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    _tell(spec.loader, name)
                    return spec
        finally:
            self.busy.discard(name)
        return None


def _tell(loader: Any, name: str) -> None:
    """Have `loader` call us after it executed module `name`.

    A loader is made for each module, so its own attribute can stand in for its method, and deleting that leaves the
    real loader, which inspect, pickle and importlib.resources look at, as it was.
    """
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: Any) -> None:
        if getattr(module, "__name__", None) == name:  # else a loader that serves many modules
            vars(loader).pop("exec_module", None)
        try:
            execute(module)
        except BaseException as error:
            if error.__traceback__ is not None:  # this frame is none of the user's business
                error.__traceback__ = error.__traceback__.tb_next
            raise
        if getattr(module, "__name__", None) == name:
            _install(name, module)

    try:  # named so that `warnings` does not count the frame: what a module warns of is about who imports it
        exec_module.__code__ = exec_module.__code__.replace(co_filename="<whyidle, as importlib._bootstrap>")
        loader.exec_module = exec_module
    except Exception:  # a loader of an unusual kind: this module is then not watched
        pass


def _install(name: str, module: Any) -> None:
    """Install the hooks that waited for a module."""
    try:
        from _whyidle import hooks, record
    except Exception:
        return
    for hook in HOOKS[name]:
        try:
            if hook in OPTIONAL and not record.options()[hook]:
                continue
            __import__("_whyidle." + hook)
            sys.modules["_whyidle." + hook].install(module)
        except Exception:  # one hook less; the others may work
            record.note_error("hook %s of %s" % (hook, name))
    try:
        hooks.skip_compiling_package()
    except Exception:
        record.note_error("torch.compile")


def start(folder: str | None = None, options: dict[str, Any] | None = None) -> None:
    """Record this process from now on, or as soon as it imports torch. Starting twice does nothing.

    Args:
        folder: where the files go; None for what WHYIDLE_CAPTURE says.
        options: see `record.options`; None for what WHYIDLE_OPTIONS says.
    """
    if folder is not None:
        from _whyidle import record

        record.start(folder, options)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in HOOKS:
        module = sys.modules.get(name)
        if module is not None:
            _install(name, module)


def stop() -> None:
    """Record nothing more, and take the hooks out where nobody hooked on top of them."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    if "_whyidle.record" in sys.modules:
        from _whyidle import hooks, record

        record.stop()
        hooks.restore()
