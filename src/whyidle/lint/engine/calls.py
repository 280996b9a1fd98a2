"""Calls: which functions of the project they enter, and what they tell of loaders, settings and texts."""

from __future__ import annotations

import ast

from whyidle.lint.engine import builtin, imported, knowledge, methods
from whyidle.lint.engine.expressions import Expressions
from whyidle.lint.engine.parts import Call, output, passed
from whyidle.lint.events import As, Called
from whyidle.lint.job import LoaderUse
from whyidle.lint.nodes import last_name, within
from whyidle.lint.project import Definition
from whyidle.lint.values import ASSUMED, UNKNOWN, Kind, Place, Value, constant

_COMPILED = "torch.compile("  # in the name of what was wrapped by it
_TEXTS: dict[str, As] = {"str": "str", "repr": "repr", "format": "format"}
_LOGS = frozenset("debug info warning error critical log exception".split())


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
        elif result.kind == "unknown" and (last_name(node.func) in knowledge.PASSING or _generates(call)):
            result = passed(call)
        elif result.kind == "unknown" and knowledge.MODULE_FACTORY.search(last_name(node.func)):
            result = Value("module", "assumed", name=call.name)
        self._shown(call)
        event = Called(
            node=node,
            name=call.name,
            receiver=call.receiver,
            args=call.args,
            keywords=call.keywords,
            result=result,
            inside=inside,
            used=used,
            **self.place,
        )
        self._declared(call)
        self._note(event)
        self.emit(event)
        if not used:
            self._moved_in_place(call)
        return result

    def _moved_in_place(self, call: Call) -> None:
        """Note a batch that is moved without being returned: `batch_to_device(batch, device)`, `batch.to(device)`."""
        if any(value.kind == "device" and value.place != "host" for value in call.args):
            moved = list(zip(call.node.args, call.args, strict=False))
            if isinstance(call.node.func, ast.Attribute) and call.receiver is not None:
                moved.append((call.node.func.value, call.receiver))
            for node, value in moved:
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
            method = self.callees.method(definition, "forward" if function.kind == "module" else "__call__")
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
        kind: Kind = "module" if is_network else "instance"
        if self.derives(definition, knowledge.DATASET_BASES):
            kind = "dataset"
        elif self.derives(definition, knowledge.LOADERS):
            kind = "loader"
        name = definition.qualname
        if kind == "instance" and any("optim" in base.lower() for base in definition.bases):
            kind = "optimizer"
        elif kind == "instance" and knowledge.SCALERS.search(definition.name):
            kind = "scaler"
        fields: dict[str, Value] = {}
        place: Place = "assumed" if is_network else "unknown"
        made = Value(kind, place, name=name, define=definition, fields=fields, node=call.node)
        start = self.callees.method(definition, "__init__")
        if start is not None:
            self.invoke(start, call.args, call.keywords, call.node, made)
        else:
            fields.update(self.class_fields(definition))
            fields.update(call.keywords)
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

    def class_fields(self, definition: Definition, depth: int = 0) -> dict[str, Value]:
        """Return what the bodies of a class and of its bases assign: constants and defaults of a dataclass."""
        fields: dict[str, Value] = {}
        for base in definition.bases if depth < 6 else ():
            found = self.project.member(definition.module, base) if "." not in base else None
            if isinstance(found, Definition) and found.kind == "class" and found is not definition:
                fields |= self.class_fields(found, depth + 1)
        for node in definition.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                default = _default_of(node.value)
                if default is None:
                    fields.pop(node.target.id, None)
                else:
                    fields[node.target.id] = default
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                fields.update({t.id: constant(node.value.value) for t in node.targets if isinstance(t, ast.Name)})
        return fields

    def _declared(self, call: Call) -> None:
        """Note the options that classes declare, and their defaults: `tyro.cli(Args)`, `HfArgumentParser((A, B))`.

        Lightning's `self.save_hyperparameters()` makes options of what `__init__` is given.
        """
        if call.method == "save_hyperparameters":
            self.job.defaults.update({name: value for name, value in self.frame.env.items() if value.known})
        if not knowledge.DECLARED.search(call.name):
            return
        for value in (one for given in (*call.args, *call.keywords.values()) for one in given.holds()):
            if value.kind == "class" and isinstance(value.define, Definition):
                self.job.defaults.update(self.class_fields(value.define))

    # Results

    def _result(self, call: Call) -> Value:
        if call.receiver is not None:
            return methods.result_of(self, call, call.receiver)
        function = call.function
        if function.kind == "module":
            return output(function)
        if function.kind in {"metric", "tensor"}:  # nobody calls a tensor: what we took for one was a network
            return ASSUMED
        if function.kind == "name":
            return builtin.result_of(self, call) if call.name in builtin.FUNCTIONS else imported.result_of(call)
        return passed(call) if call.name in knowledge.PASSING else imported.of_unknown(call)

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
        with self.quiet():
            return self.evaluate(node).fields is not None

    def _shown(self, call: Call) -> None:
        values = (*call.args, *call.keywords.values())
        if call.name == "print":
            for argument, value in zip(call.node.args, call.args, strict=False):
                self.show(argument, value, "print")
        elif call.name in _TEXTS:
            for value in call.args[:1]:
                self.show(call.node, value, _TEXTS[call.name])
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


def _default_of(node: ast.expr | None) -> Value | None:
    """Return the default of a dataclass's field, where it is a constant: `0`, `-1`, `field(default=0)`."""
    if isinstance(node, ast.Call) and last_name(node.func) in {"field", "Field"}:
        node = next((keyword.value for keyword in node.keywords if keyword.arg == "default"), None)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return constant(-number) if isinstance(number, int | float) else None
    return constant(node.value).but(node=node) if isinstance(node, ast.Constant) else None


def _generates(call: Call) -> bool:
    """Say whether a call makes a generator of the project that hands on the batches of a loader as they are."""
    made = call.function.define
    if call.first.kind != "loader" or not isinstance(made, Definition) or made.kind != "function":
        return False
    body = list(within(made.node.body))
    moved = any(isinstance(node, ast.Attribute) and node.attr in {"to", "cuda"} for node in body)
    return not moved and any(isinstance(node, ast.Yield | ast.YieldFrom) for node in body)


def _of_network(result: Value, network: Value) -> Value:
    """Return what a call of a module of the project gives, whose `forward` was followed."""
    if result.kind == "tensor":
        followed = result.place == "device" or (result.place == "host" and network.place != "device")
        return result if followed else result.but(place=output(network).place)
    return output(network) if result.kind == "unknown" else result
