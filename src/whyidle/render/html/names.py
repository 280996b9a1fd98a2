"""Names as a page has room for: never so short that two of them look alike."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.render.words import clean, middle

LONGEST = 300  # characters of a name that a page shows
ALL = 300_000  # characters of all names of a picture together: of those beyond, less is shown
_LIMITS = (LONGEST, 160, 80, 40, 20, 8)


def ends(paths: Sequence[str]) -> list[str]:
    """Return paths by their names, with as many of the folders above as tell all of them apart."""
    parts = [path.replace("\\", "/").rstrip("/").split("/") for path in paths]
    apart = len({tuple(one) for one in parts})
    for deep in range(1, max(map(len, parts), default=1)):
        short = ["/".join(one[-deep:]) for one in parts]
        if len(set(short)) == apart and all(short):
            return short
    return list(paths)


def fitted(names: Sequence[str], *, room: int = ALL) -> list[str]:
    """Return names cut to what there is room for, each in its middle or where it differs from those like it."""
    whole = [clean(name) for name in names]
    longest = next((limit for limit in _LIMITS if sum(min(len(name), limit) for name in whole) <= room), _LIMITS[-1])
    short = [middle(name, longest) for name in whole]
    alike: dict[str, list[int]] = {}
    for place, name in enumerate(short):
        if len(whole[place]) > longest:
            alike.setdefault(name, []).append(place)
    for places in alike.values():
        if len({whole[place] for place in places}) > 1:
            for place, name in zip(places, _told_apart([whole[place] for place in places], longest), strict=True):
                short[place] = name
    return short


def _told_apart(names: Sequence[str], longest: int) -> list[str]:
    """Return long names that begin and end alike, cut such that the first place where they differ stays.

    What differs in a second place only is told apart by a number.
    """
    least, most = min(names), max(names)  # what these begin with all of them begin with
    same = next((at for at, (one, other) in enumerate(zip(least, most, strict=False)) if one != other), len(least))
    room = max(longest - 10, 4)
    head, window = room // 4, room // 2
    tail = room - head - window
    begin = max(same - window // 4, head)
    shown = [f"{name[:head]}…{name[begin : begin + window]}…{name[len(name) - tail :]}" for name in names]
    numbers: dict[str, dict[str, int]] = {}
    for name, cut in zip(names, shown, strict=True):
        numbers.setdefault(cut, {}).setdefault(name, len(numbers[cut]) + 1)
    taken = {cut for cut, of in numbers.items() if len(of) == 1}
    return [cut if cut in taken else f"{cut} #{numbers[cut][name]}" for name, cut in zip(names, shown, strict=True)]
