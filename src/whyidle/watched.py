"""What is said of a job by its logs: the answer in numbers and in a sentence, and what it was not enough for.

The host's waits are causes only where the GPU idles meanwhile; where it has work left, they are where the host happens
to block. Both are said wherever the host waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from whyidle.measure.step_log import WatchedJob
from whyidle.model.evidence import Node, Run
from whyidle.model.finding import HEALTHY_IDLE, MEDIUM, OWN_CODE, PHASES, UTILIZED, Ended, Finding, Summary
from whyidle.model.measurement import LINUX, LOG, LOG_CUDA, LOG_GPU, LOG_RANKS, LOG_WORKERS, Measurements
from whyidle.rules import all_rules

LOSSES: Final = ("data_zero", "data_workers", "data_first", "data_other", "save", "evaluation")
KNOWN: Final = ("lost_data_workers_share", "lost_data_other_share")  # without them waits for data are not known
NAMED: Final = 0.01  # of the time: less is not named
FEWEST_STEPS: Final = 3
WAITS: Final = {"data_wait": "data", "checkpoint": "checkpoints", "evaluation": "evaluations"}  # by cause
APART: Final = 0.10  # of the time: a rank that waits so much longer than the mean is named
# As Linux numbers them, on which jobs are watched.
SIGNALS: Final = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 15: "SIGTERM", 24: "SIGXCPU",
}  # fmt: skip
TRACE: Final = "A trace tells: whyidle run without --no-trace."
EMPTY: Final = "Nor does its trace, in which there is nothing of the GPU."


def summarize(summary: Summary, job: WatchedJob) -> Summary:
    """Return the summary with what the logs tell added; how long steps take comes from them."""
    told = {m.name: m.value for m in job.measurements if not m.subject}

    def number(name: str) -> float | None:
        return float(told[name]) if name in told else None

    if not job.logs:
        return summary
    on_gpu = told.get("on_gpu")
    return replace(
        summary,
        steps=int(told["watched_steps"]),
        steps_from=job.steps_from,
        step_time_s=number("step_time_s"),
        step_time_mean_s=number("step_time_mean_s"),
        data_wait_share=number("data_wait_share"),
        watched_s=number("watched_s"),
        on_gpu=None if on_gpu is None else bool(on_gpu),
        host_shares={name: float(told[f"host_{name}_share"]) for name in PHASES if f"host_{name}_share" in told},
        lost_shares={name: float(told[f"lost_{name}_share"]) for name in LOSSES if f"lost_{name}_share" in told},
        samples_per_s=number("samples_per_s"),
        tokens_per_s=number("tokens_per_s"),
        startup_s=number("startup_s"),
        utilization_mean_share=number("utilization_mean_share"),
        batches_per_step=number("loader_batches_per_step"),
        own_code_share=number("host_gaps_share"),
        own_code_place=str(told.get("host_gap", "")),
        own_code_there_share=number("host_gap_share"),
    )


def done(run: Run, job: WatchedJob) -> dict[str, str]:
    """Return the ways to measure that a job that was watched has gone, and what else they take; empty: nothing."""
    if not job.logs:
        return {}
    silent = next((node.nvml for node in run.nodes if node.nvml != "ok"), "")
    nvml = f"make NVML answer on the job's machine ({silent})" if silent else ""
    return {LOG: "", LOG_WORKERS: "", LOG_CUDA: "", LINUX: "", LOG_RANKS: "", LOG_GPU: nvml}


def enough(summary: Summary, findings: tuple[Finding, ...], ranks: int = 1) -> bool:
    """Say whether a job that was not traced is judged.

    It is not where it waits, or its GPU rests, and nothing says why; nor where it is not known what its waits cost.
    """
    if any(finding.severity != "low" for finding in findings):
        return True
    unknown = _at_most(summary, ranks) if _lost_to_data(summary) is None else 0.0
    rests = _unexplained(summary) if summary.on_gpu else summary.own_code_share or 0.0
    return unknown < MEDIUM and spoken(summary, findings) and rests < (1 - UTILIZED if summary.on_gpu else OWN_CODE)


def spoken(summary: Summary, findings: tuple[Finding, ...]) -> bool:
    """Say whether findings speak for what the job loses in waits, but for less than 5% of the time."""
    return sum(_left(summary, findings).values()) < MEDIUM


def verdict(summary: Summary, findings: tuple[Finding, ...], ranks: int = 1, *, traced: bool = False) -> str:
    """Return the judgement on a job of which there is no trace of the GPU, the answer first.

    Args:
        summary: of its logs.
        findings: on it.
        ranks: that it has.
        traced: there is a trace, of other things than the GPU.
    """
    grave = any(finding.severity != "low" for finding in findings)
    said = _answer(summary, grave, sum(summary.lost_shares.values()), ranks, EMPTY if traced else TRACE)
    if not grave and not spoken(summary, findings):
        said += f" {_unspoken(summary, findings)}"
    return said


def _unspoken(summary: Summary, findings: tuple[Finding, ...]) -> str:
    left = _left(summary, findings)
    named = ", ".join(f"{WAITS[cause]} {share:.0%}" for cause, share in left.items() if share >= NAMED)
    return f"No finding says what to change about {sum(left.values()):.0%} of the time ({named}): not judged."


def _answer(summary: Summary, grave: bool, lost: float, ranks: int, more: str) -> str:
    if summary.on_gpu:
        return " ".join(_on_gpu(summary, grave, ranks, more))
    if summary.on_gpu is None:
        wait = summary.host_shares.get("data", 0.0)
        return (
            f"Each step waits for data {wait:.0%} of the time; whether a GPU works meanwhile was not recorded, so what "
            "that costs is not known."
        )
    return _without_gpu(summary, grave, lost)


def _without_gpu(summary: Summary, grave: bool, lost: float) -> str:
    waits = list(_named(summary.lost_shares)) if lost >= HEALTHY_IDLE else []
    own = summary.own_code_share or 0.0
    if own >= OWN_CODE:
        waits = sorted([*waits, (_there(summary), _own_code(summary))], key=lambda item: -item[0])
    if waits:
        return f"No GPU was used: {_listed(waits)}."
    rest = f"waits for data, checkpoints and metrics take {_percent(lost)} of the time"
    return (
        f"No GPU was used: {rest}, but not all of the rest was needed."
        if grave
        else f"Healthy: no GPU was used; {rest}."
    )


def _there(summary: Summary) -> float:
    """Return how much of the time the loop's own code takes: at one place where that is most of it, else in all."""
    there, own = summary.own_code_there_share or 0.0, summary.own_code_share or 0.0
    return there if there >= own / 2 else own


