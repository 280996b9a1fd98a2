"""An accelerator for tests: asynchronous, in virtual time, computed by the CPU. See fakegpu.cpp.

Built when a test first asks for it, which takes 20 s, into a folder that is kept between runs.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import types
from pathlib import Path
from typing import Any

NAME = "whyidle_fakegpu"


def missing() -> str:
    """Return what is missing to build it; empty if nothing is."""
    if sys.platform != "linux":
        return "the fake accelerator is built on Linux only"
    if shutil.which("g++") is None and shutil.which("c++") is None:
        return "no C++ compiler to build the fake accelerator"
    return "" if shutil.which("ninja") else "no ninja to build the fake accelerator"


def load(folder: Path) -> Any:
    """Build it into `folder` unless it is there, and make it torch's accelerator `fakegpu`. Returns the C++ module."""
    import torch

    native = _built(folder, torch)
    torch.utils.rename_privateuse1_backend("fakegpu")
    torch._register_device_module("fakegpu", _device_module(torch))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return native


def _built(folder: Path, torch: Any) -> Any:
    """Return the C++ module, loaded from its library where that is newer than its source and of this torch."""
    source = Path(__file__).with_name("fakegpu.cpp")
    folder = folder / torch.__version__
    library = folder / f"{NAME}.so"
    if library.exists() and library.stat().st_mtime > source.stat().st_mtime:
        spec = importlib.util.spec_from_file_location(NAME, library)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    from torch.utils import cpp_extension  # which takes seconds

    folder.mkdir(parents=True, exist_ok=True)
    return cpp_extension.load(NAME, [str(source)], build_directory=str(folder), extra_cflags=["-O0"])


def _device_module(torch: Any) -> types.ModuleType:
    """Return what torch expects of `torch.fakegpu`."""
    module = types.ModuleType("torch.fakegpu")
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "_is_in_bad_fork": False,
        "get_amp_supported_dtype": [torch.float16, torch.bfloat16],
    }
    for name, answer in answers.items():
        setattr(module, name, lambda answer=answer: answer)
    module.manual_seed_all = lambda seed: None  # type: ignore[attr-defined]
    module.set_device = lambda device: None  # type: ignore[attr-defined]
    module.synchronize = lambda device=None: torch.accelerator.synchronize()  # type: ignore[attr-defined]
    return module
