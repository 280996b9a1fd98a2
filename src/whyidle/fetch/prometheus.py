"""prometheus+http://host:port/ -> what DCGM's exporter or nvidia_gpu_exporter told Prometheus of GPUs, as text.

Without a step the samples come as they were scraped, with the times at which they were: a range query would repeat
the last sample wherever it asks more often than the exporter was scraped, and a curve of repeated samples has shapes
that no GPU had. With a step each point is the mean of the samples since the one before (`avg_over_time`), which is
right about idle time however long the step; of what has no mean it is the last.
API: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from whyidle.errors import WhyIdleError
from whyidle.fetch.base import Progress, Source, parameters, shown
from whyidle.fetch.exposition import Output, Samples
from whyidle.fetch.http import LARGEST, RefusedError, Server, TooMuchError
from whyidle.fetch.moments import duration, moment, seconds

T = TypeVar("T")

EXAMPLE: Final = "whyidle 'prometheus+http://localhost:9090/?match={Hostname=\"node7\"}&start=-3h'"
USUAL_S: Final = 3600.0  # without a start
POINTS: Final = 11_000  # of one series in one answer: Prometheus gives no more to a range query
FIRST_S: Final = 3600.0  # asked for at once, at first; then as much as comes easily

_DEVICE: Final = (
    *("GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL", "FB_USED", "FB_FREE", "FB_TOTAL", "SM_CLOCK"),
    *("MAX_SM_CLOCK", "GPU_TEMP", "POWER_USAGE", "POWER_MGMT_LIMIT", "ENFORCED_POWER_LIMIT"),
)
_PROFILING: Final = (
    *("GR_ENGINE_ACTIVE", "SM_ACTIVE", "SM_OCCUPANCY", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE"),
    *("PIPE_FP64_ACTIVE", "PIPE_FP32_ACTIVE", "PIPE_FP16_ACTIVE"),
    *("PCIE_RX_BYTES", "PCIE_TX_BYTES", "NVLINK_RX_BYTES", "NVLINK_TX_BYTES"),
)
_SMI: Final = (
    *("utilization_gpu_ratio", "utilization_memory_ratio", "utilization_encoder_ratio", "utilization_decoder_ratio"),
    *("memory_used_bytes", "memory_total_bytes", "power_draw_watts", "enforced_power_limit_watts"),
    *("clocks_current_sm_clock_hz", "clocks_max_sm_clock_hz", "temperature_gpu", "compute_apps"),
)
MEANT: Final = (
    *(f"DCGM_FI_DEV_{name}" for name in _DEVICE),
    *(f"DCGM_FI_PROF_{name}" for name in _PROFILING),
    *(f"nvidia_smi_{name}" for name in _SMI),
)
# Bits, counters and names: their mean says nothing.
COUNTED: Final = (
    *("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_XID_ERRORS"),
    *("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION"),
    *("nvidia_smi_clocks_event_reasons_active", "nvidia_smi_clocks_throttle_reasons_active", "nvidia_smi_gpu_info"),
    "nvidia_smi_index",
)
OURS: Final = "DCGM_FI_(?:DEV|PROF)_.+|nvidia_smi_.+"

_MATCHER: Final = r'\s*[A-Za-z_][A-Za-z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"\s*'
_SELECTOR: Final = re.compile(rf"(?:{_MATCHER}(?:,{_MATCHER})*,?\s*)?")


class _Answer(msgspec.Struct):
    """What every answer of the API is; of an error too."""

    status: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""


class _Matrix(msgspec.Struct):
    result: list[Samples]


def matchers(text: str) -> str:
    """Return `{Hostname="node7"}`, or the same without braces, as matchers that others can be put beside.

    Raises:
        WhyIdleError: it is no label selector.
    """
    inner = text.strip().removeprefix("{").removesuffix("}")
    if not _SELECTOR.fullmatch(inner):
        raise WhyIdleError(f"match is a label selector, not {text!r}", 'match={Hostname="node7",gpu=~"0|1"}')
    return inner.strip().rstrip(",")


class Prometheus(Source):
    """GPU metrics in a Prometheus, or in what speaks its API."""

    schemes: ClassVar[tuple[str, ...]] = ("prometheus+http", "prometheus+https")
    example: ClassVar[str] = EXAMPLE

    def fetch(self, address: str, folder: Path, progress: Progress | None = None) -> list[Path]:
        """Write the samples of every GPU metric that it has, one a line, each with its time."""
        asked = parameters(address, ("match", "start", "end", "step"), EXAMPLE)
        now = time.time()
        end = moment(asked.get("end", "now"), now, "end")
        start = moment(asked["start"], now, "start") if asked.get("start") else end - USUAL_S
        if not start < end:
            raise WhyIdleError(f"{shown(address)}: it starts at or after its end", EXAMPLE)
        step = seconds(asked["step"], "step") if asked.get("step") else None
        server = Server.of(re.sub(r"^prometheus\+", "", address, flags=re.IGNORECASE))
        query = _Query(server, matchers(asked.get("match", "")), start, end, step)
        names = query.names()
        if not names:
            raise _no_metrics(query)
        path = folder / "prometheus.prom"
        with path.open("x", encoding="utf-8", newline="\n") as file:
            output = Output(file, end - start, len(names))
            for number, name in enumerate(names):
                file.write(f"# TYPE {name} untyped\n")
                for done, series in query.samples(name):
                    output.write(name, series)
                    if progress is not None:
                        share = (number + done) / len(names)
                        progress(Path(urlsplit(server.base).netloc), output.size, round(output.size / share))
        if not output.lines:
            raise _no_metrics(query)
        return [path]


@dataclass(frozen=True, slots=True)
class _Query:
    """What is asked of whom."""

    server: Server
    matchers: str
    start: float  # s since 1970, as are the following
    end: float
    step: float | None

    def names(self) -> list[str]:
        """Return the metrics that there are in that time, of those that say something about GPUs."""
        asked = {"match[]": self._selector("", f'__name__=~"{OURS}"'), **self._window(self.start, self.end)}
        there = set(self._ask("/api/v1/label/__name__/values", asked, list[str]))
        return [name for name in (*MEANT, *COUNTED) if name in there]

    def samples(self, name: str) -> Iterator[tuple[float, list[Samples]]]:
        """Yield the share of the time that has come, and what came.

        A window is halved where it holds more than one answer takes, and doubled where it holds little.
        """
        most = float("inf") if self.step is None else self.step * (POINTS - 1)
        least = 1.0 if self.step is None else self.step
        at, width = self.start, min(most, self.end - self.start, FIRST_S if self.step is None else most)
        while at < self.end:
            until = min(at + width, self.end)
            try:
                size, series = self._range(name, at, until)
            except TooMuchError as error:
                if width <= least:
                    raise WhyIdleError(f"{error.message}, of {name}", 'narrow it: match={Hostname="node7"}') from None
                width = max(width / 2, least)
                continue
            at = until
            yield (at - self.start) / (self.end - self.start), series
            width = min(width * 2, most) if size < LARGEST / 8 else width

    def _range(self, name: str, start: float, end: float) -> tuple[int, list[Samples]]:
        """Return the bytes of an answer, and the series in it."""
        if self.step is None:
            query = f"{self._selector(name)}[{max(round((end - start) * 1000), 1)}ms]"
            path, asked = "/api/v1/query", {"query": query, "time": f"{end:.3f}"}
        else:
            over = "last_over_time" if name in COUNTED else "avg_over_time"
            query = f"{over}({self._selector(name)}[{duration(self.step)}])"
            window = self._window(start, end)
            path, asked = "/api/v1/query_range", {"query": query, "step": f"{self.step:.3f}", **window}
        matrix = self._ask(path, asked, _Matrix)
        return sum(len(series.values) for series in matrix.result) * 24, matrix.result

    def _ask(self, path: str, asked: dict[str, str], kind: type[T]) -> T:
        """Return the data of an answer.

        Raises:
            TooMuchError: more than the server gives, or than we take.
            WhyIdleError: it is an error, or no answer of this API.
        """
        try:
            body = self.server.ask(path, asked)
        except RefusedError as error:
            said = _error_in(error.body)
            if "too many samples" in said or "maximum resolution" in said:
                raise TooMuchError(f"{error.message}: {said}") from None
            raise WhyIdleError(f"{error.message}{': ' if said else ''}{said}", error.hint) from None
        try:
            answer = msgspec.json.decode(body, type=_Answer)
            if answer.status == "success":
                return msgspec.json.decode(answer.data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError):
            answer = _Answer(error=_looks_like(body))
        raise WhyIdleError(f"{self.server.base} does not answer as Prometheus does: {answer.error}", EXAMPLE)

    def _selector(self, name: str, *more: str) -> str:
        return f"{name}{{{','.join(filter(None, (*more, self.matchers)))}}}"

    def _window(self, start: float, end: float) -> dict[str, str]:
        return {"start": f"{start:.3f}", "end": f"{end:.3f}"}


def _error_in(body: bytes) -> str:
    """Return what an error page of Prometheus says; empty for a page of another server."""
    try:
        return msgspec.json.decode(body, type=_Answer).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _looks_like(body: bytes) -> str:
    if not body.strip():
        return "it says nothing"
    if body.lstrip()[:1] == b"<":
        return "it is a web page"
    return "its JSON is cut short, or of another kind" if body.lstrip()[:1] in b"{[" else "it is no JSON"


def _no_metrics(query: _Query) -> WhyIdleError:
    when = " to ".join(time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at)) for at in (query.start, query.end))
    where = f" with {{{query.matchers}}}" if query.matchers else ""
    what = f"{query.server.base} has no metrics of DCGM or nvidia_gpu_exporter{where} from {when}"
    return WhyIdleError(what, "start=-1d looks further back; is the exporter scraped? match= selects by label")
