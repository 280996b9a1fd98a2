"""What a condition says of how often the code behind it runs: counters, clocks, ranks, settings, errors."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from whyidle.lint.nodes import last_name
from whyidle.lint.values import Value
from whyidle.lint.where import Guard, Where, Work

_RANK = re.compile(
    r"rank|is_main|is_master|master|main_process|is_local_main|is_rank_?0|is_global_zero|primary|chief|leader|"
    r"is_dist_avail|is_initialized|distributed|world_size|multi_?gpu|\bddp\b|n_?gpus?|num_gpus|data_?parallel|fsdp|"
    r"is_zero_rank",
    re.IGNORECASE,
)
_GPU = re.compile(r"cuda|gpu|device|accel|is_available|mps|xpu|pin_memory", re.IGNORECASE)
_USES_GPU = re.compile(r"^(use_|with_|has_|on_|args_)?(cuda|gpu|accel|xpu)(_is)?(_available)?$", re.IGNORECASE)
_RARE = re.compile(
    r"(^|_)(log|logs|logging|print|printing|save|saving|displaying|plotting|eval|evaluate|evaluation|valid|validate|validation|checkpoint|"
    r"ckpt|report|flush|display|visuali[sz]e|vis|plot|dump|debug|verbose|profile|profiling|profiler|summary|summarize|"
    r"tick|done|finished|terminated|truncated|best|early|stop|last|first|final|end|overflow|fail|failed|failure|error|"
    r"sample|wandb|tensorboard|interval|freq|every|warn|once|initial|resume|test|inspect|dry_run|benchmark|timing|"
    r"synchronize_step|nan|inf|oom|cancel\w*|interrupted|preempted|timeout)(_|$)",
    re.IGNORECASE,
)
_ACCUMULATION = re.compile(
    r"accum|sync_grad|grad_acc|need_update|update_grad|micro|is_boundary|boundary", re.IGNORECASE
)
_COUNTER = re.compile(
    r"^(i|j|k|n|ni|it|idx|step|steps|iter|iters|iteration|epoch|batch|batch_idx|batch_i|batch_id|i_batch|itr|"
    r"global_step|total_steps?|cur_iter|cur_step|counter|count|num_steps?|current_step|current_iter|train_step|"
    r"step_idx|iter_num|(get_)?(num_)?updates?|update_num|get_num_updates|completed_steps|tick|cur_tick|nb_iter|batch_num|cnt|\w*_(step|steps|iter|idx|iters|count))$",
    re.IGNORECASE,
)
_PERIOD = re.compile(r"(^|_|\b)(per|every|interval|freq|frequency|period|next|last|prev|previous|tick)(_|\b)", re.I)
_END = re.compile(r"max|total|stop|end|last|limit|len\(|num_|n_iter|final|until", re.IGNORECASE)
_CLOCK = re.compile(r"(^|[._])(time|perf_counter|monotonic|elapsed|now|seconds?|minutes?|since|dt)($|[._])", re.I)
_ENDING = {"exit", "_exit", "quit", "abort"}
# phase == "train", self.mode is Mode.VAL
_PHASE = r"(phase|split|mode|stage)\s*(==|is)\s*(['\"]|(\w+\.)+)"
_IN_TRAINING = re.compile(_PHASE + "train", re.IGNORECASE)
_IN_EVALUATION = re.compile(_PHASE + "(val|test|eval)", re.IGNORECASE)
_BEST = re.compile(r"best|patience|min_loss|max_acc")
_TRAINING = re.compile(r"(^|[._])(training|is_train|is_training|train|do_train|train_mode)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Condition:
    """What holds of code behind a condition, beside what holds before it."""

    guard: Guard = ""
    every: int = 1
    update: bool = False  # once per optimizer step
    work: Work = ""  # "eval": only outside training

    def behind(self, where: Where) -> Where:
        """Return a place behind this condition."""
        place = where.guarded(self.guard, self.every) if self.guard or self.every != 1 else where
        if self.update:
            place = replace(place, update=True)
        if self.work and place.phase in {"step", "maybe"}:
            place = replace(place, work=self.work)
        return place

    def both(self, other: Condition) -> Condition:
        """Return the condition under which both hold."""
        joined = other.behind(self.behind(Where()))
        return Condition(joined.guard, joined.every, joined.update, self.work or other.work)

    @property
    def bites(self) -> bool:
        """Say whether it makes code rarer."""
        return self.guard in {"rare", "error"} or self.every != 1


ALWAYS = Condition()
RARELY = Condition("rare")
FLAG = Condition("flag")
ERROR = Condition("error")

Split: TypeAlias = tuple[Condition, Condition]  # what holds where it is true, and where it is not
_EITHER: Split = (ALWAYS, ALWAYS)


def asks_for_gpu(test: ast.expr) -> bool:
    """Say whether a condition asks for a GPU and no more: `if use_cuda:`, `if torch.cuda.is_available():`."""
    if isinstance(test, ast.Call) and test.args:
        return False
    plain = isinstance(test, ast.Name | ast.Attribute | ast.Call)
    return plain and (ast.unparse(test) == "torch.cuda.is_available()" or bool(_USES_GPU.search(last_name(test))))


def ends(body: list[ast.stmt]) -> bool:
    """Say whether a block never reaches its end: it returns, breaks, continues, raises or exits."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return | ast.Continue | ast.Break | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return ends(last.body) and ends(last.orelse)
    if isinstance(last, ast.With):
        return ends(last.body)
    return _exits(body)


