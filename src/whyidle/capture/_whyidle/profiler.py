"""A few steps in mid-training recorded by torch.profiler, on the training thread, written in the background.

The user's own profiler comes first: there is no window while it runs or is about to, and one that starts inside our
window ends ours.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
import threading
import time
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

from _whyidle import facts, hooks, quiet, record

PROFILE = 8  # kind of record
START, STOP = 1, 2  # its flags
LONGEST_STEP_S = 30.0  # a longer step would make a window of minutes
MOST_EVENTS = 150_000  # stopping takes about 5 us for each: 44 to 86 ms for 16,000 on two shared CPUs
EVENTS_PER_NODE = 40  # of the autograd graph: its operators, nested ones, their backward, launches and kernels
LATE_S, LATE_STEPS = 2.0, 3  # a step that takes so much longer than the longest is an evaluation, or none at all
ATTEMPTS = 3  # where a step came late
PATIENCE = 500  # steps for which a window waits for the user's profiler to end
DEVICE_S = 5.0  # how long the end of the job waits for a device that still has work
EXPORT_S = 20.0  # how long it waits for the trace to be written


class Users:
    """The profilers that the job itself has prepared or started."""

    def __init__(self) -> None:
        self._running: weakref.WeakSet[Any] = weakref.WeakSet()
        self.ours = False  # while we start ours

    def watch(self, torch: Any, window: Window) -> None:
        """See the job's profilers come, from any of torch's ways to start one, and go."""
        module = torch.autograd.profiler
        prepare: Any = getattr(module.profile, "_prepare_trace", None)
        enable: Any = getattr(module, "_run_on_profiler_start", None)
        leave = module.profile.__exit__

        def _prepare_trace(profile: Any) -> Any:
            if not self.ours:
                window.give_way()
                self._running.add(profile)
            return prepare(profile)

        def __exit__(profile: Any, *args: Any) -> Any:
            self._running.discard(profile)
            return leave(profile, *args)

        def _run_on_profiler_start() -> Any:
            if not self.ours:
                window.give_way()
            return enable()

        if prepare is not None:
            hooks.replace(module.profile, "_prepare_trace", _prepare_trace)
            hooks.replace(module.profile, "__exit__", __exit__)
        if enable is not None:  # emit_nvtx and emit_itt as well
            hooks.replace(module, "_run_on_profiler_start", _run_on_profiler_start)

    def busy(self, torch: Any) -> bool:
        """Return whether the job has a profiler prepared or running, on any thread."""
        enabled = getattr(torch.autograd, "_profiler_enabled", None)
        return (
            bool(self._running)
            or (enabled is not None and bool(enabled()))
            or bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))
        )


class Window:
    """Waits, warms up, records and ends: goes on by one with each step of the anchor optimizer."""

    def __init__(self, torch: Any, steps: int, after: int, every_rank: bool) -> None:
        self._torch = torch
        self._options = (steps, after, every_rank)
        self._users = Users()
        self._users.watch(torch, self)
        self.reset()

    def reset(self) -> None:
        """Begin from the beginning, as in a forked child."""
        self._counts: Counter[int] = Counter()  # steps by id of optimizer
        self._anchor = 0
        self._seen = 0  # steps of the anchor
        self._longest = 0.0  # s
        self._last = 0.0  # time.monotonic() of the anchor's last step
        self._nodes = 0  # of the autograd graph, made by this thread until the anchor's last step
        self._nodes_per_step = 0
        self._profile: Any = None  # a torch.profiler profile: prepared, and recording if _first
        self._range: Any = None
        self._thread = 0
        self._first = 0  # step of the anchor after which the recording began
        self._recorded = 0  # steps
        self._want = self._options[0]
        self._after = self._options[1]
        self._put_off = 0
        self._attempts = 0
        self._until = 0.0  # time.monotonic() by which the next step is late
        self._device: Any = None  # of the anchor's parameters
        self._over = False
        self._export: threading.Thread | None = None
        self._spent = {"start_ms": 0.0, "stop_ms": 0.0}

    def step(self, _count: int, optimizer: Any) -> bool | None:
        """Go on by one step."""
        if self._over or not self._is_anchor(optimizer):
            return None
        try:
            self._measure_step()
            if self._profile is not None:
                self._go_on()
            elif self._seen >= self._after and not record.looking() and not self._capturing():
                self._begin(optimizer)
        except Exception:
            self._give_up()
            raise
        return None

    def still(self) -> None:
        """End where the next step does not come: a profiler must not go on through an evaluation, or for ever."""
        if self._profile is None or time.monotonic() < self._until or threading.get_ident() != self._thread:
            return
        if not self._capturing():
            try:
                self._stop("a step took far longer than those before")
            except Exception:
                self._give_up()
                raise

    def _give_up(self) -> None:
        """Leave no profiler of ours behind, whatever failed."""
        self._over = True
        if self._profile is None:
            return
        self._profile = self._range = None
        record.end_look()
        self._tell("failed", "torch.profiler failed: see errors.txt")
        autograd = self._torch.autograd
        if getattr(autograd, "_profiler_enabled", bool)():
            with quiet.quiet():
                autograd._disable_profiler()
        if getattr(autograd.profiler, "_is_profiler_enabled", False):
            autograd.profiler._run_on_profiler_stop()

    def _is_anchor(self, optimizer: Any) -> bool:
        """Return whether a step of this optimizer is a step of the training: of several, the one that steps most."""
        key = id(optimizer)
        if self._profile is None:
            self._counts[key] += 1
            if self._counts[key] > self._counts[self._anchor]:
                self._anchor = key
                self._last = 0.0
        return key == self._anchor

    def _measure_step(self) -> None:
        now = time.monotonic()
        count = getattr(self._torch._C._autograd, "_get_sequence_nr", None)
        nodes = count() if count is not None else 0
        if self._last:
            self._longest = now - self._last if self._seen < 5 else max(self._longest, now - self._last)
            self._nodes_per_step = nodes - self._nodes
        self._last, self._nodes = now, nodes
        self._seen = self._counts[self._anchor] if self._profile is None else self._seen + 1

    def _begin(self, optimizer: Any) -> None:
        """Prepare the profiler, for a step of warm-up, unless there is a reason not to."""
        if not record.recording() or (not self._options[2] and record._ranks()[0] not in (None, 0)):
            self._over = True
            return
        if self._users.busy(self._torch):
            self._put_off += 1
            if self._put_off > PATIENCE:
                self._skip("the job's own profiler was running")
            return
        why = self._obstacle()
        if why:
            self._skip(why)
            return
        self._thread = threading.get_ident()
        self._device = next((one.device for group in optimizer.param_groups for one in group["params"]), None)
        if not self._attempts:
            facts.at_end(self.finish)
        self._attempts += 1
        activities = list(self._torch.profiler.supported_activities())
        self._profile = self._torch.profiler._KinetoProfile(activities=activities)
        record.begin_look(self.still)
        self._timed(self._profile.prepare_trace, START)
        self._expect()

    def _expect(self) -> None:
        """Note until when the next step should have come."""
        self._until = time.monotonic() + LATE_S + LATE_STEPS * self._longest

    def _obstacle(self) -> str:
        """Return why there should be no window; empty if there should."""
        if threading.current_thread() is not threading.main_thread():
            return "the training does not run on the main thread"
        if self._longest > LONGEST_STEP_S:
            return f"steps take up to {self._longest:.0f} s"
        if any(name in os.environ for name in ("NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH")):
            return "another tool is attached to CUDA"
        expected = self._nodes_per_step * EVENTS_PER_NODE
        if expected > MOST_EVENTS:
            return f"a step makes about {expected:,} events"
        if expected:
            self._want = min(self._want, MOST_EVENTS // expected)
        return ""

    def _go_on(self) -> None:
        """Begin to record after the warm-up, mark each step, and end after the last."""
        if threading.get_ident() != self._thread or self._capturing():
            return
        if not self._first:
            self._timed(self._profile.start_trace, START)
            self._first = self._seen
            self._tell("recording")
        else:
            self._recorded += 1
            self._unmark()
            if self._recorded >= self._want or self._longest > LONGEST_STEP_S:
                self._stop()
                return
        self._range = self._torch.autograd.profiler.record_function(f"ProfilerStep#{self._seen}")
        self._range.__enter__()
        self._expect()

    def _unmark(self) -> None:
        mark, self._range = self._range, None
        if mark is not None:
            mark.__exit__(None, None, None)

    def give_way(self) -> None:
        """End our window: the job's own profiler is about to start."""
        try:
            if self._profile is not None and threading.get_ident() == self._thread:
                self._stop("the job's own profiler started")
        except Exception:
            record.note_error("giving way to the job's profiler")

    def finish(self) -> None:
        """End with the job. What was recorded so far is kept; a device that hangs is not waited for."""
        if self._profile is not None and threading.get_ident() == self._thread and self._device_is_done():
            self._stop("the job ended", background=False)  # no thread can start any more
        if self._export is not None:
            self._export.join(EXPORT_S)

    def _device_is_done(self) -> bool:
        """Return whether the device has no work left: the profiler would wait for it."""
        cuda = self._torch.cuda
        if not cuda.is_initialized():
            return True
        until = time.monotonic() + DEVICE_S
        while not cuda.current_stream().query():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def _stop(self, why: str = "", background: bool = True) -> None:
        """End the recording on this thread, and write it, on another if that can be, if it holds a whole step."""
        profile = self._profile
        self._over = True
        self._unmark()
        try:
            if not self._first:  # prepared: it ends only after it began
                self._timed(profile.start_trace, START)
            self._timed(profile.stop_trace, STOP)
        except Exception:
            self._give_up()
            raise
        self._profile = None
        record.end_look()
        if not self._recorded:
            self._skip(why)
            if time.monotonic() > self._until and self._attempts < ATTEMPTS:
                self._over, self._first, self._after = False, 0, self._seen + self._options[1]
            return
        self._tell("recording", why)
        if not background:
            self._write(profile, why)
            return
        self._export = threading.Thread(target=self._write, args=(profile, why), name="whyidle-export", daemon=True)
        self._export.start()

    def _write(self, profile: Any, why: str) -> None:
        """Write the trace under another name and rename it, so that there is never half a trace."""
        name = f"trace-rank{record._ranks()[0] or 0}-{record.identity()}.json.gz"
        plain = Path(record.folder(), name + ".json.tmp")
        packed = Path(record.folder(), name + ".tmp")
        began = time.monotonic()
        try:
            profile.export_chrome_trace(str(plain))
            _check(plain)
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
                shutil.copyfileobj(source, target, 1 << 20)
            packed.replace(packed.with_name(name))
            self._tell("done", why, trace=name, export_ms=1e3 * (time.monotonic() - began))
        except Exception:
            record.note_error("writing the trace")
            self._tell("failed", "the trace could not be written")
        finally:
            for path in (plain, packed):
                if path.exists():
                    path.unlink()
            facts.write(last=True)

    def _timed(self, call: Any, flag: int) -> None:
        """Call the profiler, and record how long that held the job up."""
        began = time.perf_counter_ns()
        self._users.ours = True
        try:
            with quiet.quiet(), self._on_device():
                call()
        finally:
            self._users.ours = False
            took = time.perf_counter_ns() - began
            self._spent["start_ms" if flag == START else "stop_ms"] += took / 1e6
            record.put(PROFILE, began, took, self._recorded, flag)

    def _on_device(self) -> Any:
        """Make the device that trains the current one: stopping synchronises that, and would make another a context."""
        if getattr(self._device, "type", "") != "cuda" or not self._torch.cuda.is_initialized():
            return contextlib.nullcontext()
        return self._torch.cuda.device(self._device)

    def _skip(self, why: str) -> None:
        self._over = True
        self._tell("skipped", why)

    def _tell(self, state: str, why: str = "", **more: Any) -> None:
        content = {"state": state, "why": why or None, "steps": self._recorded, "first_step": self._first or None}
        facts.set_section("profile", {**content, **self._spent, "export_ms": None, "trace": None, **more})
        facts.write()

    def _capturing(self) -> bool:
        """Return whether a CUDA graph is being captured, which a profiler must not interrupt."""
        cuda = self._torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _check(trace: Path) -> None:
    """Raise OSError for a trace that is cut short: on a full disk Kineto stops in the middle, and does not say so."""
    with trace.open("rb") as file:
        file.seek(max(trace.stat().st_size - 64, 0))
        if not file.read().rstrip().endswith(b"}"):
            raise OSError(errno.ENOSPC, "the trace is cut short", str(trace))


_window: Window | None = None


def install(torch: Any) -> None:
    """Record a window in this process, if it turns out to be one that was asked for."""
    global _window
    options = record.options()
    if not options["trace"] or options["trace_steps"] < 1 or not hasattr(torch, "profiler"):
        return
    if _window is None:
        _window = Window(torch, options["trace_steps"], max(1, options["trace_after"]), options["trace_ranks"] == "all")
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_window.reset)
    hooks.after_step(_window.step)
