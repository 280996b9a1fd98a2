"""What `whyidle check` and `whyidle baseline save` say: for a person, for programs, and for CI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Final

from rich.text import Text

from whyidle._version import __version__
from whyidle.errors import WhyIdleError
from whyidle.model.gate import Baseline, Check, Gate, Outcome
from whyidle.render.base import Look
from whyidle.render.github import command
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.junit import document, element, text
from whyidle.render.lines import hang
from whyidle.render.terminal import write
from whyidle.render.words import clean, duration, gpu_name, percent, plural, rate, size

TITLES: Final[Mapping[str, str]] = {
    "step_time_regression": "step time",
    "throughput_loss": "throughput",
    "idle": "GPU idle",
    "data_wait": "data wait",
    "peak_memory_growth": "peak memory",
}
STYLES: Final[Mapping[Outcome, str]] = {"pass": "green", "fail": "bold red", "cannot tell": "yellow"}
NOTHING: Final = "nothing was measured"
LONG: Final = frozenset(("step_seconds", "step_numbers"))  # what nobody reads in a report


def renders(format: str) -> Callable[[Gate, Look], str]:  # noqa: A002 - the word of the command line
    """Return what writes the answer in a format.

    Raises:
        WhyIdleError: for a format that there is not.
    """
    if format not in FORMATS:
        raise WhyIdleError(f"no format is called {format!r}", f"formats: {', '.join(sorted(FORMATS))}")
    return FORMATS[format]


def headline(gate: Gate) -> str:
    """Return the answer in a sentence."""
    if gate.outcome == "pass":
        all_ = "Both" if len(gate.checks) == 2 else f"All {len(gate.checks)}"
        return "The limit is kept." if len(gate.checks) == 1 else f"{all_} limits are kept."
    named = [TITLES[check.limit] for check in gate.checks if check.outcome == gate.outcome]
    many = f"{len(named)} of {len(gate.checks)} limits {'is' if len(named) == 1 else 'are'}"
    many = "the limit is" if len(gate.checks) == 1 else many
    said = f"{many[:1].upper()}{many[1:]} broken" if gate.outcome == "fail" else f"Cannot tell whether {many} kept"
    return f"{said}: {', '.join(named)}."


def gate_text(gate: Gate, look: Look) -> str:
    """Return the answer for a person: the verdict, a line for each limit, what it was held against."""
    return write(_lines(gate, min(look.width, 100)), look)


def gate_json(gate: Gate, look: Look) -> str:
    """Return the answer for programs; the times of single steps are left out."""
    about = {"schema_version": SCHEMA_VERSION, "whyidle": __version__}
    told = {
        "outcome": gate.outcome,
        "checks": gate.checks,
        "run": _without_steps(gate.run),
        "baseline": None if gate.baseline is None else _without_steps(gate.baseline),
        "differences": gate.differences,
        "warnings": gate.warnings,
    }
    return dumps(about | told, ascii_only=not look.unicode)


def gate_junit(gate: Gate, look: Look) -> str:
    """Return a test case for each limit: it fails where that is broken, and has an error where nobody can tell."""
    return document([_case(check) for check in gate.checks], look)


def gate_github(gate: Gate, look: Look) -> str:
    """Return a line for each limit, a workflow command for what is not kept."""
    lines = [f"whyidle: {headline(gate)}"]
    for check in gate.checks:
        title, said = TITLES[check.limit], clean(_said(check))
        if check.outcome == "pass":
            lines.append(f"whyidle: {title}: {said}")
        else:
            name = "error" if check.outcome == "fail" else "warning"
            lines.append(command(name, {"title": f"{title}: {check.outcome}"}, said))
    lines += [command("warning", {"title": "whyidle check"}, clean(said)) for said in _doubts(gate)]
    whole = "\n".join(lines) + "\n"
    return whole if look.unicode else whole.encode("ascii", "replace").decode("ascii")


def refused_junit(why: WhyIdleError, look: Look) -> str:
    """Return a test case with an error, in place of those of limits that nobody could judge."""
    said = clean(_refusal(why))
    told = element("error", {"type": "not judged", "message": said}, text(said) + "\n")
    return document([element("testcase", {"classname": "whyidle.check", "name": "verdict"}, told)], look)


def refused_github(why: WhyIdleError, look: Look) -> str:
    """Return a workflow command, in place of those of limits that nobody could judge."""
    whole = command("error", {"title": "whyidle check: not judged"}, clean(_refusal(why))) + "\n"
    return whole if look.unicode else whole.encode("ascii", "replace").decode("ascii")


def _refusal(why: WhyIdleError) -> str:
    return f"{why.message}; {why.hint}" if why.hint else why.message


def baseline_json(baseline: Baseline, *, ascii_only: bool = False) -> str:
    """Return the file of a baseline."""
    told = {"schema_version": SCHEMA_VERSION, "whyidle": __version__, "baseline": baseline}
    return dumps(told, ascii_only=ascii_only)


def baseline_text(baseline: Baseline, file: str, look: Look) -> str:
    """Return what a baseline holds and where it is, for a person."""
    width = min(look.width, 100)
    about = list(_about(baseline)) or ["what it ran on was not recorded"]
    lines = [
        *hang(Text("  saved: ", style="bold"), Text(clean(file)), width),
        *hang(Text("  run: "), Text(" · ".join(about)), width),
        *hang(Text("  did: "), Text(" · ".join(_numbers(baseline))), width),
    ]
    return write(lines, look)


def _lines(gate: Gate, width: int) -> Iterator[Text]:
    yield Text(f"  {headline(gate)}", style=STYLES[gate.outcome])
    yield Text()
    for check in gate.checks:
        head = Text(f"  {check.outcome:<12}", style=STYLES[check.outcome])
        yield from hang(head.append(f"{TITLES[check.limit]:<13}", "none"), Text(clean(_said(check))), width)
    yield Text()
    if gate.baseline is not None:
        made = [f"of {clean(gate.baseline.made)[:10]}"] if gate.baseline.made else []
        about = [" · ".join(_about(gate.baseline)) or "what it ran on was not recorded"]
        yield from hang(Text("  baseline: "), Text(", ".join(made + about)), width)
        was = " · ".join(_numbers(gate.baseline)) or NOTHING
        yield from hang(Text("  was: "), Text(was), width)
    numbers = " · ".join(_numbers(gate.run)) or NOTHING
    yield from hang(Text("  run: "), Text(numbers), width)
    for said in _doubts(gate):
        yield from hang(Text("  note: ", style="yellow"), Text(clean(said)), width)


def _said(check: Check) -> str:
    said = f"{check.message}, limit {check.allowed * 100:.3g}%"
    return f"{said}; {check.hint}" if check.hint else said


def _doubts(gate: Gate) -> Iterator[str]:
    yield from gate.warnings
    forced = [each.message for each in gate.differences if each.weight == "blocks"]
    if forced:
        yield f"compared all the same, as --force asks: {'; '.join(forced)}"
    others = [each.message for each in gate.differences if each.weight != "blocks"]
    if others:
        yield f"not as in the baseline: {'; '.join(others)}"


def _case(check: Check) -> str:
    about = {"classname": "whyidle.check", "name": TITLES[check.limit]}
    said = clean(_said(check))
    if check.outcome == "pass":
        return element("testcase", about, element("system-out", {}, text(said) + "\n"))
    kind = "failure" if check.outcome == "fail" else "error"
    return element("testcase", about, element(kind, {"type": check.limit, "message": said}, text(said) + "\n"))


def _about(one: Baseline) -> Iterator[str]:
    """Yield what a run was."""
    yield from (f"{gpu.count} x {gpu_name(gpu.name)}" for gpu in one.gpus)
    if one.world_size:
        yield plural(one.world_size, "rank")
    if one.batch_size:
        yield f"batch {one.batch_size:,}"
    if one.model:
        count = f" of {one.parameters:,} parameters" if one.parameters else ""
        yield f"{clean(one.model)}{count}"
    if one.torch_version:
        yield f"torch {clean(one.torch_version)}"


def _numbers(one: Baseline) -> Iterator[str]:
    """Yield how a run did."""
    if one.step_time_s is not None and one.step_time_mean_s is not None:
        yield f"{duration(one.step_time_s)}/{one.per}, mean {duration(one.step_time_mean_s)}"
        starts = f" of {len(one.step_seconds)} runs" if len(one.step_seconds) > 1 else ""
        yield plural(one.steps, "step") + f"{starts} after {one.warm_up} of warm-up"
    for number, what in ((one.tokens_per_s, "tokens"), (one.samples_per_s, "samples")):
        if number is not None:
            yield f"{rate(number)} {what}/s"
    for share, what in ((one.gpu_idle_share, "GPU idle"), (one.data_wait_share, "data wait")):
        if share is not None:
            yield f"{what} {percent(share)}"
    if one.peak_memory_bytes is not None:
        yield f"peak memory {size(one.peak_memory_bytes)}"


def _without_steps(one: Baseline) -> dict[str, object]:
    told = {each.name: getattr(one, each.name) for each in fields(one) if each.name not in LONG}
    return told | {"steps": one.steps, "starts": len(one.step_seconds)}


FORMATS: Final[Mapping[str, Callable[[Gate, Look], str]]] = {
    "terminal": gate_text,
    "json": gate_json,
    "junit": gate_junit,
    "github": gate_github,
}
# For those that CI servers read, when there is no answer.
REFUSALS: Final[Mapping[str, Callable[[WhyIdleError, Look], str]]] = {
    "junit": refused_junit,
    "github": refused_github,
}