def makes_once(node: ast.If) -> bool:
    """Say whether a branch makes what is kept from then on: `if self.graph is None: self.graph = capture()`."""
    test = node.test
    if not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is) and isinstance(test.left, ast.Attribute)):
        return False
    if not (isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None):
        return False
    if re.search(r"graph|cache|captur|compil|init", test.left.attr, re.IGNORECASE):
        return True
    kept = ast.unparse(test.left)
    targets = [target for one in node.body if isinstance(one, ast.Assign) for target in one.targets]
    return any(ast.unparse(target) == kept for target in targets)


def asks_until_true(node: ast.If) -> bool:
    """Say whether a condition is asked only until it holds once: `if full or is_full(queue): full = True`."""
    test = node.test
    if not (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and isinstance(test.values[0], ast.Name)):
        return False
    return any(
        isinstance(one, ast.Assign)
        and isinstance(one.value, ast.Constant)
        and one.value.value is True
        and any(isinstance(target, ast.Name) and target.id == test.values[0].id for target in one.targets)
        for one in node.body
    )


def fails(body: list[ast.stmt]) -> bool:
    """Say whether a block ends the program or raises."""
    return bool(body) and (isinstance(body[-1], ast.Raise) or _exits(body))


def _exits(body: list[ast.stmt]) -> bool:
    last = body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and last_name(last.value.func) in _ENDING


@lru_cache(1024)  # a function is followed several times
def _spelled(test: ast.expr) -> str:
    return test.id if isinstance(test, ast.Name) else ast.unparse(test)


