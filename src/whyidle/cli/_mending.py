"""What --fix and --diff do with the files of a lint."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from whyidle.cli._destination import Destination
from whyidle.lint.files import File
from whyidle.lint.fixing import Fixed, fixes, write
from whyidle.lint.settings import Settings
from whyidle.model.finding import Location
from whyidle.render.places import spots
from whyidle.render.words import clean, plural


def mend(files: Sequence[File], settings: Settings, *, unsafe: bool) -> list[File]:
    """Make the changes in the files, say on standard error what was done, and return the files as they are then.

    Standard input is not written anywhere: it comes back with its new content.
    """
    made = list(fixes(files, settings, unsafe=unsafe))
    for one in made:
        if one.changed and not _given(one, files):
            write(one.source.path, one.data)
    _say("Fixed", made)
    new = {one.source.path: one.data for one in made}
    return [
        file
        if file.given is None
        else File(file.path, file.name, file.root, named=True, given=new.get(file.path, file.given))
        for file in files
    ]


def show(files: Sequence[File], settings: Settings, out: Destination, *, unsafe: bool) -> bool:
    """Write what would change as a unified diff, and say whether anything would."""
    made = list(fixes(files, settings, unsafe=unsafe))
    out.write("".join(one.diff for one in made if one.changed))
    _say("Would fix", made)
    return any(one.changed for one in made)


def _given(one: Fixed, files: Sequence[File]) -> bool:
    return any(file.given is not None and file.path == one.source.path for file in files)


def _say(what: str, made: Iterable[Fixed]) -> None:
    """Say how many findings are mended, where, and why others are not."""
    changed = [one for one in made if one.changed]
    applied = sum(len(one.applied) for one in changed)
    where = plural(len(changed), "file")
    sys.stderr.write(f"{what} {plural(applied, 'finding')} in {where}.\n" if applied else "Nothing to fix.\n")
    for one in made:
        reasons: dict[str, list[Location]] = {}
        for skipped, reason in sorted(one.skipped, key=lambda pair: pair[0].place):
            reasons.setdefault(reason, []).append(skipped.finding.locations[0])
        for reason, places in reasons.items():
            sys.stderr.write(f"whyidle: {spots(places)}: not fixed: {clean(reason)}\n")
