"""Statements: what they bind, branches, loops and what they are, settings made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from whyidle.lint.engine import knowledge
from whyidle.lint.engine.functions import Functions
from whyidle.lint.engine.guards import (
    ALWAYS,
    RARELY,
    Condition,
    asks_for_gpu,
    asks_until_true,
    ends,
    fails,
    makes_once,
    split,
)
from whyidle.lint.engine.guess import TEXT, named
from whyidle.lint.engine.loops import LoopKind, kind_of, steps_environment
from whyidle.lint.engine.parts import element
from whyidle.lint.events import Called, Indexed, Looped, Set, Stepped
from whyidle.lint.nodes import last_name, within
from whyidle.lint.values import ASSUMED, PLAIN, UNKNOWN, Value, constant, join
from whyidle.lint.where import Where

_SETTING = ("torch.backends.", "os.environ.", "torch.autograd.", "torch._dynamo.", "torch._inductor.", "torch.cuda.")


class Statements(Functions):
    """Follows statements."""

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Follow a block; what stands after an early exit stands behind the opposite of its condition."""
        frame = self.frame
        before = frame.where
        for statement in statements:
            frame.statement = statement
            handler = _HANDLERS.get(type(statement))
            if handler is not None:
                after = handler(self, statement)
                if after is not None and after is not ALWAYS:
                    frame.where = after.behind(frame.where)
        frame.where = before

    # Simple statements

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        found = self.frame.module.by_node.get(id(node))
        if found is not None:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            self.frame.env[node.name] = Value(kind, define=found, name=found.qualname)  # type: ignore[arg-type]
            if self.frame.definition is not None:
                self.closures[id(node)] = self.frame

    def expression(self, node: ast.Expr) -> None:
        self.evaluate(node.value)

    def assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.BoolOp | ast.UnaryOp) and isinstance(node.targets[0], ast.Name):
            value = self._condition(node.value)
        else:
            value = self.evaluate(node.value)
        for target in node.targets:
            self.bind(target, value)

    def _condition(self, node: ast.expr) -> Value:
        """Return the value of a condition that is kept: one that counts steps stays a counter."""
        value = self.evaluate(node)
        if value.known or value.kind == "tensor":
            return value
        with self.quiet():
            yes, _ = split(node, self.test(node, "if"))
        if yes.every != 1:
            return Value("counter", every=yes.every)
        return Value("counter", every=0) if yes.guard == "rare" else value

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        value = self.evaluate(node.value)
        if value.kind == "unknown":  # trainer: Trainer = given
            cls = self.callees.named(node.annotation, self.frame.module)
            value = self.self_of(cls) if cls is not None and cls.kind == "class" else value
        self.bind(node.target, value)

    def augment(self, node: ast.AugAssign) -> None:
        value = self.evaluate(node.value)
        if isinstance(node.target, ast.Subscript):
            base, index = self.evaluate(node.target.value), self.evaluate(node.target.slice)
            if base.kind == "tensor":
                self.indexed(node.target, base, index)
            return
        before = self.evaluate(node.target)
        tensor = next((one for one in (before, value) if one.kind == "tensor"), None)
        if tensor is not None:
            self.bind(node.target, join(before, value).but(is_batch=False) if before.kind == "tensor" else tensor)
        elif before.items is not None and isinstance(node.op, ast.Add):
            self.bind(node.target, Value("plain", items=(*before.items, *(value.items or ()))[:64]))
        else:
            self.bind(node.target, PLAIN if before.kind == "plain" else before.but(known=False, constant=None))

    def returns(self, node: ast.Return) -> None:
        value = self.evaluate(node.value) if node.value is not None else constant(None)
        frame = self.frame
        if value.known and value.constant is None and frame.returned:
            return
        frame.result = value if not frame.returned else join(frame.result, value)
        frame.returned = True

    def asserts(self, node: ast.Assert) -> None:
        self.test(node.test, "assert")

    def raises(self, node: ast.Raise) -> None:
        before = self.be(guard="error")
        self.evaluate(node.exc)
        self.frame.where = before

    def delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.frame.env.pop(target.id, None)

    # Binding

    def bind(self, target: ast.expr, value: Value) -> None:
        """Bind a target of an assignment to a value."""
        frame = self.frame
        if isinstance(target, ast.Name):
            if value.kind == "unknown":
                value = self._by_name(target.id)
            elif value.kind == "tensor" and TEXT.search(target.id):
                value = PLAIN
            elif value.kind == "tensor" and value.place == "unknown" and self._of_model(target.id):
                value = value.but(place="assumed")
            frame.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._bind_item(target, value)

    def _by_name(self, name: str) -> Value:
        guess = named(name)
        if name in self.frame.losses:
            return ASSUMED
        return guess if guess.kind in {"loader", "device", "environment", "scheduler", "optimizer"} else UNKNOWN

    def _of_model(self, name: str) -> bool:
        """Say whether a tensor of this name comes from a model: a loss, logits, predictions."""
        return name in self.frame.losses or named(name, parameter=True) == ASSUMED

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        names = target.elts
        whole = value.items is not None and value.name != "each" and len(value.items) == len(names)
        for number, name in enumerate(names):
            if whole and value.items is not None and not isinstance(name, ast.Starred):
                self.bind(name, value.items[number])
            elif value.kind == "tensor":
                self.bind(name, value.but(items=None, fields=None))
            elif value.kind == "settings":  # model_args, data_args = parser.parse_args_into_dataclasses()
                self.bind(name, value)
            elif value.items:
                self.bind(name, element(value))
            else:
                self.bind(name, UNKNOWN)

    def _bind_attribute(self, target: ast.Attribute, value: Value) -> None:
        base = self.evaluate(target.value)
        if base.fields is not None and base.kind in {"instance", "module", "dataset", "loader"}:
            assert isinstance(base.fields, dict)
            known = base.fields.get(target.attr)
            if value.kind == "unknown" and known is None:
                guess = named(target.attr)
                value = guess if guess.kind != "metric" else value
            elif value.kind == "tensor" and TEXT.search(target.attr):
                value = PLAIN
            base.fields[target.attr] = value if known is None else join(known, value)
        elif base.kind == "name":
            name = f"{base.name}.{target.attr}"
            if name.startswith(_SETTING):
                self.setting(name, value, target)
        elif base.kind == "settings" and isinstance(target.value, ast.Name):
            self.job.defaults[target.attr] = value if value.kind != "unknown" else Value("settings", name=target.attr)

    def _bind_item(self, target: ast.Subscript, value: Value) -> None:
        base, index = self.evaluate(target.value), self.evaluate(target.slice)
        if base.kind == "tensor":
            masks = [one for one in index.holds() if one.kind == "tensor" or one.boolean]
            if masks:
                mask = next((one for one in masks if one.boolean), masks[0])
                self.emit(Indexed(node=target, value=base, index=mask, stored=True, stores=value, **self.place))
            if base.is_batch and value.on_device and isinstance(target.value, ast.Name):
                self.bind(target.value, base.but(place="device", is_batch=True))
        elif base.kind == "name" and base.name == "os.environ" and isinstance(index.constant, str):
            self.setting(f"os.environ.{index.constant}", value, target)
        elif base.fields is not None and base.kind == "plain":
            key = index.constant if isinstance(index.constant, str) else "[each]"
            known = base.fields.get(key)
            joined = value if known is None else join(known, value)
            self.bind(target.value, base.but(fields={**base.fields, key: joined}))
        elif value.has_device_tensor and base.kind == "plain" and not base.known:
            self.bind(target.value, Value("plain", items=(value,), name="each"))

    def setting(self, name: str, value: Value, node: ast.AST) -> None:
        event = Set(node=node, name=name, value=value, **self.place)
        self.job.settings[name] = event
        self.emit(event)

    # Blocks

    def branch(self, node: ast.If) -> Condition | None:
        frame = self.frame
        before = frame.where
        if asks_until_true(node):
            frame.where = RARELY.behind(before)
        value = self.test(node.test, "if")
        frame.where = before
        yes, no = self._conditions(node, value)
        env = dict(frame.env)
        frame.where = yes.behind(before)
        self.body(node.body)
        taken = frame.env
        frame.env = env
        frame.where = no.behind(before)
        self.body(node.orelse)
        frame.where = before
        first, second = ends(node.body), bool(node.orelse) and ends(node.orelse)
        if first and not second:
            return no
        if second and not first:
            frame.env = taken
            return yes
        if asks_for_gpu(node.test):
            frame.env = frame.env | taken
        elif yes.guard != "rare" or not value.known:  # what a setting that is off would bind does not count
            frame.env = _merged(frame.env, taken)
        return None

    def _conditions(self, node: ast.If, value: Value) -> tuple[Condition, Condition]:
        yes, no = split(node.test, value)
        if _remembers(node) or _switches(node):
            yes = yes.both(RARELY)
        module = self.frame.module
        if (
            yes.bites
            and yes.guard != "error"
            and self.frame.where.phase == "step"
            and self.traits.steps(node.body, module)
        ):
            yes = Condition(update=True)  # the optimizer's own step: however many micro-steps there are
        elif no.bites and no.guard != "error" and node.orelse and self.traits.steps(node.orelse, module):
            no = Condition(update=True)
        where = self.frame.where
        if isinstance(node.body[-1], ast.Break) and where.phase == "step" and not (where.inner or where.micro):
            yes = yes.both(RARELY)  # what leaves the loop over steps runs once
        if makes_once(node):
            yes = yes.both(RARELY)
        if fails(node.body):
            yes = yes.both(Condition("error"))
        if node.orelse and fails(node.orelse):
            no = no.both(Condition("error"))
        return yes, no

    def with_(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.frame.where
        for item in node.items:
            value = self.evaluate(item.context_expr)
            name = value.name or _spelled(item.context_expr)
            if knowledge.NO_GRAD.search(name):
                self.be(no_grad=True)
            elif knowledge.AUTOCAST.search(name):
                self.be(autocast=not self._is_off(item.context_expr))
            if item.optional_vars is not None:
                self.bind(item.optional_vars, value)
        self.body(node.body)
        self.frame.where = before

    def _is_off(self, node: ast.expr) -> bool:
        """Say whether a context is made with enabled=False."""
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg == "enabled":
                with self.quiet():
                    value = self.test(keyword.value, "if")
                return value.known and not value.constant
        return False

    def tries(self, node: ast.Try) -> None:
        before = self.frame.where
        self.body(node.body)
        for handler in node.handlers:
            self.frame.where = Condition("rare").behind(before)
            env = dict(self.frame.env)
            self.body(handler.body)
            self.frame.env = _merged(env, self.frame.env)
        self.frame.where = before
        self.body(node.orelse)
        self.body(node.finalbody)

    def match(self, node: ast.Match) -> None:
        self.evaluate(node.subject)
        for case in node.cases:
            self.body(case.body)

    # Loops

    def for_(self, node: ast.For | ast.AsyncFor) -> None:
        over, item = self.iterate(node.iter)
        if over.name in {"parameters", "named_parameters"}:
            parameters = True
        else:
            parameters = any(
                isinstance(one, ast.Attribute) and one.attr in {"parameters", "named_parameters"}
                for one in ast.walk(node.iter)
            )
        self._loop(node, over, item, parameters)

    def while_(self, node: ast.While) -> None:
        self._loop(node, UNKNOWN, None, False)

    def iterate(self, node: ast.expr) -> tuple[Value, Value]:
        """Evaluate what a loop goes over; return it and what each round gets."""
        value = self.evaluate(node)
        return value, element(value)

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, over: Value, item: Value | None, parameters: bool
    ) -> None:
        frame = self.frame
        outer = frame.where
        kind = kind_of(self, node, over)
        frame.where = kind.place(outer)
        if kind in {LoopKind.STEP, LoopKind.UPDATE} and steps_environment(node, frame.module):
            self.be(environment=True)
        self.emit(Looped(node=node, over=over, parameters=parameters, **self.place))
        self.taken(over, outer, frame.where)
        binds = isinstance(node, ast.While) and any(isinstance(one, ast.NamedExpr) for one in ast.walk(node.test))
        if isinstance(node, ast.While) and binds:
            self.test(node.test, "while")
        if item is not None and isinstance(node, ast.For | ast.AsyncFor):
            if over.kind == "loader" and over.loader is None and item.kind == "unknown":
                item = element(over)
            self.bind(node.target, item)
        self._forget(node)
        env, first = dict(frame.env), len(self.job.events)
        self.body(node.body)
        if isinstance(node, ast.While) and not binds:
            self.test(node.test, "while")  # of what the round has made: asked anew in each
        if kind in {LoopKind.STEP, LoopKind.UPDATE}:
            calls = tuple(event for event in self.job.events[first:] if isinstance(event, Called))
            self.emit(Stepped(node=node, calls=calls, loop=node, **self.place))
        frame.where = outer
        frame.env = _merged(env, frame.env)
        self.body(node.orelse)

    def _forget(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        """Take what a loop counts or changes for no constant: `step = 0` before it says nothing of later rounds."""
        env = self.frame.env
        for one in self.frame.module.within(node.body):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id in env and env[one.id].known:
                env[one.id] = env[one.id].but(known=False, constant=None)
            elif isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Attribute):
                value = self.evaluate(one.target)
                if value.known:
                    self.bind(one.target, value.but(known=False, constant=None))

    def taken(self, over: Value, outer: Where, inside: Where) -> None:
        """Note of a loader that a loop goes over it."""
        use = self.loaders.get(id(over.loader)) if over.loader is not None else None
        if use is not None:
            use.iterated.append(self.job.events[-1])  # type: ignore[arg-type]
            use.per_epoch = use.per_epoch or outer.phase == "epoch"
            use.trains = use.trains or (inside.work == "train" and inside.phase == "step")


