"""Reports as `whyidle lint` makes them."""

from __future__ import annotations

from dataclasses import replace

from whyidle.model.evidence import Ignored
from whyidle.model.finding import Finding, Fix, Location, Patch, Report, RunInfo, SourceSummary, Summary

READ = Finding(
    "sync.scalar_read",
    "medium",
    0.9,
    "`loss.item()` reads a value back from the GPU in every step: the GPU runs dry until the host has queued new work.",
    None,
    locations=(
        Location("train.py", 41, 20, "        running += loss.item()", name="train_epoch"),
        Location("train.py", 52, 9, "        print(running / steps)"),
    ),
    fixes=(
        Fix(
            "add up on the GPU, and read now and then",
            "running += loss.detach()\nif step % 100 == 0:\n    print(running.item() / steps)",
            "code",
            risk="",
            patch=Patch(safe=True, note="the loss is printed 100 steps later"),
        ),
    ),
)
LOADER = Finding(
    "input.workers_zero",
    "medium",
    0.7,
    "`DataLoader` loads in the training process, as `num_workers` is not given: the GPU waits for each batch.",
    None,
    seen="the data set decodes images",
    locations=(
        Location("data/images & more.py", 12, 14, "    loader = DataLoader(data, batch_size=64, shuffle=True)"),
    ),
    fixes=(
        Fix(
            "load in worker processes",
            "DataLoader(data, batch_size=64, shuffle=True, num_workers=4, persistent_workers=True)",
            "argument",
            risk="each worker holds a copy of the data set object",
        ),
        Fix("move the decoding out of the training", "", "code"),
    ),
)
PROFILER = Finding(
    "measure.left_on",
    "medium",
    0.9,
    "Autograd's anomaly detection is on for the whole run: every operation is checked, which reads from the GPU.",
    None,
    locations=(Location("train.py", 7, 1, "torch.autograd.set_detect_anomaly(True)"),),
    fixes=(Fix("turn it off", "torch.autograd.set_detect_anomaly(False)", "argument", patch=Patch(safe=False)),),
)
COPY = Finding(
    "transfer.pageable_h2d",
    "low",
    0.7,
    "`images.to(device)` copies from pageable memory, and the host waits for the copy in every step.",
    None,
    locations=(Location("train.py", 35, 18, "        images = images.to(device)"),),
    fixes=(Fix("pin and do not wait", 'images.to(device, non_blocking=True)', "argument", patch=Patch(safe=True)),),
)  # fmt: skip


def copies(count: int) -> tuple[Finding, ...]:
    files = ["train.py"] * 8 + ["evaluate.py"] * count
    places = (Location(files[n], 80 + 11 * n, 5, "x = x.to(device)") for n in range(count))
    return tuple(replace(COPY, locations=(place,)) for place in places)


def linted() -> Report:
    """All that a lint report can hold, on a small scale."""
    persistent = replace(
        COPY,
        rule="input.worker_startup",
        message="Workers are started anew in each epoch, as `persistent_workers` is not set.",
        locations=(Location("train.py", 12, 14),),
        fixes=(),
    )
    return Report(
        RunInfo(ignored=(Ignored("old/two.py", "line 3: Missing parentheses in call to 'print'."),)),
        Summary("3 lines in 2 of 14 files can stall the GPU.", source=SourceSummary(14, 3212, unread=1, fixable=3)),
        (READ, LOADER, PROFILER, COPY, persistent),
        warnings=(
            "old/two.py: line 3: Missing parentheses in call to 'print'.",
            "old/settings.ini: not read, since there is a pyproject.toml.",
        ),
    )


def much_linted() -> Report:
    """More than fits a screen."""
    small = linted()
    reads = tuple(
        replace(READ, locations=(Location(f"models/part{n}.py", 10 + n, 9, "        loss.item()"),)) for n in range(30)
    )
    summary = replace(small.summary, verdict="51 lines in 31 of 140 files can stall the GPU.")
    return replace(small, findings=(*reads, LOADER, *copies(20)), summary=summary)


def clean_source() -> Report:
    """Nothing to find."""
    return Report(RunInfo(), Summary("No line of these can stall the GPU.", source=SourceSummary(1, 93, notebooks=1)))


def notebook() -> Report:
    """A finding in a cell of a notebook: the line counts the lines of all cells before it."""
    place = Location("study.ipynb", 41, 9, "        loss.item()", name="cell 3, line 5")
    report = linted()
    return replace(report, findings=(replace(READ, locations=(place,)),), run=RunInfo(), warnings=())
