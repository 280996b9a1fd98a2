"""sagemaker://JOB -> what CloudWatch has of a training job's instances, one point a minute, as JSON.

CloudWatch sums GPUUtilization and GPUMemoryUtilization over the GPUs of an instance and CPUUtilization over its cores:
0 to 800 on one with eight GPUs. What is written says of what it is the sum; the reader divides.
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from whyidle.errors import WhyIdleError
from whyidle.fetch.aws import client, said
from whyidle.fetch.base import Progress, Source, parameters, shown
from whyidle.model.instances import Instance, instance

EXAMPLE: Final = "whyidle 'sagemaker://my-training-job?region=us-east-1'"
NAMESPACE: Final = "/aws/sagemaker/TrainingJobs"
GPU_METRICS: Final = ("GPUUtilization", "GPUMemoryUtilization")
METRICS: Final = (*GPU_METRICS, "CPUUtilization", "MemoryUtilization", "DiskUtilization")
FAILED: Final = ("InternalError", "Forbidden")  # of a metric; "PartialData" goes on with the next page
QUERIES: Final = 500  # that one call of GetMetricData takes
JOB: Final = re.compile(r"[A-Za-z0-9](?:-*[A-Za-z0-9]){0,62}")
# How long CloudWatch keeps points of a period.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html
KEPT: Final = ((60, timedelta(days=15)), (300, timedelta(days=63)), (3600, timedelta(days=455)))
BYTES_A_POINT: Final = 48  # in the file, about: what progress counts in
SHORTEST: Final = timedelta(minutes=1)  # a point

Described = Mapping[str, Any]  # as DescribeTrainingJob answers


@dataclass(frozen=True, slots=True)
class Job:
    """A training job: where it ran, and when."""

    name: str
    status: str  # InProgress, Completed, Failed, Stopping, Stopped
    instance_type: str  # of SageMaker: "ml.p4d.24xlarge"
    instance: Instance
    instances: int  # of all types
    started: datetime
    ended: datetime | None  # None while it runs


class SageMaker(Source):
    """The metrics of a SageMaker training job in CloudWatch."""

    schemes: ClassVar[tuple[str, ...]] = ("sagemaker",)
    example: ClassVar[str] = EXAMPLE

    def fetch(self, address: str, folder: Path, progress: Progress | None = None) -> list[Path]:
        """Write the metrics of every instance of the job while it ran."""
        parts = urlsplit(address)
        name = parts.netloc
        if not JOB.fullmatch(name) or parts.path.strip("/"):
            raise WhyIdleError(f"{shown(address)}: not the name of a training job", EXAMPLE)
        region = parameters(address, ("region",), EXAMPLE).get("region")
        sagemaker = client("sagemaker", region)
        job = described(sagemaker, name)
        cloudwatch = client("cloudwatch", region)
        results = _results(cloudwatch, job, datetime.now(UTC), progress)
        if not any(result["Values"] for result in results if result["Label"].endswith(GPU_METRICS[0])):
            raise _no_points(job)
        about = {
            "job": job.name,
            "status": job.status,
            "region": str(sagemaker.meta.region_name),
            "instance_type": job.instance_type,
            "instances": job.instances,
            "gpus_per_instance": job.instance.gpus,
            "gpu": job.instance.gpu,
            "vcpus": job.instance.vcpus,
            "started": _iso(job.started),
            "ended": None if job.ended is None else _iso(job.ended),
        }
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"MetricDataResults": results, "whyidle": about}, indent=1), "utf-8")
        return [path]


def described(sagemaker: Any, name: str) -> Job:
    """Return a training job as SageMaker describes it.

    Raises:
        WhyIdleError: there is none, it has not started, or it has no GPUs that we know.
    """
    with said(f"no training job {name!r} can be read"):
        found: Described = sagemaker.describe_training_job(TrainingJobName=name)
    resources = found.get("ResourceConfig") or {}  # a serverless job has none
    groups = resources.get("InstanceGroups") or [resources]
    types = {str(group.get("InstanceType", "instances that are not told")) for group in groups}
    known = {kind: machine for kind in types if (machine := instance(kind)) is not None}
    if not known:
        what = f"{name} runs on {', '.join(sorted(types))}: no instance type with NVIDIA GPUs that whyidle knows"
        raise WhyIdleError(what, "there is no GPU whose idle time could be judged")
    if len({(machine.gpu, machine.gpus) for machine in known.values()}) > 1:
        what = f"{name} runs on several kinds of GPU ({', '.join(sorted(known))})"
        raise WhyIdleError(what, "CloudWatch does not tell which instance has which, so no sum can be divided")
    started = found.get("TrainingStartTime")
    if started is None:
        status = found.get("SecondaryStatus") or found.get("TrainingJobStatus")
        raise WhyIdleError(f"{name} has not started to train: {status}", "ask again when it trains")
    kind, machine = next(iter(sorted(known.items())))
    count = sum(int(group.get("InstanceCount", 1)) for group in groups)
    status = str(found.get("TrainingJobStatus", ""))
    return Job(name, status, kind, machine, count, started, found.get("TrainingEndTime"))


def window(job: Job, now: datetime) -> tuple[datetime, datetime, int]:
    """Return from when to when CloudWatch is asked, and the seconds between two points that it still has.

    Raises:
        WhyIdleError: it has forgotten.
    """
    end = job.ended or now
    for period, kept in KEPT:
        if now - job.started < kept:
            start = datetime.fromtimestamp(job.started.timestamp() // period * period, UTC)
            return start, max(end, start + timedelta(seconds=period)), period
    raise WhyIdleError(f"{job.name} started on {job.started:%Y-%m-%d}: CloudWatch has forgotten it", EXAMPLE)


def _results(cloudwatch: Any, job: Job, now: datetime, progress: Progress | None) -> list[dict[str, Any]]:
    """Return every metric of every instance, as GetMetricData answers, with times as ISO 8601 text."""
    start, end, period = window(job, now)
    labels = [f"algo-{number} {metric}" for number in range(1, job.instances + 1) for metric in METRICS]
    found: dict[str, dict[str, Any]] = {label: {"Label": label, "Timestamps": [], "Values": []} for label in labels}
    expected = len(labels) * max(int((end - start).total_seconds()) // period, 1)
    points = 0
    for chunk in _chunks(labels):
        queries = [_query(job.name, label, period, number) for number, label in enumerate(chunk)]
        for page in _pages(cloudwatch, job.name, queries, start, end):
            for result in page:
                into = found.get(str(result.get("Label")))
                if into is None:
                    continue
                if result.get("StatusCode") in FAILED:
                    why = "; ".join(str(one.get("Value")) for one in result.get("Messages", ()))
                    what = f"CloudWatch does not give {result['Label']} of {job.name}: {result['StatusCode']}"
                    raise WhyIdleError(f"{what} {why}".rstrip(), "ask again")
                into["Timestamps"] += map(_iso, result.get("Timestamps", ()))
                into["Values"] += result.get("Values", ())
                points += len(result.get("Values", ()))
            if progress is not None:
                progress(Path(job.name), points * BYTES_A_POINT, max(expected, points) * BYTES_A_POINT)
    return [result for result in found.values() if result["Values"]]


def _pages(
    cloudwatch: Any,
    name: str,
    queries: list[dict[str, Any]],
    start: datetime,
    end: datetime,
) -> Iterator[list[dict[str, Any]]]:
    token: dict[str, str] = {}
    while True:
        with said(f"CloudWatch does not give the metrics of {name}"):
            answer = cloudwatch.get_metric_data(
                MetricDataQueries=queries, StartTime=start, EndTime=end, ScanBy="TimestampAscending", **token
            )
        yield answer.get("MetricDataResults", [])
        if not answer.get("NextToken"):
            return
        token = {"NextToken": answer["NextToken"]}


def _query(job: str, label: str, period: int, number: int) -> dict[str, Any]:
    host, _, metric = label.partition(" ")
    dimensions = [{"Name": "Host", "Value": f"{job}/{host}"}]
    asked = {"Namespace": NAMESPACE, "MetricName": metric, "Dimensions": dimensions}
    return {"Id": f"m{number}", "Label": label, "MetricStat": {"Metric": asked, "Period": period, "Stat": "Average"}}


def _chunks(labels: Sequence[str]) -> Iterator[Sequence[str]]:
    yield from (labels[at : at + QUERIES] for at in range(0, len(labels), QUERIES))


def _iso(when: datetime) -> str:
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _no_points(job: Job) -> WhyIdleError:
    ran = (job.ended or datetime.now(UTC)) - job.started
    if job.ended is None or ran < SHORTEST:
        return WhyIdleError(
            f"CloudWatch has no point of {job.name} yet: it started {_iso(job.started)} and is {job.status}",
            "it gets one a minute, some minutes late: ask again",
        )
    return WhyIdleError(f"CloudWatch has no GPU metrics of {job.name}, which ran for {ran}", EXAMPLE)
