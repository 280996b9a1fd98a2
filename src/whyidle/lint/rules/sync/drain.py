"""What waiting for the GPU at a line costs: how severe, how sure, and in which circumstances, in words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from whyidle.lint import often
from whyidle.lint.base import Hit
from whyidle.lint.events import Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair
from whyidle.lint.rules.sync import nearby
from whyidle.lint.values import Value
from whyidle.model.finding import Severity

PROVABLE = 0.9
LIKELY = 0.7
POSSIBLE = 0.5
# Functions that no step calls, as far as their names say so.
_SELDOM = re.compile(
    r"save|load|checkpoint|ckpt|eval|test|valid|metric|plot|log|print|report|summar|export|convert|main|init|setup|"
    r"build|debug|inspect|visual|draw|dataset|transform|augment|collate|__getitem__|convert|quanti[sz]|merge|shard|"
    r"prepare|tokeni[sz]|encode_file|gather|broadcast|reduce_dict|finali[sz]e|cleanup|benchmark|repr|str__|compare",
    re.IGNORECASE,
)
RUNS_DRY = "the GPU runs dry until the host has queued new work"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do about a wait."""

    title: str
    change: str
    repair: Repair | None = None
    risk: str = ""


def certainty(value: Value, job: Job) -> float:
    """Return how sure it is that a tensor is on the accelerator; 0 if it is not, or is no tensor."""
    if not value.has_device_tensor:
        return LIKELY if value.kind == "unknown" or (value.kind == "tensor" and value.place == "unknown") else 0.0
    known = any(one.kind == "tensor" and one.place == "device" for one in value.holds())
    return PROVABLE if known or job.gpu == "yes" else LIKELY


def drains(
    event: Event,
    job: Job,
    does: str,
    fix: Fix,
    *,
    sure: float,
    node: ast.AST | None = None,
    minor: bool = False,
    effect: str = RUNS_DRY,
    seldom: bool = False,
) -> Iterator[Hit]:
    """Yield the finding of a wait, if the line runs each time that its loop comes round.

    Args:
        event: what waits.
        job: the program that it is in.
        does: subject and verb: "`loss.item()` reads a value back from the GPU".
        fix: what to do instead.
        sure: that it waits at all.
        node: where the finding stands, if not at the event's node.
        minor: it costs little even where it runs in every step.
        effect: what happens then.
        seldom: commonly done once, so that a function that nothing calls is no sign of doing it in each step.
    """
    where = event.where
    if job.gpu == "no" or not where.reachable or where.compiled or sure <= 0:
        return
    if where.phase == "maybe" and (seldom or _SELDOM.search(where.function)):
        return
    again = nearby.drained(event)
    severity: Severity = "low" if minor or again else often.severity(where)
    confidence = sure
    if where.phase == "maybe" or where.guard == "data":
        confidence = min(confidence, POSSIBLE)
    elif where.guard == "flag" or not where.work:
        confidence = min(confidence, LIKELY)
    if again:
        effect = "right after another wait, so that it adds little"
    elif where.hot and nearby.before_backward(event):
        effect = "nothing of the backward pass is queued while the GPU finishes, and it runs dry"
    yield Hit(
        node or event.node,
        f"{does} {often.rhythm(event)}: {effect}.",
        severity,
        confidence,
        source=event.source if event.source is not job.source else None,
        title=fix.title,
        change=fix.change,
        repair=fix.repair,
        risk=fix.risk,
    )


def quoted(node: ast.AST, width: int = 48) -> str:
    """Return code as it is quoted in a message, cut where it is long."""
    text = " ".join(ast.unparse(node).split())
    return f"`{text}`" if len(text) <= width else f"`{text[: width - 1]}…`"
