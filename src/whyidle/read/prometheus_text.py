"""Prometheus' text format as dcgm-exporter and nvidia_gpu_exporter write it: a scrape is a moment, several a curve."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import SECOND, Samples, Subject, moment_in_name, number, text_of

SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]{0,199})(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d{1,19}))?\s*$")
LABEL: Final = re.compile(r'([a-zA-Z_]\w{0,99})="((?:[^"\\]|\\.)*)"')
HEAD: Final = re.compile(rb"(?:^|\n)(?:# (?:HELP|TYPE) )?(?:DCGM_FI_(?:DEV|PROF)_|nvidia_smi_)\w+[ {]")
MOST_DIGITS: Final = 6  # of the number of a GPU
LONGEST_LABEL: Final = 256  # characters
LONGEST_LINE: Final = 1 << 14  # characters
INTERVAL: Final = {"DCGM": 30, "nvid": 15}  # s between scrapes that tell no time: dcgm-exporter -c; Prometheus' custom
HOST_LABELS: Final = ("Hostname", "hostname", "node", "instance")
MIB: Final = 1 << 20

FREE, USED, TOTAL = "memory_free_bytes", "memory_used_bytes", "memory_total_bytes"

# A metric, what it is as a series, and by what its value is multiplied. dcgm-exporter: etc/dcp-metrics-included.csv.
METRICS: Final[Mapping[str, tuple[str, float]]] = {
    "DCGM_FI_DEV_GPU_UTIL": ("utilization_percent", 1),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilization_percent", 1),
    "DCGM_FI_DEV_ENC_UTIL": ("encoder_percent", 1),
    "DCGM_FI_DEV_DEC_UTIL": ("decoder_percent", 1),
    "DCGM_FI_DEV_FB_USED": (USED, MIB),
    "DCGM_FI_DEV_FB_FREE": (FREE, MIB),
    "DCGM_FI_DEV_FB_TOTAL": (TOTAL, MIB),
    "DCGM_FI_DEV_POWER_USAGE": ("power_w", 1),
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("power_limit_w", 1),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("power_limit_w", 1),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", 1),
    "DCGM_FI_DEV_MAX_SM_CLOCK": ("sm_clock_max_mhz", 1),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_c", 1),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("throttle_reasons", 1),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("throttle_reasons", 1),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy_j", 1e-3),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("graphics_active_share", 1),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_share", 1),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy_share", 1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_share", 1),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_share", 1),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("fp64_active_share", 1),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("fp32_active_share", 1),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("fp16_active_share", 1),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx_bytes_per_s", 1),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx_bytes_per_s", 1),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("nvlink_tx_bytes_per_s", 1),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("nvlink_rx_bytes_per_s", 1),
    "nvidia_smi_utilization_gpu_ratio": ("utilization_percent", 100),
    "nvidia_smi_utilization_memory_ratio": ("memory_utilization_percent", 100),
    "nvidia_smi_utilization_encoder_ratio": ("encoder_percent", 100),
    "nvidia_smi_utilization_decoder_ratio": ("decoder_percent", 100),
    "nvidia_smi_memory_used_bytes": ("memory_used_bytes", 1),
    "nvidia_smi_memory_total_bytes": ("memory_total_bytes", 1),
    "nvidia_smi_power_draw_watts": ("power_w", 1),
    "nvidia_smi_enforced_power_limit_watts": ("power_limit_w", 1),
    "nvidia_smi_clocks_current_sm_clock_hz": ("sm_clock_mhz", 1e-6),
    "nvidia_smi_clocks_max_sm_clock_hz": ("sm_clock_max_mhz", 1e-6),
    "nvidia_smi_temperature_gpu": ("temperature_c", 1),
    "nvidia_smi_clocks_event_reasons_active": ("throttle_reasons", 1),
    "nvidia_smi_clocks_throttle_reasons_active": ("throttle_reasons", 1),
    "nvidia_smi_compute_apps": ("processes", 1),
}
UTILIZATION: Final = "utilization_percent"
# NVML has none for a GPU that is split (nvmlDeviceGetUtilizationRates): a 0 there is no measurement.
NOT_OF_A_PART: Final = (UTILIZATION, "memory_utilization_percent")


@dataclass(slots=True)
class _Scrapes:
    """Samples of a text, and what tells that one scrape has ended and the next began."""

    samples: Samples
    interval: int = 0  # s between scrapes, where they tell no time
    scrape: int = 0
    timed: int = 0  # samples with a time
    bare: int = 0  # samples without
    broken: int = 0  # lines that are no sample
    unknown_gpu: int = 0
    _uuids: dict[tuple[str, str], int] = field(default_factory=dict)  # (host, UUID) -> number of the GPU
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _subjects: dict[str, Subject | None] = field(default_factory=dict)  # by the text of their labels
    _seen: set[tuple[str, str]] = field(default_factory=set)  # (metric, labels) of this scrape

    def identify(self, line: str) -> None:
        """Note which number and name a GPU has: nvidia_gpu_exporter tells both in one metric only."""
        if told := SAMPLE.match(line):
            labels = _labels(told.group(2) or "")
            key = (_host(labels), labels.get("uuid", ""))
            if labels.get("index", "").isdecimal() and len(labels["index"]) < MOST_DIGITS:
                self._uuids[key] = int(labels["index"])
            self._names[key] = labels.get("name", "")

    def take(self, name: str, line: str) -> None:
        """Note a sample of a counter that we know."""
        told = SAMPLE.match(line)
        if told is None:
            self.broken += 1
            return
        labels, value, when = told.group(2) or "", told.group(3), told.group(4)
        self.interval = self.interval or INTERVAL.get(name[:4], 15)
        if when is None:
            self.bare += 1
            if (name, labels) in self._seen:
                self.scrape += 1
                self._seen.clear()
            self._seen.add((name, labels))
        else:
            self.timed += 1
        time = self.scrape * self.interval * SECOND if when is None else int(when) * 1_000_000
        subject = self._subject(labels, name)
        if subject is None:
            self.unknown_gpu += 1
        elif 0 <= time < 1 << 62:
            series, factor = METRICS[name]
            unknown = subject.instance and series in NOT_OF_A_PART
            self.samples.add(subject, series, time, math.nan if unknown else number(value) * factor)
        else:
            self.broken += 1

    def _subject(self, text: str, metric: str) -> Subject | None:
        """Return of which GPU a sample is by its labels; None if they do not tell."""
        if text not in self._subjects:
            labels = _labels(text)
            host, device = _host(labels), self._device(labels)
            part = f"{labels.get('GPU_I_PROFILE', '')} {labels.get('GPU_I_ID', '')}".strip()
            subject = self._subjects[text] = None if device is None else Subject(host, device, part)
            model = labels.get("modelName") or self._names.get((host, labels.get("uuid", "")))
            if subject is not None and model:
                self.samples.tell(subject, "name", model, metric)
        return self._subjects[text]

    def _device(self, labels: dict[str, str]) -> int | None:
        told, host = labels.get("gpu", ""), _host(labels)
        if told.isdecimal() and len(told) < MOST_DIGITS:
            return int(told)
        uuid = labels.get("uuid") or labels.get("UUID")
        if uuid is None:
            return None
        return self._uuids.setdefault((host, uuid), sum(known == host for known, _ in self._uuids))


class PrometheusText(Reader):
    """What an exporter of GPU counters answered, once or again and again into one file."""

    kind = "prometheus text"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.search(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader. Without times in it, a scrape is at 0 and the next follow at the exporter's usual interval."""
        samples = Samples()
        return curve_of(text_of(path, samples.warnings, progress).splitlines(), samples, path, self.kind)


