from __future__ import annotations

import ast
from collections.abc import Iterator

from whyidle.lint.base import Check, Hit, Invalid, Valid
from whyidle.lint.events import Called
from whyidle.lint.job import Job
from whyidle.lint.rules.reached import bindings


class FsdpInternodeShard(Check):
    """FSDP shards the model over all GPUs of several nodes, so that every all-gather crosses the network.

    ## Why it costs time
    With full sharding each layer's parameters are gathered from all GPUs, forward and backward. Within a node that goes
    over NVLink, between nodes over a network that is much slower. Hybrid sharding keeps a whole copy per
    node and sends only gradients between nodes.

    ## How we know
    The source spells out more than one node and full sharding, which is also the default. Nothing tells how large the
    model is, or how fast the network.

    ## When to ignore it
    Parameters, gradients and optimizer state do not fit into the memory of one node, or the network is as fast as it
    has to be.
    """

    cost = "network"

    def end(self, job: Job) -> Iterator[Hit]:
        if job.gpu == "no":
            return
        for call in job.events:
            if not isinstance(call, Called) or call.name.rpartition(".")[2] not in {"Trainer", "Fabric"}:
                continue
            nodes = call.keywords.get("num_nodes")
            number = nodes.constant if nodes is not None and nodes.known else None
            if isinstance(number, int) and number > 1 and _shards_fully(call):
                yield self._hit(call, number)

    def _hit(self, call: Called, nodes: int) -> Hit:
        devices = call.keywords.get("devices")
        gpus = devices.constant if devices is not None and isinstance(devices.constant, int) else 8
        return Hit(
            node=call.node,
            message=f"FSDP shards the model over {nodes} nodes: every all-gather crosses the network, forward and "
            "backward.",
            severity="low",
            confidence=0.5,
            source=call.source,
            title="shard within a node and replicate between nodes, if the model fits into one node",
            change=f'strategy=FSDPStrategy(sharding_strategy="HYBRID_SHARD", device_mesh=({nodes}, {gpus}))',
            effort="argument",
            risk="each node holds the whole model, its gradients and the optimizer's state",
        )

    cases = (
        Invalid(
            "Lightning over four nodes",
            """
import lightning as L

model = LitGPT()
trainer = L.Trainer(accelerator="cuda", devices=8, num_nodes=4, strategy="fsdp", precision="bf16-true")  # !
trainer.fit(model, loader)
""",
        ),
        Invalid(
            "a strategy with the default sharding",
            """
import lightning as L
from lightning.fabric.strategies import FSDPStrategy

strategy = FSDPStrategy(auto_wrap_policy={Block}, state_dict_type="sharded", limit_all_gathers=True)
fabric = L.Fabric(devices=8, num_nodes=2, strategy=strategy, precision="bf16-mixed")  # !
fabric.launch(main)
""",
        ),
        Valid(
            "one node",
            """
import lightning as L

trainer = L.Trainer(accelerator="cuda", devices=8, num_nodes=1, strategy="fsdp")
trainer.fit(LitGPT(), loader)
""",
        ),
        Valid(
            "hybrid already",
            """
import lightning as L
from lightning.pytorch.strategies import FSDPStrategy

strategy = FSDPStrategy(sharding_strategy="HYBRID_SHARD", device_mesh=(4, 8))
trainer = L.Trainer(accelerator="cuda", devices=8, num_nodes=4, strategy=strategy)
""",
        ),
        Valid(
            "data parallel over nodes",
            """
import lightning as L

trainer = L.Trainer(accelerator="cuda", devices=8, num_nodes=4, strategy="ddp")
""",
        ),
        Valid(
            "only gradients are sharded",
            """
import lightning as L
from lightning.pytorch.strategies import FSDPStrategy

trainer = L.Trainer(devices=8, num_nodes=4, strategy=FSDPStrategy(sharding_strategy="SHARD_GRAD_OP"))
""",
        ),
    )


def _shards_fully(call: Called) -> bool:
    """Say whether the strategy of a trainer is FSDP with full sharding, spelled out or by default."""
    strategy = next((word.value for word in call.node.keywords if word.arg == "strategy"), None)
    if isinstance(strategy, ast.Name):
        bound = bindings(call.source.tree).get(strategy.id, ())
        strategy = bound[0] if len(bound) == 1 else None
    if isinstance(strategy, ast.Constant):
        return strategy.value == "fsdp"
    if not isinstance(strategy, ast.Call) or ast.unparse(strategy.func).rpartition(".")[2] != "FSDPStrategy":
        return False
    if any(word.arg is None for word in strategy.keywords):
        return False
    written = next((word.value for word in strategy.keywords if word.arg == "sharding_strategy"), None)
    return written is None or ast.unparse(written).strip("'").rpartition(".")[2] == "FULL_SHARD"
