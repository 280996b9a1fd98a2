"""Settings that a job was seen to use, and where: what docs/settings.md lists, as facts.

Loaders are seen when they are made and iterated; the rest is read once, after a few steps, when what the job sets up
is in force. Never a value that may hold a secret: of the environment only the names in ENVIRONMENT.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import weakref
from typing import Any

from _whyidle import apply, facts, forward, hooks, machine, model, place, record, switches

AFTER_STEPS = 3  # by then lazy modules have parameters, and warm-up code has run

ENVIRONMENT = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "TORCHELASTIC_RESTART_COUNT"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING"),
    *("CUDA_MODULE_LOADING", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "AMD_SERIALIZE_KERNEL"),
    *("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"),
    *("PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCH_DISTRIBUTED_DEBUG"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_PROC_BIND"),
    *("OMP_PLACES", "KMP_AFFINITY", "KMP_BLOCKTIME", "GOMP_CPU_AFFINITY", "TOKENIZERS_PARALLELISM"),
    *("NCCL_DEBUG", "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"),
    *("NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_GDR_LEVEL", "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS"),
    *("NCCL_NSOCKS_PERTHREAD", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    *("NCCL_CROSS_NIC", "NCCL_NVLS_ENABLE", "NCCL_BLOCKING_WAIT", "NCCL_LAUNCH_MODE", "TORCH_NCCL_BLOCKING_WAIT"),
    *("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_AVOID_RECORD_STREAMS", "TORCH_NCCL_HIGH_PRIORITY"),
    *("SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE", "SLURM_JOB_NUM_NODES"),
)

_made: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()  # loaders: where each was made
_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def install(torch: Any) -> None:
    """Watch where loaders are made, models compiled and autocast entered, and read the rest after a few steps."""
    if torch.__name__ != "torch":  # torchdata, whose loader does not call that of torch to make itself
        if "__init__" in vars(torch.StatefulDataLoader):
            _watch_loaders(torch.StatefulDataLoader)
        return
    _watch_loaders(torch.utils.data.DataLoader)
    _watch_compile(torch)
    _watch_autocast(torch)

    def read(_count: int, optimizer: Any) -> bool:
        steps[0] += 1
        if steps[0] < AFTER_STEPS:
            return True
        process(torch)
        switches.check(torch)
        site = place.of_user(sys._getframe())
        if site is not None and not place.is_library(site.f_code.co_filename):
            facts.add_setting("optimizer_site", place.text(site), place.text(site))
        for name, value, where in (*model.optimizer(optimizer), *model.root(torch, trained(optimizer))):
            facts.add_setting(name, value, where)
        facts.write()
        return False

    steps = [0]
    hooks.after_step(read)
    hooks.after_iterate(lambda number, dataloader, _frame: loader(dataloader, number))


def process(torch: Any) -> None:
    """Put in what holds for the process: versions, threads, precision, environment, who is tracing."""
    for name in ENVIRONMENT:
        if name in os.environ:
            facts.add_setting(name, os.environ[name], "environment")
    for name, value in (*machine.versions(torch), *machine.precision(torch), *machine.threads(torch)):
        if value is not None:
            facts.add_setting(name, value, "torch")
    for name, value in machine.affinity():
        facts.add_setting(name, value, "sched_getaffinity")
    facts.add_setting("tracing", machine.tracing(torch), "sys")
    accumulation = machine.accumulation()
    if accumulation is not None:
        facts.add_setting("gradient_accumulation", accumulation, "accelerate")


def loader(dataloader: Any, number: int) -> None:
    """Put in the arguments of a loader whose iteration begins. The number is the one that its records have."""
    try:
        if _numbers.get(dataloader) == number:
            return
        _numbers[dataloader] = number
        where = _made.get(dataloader) or place.caller()
        facts.add_loader(number, arguments(dataloader, where))
        apply.iterated(dataloader, where)
        facts.write()
    except Exception:
        record.note_error()


def trained(optimizer: Any) -> Any:
    """Return the outermost module whose parameters an optimizer changes; None where none was seen."""
    own = {id(one) for group in optimizer.param_groups for one in group["params"]}
    for reference, number in sorted(forward._known.values(), key=lambda known: known[1]):
        module = reference() if number >= 0 else None
        if module is not None and any(id(one) in own for one in module.parameters()):
            return module
    return None


def arguments(dataloader: Any, where: str) -> dict[str, Any]:
    """Return the arguments of a DataLoader as ID.facts.json has them; None is not known."""
    dataset = getattr(dataloader, "dataset", None)
    path = machine.dataset_path(dataset)
    get = functools.partial(getattr, dataloader)
    batch_size = get("batch_size", None)
    sampler = get("batch_sampler", None)
    iterable = is_iterable(dataloader)
    return {
        "where": where,
        "class": _class(dataloader),
        "dataset": _class(dataset) if dataset is not None else None,
        "dataset_path": path,
        "file_system": machine.file_system(path) if path else None,
        "batch_size": batch_size if batch_size is not None else getattr(sampler, "batch_size", None),
        "num_workers": get("num_workers", None),
        "pin_memory": get("pin_memory", None),
        "prefetch_factor": get("prefetch_factor", None),
        "persistent_workers": get("persistent_workers", None),
        "drop_last": get("drop_last", None),
        "start_method": start_method(dataloader),
        "sampler": _class(get("sampler", None)),
        "iterable": iterable,
        "length": None if iterable else _length(dataloader),
    }


def is_iterable(dataloader: Any) -> bool:
    """Return whether a loader's data set is one that is iterated, and not asked for indices."""
    return bool(getattr(dataloader, "_dataset_kind", 0) == 1)  # _DatasetKind.Iterable


