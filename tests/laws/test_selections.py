"""Whatever the recording: host time by cause is all of it, once, and edits speak of what is there."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tests.laws.recordings import recordings
from whyidle.model.finding import Edit
from whyidle.model.intervals import intersect, union
from whyidle.replay.select import BATCH, DEVICE, HOST, MERGED, PLACES, Selection

CAUSES = ("data_wait", "python", "dispatch", "host")
TABLES = {"scale_device": DEVICE, "merge_launches": MERGED, "larger_batch": BATCH, "scale_host": HOST}
WAITS = ("scalar", "readback", "data_dependent", "grad_clip", "framework", "upload", "small_upload", "allocator")


def selector(text):
    """Return a selector from the words of a table."""
    words = dict(word.split("=") for word in text.split(", ") if word)
    return {name: False if value == "False" else value for name, value in words.items()}


EDITS = [Edit(kind, selector(text)) for kind, table in TABLES.items() for text in table]
EDITS += [Edit("remove_sync", {"kind": kind}) for kind in WAITS]
EDITS += [Edit("scale_host", {"cause": cause, **selector(place)}) for cause in CAUSES for place in ("", *PLACES)]


@settings(max_examples=200, deadline=None)
@given(recordings())
def test_every_nanosecond_of_the_host_has_one_cause(recording):
    a = recording.analysis()
    parts = Selection(a).host_parts
    low, high = a.t.whole_window
    whole = union(*(np.concatenate([getattr(part, side) for part in parts.values()]) for side in ("start", "end")))
    assert sum(part.total for part in parts.values()) == high - low == whole.total
    assert [(int(whole.start[0]), int(whole.end[0]))] == [(low, high)]
    for part in parts.values():
        assert (part.end > part.start).all()
        assert (part.start[1:] >= part.end[:-1]).all()


@settings(max_examples=100, deadline=None)
@given(recordings())
def test_edits_speak_of_what_is_there(recording):
    a = recording.analysis()
    selection, (low, high) = Selection(a), a.t.whole_window
    length = a.t.device.end - a.t.device.start
    for edit in EDITS:
        found = selection.select(edit)
        assert (np.diff(found.device) > 0).all(), edit
        assert (np.diff(found.waits) > 0).all(), edit
        assert ((found.time >= 0) & (found.time <= length[found.device])).all(), edit
        assert np.isin(np.flatnonzero(np.isin(a.t.launch, found.launches)), found.device).all(), edit
        assert found.host.start.min(initial=low) >= low, edit
        assert found.host.end.max(initial=high) <= high, edit
        assert intersect(found.host, found.host)[0].total == found.host.total, edit
