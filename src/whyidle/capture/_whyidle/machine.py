"""What holds for the whole process: versions, precision, threads, CPUs, who is tracing it, where its data lies."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Union

from _whyidle import record

Value = Union[bool, int, float, str]
Named = tuple[str, Optional[Value]]

PATHS: tuple[str, ...] = (
    "root",
    "path",
    "data_dir",
    "data_path",
    "data_root",
    "root_dir",
    "folder",
    "directory",
    "dir",
    "dirname",
)
PATHS += ("img_dir", "image_dir", "image_folder", "file", "filename", "file_path", "filepath", "h5_path", "url", "urls")
LISTS = ("samples", "imgs", "files", "file_list", "paths", "image_paths", "img_paths", "filenames", "data_files")
INSIDE = ("dataset", "datasets", "_dataset", "ds", "data")  # where a data set keeps another one
DEEPEST = 4


def versions(torch: Any) -> Iterator[Named]:
    """Yield the versions of what computes, and why there is no CUDA."""
    yield "python", sys.version.split()[0]
    yield "torch_version", str(torch.__version__)
    yield "cuda", getattr(torch.version, "cuda", None)
    yield "hip", getattr(torch.version, "hip", None)
    available = cuda_available(torch)
    yield "cuda_available", available
    if not available:
        yield "cuda_why_not", _why_no_cuda(torch) if available is False else None
        return
    yield "cudnn", _asked(torch.backends.cudnn.version)
    if torch.cuda.is_initialized():
        yield "nccl", _asked(lambda: ".".join(str(part) for part in torch.cuda.nccl.version()))


def cuda_available(torch: Any) -> bool | None:
    """Return whether torch could compute on a GPU here, None where that cannot be told without starting the driver.

    A started driver would break children that the job forks later, so `torch.cuda.is_available` is not asked.
    """
    if torch.cuda.is_initialized():
        return True
    if getattr(torch.version, "cuda", None) is None and getattr(torch.version, "hip", None) is None:
        return False
    count = _asked(lambda: torch.cuda._device_count_nvml())  # noqa: PLW0108 -- not every version has it
    return None if count is None or count < 0 else count > 0


def precision(torch: Any) -> Iterator[Named]:
    """Yield what decides how exactly, and so how fast, the GPU computes."""
    yield "matmul_precision", _asked(torch.get_float32_matmul_precision)
    yield "tf32_matmul", _asked(lambda: bool(torch.backends.cuda.matmul.allow_tf32))
    yield "tf32_cudnn", _asked(lambda: bool(torch.backends.cudnn.allow_tf32))
    yield "cudnn_benchmark", _asked(lambda: bool(torch.backends.cudnn.benchmark))
    yield "cudnn_deterministic", _asked(lambda: bool(torch.backends.cudnn.deterministic))
    yield "deterministic", _asked(torch.are_deterministic_algorithms_enabled)
    yield "default_dtype", _asked(lambda: str(torch.get_default_dtype()).replace("torch.", ""))


def threads(torch: Any) -> Iterator[Named]:
    """Yield how many threads PyTorch may use in this process."""
    yield "torch_threads", _asked(torch.get_num_threads)
    yield "torch_interop_threads", _asked(torch.get_num_interop_threads)
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and _asked(lambda: distributed.is_available() and distributed.is_initialized()):
        yield "distributed_backend", _asked(lambda: str(distributed.get_backend()))
        yield "world_size", _asked(distributed.get_world_size)


def affinity() -> Iterator[tuple[str, Value]]:
    """Yield the CPUs on which this process may run: how many, and which."""
    if hasattr(os, "sched_getaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        yield "cpus_allowed", len(cpus)
        yield "affinity", ranges(cpus)


def ranges(numbers: list[int]) -> str:
    """Return whole numbers in order as Linux lists CPUs: `0-3,8`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1][-1:] = [number] if len(parts[-1]) > 1 else [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(str(number) for number in part) for part in parts)


def tracing(torch: Any) -> str:
    """Return what looks at every line or call of the job, by name; empty if nothing does."""
    found = []
    tracer = sys.gettrace()
    if "pydevd" in sys.modules and tracer is not None:
        found.append("debugger (pydevd)")
    elif tracer is not None:
        found.append("coverage" if "coverage" in type(tracer).__module__ else "sys.settrace")
    if sys.getprofile() is not None:
        found.append("sys.setprofile")
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        tools = [monitoring.get_tool(number) for number in range(6)]
        found += [
            f"sys.monitoring ({name})"
            for number, name in enumerate(tools)
            if name is not None and monitoring.get_events(number)
        ]
    if _asked(torch.is_anomaly_enabled):
        found.append("torch.autograd anomaly detection")
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        found.append("CUDA_LAUNCH_BLOCKING")
    return ", ".join(found)


def accumulation() -> int | None:
    """Return over how many batches accelerate accumulates gradients; None where it is not in use."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    shared = getattr(state, "_shared_state", None) or {}
    steps = (shared.get("plugin_kwargs") or {}).get("num_steps")
    return steps if isinstance(steps, int) else None


def dataset_path(dataset: Any) -> str | None:
    """Return a path of a data set that exists on this machine, None if none was found."""
    for _ in range(DEEPEST):
        if dataset is None:
            return None
        own = getattr(dataset, "__dict__", {})
        for name in (*PATHS, *LISTS):
            path = _existing(own.get(name))
            if path is not None:
                return path
        inner = next(
            (own[name] for name in INSIDE if hasattr(own.get(name), "__dict__") or _first(own.get(name))), None
        )
        dataset = inner if hasattr(inner, "__dict__") else _first(inner)
    return None


def file_system(path: str) -> str | None:
    """Return the type of the file system that holds a path, as /proc/self/mountinfo calls it."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        real = os.path.realpath(path)
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts on one point the later is seen
            best, kind = point, after.split()[0]
    return kind


def _existing(value: Any) -> str | None:
    """Return a path that exists, of a value that is one or holds some: the folder of a listed file."""
    listed = isinstance(value, (list, tuple))
    if listed:
        value = _first(value)
        value = value[0] if isinstance(value, tuple) and value else value
    if not isinstance(value, (str, os.PathLike)) or not str(value) or len(str(value)) > 4096:
        return None
    try:
        path = Path(value)
        if not path.exists():
            return None
        return str((path.parent if listed else path).absolute())
    except (OSError, ValueError):
        return None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) and value else None


def _why_no_cuda(torch: Any) -> str:
    if getattr(torch.version, "cuda", None) is None and getattr(torch.version, "hip", None) is None:
        return "this build of torch is for the CPU only"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every GPU"
    if not Path("/dev/nvidiactl").exists() and not Path("/dev/kfd").exists():
        return "no driver here: /dev/nvidiactl does not exist"
    return "the driver did not start: run nvidia-smi"


def _asked(question: Any) -> Any:
    """Return an answer of torch; None where this version does not know, or will not say."""
    try:
        return question()
    except Exception:
        record.pass_on()
        return None
