"""`whyidle cost`: what a job costs, and what it would cost on busier GPUs."""

from __future__ import annotations

from typing import Annotated

import typer

from whyidle import cost as costing
from whyidle.cli._destination import destination
from whyidle.errors import WhyIdleError
from whyidle.model.hardware import PRICED_GPUS, list_price
from whyidle.render.bill import bill_json, bill_text


def cost(
    hours: Annotated[float, typer.Option("--hours", metavar="H", help="How long the job runs.")],
    busy: Annotated[float, typer.Option("--busy", metavar="SHARE", help="Share of it in which the GPUs work, 0-1.")],
    gpus: Annotated[int, typer.Option("--gpus", metavar="N", help="GPUs that the job rents.")] = 1,
    price: Annotated[float | None, typer.Option("--price", metavar="USD", help="What one GPU costs per hour.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="NAME", help='Take the list price of this GPU: "H100", "A100 80GB".')
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",  # noqa: A002
) -> int:
    """Price a job, its waiting, and the same work on busier GPUs.

    The work is fixed, so hours = busy hours / busy share. That is the most a fix can bring: one cause less
    may leave others.

    For example:

        whyidle cost --gpus 8 --price 2.60 --hours 24 --busy 0.40
        whyidle cost --gpus 8 --gpu H100 --hours 24 --busy 0.40 --format json
    """
    if format not in {"terminal", "json"}:
        raise WhyIdleError(f"no format is called {format!r}", "formats: json, terminal")
    costing.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours, busy=busy)
    usd, source = _price(price, gpu)
    bill = costing.bill(gpus, usd, hours, busy)
    with destination() as out:
        text = bill_json(bill) if format == "json" else bill_text(bill, source)
        out.write(text)
    return 0


def _price(price: float | None, gpu: str | None) -> tuple[float, str]:
    """Return US dollars per GPU-hour and where the number comes from."""
    if price is not None:
        return price, "--price"
    if gpu is None:
        raise WhyIdleError("what does a GPU cost?", '--price 2.60, or --gpu "H100" for its list price')
    listed = list_price(gpu)
    if listed is None:
        alike = [name for name in PRICED_GPUS if gpu.strip().lower() in name.lower()]
        raise WhyIdleError(f"no list price for {gpu!r}", f"--price USD, or one of: {', '.join(alike or PRICED_GPUS)}")
    return listed.usd_per_gpu_hour, listed.source
