"""`whyidle loader`, inside the training process: its loader is measured alone, then the training without its loader.

When the training's DataLoader is first iterated, forked children measure loaders like it, one child for each number of
workers, while the training waits. Then the training goes on: some batches as it is, then as many in which a few
batches that it had are handed out again and again. What a step takes then is what it takes without loading. Then the
process ends at once, so that nothing that the script does at its end (saving a model) is done.

ID.loader.json has the results; it is written anew after each of them.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import os
import signal
import statistics
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, NoReturn

from _whyidle import evaluation, facts, hooks, loader_child, optimizer, place, record, settings
from _whyidle import loader as loaders

KEPT = 4  # batches that are handed out again and again
WARM_UP = 3  # batches of each part that do not count, beside those that workers made ahead
LEAST = 5  # batches of a part
LEAST_S = 2.0  # of a part whose steps are short: what disturbs a machine lasts longer than some of these
PATIENCE = 5.0  # times the time of a part: then fewer batches than LEAST have to do
MOST_LISTED = 64  # loaders
NAMES = {"now": "as it is", "cached": "with batches that it had"}

_trial: Trial | None = None


def install(module: Any) -> None:
    """Hook the iterators of torch, below the hooks of `loader`, or the loader of torchdata."""
    global _trial
    chosen = record.options().get("loader_trial")
    if not isinstance(chosen, dict) or record._is_worker():
        return
    if _trial is None:
        _trial = Trial(chosen)
        optimizer.after_making(_trial.optimizer_made)
        facts.at_end(_trial.script_ended)
    if module.__name__ == "torch":
        dataloader = sys.modules["torch.utils.data.dataloader"]
        _hook_iter(dataloader.DataLoader, _trial)
        _hook_next(dataloader._BaseDataLoaderIter, _trial)
    elif "__iter__" in vars(module.StatefulDataLoader):
        _hook_iter(module.StatefulDataLoader, _trial)


def _hook_iter(kind: Any, trial: Trial) -> None:
    original = kind.__iter__

    def __iter__(self: Any) -> Any:
        hook = sys._getframe(1)  # of `loader`; the one behind it iterates
        trial.iterates(self, hook.f_back or hook)
        return original(self)

    hooks.replace_same(kind, "__iter__", __iter__)


def _hook_next(kind: Any, trial: Trial) -> None:
    original = kind.__next__

    def __next__(self: Any) -> Any:
        return trial.next(self, original)

    hooks.replace_same(kind, "__next__", __next__)


class Part:
    """Steps of the training: the times from one batch to the next."""

    def __init__(self, warm_up: int, least_s: float, seconds: float) -> None:
        self.warm_up = warm_up  # batches; it ends after `seconds`, too
        self.least_s = least_s
        self.seconds = seconds
        self.given = 0
        self._counts = False
        self.times: list[float] = []  # s
        self.optimizer_steps = 0
        self._began = monotonic()
        self._last: float | None = None

    def took(self, synchronize: Any) -> None:
        """A batch is handed out."""
        self.given += 1
        if not self._counts:
            if self.given <= self.warm_up and monotonic() - self._began < self.seconds:
                return
            synchronize()  # what a GPU has still to do of the warm-up counts for the warm-up
            self._counts = True
            self._began = monotonic()
            self.optimizer_steps = hooks.steps
        now = perf_counter()
        if self._last is not None:
            self.times.append(now - self._last)
        self._last = now

    def interrupted(self) -> None:
        """Leave out the step that is under way: something else happens in it."""
        self._last = None

    def is_over(self, steps: int) -> bool:
        """Return whether it has as many steps as were asked for, or as many as are enough after its time."""
        count, took = len(self.times), monotonic() - self._began
        if count >= steps:
            return took >= self.least_s
        return took >= self.seconds * (1 if count >= LEAST else PATIENCE) and count > 0

    def content(self, synchronize: Any) -> dict[str, Any]:
        """Return what ID.loader.json says of it; waits for the GPU, whose work belongs to these steps."""
        waiting = perf_counter()
        synchronize()
        left = perf_counter() - waiting
        return {
            "steps": len(self.times),
            "mean_s": (sum(self.times) + left) / len(self.times) if self.times else None,
            "median_s": statistics.median(self.times) if self.times else None,
            "optimizer_steps": hooks.steps - self.optimizer_steps,
        }


class Trial:
    """What is tried in this process, and what came of it."""

    def __init__(self, chosen: dict[str, Any]) -> None:
        self._wanted = chosen.get("loader")
        self._plan = loader_child.Plan(chosen)
        self._steps = int(chosen.get("steps") or 0)  # 0: the training is not tried
        self._seconds = float(chosen.get("train_seconds") or 60.0)
        self._pid = os.getpid()
        self._optimizers = 0
        self._number: int | None = None  # of the loader that is tried
        self._numbers: set[int] = set()  # of it, and of those that are made like it for later epochs
        self._epochs: set[int] = set()  # loaders of which the training began an epoch, while another is waited for
        self._looks: tuple[Any, ...] = ()
        self._ahead = 0  # batches that its workers make ahead
        self._listed: dict[int, dict[str, Any]] = {}
        self._content: dict[str, Any] = {"version": 1, "pid": self._pid, "state": "looking", "why": ""}
        self._part: Part | None = None
        self._name = ""  # of the part
        self._kept: list[Any] = []
        self._peer: Peer | None = None  # this is another rank than the one that tries
        self._given: dict[int, int] = {}  # batches, by loader
        self._is_done = False
        self._is_stopped = False  # by Ctrl-C

    def optimizer_made(self) -> None:
        """Training is about to begin."""
        self._optimizers += 1

    def iterates(self, loader: Any, frame: Any) -> None:
        """Try a loader of which an epoch begins, if it is the training's; the first time only."""
        if os.getpid() != self._pid or hooks.is_compiling() or record._is_worker():
            return
        number = loaders.number_of(loader, frame)
        if self._part is not None:
            self._part.interrupted()
        if self._number is not None:
            if loaders.looks_of(loader, frame) == self._looks and not self._is_other(frame):
                self._numbers.add(number)
            return
        if self._peer is not None:
            return
        if record._ranks()[0] not in (None, 0):
            self._peer = Peer()
            return
        try:
            self._consider(loader, number, frame)
        except KeyboardInterrupt:
            self._stopped("while its loader was measured")
        except Exception as error:
            self._content.update(state="failed", why="%s: %s" % (type(error).__name__, error))
            record.note_error("trying the loader")
            self._write()
            self._leave()

    def _consider(self, loader: Any, number: int, frame: Any) -> None:
        """Try a loader if it is the one; end where the one that was asked for does not come."""
        why = self._not_this(number, frame)
        self._list(loader, number, why)
        if not why:
            self._number = number
            self._numbers.add(number)
            self._looks = loaders.looks_of(loader, frame)
            self._ahead = (loader.num_workers or 0) * (loader.prefetch_factor or 0)
            self._try(loader)
        elif self._wanted is not None and self._is_again(number, frame):
            self._content.update(state="ended", why="a second epoch of the training began without it")
            self._write()
            self._leave()

    def _not_this(self, number: int, frame: Any) -> str:
        """Return why a loader is not taken for the training's; empty if it is."""
        if self._wanted is not None:
            return "" if number == self._wanted else "another one was asked for"
        return self._is_other(frame) or ("" if self._optimizers else "there is no optimizer yet")

    def _is_again(self, number: int, frame: Any) -> bool:
        """Return whether an epoch of the training begins that is not the first, and no loader is left to come."""
        if not self._optimizers or self._is_other(frame):
            return False
        again = number in self._epochs
        self._epochs.add(number)
        return again and not any(loaders.is_new(loader) for loader in list(settings._made))

    def _is_other(self, frame: Any) -> str:
        """Return by what an iteration is seen to be none of the training's; empty where nothing says so."""
        if not sys.modules["torch"].is_grad_enabled():
            return "gradients are off, as in an evaluation"
        user = place.of_user(frame)
        while frame is not None:
            name = frame.f_code.co_name
            if evaluation.is_named_in(name):
                return "it is iterated in %s()" % name
            if frame is user:
                break
            frame = frame.f_back
        return ""

    def _list(self, loader: Any, number: int, why: str) -> None:
        if number not in self._listed and len(self._listed) < MOST_LISTED:
            where = settings._made.get(loader) or place.caller()
            self._listed[number] = {"loader": number, **settings.arguments(loader, where), "skipped": why}
            self._write()

    def _try(self, loader: Any) -> None:
        """Measure a loader alone; the training follows."""
        cuda = sys.modules["torch"].cuda
        self._content.update(
            state="measuring",
            loader=self._number,
            cuda_initialized=bool(cuda.is_initialized()),
            local_ranks=int(os.environ.get("LOCAL_WORLD_SIZE") or 1),
            **loader_child.room(),
        )
        self._write()
        with self._interruptible():
            self._plan.run(loader, self._show)
        if not self._steps:
            self._content["state"] = "done"
            self._write()
            self._leave()
        self._content["state"] = "training"
        self._write()
        self._begin("now")

    def _show(self, found: dict[str, Any]) -> None:
        """Write down what was found so far."""
        self._content.update(found)
        self._write()
        if self._is_stopped:
            raise KeyboardInterrupt

    def _begin(self, name: str) -> None:
        ahead = self._ahead if name == "now" else 0
        self._name, self._part = name, Part(WARM_UP + ahead, min(LEAST_S, self._plan.seconds), self._seconds)
        if name == "cached" and record._ranks()[1] not in (None, 1):
            facts.replace(_marker(), {"loader": self._number})

    def next(self, iterator: Any, original: Any) -> Any:
        """Return the next batch of an iterator: its own, or one that the training had."""
        if os.getpid() != self._pid:
            return original(iterator)
        if self._peer is not None:
            return self._peer.next(iterator, original)
        number, part = _number_of(iterator), self._part
        if part is None or number not in self._numbers:
            batch = original(iterator)
        else:
            try:
                batch = self._batch(part, iterator, original)
            except KeyboardInterrupt:
                self._stopped("after %d steps %s" % (len(part.times), NAMES[self._name]))
        self._given[number] = self._given.get(number, 0) + 1
        return batch

    def _batch(self, part: Part, iterator: Any, original: Any) -> Any:
        """Return a batch for the part that is under way, which may end with it."""
        if self._is_done:
            self._leave()
        if self._name == "now":
            try:
                batch = original(iterator)
            except StopIteration:
                if len(part.times) < min(LEAST, self._steps):
                    raise
                self._end(part)  # this epoch may be the last: it goes on with batches that it had
                assert self._part is not None
                return self._batch(self._part, iterator, original)
            self._kept = [*self._kept, again(batch)][-KEPT:]
        else:
            batch = again(self._kept[part.given % len(self._kept)])
        part.took(self._synchronize)
        if part.is_over(self._steps):
            self._end(part)
        return batch

    def _end(self, part: Part) -> None:
        self._keep(part, self._synchronize)
        if self._name == "now":
            self._begin("cached")
            self._write()
            return
        self._content["state"] = "done"
        self._write()
        if record._ranks()[1] in (None, 1):
            self._leave()
        # The others have this batch already, and wait in its step for ours: all leave instead of having the next.
        self._is_done = True
        facts.replace(_marker(), {"loader": self._number, "batches": self._given.get(self._number or 0, 0) + 1})

    def _keep(self, part: Part, synchronize: Any) -> None:
        training = self._content.setdefault("training", {"now": None, "cached": None})
        training[self._name] = part.content(synchronize)

    def _break_off(self, part: Part) -> None:
        """Keep a part that did not come to its end, if it has steps enough."""
        if len(part.times) >= LEAST:
            self._keep(part, lambda: None)

    def script_ended(self) -> None:
        """The script ended before we ended it: write down what there is."""
        if os.getpid() != self._pid or self._content["state"] in ("done", "failed"):
            return
        if self._peer is not None or (not self._listed and record._is_child()):
            return  # another rank tries, or a child that did not train
        why = "the script ended by itself before a DataLoader of a training was iterated"
        if self._wanted is not None:
            why = "the script ended by itself"
        if self._part is not None:
            steps = len(self._part.times)
            why = "the script ended by itself after %d steps %s" % (steps, NAMES[self._name])
            self._break_off(self._part)
        elif self._number is not None:
            why = "the script ended by itself while its loader was measured"
        self._content.update(state="ended", why=why)
        self._write()

    def _synchronize(self) -> None:
        """Wait for the GPU, where the process uses one."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_initialized():
            cuda.synchronize()

    def _write(self) -> None:
        self._content["loaders"] = [self._listed[number] for number in sorted(self._listed)]
        try:
            facts.replace(Path(record.folder(), record.identity() + ".loader.json"), self._content)
        except OSError:  # a full disk
            record.note_error("what the loader gives")

    def _stopped(self, when: str) -> NoReturn:
        """End as Ctrl-C ends a process, but without a traceback through our frames; what was found is written."""
        if self._part is not None:
            self._break_off(self._part)
        self._content.update(state="ended", why="it was stopped %s" % when)
        self._write()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._leave(signal.SIGINT)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Have Ctrl-C end a measurement, whatever the script makes of it."""
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
            yield
            return

        def stop(_number: int, _frame: Any) -> NoReturn:
            self._is_stopped = True  # callbacks of forks and of the garbage collector lose what they raise
            raise KeyboardInterrupt

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _leave(self, number: int | None = None) -> NoReturn:
        if record._ranks()[1] in (None, 1):
            with contextlib.suppress(OSError):  # there is none
                _marker().unlink()
        leave(number)


