"""Whatever is valid Python can be followed, and where there is no training loop there is nothing to say."""

from __future__ import annotations

import ast
import importlib.util
import random
import sysconfig
import textwrap
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whyidle.lint import lint
from whyidle.lint.checks import all_checks, ask
from whyidle.lint.engine import concerned
from whyidle.lint.project import Project
from whyidle.lint.source import Source

hypothesmith = pytest.importorskip("hypothesmith")


def parsed(path: Path) -> Source | None:
    try:
        text = path.read_text("utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Source(path, path.name, text, ast.parse(text))
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return None


def found(code: str) -> list[str]:
    """Return what all checks find in code, as text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(code)
    hits = ask(all_checks(), Source(Path("job.py"), "job.py", code, tree), Project())
    return [f"{one.check.name}:{one.hit.node.lineno}: {one.hit.message}" for one in hits]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(hypothesmith.from_grammar())
def test_any_program_of_the_grammar_can_be_followed(code: str) -> None:
    found(code)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(hypothesmith.from_node())
def test_any_program_by_its_nodes_can_be_followed(code: str) -> None:
    found(code)


EXPRESSIONS = (
    "loss",
    "x",
    "y",
    "model",
    "model(x)",
    "model(x).loss",
    "x.cuda()",
    'x.to("cuda", non_blocking=True)',
    "loss.item()",
    "loss.detach()",
    "f'{loss} {step}'",
    "'%s' % loss",
    "x[y > 0]",
    "{'a': loss}",
    "[loss, *x]",
    "(x, y)",
    "not loss",
    "loss if step else None",
    "loss and x",
    "x == y",
    "step % 100 == 0",
    "args.every",
    "len(x)",
    "float(loss)",
    "max(loss, 3)",
    "next(iter(loader))",
    "torch.zeros(3, device='cuda')",
    "torch.tensor([1, 2])",
    "[z.item() for z in x if z]",
    "lambda q: q",
    "loss.backward()",
    "optimizer.step()",
    "optimizer.zero_grad(set_to_none=False)",
    "torch.cuda.synchronize()",
    "print(loss)",
    "DataLoader(data, batch_size=4)",
    "Net()",
    "step_of(loss)",
    "self.loss",
    "(yield loss)",
    "(n := loss)",
    "x[..., None]",
)
HEADS = (
    "for x, y in loader:",
    "for step, x in enumerate(loader):",
    "while True:",
    "while loss > 3:",
    "if step % 10 == 0:",
    "if loss:",
    "if args.flag:",
    "with torch.no_grad():",
    "with torch.autocast('cuda'):",
    "try:",
    "def step_of(loss, *, k=3):",
    "class Net(torch.nn.Module):",
    "for p in model.parameters():",
    "async def later(self):",
    "for epoch in range(3):",
    "match x:\n    case [loss, *_]:",
)
TARGETS = (
    "loss = ",
    "x, y = ",
    "loss += ",
    "self.loss = ",
    "x[y > 0] = ",
    "",
    "",
    "",
    "args.flag = ",
    "torch.backends.x = ",
)


@st.composite
def programs(draw: st.DrawFn, depth: int = 0) -> str:
    """Draw a block of statements such as training scripts are made of, in any order and at any depth."""
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        if depth < 3 and draw(st.booleans()):
            head = draw(st.sampled_from(HEADS))
            inner = textwrap.indent(draw(programs(depth + 1)), "        " if "\n" in head else "    ")
            lines.append(f"{head}\n{inner}" + ("\nfinally:\n    pass" if head == "try:" else ""))
        else:
            lines.append(draw(st.sampled_from(TARGETS)) + draw(st.sampled_from(EXPRESSIONS)))
    return "\n".join(lines)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_any_order_of_what_training_scripts_do_can_be_followed(body: str) -> None:
    code = "import torch\nfrom torch.utils.data import DataLoader\ndef main(loader, model, optimizer, args, self):\n"
    code += textwrap.indent(body, "    ") + "\nmain()\n"
    try:
        ast.parse(code)
    except SyntaxError:
        return
    first = found(code)
    assert found(code) == first, "the same source gets the same answer"
    assert all(1 <= int(one.split(":")[1]) <= code.count("\n") for one in first)


def sources(name: str) -> list[Path]:
    if name == "standard library":
        folder = Path(sysconfig.get_path("stdlib"))
    else:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            pytest.skip(f"{name} is not installed")
        folder = Path(spec.submodule_search_locations[0])
    paths = sorted(path for path in folder.rglob("*.py") if "site-packages" not in path.relative_to(folder).parts)
    return random.Random(7).sample(paths, min(50, len(paths)))


@pytest.mark.parametrize("name", ["standard library", "numpy", "flask", "click"])
def test_where_nothing_trains_there_is_nothing_to_say(name: str) -> None:
    read = [source for path in sources(name) if (source := parsed(path)) is not None]
    assert len(read) > 5
    said = {source.path: ask(all_checks(), source, Project()) for source in read}  # whatever it is, it can be followed
    assert [path for path, hits in said.items() if hits and concerned(path.read_text("utf-8"))] == []
    assert lint([source.path for source in read]).findings == ()
