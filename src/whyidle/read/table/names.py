"""What a column is, by the words of its header: nvidia-smi's, pynvml's, those of W&B, MLflow and people's own CSVs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from whyidle.model.evidence import Fact

DISK: Final = "%util"  # iostat's, of a disk
MIB: Final = float(2**20)

# What a unit is worth in the unit of the series whose name ends so. A unit that is not here does not fit.
UNITS: Final = {
    "percent": {b"": 1.0, b"%": 1.0},
    "share": {b"": 1.0, b"%": 0.01},
    "bytes": {
        b"": 1.0, b"B": 1.0, b"bytes": 1.0, b"kB": 1e3, b"KB": 1024.0, b"KiB": 1024.0, b"MB": MIB, b"MiB": MIB,
        b"M": MIB, b"GB": 1024 * MIB, b"GiB": 1024 * MIB, b"G": 1024 * MIB,
    },  # what says MB of GPUs means MiB, nvidia-smi first
    "w": {b"": 1.0, b"W": 1.0, b"mW": 1e-3, b"kW": 1e3},
    "mhz": {b"": 1.0, b"MHz": 1.0, b"GHz": 1e3, b"Hz": 1e-6},
    "c": {b"": 1.0, b"C": 1.0, b"\xb0C": 1.0, b"\xc2\xb0C": 1.0},
    "s": {b"": 1.0, b"B/s": 1.0, b"KB/s": 1e3, b"MB/s": 1e6, b"GB/s": 1e9},
    "j": {b"": 1.0, b"J": 1.0, b"mJ": 1e-3, b"kJ": 1e3},
    "reasons": {b"": 1.0},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the values of a column are."""

    name: str  # of the series
    factor: float = 1.0  # of a cell that tells no unit
    device: int | None = None  # that the header tells, where each GPU has its own column
    rank: int = 0  # of several columns of one name the lowest is read
    share: bool | None = None  # of a percentage: written 0-1; None: the header does not tell
    part: bool = False  # columns of this name add up

    def scale(self, unit: bytes) -> float | None:
        """Return what a cell in this unit is to be multiplied with; None: the unit does not fit."""
        if not unit:
            return self.factor
        known = UNITS[self.name.rsplit("_", 1)[-1]]
        return known.get(unit, known.get(unit.rstrip(b".")))


# Words of a header, after `_plain`, from the first that matches. nvidia-smi --help-query-gpu has the long ones.
_PATTERNS: Final = tuple(
    (re.compile(pattern), name, rank)
    for name, rank, pattern in (
        ("memory_utilization_percent", 0, r"(gpu )?utili[sz]ation memory|(gpu )?(mem|memory) (util|utili[sz]ation)"),
        ("memory_utilization_percent", 1, r"utili[sz]ation mem|gpu memory utili[sz]ation|mem(ory)? ?util( rate)?"),
        ("encoder_percent", 0, r"(utili[sz]ation )?enc(oder)?( util(i[sz]ation)?)?"),
        ("decoder_percent", 0, r"(utili[sz]ation )?dec(oder)?( util(i[sz]ation)?)?"),
        (
            "utilization_percent",
            0,
            r"(gpu|cuda|device|accelerator)? ?(util|utili[sz]ation)( gpu)?( rates?)?( avg| mean)?",
        ),
        ("utilization_percent", 1, r"gpu (usage|load|busy|use)|gpuutil|gpuutili[sz]ation|sm util(i[sz]ation)?"),
        ("utilization_percent", 2, r"dcgm fi dev gpu util|nvidia smi utili[sz]ation gpu ratio"),
        ("utilization_percent", 3, r"gfx( activity)?"),  # amd-smi monitor
        ("memory_used_bytes", 0, r"(gpu )?(memory|mem|vram|fb) used|used (gpu )?(memory|mem)|dcgm fi dev fb used"),
        ("memory_used_bytes", 1, r"(gpu )?(memory|mem|vram|fb) ?(usage|allocated)?|memory allocated bytes"),
        ("memory_total_bytes", 0, r"(gpu )?(memory|mem|vram|fb) total|total (gpu )?(memory|mem)"),
        ("power_w", 0, r"(gpu )?power( draw)?( average| avg)?|(gpu )?power usage|pwr|dcgm fi dev power usage"),
        ("power_w", 1, r"power draw instant|(gpu )?power draw( instant)?|powerwatts"),
        ("power_limit_w", 0, r"enforced power limit"),
        ("power_limit_w", 1, r"power limit|power cap|enforced power|power max limit"),
        ("sm_clock_mhz", 0, r"clocks (current )?sm|sm|sm clock|clock sm|dcgm fi dev sm clock"),
        ("sm_clock_mhz", 1, r"clocks (current )?gr(aphics)?|(gpu |graphics |core )?clock|gpu clk|pclk"),
        ("sm_clock_max_mhz", 0, r"clocks max sm|sm clock max|max sm clock"),
        ("sm_clock_max_mhz", 1, r"clocks max gr(aphics)?"),
        ("temperature_c", 0, r"(gpu )?temp(erature)?( gpu)?|gpu temp(erature)?|dcgm fi dev gpu temp"),
        ("throttle_reasons", 0, r"clocks (event|throttle) reasons active|throttle reasons"),
        ("sm_active_share", 0, r"(dcgm fi prof )?sm active|sm activity"),
        ("sm_occupancy_share", 0, r"(dcgm fi prof )?sm occupancy"),
        ("tensor_active_share", 0, r"(dcgm fi prof )?(pipe )?tensor( core)? activ(e|ity)"),
        ("dram_active_share", 0, r"(dcgm fi prof )?dram activ(e|ity)"),
        ("graphics_active_share", 0, r"(dcgm fi prof )?gr(aphics)? engine activ(e|ity)"),
    )
)