class Peer:
    """Another rank of the job: it takes batches that it had while rank 0 does, since ranks wait for each other.

    Ranks of other machines do not see the marker, and load as ever.
    """

    def __init__(self) -> None:
        self._kept: dict[int, list[Any]] = {}  # by loader
        self._given: dict[int, int] = {}  # batches, by loader

    def next(self, iterator: Any, original: Any) -> Any:
        """Return the next batch of an iterator; end instead where rank 0 is done."""
        number = _number_of(iterator)
        kept, given = self._kept.get(number, []), self._given.get(number, 0)
        told = self._told(number)
        if told is not None and given >= told.get("batches", given + 1):
            leave()
        if kept and told is not None:
            batch = again(kept[given % len(kept)])
        else:
            batch = original(iterator)
            self._kept[number] = [*kept, again(batch)][-KEPT:]
        self._given[number] = given + 1
        return batch

    def _told(self, number: int) -> dict[str, Any] | None:
        """Return what rank 0 says while it has batches of this loader that it had; None before."""
        try:
            told = json.loads(_marker().read_text(encoding="utf-8"))
            return told if told["loader"] == number else None
        except (OSError, ValueError, KeyError):
            return None


def leave(number: int | None = None) -> NoReturn:
    """End the process: neither what follows in the script nor what it registered for its end is run.

    Args:
        number: the signal by which it ends; None ends it well.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # it may be closed, or of the script's own kind
                stream.flush()
        for iterator in _with_workers():
            iterator._shutdown_workers()
    finally:  # the training must not go on, whatever they raise
        if number is not None:
            os.kill(os.getpid(), number)
        os._exit(0)


def _number_of(iterator: Any) -> int:
    """Return the number of the loader whose iterator this is."""
    return int(getattr(iterator, "_whyidle", (loaders.LAST,))[0])


def _marker() -> Path:
    """Return the file that is there while rank 0 has batches that it had; of several ranks, it stays there."""
    return Path(record.folder(), "loader.cached")


def again(batch: Any) -> Any:
    """Return a batch whose containers are its own, so that a training which takes entries out has them next time."""
    kind = type(batch)
    if kind is dict:
        return {key: again(value) for key, value in batch.items()}
    if kind is list:
        return [again(value) for value in batch]
    if kind is tuple:
        return tuple(again(value) for value in batch)
    if hasattr(batch, "data") and hasattr(batch, "keys") and type(getattr(batch, "data", None)) is dict:
        one = copy.copy(batch)  # what tokenizers of Hugging Face give
        one.data = again(batch.data)
        return one
    return batch


def _with_workers() -> list[Any]:
    """Return the iterators of this process that have workers."""
    kind = sys.modules["torch.utils.data.dataloader"]._MultiProcessingDataLoaderIter
    return [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
