"""What decides how bad a wait is: what stands before it and after it, and in which file it is told of."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from whyidle.lint.checks import Found, ask
from whyidle.lint.project import Project
from whyidle.lint.rules.sync.framework import Framework
from whyidle.lint.rules.sync.grad_clip import GradClip
from whyidle.lint.rules.sync.logging_metrics import LoggingMetrics
from whyidle.lint.rules.sync.scalar_read import ScalarRead
from whyidle.lint.source import Source

CHECKS = (ScalarRead, Framework, GradClip, LoggingMetrics)


def job(before: str = "", after: str = "") -> str:
    """Return a training job with code before its backward pass and after its optimizer's step."""
    lines = [
        "import torch",
        "from torch.utils.data import DataLoader",
        "def train(model, loader, optimizer, meter):",
        "    model = model.cuda()",
        "    for i, (x, y) in enumerate(loader):",
        "        loss = model(x.cuda(), y.cuda()).mean()",
        *(f"        {line}" for line in before.splitlines()),
        "        loss.backward()",
        "        optimizer.step()",
        *(f"        {line}" for line in after.splitlines()),
    ]
    return "\n".join(lines) + "\n"


def parsed(path: Path) -> Source:
    text = path.read_text()
    return Source(path, path.name, text, ast.parse(text), path.stem)


def found(code: str, where: Path, **others: str) -> list[Found]:
    """Return what is found in a job beside other modules, in order of lines."""
    for name, text in others.items():
        (where / f"{name}.py").write_text(text)
    main = where / "job.py"
    main.write_text(code)
    hits = ask(CHECKS, parsed(main), Project([where], parsed))
    return sorted(hits, key=lambda one: one.hit.node.lineno)


@pytest.mark.parametrize(
    ("after", "severities"),
    [
        ("a = loss.item()", ["medium"]),
        ("a = loss.item()\nb = (loss * 2).mean().item()", ["medium", "low"]),
        ("a = loss.item()\nz = model(x.cuda())\nb = z.mean().item()", ["medium", "medium"]),
        ("meter.update(loss.item(), len(x))\ntorch.cuda.synchronize()", ["medium", "low"]),
        ("if loss.item() > 3:\n    raise ValueError\nb = float(loss)", ["medium", "low"]),
        ("torch.cuda.synchronize()\nif i:\n    b = loss.item()", ["medium", "low"]),
        ("for k in range(3):\n    a = loss.item()\nb = loss.item()", ["medium", "medium"]),
    ],
)
def test_a_wait_right_after_another_is_minor(after: str, severities: list[str], tmp_path: Path) -> None:
    assert [one.hit.severity for one in found(job(after=after), tmp_path)] == severities


def test_a_read_before_backward_says_what_it_holds_up(tmp_path: Path) -> None:
    before, after = found(job("a = loss.item()", "b = loss.item()"), tmp_path)
    assert "nothing of the backward pass is queued" in before.hit.message
    assert "backward" not in after.hit.message


def test_one_finding_per_line_and_the_line_of_the_method(tmp_path: Path) -> None:
    (one,) = found(job(after="print(loss.item(), (loss + 1).item())"), tmp_path)
    assert one.hit.message.startswith("`loss.item()`")
    (long,) = found(job(after="value = (\n    loss\n    + 1\n).item()"), tmp_path)
    assert (long.hit.node.lineno, long.hit.node.col_offset) == (12, 10)


def test_a_loop_over_parameters_in_another_file_is_told_of_at_each_call(tmp_path: Path) -> None:
    helper = (
        "import torch\n"
        "def clip(model, limit):\n"
        "    for p in model.parameters():\n"
        "        norm = p.grad.norm()\n"
        "        if norm.item() > limit:\n"
        "            p.grad.mul_(limit / norm)\n"
    )
    code = "from helper import clip\n" + job(
        after="if meter:\n    clip(model, 1.0)\nelse:\n    clip(model, 2.0)\noptimizer.zero_grad()"
    )
    hits = found(code, tmp_path, helper=helper)
    assert {(one.check, one.source.name, one.hit.node.lineno) for one in hits} == {
        (GradClip, "job.py", 11),
        (GradClip, "job.py", 13),
    }
    assert all("helper.py, line 5" in one.hit.message for one in hits)


