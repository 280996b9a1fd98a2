"""What methods give, by what they are called on: tensors, modules, accelerators, metrics, containers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.guess import named
from whyidle.lint.engine.parts import Call, output, passed
from whyidle.lint.engine.state import State
from whyidle.lint.nodes import last_name
from whyidle.lint.values import ASSUMED, DEVICE, HOST, PLAIN, TENSOR, UNKNOWN, Place, Value, constant, join

_CUDA_TYPE = re.compile(r"^torch\.cuda\.\w*Tensor$")
_USE_GPU = re.compile(r"^(use_)?(cuda|gpu|accel|mps)$")
_KEEPS = frozenset(
    "squeeze unsqueeze view view_as reshape reshape_as flatten expand expand_as repeat transpose t permute clone "
    "detach contiguous to cuda".split()
)
_NETWORK_RESULTS = frozenset(
    "forward loss encode decode predict generate logits score embed sample log_prob render_loss get_value "
    "get_action_and_value encode_image encode_text compute_loss training_loss training_losses".split()
)
_PARTS = frozenset("parameters named_parameters buffers modules named_modules children".split())
_NO_TENSOR = frozenset("step backward no_sync join zero_grad train eval load_state_dict".split())
_PREPARES = frozenset("prepare setup setup_dataloaders setup_module prepare_model prepare_data_loader".split())
_COLLECTS = frozenset("gather gather_for_metrics reduce pad_across_processes all_gather all_reduce".split())


def result_of(engine: State, call: Call, receiver: Value) -> Value:
    """Return what a method call gives."""
    if call.function.kind == "module" and call.method in (receiver.fields or {}):  # self.layer(x)
        return output(call.function if call.function.place == "device" else receiver)
    handler = _BY_KIND.get(receiver.kind)
    if handler is not None:
        return handler(call, receiver)
    if receiver.kind == "settings":
        key = call.first.constant if call.args else None
        return engine.member(receiver, key) if call.method == "get" and isinstance(key, str) else Value("settings")
    if receiver.kind == "plain" and receiver.name.startswith("numpy"):
        return receiver
    by_name = _BY_NAME.get(call.method)
    if by_name is not None:
        made = by_name(engine, call, receiver)
        if made is not None:
            return made
    if call.method in knowledge.PASSING:
        return passed(call)
    if call.method == "prepare" or call.method.startswith("from_pretrained"):
        return UNKNOWN
    return Value("loader", name=call.method) if knowledge.LOADER_FACTORY.search(call.method) else UNKNOWN


def moved_to(call: Call, tensor: Value) -> Place:
    """Return where `.to(...)` puts a tensor."""
    target = call.argument(0, "device") or call.keywords.get("other")
    if target is None:
        return tensor.place
    if target.kind == "device":
        return "host" if target.place == "host" else "device"
    if target.kind == "tensor":
        return target.place
    if isinstance(target.constant, str):
        return "host" if target.constant.startswith("cpu") else "device"
    if target.known and isinstance(target.constant, int) and not isinstance(target.constant, bool):
        return "device"
    if not call.node.args or target.name.startswith("torch.") or "dtype" in ast.unparse(call.node.args[0]):
        return tensor.place
    return "device" if named(last_name(call.node.args[0])).kind == "device" else tensor.place


# By what the method is called on


def _of_tensor(call: Call, tensor: Value) -> Value:
    method = call.method
    moved = _MOVES.get(method)
    if moved is not None:
        return moved(call, tensor)
    if method in knowledge.READS or method in knowledge.KNOWN_ON_HOST or knowledge.COUNTS.search(method):
        return PLAIN
    if method.startswith("new_"):
        return tensor.but(is_batch=False, boolean=False)
    result = tensor.but(boolean=method in knowledge.BOOLEAN or (tensor.boolean and method in _KEEPS), items=None)
    others = any(value.on_device for value in call.tensors())
    return result.but(place="device") if others and result.place != "device" else result


def _to_device(_: Call, tensor: Value) -> Value:
    return tensor.but(place="device")


def _typed(call: Call, tensor: Value) -> Value:
    if not call.args:
        return PLAIN  # the name of its type
    return tensor.but(place="device") if _CUDA_TYPE.search(call.first.name) else tensor


def _structure(call: Call, tensor: Value) -> Value:
    return tensor.but(name=call.method)  # what we took for a tensor is a dict of tensors


_MOVES: dict[str, Callable[[Call, Value], Value]] = {
    "numpy": lambda _, __: PLAIN.but(name="numpy"),
    "cpu": lambda _, tensor: HOST.but(boolean=tensor.boolean),
    "cuda": _to_device,
    "xpu": _to_device,
    "hpu": _to_device,
    "to": lambda call, tensor: tensor.but(place=moved_to(call, tensor)),
    "type_as": lambda call, tensor: tensor.but(place=call.first.place if call.first.kind == "tensor" else tensor.place),
    "type": _typed,
    "pin_memory": lambda _, tensor: tensor.but(pinned=True),
    "keys": lambda call, _: PLAIN.but(name=call.method),
    "items": _structure,
    "values": _structure,
}


def _of_module(call: Call, network: Value) -> Value:
    method = call.method
    if method in knowledge.SAME_MODULE:
        moved = method == "cuda" or (method == "to" and moved_to(call, TENSOR) == "device")
        return network.but(place="device") if moved else network
    if method in _PARTS:
        part = output(network) if method.endswith(("parameters", "buffers")) else network.but(define=None, fields=None)
        return Value("plain", name=method, items=(part,))
    if method == "state_dict":
        return Value("plain", name=method)
    if method in _NETWORK_RESULTS or method.endswith("_loss"):
        return output(network)
    if method == "from_pretrained":
        return network
    if method in _NO_TENSOR:
        return UNKNOWN
    if knowledge.COUNTS.search(method):
        return PLAIN
    called = call.function.kind == "module" and call.function.name == method and call.tensors()
    return output(network) if called else UNKNOWN


def _of_accelerator(call: Call, _: Value) -> Value:
    if call.method in _PREPARES:
        prepared = tuple(
            value.but(place="device") if value.kind in {"module", "loader"} else value for value in call.args
        )
        return prepared[0] if len(prepared) == 1 else Value("plain", items=prepared)
    if call.method in _COLLECTS:
        return TENSOR if call.first.kind == "unknown" else call.first
    if call.method == "unwrap_model":
        return call.first
    if call.method == "clip_grad_norm_":
        return DEVICE
    return Value("plain", name="accelerate.autocast") if call.method == "autocast" else UNKNOWN


def _of_metric(call: Call, metric: Value) -> Value:
    if call.method == "compute":
        host = metric.name.startswith(("evaluate", "datasets"))
        return PLAIN if host else Value("tensor", "assumed", name="metric")
    return metric if call.method in {"to", "cuda", "clone"} else UNKNOWN


_BY_KIND: dict[str, Callable[[Call, Value], Value]] = {
    "tensor": _of_tensor,
    "module": _of_module,
    "accelerator": _of_accelerator,
    "metric": _of_metric,
}


# By the method's name, on whatever


def _parsed(_: State, call: Call, __: Value) -> Value:
    known = Value("settings", name="arguments")
    return Value("plain", items=(known, PLAIN)) if call.method == "parse_known_args" else known


def _argument(engine: State, call: Call, _: Value) -> Value:
    """Note an argument of the command line and its default."""
    names = [value.constant for value in call.args if isinstance(value.constant, str)]
    said = call.keywords.get("dest")
    names = [one for one in names if one.startswith("--")] or names
    chosen = said.constant if said is not None else next(iter(names), "")
    if not isinstance(chosen, str):
        return UNKNOWN
    name = chosen.lstrip("-").replace("-", "_")
    action, default = call.keywords.get("action"), call.keywords.get("default")
    switch = default is None and action is not None and action.constant in {"store_true", "store_false"}
    if switch and action is not None and not _USE_GPU.search(name):  # the GPU is asked for where there is one
        default = constant(action.constant == "store_false")
    engine.job.default_nodes[name] = call.node
    if default is not None and default.known:
        engine.job.defaults[name] = default.but(node=call.node, name=name)
    else:
        engine.job.defaults.pop(name, None)
    return UNKNOWN


def _each(_: State, call: Call, receiver: Value) -> Value | None:
    if not receiver.fields:
        return None
    joined = UNKNOWN
    for value in receiver.fields.values():
        joined = join(joined, value)
    return Value(
        "plain", name="each", items=(Value("plain", items=(PLAIN, joined)) if call.method == "items" else joined,)
    )


def _updated(engine: State, call: Call, receiver: Value) -> Value | None:
    """Note what a dict holds after `update`."""
    if receiver.kind != "plain" or receiver.fields is None:
        return None
    fields = dict(receiver.fields)
    for value in call.args:
        fields.update(value.fields or {})
    if isinstance(call.node.func, ast.Attribute):
        engine.bind(call.node.func.value, receiver.but(fields=fields | call.keywords))
    return PLAIN


def _grown(engine: State, call: Call, receiver: Value) -> Value:
    """Note what a list holds from now on."""
    node = call.node.func
    held = next((one for value in call.args for one in value.holds() if one.on_device), None)
    if held is not None and isinstance(node, ast.Attribute) and receiver.kind in {"plain", "unknown"}:
        engine.bind(node.value, Value("plain", items=(held,), name="each"))
    return PLAIN


def _got(_: State, call: Call, receiver: Value) -> Value | None:
    key = call.first.constant
    if receiver.fields is None or not isinstance(key, str):
        return None
    if receiver.name == "keywords" and key not in receiver.fields:  # **kwargs of a call that spells out all it gives
        return call.args[1] if len(call.args) > 1 else constant(None)
    return receiver.fields.get(key, UNKNOWN) if receiver.fields else None


def _scaled(_: State, call: Call, receiver: Value) -> Value | None:
    return (call.first if call.args else ASSUMED) if receiver.kind == "scaler" else None


def _moved(_: State, call: Call, receiver: Value) -> Value | None:
    if receiver.kind not in {"unknown", "plain"}:
        return None
    if call.method == "cuda":
        return DEVICE
    place = moved_to(call, TENSOR)
    return Value("tensor", place) if place != "unknown" else UNKNOWN


_BY_NAME: dict[str, Callable[[State, Call, Value], Value | None]] = {
    "add_argument": _argument,
    **dict.fromkeys(("parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse"), _parsed),
    **dict.fromkeys(("items", "values"), _each),
    **dict.fromkeys(("append", "add", "extend", "insert"), _grown),
    **dict.fromkeys(("cuda", "to"), _moved),
    **dict.fromkeys(("item", "format"), lambda _, __, ___: PLAIN),
    "update": _updated,
    "get": _got,
    "scale": _scaled,
    "detach": lambda _, __, ___: ASSUMED,
}
