"""The report of `whyidle loader`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from whyidle._version import __version__
from whyidle.model.loader_trial import Expected, LoaderTrial, Pass, Point, Tried
from whyidle.render.base import Look
from whyidle.render.json import SCHEMA_VERSION, dumps
from whyidle.render.lines import hang
from whyidle.render.pasted import fitted, listed, table, told, written
from whyidle.render.words import ascii_only, change, clean, duration, percent, plural, rate, shorten, size

LABEL = 10  # columns, of what stands before a line
HEAD: Final = ("workers", "prefetch", "batches/s", "start", "to make one", "CPUs", "memory", "expected step")
READ = 4096  # bytes in a pass: less is no reading of data


def loader_json(tried: Tried, look: Look) -> str:
    """Return everything that was measured, what follows, and the paces and gains that follow from that."""
    trial = tried.trial
    return dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "whyidle": __version__,
            "command": tried.command,
            "folder": tried.folder,
            "cpus": tried.cpus,
            "memory_bytes": tried.memory_bytes,
            "advice": {**_fields(tried.advice), "speedup_at_most": tried.advice.speedup_at_most},
            "points": [
                {**_fields(one), "batches_per_s": one.batches_per_s, "cpus_busy": one.cpus_busy} for one in trial.points
            ],
            "storage": trial.storage,
            "training": {"now": trial.now, "cached": trial.cached},
            "loader": trial.tried,
            "loaders": trial.loaders,
            "state": trial.state,
            "cuda": trial.cuda,
            "local_ranks": trial.local_ranks,
            "available_memory_bytes": trial.available_memory_bytes,
            "free_shared_memory_bytes": trial.free_shared_memory_bytes,
        },
        ascii_only=not look.unicode,
    )


def _fields(thing: object) -> dict[str, object]:
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__}  # type: ignore[attr-defined]


def loader_text(tried: Tried, look: Look) -> str:
    """Return the report for a person: the answer, the table behind it, storage, and what to change besides."""
    lines = ["", *_beside("", tried.advice.message, look, 0), *_beside("", subject(tried), look, 0), ""]
    lines += [*_listed(settings(tried), look), ""]
    lines += _table(tried, look)
    lines += [""]
    lines += _listed(rest(tried), look)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text if look.unicode else ascii_only(text)


def loader_markdown(tried: Tried, look: Look) -> str:
    """Return the report to paste into a pull request."""
    cells = [
        (
            str(one.point.workers),
            one.prefetch,
            *(one.numbers if one.point.batches_per_s is not None else (one.point.why or one.point.status, *[""] * 5)),
            one.mark,
        )
        for one in rows(tried)
    ]
    blocks = [f"**{told(tried.advice.message)}**", told(subject(tried)), listed(settings(tried))]
    blocks += [table([*HEAD, ""], cells, left=0, last_left=True)] if cells else []
    return written(fitted([*blocks, listed(rest(tried))], everything="`--report report.json` has all"), look)


def loader_html(tried: Tried, look: Look) -> str:
    """Return the report as a page."""
    from whyidle.render.html.loader import loader_page  # noqa: PLC0415 - Jinja takes a fifth of a second

    return loader_page(tried, look)


def subject(tried: Tried) -> str:
    """Return what was tried, on a line."""
    one = tried.trial.tried
    cpus = "" if tried.cpus is None else f", {tried.cpus:g} CPUs"
    if one is None:
        return f"{tried.folder}{cpus}"
    data = one.dataset.rpartition(".")[2] or "a data set"
    batch = "" if one.batch_size is None else f", batches of {one.batch_size:,}"
    return f"DataLoader of {data} at {one.where or 'an unknown place'}{batch}, num_workers={one.num_workers}{cpus}"


def settings(tried: Tried) -> Iterator[tuple[str, str]]:
    """Yield what to change and what that is worth, each with a word before it."""
    advice = tried.advice
    for one in advice.settings:
        yield "change", f"{one.name}={one.then}  (now {one.now}): {one.why}"
    if advice.why:
        yield "why", advice.why[:1].upper() + advice.why[1:] + "."
    yield from (("also", text) for text in advice.other)
    if advice.step_now_s is not None and advice.ceiling_s is not None:
        most = advice.speedup_at_most or 1.0
        text = f"without loading {change(advice.step_now_s, advice.ceiling_s)} a step, {most:.3g}x"
        if advice.step_then_s is not None and advice.step_then_s < advice.step_now_s:
            text = f"{change(advice.step_now_s, advice.step_then_s)} a step expected; at most, {text}"
        yield "worth", text


def _listed(pairs: Iterable[tuple[str, str]], look: Look) -> Iterator[str]:
    """Yield lines, each word before those that it holds for, once."""
    last = ""
    for label, text in pairs:
        yield from _beside("" if label == last else label, text, look)
        last = label


def _beside(label: str, text: str, look: Look, room: int = LABEL) -> Iterator[str]:
    head = Text(f"  {label:<{room}}")
    yield from (line.plain for line in hang(head, Text(clean(text)), look.width, room + 2))


def _table(tried: Tried, look: Look) -> Iterator[str]:
    yield (
        f"  {'workers':>7} {'prefetch':>8} {'batches/s':>9} {'start':>8} {'a batch':>8} {'CPUs':>5} {'memory':>8} "
        f"{'step':>8}"
    )
    for one in rows(tried):
        mark = f"  {one.mark}" if one.mark else ""
        head = f"  {one.point.workers:>7} {one.prefetch:>8}"
        if one.point.batches_per_s is None:
            yield shorten(f"{head} {one.point.status:>9} {clean(one.point.why)}{mark}", look.width)
        else:
            pace, start, fetch, busy, memory, step = one.numbers
            yield f"{head} {pace:>9} {start:>8} {fetch:>8} {busy:>5} {memory:>8} {step:>8}{mark}"


@dataclass(frozen=True, slots=True)
class Row:
    """A number of workers, as it is shown."""

    point: Point
    prefetch: str
    mark: str  # "now", "advised"
    numbers: tuple[str, ...]  # batches/s, start, a batch, CPUs, memory, step; "" not known


def rows(tried: Tried) -> Iterator[Row]:
    """Yield what was measured of each number of workers."""
    steps = {(one.workers, one.prefetch): one for one in tried.advice.expected}
    for point in sorted(tried.trial.points, key=lambda one: (one.workers, one.prefetch)):
        expected = steps.get((point.workers, point.prefetch))
        yield Row(point, str(point.prefetch) if point.workers else "", _mark(tried, point), _numbers(point, expected))


def _mark(tried: Tried, point: Point) -> str:
    """Return what is to be said of a row: it is how the loader is set now, or what is advised."""
    one = tried.trial.tried
    own = 2 if one is None else one.prefetch_factor or 2
    if one is not None and point.workers == one.num_workers and (not point.workers or point.prefetch == own):
        return "now"
    told = {setting.name: setting.then for setting in tried.advice.settings}
    prefetch = told.get("prefetch_factor", "2")
    if told.get("num_workers") != str(point.workers):
        return ""
    if prefetch == str(point.prefetch) or not point.workers:
        return "advised"
    measured = {(other.workers, str(other.prefetch)) for other in tried.trial.points}
    return "" if (point.workers, prefetch) in measured else f"advised, prefetch {prefetch}"


def _numbers(point: Point, expected: Expected | None) -> tuple[str, ...]:
    fetch = sum(point.fetch_s) / len(point.fetch_s) if point.fetch_s else None
    memory = None if point.memory_bytes is None else point.workers * point.memory_bytes
    return (
        "" if point.batches_per_s is None else rate(point.batches_per_s),
        _time(point.first_batch_s),
        _time(fetch),
        "" if point.cpus_busy is None else f"{point.cpus_busy:.1f}",
        "" if memory is None else size(memory),
        _time(expected.step_s if expected else None),
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def rest(tried: Tried) -> Iterator[tuple[str, str]]:
    """Yield what else was measured, each with a word before it."""
    trial = tried.trial
    yield "training", _training(trial)
    yield "storage", _storage(trial)
    memory = _memory(trial)
    if memory:
        yield "memory", memory
    yield from (("note", text) for text in tried.advice.warnings)
    for one in [one for one in trial.loaders if one.skipped][:4]:
        text = f"--loader {one.loader}: {one.where}, {one.dataset.rpartition('.')[2]}: {one.skipped}"
        yield "not tried", text
    yield "evidence", tried.folder


def _training(trial: LoaderTrial) -> str:
    if trial.now is None:
        return "not measured"
    now = f"{duration(trial.now.mean_s)} a step as it is (median {duration(trial.now.median_s)})"
    if trial.cached is None:
        return f"{now}; not measured without loading"
    return (
        f"{now}, {duration(trial.cached.mean_s)} without loading (median {duration(trial.cached.median_s)}); "
        f"{plural(trial.now.steps, 'step')} and {plural(trial.cached.steps, 'step')}"
    )


def _storage(trial: LoaderTrial) -> str:
    storage = trial.storage
    if storage is None or storage.warm is None:
        return f"not measured{': ' + storage.why if storage is not None and storage.why else ''}"
    if not storage.files and not any(one and one.disk_bytes for one in (storage.first, storage.cold)):
        return "unknown: it opens no file that whyidle sees"
    parts = [f"{plural(storage.files, 'file')} seen"]
    if storage.files_bytes:
        parts[0] += f" of {size(storage.files_bytes)}"
    read = storage.warm.read_bytes or 0
    if read >= READ and storage.warm.batches:
        parts.append(f"{size(read / storage.warm.batches)} a batch")
    for name, one in (("as found", storage.first), ("cold", storage.cold), ("warm", storage.warm)):
        if one is not None and one.batch_s:
            parts.append(f"{name} {_pace(one)}")
    return "; ".join(parts)


def _pace(one: Pass) -> str:
    if not one.seconds:
        return "unknown"
    if one.read_bytes is None or one.read_bytes < READ:
        return f"{rate(one.batches / one.seconds)} batches/s"
    disk = ""
    if one.disk_bytes is not None:
        disk = f", {percent(min(one.disk_bytes / one.read_bytes, 1.0))} from storage"
    return f"{rate(one.batches / one.seconds)} batches/s ({one.read_bytes / one.seconds / 1e6:.3g} MB/s{disk})"


def _memory(trial: LoaderTrial) -> str:
    largest = max((point.memory_bytes or 0 for point in trial.points), default=0)
    if not largest:
        return ""
    free = trial.available_memory_bytes
    return f"a worker takes {size(largest)}" + ("" if free is None else f"; {size(free)} of the machine are free")


FORMATS: Final[dict[str, Callable[[Tried, Look], str]]] = {
    "terminal": loader_text,
    "json": loader_json,
    "markdown": loader_markdown,
    "html": loader_html,
}
