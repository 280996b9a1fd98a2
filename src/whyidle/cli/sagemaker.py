"""`whyidle sagemaker`: what an Estimator is told, so that SageMaker shows what `whyidle run` measures."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

import typer

from whyidle.cli._destination import destination

# As `whyidle run --emit-metrics` writes them: docs/cli/run.md.
_NUMBER: Final = "([0-9]+(?:[.][0-9]+)?)"
METRICS: Final = ("step_time_sec", "data_wait_frac", "samples_per_sec", "tokens_per_sec")


def definitions() -> list[dict[str, str]]:
    """Return the metric definitions, as CreateTrainingJob takes them."""
    return [{"Name": f"whyidle:{name}", "Regex": f"{name}={_NUMBER};"} for name in METRICS]


def sagemaker(
    what: Annotated[Literal["metrics"], typer.Argument(metavar="metrics", help="The metric definitions.")],
    format: Annotated[  # noqa: A002
        Literal["json", "python"], typer.Option("--format", "-f", case_sensitive=False, help="json or python.")
    ] = "json",
) -> int:
    """Print the metric definitions of SageMaker for the lines that `whyidle run --emit-metrics` writes.

    SageMaker searches what a training job prints for them, and CloudWatch has the curves.

    For example:

        whyidle sagemaker metrics
        whyidle sagemaker metrics --format python

    docs/sagemaker.md says how a job runs under `whyidle run` there, and where its recording goes.
    """
    assert what == "metrics"
    lines = ",\n".join(f"    {json.dumps(one)}" for one in definitions())
    text = f"[\n{lines}\n]\n"
    with destination() as out:
        out.write(f"metric_definitions={text}" if format == "python" else text)
    return 0
