"""The page of `whyidle loader`: the settings to take, what the loader gives by workers, what the training needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from whyidle.model.loader_trial import Pass, Tried
from whyidle.render.base import Look
from whyidle.render.html.rows import BarRow, Item, TableRow
from whyidle.render.html.scales import Scale
from whyidle.render.html.section import Section, filled
from whyidle.render.html.verb_page import verb_page
from whyidle.render.html.whiskers import Whisker, from_zero
from whyidle.render.loader import HEAD, loader_json, rest, rows, settings, subject
from whyidle.render.words import change, clean, duration, plural, rate, times

DRAWN: Final = ("storage",)  # has a section of its own
WITHIN: Final = "within the step, to which this adds"
SAME: Final = 0.01  # of a step: a gain that is none


def loader_page(tried: Tried, look: Look) -> str:
    """Return the page."""
    made = (_verdict(tried), _paces(tried), _steps(tried), _storage(tried), _table(tried), _about(tried))
    return verb_page(tried.advice.message, made, loader_json(tried, look), look)


def _verdict(tried: Tried) -> Section:
    first, _, more = clean(tried.advice.message).partition(". ")
    doubt = more.removeprefix("But ") if more.startswith("But ") else ""
    good = tried.advice.settings and tried.advice.step_then_s and not doubt
    told = list(settings(tried))
    arguments = ", ".join(f"{one.name}={one.then}" for one in tried.advice.settings)
    return Section(
        "verdict",
        "",
        filled(
            "loader_verdict",
            first=first.rstrip(".") + ".",
            more="" if doubt else more,
            doubts=[doubt] if doubt else [],
            subject=subject(tried),
            take=f"DataLoader(..., {arguments})" if arguments else "",
            facts=list(_facts(tried)),
            told=told,
            tone="good" if good else "plain",
        ),
    )


def _facts(tried: Tried) -> Iterator[Item]:
    advice = tried.advice
    now, then, ceiling = advice.step_now_s, advice.step_then_s, advice.ceiling_s
    if now is not None and then is not None and then < now:
        yield Item("a step, expected", change(now, then), f"{now / then:.3g}x")
    if now is not None and ceiling is not None and advice.speedup_at_most is not None:
        yield Item("at most, without loading", times(advice.speedup_at_most, 2), change(now, ceiling) + " a step")
    best = max((point.batches_per_s or 0.0 for point in tried.trial.points), default=0.0)
    if best:
        yield Item("the loader alone, at best", f"{rate(best)} batches/s")
    if ceiling:
        yield Item("the training can take", f"{rate(1 / ceiling)} batches/s")


def _paces(tried: Tried) -> Section | None:
    """Return a bar for each number of workers, and where the training stands that need not wait."""
    known = [point.batches_per_s for point in tried.trial.points if point.batches_per_s is not None]
    if not tried.trial.points:
        return None
    ceiling = tried.advice.ceiling_s
    needed = 1 / ceiling if ceiling else None
    scale = from_zero([*known, *([needed * 1.05] if needed else [])])
    told = [
        BarRow(
            f"{plural(one.point.workers, 'worker')}{_prefetch(one.prefetch)}",
            None if one.point.batches_per_s is None else _solid(one.point.batches_per_s, scale),
            "" if one.point.batches_per_s is None else f"{rate(one.point.batches_per_s)} batches/s",
            one.mark.startswith("advised"),
            one.mark if one.point.batches_per_s is not None else one.point.status,
            one.point.why,
            WITHIN if needed and not one.point.workers and one.point.batches_per_s is not None else "",
        )
        for one in rows(tried)
    ]
    within = any(row.note for row in told)
    line = None if needed is None else scale.at(needed)
    return Section(
        "workers",
        "By workers",
        filled("loader_workers", rows=told, line=line, needed=needed, within=within),
        short="Workers",
    )


def _prefetch(prefetch: str) -> str:
    return "" if prefetch in {"", "2"} else f", prefetch {prefetch}"


def _solid(value: float, scale: Scale) -> Whisker:
    place = scale.at(value)
    return Whisker(place, place, place)


def _steps(tried: Tried) -> Section | None:
    """Return a step of the training as it is, as it is expected to be, and without loading."""
    trial, advice = tried.trial, tried.advice
    if trial.now is None:
        return None
    known = [
        ("as it is", trial.now.mean_s, f"{plural(trial.now.steps, 'step')}, median {duration(trial.now.median_s)}")
    ]
    if advice.step_then_s is not None and advice.step_then_s < trial.now.mean_s * (1 - SAME):
        known.append(("with these settings", advice.step_then_s, "expected"))
    if trial.cached is not None:
        said = f"{plural(trial.cached.steps, 'step')}, median {duration(trial.cached.median_s)}"
        known.append(("without loading", trial.cached.mean_s, said))
    scale = from_zero(value for _, value, _ in known)
    told = [
        BarRow(name, _solid(value, scale), duration(value), name == "with these settings", note)
        for name, value, note in known
    ]
    return Section("training", "A step of the training", filled("loader_training", rows=told), short="Training")


def _storage(tried: Tried) -> Section | None:
    """Return what the data set reads, as it was found, cold and warm."""
    said = dict(rest(tried)).get("storage", "")
    storage = tried.trial.storage
    passes: list[tuple[str, Pass]] = []
    if storage is not None:
        named = (("as found", storage.first), ("cold", storage.cold), ("warm", storage.warm))
        reads = storage.files or any(one and one.disk_bytes for _, one in named)
        passes = [(name, one) for name, one in named if reads and one is not None and one.batch_s]
    if not said and not passes:
        return None
    scale = from_zero(one.batches / one.seconds for _, one in passes)
    told = [
        BarRow(name, _solid(one.batches / one.seconds, scale), f"{rate(one.batches / one.seconds)} batches/s")
        for name, one in passes
    ]
    return Section("storage", "Storage", filled("loader_storage", rows=told, said=said))


def _table(tried: Tried) -> Section | None:
    told = [
        TableRow((str(one.point.workers), one.prefetch, *one.numbers), one.mark.startswith("advised"), one.mark)
        if one.point.batches_per_s is not None
        else TableRow(
            (str(one.point.workers), one.prefetch, ": ".join(filter(None, (one.point.status, one.point.why)))),
            mark=one.mark,
            spans=len(HEAD) - 2,
        )
        for one in rows(tried)
    ]
    if not told:
        return None
    expected = tried.advice.step_now_s if tried.advice.expected else None
    html = filled("loader_table", head=HEAD, rows=told, now="" if expected is None else duration(expected))
    return Section("numbers", "Numbers", html)


def _about(tried: Tried) -> Section:
    pairs = [
        ("command", shlex.join(tried.command)),
        *((head, text) for head, text in rest(tried) if head not in DRAWN),
    ]
    warnings = [text for head, text in pairs if head == "note"]
    return Section(
        "about",
        "How it was measured",
        filled("sweep_about", notes=warnings, pairs=[p for p in pairs if p[0] != "note"]),
    )
