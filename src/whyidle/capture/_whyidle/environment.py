"""Steps of reinforcement-learning environments (gymnasium, gym): ENVIRONMENT, for the outermost wrapper's step only.

Environments are wrapped in each other, and each class has its own `step`: each is watched as its class is made, and
only a step that is not part of another one is recorded.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import Any

from _whyidle import hooks, record
from _whyidle.ring import ENVIRONMENT

BASES = ("Env", "Wrapper", "VectorEnv", "VectorWrapper")


class _Thread(threading.local):
    inside = False


_thread = _Thread()


class _Step:
    """A step under way."""

    __slots__ = ("environments", "start")

    def __init__(self, environments: int) -> None:
        self.environments = environments
        self.start = perf_counter_ns()

    def end(self) -> None:
        """Record it."""
        record.put(ENVIRONMENT, self.start, perf_counter_ns() - self.start, self.environments)
        _thread.inside = False


def _begin(environment: Any) -> _Step | None:
    if _thread.inside:
        return None
    try:
        environments = int(getattr(environment, "num_envs", 1))
    except Exception:
        record.pass_on()
        environments = 1
    _thread.inside = True
    return _Step(environments)


def install(module: Any) -> None:
    """Watch the base classes of environments, and every class that will be derived from them."""
    for name in BASES:
        base = getattr(module, name, None)
        if isinstance(base, type) and base.__module__ == module.__name__:
            _watch(base)
            _watch_subclasses(base)


def _watch(kind: Any) -> None:
    step = vars(kind).get("step")
    if callable(step) and not hooks.is_ours(step):
        hooks.replace(kind, "step", hooks.gated(kind, "step", step, bool, _begin))


def _watch_subclasses(base: Any) -> None:
    if "__init_subclass__" in vars(base):  # a subclass of a base that is watched already, or one with its own ideas
        return

    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)
        try:
            _watch(cls)
        except Exception:
            record.note_error()

    base.__init_subclass__ = classmethod(__init_subclass__)  # type: ignore[arg-type]
    hooks.on_restore(lambda: delattr(base, "__init_subclass__"))