def _own_code(summary: Summary) -> str:
    if _there(summary) == summary.own_code_there_share:
        return f"of the time goes into the loop's own code {summary.own_code_place}"
    return "of the time goes into code of which nothing was recorded"


def slowest(m: Measurements) -> Iterator[str]:
    """Yield which rank waits far longer than all on average: where ranks meet, the others wait for it."""
    waits: dict[str, float] = {}
    known = all(len(m.each(name)) == len(m.each("host_data_share")) for name in KNOWN)
    for name in [f"lost_{what}_share" for what in LOSSES] if known else ["host_data_share"]:
        for part in m.each(name):
            waits[part.subject] = waits.get(part.subject, 0.0) + float(part.value)
    worst = max(waits, key=lambda rank: waits[rank], default="")
    mean = sum(waits.values()) / max(len(waits), 1)
    if worst and waits[worst] - mean >= APART:
        whole = m.number("host_data_share")
        shown = any(part.subject == worst and part.value == whole for part in m.each("host_data_share"))
        who = f"{worst.capitalize()}, shown here," if shown else worst.capitalize()
        yield (
            f"{who} waits longest, {waits[worst]:.0%} of the time, ranks on average {mean:.0%}: where ranks meet, the "
            "others wait for it."
        )


def remarks(m: Measurements, summary: Summary) -> Iterator[str]:
    """Yield what the logs of a whole run add to the verdict on its traced steps."""
    if not summary.host_shares:
        return
    if m.get("gpu_idle_share", 1.0) < OWN_CODE:
        yield from _own_code_beside_gpu(summary)
    data = _waits_for_data(summary)
    idle = m.get("idle_data_wait_share", 0.0)
    lost = _lost_to_data(summary)
    if data >= MEDIUM and (idle if lost is None else lost) < HEALTHY_IDLE:
        yield (
            f"The host waits for data {data:.0%} of the time, but the GPU has work meanwhile: that is where the host "
            "happens to block, not a cause."
        )
    elif lost is not None and lost >= MEDIUM and idle < lost / 2:
        yield f"Over the whole run the GPU waits for data {lost:.0%} of the time; the traced steps show {idle:.0%}."
    for name, what, cause in (("save", "checkpoints", "checkpoint"), ("evaluation", "evaluations", "evaluation")):
        over = summary.lost_shares.get(name, 0.0)
        if over >= MEDIUM and m.get(f"idle_{cause}_share", 0.0) < over / 2:
            yield f"Over the whole run {what} take another {over:.0%} of the time."


