"""What the source says of a DataLoader: the value of a setting, where it is written, and what the loader is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from whyidle.lint.enclosing import around, loop_around
from whyidle.lint.events import Called
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.nodes import every
from whyidle.lint.source import Source

# Random numbers that an endless sampler promises: nobody sees the end of such an epoch (minGPT asks for 1e10).
ENDLESS = 1_000_000


_EVALUATION = re.compile(r"(^|[_.])(eval|evaluation|val|valid|validation|test|dev)(_|$|loader|set|data)")


@dataclass(frozen=True, slots=True)
class Setting:
    """An argument of a loader whose value the source tells."""

    value: object
    node: ast.AST  # where a person changes it
    source: Source
    how: Literal["missing", "given", "default"]  # default: of a command line argument

    @property
    def number(self) -> int | None:
        """Return the value where it is a whole number; True is none."""
        return self.value if isinstance(self.value, int) and not isinstance(self.value, bool) else None


def setting(use: LoaderUse, job: Job, name: str, default: object) -> Setting | None:
    """Return what a loader is told of `name`; None where the source does not say."""
    call, given = use.call, use.arguments.get(name)
    written = next((keyword.value for keyword in call.node.keywords if keyword.arg == name), None)
    if given is None and written is None:
        return Setting(default, call.node, call.source, "missing") if use.complete else None
    default_of = _option(written, job)
    if default_of is not None:
        return _default(default_of, job)
    if given is None or not given.known:
        return None
    option = next((call for call in job.default_nodes.values() if call is given.node), None)
    if option is not None:  # handed on by a function's parameter
        return _default(option, job)
    return Setting(given.constant, _place(given.node, call), call.source, "given")


def _place(node: ast.AST | None, call: Called) -> ast.AST:
    """Return where a value is written, if that is in the file that builds the loader, else the call."""
    if node is None:
        return call.node
    nearest = around(call.source, node)[-1]
    return node if any(child is node for child in ast.iter_child_nodes(nearest)) else call.node


def _option(expr: ast.expr | None, job: Job) -> ast.Call | None:
    """Return the `add_argument` of the option that an expression is: of `args.workers`, `int(opt.workers)`."""
    while isinstance(expr, ast.Call) and len(expr.args) == 1 and isinstance(expr.func, ast.Name):
        expr = expr.args[0]
    return job.default_nodes.get(expr.attr) if isinstance(expr, ast.Attribute) else None


def _default(option: ast.Call, job: Job) -> Setting | None:
    """Return an option's default, where it is spelled out, though the program may change it later."""
    node = next((keyword.value for keyword in option.keywords if keyword.arg == "default"), None)
    source = next((event.source for event in job.calls(".add_argument") if event.node is option), job.source)
    return Setting(node.value, node, source, "default") if isinstance(node, ast.Constant) else None


def for_training(use: LoaderUse) -> bool:
    """Say whether a training takes from a loader: a loop that is seen, or a framework's by the method's name."""
    if _named_for_evaluation(use):
        return False
    return use.trains or use.call.where.function.rpartition(".")[2] == "train_dataloader"


def for_evaluation(use: LoaderUse) -> bool:
    """Say whether a loader is seen in evaluation only, of a model and not of the data themselves."""
    if use.call.where.function.rpartition(".")[2] in {"val_dataloader", "test_dataloader", "predict_dataloader"}:
        return True
    if use.trains and _named_for_evaluation(use):
        return True
    evaluates = bool(use.moved) or any(loop.where.no_grad for loop in use.iterated)
    return evaluates and not use.trains and any(loop.where.work in {"eval", "infer"} for loop in use.iterated)


def endless(use: LoaderUse) -> bool:
    """Say whether one pass over a loader never ends, so that its workers start only once."""
    call = made(next((keyword.value for keyword in use.call.node.keywords if keyword.arg == "sampler"), None), use)
    if not isinstance(call, ast.Call):
        return False
    count = next((keyword.value for keyword in call.keywords if keyword.arg == "num_samples"), None)
    return "infinite" in ast.unparse(call.func).lower() or any(
        isinstance(part, ast.Constant) and isinstance(part.value, int | float) and part.value >= ENDLESS
        for part in (ast.walk(count) if count is not None else ())
    )


def _named_for_evaluation(use: LoaderUse) -> bool:
    """Say whether the variable that gets a loader says that it is for evaluation, within a training step at times."""
    statement = use.call.statement
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(_EVALUATION.search(ast.unparse(target)) for target in targets)


def built_each_time(use: LoaderUse, job: Job) -> bool:
    """Say whether a loader is built anew each time that it is iterated: both in a loop over epochs or steps."""
    if any(call.where.phase in {"epoch", "step"} for call in job.calls(use.call.name) if call.node is use.call.node):
        return True
    around = loop_around(use.call.source, use.call.node)
    return bool(use.iterated) and all(
        loop.where.function == use.call.where.function and loop_around(loop.source, loop.node) is around
        for loop in use.iterated
    )


def made(code: ast.expr | None, use: LoaderUse) -> ast.expr | None:
    """Return the expression that made an argument: what a variable was last given before the loader is built."""
    if not isinstance(code, ast.Name):
        return code
    before = [
        node
        for node in every(use.call.source, ast.Assign)
        if node.lineno < use.call.node.lineno
        and any(isinstance(target, ast.Name) and target.id == code.id for target in node.targets)
    ]
    return max(before, key=lambda node: node.lineno).value if before else code


def dataset_names(use: LoaderUse) -> str:
    """Return by what a loader's dataset was made, dotted; "" where that is not seen."""
    dataset = use.arguments.get("dataset")
    return dataset.name if dataset is not None else ""


def used_loaders(job: Job) -> Iterator[LoaderUse]:
    """Yield the loaders that something in the program takes from, those of evaluation too."""
    yield from (use for use in job.loaders if for_training(use) or for_evaluation(use))