REASON: Final = re.compile(r"clocks (?:event|throttle) reasons (.*)")
REASONS: Final = {  # NVML's nvmlClocksEventReason*, which nvidia-smi also prints as a column each: Active, Not Active
    "gpu idle": 0x1, "applications clocks setting": 0x2, "sw power cap": 0x4, "hw slowdown": 0x8, "sync boost": 0x10,
    "sw thermal slowdown": 0x20, "hw thermal slowdown": 0x40, "hw power brake slowdown": 0x80,
}  # fmt: skip

TIME: Final = re.compile(
    r"(.* )?timestamps?( (utc|local|(?P<unit>s|sec|ms|us|ns)))?|t|ts|((date|local|utc) ?)?time( (utc|stamp|local))?"
    r"|query time|time( in)?( (?P<unit2>s|sec|seconds|ms|us|ns))?"
    r"|date|datetime|epoch( (?P<unit3>s|ms|us|ns))?|unix( ?time)?|unixtime|wall ?time|created at|when"
)
SINCE: Final = re.compile(
    r"runtime|relative time( (process|wall))?( (?P<unit>s|sec|ms))?|elapsed( time)?( (?P<unit2>s|sec|seconds|ms))?"
    r"|(sec|seconds)( elapsed)?|uptime|t (?P<unit3>s|sec|ms)"
)
UNIT_NS: Final = {"ms": 1e6, "us": 1e3, "ns": 1.0}
DEVICE: Final = re.compile(
    r"(gpu|device|cuda|accelerator|card)?( )?(index|idx|id|num|number|no|minor number|ordinal)|gpu|device|card|minor"
)
UUID: Final = re.compile(r"((gpu|device) )?(uuid|serial|pci bus id|bus id)|pci bus")
HOST: Final = re.compile(r"host|host ?name|node|node ?name|machine|server|worker|instance( id)?")
MODEL: Final = re.compile(r"(gpu|device|product) name|model( ?name)?")
INSTANCE: Final = re.compile(r"mig|mig (id|index|profile|uuid)|gi( id)?|gpu i id|gpu instance( id)?")
_SHARE_WORDS: Final = re.compile(r"\b(share|ratio|frac|fraction)\b")
_PERCENT_WORDS: Final = re.compile(r"\b(percent|percentage|pct|perc)\b|%")
_UNIT_WORDS: Final = (
    (re.compile(r"\b(mib|mb|mebibytes|megabytes)\b"), MIB),
    (re.compile(r"\b(gib|gb|gigabytes)\b"), 1024 * MIB),
    (re.compile(r"\b(kib|kb)\b"), 1024.0),
    (re.compile(r"\b(mw|milliwatts?)\b"), 1e-3),
    (re.compile(r"\bghz\b"), 1e3),
    (re.compile(r"\b(b|bytes?|w|watts?|mhz|c|celsius)\b"), 1.0),
)
_ALL_UNITS: Final = re.compile(
    r"\b(percent|percentage|pct|perc|share|ratio|frac|fraction|mib|mb|mebibytes|megabytes|gib|gb|gigabytes|kib|kb|bytes?"
    r"|watts?|milliwatts?|w|mw|mhz|ghz|celsius|c|b)\b"
)
# One column per GPU: W&B's "system.gpu.0.gpu", MLflow's "system/gpu_0_utilization_percentage", "gpu0_util", nvitop's
# "metrics-daemon/cuda:0 (gpu:0)/gpu_utilization (%)/mean".
_NUMBERED: Final = re.compile(r"^(?:.* )?(?:gpu|cuda|device) ?(?P<device>\d{1,3})(?: (?P<rest>.*))?$")
_NUMBER_LAST: Final = re.compile(r"(?P<rest>(?:gpu )?(?:util|utili[sz]ation)(?: gpu)?) ?(?P<device>\d{1,3})")
# Grafana's legend of a query without one: DCGM_FI_DEV_GPU_UTIL{Hostname="node1", gpu="0"}, or the labels alone.
_LABELLED: Final = re.compile(r'(?P<metric>\w*)\s*\{.*?\bgpu="+(?P<device>\d{1,3})"+.*\}')
_WANDB: Final = {  # what W&B writes behind the number; "" is not read
    "gpu": "utilization_percent",
    "memory": "memory_utilization_percent",
    "memoryallocated": "memory_used_percent",
    "memoryallocatedbytes": "memory_used_bytes",
    "temp": "temperature_c",
    "powerwatts": "power_w",
    "powerpercent": "",
    "smclock": "sm_clock_mhz",
    "enforcedpowerlimitwatts": "power_limit_w",
}


