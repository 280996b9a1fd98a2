"""The bill of `whyidle cost`."""

from __future__ import annotations

from dataclasses import fields

from whyidle.cost import Bill, CostRow
from whyidle.render.json import dumps
from whyidle.render.words import clean, money, percent, plural


def bill_json(bill: Bill, source: str) -> str:
    """Return {"total_usd", "idle_usd", "table": [{"busy", "hours", "usd"}]}, what was asked, and whose price it is."""
    today = CostRow(bill.busy, bill.hours, bill.total_usd)
    values = {field.name: getattr(bill, field.name) for field in fields(bill)}
    return dumps({**values, "price_source": source, "today": today})


def bill_text(bill: Bill, source: str) -> str:
    """Return the bill for a person: today, and the same work on busier GPUs."""
    gpus = f"{plural(bill.gpus, 'GPU')} at {money(bill.usd_per_gpu_hour)} per GPU-hour"
    lines = [
        f"  {money(bill.total_usd)} in all, {money(bill.idle_usd)} of it for waiting.",
        f"  {gpus} for {bill.hours:,.4g} h, busy {percent(bill.busy)} of the time",
        f"  price: {clean(source)}",
        "",
        "  the same work at",
        f"  {'busy':>6}  {'time':>10}  {'cost':>14}  {'saved':>14}",
        _row(bill.busy, bill.hours, bill.total_usd, "today"),
        *(
            _row(row.busy, row.hours, row.usd, money(round(bill.total_usd, 2) - round(row.usd, 2)))
            for row in bill.table
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(busy: float, hours: float, usd: float, saved: str) -> str:
    return f"  {percent(busy):>6}  {f'{hours:,.1f} h':>10}  {money(usd):>14}  {saved:>14}"
