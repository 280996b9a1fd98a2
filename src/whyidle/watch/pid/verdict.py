"""`whyidle watch --pid`: a verdict on a job that runs, in some seconds and without touching it."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from whyidle.errors import WhyIdleError
from whyidle.measure import live as measures
from whyidle.model.evidence import Value
from whyidle.model.finding import (
    HEALTHY_IDLE,
    MEDIUM,
    UTILIZED,
    EvidenceFile,
    Finding,
    GpuCount,
    Prediction,
    Report,
    RunInfo,
    Summary,
    Unknown,
)
from whyidle.model.live import Live, LiveProcess
from whyidle.model.measurement import LIVE, LIVE_STACKS, Measurements
from whyidle.rank import rank
from whyidle.rules import ask, live
from whyidle.watch.pid.attach import Watch

SECONDS = 15.0
LEAST_S, LONGEST_S = 1.0, 600.0
KIND = "watch --pid"
SHORTEST_S = 1.0  # a look that the job's end cut shorter is not judged
NOT_PRICED = "a look of some seconds shows no steps: what a fix is worth takes `whyidle run`"
WORKS = 0.5  # of look: less computing, and what sleeps is not called busy
IDLES = 0.05  # of look: below, the job does nothing


def watch_pid(
    pid: int, seconds: float = SECONDS, *, root: Path = Path("/"), gpus: bool = True, stacks: bool = True
) -> Report:
    """Say what a running job waits for.

    Args:
        pid: a process of it: the first, one that trains, or a worker.
        seconds: how long to look.
        root: where the machine's files lie.
        gpus: ask NVML.
        stacks: ask py-spy, where there is one.

    Raises:
        WhyIdleError: there is no such job, it is no Python, or this is not Linux.
    """
    if sys.platform != "linux":
        raise WhyIdleError("`whyidle watch --pid` looks at jobs on Linux only", "`whyidle watch` shows the GPUs here")
    if not LEAST_S <= seconds <= LONGEST_S:
        raise WhyIdleError(f"--for is {LEAST_S:g} to {LONGEST_S:g} seconds with --pid, not {seconds:g}", "--for 15s")
    return judge(Watch(pid, seconds, root=root, gpus=gpus, stacks=stacks).run())


def judge(seen: Live) -> Report:
    """Return the report on what was seen of a running job."""
    m = measures.measure(seen)
    who = measures.slowest(seen)
    info = _info(seen, who)
    warnings = (*seen.warnings, *([f"the stacks of its threads were not seen: {seen.stacks}"] if seen.stacks else []))
    if seen.ended:
        warnings = (*warnings, f"the job ended after {seen.seconds:.1f} s: judged on what was seen until then")
    if who is None or not live.watched(m) or seen.seconds < SHORTEST_S:
        told = Summary(_too_little(seen), watched_s=seen.seconds, on_gpu=seen.on_gpu)
        return Report(info, told, warnings=warnings, judged=False)
    findings, unknown = ask(m, {LIVE: ""})
    ranked = rank(findings)
    said, judged = _verdict(m, ranked)
    verdict = " ".join([said, *_more(m, seen), _next(who)])
    lacking = [Unknown(live.PYTHON, ("live_main_site",), LIVE_STACKS)] if seen.stacks else []
    return Report(
        info,
        Summary(
            verdict,
            watched_s=seen.seconds,
            on_gpu=seen.on_gpu,
            utilization_mean_share=_utilization(m),
            lost_shares=_waits(m),
        ),
        ranked,
        (*lacking, *unknown),
        warnings,
        prediction=Prediction(refused=NOT_PRICED),
        judged=judged,
    )


def _info(seen: Live, who: LiveProcess | None) -> RunInfo:
    ranks = [process for process in seen.processes if process.role == "rank"]
    models = Counter(seen.gpu_names.values())
    # Ranks that wait for each other look busy to NVML: of several none is called healthy.
    settings: dict[str, Value] = {"pid": seen.pid, "command": shlex.join(who.command) if who else ""}
    return RunInfo(
        evidence=tuple(EvidenceFile(f"/proc/{process.pid}", KIND, process.rank) for process in ranks),
        gpus=tuple(GpuCount(name, count) for name, count in sorted(models.items())),
        settings=settings,
        world_size=len(ranks) or None,
    )


def _utilization(m: Measurements) -> float | None:
    return m.number("utilization_mean_share") if "utilization_mean_share" in m else None


def _waits(m: Measurements) -> dict[str, float]:
    """Return what the GPU waits for batches at most; nothing where that, or what slows it down, was not seen."""
    seen = ("utilization_mean_share", "throttle_thermal_share", "throttle_power_share", "clock_share")
    if any(name not in m for name in (*seen, "live_loader_wait_share", "live_loader_fetch_share")):
        return {}
    room = max(1 - m.number("utilization_mean_share"), 0.0)
    workers = min(m.number("live_loader_wait_share"), room)
    return {"data_workers": workers, "data_zero": min(m.number("live_loader_fetch_share"), room - workers)}


def _too_little(seen: Live) -> str:
    if seen.ended:
        return f"Cannot judge: the job ended {seen.seconds:.1f} s after the look at it began."
    if not any(process.role == "rank" for process in seen.processes):
        return "Cannot judge: no process of the job is known to train."
    return "Cannot judge: the kernel does not tell what the job's threads do (/proc/PID/schedstat)."


def _verdict(m: Measurements, findings: tuple[Finding, ...]) -> tuple[str, bool]:
    """Return the answer in a sentence, and whether the job is judged."""
    if findings:
        return findings[0].message, True
    used, on_gpu = _utilization(m), bool(m.one("on_gpu").value) if "on_gpu" in m else None
    main, whole = m.get("main_cpu_share", 0.0), m.get("live_process_cpu_share", 0.0)
    waits = m.number("live_main_waits_share")
    if used is not None and used >= UTILIZED:
        return f"Nothing was seen to hold the job up: NVML sees kernels {used:.0%} of the time.", True
    if on_gpu is False and waits < MEDIUM and whole >= WORKS:
        return f"Nothing was seen to hold the job up: it computes on CPUs {whole:.0%} of the time.", True
    doing = f"its main thread computes {main:.0%} of the time and sleeps {waits:.0%}"
    if used is None and on_gpu is not False and waits < HEALTHY_IDLE:
        return f"Not judged: {doing}; what its GPU does was not seen.", False
    if max(whole, m.get("job_cpu_share", 0.0)) < IDLES and (used or 0.0) < IDLES:
        return f"Your job does next to nothing: {doing}. For what it waits was not seen.", False
    kernels = f"; NVML sees kernels {used:.0%} of the time" if used is not None else ""
    return f"Not judged: {doing}{kernels}. What it waits for was not seen.", False


def _more(m: Measurements, seen: Live) -> Iterator[str]:
    """Yield what else a reader has to know."""
    ranks = sum(process.role == "rank" for process in seen.processes)
    if ranks > 1:
        yield f"Of {ranks} processes that train this is the one that waits longest."
    if m.get("cpus_taken", 0.0) >= 1 and m.get("main_run_delay_share", 0.0) >= MEDIUM:
        yield (
            f"Other programs use {m.number('cpus_taken'):.1f} of the machine's CPUs, and the main thread waits for one "
            f"{m.number('main_run_delay_share'):.0%} of the time."
        )
    if seen.on_gpu is False and "live_main_site" not in m:
        yield "No process of it has a GPU open."


def _next(who: LiveProcess) -> str:
    command = shlex.join(who.command) if 0 < len(who.command) <= 20 else "python train.py"
    return f"What each step takes, and what a fix is worth: whyidle run -- {command}"
