"""Repairs of copies and loaders: what they change, and that what is called safe gives the same."""

from __future__ import annotations

import ast

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.lint.pointed import call, made
from whyidle.lint.repairs.arguments import loader, non_blocking
from whyidle.lint.repairs.factories import filled, on_device


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("x = x.to(device)", "x = x.to(device, non_blocking=True)"),
        ("x = x.cuda()", "x = x.cuda(non_blocking=True)"),
        ("x = x.to(device, torch.half, True)", None),
        ("x = x.to(*where)", None),
    ],
)
def test_a_copy_goes_on_beside_the_program(code: str, after: str | None) -> None:
    repair = non_blocking(next(node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)))
    assert (repair and made(code, *repair.changes)) == after


def test_a_loader_gets_arguments_by_name_or_in_their_place() -> None:
    for code, after in (
        ("DataLoader(ds, 4)", "DataLoader(ds, 4, num_workers=4, pin_memory=True)"),
        ("DataLoader(ds, 4, True, None, None, 0)", "DataLoader(ds, 4, True, None, None, 4, pin_memory=True)"),
    ):
        repair = loader(call(ast.parse(code), "DataLoader"), {"num_workers": "4", "pin_memory": "True"})
        assert repair is not None
        assert not repair.safe
        assert made(code, *repair.changes) == after
    assert loader(call(ast.parse("DataLoader(ds, **kw)"), "DataLoader"), {"num_workers": "4"}) is None
    pinned = loader(call(ast.parse("DataLoader(ds)"), "DataLoader"), {"pin_memory": "True"})
    assert pinned is not None
    assert pinned.safe


@pytest.mark.parametrize(
    ("before", "after", "safe"),
    [
        ("torch.zeros(2, 3).to(device)", "torch.zeros(2, 3, device=device)", True),
        ("torch.ones(3).cuda()", 'torch.ones(3, device="cuda")', True),
        ("torch.arange(4).unsqueeze(0).to(x.device)", "torch.arange(4, device=x.device).unsqueeze(0)", True),
        ("torch.arange(0, 1, 0.1).to(device)", "torch.arange(0, 1, 0.1, device=device)", False),
        ("torch.randn(3).to(device, non_blocking=True)", "torch.randn(3, device=device)", False),
        ("torch.tensor(0.5).to('cuda')", "torch.full((), 0.5, device='cuda')", True),
        ("torch.tensor(-1, dtype=torch.long).cuda(0)", "torch.full((), -1, dtype=torch.long, device=0)", True),
        ("torch.zeros(1_000, 0x10,).float().to(device)", "torch.zeros(1_000, 0x10, device=device).float()", True),
        ("torch.zeros(3).cuda(args.gpu)", None, False),  # None is the current GPU there, and the CPU for a factory
        ("torch.zeros(3).to(self.weight_dtype)", None, False),
        ("(torch.zeros(3)).float().to(device)", None, False),
        ("torch.tensor(rows).to(device)", None, False),
        ("torch.zeros(3).to(torch.float16)", None, False),
        ("torch.zeros(3).to(other.dtype)", None, False),
        ("torch.zeros(3).to(device, torch.half)", None, False),
        ("torch.zeros(3, requires_grad=True).to(device)", None, False),
        ("torch.zeros(3).tanh().to(device)", None, False),
        ("np.zeros(3).to(device)", None, False),
    ],
)
def test_a_tensor_is_made_where_it_is_needed(before: str, after: str | None, safe: bool) -> None:
    tree = ast.parse(before)
    move = tree.body[0].value  # type: ignore[attr-defined]
    repair = on_device(move, before)
    assert (repair and made(before, *repair.changes)) == after
    assert (repair is not None and repair.safe) == safe
    if after and safe and "cuda" not in before and "x." not in before:
        old, new = (eval(code, {"torch": torch, "device": "cpu"}) for code in (before, after))
        assert torch.equal(old, new)
        assert old.dtype == new.dtype


@pytest.mark.parametrize("number", ["0.5", "-3", "True", "2, dtype=torch.half"])
def test_a_tensor_of_one_number_is_made_without_a_copy(number: str) -> None:
    before = f"torch.tensor({number}, device='cpu')"
    repair = filled(call(ast.parse(before), "tensor"), before)
    assert repair is not None
    old, new = (eval(code, {"torch": torch}) for code in (before, made(before, *repair.changes)))
    assert torch.equal(old, new)
    assert old.dtype == new.dtype
    assert old.shape == new.shape


def orders(**workers: object) -> list[list[int]]:
    """Return the order of a shuffled dataset in each of two epochs."""
    torch.manual_seed(0)
    numbers = TensorDataset(torch.arange(8))
    shuffled = DataLoader(numbers, batch_size=8, shuffle=True, **workers)  # type: ignore[arg-type]
    return [next(batch.tolist() for (batch,) in shuffled) for _ in range(2)]


def test_workers_keep_the_order_of_samples_but_not_when_they_stay() -> None:
    alone, working = orders(), orders(num_workers=1)
    staying = orders(num_workers=1, persistent_workers=True)
    assert working == alone
    assert staying[0] == alone[0]
    assert staying[1] != alone[1], "then keeping the workers is safe, and the repair may say so"
