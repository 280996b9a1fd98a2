"""CloudWatch's answers of a SageMaker job: GetMetricData, GetMetricStatistics, and what `whyidle sagemaker://` keeps.

Metrics of GPUs are sums over those of an instance, up to 100% times their number, and are divided by it here.
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html#cloudwatch-metrics-jobs
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whyidle.model.evidence import Curve
from whyidle.read.base import Progress, Reader, UnreadableError
from whyidle.read.samples import LARGEST, SECOND, Samples, Subject, moment, text_of

HEAD: Final = re.compile(rb'^\s*\{.{0,4096}?"(?:MetricDataResults|Datapoints)"\s*:\s*\[', re.DOTALL)
METRIC: Final = re.compile(r"GPUUtilization|GPUMemoryUtilization|CPUUtilization|MemoryUtilization|DiskUtilization")
HOST: Final = re.compile(r"\balgo-\d{1,5}\b")
STATISTICS: Final = ("Average", "Maximum", "Minimum", "Sum")  # in order of how well they tell how busy a GPU was
LONGEST_NAME: Final = 256  # characters
MOST_GPUS: Final = 16  # of an instance: p2.16xlarge

OF_GPUS: Final[Mapping[str, str]] = {
    "GPUUtilization": "utilization_percent",
    "GPUMemoryUtilization": "memory_used_percent",
}
OF_HOST: Final[Mapping[str, str]] = {
    "CPUUtilization": "cpu_busy_percent",
    "MemoryUtilization": "memory_busy_percent",
    "DiskUtilization": "disk_busy_percent",
}


@dataclass(frozen=True, slots=True)
class _Metric:
    """Points of one metric of one instance."""

    node: str  # algo-1
    name: str  # as CloudWatch calls it
    points: list[tuple[int, float]]  # ns since 1970, value


@dataclass(frozen=True, slots=True)
class _Instance:
    """What is known of the machines, as the envelope of our own request says."""

    gpus: int = 0
    vcpus: int = 0
    facts: tuple[tuple[str, str], ...] = ()


class CloudWatch(Reader):
    """CloudWatch metrics of a SageMaker training job."""

    kind = "CloudWatch metrics"

    @classmethod
    def sniff(cls, head: bytes, path: Path) -> bool:  # noqa: ARG003
        """See Reader."""
        return HEAD.match(head) is not None

    def read(self, path: Path, progress: Progress | None = None) -> Curve:
        """See Reader."""
        samples = Samples()
        try:
            answer = json.loads(text_of(path, samples.warnings, progress))
        except (ValueError, RecursionError) as error:
            raise UnreadableError(path, f"CloudWatch metrics, damaged or cut short ({error}).", damaged=True) from error
        if not isinstance(answer, dict):
            raise UnreadableError(path, "CloudWatch metrics that are no object.", damaged=True)
        metrics = [metric for metric in _metrics(answer, path) if metric.points]
        if (statistic := _statistic(answer)) != STATISTICS[0]:
            samples.warnings.append(f"{path}: no averages: each point is the {statistic.lower()} of its period.")
        if not any(metric.name == "GPUUtilization" for metric in metrics):
            told = ", ".join(sorted({metric.name for metric in metrics})) or "no points"
            raise UnreadableError(path, f"CloudWatch metrics without GPUUtilization ({told}).")
        instance = _instance(answer.get("whyidle"))
        gpus = instance.gpus or _gpus(metrics, path, samples)
        for node in dict.fromkeys(metric.node for metric in metrics):
            _node(node, [metric for metric in metrics if metric.node == node], gpus, instance, path, samples)
        return samples.curve(path, self.kind)


def _metrics(answer: dict[str, object], path: Path) -> Iterator[_Metric]:
    """Yield the metrics of an answer of either form; what is damaged in it is not there."""
    results = answer.get("MetricDataResults")
    if isinstance(results, list):
        for result in results:
            if isinstance(result, dict) and (named := _named(result, path)):
                times, values = result.get("Timestamps"), result.get("Values")
                if isinstance(times, list) and isinstance(values, list):
                    yield _Metric(*named, _points(zip(times, values, strict=False)))
    elif named := _named(answer, path):
        statistic = _statistic(answer)
        yield _Metric(*named, _points((row.get("Timestamp"), row.get(statistic)) for row in _rows(answer)))


def _rows(answer: dict[str, object]) -> list[dict[str, object]]:
    points = answer.get("Datapoints")
    return [row for row in points if isinstance(row, dict)] if isinstance(points, list) else []


def _statistic(answer: dict[str, object]) -> str:
    """Return which of CloudWatch's statistics the points of GetMetricStatistics are."""
    rows = _rows(answer)
    return next((name for name in STATISTICS if any(name in row for row in rows)), STATISTICS[0])


