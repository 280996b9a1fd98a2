"""Started by every Python of the job: arranges for the recording, then runs the sitecustomize that this one hides.

Must be cheap, must not raise of its own, and must leave no trace: the folder leaves `sys.path` again (children get it
from PYTHONPATH), and a sitecustomize of the user's is found and run as if this one were not there.
"""

from __future__ import annotations

import sys


def _start() -> None:
    """Arrange for the recording, where `whyidle run` asked for one."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))  # pathlib would cost every child 5 ms
    try:
        if os.environ.get("WHYIDLE_CAPTURE"):
            if here not in sys.path:
                sys.path.insert(0, here)
            from _whyidle import boot

            boot.start()
    except Exception:  # whatever it is, the job must start
        pass
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]


def _chain() -> None:
    """Run the sitecustomize that the job would have got; what it raises is Python's to report, as ever."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_chain()
