"""Finds data that every worker that is spawned makes again, since nothing guards the script's main part."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.job import Job, LoaderUse
from whyidle.lint.rules.input.loaders import setting


class MainGuard(Check):
    """Data in memory are made at the top of a script that starts workers, without `if __name__ == "__main__":`.

    ## Why it costs time
    A worker that is spawned (Windows, macOS) or started by a fork server (Linux from Python 3.14) imports the script
    first, and so runs everything at its top level: it makes the data again, which the loader sends to it in any case.
    So does each worker at each start of an epoch. What starts workers itself must not run there: then Python stops with
    "An attempt has been made to start a new process before the current process has finished its bootstrapping phase".

    ## How we know
    The script has no guard, a DataLoader with workers is built at its top level, and what the loader's dataset is made
    of is created there by a call that fills memory: `torch.randn`, `torch.load`, `np.load`, `pd.read_csv`.

    ## When to ignore it
    Workers are forked: Linux before Python 3.14, or `multiprocessing_context="fork"`.
    """

    rule = "input.worker_startup"
    cost = "input"

    makes = frozenset({
        "load", "read_csv", "read_parquet", "read_pickle", "loadtxt", "genfromtxt", "randn", "rand", "randint", "zeros",
        "ones", "normal", "randperm",
    })  # fmt: skip

    def end(self, job: Job) -> Iterator[Hit]:
        tree = job.source.tree
        if _guarded(tree):
            return
        for use in job.loaders:
            workers = setting(use, job, "num_workers", 0)
            if workers is None or not workers.number or not self._at_top(use, job) or self._forked(use):
                continue
            data = self._data(tree, use.call.node)
            if data is None:
                continue
            yield Hit(
                data,
                "Each worker that is spawned, or started by a fork server, makes these data again, since no "
                '`if __name__ == "__main__":` keeps it from running the script.',
                "low",
                0.5,
                also=(use.call.node,),
                title="guard the script's main part",
                change='def main():\n    ...\n\nif __name__ == "__main__":\n    main()',
            )
            return

    @staticmethod
    def _at_top(use: LoaderUse, job: Job) -> bool:
        return use.call.source is job.source and not use.call.where.function

    @staticmethod
    def _forked(use: LoaderUse) -> bool:
        return use.constant("multiprocessing_context") == "fork"

    def _data(self, tree: ast.Module, loader: ast.Call) -> ast.stmt | None:
        """Return the first statement of the script that makes data which the loader's dataset is made of."""
        needed = _names(loader)
        found = None
        for statement in reversed(tree.body):
            if not isinstance(statement, ast.Assign):
                continue
            targets = {name for target in statement.targets for name in _names(target)}
            if targets & needed:
                needed |= _names(statement.value)
                if any(self._fills(node) for node in ast.walk(statement.value)):
                    found = statement
        return found

    def _fills(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in self.makes

    cases = (
        Invalid(
            "random data at the top level",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

big = torch.randn(200000, 512)  # !
data = TensorDataset(big, torch.randint(0, 9, (200000,)))
loader = DataLoader(data, 512, shuffle=True, num_workers=4, persistent_workers=True)
net = torch.nn.Linear(512, 9).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(30):
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()
""",
        ),
        Invalid(
            "a table that is read at the top level",
            """\
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

table = np.load("features.npy")  # !
features = torch.from_numpy(table[:, :-1])
labels = torch.from_numpy(table[:, -1])
loader = DataLoader(TensorDataset(features, labels), batch_size=256, num_workers=2)
model = torch.nn.Linear(64, 1).to("cuda")
opt = torch.optim.Adam(model.parameters())
for epoch in range(10):
    for x, y in loader:
        loss = torch.nn.functional.mse_loss(model(x.to("cuda")).squeeze(1), y.to("cuda"))
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        ),
        Valid(
            "guarded",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

def main():
    data = TensorDataset(torch.randn(200000, 512), torch.randint(0, 9, (200000,)))
    net = torch.nn.Linear(512, 9).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in DataLoader(data, 512, shuffle=True, num_workers=4):
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()

if __name__ == "__main__":
    main()
""",
        ),
        Valid(
            "files that are read sample by sample: importing the script is quick",
            """\
import torch
import torchvision
from torch.utils.data import DataLoader

dataset = torchvision.datasets.ImageFolder("data", torchvision.transforms.ToTensor())
loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True, persistent_workers=True)
net = torchvision.models.resnet18().cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(30):
    for x, y in loader:
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x.cuda()), y.cuda()).backward()
        opt.step()
""",
        ),
        Valid(
            "no workers",
            """\
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(20000, 32), torch.randn(20000, 1))
loader = DataLoader(data, batch_size=512, shuffle=True)
net = torch.nn.Linear(32, 1).cuda()
opt = torch.optim.SGD(net.parameters(), 0.1)
for x, y in loader:
    loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
        ),
    )


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _guarded(tree: ast.Module) -> bool:
    tests = (statement.test for statement in tree.body if isinstance(statement, ast.If))
    return any(name == "__name__" for test in tests for name in _names(test))
