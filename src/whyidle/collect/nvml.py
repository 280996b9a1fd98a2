"""GPUs as NVIDIA's management library (NVML) sees them: what they are, how busy, how hot, who is on them.

Any question may go unanswered: virtual machines, MIG and consumer cards each refuse others. What is refused for good is
not asked again; a GPU that no longer answers is left alone. A question may also hang, with a GPU that fell off its bus;
so the collector asks in a thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from whyidle.collect import procfs

COLUMNS = (
    *("gpu", "utilization_percent", "memory_utilization_percent", "memory_used_bytes", "power_w", "sm_clock_mhz"),
    *("temperature_c", "throttle_reasons", "pcie_rx_kb_s", "pcie_tx_kb_s"),
    *("processes_of_job", "processes_foreign", "memory_foreign_bytes"),
)
RETRY_S = 10.0  # after a first failure; a driver that is still starting is there by then
LINK_SAMPLES = 10  # between two looks at a link's speed, which saving power lowers while the GPU idles
SERVERS = ("nvidia-cuda-mps",)  # hold a context for others: no job of their own


class Code(IntEnum):
    """Return codes of NVML, as nvml.h has them."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    LIB_RM_VERSION_MISMATCH = 18
    GPU_NOT_FOUND = 28


REFUSED = {Code.INVALID_ARGUMENT, Code.NOT_SUPPORTED, Code.NO_PERMISSION, Code.FUNCTION_NOT_FOUND}
VANISHED = {Code.UNINITIALIZED, Code.DRIVER_NOT_LOADED, Code.GPU_IS_LOST, Code.GPU_NOT_FOUND}
WHY = {
    Code.LIBRARY_NOT_FOUND: "no NVIDIA driver library (libnvidia-ml.so.1)",
    Code.DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    Code.NO_PERMISSION: "no permission to ask the NVIDIA driver",
    Code.LIB_RM_VERSION_MISMATCH: "the NVIDIA driver that is loaded and its library have different versions",
}

Number = int | float | None


@dataclass(frozen=True, slots=True)
class Occupant:
    """A process that has a context on a GPU."""

    pid: int
    memory_bytes: int | None  # that it holds; None where the driver keeps that to itself


