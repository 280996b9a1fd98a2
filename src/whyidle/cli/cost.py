"""`whyidle cost`: what a job costs, and what it would cost on busier GPUs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from whyidle import cost as costing
from whyidle.cli import _numbers as numbers
from whyidle.cli._destination import destination
from whyidle.cli._numbers import Price, priced
from whyidle.errors import WhyIdleError
from whyidle.model.hardware import PRICED_GPUS, list_price
from whyidle.render.bill import bill_json, bill_text

ASK: Final = "--price 2.60 --hours 24, or --price 2.60 --tokens-per-s 46104"


def cost(
    hours: Annotated[
        float | None, typer.Option("--hours", parser=numbers.hours, metavar="H", help="How long the job runs.")
    ] = None,
    busy: Annotated[
        float | None,
        typer.Option(
            "--busy", parser=numbers.share, metavar="SHARE", help="Share of it in which the GPUs work: 0.40, 40%."
        ),
    ] = None,
    gpus: Annotated[
        int, typer.Option("--gpus", parser=numbers.count, metavar="N", help="GPUs that the job rents.")
    ] = 1,
    price: Price = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="NAME", help='Or take the list price of this GPU: "H100 SXM", "A100 80GB".'),
    ] = None,
    samples_per_s: Annotated[
        float | None,
        typer.Option("--samples-per-s", parser=numbers.rate, metavar="N", help="What all GPUs get through now."),
    ] = None,
    tokens_per_s: Annotated[
        float | None, typer.Option("--tokens-per-s", parser=numbers.rate, metavar="N", help="The same, in tokens.")
    ] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",  # noqa: A002
) -> int:
    """Say what a job costs, and what it would cost if its GPUs waited less.

    `whyidle PATH` says how busy they are. The same work on GPUs that are twice as busy takes half the time;
    that is the most that fixing a wait can bring. --hours asks for what the job costs, a number per second for what
    a unit of its work does, --busy for the same on busier GPUs.

    For example:

        whyidle cost --gpus 8 --price 2.60 --hours 24 --busy 40%
        whyidle cost --gpus 8 --gpu "H100 SXM" --hours 24 --busy 40% -f json
        whyidle cost --gpus 8 --price 2.60 --tokens-per-s 46104
        whyidle cost --gpus 8 --price 2.60 --tokens-per-s 46104 --busy 40%
    """
    if format not in {"terminal", "json"}:
        raise WhyIdleError(f"no format is called {format!r}", "formats: json, terminal")
    if hours is None and samples_per_s is None and tokens_per_s is None:
        raise WhyIdleError("what shall be costed? A job takes hours, or does so much per second", ASK)
    costing.check(usd_per_gpu_hour=price, gpus=gpus, hours=hours, busy=busy)
    costing.check(samples_per_s=samples_per_s, tokens_per_s=tokens_per_s)
    usd, source = _price(price, gpu)
    bill = costing.bill(gpus, usd, hours, busy, samples_per_s=samples_per_s, tokens_per_s=tokens_per_s)
    with destination() as out:
        out.write(bill_json(bill, source) if format == "json" else bill_text(bill, source))
    return 0


def _price(price: float | None, gpu: str | None) -> tuple[float, str]:
    """Return US dollars per GPU-hour and where the number comes from."""
    if price is not None and gpu is not None:
        raise WhyIdleError("--price and --gpu both say what a GPU costs", "give one of the two")
    if gpu is None:
        usd, source = priced(price)
        if usd is not None:
            return usd, source
        raise WhyIdleError("what does a GPU cost?", '--price 2.60, or --gpu "H100 SXM" for its list price')
    listed = list_price(gpu)
    asked = gpu.strip().lower()
    alike = [name for name in PRICED_GPUS if asked == name.lower()] or [
        name for name in PRICED_GPUS if asked in name.lower()
    ]
    if listed is None or len(alike) > 1:
        what = f"{gpu!r} can be several GPUs" if len(alike) > 1 else f"no list price for {gpu!r}"
        raise WhyIdleError(what, f"--price USD, or --gpu with one of: {', '.join(alike or PRICED_GPUS)}")
    return listed.usd_per_gpu_hour, listed.source
