"""The bill of `whyidle cost`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from whyidle.cost import UNITS, Bill, CostRow
from whyidle.render.json import dumps
from whyidle.render.words import clean, money, percent, plural, unit_price


def bill_json(bill: Bill, source: str) -> str:
    """Return {"total_usd", "idle_usd", "table": [{"busy", "hours", "usd"}]}, what was asked, and whose price it is."""
    values = {field.name: getattr(bill, field.name) for field in fields(bill)}
    return dumps({**values, "price_source": source, "today": bill.today})


def bill_text(bill: Bill, source: str) -> str:
    """Return the bill for a person: today, and the same work on busier GPUs."""
    gpus = f"{plural(bill.gpus, 'GPU')} at {money(bill.usd_per_gpu_hour)} per GPU-hour"
    during = "" if bill.hours is None else f" for {bill.hours:,.4g} h"
    at = "" if bill.busy is None else f", busy {percent(bill.busy)} of the time"
    lines = [
        *_said(bill),
        f"  {gpus}{during}{at}",
        f"  price: {clean(source)}",
        *(["", "  the same work at", *_table(bill)] if bill.busy is not None else []),
    ]
    return "\n".join(lines) + "\n"


def _said(bill: Bill) -> Iterator[str]:
    """Yield the answer: what the job costs, and where its speed is known what a unit of its work does."""
    if bill.total_usd is not None:
        waits = "" if bill.idle_usd is None else f", {money(bill.idle_usd)} of it for waiting"
        yield f"  {money(bill.total_usd)} in all{waits}."
    prices = {unit: _per_million(bill.today, unit) for unit in UNITS}
    each = [f"{unit_price(usd)} per million {unit}" for unit, usd in prices.items() if usd is not None]
    if each and (bill.total_usd is None or bill.busy is None):  # else it is in the table
        yield f"  {', '.join(each)}."


def _table(bill: Bill) -> Iterator[str]:
    """Yield aligned lines, of what was given."""
    rows = [bill.today, *bill.table]
    columns = [["busy", *(percent(row.busy) for row in rows if row.busy is not None)]]
    if bill.total_usd is not None:
        saved = [money(round(bill.total_usd, 2) - round(row.usd, 2)) for row in bill.table if row.usd is not None]
        columns.append(["time", *(f"{row.hours:,.1f} h" for row in rows if row.hours is not None)])
        columns.append(["cost", *(money(row.usd) for row in rows if row.usd is not None)])
        columns.append(["waiting", *(money(row.idle_usd) for row in rows if row.idle_usd is not None)])
        columns.append(["saved", "today", *saved])
    for unit in UNITS:
        each = [unit_price(usd) for row in rows if (usd := _per_million(row, unit)) is not None]
        columns += [[f"$/1M {unit}", *each]] if each else []
    widths = [max(map(len, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        yield "    " + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _per_million(row: CostRow, unit: str) -> float | None:
    usd: float | None = getattr(row, f"usd_per_million_{unit}")
    return usd
