"""Imports go down only, so that each layer can be read, tested and replaced without those above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "whyidle"

# Lowest first; what stands on one line does not know its neighbours. docs/architecture.md draws it.
LAYERS = (
    ("_version", "errors", "discover"),
    ("model", "project"),
    ("read", "fetch"),
    ("measure",),
    ("rules", "lint"),
    ("replay",),
    ("rank", "watched", "curves", "fusion", "picture"),
    ("judge",),
    ("compare", "cost", "proof"),
    ("diagnosis",),
    ("render",),
    ("collect",),
    ("launch",),
    ("integrations",),
    ("sweep", "watch", "alarm_rules"),
    ("cli", "__init__"),
    ("__main__",),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
APART = "capture"  # runs in the user's job: shares files with the others, never code
HEAVY = {"numpy", "rich", "typer", "msgspec", "isal", "prometheus_client"}


def imported(source: str) -> Iterator[str]:
    """Yield the dotted name of everything that a module imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(dotted: str) -> str | None:
    """Return the layer that `whyidle.x.y` belongs to; None for what is not ours."""
    first, *rest = dotted.split(".")
    if first != "whyidle":
        return None
    known = rest and ((PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").is_file())
    return rest[0] if known else "__init__"


def upward(layer: str, source: str) -> list[str]:
    """Return the imports of a module of `layer` that do not go down."""
    return [
        name
        for name in imported(source)
        if (other := layer_of(name)) is not None
        and other != layer
        and (APART in (layer, other) or HEIGHT[other] >= HEIGHT[layer])
    ]


def modules() -> dict[str, Path]:
    return {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.parametrize("module", modules())
def test_imports_go_down(module: str) -> None:
    layer = module.removesuffix(".py").split("/")[0]
    assert layer in HEIGHT or layer == APART, f"{module}: say in LAYERS and docs/architecture.md where {layer} stands"
    assert upward(layer, modules()[module].read_text("utf-8")) == []


def test_an_upward_import_is_caught() -> None:
    assert upward("model", "from whyidle.rules import base") == ["whyidle.rules.base"]
    assert upward("model", "def late():\n    import whyidle.cli") == ["whyidle.cli"]
    assert upward("rules", "from whyidle import load") == ["whyidle.load"]
    assert upward(APART, "from whyidle.model import evidence") == ["whyidle.model.evidence"]
    assert upward("rules", "import whyidle.rules as package\nfrom whyidle.errors import WhyIdleError") == []


@pytest.mark.parametrize("module", modules())
def test_torch_belongs_to_the_job_that_is_watched(module: str) -> None:
    if module.startswith(f"{APART}/"):
        return
    assert not {name.split(".")[0] for name in imported(modules()[module].read_text("utf-8"))} & {
        "torch",
        "torchvision",
    }


def test_the_simulator_knows_nothing_of_the_analyser() -> None:
    """Otherwise it would confirm our own mistakes."""
    for path in sorted((ROOT / "world").rglob("*.py")):
        assert not [name for name in imported(path.read_text("utf-8")) if layer_of(name)], path


def test_importing_whyidle_is_cheap() -> None:
    """A job that imports us pays for what it uses, not for the command line."""
    code = "import sys, whyidle; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_a_job_need_not_wait_for_what_judges_it() -> None:
    """`whyidle run` imports what is heavy when the job has started, or has ended."""
    if sys.platform != "linux":
        pytest.skip("jobs are watched on Linux only")
    code = "import sys, whyidle.cli._watching, whyidle.cli.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not (HEAVY - {"typer"}) & set(loaded)
