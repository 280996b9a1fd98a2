"""`whyidle alarm`: the alarm for a GPU that idles, for who watches already."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from whyidle.alarm_rules import cloudwatch, prometheus
from whyidle.cli._destination import destination
from whyidle.cli._numbers import share
from whyidle.errors import WhyIdleError
from whyidle.fetch.moments import seconds
from whyidle.fetch.prometheus import matchers
from whyidle.render.words import clean, plural

NAMES: Final = {"prometheus": "gpu-idle.yml", "cloudwatch": "gpu-idle.sh"}  # of files
Kind = Annotated[Literal["prometheus", "cloudwatch"], typer.Argument(metavar="prometheus|cloudwatch", help="For whom.")]
Floor = Annotated[str, typer.Option("--floor", metavar="SHARE", help="How busy a GPU has to be: 0.15, 15%.")]
Window = Annotated[str, typer.Option("--window", metavar="TIME", help="Over how long; the mean decides.")]
Whose = Annotated[
    Literal["whyidle", "dcgm"] | None,
    typer.Option("--metrics", help="prometheus: whyidle, of `whyidle watch --listen`, or dcgm. Else whyidle."),
]
Match = Annotated[
    str | None, typer.Option("--match", metavar="LABELS", help='prometheus: only these, as {cluster="a"}.')
]
Held = Annotated[bool, typer.Option("--held", help="prometheus: only GPUs on which something holds memory.")]
Job = Annotated[str | None, typer.Option("--job", metavar="NAME", help="cloudwatch: the SageMaker training job.")]
Type = Annotated[
    str | None, typer.Option("--instance-type", metavar="TYPE", help="cloudwatch: its instances, ml.p4d.24xlarge.")
]
Count = Annotated[int | None, typer.Option("--instances", metavar="N", help="cloudwatch: how many it has. Else 1.")]
Sns = Annotated[str | None, typer.Option("--sns", metavar="ARN", help="cloudwatch: the topic that is told.")]
Region = Annotated[
    str | None, typer.Option("--region", metavar="REGION", help="cloudwatch: where. Else as aws has it.")
]
Apply = Annotated[bool, typer.Option("--apply", help="cloudwatch: make them; SageMaker tells the instances.")]


def alarm(
    kind: Kind,
    floor: Floor = "15%",
    window: Window = "15m",
    metrics: Whose = None,
    match: Match = None,
    held: Held = False,
    job: Job = None,
    instance_type: Type = None,
    instances: Count = None,
    sns: Sns = None,
    region: Region = None,
    apply: Apply = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it to a file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Let -o replace a file.")] = False,
) -> int:
    """Write the alarm for GPUs that idle, as rules of Prometheus or alarms of CloudWatch.

    A GPU is idle that was busy less than the floor over the window, by the mean. What was not measured is not idle.

    For example:

        whyidle alarm prometheus -o gpu-idle.yml
        whyidle alarm prometheus --metrics dcgm --held --floor 30% --window 1h
        whyidle alarm cloudwatch --job my-training-job --instance-type ml.p4d.24xlarge --sns arn:aws:sns:...
        whyidle alarm cloudwatch --job my-training-job --sns arn:aws:sns:... --apply

    It prints what makes the alarm and makes none, but with --apply.
    """
    least, length_s = _floor(floor), seconds(window, "--window")
    strange: dict[str, object] = {"--metrics": metrics, "--match": match, "--held": held}
    if kind == "prometheus":
        strange = {"--job": job, "--instance-type": instance_type, "--instances": instances}
        strange |= {"--sns": sns, "--region": region, "--apply": apply}
    if given := [name for name, value in strange.items() if value not in (None, False)]:
        raise WhyIdleError(f"{', '.join(given)}: not of `whyidle alarm {kind}`", f"whyidle alarm {kind} --help")
    with destination(output, force=force, example=f"-o {NAMES[kind]}") as out:
        if kind == "prometheus":
            out.write(prometheus.rules(metrics or "whyidle", least, length_s, matchers(match or ""), held=held))
            return 0
        machines = _machines(job, instance_type, instances, region, apply)
        found = cloudwatch.alarms(machines, least, length_s, sns)
        if apply:
            cloudwatch.put(found, region)
            sys.stderr.write(f"whyidle: made {plural(len(found), 'alarm')} of {clean(machines.job)}\n")
        out.write(cloudwatch.commands(machines, least, found, region))
    return 0


def _machines(
    job: str | None, kind: str | None, count: int | None, region: str | None, ask: bool
) -> cloudwatch.Machines:
    if job is None:
        raise WhyIdleError("of which training job?", "--job my-training-job")
    if kind is not None:
        return cloudwatch.machines(job, kind, 1 if count is None else count)
    if not ask:
        hint = "--instance-type ml.p4d.24xlarge; with --apply SageMaker is asked"
        raise WhyIdleError("CloudWatch sums over the GPUs of an instance: how many has it?", hint)
    return cloudwatch.asked_machines(job, region)


def _floor(text: str) -> float:
    """Return "15%" as a share.

    Raises:
        WhyIdleError: it is none, or no GPU can be below or above it.
    """
    try:
        floor = share(text)
    except WhyIdleError as error:
        raise WhyIdleError(error.message, "--floor 15%") from None
    if not 0 < floor < 1:
        raise WhyIdleError(f"--floor is between 0% and 100%, not {text!r}", "--floor 15%")
    return floor
