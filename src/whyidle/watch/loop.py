"""The watch itself: a tick per interval, and what follows from it."""

from __future__ import annotations

import contextlib
import importlib
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from whyidle import cost
from whyidle.launch.stopping import stoppable
from whyidle.model.watch_history import WatchHistory
from whyidle.render.base import Look
from whyidle.render.words import clean
from whyidle.watch import clock as clocks
from whyidle.watch import driver, moment, report, sinks
from whyidle.watch.alarm import Event
from whyidle.watch.asked import Asked, address
from whyidle.watch.board import Board, Status
from whyidle.watch.clock import Clock, Machine
from whyidle.watch.history import Events, history_of
from whyidle.watch.jobs import Jobs
from whyidle.watch.reading import Gpu, Source
from whyidle.watch.screen import Screen, code, total
from whyidle.watch.shape import Shapes

SNAPSHOT_S = 5.0  # between two verdicts for the exporter, however often it is scraped


class Watch:
    """Watches until somebody wants to end.

    Args:
        asked: the options.
        source: who looks at the GPUs.
        clock: the time.
        screen: where it is shown.
        tell: takes the events of alarms.
        jobs: who is who among the processes.
        host: of this machine.
    """

    def __init__(
        self,
        asked: Asked,
        source: Source,
        clock: Clock,
        screen: Screen,
        tell: Callable[[dict[str, Any]], None],
        jobs: Jobs | None = None,
        host: str = "",
    ) -> None:
        self._asked = asked
        self._source = source
        self._clock = clock
        self._screen = screen
        self._tell = tell
        self._host = host or socket.gethostname()
        self._start_s = self._due_s = self._show_s = clock.now_s()
        self._start_ns = clock.wall_ns()
        self._events = Events()
        self.board = Board(asked, Jobs() if jobs is None else jobs, self._start_s)
        self._shapes = Shapes(self.board, self._host)
        self._lock = threading.Lock()  # the exporter asks from another thread
        self._snapshot: tuple[float, Sequence[Status]] | None = None
        self._alarmed = False

    def run(self) -> int:
        """Tick until the end and return the exit code."""
        end_s = self._start_s + self._asked.look_s if self._asked.once else float("inf")
        with self._screen:
            while True:
                now = self._clock.now_s()
                self._tick(now)
                if self._asked.exit_on_alarm and self._alarmed:
                    return 1
                if now >= end_s:
                    break
                self._due_s = clocks.after(self._due_s, self._asked.interval_s, self._clock.now_s())
                if self._clock.wait_until(min(self._due_s, max(end_s, now))):
                    break
        if not self._asked.once:
            return 0
        statuses = self.board.status()
        self._screen.whole(statuses, self.board.state, self._everything(statuses), self.summary(statuses))
        return code(statuses)

    def _tick(self, now: float) -> None:
        sample = self._source.sample(now)
        wall = self._clock.wall_ns()
        with self._lock:
            events = self.board.tick(now, wall, sample)
        for gpu, event in events:
            self._happened(gpu, event, wall)
        if self._asked.once:
            return
        self._shapes.tick(now)
        if now >= self._show_s:
            self._show_s = clocks.after(self._show_s, self._screen.every_s, now)
            statuses = self.board.status()
            everything = self._everything(statuses)
            self._screen.show(statuses, self.board.state, everything, self.summary(statuses), wall)

    def _happened(self, gpu: Gpu, event: Event, wall_ns: int) -> None:
        """Tell of an alarm, or its end."""
        status = next(one for one in self.board.status() if one.gpu.key == gpu.key)
        told = report.of_event(status, event, self._asked, self._host, wall_ns)
        self._alarmed |= event.kind == "alarm"
        if self._asked.keep:
            self._events.add(wall_ns, gpu.index, told)
        self._screen.tell(
            f"{moment.clock(wall_ns)}  {'ALARM' if event.kind == 'alarm' else 'OK'}  {told['text']}", told
        )
        self._tell(told)

    def _everything(self, statuses: Sequence[Status]) -> dict[str, Any]:
        wall = self._clock.wall_ns()
        return report.everything(statuses, self.board.state, self._source.name, self._host, wall)

    def summary(self, statuses: Sequence[Status] | None = None) -> str:
        """Return what came of it, on a line."""
        known = self.board.status() if statuses is None else statuses
        return total(known, self._clock.now_s() - self._start_s, self._asked.price_file)

    def history(self) -> WatchHistory:
        """Return what was seen from the begin until now."""
        with self._lock:
            statuses = self.board.status()
            begin, end = (self._start_s, self._start_ns), (self._clock.now_s(), self._clock.wall_ns())
            return history_of(
                self.board, statuses, self._events, self._asked, self._everything(statuses), self.summary(statuses),
                begin, end,
            )  # fmt: skip

    def snapshot(self) -> tuple[str, Sequence[Status]]:
        """Return what is known now, from whatever thread; verdicts are at most 5 s old."""
        with self._lock:
            now = self._clock.now_s()
            if self._snapshot is None or not 0 <= now - self._snapshot[0] < SNAPSHOT_S:
                self._snapshot = now, self.board.status()
            return self.board.state, self._snapshot[1]


def watch(asked: Asked, look: Look, save: Callable[[WatchHistory], None] | None = None) -> int:
    """Watch the GPUs of this machine; return the exit code.

    Args:
        asked: the options.
        look: what standard output can show.
        save: takes what was seen, however the watch ends.

    Raises:
        WhyIdleError: where there is no GPU to watch, or who is to be told cannot be.
    """
    cost.check(usd_per_gpu_hour=asked.price)
    told = [sinks.command(asked.command)] if asked.command is not None else []
    told += [sinks.webhook(asked.webhook)] if asked.webhook is not None else []
    place = address(asked.listen) if asked.listen is not None else None
    with contextlib.ExitStack() as stack:
        source = driver.find(Machine().now_s())
        stack.callback(source.close)
        passed_on = sinks.Sinks(told, say)
        stack.callback(passed_on.close)
        screen = Screen(sys.stdout, asked, look)
        keys = stack.enter_context(clocks.keyboard(screen.live))
        watched = Watch(asked, source, Machine(keys), screen, passed_on.tell)
        if place is not None:
            exporter = importlib.import_module("whyidle.watch.exporter").Exporter(*place, watched.snapshot)
            stack.callback(exporter.close)
            say(f"Prometheus may scrape http://{place[0]}:{exporter.port}/metrics")
        stack.enter_context(stoppable())
        try:
            ended = watched.run()
        except KeyboardInterrupt:
            ended = 0
        finally:  # also where standard output is gone: who read it, or its terminal
            if save is not None:
                save(watched.history())
        if not asked.once and asked.format != "json":
            screen.write(watched.summary())
        return ended


def say(text: str) -> None:
    """Write to standard error."""
    sys.stderr.write(f"whyidle: {clean(text)}\n")
    sys.stderr.flush()
