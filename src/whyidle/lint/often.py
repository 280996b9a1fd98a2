"""How findings say how often a line runs, and what that makes of their severity as long as no run was measured."""

from __future__ import annotations

import ast

from whyidle.lint.enclosing import around
from whyidle.lint.events import Event
from whyidle.lint.where import Where
from whyidle.model.finding import Severity

_WORK = {"train": "in every training step", "eval": "for every batch of the evaluation", "infer": "for every output"}


def each_step(where: Where) -> bool:
    """Say whether a line runs in each step of training, evaluation or generation, or does so under a setting."""
    return where.phase == "step" and where.work in _WORK and where.often and where.guard != "data"


def severity(where: Where) -> Severity:
    """Return medium where it certainly runs in each step of training or generation, else low."""
    return "medium" if where.hot and not where.update and where.guard == "" else "low"


def rhythm(event: Event) -> str:
    """Return in words how often it runs: "in every training step, when `args.debug` is set"."""
    where = event.where
    if where.phase == "maybe":
        said = "each time that it is called"
    elif where.work == "train" and (where.micro or where.update):
        said = "in every optimizer step" if where.update else "in every micro-step"
    else:
        said = _WORK.get(where.work, "in every step")
    return f"{said}{_when(event)}"


def _when(event: Event) -> str:
    if event.where.guard != "flag":
        return ""
    tests = [ast.unparse(node.test) for node in around(event.source, event.node) if isinstance(node, ast.If)]
    short = [test for test in tests if len(test) <= 40]
    return f", when `{short[-1]}` holds" if short else ", when a setting asks for it"
