"""Calls: what they return, which functions of the project they enter, and what they tell of loaders and settings."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.expressions import Expressions
from whyidle.lint.engine.guess import named
from whyidle.lint.engine.traits import last_name
from whyidle.lint.events import Called, Tested
from whyidle.lint.job import LoaderUse
from whyidle.lint.project import Definition
from whyidle.lint.values import ASSUMED, DEVICE, HOST, PLAIN, TENSOR, UNKNOWN, Place, Value, constant, join

_USE_GPU = re.compile(r"^(use_)?(cuda|gpu|accel|mps)$")
_COMPILED = "torch.compile("  # in the name of what was wrapped by it
_LOGS = frozenset("debug info warning error critical log exception".split())
_NETWORK_RESULTS = frozenset(
    "forward loss encode decode predict generate logits score embed sample log_prob render_loss get_value "
    "get_action_and_value encode_image encode_text compute_loss training_loss training_losses".split()
)


@dataclass(slots=True)
class Call:
    """A call whose parts were evaluated."""

    node: ast.Call
    function: Value
    receiver: Value | None
    method: str
    name: str
    args: tuple[Value, ...]
    keywords: dict[str, Value]

    def argument(self, position: int, keyword: str) -> Value | None:
        if keyword in self.keywords:
            return self.keywords[keyword]
        return self.args[position] if position < len(self.args) else None

    def tensors(self) -> list[Value]:
        """Return the tensors among its arguments, and in lists and tuples of these."""
        every = (*self.args, *self.keywords.values())
        return [value for arg in every for value in arg.holds() if value.kind == "tensor"]


class Calls(Expressions):
    """Evaluates calls."""

    def call(self, node: ast.Call) -> Value:
        call = self._parts(node)
        statement = self.frame.statement
        used = not (isinstance(statement, ast.Expr) and statement.value is node)
        inside, result = self._enter(call)
        if not inside:
            self._call_back(call)
            result = self._result(call)
        elif result.kind == "unknown" and last_name(node.func) in knowledge.PASSING:
            result = self._passed(call)
        self._shown(call)
        event = Called(
            node=node,
            name=call.name,
            receiver=call.receiver,
            receiver_text=ast.unparse(node.func.value)
            if isinstance(node.func, ast.Attribute) and call.receiver
            else "",
            args=call.args,
            keywords=call.keywords,
            result=result,
            inside=inside,
            used=used,
            **self.place,  # type: ignore[arg-type]
        )
        self._note(event)
        self.emit(event)
        if not used:
            self._moved_in_place(call)
        return result

    def _moved_in_place(self, call: Call) -> None:
        """Note a batch that a function moves without returning it: `batch_to_device(batch, device)`."""
        if any(value.kind == "device" and value.place != "host" for value in call.args):
            for node, value in zip(call.node.args, call.args, strict=False):
                if isinstance(node, ast.Name) and value.kind == "tensor" and value.is_batch:
                    self.bind(node, value.but(place="device"))

    def _parts(self, node: ast.Call) -> Call:
        receiver, method = None, ""
        if isinstance(node.func, ast.Attribute):
            base = self.evaluate(node.func.value)
            function = self.member(base, node.func.attr)
            if base.kind != "name":
                receiver, method = base, node.func.attr
        else:
            function = self.evaluate(node.func)
        args: list[Value] = []
        for argument in node.args:
            value = self.evaluate(argument)
            if isinstance(argument, ast.Starred):
                args.extend(value.items if value.items is not None and value.name != "each" else (value,))
            else:
                args.append(value)
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif value.fields:
                keywords.update({name: item for name, item in value.fields.items() if not name.startswith("[")})
        name = f".{method}" if receiver is not None else function.name if function.kind == "name" else ""
        if not name:
            name = function.name or last_name(node.func)
        return Call(node, function, receiver, method, name, tuple(args), keywords)

    # Functions of the project

    def _enter(self, call: Call) -> tuple[bool, Value]:
        before = self.frame.where
        if _COMPILED in call.function.name:
            self.be(compiled=True)
        entered = self._enter_function(call)
        self.frame.where = before
        return entered

    def _enter_function(self, call: Call) -> tuple[bool, Value]:
        function = call.function
        definition = function.define
        if function.kind == "function" and isinstance(definition, Definition):
            bound = function.items[0] if function.items else None
            return True, self.invoke(definition, call.args, call.keywords, call.node, bound)
        if function.kind == "class" and isinstance(definition, Definition):
            return True, self._construct(definition, call)
        if function.kind == "module" and isinstance(definition, Definition) and definition.kind == "function":
            bound = function.items[0] if function.items else None
            return True, _of_network(self.invoke(definition, call.args, call.keywords, call.node, bound), function)
        if function.kind in {"module", "instance", "scaler"} and isinstance(definition, Definition):
            method = self.method(definition, "forward" if function.kind == "module" else "__call__")
            if method is not None:
                result = self.invoke(method, call.args, call.keywords, call.node, function)
                if function.kind != "module":
                    return True, result
                return True, _of_network(result, function)
        return False, UNKNOWN

    def _call_back(self, call: Call) -> None:
        """Follow functions of the project that are handed to code that is none: it will call them."""
        hot = self.frame.where.phase == "step" or call.name.endswith((".spawn", ".launch", ".map", "notebook_launcher"))
        for value in call.args if hot else ():
            if value.kind == "function" and isinstance(value.define, Definition):
                self.invoke(value.define, (), {}, call.node, value.items[0] if value.items else None)

    def _construct(self, definition: Definition, call: Call) -> Value:
        is_network = self.derives(definition, knowledge.MODULE_BASES)
        kind = "module" if is_network else "instance"
        if self.derives(definition, knowledge.DATASET_BASES):
            kind = "dataset"
        elif self.derives(definition, knowledge.LOADERS):
            kind = "loader"
        name = definition.qualname
        if kind == "instance" and any("optim" in base.lower() for base in definition.bases):
            kind = "optimizer"
        elif kind == "instance" and knowledge.SCALERS.search(definition.name):
            kind = "scaler"
        made = Value(
            kind, "assumed" if is_network else "unknown", name=name, define=definition, fields={}, node=call.node
        )  # type: ignore[arg-type]
        start = self.method(definition, "__init__")
        if start is not None:
            self.invoke(start, call.args, call.keywords, call.node, made)
        else:
            assert isinstance(made.fields, dict)
            made.fields.update(self.class_fields(definition))
            made.fields.update(call.keywords)
        return made

    def derives(self, definition: Definition, pattern: object, depth: int = 0) -> bool:
        """Say whether a class derives from one whose name matches, through classes of the project."""
        for base in definition.bases:
            first = base.partition(".")[0]
            dotted = definition.module.imports.get(first, first) + base[len(first) :]
            found = self.project.member(definition.module, base) if "." not in base else None
            if isinstance(found, Definition) and found is not definition and depth < 6:
                if self.derives(found, pattern, depth + 1):
                    return True
            elif pattern.search(dotted):  # type: ignore[attr-defined]
                return True
        return False

    def class_fields(self, definition: Definition) -> dict[str, Value]:
        """Return what a class's body assigns: constants and defaults of a dataclass."""
        fields: dict[str, Value] = {}
        for node in definition.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                if isinstance(node.value, ast.Constant):
                    fields[node.target.id] = constant(node.value.value)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                fields.update({t.id: constant(node.value.value) for t in node.targets if isinstance(t, ast.Name)})
        return fields

    # Results

    def _result(self, call: Call) -> Value:
        receiver = call.receiver
        if receiver is None:
            return self._of_function(call)
        if call.function.kind == "module" and call.method in (receiver.fields or {}):  # self.layer(x)
            return _output(call.function if call.function.place == "device" else receiver)
        handler = {
            "tensor": self._of_tensor,
            "module": self._of_module,
            "accelerator": self._of_accelerator,
            "metric": self._of_metric,
        }.get(receiver.kind)
        if handler is not None:
            return handler(call, receiver)
        return self._of_other(call, receiver)

    def _of_tensor(self, call: Call, tensor: Value) -> Value:
        method = call.method
        if method in knowledge.READS or method in knowledge.KNOWN_ON_HOST or knowledge.COUNTS.search(method):
            return PLAIN
        if method == "numpy":
            return PLAIN.but(name="numpy")
        if method == "cpu":
            return HOST.but(boolean=tensor.boolean)
        if method in {"cuda", "xpu", "hpu"}:
            return tensor.but(place="device", loader=tensor.loader)
        if method == "to":
            return tensor.but(place=self.moved_to(call, tensor))
        if method == "pin_memory":
            return tensor.but(pinned=True)
        if method == "keys":
            return PLAIN.but(name=method)
        if method in {"items", "values"}:  # what we took for a tensor is a dict of tensors
            return tensor.but(name=method)
        if method.startswith("new_"):
            return tensor.but(is_batch=False, boolean=False)
        result = tensor.but(boolean=method in knowledge.BOOLEAN or (tensor.boolean and method in _KEEPS), items=None)
        others = [value for value in call.tensors() if value.on_device]
        return result.but(place="device") if others and result.place != "device" else result

    def moved_to(self, call: Call, tensor: Value) -> Place:
        """Return where `.to(...)` puts a tensor."""
        target = call.argument(0, "device")
        if target is None:
            target = call.keywords.get("other")
        if target is None:
            return tensor.place
        if target.kind == "device":
            return "host" if target.place == "host" else "device"
        if target.kind == "tensor":
            return target.place
        if isinstance(target.constant, str):
            return "host" if target.constant.startswith("cpu") else "device"
        if isinstance(target.constant, int) and not isinstance(target.constant, bool) and target.known:
            return "device"
        text = ast.unparse(call.node.args[0]) if call.node.args else ""
        if "dtype" in text or target.name.startswith("torch."):
            return tensor.place
        return (
            "device" if named(last_name(call.node.args[0]) if call.node.args else "").kind == "device" else tensor.place
        )

    def _of_module(self, call: Call, network: Value) -> Value:
        method = call.method
        if method in knowledge.SAME_MODULE:
            if method == "cuda":
                return network.but(place="device")
            if method == "to" and self.moved_to(call, TENSOR) == "device":
                return network.but(place="device")
            return network
        if method in {"parameters", "named_parameters", "buffers", "modules", "named_modules", "children"}:
            return Value("plain", name=method, items=(DEVICE if network.place == "device" else ASSUMED,))
        if method in {"state_dict"}:
            return Value("plain", name=method)
        if method in _NETWORK_RESULTS or method.endswith("_loss"):
            return _output(network)
        if method == "from_pretrained":
            return network
        if method in {"step", "backward", "no_sync", "join", "zero_grad", "train", "eval", "load_state_dict"}:
            return UNKNOWN
        if knowledge.COUNTS.search(method):
            return PLAIN
        if call.function.kind == "module" and call.function.name == method and call.tensors():
            return _output(network)
        return UNKNOWN

    def _of_accelerator(self, call: Call, _: Value) -> Value:
        method = call.method
        if method in {"prepare", "setup", "setup_dataloaders", "setup_module", "prepare_model", "prepare_data_loader"}:
            prepared = tuple(
                value.but(place="device") if value.kind in {"module", "loader"} else value for value in call.args
            )
            return prepared[0] if len(prepared) == 1 else Value("plain", items=prepared)
        if method in {"gather", "gather_for_metrics", "reduce", "pad_across_processes", "all_gather", "all_reduce"}:
            return next(iter(call.args), UNKNOWN) if call.args and call.args[0].kind != "unknown" else TENSOR
        if method == "unwrap_model":
            return next(iter(call.args), UNKNOWN)
        if method == "clip_grad_norm_":
            return DEVICE
        return Value("plain", name="accelerate.autocast") if method == "autocast" else UNKNOWN

    def _of_metric(self, call: Call, metric: Value) -> Value:
        if call.method == "compute":
            return (
                PLAIN if metric.name.startswith(("evaluate", "datasets")) else Value("tensor", "assumed", name="metric")
            )
        return metric if call.method in {"to", "cuda", "clone"} else UNKNOWN

    def _of_other(self, call: Call, receiver: Value) -> Value:
        method = call.method
        if receiver.kind == "plain" and receiver.name.startswith("numpy"):
            return receiver
        if receiver.kind == "settings":
            key = call.args[0].constant if call.args else None
            return self.member(receiver, key) if method == "get" and isinstance(key, str) else Value("settings")
        if method == "add_argument":
            self._argument(call)
            return UNKNOWN
        if method in {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse"}:
            known = Value("settings", name="arguments")
            return Value("plain", items=(known, PLAIN)) if method == "parse_known_args" else known
        if method in {"items", "values"} and receiver.fields:
            joined = UNKNOWN
            for value in receiver.fields.values():
                joined = join(joined, value)
            return Value(
                "plain", name="each", items=(Value("plain", items=(PLAIN, joined)) if method == "items" else joined,)
            )
        if method == "update" and receiver.kind == "plain" and receiver.fields is not None:
            return self._updated(call, receiver)
        if method in {"append", "add", "extend", "insert"}:
            return self._grown(call, receiver)
        if method == "get" and receiver.fields and call.args and isinstance(call.args[0].constant, str):
            return receiver.fields.get(call.args[0].constant, UNKNOWN)
        if method == "scale" and receiver.kind == "scaler":
            return next(iter(call.args), ASSUMED)
        if method == "detach":
            return ASSUMED
        if method == "item":
            return PLAIN
        if method in {"cuda"} and receiver.kind in {"unknown", "plain"}:
            return DEVICE
        if method == "to" and receiver.kind in {"unknown", "plain"}:
            place = self.moved_to(call, TENSOR)
            return Value("tensor", place) if place != "unknown" else UNKNOWN
        if method == "format":
            return PLAIN
        if method in knowledge.PASSING:
            return self._passed(call)
        if method == "prepare" or method.startswith("from_pretrained"):
            return UNKNOWN
        return Value("loader", name=method) if knowledge.LOADER_FACTORY.search(method) else UNKNOWN

    def _updated(self, call: Call, receiver: Value) -> Value:
        """Note what a dict holds after `update`."""
        fields = dict(receiver.fields or {})
        for value in call.args:
            fields.update(value.fields or {})
        if isinstance(call.node.func, ast.Attribute):
            self.bind(call.node.func.value, receiver.but(fields=fields | call.keywords))
        return PLAIN

    def _grown(self, call: Call, receiver: Value) -> Value:
        """Note what a list holds from now on."""
        node = call.node.func
        held = next((value for value in call.args if value.has_device_tensor), None)
        if held is not None and isinstance(node, ast.Attribute) and receiver.kind in {"plain", "unknown"}:
            device = next(value for value in held.holds() if value.on_device)
            self.bind(node.value, Value("plain", items=(device,), name="each"))
        return PLAIN

    def _argument(self, call: Call) -> None:
        names = [value.constant for value in call.args if isinstance(value.constant, str)]
        said = call.keywords.get("dest")
        name = said.constant if said is not None else next((one for one in names if one.startswith("--")), "")
        if not name and names:
            name = names[0]
        if not isinstance(name, str):
            return
        name = name.lstrip("-").replace("-", "_")
        action = call.keywords.get("action")
        default = call.keywords.get("default")
        if default is None and action is not None:
            spelled = action.constant
            # whether to use the GPU is asked of a machine that has one
            if spelled in {"store_true", "store_false"} and not _USE_GPU.search(name):
                default = constant(spelled == "store_false")
        self.job.default_nodes[name] = call.node
        if default is not None and default.known:
            self.job.defaults[name] = default.but(node=call.node, name=name)
        else:
            self.job.defaults.pop(name, None)

    def _of_function(self, call: Call) -> Value:
        function, name = call.function, call.name
        if function.kind == "module":
            return _output(function)
        if function.kind in {"metric", "tensor"}:  # nobody calls a tensor: what we took for one was a network
            return ASSUMED
        if function.kind == "name":
            if name in _BUILTIN:
                return _BUILTIN[name](self, call)
            return self._imported_result(call, name)
        if name in knowledge.PASSING:
            return self._passed(call)
        return self._unknown_result(call, name)

    def _imported_result(self, call: Call, name: str) -> Value:
        last = name.rpartition(".")[2]
        if name.startswith(("numpy.", "math.", "random.", "time.", "os.", "np.")):
            return PLAIN.but(name=name)
        if name == "torch.device":
            first = call.argument(0, "type")
            host = first is not None and isinstance(first.constant, str) and first.constant.startswith("cpu")
            return Value("device", "host" if host else "device")
        if name.startswith("torch.") and last in knowledge.FACTORIES and name.count(".") == 1:
            return self._made(call, last)
        if knowledge.LOADERS.search(name):
            return self._loader(call)
        if last in knowledge.MODULE_WRAPPERS and call.args:
            inner = call.args[0]
            if inner.kind == "module":
                return inner.but(name=f"{name}({inner.name})")
            if inner.kind == "function":  # torch.compile(self.step): what it is bound to is needed when it is called
                return Value("module", "assumed", name=f"{name}({inner.name})", define=inner.define, items=inner.items)
            return Value("module", "assumed", name=name)
        if name == "torch.autograd.Variable":
            return next(iter(call.args), UNKNOWN)
        if name == "deepspeed.initialize":
            engine = Value("module", "device", name=name)
            return Value("plain", items=(engine, Value("optimizer", name=name), UNKNOWN, Value("scheduler", name=name)))
        if name.startswith("torch.optim.lr_scheduler") or "lr_scheduler" in name or "get_scheduler" in name:
            return Value("scheduler", name=name)
        if name.startswith("torch.optim.") or last in {
            "AdamW",
            "Adam",
            "SGD",
            "AdamW8bit",
            "FusedAdam",
            "Lamb",
            "Adafactor",
        }:
            return Value("optimizer", name=name)
        if name.startswith("torch.nn.functional."):
            return self._tensor_of(call, last)
        if name.startswith("torch.nn.utils.clip_grad"):
            return ASSUMED
        if name.startswith("torch.nn.") and last[:1].isupper():
            return ASSUMED if last == "Parameter" else Value("module", "assumed", name=name)
        if knowledge.SCALERS.search(name):
            return Value("scaler", name=name)
        if knowledge.METRICS.search(name):
            return Value("metric", name=name)
        if knowledge.ACCELERATORS.search(name):
            return Value("accelerator", name=name)
        if knowledge.AUTOCAST.search(name) or knowledge.NO_GRAD.search(name):
            return Value("plain", name=name)
        if name.startswith("torch.") and name.count(".") <= 2 and not name.startswith(_NO_TENSORS):
            return self._tensor_of(call, last)
        if last in knowledge.PASSING:
            return self._passed(call)
        if name.startswith(("gym.", "gymnasium.")) or last in {"make_vec", "SyncVectorEnv", "AsyncVectorEnv"}:
            return Value("environment", name=name)
        if last == "from_pretrained" or knowledge.MODULE_FACTORY.search(name):
            return UNKNOWN if knowledge.NOT_A_MODEL.search(name) else Value("module", "assumed", name=name)
        if name.endswith(("ArgumentParser.parse_args", "from_cli", "OmegaConf.load", "tyro.cli")):
            return Value("settings")
        if knowledge.DATASET_BASES.search(name) or name.startswith("torchvision.datasets."):
            return Value("dataset", name=name, node=call.node)
        return self._unknown_result(call, name)

    def _unknown_result(self, call: Call, name: str) -> Value:
        last = name.rpartition(".")[2].lstrip(".")
        if call.function.kind == "unknown" and last.islower() and call.tensors() and named(last).kind == "module":
            return ASSUMED  # a network, whatever made it
        if knowledge.MODULE_FACTORY.search(last):
            return Value("module", "assumed", name=name)
        if knowledge.LOADER_FACTORY.search(last):
            return Value("loader", name=name)
        guess = named(last)
        if guess.kind in {"optimizer", "scheduler", "scaler"} and "_" in last:
            return guess
        if any(value.on_device for value in call.tensors()) and any(
            word in last.lower() for word in ("loss", "reduce", "gather", "entropy", "criterion", "distance", "penalty")
        ):
            return ASSUMED
        return UNKNOWN

    def _made(self, call: Call, last: str) -> Value:
        target = call.keywords.get("device")
        if target is None:
            source = next((value for value in call.args if value.kind == "tensor"), None)
            return HOST.but(name=f"torch.{last}", node=call.node, place=source.place if source else "host")
        if target.kind == "device" and target.place == "host":
            return HOST.but(name=f"torch.{last}", node=call.node)
        if isinstance(target.constant, str) and target.constant.startswith("cpu"):
            return HOST.but(name=f"torch.{last}", node=call.node)
        if target.known and target.constant is None:
            return HOST.but(name=f"torch.{last}", node=call.node)
        return DEVICE.but(name=f"torch.{last}", node=call.node)

    def _tensor_of(self, call: Call, last: str) -> Value:
        """Return the result of a function of tensors: it lives where they do."""
        if last in {"is_tensor", "numel", "is_floating_point", "result_type", "is_complex"}:
            return PLAIN
        boolean = last in knowledge.BOOLEAN
        tensors = call.tensors()
        if not tensors:
            unknown = any(value.kind == "unknown" for value in call.args)
            return TENSOR.but(boolean=boolean) if unknown else HOST.but(name=f"torch.{last}", node=call.node)
        places = {value.place for value in tensors}
        place: Place = next((one for one in ("device", "assumed", "unknown") if one in places), "host")  # type: ignore[assignment]
        if "device" in call.keywords and last.endswith("_like"):
            place = "device"
        made = Value("tensor", place, boolean=boolean)
        if last in {"max", "min", "sort", "topk", "std_mean", "var_mean", "kthvalue", "mode", "chunk", "split"}:
            return (
                made.but(items=(made, made)) if last in {"max", "min", "topk", "sort"} and len(call.args) > 1 else made
            )
        return made

    def _passed(self, call: Call) -> Value:
        """Return what a wrapper hands on: the first thing among its arguments that can be iterated."""
        for value in call.args:
            if value.kind in {"loader", "dataset"} or value.items is not None:
                return value
        return next(iter(call.args), UNKNOWN)

    def _loader(self, call: Call) -> Value:
        node = call.node
        given = dict(zip(knowledge.LOADER_ARGUMENTS, call.args, strict=False)) | call.keywords
        pinned = given.get("pin_memory")
        is_pinned = False if pinned is None else bool(pinned.constant) if pinned.known else None
        return Value("loader", "host", pinned=is_pinned, name=call.name, node=node, loader=node)

    # What is noted beside

    def _note(self, event: Called) -> None:
        if event.result.kind == "loader" and event.result.loader is event.node:
            self._note_loader(event)
        receiver = event.receiver
        if (
            event.name in {".to", ".cuda"}
            and receiver is not None
            and receiver.is_batch
            and receiver.loader is not None
        ):
            use = self.loaders.get(id(receiver.loader))
            if use is not None and event.result.place == "device":
                use.moved.append(event)
        if event.name == "os.environ.setdefault" and len(event.args) == 2 and isinstance(event.args[0].constant, str):
            self.setting(f"os.environ.{event.args[0].constant}", event.args[1], event.node)

    def _note_loader(self, event: Called) -> None:
        given = dict(zip(knowledge.LOADER_ARGUMENTS, event.args, strict=False)) | dict(event.keywords)
        spread = [keyword for keyword in event.node.keywords if keyword.arg is None]
        starred = any(isinstance(arg, ast.Starred) for arg in event.node.args)
        whole = not starred and all(self._spelled(keyword.value) for keyword in spread)
        known = self.loaders.get(id(event.node))
        if known is None:
            known = LoaderUse(event, given, whole)
            self.loaders[id(event.node)] = known
            self.job.loaders.append(known)

    def _spelled(self, node: ast.expr) -> bool:
        before, self.see = self.see, lambda event, job: None
        kept = len(self.job.events)
        value = self.evaluate(node)
        del self.job.events[kept:]
        self.see = before
        return value.fields is not None

    def setting(self, name: str, value: Value, node: ast.AST) -> None:
        """Note a setting of a library or of the process."""
        raise NotImplementedError

    def _shown(self, call: Call) -> None:
        values = (*call.args, *call.keywords.values())
        if call.name == "print":
            for argument, value in zip(call.node.args, call.args, strict=False):
                self.show(argument, value, "print")
        elif call.name in {"str", "repr", "format"}:
            for value in call.args[:1]:
                self.show(call.node, value, "format" if call.name == "format" else call.name)
        elif call.method == "format" and call.receiver is not None and isinstance(call.receiver.constant, str):
            for value in values:
                self.show(call.node, value, "format")
        elif (call.method or call.name.rpartition(".")[2]) in _LOGS and self._is_logger(call):
            for value in values:
                self.show(call.node, value, "log")

    def _is_logger(self, call: Call) -> bool:
        if call.name.startswith("logging."):
            return True
        text = last_name(call.node.func.value) if isinstance(call.node.func, ast.Attribute) else ""
        return text.lower().strip("_") in {"logger", "log", "logging"} and call.method != "log"


_KEEPS = frozenset("squeeze unsqueeze view reshape flatten expand clone detach contiguous to cuda permute".split())
_NO_TENSORS = (
    "torch.cuda.", "torch.backends.", "torch.distributed.", "torch.utils.", "torch.manual_seed", "torch.save",
    "torch.load", "torch.set_", "torch.get_", "torch.is_", "torch.autograd.", "torch.profiler.", "torch.hub.",
    "torch.no_grad", "torch.inference_mode", "torch.Generator", "torch.use_", "torch.compile", "torch.jit.",
    "torch.random.", "torch.multiprocessing.", "torch.Size", "torch.dtype", "torch.finfo", "torch.iinfo",
    "torch.accelerator.", "torch._dynamo.", "torch.compiler.", "torch.float", "torch.bfloat16", "torch.half",
    "torch.nn.", "torch.optim.", "torch.Stream", "torch.Event", "torch.version", "torch.amp.", "torch.package.",
)  # fmt: skip


def _output(network: Value) -> Value:
    """Return what a call of a module gives."""
    return DEVICE if network.place == "device" else ASSUMED


def _of_network(result: Value, network: Value) -> Value:
    """Return what a call of a module of the project gives, whose `forward` was followed."""
    if result.kind == "tensor":
        followed = result.place == "device" or (result.place == "host" and network.place != "device")
        return result if followed else result.but(place=_output(network).place)
    return _output(network) if result.kind == "unknown" else result


def _truth(how: str):  # type: ignore[no-untyped-def]
    def ask(engine: Calls, call: Call) -> Value:
        for value in call.args:
            held = [one for one in value.holds() if one.kind == "tensor"]
            if held and not (how in {"max", "min"} and len(call.args) == 1 and value.kind == "module"):
                engine.emit(Tested(node=call.node, value=held[0], how=how, **engine.place))  # type: ignore[arg-type]
                return held[0].but(items=None)
        return PLAIN

    return ask


def _sum(_: Calls, call: Call) -> Value:
    held = [one for value in call.args for one in value.holds() if one.kind == "tensor"]
    return held[0].but(items=None, fields=None) if held else PLAIN


def _first_passed(engine: Calls, call: Call) -> Value:
    return engine._passed(call)  # noqa: SLF001 - of the same module


def _next(engine: Calls, call: Call) -> Value:
    value = next(iter(call.args), UNKNOWN)
    use = engine.loaders.get(id(value.loader)) if value.loader is not None else None
    if use is not None and engine.frame.where.work == "train":
        use.trains = True
    return element(value)


def _dict(_: Calls, call: Call) -> Value:
    fields: dict[str, Value] = {}
    for value in call.args:
        fields.update(value.fields or {})
    return Value("plain", fields=fields | call.keywords, node=call.node)


def _enumerate(_: Calls, call: Call) -> Value:
    value = next(iter(call.args), UNKNOWN)
    inner = Value("plain", items=(PLAIN, element(value)))
    return Value("loader" if value.kind == "loader" else "plain", name="each", items=(inner,), loader=value.loader)


def _zip(_: Calls, call: Call) -> Value:
    inner = Value("plain", items=tuple(element(value) for value in call.args))
    first = next((value for value in call.args if value.kind == "loader"), None)
    return Value("loader" if first else "plain", name="each", items=(inner,), loader=first.loader if first else None)


def element(value: Value) -> Value:
    """Return what iterating a value gives each time."""
    if value.items is not None:
        if value.name in {"named_parameters", "named_modules"}:
            return Value("plain", items=(PLAIN, value.items[0]))
        result = value.items[0] if value.items else UNKNOWN
        for item in value.items[1:]:
            result = join(result, item)
        return result
    if value.kind == "loader":
        place: Place = "device" if value.place == "device" else "host"
        return Value("tensor", place, value.pinned, is_batch=True, loader=value.loader)
    if value.kind == "tensor":
        if value.name in {"items", "keys"}:
            return Value("plain", items=(PLAIN, value.but(name=""))) if value.name == "items" else PLAIN
        return value.but(items=None, fields=None)
    if value.fields and value.kind == "plain":
        return PLAIN
    return UNKNOWN


def _plain(_: Calls, __: Call) -> Value:
    return PLAIN


def _getattr(engine: Calls, call: Call) -> Value:
    name = call.args[1].constant if len(call.args) > 1 else None
    return engine.member(call.args[0], name) if isinstance(name, str) else UNKNOWN


_BUILTIN = {
    "max": _truth("max"),
    "min": _truth("min"),
    "sorted": _truth("sorted"),
    "any": _truth("any"),
    "all": _truth("all"),
    "sum": _sum,
    "iter": _first_passed,
    "list": _first_passed,
    "tuple": _first_passed,
    "reversed": _first_passed,
    "next": _next,
    "enumerate": _enumerate,
    "zip": _zip,
    "dict": _dict,
    "getattr": _getattr,
    **dict.fromkeys(
        ("float", "int", "bool", "str", "repr", "len", "print", "isinstance", "range", "round", "open", "type", "id",
         "format", "hasattr", "callable", "input", "ord", "chr", "hash", "set", "frozenset", "bytes", "complex"),
        _plain,
    ),
}  # fmt: skip


__all__ = ["Call", "Calls", "Mapping", "Sequence", "element"]