def _named(result: dict[str, object], path: Path) -> tuple[str, str] | None:
    """Return instance and metric, as label, id or the file's name tell; None if it is another metric."""
    told = f"{result.get('Label', '')} {result.get('Id', '')}"
    metric = METRIC.search(told) or METRIC.search(path.name)
    host = HOST.search(told) or HOST.search(path.name)
    return (host.group() if host else "", metric.group()) if metric else None


def _points(pairs: Iterator[tuple[object, object]] | zip[tuple[object, object]]) -> list[tuple[int, float]]:
    points = []
    for time, value in pairs:
        when = _time(time)
        if when is not None and isinstance(value, int | float) and abs(value) <= LARGEST:
            points.append((when, float(value)))
    return points


def _time(told: object) -> int | None:
    if isinstance(told, str):
        return moment(told)
    if isinstance(told, int | float) and 0 <= told < 1 << 32:
        return round(told * SECOND)
    return None


def _instance(envelope: object) -> _Instance:
    """Return what our own request wrote beside the answer."""
    if not isinstance(envelope, dict):
        return _Instance()
    counts = {
        key: told if isinstance(told := envelope.get(key), int) and 0 < told <= 1 << 12 else 0
        for key in ("gpus_per_instance", "vcpus")
    }
    names = {"gpu": "name", "instance_type": "instance_type", "job": "job"}
    facts = [
        (name, told[:LONGEST_NAME])
        for key, name in names.items()
        if isinstance(told := envelope.get(key), str) and told
    ]
    return _Instance(counts["gpus_per_instance"], counts["vcpus"], tuple(facts))


def _gpus(metrics: list[_Metric], path: Path, samples: Samples) -> int:
    """Return how many GPUs an instance has, as far as its metrics tell, and warn that it is taken from them."""
    highest = max(
        (value for metric in metrics if metric.name in OF_GPUS for _, value in metric.points if value >= 0), default=0.0
    )
    least = min(max(math.ceil(highest / 100 - 1e-6), 1), MOST_GPUS)
    if least > 1:
        told = f"sums over GPUs, of up to {highest:.0f}%: taken as {least} GPUs, the fewest that fit"
    else:
        told = "sums over the GPUs of an instance, whose number is not told: taken as one GPU"
    samples.warnings.append(f"{path}: {told}; more would be idle more. `whyidle sagemaker://JOB` knows.")
    return least


def _node(node: str, metrics: list[_Metric], gpus: int, instance: _Instance, path: Path, samples: Samples) -> None:
    """Add the series of one instance: its GPUs are one subject, their mean."""
    host, mean = Subject(node), Subject(node, 0)
    for metric in metrics:
        if metric.name in OF_GPUS:
            for time, value in metric.points:
                samples.add(mean, OF_GPUS[metric.name], time, value / gpus)
            continue
        parts = instance.vcpus if metric.name == "CPUUtilization" else 1
        if parts:
            for time, value in metric.points:
                samples.add(host, OF_HOST[metric.name], time, value / parts)
        else:
            samples.warnings.append(f"{path}: {metric.name} is a sum over CPUs, whose number is not told: left out.")
    samples.tell(mean, "gpus", gpus, "instance type" if instance.gpus else "largest sum")
    samples.tell(mean, "mean_of_gpus", gpus > 1, "CloudWatch")
    for name, told in instance.facts:
        samples.tell(mean, name, told, "whyidle sagemaker://")
