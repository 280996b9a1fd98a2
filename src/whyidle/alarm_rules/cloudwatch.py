"""Alarms of CloudWatch for a SageMaker training job: one per instance, as a call of aws, or put through boto3.

CloudWatch sums GPUUtilization over the GPUs of an instance, so the threshold is the floor times their number.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from whyidle.errors import WhyIdleError
from whyidle.fetch.aws import client, said
from whyidle.fetch.sagemaker import GPU_METRICS, JOB, NAMESPACE, described
from whyidle.model.instances import instance

PERIOD_S: Final = 300
MOST_INSTANCES: Final = 1000


@dataclass(frozen=True, slots=True)
class Machines:
    """The instances of a training job."""

    job: str
    kind: str  # of SageMaker: "ml.p4d.24xlarge"
    gpus: int  # of each
    count: int


def machines(job: str, kind: str, count: int) -> Machines:
    """Return the instances of a job as somebody says that they are.

    Raises:
        WhyIdleError: it cannot be.
    """
    if not JOB.fullmatch(job):
        raise WhyIdleError(f"not the name of a training job: {job!r}", "--job my-training-job")
    known = instance(kind)
    if known is None:
        raise WhyIdleError(f"{kind!r} is no instance type with NVIDIA GPUs that whyidle knows", "ml.p4d.24xlarge is")
    if not 1 <= count <= MOST_INSTANCES:
        raise WhyIdleError(f"a job has 1 to {MOST_INSTANCES:,} instances, not {count:,}", "--instances 2")
    return Machines(job, kind, known.gpus, count)


def asked_machines(job: str, region: str | None) -> Machines:
    """Return the instances of a job as SageMaker describes it."""
    found = described(client("sagemaker", region), job)
    return Machines(job, found.instance_type, found.instance.gpus, found.instances)


def alarms(of: Machines, floor: float, window_s: float, sns: str | None) -> list[dict[str, Any]]:
    """Return an alarm for each instance, as PutMetricAlarm takes them.

    Args:
        of: the job's instances.
        floor: share of the time that a GPU is busy at least, between 0 and 1.
        window_s: s, a whole number of periods.
        sns: ARN of the topic that is told, of the end of it too.

    Raises:
        WhyIdleError: the window is no whole number of periods.
    """
    periods = round(window_s / PERIOD_S)
    if periods < 1 or periods * PERIOD_S != window_s:
        raise WhyIdleError(
            f"CloudWatch looks every {PERIOD_S // 60} minutes: the window is 5m, 10m, 15m, …", "--window 15m"
        )
    return [_alarm(of, f"algo-{number}", floor, periods, sns) for number in range(1, of.count + 1)]


def _alarm(of: Machines, host: str, floor: float, periods: int, sns: str | None) -> dict[str, Any]:
    told = {"AlarmActions": [sns], "OKActions": [sns]} if sns else {}
    return {
        "AlarmName": f"whyidle-idle-{of.job}-{host}",
        "AlarmDescription": (
            f"GPUs of {of.job}/{host} busy less than {100 * floor:g}% for {periods * PERIOD_S // 60} minutes"
            f" ({_sum(of, floor)}). Why: whyidle sagemaker://{of.job}"
        ),
        "Namespace": NAMESPACE,
        "MetricName": GPU_METRICS[0],
        "Dimensions": [{"Name": "Host", "Value": f"{of.job}/{host}"}],
        "Statistic": "Average",
        "Period": PERIOD_S,
        "EvaluationPeriods": periods,
        "DatapointsToAlarm": periods,
        "Threshold": round(100 * floor * of.gpus, 6),
        "ComparisonOperator": "LessThanThreshold",
        "TreatMissingData": "notBreaching",
        **told,
    }


def commands(of: Machines, floor: float, found: list[dict[str, Any]], region: str | None) -> str:
    """Return calls of the aws command line that make these alarms."""
    names = shlex.join(alarm["AlarmName"] for alarm in found)
    end = f" --region {shlex.quote(region)}" if region else ""
    return "\n".join(
        [
            f"# GPUs busy less than {100 * floor:g}%: {_sum(of, floor)}. Missing data is not idle.",
            *(" \\\n    ".join(["aws cloudwatch put-metric-alarm" + end, *_options(alarm)]) for alarm in found),
            "# When the job is over:",
            f"# aws cloudwatch delete-alarms{end} --alarm-names {names}",
            "",
        ]
    )


def put(found: list[dict[str, Any]], region: str | None) -> None:
    """Make these alarms.

    Raises:
        WhyIdleError: AWS says no.
    """
    cloudwatch = client("cloudwatch", region)
    for alarm in found:
        with said(f"the alarm {alarm['AlarmName']} was not made"):
            cloudwatch.put_metric_alarm(**alarm)


def _sum(of: Machines, floor: float) -> str:
    if of.gpus == 1:
        return f"the threshold is {100 * floor:g}: {of.kind} has 1 GPU"
    threshold = f"the threshold is {100 * floor * of.gpus:g}, {of.gpus} x {100 * floor:g}%"
    return f"{threshold}: the metric is the sum over the {of.gpus} GPUs of {of.kind}"


def _options(alarm: dict[str, Any]) -> Iterator[str]:
    for name, value in alarm.items():
        option = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=K)(?=A)", "-", name).lower()
        if name == "Dimensions":
            text = " ".join(f"Name={one['Name']},Value={one['Value']}" for one in value)
        else:
            text = shlex.join(map(str, value if isinstance(value, list) else [value]))
        yield f"--{option} {text}"
