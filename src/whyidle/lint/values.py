"""What an expression may be, as far as the source tells: a tensor on the accelerator, a batch, a module, a setting."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "unknown",
    "tensor",  # or a structure whose leaves are tensors: a model's output, a batch
    "plain",  # a Python or numpy value on the host: number, text, None, size, array
    "module",  # an nn.Module, or a function that stands for one: calling it gives tensors on its device
    "optimizer",
    "scheduler",
    "scaler",  # GradScaler
    "loader",  # a DataLoader, or an iterator over one
    "dataset",
    "metric",  # torchmetrics, evaluate
    "accelerator",  # accelerate.Accelerator, lightning.Fabric
    "device",
    "settings",  # parsed arguments or a configuration: attributes are settings
    "environment",  # of reinforcement learning
    "function",  # of this project; `define` says which
    "class",  # of this project
    "instance",  # of such a class
    "counter",  # a test of a counter: true each `every` steps
    "name",  # something imported; `name` is its dotted name
]
# Where a tensor lives. "assumed": on the accelerator, if this job has one (a model's output where no move is seen).
Place: TypeAlias = Literal["device", "assumed", "host", "unknown"]


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression. Two that meet at a join keep what both agree on."""

    kind: Kind = "unknown"
    place: Place = "unknown"  # tensors and modules
    pinned: bool | None = None  # host tensors: in pinned memory
    boolean: bool = False  # a tensor of truth values: a mask; of kind plain: a comparison of what nobody knows
    is_batch: bool = False  # taken from a loader
    constant: object = None  # kind plain, where the source says which; `known` says whether it does
    known: bool = False
    every: int = 1  # kind counter: steps from one True to the next; 0: unknown, over 1
    name: str = ""  # kind name: dotted; others: what it was made by, dotted ("torch.optim.AdamW")
    node: ast.AST | None = field(default=None, compare=False)  # the expression that made it
    items: tuple[Value, ...] | None = None  # of a tuple or list, where the source lists them
    fields: Mapping[str, Value] | None = field(default=None, compare=False)  # of a dict or instance
    define: object = field(default=None, compare=False)  # kind function, class, instance: its Definition
    loader: ast.Call | None = field(default=None, compare=False)  # kind loader, and batches: the call that built it

    @property
    def on_device(self) -> bool:
        """Say whether it is, or holds, a tensor on the accelerator, as far as can be told."""
        return self.kind == "tensor" and self.place in {"device", "assumed"}

    @property
    def on_host(self) -> bool:
        """Say whether it is a tensor in the host's memory, by what the source says."""
        return self.kind == "tensor" and self.place == "host"

    def holds(self) -> Iterable[Value]:
        """Yield this value and, of tuples, lists and dicts, all in them."""
        yield self
        for item in self.items or ():
            yield from item.holds()
        if self.kind == "plain":
            for item in (self.fields or {}).values():
                yield from item.holds()

    @property
    def has_device_tensor(self) -> bool:
        """Say whether it is a tensor on the accelerator, or a tuple, list or dict with one in it."""
        return any(value.on_device for value in self.holds())

    def but(self, **changes: object) -> Value:
        """Return this value with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


UNKNOWN = Value()
PLAIN = Value("plain")
TENSOR = Value("tensor")  # of unknown place
DEVICE = Value("tensor", "device")
ASSUMED = Value("tensor", "assumed")
HOST = Value("tensor", "host", pinned=False)


def constant(value: object) -> Value:
    """Return a plain value that the source spells out."""
    return Value("plain", constant=value, known=True)


def join(one: Value, other: Value) -> Value:
    """Return what holds of both: what an expression may be after two ways have met."""
    if one == other:  # which does not look at fields
        same = one.kind != "plain" or one.fields is other.fields
        return one if same else one.but(fields=_fields(one.fields, other.fields))
    if "unknown" in (one.kind, other.kind):  # what one way says is likely what it is
        return other if one.kind == "unknown" else one
    if one.kind != other.kind:
        return _of_two_kinds(one, other)
    if one.kind == "tensor":
        place = one.place if one.place == other.place else _meet(one.place, other.place)
        return one.but(
            place=place,
            pinned=one.pinned if one.pinned == other.pinned else None,
            boolean=one.boolean and other.boolean,
            is_batch=one.is_batch or other.is_batch,
            loader=one.loader or other.loader,
            items=None,
            fields=None,
        )
    if one.kind == "plain":
        return Value("plain", items=one.items or other.items, fields=_fields(one.fields, other.fields))
    if one.kind == "counter":
        return one if one.every == 1 else other
    if one.kind in {"device", "module"}:  # `cuda` if there is one, else `cpu`: asked of a machine that has one
        return one if one.place == "device" else other
    if one.kind in {"function", "instance"} and _length(other.define) > _length(one.define):
        return other  # the shorter is likely a stub
    return one


def _length(define: object) -> int:
    """Return how many lines the source of a function or class has."""
    node = getattr(define, "node", None)
    return getattr(node, "end_lineno", 0) - node.lineno if isinstance(node, ast.stmt) else 0


def _of_two_kinds(one: Value, other: Value) -> Value:
    """Return what an expression may be whose two ways give something of another kind."""
    tensor = next((value for value in (one, other) if value.on_device), None)
    if {one.kind, other.kind} == {"tensor", "plain"} and tensor is not None:
        return tensor  # `total = 0` and then `total += loss`
    bare = {one.kind, other.kind} - {"plain"}
    if bare == {"function", "module"} and one.define is other.define:
        bare = {"function"}  # `step = torch.compile(step)` on one of two ways
    return (one if one.kind in bare else other) if len(bare) == 1 else UNKNOWN


def _fields(one: Mapping[str, Value] | None, other: Mapping[str, Value] | None) -> Mapping[str, Value] | None:
    """Return what a dict holds after two ways have met: what one of them has put in is likely there."""
    if not one or not other:
        return one or other
    both = {name: join(value, other[name]) for name, value in one.items() if name in other}
    return {**one, **other, **both}


def _meet(one: Place, other: Place) -> Place:
    known = {one, other} - {"unknown"}
    if len(known) == 1:
        return known.pop()
    return "assumed" if known == {"device", "assumed"} else "unknown"