def nothing(run: Run) -> str:
    """Return why a watched job cannot be judged: what was seen of it, and what to do."""
    ends = "".join(f" {said}" for said in end(run))
    missed = [text for node in run.nodes for text in node.not_captured]
    if missed:
        more = f" And {len(missed) - 1} more." if len(missed) > 1 else ""
        return f"Cannot judge: {missed[0]}{more}{ends}"
    if not run.logs:
        return (
            f"Cannot judge: no process of the job used PyTorch, as far as whyidle saw.{ends} It sees Python that is "
            "started without -I and -E and with the environment that it was given."
        )
    records = sum(len(log) for log in run.logs)
    count = len(run.logs)
    who = f"{count} {'process' if count == 1 else 'processes'} used PyTorch"
    if not records:
        return (
            f"Cannot judge: {who}, but none trained: no batch, no backward pass and no step of an optimizer was "
            f"seen.{ends} Run the command that trains."
        )
    return (
        f"Cannot judge: {who}, but fewer than {FEWEST_STEPS} steps were seen ({records:,} records).{ends} "
        "Let it run for longer."
    )


def ended(run: Run) -> Ended | None:
    """Return how a job ended; of several machines, how it ended on the one where it went worst."""
    if not run.nodes:
        return None

    def grave(node: Node) -> int:
        return 3 if node.signal else 2 if node.exit_code else 1 if node.ended is None else 0

    worst = max(run.nodes, key=grave)
    return Ended(worst.exit_code, worst.signal)


def end(run: Run, steps: int | None = None) -> Iterator[str]:
    """Yield how a job ended, where it did not just come to its end; `steps`: that are judged of it."""
    how = ended(run)
    if how is None:
        return
    on_purpose = next((node.ended_on_purpose for node in run.nodes if node.ended_on_purpose), "")
    if on_purpose and (how.signal or how.exit_code):
        yield on_purpose
    elif how.signal:
        yield f"The job was ended by signal {how.signal}{_signal_name(how.signal)}."
    elif how.exit_code:
        yield f"The job ended with exit code {how.exit_code}."
    elif how.exit_code is None:
        judged = "" if steps is None else f": judged as of {steps:,} step{'' if steps == 1 else 's'}"
        yield f"The job still runs, or its recording was cut off{judged}."


def _signal_name(number: int) -> str:
    return f" ({SIGNALS[number]})" if number in SIGNALS else ""


def _on_gpu(summary: Summary, grave: bool, ranks: int, more: str) -> Iterator[str]:
    """Yield the sentences on a job on a GPU of which only the host's side was recorded; `more` is how more is known."""
    waits, lost = _waits_for_data(summary), _lost_to_data(summary)
    total = sum(summary.lost_shares.values())
    points, of = round((lost or 0.0) * 100), round(waits * 100)
    yield from _own_code_beside_gpu(summary)
    if lost is None and waits < NAMED:
        yield (
            "Whether the GPU waits for data was not measured: the training thread takes its batches from no DataLoader "
            "of PyTorch."
        )
    elif lost is None:
        most = _at_most(summary, ranks)
        yield (
            f"Each step waits for data {most:.0%} of the time at most: whether the GPU idles meanwhile, or has work "
            "and the host just blocks there, was not measured."
            if most == waits
            else f"The host waits for data {waits:.0%} of the time, the GPU {_percent(most)} at most, as NVML saw "
            "kernels in the rest of the time."
        )
    elif lost >= HEALTHY_IDLE:
        yield f"Each step waits for data {waits:.0%} of the time, and the GPU idles in {points} of these {of} points."
    elif waits >= MEDIUM:
        yield f"The GPU hardly waits for data ({_percent(lost)} of the time)."
        yield (
            f"The host waits for it {waits:.0%} of the time, but the GPU has work meanwhile: that is where the host "
            "happens to block, not a cause."
        )
    elif total < HEALTHY_IDLE and not grave and (summary.utilization_mean_share or 0.0) >= UTILIZED:
        hardly = f"GPU waits for data and checkpoints {_percent(total)} of the time."
        yield (
            f"Healthy: the {hardly}" if ranks == 1 else f"The {hardly} How long ranks wait for each other is not known:"
        )
        if ranks > 1:
            yield f"NVML counts that as work. {more}"
    else:
        yield f"The GPU waits for data {_percent(lost)} of the time."
    others = {name: share for name, share in summary.lost_shares.items() if not name.startswith("data")}
    waited = list(_named(others))
    if waited:
        yield f"Beside that, {_listed(waited)}."
    used = summary.utilization_mean_share
    if used is None:
        yield "What else the GPU does was not measured."
    elif _unexplained(summary) >= 1 - UTILIZED:
        yield f"NVML saw kernels {used:.0%} of the time; what is left this recording does not explain. {more}"


