"""Whole programs, mended with all checks: what is safe changes no number, and nothing of it is found again."""

from __future__ import annotations

import ast

import pytest

from tests.lint.pointed import source
from whyidle.lint.checks import all_checks
from whyidle.lint.findings import Linted, linted
from whyidle.lint.fixing import Fixed, fixed
from whyidle.lint.project import Project
from whyidle.lint.source import Source

TUTORIAL = '''
"""Trains a classifier as tutorials do."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
shown = []


def evaluate(model, loader, criterion):
    test_loss, correct = 0.0, 0
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            output = model(x)
            test_loss += criterion(output, y).item() * x.size(0)  # sum over the set
            correct += (output.argmax(1) == y).sum().item()
    test_loss /= len(loader.dataset)
    shown.append(f"test {test_loss} {correct}")


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(640, 8), torch.randint(0, 3, (640,)))
    loader = DataLoader(
        data,
        batch_size=32,
        shuffle=True,  # a new order in each epoch
    )
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        running_loss = 0.0
        losses = []
        model.train()
        for i, (inputs, labels) in enumerate(loader):
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad(set_to_none=False)
            smooth = torch.full((inputs.size(0), 3), 0.01).to(device)
            loss = criterion(model(inputs) + smooth, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
            losses.append(loss.item())
            if i % 10 == 9:
                # every ten steps
                shown.append(f"{epoch} {running_loss / 10}")
                running_loss = 0.0
        shown.append(sum(losses) / len(losses))
        evaluate(model, loader, criterion)
    shown.extend(p.detach().tolist() for p in model.parameters())


if __name__ == "__main__":
    main()
'''
MODULE = """
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(1)
shown = []
device = "cuda" if torch.cuda.is_available() else "cpu"
data = [(torch.randn(4), torch.randn(1)) for _ in range(128)]
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(data, batch_size=8, num_workers=0)
total = 0
for step, (x, y) in enumerate(loader):
    x = x.to(device)
    y = y.to(device)
    ramp = torch.arange(1).unsqueeze(0).to(device)
    weight = torch.tensor(0.5, device=device)
    loss = (weight * (model(x) + ramp - y) ** 2).mean()
    optimizer.zero_grad(False)
    loss.backward()
    optimizer.step()
    total += loss.item() / len(loader)
shown = [total, [p.tolist() for p in model.parameters()]]
"""


def found(program: Source) -> list[Linted]:
    return linted(program, Project(), all_checks())


def mended(code: str, *, unsafe: bool = False) -> Fixed:
    program = source(code)
    return fixed(program, code.encode(), found(program), found, unsafe=unsafe)


def results(code: str) -> object:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(code, "train.py", "exec"), names)
    return names["shown"]


@pytest.mark.parametrize(("code", "rules"), [(TUTORIAL, 3), (MODULE, 2)])
@pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator:UserWarning")
def test_what_is_safe_changes_no_result(code: str, rules: int) -> None:
    result = mended(code)
    text = result.data.decode()
    assert len({one.finding.rule for one in result.applied}) >= rules
    assert ".item()" not in text
    assert results(text) == results(code)
    assert mended(text).data == result.data
    assert not [one for one in found(result.source) if one.hit.repair is not None and one.hit.repair.safe]


@pytest.mark.parametrize("code", [TUTORIAL, MODULE])
def test_what_is_unsafe_is_python_too(code: str) -> None:
    text = mended(code, unsafe=True).data.decode()
    ast.parse(text)
    assert "num_workers=4" in text
    assert mended(text, unsafe=True).data.decode() == text
