"""Libraries that work on the CPU, with which metrics are worked out on copies of the GPU's tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from whyidle.lint.enclosing import around
from whyidle.lint.events import Called, Event
from whyidle.lint.nodes import every
from whyidle.lint.source import Source

# numpy is none of them: converting to it is what everybody does, for whatever reason.
LIBRARIES = re.compile(
    r"^(cv2|sklearn\.metrics|scipy|skimage|pycocotools|pesq|pystoi|nltk|sacrebleu|rouge_score|jiwer|editdistance|"
    r"medpy|lpips_np|mir_eval|librosa|surface_distance)\."
)
_DRAWING = re.compile(r"\.(imwrite|imshow|waitKey|close|figure|show|subplots?|ion|ioff|setNumThreads|use)$")


def is_metric(event: Event) -> bool:
    """Say whether a call works something out on the CPU, with a library that knows nothing else."""
    return isinstance(event, Called) and LIBRARIES.match(event.name) is not None and not _DRAWING.search(event.name)


def feeds_metric(event: Called) -> bool:
    """Say whether a copy gets a name that a metric of the CPU is given, later in the same function."""
    statement = event.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    function = next(
        (
            above
            for above in reversed(around(event.source, event.node))
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        event.source.tree,
    )
    roots = {alias for alias, whole in _imports(event.source) if LIBRARIES.match(f"{whole}.")}
    return any(
        isinstance(node, ast.Call)
        and _root(node.func) in roots
        and any(isinstance(below, ast.Name) and below.id == name for below in ast.walk(node))
        for node in ast.walk(function)
    )


def _imports(source: Source) -> Iterator[tuple[str, str]]:
    for node in every(source, ast.Import):
        for alias in node.names:
            yield (alias.asname or alias.name.partition(".")[0]), alias.name
    for taken in every(source, ast.ImportFrom):
        for alias in taken.names if taken.module else ():
            yield (alias.asname or alias.name), f"{taken.module}.{alias.name}"


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