def rests(summary: Summary) -> bool:
    """Say whether NVML sees the GPU rest for no known wait as long as the loop's own code runs at one place."""
    return _own_rest(summary) >= OWN_CODE


def _own_rest(summary: Summary) -> float:
    return min(summary.own_code_there_share or 0.0, _unexplained(summary))


def _own_code_beside_gpu(summary: Summary) -> Iterator[str]:
    """Yield that the loop's own code may be what the GPU waits for, where that is more than waits for data."""
    if rests(summary) and _own_rest(summary) > (_lost_to_data(summary) or 0.0):
        yield (
            f"NVML saw no kernel {1 - (summary.utilization_mean_share or 0.0):.0%} of the time, and the loop's own "
            f"code {summary.own_code_place} takes {summary.own_code_there_share:.0%} of the time."
        )


def _left(summary: Summary, findings: tuple[Finding, ...]) -> dict[str, float]:
    """Return the shares of the time that are lost in waits and that no finding speaks for, by cause."""
    lost = summary.lost_shares
    left = {
        "data_wait": sum(share for name, share in lost.items() if name.startswith("data")),
        "checkpoint": lost.get("save", 0.0),
        "evaluation": lost.get("evaluation", 0.0),
    }
    explains = {rule.id: rule.explains for rule in all_rules()}
    for finding in findings:
        for cause in left.keys() & explains[finding.rule]:
            left[cause] = max(left[cause] - (finding.lost_share or 0.0), 0.0)
    return left


def _at_most(summary: Summary, ranks: int) -> float:
    """Return how much of the time the GPU can wait for data where it was not timed.

    It runs no kernel meanwhile; but one that waits for another rank is a kernel, too.
    """
    waits, used = _waits_for_data(summary), summary.utilization_mean_share
    return waits if used is None or ranks > 1 or not summary.on_gpu else min(waits, 1 - used)


def _unexplained(summary: Summary) -> float:
    """Return the share of the time in which NVML saw no kernel and no wait is known."""
    if summary.utilization_mean_share is None:
        return 0.0
    return max(1 - summary.utilization_mean_share - sum(summary.lost_shares.values()), 0.0)


def _waits_for_data(summary: Summary) -> float:
    return summary.host_shares.get("data", 0.0) + summary.host_shares.get("start", 0.0)


def _lost_to_data(summary: Summary) -> float | None:
    """Return how much of the time the GPU waits for data; None where that was not measured."""
    if not {"data_workers", "data_other"} <= summary.lost_shares.keys():
        return None
    return sum(share for name, share in summary.lost_shares.items() if name.startswith("data"))


def _named(lost: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Yield what the time is lost to, the most first."""
    data = sum(share for name, share in lost.items() if name.startswith("data"))
    found = [
        (data, "of each step waits for data"),
        (lost.get("save", 0.0), "of the time goes into writing checkpoints"),
        (lost.get("evaluation", 0.0), "of the time goes into data and metrics of evaluations"),
    ]
    yield from sorted((item for item in found if item[0] >= NAMED), key=lambda item: -item[0])


def _listed(waits: list[tuple[float, str]]) -> str:
    return ", ".join(f"{share:.0%} {what}" for share, what in waits)


def _percent(share: float) -> str:
    return "less than 1%" if share < 0.005 else f"{share:.0%}"
