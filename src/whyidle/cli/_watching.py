"""Runs a job under watch and says what came of it. Whatever happens here, the job's end is ours."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from whyidle import cost
from whyidle.cli._destination import SUFFIXES, TO, Destination, destination, format_of, look_of
from whyidle.cli.run import Asked, Show
from whyidle.errors import WhyIdleError
from whyidle.launch import folder
from whyidle.launch.folder import Folders
from whyidle.launch.pace import Pace
from whyidle.launch.process import Ended, Mask, leave
from whyidle.launch.program import NotStartedError, Program, find
from whyidle.launch.recording import Collector
from whyidle.launch.seen import nothing
from whyidle.launch.stopping import stoppable
from whyidle.launch.watched import Watched, run_bare, run_watched
from whyidle.model.finding import Report
from whyidle.render import renderer
from whyidle.render.words import plural, told


def watch(asked: Asked, mask: Mask) -> int:
    """Run the job and return its exit code, or die by the signal that killed it.

    Raises:
        WhyIdleError: before the job starts, when it cannot be recorded as asked.
    """
    try:
        program = find(asked.command)
        with _report(asked.show) as out:
            recorded = _run(program, asked, mask)
            mask.lift()
            if isinstance(recorded, Ended) or not _tell(recorded, asked, out):
                raise _NoReportError
    except NotStartedError as error:
        _say(error.message, error.hint)
        return error.code
    except _NoReportError:
        pass
    return leave(recorded.watched.ended if isinstance(recorded, _Recorded) else recorded)


class _NoReportError(Exception):
    """There is nothing to write to the file of --report: it shall not stay behind empty."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    watched: Watched
    folders: Folders
    pace: Pace


def _report(show: Show) -> AbstractContextManager[Destination | None]:
    """Return where --report goes, after a look at what else the job would run for in vain."""
    if show.format not in {None, *SUFFIXES.values()}:  # those are there; the job need not wait for what they import
        renderer(str(show.format))
    format_of(show.report, show.format)
    cost.check(usd_per_gpu_hour=show.judging["price"], gpus=show.judging["gpus"], hours=show.judging["hours"])
    return nullcontext() if show.report is None else destination(show.report, force=show.force, example=TO)


def _run(program: Program, asked: Asked, mask: Mask) -> _Recorded | Ended:
    """Run the job and record it, or only run it where nothing can be written."""
    emit = _emitter(asked)
    try:
        folders = folder.make(asked.output, program.name, os.environ, datetime.now(UTC).astimezone())
    except OSError as error:
        _say(f"the job is not measured, since no folder can be written ({error.strerror})", "-o a folder that can")
        return run_bare(program, mask)
    if folders.said:
        _say(f"{folders.said}; the evidence goes to {folders.run}")
    pace = Pace(folders.node, emit)
    try:
        watched = run_watched(program, folders, asked.looks, mask, _maker(asked, folders), pace.follow)
    except NotStartedError:
        folder.remove(folders)
        raise
    return _Recorded(watched, folders, pace)


def _maker(asked: Asked, folders: Folders) -> Callable[[int], Collector]:
    """Return what makes the collector; it is imported beside the running job, not before it."""
    here = Path.cwd()

    def make(pid: int) -> Collector:
        kind = importlib.import_module("whyidle.collect.collector").Collector
        options = {**asdict(asked.looks), "metrics": asked.metrics}
        made: Collector = kind(
            folders.node, folders.capture, pid, asked.interval_s, command=asked.command, cwd=here, options=options
        )
        return made

    return make


def _emitter(asked: Asked) -> Callable[[str], None] | None:
    """Return what takes the lines of --emit-metrics, each written as a whole."""
    if not asked.metrics:
        return None
    file = asked.metrics_file
    try:
        number = 2 if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise WhyIdleError(f"cannot write to {file}: {why}", "--metrics-file FILE") from None

    def emit(line: str) -> None:
        try:
            os.write(number, f"{line}\n".encode())
        except OSError as error:  # a full disk, a pipe that nobody reads: neither the recording nor the verdict suffers
            if not failed:
                failed.append(error)
                _say(f"cannot write lines of metrics: {error.strerror}")

    failed: list[OSError] = []
    return emit


def _tell(recorded: _Recorded, asked: Asked, out: Destination | None) -> bool:
    """Say what came of it, the verdict or why there is none, and what went wrong; return whether there is a verdict."""
    folders = recorded.folders
    try:
        with stoppable():  # a scheduler that stops the job is about to kill us, too
            recorded.pace.tell()
            _note_errors(recorded)
            return _judge(recorded, asked, out)
    except KeyboardInterrupt:
        _say("stopped before the verdict", f"whyidle {_short(folders.run)}")
    except WhyIdleError as error:
        _say(f"no verdict: {error.message}", error.hint)
    except OSError as error:
        _say(f"no verdict: {error}", f"whyidle {_short(folders.run)}")
    except Exception as error:  # noqa: BLE001 - a mistake of ours does not change how the job ended
        _append(folders.node / "errors.txt", traceback.format_exc())
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        _say(f"no verdict, by a mistake of ours: {why}", f"{_short(folders.node / 'errors.txt')} says more")
    return False


def _judge(recorded: _Recorded, asked: Asked, out: Destination | None) -> bool:
    """Judge the recording, show the verdict and save it; return whether there is one."""
    run = recorded.folders.run
    why = nothing(recorded.folders.node, recorded.pace, asked.command, recorded.watched.ended)
    if why is not None:
        if why.ours or not asked.show.quiet:
            _say(why.message, why.hint)
        return False
    again = _short(run)
    if not asked.show.verdict:
        if not asked.show.quiet:
            _say(f"recorded in {again}", f"whyidle {again}")
        return False
    writes = renderer(format_of(asked.show.report, asked.show.format))
    # Imported now: it is heavy, and the job did not wait for it.
    diagnosis = importlib.import_module("whyidle.diagnosis")
    with importlib.import_module("whyidle.cli._loading").loading() as progress:
        report: Report = diagnosis.diagnose([run], picture=writes.draws, progress=progress, **asked.show.judging)
    if not asked.show.quiet:
        look = look_of(sys.stderr, asked.show.color, everything=False)
        _show(renderer("terminal").render(report, look))
        _show(f"evidence: {again} (whyidle {again} --all shows everything)\n")
    _save(run / "report.json", report)
    if out is not None:
        out.write(writes.render(report, out.look))
    return True


def _save(path: Path, report: Report) -> None:
    """Write the report beside its evidence, as a whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(renderer("json").render(report, look_of(sys.stderr, False, everything=True)), "utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        _say(f"cannot save the report to {path}: {error.strerror}")


def _note_errors(recorded: _Recorded) -> None:
    """Say what went wrong while the job ran, and write down where."""
    watched, node = recorded.watched, recorded.folders.node
    if watched.hung:
        _say("the recording is cut off: its counters or its folder did not answer when the job ended")
    if watched.failures:
        _append(node / "errors.txt", "\n".join(watched.errors))
        last = watched.errors[0].rstrip().rpartition("\n")[2]
        times = plural(watched.failures, "time")
        _say(
            f"the recording has holes: it failed {times}, first with {last}", f"{_short(node / 'errors.txt')} says more"
        )


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return  # the disk is full: what went wrong was said already


def _short(path: Path) -> str:
    """Return a path as it can be pasted here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _say(message: str, hint: str = "") -> None:
    _show(f"whyidle: {told(message)}\n" + (f"hint: {told(hint)}\n" if hint else ""))


def _show(text: str) -> None:
    """Write to standard error, if anybody still reads it."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        return
