"""Jobs simulated, and whyidle and its peers asked about them: the only part that does something."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scoring.matrix import Job
from scoring.outcome import NoReport, judge_failure, judge_one, report_on
from scoring.records import Outcome, PeerSaid

ROOT = Path(__file__).parents[2]
UNREACHABLE = "unreachable"
PEER_SECONDS = 600
# CPU time of one job, so that a loop without end costs one job and not the board. Both take a second or two.
SIMULATE_SECONDS = 60
DIAGNOSE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that could not be simulated, and why."""

    job: str
    why: str


@dataclass(frozen=True, slots=True)
class How:
    """What all jobs share: where simulated runs are kept (None: nowhere), and the peers' interpreters."""

    keep: Path | None = None
    peers: Mapping[str, str] = field(default_factory=dict)


def simulator() -> Any:
    """Return the simulator, which stands beside `bench` and not in the package that users install."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return importlib.import_module("world")


def run(jobs: Sequence[Job], how: How, processes: int) -> Iterator[Outcome | LeftOut]:
    """Yield what came of each job, in the order in which they end."""
    if processes == 1:
        yield from (one(job, how) for job in jobs)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(one, job, how) for job in jobs]):
            yield future.result()


def one(job: Job, how: How) -> Outcome | LeftOut:
    """Simulate a job, unless it is there from before, and ask about it."""
    if how.keep is not None:
        return _ask(job, how.keep, how)
    with tempfile.TemporaryDirectory() as folder:
        return _ask(job, Path(folder), how)


def _ask(job: Job, folder: Path, how: How) -> Outcome | LeftOut:
    truth = made(job, folder)
    if isinstance(truth, LeftOut):
        return truth
    run = folder / job.name
    outcome = diagnose(truth, run)
    said = tuple(ask_peer(peer, python, run, folder) for peer, python in how.peers.items())
    return replace(outcome, peers=said)


def made(job: Job, folder: Path) -> dict[str, Any] | LeftOut:
    """Return what is true of a job, simulated into the folder of its name unless it is there from before."""
    truth, impossible = folder / f"{job.name}.truth.json", folder / f"{job.name}.left_out.txt"
    if impossible.exists():
        return LeftOut(job.name, impossible.read_text("utf-8"))
    if not truth.exists():
        why = simulate(job, folder / job.name)
        if why:
            if why.startswith(UNREACHABLE):  # a crash may be mended
                impossible.write_text(why, "utf-8")
            return LeftOut(job.name, why)
    known: dict[str, Any] = json.loads(truth.read_text("utf-8"))
    return known


def simulate(job: Job, out: Path) -> str:
    """Make a run; return why there is none, which is empty if there is one. It writes its truth last."""
    world = simulator()
    try:
        with limited(SIMULATE_SECONDS):
            world.simulate(
                family=job.family,
                faults=dict(job.faults),
                control=job.control,
                misspecified=job.misspecified,
                ranks=job.ranks,
                seed=job.seed,
                out=out,
                gpu=None,
            )
    except world.UnreachableError as error:
        return f"{UNREACHABLE}: {error}"
    except Exception as error:  # noqa: BLE001 - one job that it cannot make is told and must not cost the others
        return f"the simulator crashed: {type(error).__name__}: {error}"
    return ""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError inside after so much CPU time; wall time depends on what else the machine does."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end within {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def diagnose(truth: Mapping[str, Any], path: Path) -> Outcome:
    """Ask whyidle, for no longer than it may take."""
    with limited(DIAGNOSE_SECONDS):
        report = report_on(path)
    if isinstance(report, NoReport):
        return judge_failure(truth, report.failure, report.why)
    return judge_one(truth, report)


def ask_peer(peer: str, python: str, run: Path, folder: Path) -> PeerSaid:
    """Ask another tool, once per run that is kept: neither changes."""
    kept = folder / f"{run.name}.{peer}.json"
    if kept.exists():
        answer = json.loads(kept.read_text("utf-8"))
    else:
        answer = _peer(peer, python, run)
        kept.write_text(json.dumps(answer), "utf-8")
    return PeerSaid(peer, answer.get("idle_share"), tuple(answer.get("words", ())), answer.get("crashed"))


def _peer(peer: str, python: str, run: Path) -> dict[str, Any]:
    files = sorted(str(path) for path in run.rglob("*.json*"))
    command = [python, str(Path(__file__).with_name("peers.py")), peer, *files]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PEER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"crashed": f"no answer within {PEER_SECONDS} s"}
    if ended.returncode:
        return {"crashed": (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]}
    answer: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return answer
