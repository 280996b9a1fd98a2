from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called, Event
from whyidle.lint.job import Job
from whyidle.lint.repair import Repair, SetArguments

ARGUMENTS = {
    "DistributedDataParallel": "find_unused_parameters",
    "DistributedDataParallelKwargs": "find_unused_parameters",
    "DDPStrategy": "find_unused_parameters",
    "DDPPlugin": "find_unused_parameters",
    "TrainingArguments": "ddp_find_unused_parameters",
    "Seq2SeqTrainingArguments": "ddp_find_unused_parameters",
}
ON = "find_unused_parameters_true"  # "ddp_find_unused_parameters_true" is what Lightning calls it
_NOTE = "DDP raises an error in the second step if some parameters get no gradient"


class UnusedParameters(Check):
    """DistributedDataParallel looks for parameters that got no gradient, in every step.

    ## Why it costs time
    After each forward pass the host walks the whole graph to find parameters that will get no gradient. That is time in
    which it queues nothing, and it grows with the number of operations: it counts where the host is the limit.

    ## How we know
    `find_unused_parameters=True` is spelled out. Whether some parameters really go without a gradient cannot be seen in
    the source; PyTorch warns in the first step if none does.

    ## When to ignore it
    Some parameters get no gradient in some steps: DDP fails without the search then. If they are always the same,
    `static_graph=True` searches once.
    """

    cost = "network"
    sees = (Called,)
    calls = frozenset({*ARGUMENTS, "Trainer", "Fabric"})

    def see(self, event: Event, job: Job) -> Iterator[Hit]:
        assert isinstance(event, Called)
        if job.gpu == "no" or event.where.guard in {"rare", "error"}:
            return
        last = event.name.rpartition(".")[2]
        argument = ARGUMENTS.get(last)
        if argument is not None:
            value, static = event.keywords.get(argument), event.keywords.get("static_graph")
            spelled = any(word.arg == argument for word in event.node.keywords)  # not in a dict that is passed on
            searches = spelled and value is not None and value.known and value.constant is True
            if searches and not (static is not None and static.constant is not False):
                change = SetArguments(event.node, {argument: "False"})
                yield self._hit(event, f"{argument}=False", Repair((change,), safe=False, note=_NOTE))
        elif last in {"Trainer", "Fabric"}:
            strategy = event.keywords.get("strategy")
            if strategy is not None and isinstance(strategy.constant, str) and strategy.constant.endswith(ON):
                plain = strategy.constant.removesuffix(ON).rstrip("_")
                change = SetArguments(event.node, {"strategy": f'"{plain}"'})
                yield self._hit(event, f'strategy="{plain}"', Repair((change,), safe=False, note=_NOTE))

    def _hit(self, event: Called, change: str, repair: Repair) -> Hit:
        return Hit(
            node=event.node,
            message="DDP searches the graph for parameters without a gradient in every step, which only pays if there "
            "are some.",
            severity="low",
            confidence=0.5,
            title="leave the search out if every parameter gets a gradient",
            change=f"{ast.unparse(event.node.func)}(..., {change})  # or static_graph=True",
            effort="argument",
            risk=_NOTE,
            repair=repair,
        )

    cases = (
        Invalid(
            "switched on to be safe",
            """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main(args, loader):
    torch.cuda.set_device(args.gpu)
    model = Net().cuda(args.gpu)
    model = DDP(model, device_ids=[args.gpu], find_unused_parameters=True)  # !
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for images, target in loader:
        images, target = images.cuda(non_blocking=True), target.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
        ),
        Invalid(
            "Lightning's name for it",
            """
import lightning as L

model = LitSegmenter(backbone="resnet50")
trainer = L.Trainer(  # !
    accelerator="gpu",
    devices=8,
    strategy="ddp_find_unused_parameters_true",
    max_epochs=90,
)
trainer.fit(model, datamodule=Cityscapes())
""",
        ),
        Invalid(
            "accelerate and transformers",
            """
from accelerate import Accelerator, DistributedDataParallelKwargs
from transformers import TrainingArguments

kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)  # !
accelerator = Accelerator(kwargs_handlers=[kwargs])
arguments = TrainingArguments("out", per_device_train_batch_size=8, ddp_find_unused_parameters=True)  # !
""",
        ),
        Valid(
            "the default, and a setting that is off",
            """
import argparse
import torch
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--find-unused", action="store_true")
args = parser.parse_args()
model = torch.nn.Linear(8, 8).cuda()
model = DistributedDataParallel(model, device_ids=[0])
other = DistributedDataParallel(model, device_ids=[0], find_unused_parameters=False)
third = DistributedDataParallel(model, device_ids=[0], find_unused_parameters=args.find_unused)
""",
        ),
        Valid(
            "a graph that does not change is searched once",
            """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(Net().cuda(), device_ids=[0], find_unused_parameters=True, static_graph=True)
""",
        ),
        Valid(
            "another library's argument of that name",
            """
import torch
from mytools import check_model

check_model(torch.nn.Linear(2, 2), find_unused_parameters=True)
""",
        ),
    )