def test_a_function_that_gathers_a_number_is_told_of_where_it_is_called(tmp_path: Path) -> None:
    helper = (
        "import torch\n"
        "import torch.distributed as dist\n"
        "def mean(x):\n"
        "    total = torch.tensor(x).cuda()\n"
        "    dist.all_reduce(total)\n"
        "    return total.item() / dist.get_world_size()\n"
    )
    code = "import helper\n" + job(after="shown = helper.mean(1.0)")
    (one,) = found(code, tmp_path, helper=helper)
    assert (one.check, one.source.name, one.hit.node.lineno) == (LoggingMetrics, "job.py", 10)


def test_the_scale_is_told_of_at_the_call_of_its_wrapper(tmp_path: Path) -> None:
    helper = (
        "import torch\n"
        "class LossScaler:\n"
        "    def __init__(self):\n"
        "        self._scaler = torch.cuda.amp.GradScaler()\n"
        "    def state_dict(self):\n"
        "        return self._scaler.state_dict()\n"
    )
    code = "from helper import LossScaler\nloss_scaler = LossScaler()\n" + job(
        after="s = loss_scaler.state_dict()['scale']"
    )
    (one,) = found(code, tmp_path, helper=helper)
    assert (one.check, one.source.name, one.hit.node.lineno) == (Framework, "job.py", 11)


def test_of_a_sum_the_fix_shows_what_the_repair_does(tmp_path: Path) -> None:
    code = job(after="total += loss.item()").replace("    model = model", "    total = 0.0\n    model = model")
    (one,) = found(code + "    print(total)\n", tmp_path)
    assert one.hit.repair is not None
    assert one.hit.change.splitlines()[0] == "total += loss.detach().double()  # stays on the GPU"


@pytest.mark.parametrize(
    "after",
    [
        "if i % 100 == 0 and loss.item() > 3:\n    raise ValueError",
        "key = x.shape\nif key not in meter:\n    meter[key] = loss.item()",
        "stop = i == 5000\nif stop or meter.interrupted:\n    print(loss.item())",
        "a = loss.is_xpu and loss.numel() > 1",
        "for name in sorted(meter):\n    print(name, float(meter[name].shape[0]))",
    ],
)
def test_what_runs_rarely_or_is_known_to_the_host_is_nothing(after: str, tmp_path: Path) -> None:
    assert found(job(after=after), tmp_path) == []


def test_a_counter_of_the_loop_is_no_constant_in_it(tmp_path: Path) -> None:
    code = job(after="tick += 1\nif tick == 0:\n    print(loss.item())\nif tick != 0:\n    print(loss.item())")
    (one,) = found(code.replace("    model = model", "    tick = 0\n    model = model"), tmp_path)
    assert one.hit.node.lineno == 14


def test_reads_after_all_epochs_over_one_collected_batch_are_not_in_each_step(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "def train(policy, loader, optimizer, updates, log):\n"
        "    policy = policy.cuda()\n"
        "    batches = iter(loader)\n"
        "    for update in range(updates):\n"
        "        x = next(batches).cuda()\n"
        "        for epoch in range(4):\n"
        "            for start in range(0, 512, 64):\n"
        "                loss = policy(x[start : start + 64]).mean()\n"
        "                loss.backward()\n"
        "                optimizer.step()\n"
        "                clipped = loss.item()\n"
        "        log(loss.item(), clipped)\n"
    )
    assert [one.hit.node.lineno for one in found(code, tmp_path)] == [12]


def test_a_batch_that_a_function_moves_in_place_is_on_the_accelerator(tmp_path: Path) -> None:
    helper = "def batch_to_device(batch, device):\n    for k, v in batch.items():\n        batch[k] = v.to(device)\n"
    code = (
        "import torch\n"
        "from helper import batch_to_device\n"
        "def train(model, loader, optimizer):\n"
        "    device = torch.device('cuda')\n"
        "    for batch in loader:\n"
        "        batch_to_device(batch, device)\n"
        "        tokens = (batch['labels'] != -100).sum()\n"
        "        loss = model(batch)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        print(tokens.item())\n"
    )
    assert [one.hit.node.lineno for one in found(code, tmp_path, helper=helper)] == [11]