def start_method(dataloader: Any) -> str | None:
    """Return how a loader starts its workers: fork, spawn or forkserver; None where it has none."""
    if not getattr(dataloader, "num_workers", 0):
        return None
    context = getattr(dataloader, "multiprocessing_context", None)
    if context is None:
        import multiprocessing

        return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    name = getattr(context, "_name", None)
    return str(name) if name else None


def _class(thing: Any) -> str | None:
    return None if thing is None else f"{type(thing).__module__}.{type(thing).__qualname__}"


def _length(dataloader: Any) -> int | None:
    """Return the batches of an epoch, as far as only torch's own code is asked.

    Not of a sampler of the user's: its length may be the result of drawing all batches, which costs time and moves the
    state of its random numbers. Not of iterable data sets: asking makes torch warn of a wrong answer later.
    """
    for name in ("sampler", "batch_sampler"):
        sampler = getattr(dataloader, name, None)
        if sampler is not None and not type(sampler).__module__.startswith("torch.utils.data."):
            return None
    try:
        return len(dataloader)
    except Exception:
        record.pass_on()
        return None


def _watch_loaders(cls: Any) -> None:
    """Make loaders as it was asked for, and remember where: the line to change is that one, not the loop's."""
    original = cls.__init__
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        call = apply.changed(signature, self, args, kwargs)
        try:
            if call is not None:
                try:
                    original(self, *call.args, **call.kwargs)
                except Exception:
                    apply.refused(self, call)
                    call = None
            if call is None:
                original(self, *args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise
        try:
            _made[self] = place.caller()
        except Exception:
            record.note_error()

    hooks.replace(cls, "__init__", __init__)


def _watch_compile(torch: Any) -> None:
    """See how torch.compile is asked to compile."""
    original = getattr(torch, "compile", None)
    if original is None:
        return

    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001 -- it is called so
        if not hooks.is_compiling() and not switches.compiling_is_off():
            try:
                _add_compile(kwargs)
            except Exception:
                record.note_error()
        try:
            return original(*args, **kwargs)
        except BaseException as error:
            hooks.hide(error)
            raise

    hooks.replace(torch, "compile", compile)


def _add_compile(kwargs: dict[str, Any]) -> None:
    where = place.caller()
    facts.add_setting("compile", True, where)
    facts.add_setting("compile_mode", str(kwargs.get("mode") or "default"), where)
    backend = kwargs.get("backend", "inductor")
    facts.add_setting("compile_backend", backend if isinstance(backend, str) else _class(backend) or "", where)
    for name in ("fullgraph", "dynamic"):
        if kwargs.get(name) is not None:
            facts.add_setting(f"compile_{name}", bool(kwargs[name]), where)


def _watch_autocast(torch: Any) -> None:
    """See the dtype of the first autocast region."""
    cls = getattr(getattr(torch, "amp", None), "autocast_mode", None)
    cls = getattr(cls, "autocast", None)
    if cls is None:
        return
    original = cls.__enter__
    seen: list[bool] = []

    def __enter__(self: Any) -> Any:
        if not seen and not hooks.is_compiling() and getattr(self, "_enabled", False):
            seen.append(True)
            try:
                dtype = str(getattr(self, "fast_dtype", "")).replace("torch.", "")
                facts.add_setting("autocast_dtype", dtype, place.caller(), str(getattr(self, "device", "")))
            except Exception:
                record.note_error()
        return original(self)

    hooks.replace(cls, "__enter__", __enter__)