def curve_of(lines: Iterable[str], samples: Samples, path: Path, kind: str) -> Curve:
    """Return the curve in lines of the text format. UnreadableError where no counter of a GPU is in them."""
    scrapes = _Scrapes(samples)
    lines = [line[:LONGEST_LINE] for line in lines]
    for line in lines:
        if line.startswith("nvidia_smi_gpu_info{"):
            scrapes.identify(line)
    for line in lines:
        name = line.partition("{")[0] if "{" in line else line.partition(" ")[0]
        if name in METRICS:
            scrapes.take(name, line)
    if not samples.subjects():
        raise UnreadableError(path, "metrics of an exporter, without a counter of a GPU that whyidle knows.")
    _clock(path, scrapes)
    for count, what in (
        (scrapes.broken, "lines are no samples and left out"),
        (scrapes.unknown_gpu, "samples do not say of which GPU they are, and are left out"),
    ):
        if count:
            samples.warnings.append(f"{path}: {count:,} {what}.")
    _totals(samples)
    _split(path, samples)
    return samples.curve(path, kind)


def _host(labels: dict[str, str]) -> str:
    """Return the machine of a sample: as the exporter calls it, else the address that Prometheus scraped."""
    return next((labels[name] for name in HOST_LABELS if labels.get(name)), "")


def _labels(text: str) -> dict[str, str]:
    unescape = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
    return {
        name: re.sub(r"\\.", lambda found: unescape.get(found.group(), found.group()), value[:LONGEST_LABEL])
        for name, value in LABEL.findall(text)
    }


def _clock(path: Path, scrapes: _Scrapes) -> None:
    """Say which clock the samples have; where some tell their time and some do not, none can be placed."""
    samples = scrapes.samples
    if scrapes.timed and scrapes.bare:
        raise UnreadableError(path, "of its samples some have a time and some have none.", damaged=True)
    if scrapes.bare and not scrapes.scrape and (named := moment_in_name(path)) is not None:
        samples.shift(named)
        samples.warnings.append(f"{path}: its time is taken from its name.")
    elif scrapes.bare:
        samples.clock = "assumed" if scrapes.scrape else "relative"
    if scrapes.scrape:
        told = f"{scrapes.scrape + 1:,} scrapes that do not tell their time: taken as {scrapes.interval} s apart."
        samples.warnings.append(f"{path}: {told}")


def _totals(samples: Samples) -> None:
    """Where an exporter tells what is used and what is free, and not the sum, add it up."""
    for subject in samples.subjects():
        free = samples.take(subject, FREE)
        if not samples.has(subject, TOTAL):
            used = samples.values(subject, USED)
            for time in free.keys() & used.keys():
                samples.add(subject, TOTAL, time, free[time] + used[time])


def _split(path: Path, samples: Samples) -> None:
    """Say of GPUs that are split, and have no utilization, that it is unknown: NVML has none for them."""
    split = {(subject.node, subject.device) for subject in samples.subjects() if subject.instance}
    for node, device in sorted(split, key=str):
        whole = Subject(node, device)
        if not samples.has(whole, UTILIZATION):
            name = whole.name.replace("gpu ", "GPU ")
            samples.warnings.append(f"{path}: {name} is split (MIG): its utilization is not measured: unknown.")
