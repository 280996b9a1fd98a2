"""The forward pass and the loss in mixed precision: numbers change a little, so this is never safe."""

from __future__ import annotations

import ast

from whyidle.lint.repair import Import, Repair, Wrap
from whyidle.lint.repairs.mentions import path_to
from whyidle.lint.source import Source

_NOTE = (
    "matrix products are done in bfloat16: losses differ in the third digit; compare a short training with and without"
)


def autocast(forward: ast.stmt, backward: ast.stmt, source: Source) -> Repair | None:
    """Return the repair that puts what stands from the forward pass up to the backward pass below `torch.autocast`.

    Args:
        forward: the statement that calls the model.
        backward: the statement that calls `.backward()`, or what is around it, later in the same block.
        source: the file.
    """
    above = path_to(source.tree, forward)
    blocks = [field for _, field in ast.iter_fields(above[-2]) if isinstance(field, list)] if len(above) > 1 else []
    block = next((block for block in blocks if forward in block), [])
    start = block.index(forward) if forward in block else 0
    end = next((place for place, statement in enumerate(block) if backward in ast.walk(statement)), 0)
    if end <= start:
        return None
    if any(isinstance(part, ast.Attribute) and part.attr == "autocast" for one in block for part in ast.walk(one)):
        return None
    wrap = Wrap(block[start], block[end - 1], 'with torch.autocast("cuda", dtype=torch.bfloat16):')
    return Repair((Import("import torch"), wrap), safe=False, note=_NOTE)
