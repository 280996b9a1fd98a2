"""The bill of `whyidle cost`."""

from __future__ import annotations

from dataclasses import fields

from whyidle.cost import Bill, CostRow
from whyidle.render.json import dumps
from whyidle.render.words import clean, money, percent, plural, unit_price


def bill_json(bill: Bill, source: str) -> str:
    """Return {"total_usd", "idle_usd", "table": [{"busy", "hours", "usd"}]}, what was asked, and whose price it is."""
    values = {field.name: getattr(bill, field.name) for field in fields(bill)}
    return dumps({**values, "price_source": source, "today": bill.today})


def bill_text(bill: Bill, source: str) -> str:
    """Return the bill for a person: today, and the same work on busier GPUs."""
    gpus = f"{plural(bill.gpus, 'GPU')} at {money(bill.usd_per_gpu_hour)} per GPU-hour"
    units = [name for name in ("samples", "tokens") if getattr(bill, f"{name}_per_s") is not None]
    heads = [f"$/1M {name}" for name in units]
    rows = ((row, money(round(bill.total_usd, 2) - round(row.usd, 2))) for row in bill.table)
    lines = [
        f"  {money(bill.total_usd)} in all, {money(bill.idle_usd)} of it for waiting.",
        f"  {gpus} for {bill.hours:,.4g} h, busy {percent(bill.busy)} of the time",
        f"  price: {clean(source)}",
        "",
        "  the same work at",
        _line("busy", "time", "cost", "waiting", "saved", *heads),
        *(_row(row, saved, units) for row, saved in ((bill.today, "today"), *rows)),
    ]
    return "\n".join(lines) + "\n"


def _row(row: CostRow, saved: str, units: list[str]) -> str:
    each = [unit_price(getattr(row, f"usd_per_million_{name}")) for name in units]
    return _line(percent(row.busy), f"{row.hours:,.1f} h", money(row.usd), money(row.idle_usd), saved, *each)


def _line(busy: str, time: str, *sums: str) -> str:
    return f"  {busy:>6}  {time:>10}" + "".join(f"  {text:>13}" for text in sums)