@dataclass(slots=True)
class Facts:
    """A GPU as node.json describes it; None is not known.

    Attributes:
        pcie_generation: the highest that was seen: links slow down while a GPU idles.
        mig: it is split into instances, most counters of which NVML keeps to itself.
        numa_cpus: the CPUs of its NUMA node, as Linux lists them: `0-15,64-79`.
        visible: CUDA_VISIBLE_DEVICES lets the job use it.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_bytes: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    sm_clock_max_mhz: int | None = None
    numa_node: int | None = None
    numa_cpus: str | None = None
    mig: bool = False
    visible: bool | None = None


class _VanishedError(Exception):
    """A GPU does not answer any more."""


@dataclass(slots=True)
class _Gpu:
    handle: Any
    facts: Facts
    instances: list[str] = field(default_factory=list)  # uuids of its MIG instances
    refused: set[str] = field(default_factory=set)
    samples: int = 0
    occupants: tuple[Occupant, ...] | None = None  # as of the last sample; None where they cannot be seen


class Gpus:
    """The machine's GPUs.

    Args:
        warn: is told what goes wrong on the way.
        root: where the machine's files lie.
        environ: of the job: CUDA_VISIBLE_DEVICES.
    """

    def __init__(
        self, warn: Callable[[str], None], root: Path = Path("/"), environ: Mapping[str, str] | None = None
    ) -> None:
        self.state = "not asked yet"
        self._warn = warn
        self._root = root
        self._environ = os.environ if environ is None else environ
        self._nvml: Any = None
        self._gpus: list[_Gpu] = []
        self._gone: list[_Gpu] = []
        self._retry_at: float | None = 0.0
        self._failures = 0
        self._turn = 0
        self._apart = procfs.own_pid_namespace(root)

    def facts(self) -> list[dict[str, Any]]:
        """Return `gpus` of node.json."""
        known = sorted((gpu.facts for gpu in self._gpus + self._gone), key=lambda facts: facts.index)
        return [asdict(facts) for facts in known]

    def open(self, now_s: float) -> bool:
        """Find the GPUs, unless that is done, or failed twice, or failed lately; return whether `state` is news.

        Args:
            now_s: time, of any clock.
        """
        if self._retry_at is None or now_s < self._retry_at:
            return False
        before, self.state = self.state, self._open()
        self._retry_at = None
        self._failures += self.state != "ok"
        if self._failures == 1 and self.state not in ("ok", WHY[Code.LIBRARY_NOT_FOUND]):
            self._retry_at = now_s + RETRY_S
        return before != self.state

    def _open(self) -> str:
        try:
            import pynvml  # noqa: PLC0415  it is of no use on most machines that read recordings
        except ImportError:
            return "nvidia-ml-py is not installed"
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            return WHY.get(error.value, f"NVML: {error}")
        self._nvml = pynvml
        for index in range(count):
            try:
                gpu = _Gpu(pynvml.nvmlDeviceGetHandleByIndex(index), Facts(index))
                self._describe(gpu)
            except (pynvml.NVMLError, _VanishedError) as error:
                self._warn(f"GPU {index} does not answer: {error}")
                continue
            self._gpus.append(gpu)
        mark_visible([(gpu.facts, gpu.instances) for gpu in self._gpus], self._environ)
        return "ok" if self._gpus else "the NVIDIA driver sees no GPU"

    def _ask(self, gpu: _Gpu, name: str, *arguments: object) -> Any:
        """Return NVML's answer; None if it has none, for good or this time."""
        question = f"{name}{arguments}"
        if question in gpu.refused:
            return None
        function = getattr(self._nvml, name, None)
        if function is None:
            gpu.refused.add(question)
            return None
        try:
            return function(gpu.handle, *arguments)
        except self._nvml.NVMLError as error:
            if error.value in VANISHED:
                raise _VanishedError(str(error)) from error
            if error.value in REFUSED:
                gpu.refused.add(question)
            return None

    def _describe(self, gpu: _Gpu) -> None:
        """Fill in the facts."""
        facts = gpu.facts
        facts.name = self._ask(gpu, "nvmlDeviceGetName")
        facts.uuid = self._ask(gpu, "nvmlDeviceGetUUID")
        facts.memory_bytes = getattr(self._ask(gpu, "nvmlDeviceGetMemoryInfo"), "total", None)
        facts.pcie_generation_max = self._ask(gpu, "nvmlDeviceGetMaxPcieLinkGeneration")
        facts.pcie_width_max = self._ask(gpu, "nvmlDeviceGetMaxPcieLinkWidth")
        facts.power_limit_w = _watts(self._ask(gpu, "nvmlDeviceGetPowerManagementLimit"))
        facts.power_limit_default_w = _watts(self._ask(gpu, "nvmlDeviceGetPowerManagementDefaultLimit"))
        facts.sm_clock_max_mhz = self._ask(gpu, "nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM)
        facts.numa_node = self._numa_node(self._ask(gpu, "nvmlDeviceGetPciInfo"))
        if facts.numa_node is not None:
            node = self._root / f"sys/devices/system/node/node{facts.numa_node}/cpulist"
            facts.numa_cpus = (procfs.text(node) or "").strip() or None
        facts.mig = (self._ask(gpu, "nvmlDeviceGetMigMode") or [0])[0] == 1
        if facts.mig:
            gpu.instances = self._mig_uuids(gpu)
        self._look_at_link(gpu)

    def _look_at_link(self, gpu: _Gpu) -> None:
        facts = gpu.facts
        generation = self._ask(gpu, "nvmlDeviceGetCurrPcieLinkGeneration")
        width = self._ask(gpu, "nvmlDeviceGetCurrPcieLinkWidth")
        facts.pcie_generation = max(filter(None, (facts.pcie_generation, generation)), default=None)
        facts.pcie_width = max(filter(None, (facts.pcie_width, width)), default=None)

    def _numa_node(self, pci: Any) -> int | None:
        bus = getattr(pci, "busId", None)
        if not bus:
            return None
        domain, _, rest = (bus.decode() if isinstance(bus, bytes) else bus).partition(":")
        try:
            name = f"{int(domain, 16):04x}:{rest.lower()}"
        except ValueError:
            return None
        node = procfs.number(self._root / "sys/bus/pci/devices" / name / "numa_node")
        return node if node is not None and node >= 0 else None  # -1: the firmware does not say

    def _mig_uuids(self, gpu: _Gpu) -> list[str]:
        found = []
        for index in range(self._ask(gpu, "nvmlDeviceGetMaxMigDeviceCount") or 0):
            try:
                instance = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu.handle, index)
                found.append(str(self._nvml.nvmlDeviceGetUUID(instance)))
            except self._nvml.NVMLError:  # fewer instances than there could be
                continue
        return found

    def sample(self, job: Collection[int]) -> list[tuple[Number, ...]]:
        """Return a row per GPU that answers, with a value per name in COLUMNS; None where NVML does not say.

        Args:
            job: processes that are or were the job's.
        """
        rows = []
        asked = self._gpus[self._turn % len(self._gpus)] if self._gpus else None
        self._turn += 1
        for gpu in list(self._gpus):
            try:
                rows.append(self._row(gpu, job, carried=gpu is asked))
            except _VanishedError as error:
                self._gpus.remove(gpu)
                self._gone.append(gpu)
                self._warn(f"GPU {gpu.facts.index} does not answer any more: {error}")
        return rows

    def _row(self, gpu: _Gpu, job: Collection[int], *, carried: bool) -> tuple[Number, ...]:
        nvml = self._nvml
        busy = self._ask(gpu, "nvmlDeviceGetUtilizationRates")
        utilization = getattr(busy, "gpu", None)
        gpu.samples += 1
        if utilization and gpu.samples % LINK_SAMPLES == 1:
            self._look_at_link(gpu)
        # NVML measures this for 20 ms and makes the caller wait: one GPU a sample, in turns.
        received = self._ask(gpu, "nvmlDeviceGetPcieThroughput", nvml.NVML_PCIE_UTIL_RX_BYTES) if carried else None
        sent = self._ask(gpu, "nvmlDeviceGetPcieThroughput", nvml.NVML_PCIE_UTIL_TX_BYTES) if carried else None
        return (
            gpu.facts.index,
            utilization,
            getattr(busy, "memory", None),
            getattr(self._ask(gpu, "nvmlDeviceGetMemoryInfo"), "used", None),
            _watts(self._ask(gpu, "nvmlDeviceGetPowerUsage")),
            self._ask(gpu, "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
            self._ask(gpu, "nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
            self._throttle_reasons(gpu),
            received,
            sent,
            *self._processes(gpu, job),
        )

    def occupants(self) -> dict[int, tuple[Occupant, ...] | None]:
        """Return which processes computed on each GPU at the last sample; None where they cannot be seen.

        In a container that counts process ids apart, an empty list says nothing: the driver may hide those of others.
        """
        return {gpu.facts.index: gpu.occupants for gpu in self._gpus}

    def drawing(self, index: int) -> bool | None:
        """Return whether processes draw on a GPU (a desktop), which hold memory, too; None where NVML does not say."""
        gpu = next((gpu for gpu in self._gpus if gpu.facts.index == index), None)
        try:
            found = None if gpu is None else self._ask(gpu, "nvmlDeviceGetGraphicsRunningProcesses_v3")
        except _VanishedError:  # the next sample says so
            return None
        return None if found is None else bool(found)

    def _throttle_reasons(self, gpu: _Gpu) -> int | None:
        """Return NVML's bit mask, by its name of today or the one before driver 535."""
        reasons = self._ask(gpu, "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._ask(gpu, "nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else int(reasons)

    def _processes(self, gpu: _Gpu, job: Collection[int]) -> tuple[Number, Number, Number]:
        """Return processes of the job and others on a GPU, and the memory that the others hold, in bytes."""
        gpu.occupants = None
        if gpu.facts.mig:
            return None, None, None
        running = self._ask(gpu, "nvmlDeviceGetComputeRunningProcesses_v3")
        if running is None:  # before driver 510
            running = self._ask(gpu, "nvmlDeviceGetComputeRunningProcesses_v2")
        if running is None:
            return None, None, None
        # NVML may count in the machine's process ids, which say nothing in a container that has its own.
        if self._apart is not False and not all((self._root / f"proc/{entry.pid}").exists() for entry in running):
            return None, None, None
        if running or self._apart is False:
            gpu.occupants = tuple(Occupant(entry.pid, entry.usedGpuMemory) for entry in running)
        foreign = [entry for entry in running if entry.pid not in job and not self._serves(entry.pid)]
        held = [entry.usedGpuMemory for entry in foreign]
        ours = sum(entry.pid in job for entry in running)
        return ours, len(foreign), None if None in held else sum(held)

    def _serves(self, pid: int) -> bool:
        return (procfs.text(self._root / f"proc/{pid}/comm") or "").startswith(SERVERS)

    def close(self) -> None:
        """Let go of NVML."""
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):  # it is gone already
                self._nvml.nvmlShutdown()
            self._nvml = None
            self._gone, self._gpus = self._gone + self._gpus, []


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def mark_visible(gpus: list[tuple[Facts, list[str]]], environ: Mapping[str, str]) -> None:
    """Note which GPUs CUDA lets the job use.

    Args:
        gpus: each with the uuids of its MIG instances.
        environ: of the job.
    """
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        for facts, _ in gpus:
            facts.visible = True
        return
    # CUDA numbers the fastest first, NVML by PCI address: of different GPUs a number does not tell which is meant.
    numbered = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({facts.name for facts, _ in gpus}) == 1
    visible: set[int] = set()
    for word in chosen.split(","):
        token = word.strip()
        if token.isdecimal() and not numbered:
            return
        hits = [facts.index for facts, instances in gpus if _is_meant(token, facts, instances)]
        if len(hits) != 1:  # CUDA stops at the first that it does not know
            break
        visible.update(hits)
    for facts, _ in gpus:
        facts.visible = facts.index in visible


def _is_meant(token: str, facts: Facts, instances: list[str]) -> bool:
    if token.isdecimal():
        return int(token) == facts.index
    if token.startswith("MIG-GPU-"):  # before driver 470: MIG-GPU-<uuid>/<instance>/<instance>
        return facts.uuid is not None and token.startswith(f"MIG-{facts.uuid}/")
    if token.startswith("MIG-"):
        return any(uuid.startswith(token) for uuid in instances)
    return token.startswith("GPU-") and facts.uuid is not None and facts.uuid.startswith(token)
