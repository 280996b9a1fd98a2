"""Started by every Python of the job: arranges for the recording, then runs the sitecustomize that this one hides.

Must be cheap, must not raise of its own, and must leave no trace: the folder leaves `sys.path` again (children get it
from PYTHONPATH), and a sitecustomize of the user's is found and run as if this one were not there. A job may start
Pythons that are far older than those that are recorded, so this file is one that every Python understands.
"""

import sys


def _start():  # type: ignore[no-untyped-def]
    """Arrange for the recording, where `whyidle run` asked for one."""
    import os

    here = os.path.dirname(os.path.abspath(__file__))  # pathlib would cost every child 5 ms
    try:
        if os.environ.get("WHYIDLE_CAPTURE") and sys.version_info >= (3, 9):
            if here not in sys.path:
                sys.path.insert(0, here)
            from _whyidle import boot

            boot.start()
    except Exception:  # whatever it is, the job must start
        pass
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != here]  # entries are absolute by now


def _chain():  # type: ignore[no-untyped-def]
    """Run the sitecustomize that the job would have got; what it raises is Python's to report, as ever."""
    if sys.version_info < (3, 5):  # noqa: UP036 - it may be run by any
        return _chain_in_old_python()
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return None
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
    return None


def _chain_in_old_python():  # type: ignore[no-untyped-def]
    import imp

    try:
        found = imp.find_module("sitecustomize", sys.path)
    except ImportError:
        return
    imp.load_module("sitecustomize", *found)  # type: ignore[arg-type]


_start()  # type: ignore[no-untyped-call]
_chain()  # type: ignore[no-untyped-call]
