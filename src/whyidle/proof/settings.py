"""What the run was set to: source shows a default, the run what was in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from whyidle.model.evidence import LoaderSettings, Value
from whyidle.model.finding import Finding
from whyidle.proof.recording import Recording, cleared
from whyidle.proof.waits import Suspect


class Setting(NamedTuple):
    """A setting that a rule asks for, and whether a value is what it asks for."""

    name: str
    well: Callable[[Value], bool]


# By rule: an argument of the DataLoader that the finding is about, at the line that builds it.
LOADERS: Mapping[str, Setting] = {
    "input.workers_zero": Setting("num_workers", lambda value: int(value) > 0),
    "input.worker_startup": Setting("persistent_workers", bool),
    "input.batch_granularity": Setting("batch_size", lambda value: int(value) > 1),
    "transfer.pageable_h2d": Setting("pin_memory", bool),
}
# By rule: a setting of the process, as docs/settings.md names it.
PROCESS: Mapping[str, tuple[Setting, ...]] = {
    "compute.cudnn_autotune": (Setting("cudnn_benchmark", bool),),
    "compute.fp32_no_tensorcore": (
        Setting("tf32_matmul", bool),
        Setting("matmul_precision", lambda value: value in {"high", "medium"}),
        Setting("autocast_dtype", lambda value: value in {"bfloat16", "float16"}),
        Setting("param_dtype", lambda value: value in {"bfloat16", "float16"}),
    ),
    "host.optimizer_loop": (Setting("optimizer_fused", bool), Setting("optimizer_foreach", bool)),
    "host.debugger_overhead": (Setting("tracing", lambda value: value == ""),),
    "compile.not_used": (Setting("compile", bool),),
}


def weigh(suspect: Suspect, recording: Recording) -> Finding | None:
    """Return a finding that the settings of the run contradict as cleared, else None."""
    rule, finding = suspect.finding.rule, suspect.finding
    asked = LOADERS.get(rule)
    values = [getattr(loader, asked.name) for loader in loaders_of(suspect, recording)] if asked is not None else []
    if asked is not None and values and all(value is not None and asked.well(value) for value in values):
        said = " and ".join(sorted({f"{value}" for value in values}))
        return cleared(finding, recording, f"the run has {asked.name}={said}")
    for setting in PROCESS.get(rule, ()):
        value = recording.settings.get(setting.name)
        if value is not None and setting.well(value):
            said = f"{setting.name}={value}" if value != "" else f"no {setting.name}"
            return cleared(finding, recording, f"the run has {said}")
    return None


def loaders_of(suspect: Suspect, recording: Recording) -> list[LoaderSettings]:
    """Return the DataLoaders that the line of a finding builds, as the run saw them: of all processes, and often."""
    found = []
    for log in recording.run.logs:
        for loader in log.loaders:
            file, _, line = loader.where.rpartition(":")
            if line.isdecimal() and suspect.spot.at(file, int(line)):
                found.append(loader)
    return found
