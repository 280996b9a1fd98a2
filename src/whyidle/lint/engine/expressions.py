"""Expressions: what each may be, and where a tensor's value is asked for on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import cast

from whyidle.lint.engine.guards import split
from whyidle.lint.engine.guess import named
from whyidle.lint.engine.knowledge import COUNTS, KNOWN_ON_HOST
from whyidle.lint.engine.operators import compared, is_text, joined, operated, told
from whyidle.lint.engine.state import State
from whyidle.lint.events import As, How, Indexed, Looped, Shown, Tested
from whyidle.lint.nodes import below
from whyidle.lint.project import Definition, Module
from whyidle.lint.values import ASSUMED, DEVICE, PLAIN, UNKNOWN, Value, constant, join

_BUILTINS = frozenset(dir(__import__("builtins")))


class Expressions(State):
    """Evaluates expressions to values."""

    def evaluate(self, node: ast.expr | None) -> Value:
        """Return what an expression may be, telling what happens in it."""
        if node is None:
            return PLAIN
        handler = _HANDLERS.get(type(node))
        return UNKNOWN if handler is None else handler(self, node)

    def test(self, node: ast.expr, how: How) -> Value:
        """Evaluate a condition; of `and` and `or`, the parts stand in `items`."""
        if isinstance(node, ast.BoolOp):
            return Value("plain", items=tuple(self._in_turn(node, lambda part, _: self.test(part, how))))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.test(node.operand, how)
        value = self.evaluate(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and value.kind != "tensor":
            return Value("plain", name="modulo", every=value.every)
        if value.kind == "tensor":
            self.emit(Tested(node=node, value=value, how=how, **self.place))
        return value

    def _in_turn(self, node: ast.BoolOp, ask: Callable[[ast.expr, int], Value]) -> list[Value]:
        """Evaluate the parts of `and` or `or`, each behind what the parts before it let through."""
        frame = self.frame
        before, values = frame.where, []
        for number, part in enumerate(node.values):
            value = ask(part, number)
            values.append(value)
            yes, no = split(part, value)
            frame.where = (yes if isinstance(node.op, ast.And) else no).behind(frame.where)
        frame.where = before
        return values

    def truth(self, node: ast.expr, how: How) -> Value:
        """Evaluate a condition whose own value counts: that of `not` is the opposite."""
        return told(node, self.test(node, how))

    # Names and attributes

    def name(self, node: ast.Name) -> Value:
        return self.lookup(node.id)

    def lookup(self, name: str) -> Value:
        """Return what a name is bound to: in the function, around it, in the module, by an import."""
        frame: object = self.frame
        while frame is not None:
            value = frame.env.get(name)  # type: ignore[attr-defined]
            if value is not None:
                return value  # type: ignore[no-any-return]
            frame = frame.outer  # type: ignore[attr-defined]
        return self.of_module(self.frame.module, name)

    def of_module(self, module: Module, name: str) -> Value:
        """Return what a module calls so."""
        frame = self.globals.get(id(module))
        known = frame.env.get(name) if frame is not None else None
        if known is not None:
            return known
        if name in module.definitions:
            return _defined(module.definitions[name])
        if name in module.imports:
            found = self.project.find(module.imports[name], module)
            if isinstance(found, Definition):
                return _defined(found)
            return Value("name", name=module.imports[name].lstrip("."), define=found)
        if name in _BUILTINS:
            return Value("name", name=name)
        for star in module.stars:
            found = self.project.find(f"{star}.{name}", module)
            if isinstance(found, Definition):
                return _defined(found)
        return named(name)

    def attribute(self, node: ast.Attribute) -> Value:
        base = self.evaluate(node.value)
        return self.member(base, node.attr)

    def member(self, base: Value, attr: str) -> Value:
        """Return an attribute of a value."""
        if base.kind == "name":
            return self._imported(base, attr)
        if base.kind == "tensor":
            return _of_tensor(base, attr)
        if base.kind == "settings":
            return self._setting(attr)
        if base.kind in {"instance", "class", "module"}:
            own = self._own(base, attr)
            if own is not None:
                return own
        if base.kind == "module":
            return self._of_network(base, attr)
        if attr in {"shape", "dtype", "ndim"}:
            return PLAIN
        if base.kind == "accelerator" and attr == "device":
            return Value("device", place="device")
        guess = named(attr)
        return UNKNOWN if base.kind == "plain" and guess.kind not in {"settings", "device"} else guess

    def _own(self, base: Value, attr: str) -> Value | None:
        """Return what an object of the project has of its own: a field, else a method."""
        if base.fields is not None and base.kind != "class" and attr in base.fields:
            value = base.fields[attr]
            changes = value.known and isinstance(base.define, Definition) and attr in _changing(base.define)
            return value.but(known=False, constant=None) if changes else value
        method = self.callees.method(base.define, attr) if isinstance(base.define, Definition) else None
        if method is None:
            return None
        if base.kind != "class" and _is_property(method):
            return self.invoke(method, (), {}, None, base)
        return Value("function", define=method, items=(base,))

    def _imported(self, base: Value, attr: str) -> Value:
        found = base.define
        if isinstance(found, Module):
            member = self.project.member(found, attr)
            if isinstance(member, Definition):
                return _defined(member)
            frame = self.globals.get(id(found))
            known = frame.env.get(attr) if frame is not None else None
            if known is not None:
                return known
            if isinstance(member, Module):
                return Value("name", name=f"{base.name}.{attr}", define=member)
        return Value("name", name=f"{base.name}.{attr}")

    def _setting(self, attr: str) -> Value:
        if attr in self.job.defaults:
            return self.job.defaults[attr]
        guess = named(attr)
        return guess if guess.kind in {"device"} else Value("settings", name=attr)

    def _of_network(self, base: Value, attr: str) -> Value:
        if attr in {"weight", "bias", "data", "grad"}:
            return DEVICE if base.place == "device" else ASSUMED
        if attr == "device":
            return Value("device", place="device")
        if attr in {"training", "dtype"}:
            return UNKNOWN
        if attr in {"config", "cfg", "args", "hparams"}:
            return Value("settings")
        guess = named(attr)
        return guess if guess.kind not in {"unknown", "metric"} else base.but(define=None, fields=None, name=attr)

    # Operators

    def binary(self, node: ast.BinOp) -> Value:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        if isinstance(node.op, ast.Mod) and (isinstance(left.constant, str) or is_text(node.left)):
            shown: list[tuple[ast.expr, Value]] = [(node.right, right)]
            if isinstance(node.right, ast.Tuple) and right.items is not None:
                shown = list(zip(node.right.elts, right.items, strict=False))
            for part, value in shown:
                self.show(part, value, "%")
            return PLAIN
        return operated(node.op, left, right)

    def unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            value = self.test(node.operand, "not")
            if value.known:
                return constant(not value.constant)
            return Value("settings") if value.kind == "settings" else PLAIN
        value = self.evaluate(node.operand)
        if value.known and isinstance(node.op, ast.USub) and isinstance(value.constant, int | float):
            return constant(-value.constant)
        return value

    def boolean(self, node: ast.BoolOp) -> Value:
        how: How = "and" if isinstance(node.op, ast.And) else "or"
        last = len(node.values) - 1
        values = self._in_turn(node, lambda part, n: self.test(part, how) if n < last else self.evaluate(part))
        values = [told(part, value) for part, value in zip(node.values[:-1], values, strict=False)] + values[-1:]
        if how == "and" and any(value.known and not value.constant for value in values):
            return constant(False)
        if how == "or" and any(value.known and value.constant for value in values[:-1]):
            return next(value for value in values if value.known and value.constant)
        result = values[-1]
        for value in values[:-1]:
            if not (value.known and value.constant is None):
                result = join(result, value)
        return result.but(known=False, constant=None) if result.known else result

    def compare(self, node: ast.Compare) -> Value:
        values = [self.evaluate(part) for part in (node.left, *node.comparators)]
        operator = node.ops[0]
        if isinstance(operator, ast.Is | ast.IsNot):
            return self._is(node, values)
        if isinstance(operator, ast.In | ast.NotIn):
            if values[1].on_device and not isinstance(values[0].constant, str):
                self.emit(Tested(node=node, value=values[1], how="any", **self.place))
            if all(value.kind == "settings" or value.known for value in values):
                return Value("settings")
            return PLAIN
        tensors = [value for value in values if value.kind == "tensor"]
        texts = any((value.known and isinstance(value.constant, str)) or _is_member(value) for value in values)
        if tensors and not texts:  # what is held against a text or an enum is none
            result = tensors[0]
            for value in tensors[1:]:
                result = join(result, value)
            return result.but(boolean=True, is_batch=False, items=None, fields=None)
        return self._ordered(node, values)

    def _is(self, node: ast.Compare, values: list[Value]) -> Value:
        left, right = values[0], values[1]
        same = isinstance(node.ops[0], ast.Is)
        if left.known and right.known:
            return constant((left.constant is right.constant) is same)
        return PLAIN

    def _ordered(self, node: ast.Compare, values: list[Value]) -> Value:
        left = node.left
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and len(values) == 2:
            every = values[0].every
            if isinstance(node.ops[0], ast.Eq):
                return Value("counter", every=every)
            if isinstance(node.ops[0], ast.NotEq | ast.Gt):
                return Value("plain", name="modulo", every=every)
        if len(values) == 2 and values[0].known and values[1].known:
            return compared(node.ops[0], values[0].constant, values[1].constant)
        if any(value.kind == "settings" for value in values):
            return Value("settings")
        return PLAIN.but(boolean=any(value.kind == "unknown" for value in values))

    def choice(self, node: ast.IfExp) -> Value:
        value = self.truth(node.test, "else")
        first, second = self.evaluate(node.body), self.evaluate(node.orelse)
        if value.known:
            return first if value.constant else second
        if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Is | ast.IsNot):
            bare = [one for one in (first, second) if not (one.known and one.constant is None)]
            return bare[0] if len(bare) == 1 else join(first, second)
        return join(first, second)

    # Structures

    def sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        items = tuple(self.evaluate(item.value if isinstance(item, ast.Starred) else item) for item in node.elts)
        return Value("plain", items=items)

    def mapping(self, node: ast.Dict) -> Value:
        fields: dict[str, Value] = {}
        for number, (key, item) in enumerate(zip(node.keys, node.values, strict=True)):
            value = self.evaluate(item)
            if key is None:
                fields.update(value.fields or {})
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                fields[key.value] = value
            else:
                self.evaluate(key)
                fields[f"[{number}]"] = value
        return Value("plain", fields=fields, node=node)

    def subscript(self, node: ast.Subscript) -> Value:
        base, index = self.evaluate(node.value), self.evaluate(node.slice)
        return self.indexed(node, base, index)

    def indexed(self, node: ast.Subscript, base: Value, index: Value) -> Value:
        """Return an element, telling of a tensor that is indexed by another."""
        key = index.constant if index.known else None
        if base.kind == "tensor":
            masks = [value for value in index.holds() if value.kind == "tensor" or value.boolean]
            if masks:
                mask = next((one for one in masks if one.boolean), masks[0])
                self.emit(Indexed(node=node, value=base, index=mask, **self.place))
            known = (base.fields or {}).get(key) if isinstance(key, str) else None
            return base.but(items=None, fields=None) if known is None else known
        if isinstance(key, str):
            return self._by_key(base, key)
        if base.items is not None and isinstance(key, int) and -len(base.items) <= key < len(base.items):
            return base.items[key]
        if base.items:
            return joined(base.items)
        if base.fields and base.kind == "plain":
            return joined(tuple(base.fields.values()))
        return base if base.kind == "settings" or base == PLAIN else UNKNOWN

    def _by_key(self, base: Value, key: str) -> Value:
        """Return what stands under a name."""
        if base.fields is not None and base.kind != "instance":
            return base.fields.get(key, UNKNOWN)
        if base.kind == "settings":
            return self._setting(key)
        if base.items:
            return joined(base.items)
        if base.kind == "plain":
            return PLAIN if base == PLAIN else UNKNOWN
        return UNKNOWN if base.name == "os.environ" else named(key)

    def text(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.show(part, self.evaluate(part.value), "f-string")
                if part.format_spec is not None:
                    self.evaluate(part.format_spec)
        return PLAIN

    def show(self, node: ast.AST, value: Value, how: As) -> None:
        """Tell that a value is made text, if it is or holds a tensor."""
        held = next((one for one in value.holds() if one.kind == "tensor"), None)
        if held is not None:
            device = next((one for one in value.holds() if one.on_device), held)
            self.emit(Shown(node=node, value=device, how=how, **self.place))

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        frame = self.frame
        saved, where = dict(frame.env), frame.where
        for part in node.generators:
            over, element = self.iterate(part.iter)
            if frame.where.phase in {"step", "maybe"}:
                self.be(inner=True)
            self.emit(Looped(node=part, over=over, **self.place))
            self.taken(over, where, frame.where)
            self.bind(part.target, element)
            for test in part.ifs:
                self.test(test, "filter")
        if isinstance(node, ast.DictComp):
            self.evaluate(node.key)
            result = Value("plain", fields={"[each]": self.evaluate(node.value)})
        else:
            result = Value("plain", items=(self.evaluate(node.elt),), name="each")
        frame.env, frame.where = saved, where
        return result

    def walrus(self, node: ast.NamedExpr) -> Value:
        value = self.evaluate(node.value)
        self.bind(node.target, value)
        return value

    def inner(self, node: ast.Starred | ast.Await | ast.YieldFrom) -> Value:
        return self.evaluate(node.value)

    def yielded(self, node: ast.Yield) -> Value:
        value = self.evaluate(node.value)
        if value.kind != "unknown":
            self.frame.result = join(self.frame.result, Value("plain", items=(value,), name="each"))
        return UNKNOWN

    def sliced(self, node: ast.Slice) -> Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.evaluate(part)
        return PLAIN


def _is_member(value: Value) -> bool:
    """Say whether a value is a member of an enum by how it is spelled: `Status.NOT_AVAILABLE`."""
    owner, _, last = value.name.rpartition(".")
    owner = owner.rpartition(".")[2]
    return value.kind == "name" and last.isupper() and owner[:1].isupper() and not owner.isupper()


def _is_property(method: Definition) -> bool:
    decorators = method.node.decorator_list
    return any(ast.unparse(one).endswith("property") for one in decorators)


def _of_tensor(tensor: Value, attr: str) -> Value:
    if attr == "device":
        return Value("device", place=tensor.place)
    return PLAIN if attr in KNOWN_ON_HOST or COUNTS.search(attr) else tensor.but(items=None, fields=None)


def _defined(definition: Definition) -> Value:
    return Value("function" if definition.kind == "function" else "class", define=definition, name=definition.qualname)


def _constant(_: Expressions, node: ast.Constant) -> Value:
    return Value("plain", constant=node.value, known=True, node=node)


def _lambda(_: Expressions, node: ast.Lambda) -> Value:
    return Value("plain", node=node, name="lambda")


def _changing(cls: Definition) -> frozenset[str]:
    """Return the attributes that methods of a class set after its `__init__`: what they start with is no constant."""
    asked, key = cls.module.asked, ("changing", id(cls.node))
    if key not in asked:
        found = set()
        for name, method in cls.methods.items():
            for node in below(method.node) if name != "__init__" else ():
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    found.add(node.attr)
        asked[key] = frozenset(found)
    return cast("frozenset[str]", asked[key])


_HANDLERS: dict[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: _constant,
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute,
    ast.Call: lambda self, node: self.call(node),
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.choice,
    ast.List: Expressions.sequence,
    ast.Tuple: Expressions.sequence,
    ast.Set: Expressions.sequence,
    ast.Dict: Expressions.mapping,
    ast.Subscript: Expressions.subscript,
    ast.Slice: Expressions.sliced,
    ast.JoinedStr: Expressions.text,
    ast.ListComp: Expressions.comprehension,
    ast.SetComp: Expressions.comprehension,
    ast.GeneratorExp: Expressions.comprehension,
    ast.DictComp: Expressions.comprehension,
    ast.NamedExpr: Expressions.walrus,
    ast.Starred: Expressions.inner,
    ast.Await: Expressions.inner,
    ast.YieldFrom: Expressions.inner,
    ast.Yield: Expressions.yielded,
    ast.Lambda: _lambda,
}