def _merged(one: dict[str, Value], other: dict[str, Value]) -> dict[str, Value]:
    """Return what names are after two ways have met."""
    if one is other:
        return one
    joined = dict(one)
    for name, value in other.items():
        known = joined.get(name)
        joined[name] = value if known is None else known if known is value else join(known, value)
    return joined


def _remembers(node: ast.If) -> bool:
    """Say whether a branch works out what it keeps from then on: `if key not in cache: cache[key] = ...`."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.NotIn):
        return False
    kept = ast.dump(test.comparators[0])
    return any(
        isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store) and ast.dump(one.value) == kept
        for one in within(node.body)
    )


def _switches(node: ast.If) -> bool:
    """Say whether a branch switches off what it asks for, and so runs once: `if first: first = False`."""
    inverted = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
    asked = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    if not isinstance(asked, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(asked)
    return any(
        isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Constant)
        and one.value.value is inverted
        and any(ast.unparse(target) == name for target in one.targets)
        for one in node.body
    )


def _spelled(node: ast.expr) -> str:
    return _spelled(node.func) if isinstance(node, ast.Call) else last_name(node)


_HANDLERS: dict[type[ast.stmt], Callable[..., Condition | None]] = {
    ast.FunctionDef: Statements.define,
    ast.AsyncFunctionDef: Statements.define,
    ast.ClassDef: Statements.define,
    ast.Expr: Statements.expression,
    ast.Assign: Statements.assign,
    ast.AnnAssign: Statements.annotated,
    ast.AugAssign: Statements.augment,
    ast.Return: Statements.returns,
    ast.Assert: Statements.asserts,
    ast.Raise: Statements.raises,
    ast.Delete: Statements.delete,
    ast.If: Statements.branch,
    ast.With: Statements.with_,
    ast.AsyncWith: Statements.with_,
    ast.Try: Statements.tries,
    ast.TryStar: Statements.tries,
    ast.Match: Statements.match,
    ast.For: Statements.for_,
    ast.AsyncFor: Statements.for_,
    ast.While: Statements.while_,
}
