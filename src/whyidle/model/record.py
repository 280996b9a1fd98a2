"""Records that the processes of a job leave behind, as bytes: docs/run-directory.md describes them.

Here rather than where one of them is read, since the collector, the pace and the readers all do that; and apart from
`evidence`, which holds them as columns, since `whyidle run` has to be quick to start the job and needs no numpy for it.
(The job's own half, capture/_whyidle/ring.py, shares files with us, never code.)
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

MAGIC: Final = b"WHYIDLE1"
HEADER_BYTES: Final = 4096
RECORD: Final = struct.Struct("<BBHIqqq")  # kind, flags, thread, sequence, start (ns), duration (ns), value
SEQUENCES: Final = 1 << 32  # after as many the number of a record begins again
MOST_RECORDS: Final = 524_288  # in one file of events

# Flags of BATCH, FORWARD and LOSS.
END_OF_DATA: Final = 1
COMPUTED, FULL = 2, 62  # from bit 2 on: 1 + the part of the time in which the thread computed, in 62nds
GRADIENTS: Final = 2
SCALED: Final = 1  # of LOSS: a gradient scaler multiplied it, nobody knows by what


class Record(IntEnum):
    """What a record of a process is. docs/run-directory.md describes each, with its flags and its value."""

    BATCH = 1
    STEP = 2
    FORWARD = 3
    BACKWARD = 4
    SAVE = 5
    ITERATE = 6
    SCALE = 7
    PROFILE = 8
    COLLECT = 9
    GPU = 10
    WATCH = 11
    RANGE = 12
    COUNT = 13
    ENVIRONMENT = 14
    LOSS = 15