def meaning_of(header: str, prefer_mib: bool = False) -> Meaning | None:
    """Return what a column holds by its header; None: nothing that is known.

    Args:
        header: as the file has it, "utilization.gpu [%]".
        prefer_mib: memory without a unit is in MiB, as nvidia-smi writes it with `nounits`.
    """
    if header.strip() == DISK:
        return None
    if labelled := _LABELLED.fullmatch(header.strip()):
        header = f"gpu {labelled['device']} {labelled['metric']}"
    words = plain(header)
    match = REASON.fullmatch(words)
    if match and match[1] in REASONS:
        return Meaning("throttle_reasons", float(REASONS[match[1]]), rank=1, part=True)
    return _counter(header, words, prefer_mib)


def _counter(header: str, words: str, prefer_mib: bool) -> Meaning | None:
    share = _is_share(header)
    factor = next((size for unit, size in _UNIT_WORDS if unit.search(words)), 0.0)
    bare = _bare(words)
    device = None
    if match := _NUMBERED.match(words):
        device = int(match["device"])
        rest = match["rest"] or ""
        if rest in _WANDB:
            return Meaning(_WANDB[rest], factor or 1.0, device, 0, share=False) if _WANDB[rest] else None
        bare = _bare(rest) or "gpu util"
    elif match := _NUMBER_LAST.fullmatch(bare):
        device, bare = int(match["device"]), match["rest"]
    if bare == "gpu" and share is not None:  # "gpu_percent"
        bare = "gpu util"
    found = next(((name, rank) for pattern, name, rank in _PATTERNS if pattern.fullmatch(bare)), None)
    if found is None:
        return None
    name, rank = found
    if name == "memory_used_bytes" and share is not None:
        name = "memory_used_percent"
    if name in {"memory_used_bytes", "memory_total_bytes"} and not factor and prefer_mib:
        factor = MIB
    if name.endswith("_share") and share is False:
        factor = 0.01
    return Meaning(name, factor or 1.0, device, rank, share)


def _bare(words: str) -> str:
    """Return the words without units, and without that it is a mean."""
    return re.sub(r" (mean|avg|average|last)$", "", " ".join(_ALL_UNITS.sub(" ", words).split()))


def _is_share(header: str) -> bool | None:
    """Say whether a header calls its values shares of 1 (True) or percent (False); None: neither."""
    words = header.lower().replace("_", " ")
    if _SHARE_WORDS.search(words):
        return True
    return False if _PERCENT_WORDS.search(words) else None


def plain(header: str) -> str:
    """Return the words of a header: "utilization.gpu [%]" is "utilization gpu", "gpuUtil" is "gpuutil"."""
    return re.sub(r"[^a-z0-9/%-]+|/|%", " ", header.lower()).strip()


def time_unit(words: str) -> float | None:
    """Return the unit of a time column in ns, 0 if its header does not tell one; None: it is no time column."""
    match = TIME.fullmatch(words) or SINCE.fullmatch(words)
    if match is None:
        return None
    told = next((unit for unit in match.groupdict().values() if unit), "")
    return UNIT_NS.get(told, 0.0)


def facts_of(name: str, value: float, subject: str, where: str) -> Fact | None:
    """Return the fact that a series of one constant value is."""
    if name == "memory_total_bytes":
        return Fact("memory_bytes", int(value), where, subject)
    if name in {"power_limit_w", "sm_clock_max_mhz"}:
        return Fact(name, float(value), where, subject)
    return None


def one_each(meanings: Sequence[Meaning | None]) -> dict[int, Meaning]:
    """Return the columns to read: of several that mean the same the one whose name says it best."""
    best: dict[tuple[str, int | None], Meaning] = {}
    for meaning in meanings:
        if meaning is not None:
            other = best.setdefault((meaning.name, meaning.device), meaning)
            if meaning.rank < other.rank:
                best[meaning.name, meaning.device] = meaning
    chosen: dict[int, Meaning] = {}
    for index, meaning in enumerate(meanings):
        if meaning is not None:
            first = best[meaning.name, meaning.device]
            if meaning is first or (meaning.part and first.part):
                chosen[index] = meaning
    return chosen


def repeated(meanings: Sequence[Meaning | None]) -> int:
    """Return how many columns mean what another one of as good a name means: W&B's, of several runs."""
    told = [(meaning.name, meaning.device, meaning.rank) for meaning in meanings if meaning and not meaning.part]
    return len(told) - len(set(told))