def split(test: ast.expr, value: Value) -> Split:
    """Return what holds where a condition is true, and where it is false.

    Args:
        test: the condition.
        value: what is known of it as a whole.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yes, no = split(test.operand, value)  # which is told of what stands behind the `not`
        # a value of this step either way, and what is tested for is the exception
        return (yes, no) if yes.guard == "data" else (no, yes)
    if isinstance(test, ast.BoolOp):
        return _several(test, value)
    if isinstance(test, ast.NamedExpr):
        return split(test.value, value)
    if value.kind == "counter":
        return _counted(test, value.every)
    if value.name == "modulo":  # step % 100: zero, and so false, each hundredth time
        return _counted(test, value.every)[::-1]
    text = _spelled(test)
    if _everywhere(text, last_name(test)):
        return _EITHER
    if value.known:
        return (ALWAYS, RARELY) if value.constant else (RARELY, ALWAYS)
    if value.on_device or value.on_host:
        return _of_this_step(text)
    return _unknown(test, value, text)


@lru_cache(4096)
def _everywhere(text: str, name: str) -> bool:
    """Say whether a condition is met by the job that we think of: it has a GPU, several ranks, and is rank 0."""
    return bool(_RANK.search(text) and not _RARE.search(name)) or bool(_GPU.search(text)) or "__name__" in text


def _of_this_step(text: str) -> Split:
    if "isfinite" in text:
        return ALWAYS, ERROR
    return (ERROR if "isnan" in text or "isinf" in text else Condition("data")), ALWAYS


def _several(test: ast.BoolOp, value: Value) -> Split:
    items = value.items or ()
    parts = [split(part, items[i] if i < len(items) else Value()) for i, part in enumerate(test.values)]
    # what all must meet, and what any lets through
    everything = parts[0][0] if isinstance(test.op, ast.And) else parts[0][1]
    for yes, no in parts[1:]:
        everything = everything.both(yes if isinstance(test.op, ast.And) else no)
    loose = [no if isinstance(test.op, ast.And) else yes for yes, no in parts]
    # `step % n == 0 or is_last`: rare, and then once more
    counted = next((one for one in loose if one.every != 1), None)
    anything = counted or next((one for one in loose if not one.bites), RARELY if loose else ALWAYS)
    return (everything, anything) if isinstance(test.op, ast.And) else (anything, everything)


def _counted(test: ast.expr, every: int) -> Split:
    if _ACCUMULATION.search(_spelled(test)):
        return Condition(update=True), ALWAYS
    return Condition("rare" if every != 1 else "", every), ALWAYS


def _unknown(test: ast.expr, value: Value, text: str) -> Split:
    """Split by what the words of a condition say."""
    name = last_name(test)
    if _TRAINING.search(name) or _IN_TRAINING.search(text):
        return ALWAYS, Condition(work="eval")
    if _IN_EVALUATION.search(text):
        return Condition(work="eval"), ALWAYS
    if _ACCUMULATION.search(text):
        return Condition(update=True), ALWAYS
    if isinstance(test, ast.Compare):
        return _compared(test, text, value)
    if isinstance(test, ast.Call):
        return _called(name, value)
    if _RARE.search(name):
        return RARELY, ALWAYS
    named = isinstance(test, ast.Name | ast.Attribute | ast.Subscript)
    return (FLAG, FLAG) if named and value.kind in {"settings", "unknown"} else _EITHER


def _called(name: str, value: Value) -> Split:
    if name in {"isinstance", "hasattr", "callable", "len", "issubclass", "is_tensor", "is_floating_point"}:
        return _EITHER
    if name in {"isnan", "isinf"} or "overflow" in name:
        return ERROR, ALWAYS
    if name == "isfinite":
        return ALWAYS, ERROR
    if _RARE.search(name):
        return RARELY, ALWAYS
    return (FLAG, FLAG) if value.kind == "settings" else _EITHER


def _compared(test: ast.Compare, text: str, value: Value) -> Split:
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    if isinstance(operator, ast.Is | ast.IsNot):
        chosen = _RARE.search(last_name(left)) and not isinstance(left, ast.Name)
        return (FLAG, FLAG) if chosen else _EITHER
    if _CLOCK.search(last_name(left)) or "time.time()" in text or "perf_counter()" in text:
        return RARELY, ALWAYS
    if _is_counter(left) or _is_counter(right):
        return _reached(operator, right)
    if _PERIOD.search(text) and isinstance(operator, ast.Lt | ast.LtE):  # not yet as far as the next one
        return ALWAYS, RARELY
    if _PERIOD.search(text) and isinstance(operator, ast.Gt | ast.GtE | ast.Eq):
        return RARELY, ALWAYS
    if _BEST.search(text):
        return RARELY, ALWAYS
    spelled = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in (left, right))
    return (FLAG, FLAG) if spelled or value.kind == "settings" else _EITHER


def _reached(operator: ast.cmpop, right: ast.expr) -> Split:
    """Split by how far a counter is: a step of its own, the first few, the last."""
    small = isinstance(right, ast.Constant) and isinstance(right.value, int)
    greater, less = isinstance(operator, ast.Gt | ast.GtE), isinstance(operator, ast.Lt | ast.LtE)
    if isinstance(operator, ast.Eq | ast.In) or (small and less):
        return RARELY, ALWAYS
    if isinstance(operator, ast.NotEq | ast.NotIn) or (small and greater):
        return ALWAYS, RARELY
    return (RARELY, ALWAYS) if greater and _END.search(ast.unparse(right)) else _EITHER


def _is_counter(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_counter(node.left) or _is_counter(node.right)
    if isinstance(node, ast.Call) and not node.args:  # trainer.get_num_updates()
        return bool(_COUNTER.match(last_name(node.func).removeprefix("get_")))
    return isinstance(node, ast.Name | ast.Attribute) and bool(_COUNTER.match(last_name(node)))
