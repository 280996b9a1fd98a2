"""What a watch saw, as a page and for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from whyidle.model.watch_history import WatchHistory
from whyidle.render.base import Look
from whyidle.render.json import dumps
from whyidle.render.words import clean, duration, money, percent, plural


def history_json(history: WatchHistory, look: Look) -> str:
    """Return what `--json` tells at the end, with the alarms."""
    return dumps(history.told, ascii_only=not look.unicode)


def history_html(history: WatchHistory, look: Look) -> str:
    """Return a page."""
    from whyidle.render.html.watch import watch_page  # noqa: PLC0415 - Jinja takes a fifth of a second

    return watch_page(history, look)


def headline(history: WatchHistory) -> str:
    """Return the answer in a sentence: how much of the time was idle, and what that cost."""
    known, idle = (sum(getattr(gpu, name) for gpu in history.gpus) for name in ("known_s", "idle_s"))
    if not known:
        silent = any(gpu.unknown_s for gpu in history.gpus)  # split ones, for instance
        why = "no sample says how busy they are" if silent else "there is one sample of them"
        return f"Nothing is known of the GPUs: {why if history.state == 'ok' else clean(history.state)}."
    costs = [gpu.idle_usd for gpu in history.gpus if gpu.idle_usd is not None]
    cost = f"; that cost {money(sum(costs))} in {duration(history.watched_s)}" if costs else ""
    gpus = "The GPU" if len(history.gpus) == 1 else f"The {plural(len(history.gpus), 'GPU')}"
    of = "measured time" if any(gpu.unknown_s for gpu in history.gpus) else "time"
    return f"{gpus} idled {percent(idle / known)} of the {of}{cost}."


FORMATS: Final[Mapping[str, Callable[[WatchHistory, Look], str]]] = {"html": history_html, "json": history_json}
