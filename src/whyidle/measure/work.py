"""What one call of an operator computes and moves: FLOP and bytes, from the sizes and types that were recorded.

Products, convolutions and attention by their formulas; operators that memory limits by what they have to read and write
at least. Of any other operator nothing is known, which is never taken for nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final, Literal, TypeAlias

from whyidle.measure import names
from whyidle.measure.products import Product, product

# Bytes of an element, by the names of c10 and of C++.
ELEMENT: Final = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long": 8, "long int": 8, "int": 4, "short": 2,
    "short int": 2, "bool": 1, "unsigned char": 1, "signed char": 1, "c10::Float8_e4m3fn": 1, "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1, "c10::Float8_e5m2fnuz": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip
_TYPES: Final = frozenset(ELEMENT)
# Attention computes 2 products forward and 5 backward, of which one is the forward's, computed again (FlashAttention).
AGAIN: Final = 1.25
# Where "is_causal" stands among the arguments (native_functions.yaml of PyTorch 2.6; flash_attn 2.8), and the query.
_CAUSAL: Final = {
    "aten::_scaled_dot_product_flash_attention": (4, 0),
    "aten::_scaled_dot_product_efficient_attention": (6, 0),
    "aten::_scaled_dot_product_cudnn_attention": (6, 0),
    "aten::_scaled_dot_product_flash_attention_backward": (11, 1),
    "aten::_scaled_dot_product_efficient_attention_backward": (11, 1),
    "aten::_scaled_dot_product_cudnn_attention_backward": (14, 1),
    "flash_attn::_flash_attn_forward": (5, 0),
    "flash_attn::_flash_attn_backward": (11, 1),
}
# Beyond these no tensor is; damaged files have numbers whose product no float holds.
MOST_DIMS: Final = 6
LARGEST: Final = 1 << 48
Operands: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # sizes of a convolution's input and weight
Kind = Literal["product", "convolution", "attention", "memory"]


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator has to do at least."""

    kind: Kind
    flop: float  # that the model needs
    bytes: float | None  # read and written; None where the types were not recorded
    number: str  # type of the operands, as c10 calls it; "" not recorded
    again: float = 1.0  # what is computed, over what the model needs

    @property
    def executed(self) -> float:
        return self.flop * self.again


@dataclass(frozen=True, slots=True)
class _Call:
    """The tensors and the other arguments of a call."""

    dims: list[list[int] | None]  # None: a list of tensors
    types: list[str]
    arguments: list[str]

    def count(self, place: int) -> int:
        """Return the elements of a tensor; 0 where there is none in this place."""
        if place >= len(self.dims) or self.dims[place] is None:
            return 0
        if place < len(self.types) and self.types[place] not in ELEMENT:
            return 0
        return prod(self.dims[place] or [1 if self.types else 0])

    def bytes(self, place: int) -> int:
        return self.count(place) * ELEMENT.get(self.types[place] if place < len(self.types) else "", 0)

    def sizes(self, place: int) -> list[int]:
        return (self.dims[place] if place < len(self.dims) else None) or []

    def type(self, place: int) -> str:
        return self.types[place] if place < len(self.types) else ""

    def argument(self, place: int) -> list[int] | bool | int | None:
        """Return an argument that is a number, a truth or a list of these; None where no such was recorded."""
        try:
            said = json.loads(self.arguments[place].lower())
        except (IndexError, ValueError, AttributeError, RecursionError):
            return None
        numbers = said if isinstance(said, list) else [said]
        known = len(numbers) <= MOST_DIMS and all(isinstance(n, int) and abs(n) < LARGEST for n in numbers)
        return said if known else None


@cache
def work(operator: str, shapes: str, types: str = "", arguments: str = "", outputs: int = 0) -> Work | None:
    """Return what an operator does; None where that is not known. The texts are JSON, as recorded.

    `outputs`: elements that a convolution makes, where its stride was not recorded and something else tells.
    """
    call = _call(shapes, types, arguments)
    if call is None:
        return None
    if names.COUNTED_PRODUCT.search(operator):
        return _product(operator, shapes, types, call)
    if names.CONVOLUTION_CALL.search(operator):
        return _convolution(call, outputs)
    if names.CONVOLUTION_GRADIENT.search(operator):
        return _convolution_gradient(operator, call)
    if operator in _CAUSAL:
        return _attention(operator, call)
    moved = _moved(operator, call)
    return None if not moved else Work("memory", 0.0, moved, call.type(0))


def _call(shapes: str, types: str, arguments: str) -> _Call | None:
    try:
        dims, kinds, rest = json.loads(shapes), json.loads(types or "[]"), json.loads(arguments or "[]")
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(part, list) for part in (dims, kinds, rest)):
        return None
    return _Call([_sizes(size) for size in dims], [str(kind) for kind in kinds], rest)


def _sizes(said: object) -> list[int] | None:
    if isinstance(said, list) and len(said) <= MOST_DIMS and all(isinstance(n, int) and 0 <= n < LARGEST for n in said):
        return said
    return None


def _product(operator: str, shapes: str, types: str, call: _Call) -> Work | None:
    known = bool(call.types)
    p = product(operator, shapes, types if known else '"float","float","float"', _TYPES)
    if p is None:
        return None
    number = call.type(1 if "add" in operator else 0)
    return Work("product", p.flop, _product_bytes(p, operator, number) if known else None, number)


def _product_bytes(p: Product, operator: str, number: str) -> float:
    """Return the bytes of both operands and the result, which fp8 products give in 16 bits."""
    size = ELEMENT.get(number, 0)
    result = max(size, 2) if "scaled" in operator else size
    each = size * (p.rows * p.inner + p.inner * p.columns) + result * p.rows * p.columns
    return float(max(p.batch, 1) * each)


def outputs_of(operator: str, shapes: str) -> tuple[Operands, int] | None:
    """Return, of a convolution's gradient, sizes of input and weight, and the elements that the convolution made."""
    call = _call(shapes, "", "")
    if call is None or not names.CONVOLUTION_GRADIENT.search(operator):
        return None
    grad, source = (0, 1) if operator == "aten::convolution_backward" else (1, 0)
    return (tuple(call.sizes(source)), tuple(call.sizes(2))), prod(call.sizes(grad))


def operands_of(shapes: str) -> Operands:
    """Return the sizes of a convolution's input and weight."""
    call = _call(shapes, "", "")
    return ((), ()) if call is None else (tuple(call.sizes(0)), tuple(call.sizes(1)))


@cache
def tensors_of(shapes: str) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of the tensors of an operator; scalars are left out, and lists of tensors."""
    call = _call(shapes, "", "")
    return () if call is None else tuple(tuple(size) for size in call.dims if size)


@cache
def weights_of(operator: str, shapes: str) -> tuple[tuple[int, ...], ...]:
    """Return the sizes that are those of weights: of a linear layer both ways round, of a convolution, of a norm."""
    place = names.WEIGHT_PLACES.get(operator)
    call = _call(shapes, "", "") if place else None
    if call is None or place is None:
        return ()
    sizes = [tuple(call.sizes(row)) for row in place if call.sizes(row)]
    return tuple(dict.fromkeys([*sizes, *(size[::-1] for size in sizes)]))


def _convolution(call: _Call, outputs: int) -> Work | None:
    """Count aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)."""
    source, weight = call.sizes(0), call.sizes(1)
    if len(source) < 3 or len(source) != len(weight) or not weight[0]:
        return None
    stride, padding, dilation, transposed = (call.argument(place) for place in (3, 4, 5, 6))
    each = prod(weight) // weight[0]  # products per element: of the output, or of the input where it is transposed
    if transposed is True:
        return _convolved(call, prod(source) * each, 1.0, (0, 1), 0)
    if outputs:
        return _convolved(call, outputs * each, 1.0, (0, 1), outputs)
    if not (isinstance(stride, list) and isinstance(padding, list) and isinstance(dilation, list)):
        return None
    settings = zip(source[2:], weight[2:], _spread(stride), _spread(padding), _spread(dilation), strict=False)
    out = [(n + 2 * pad - gap * (k - 1) - 1) // max(step, 1) + 1 for n, k, step, pad, gap in settings]
    if len(out) != len(source) - 2 or min(out, default=0) <= 0:
        return None
    outputs = source[0] * weight[0] * prod(out)
    return _convolved(call, outputs * each, 1.0, (0, 1), outputs)


def _spread(setting: list[int]) -> list[int]:
    """Return a setting for each dimension, of which a single one stands for all."""
    return setting * (MOST_DIMS - 2) if len(setting) == 1 else setting


def _convolution_gradient(operator: str, call: _Call) -> Work | None:
    """Count aten::convolution_backward(grad_output, input, weight, …, output_mask); before 1.11 input came first."""
    grad, source = (0, 1) if operator == "aten::convolution_backward" else (1, 0)
    out, into, weight = call.sizes(grad), call.sizes(source), call.sizes(2)
    if len(out) < 3 or not len(out) == len(into) == len(weight) or not weight[0]:
        return None
    transposed = call.argument(7) if operator == "aten::convolution_backward" else None
    if not isinstance(transposed, bool):
        transposed = prod(out[2:]) > prod(into[2:])
    each = prod(weight) // weight[0]
    multiplied = prod(into if transposed else out) * each
    mask = call.argument(10) if operator == "aten::convolution_backward" else None
    wanted = sum(mask[:2]) if isinstance(mask, list) and len(mask) == 3 else 2  # gradients of input and weight
    return _convolved(call, multiplied, float(wanted), (0, 1, 2), 0)


def _convolved(call: _Call, multiplied: int, times: float, tensors: tuple[int, ...], outputs: int) -> Work:
    number = call.type(0)
    size = ELEMENT.get(number, 0)
    moved = max(times, 1.0) * sum(call.bytes(place) for place in tensors) + outputs * size
    return Work("convolution", 2.0 * multiplied * times, moved if size else None, number)


def _attention(operator: str, call: _Call) -> Work | None:
    """Count 2 products of the forward pass, the double of that backward; the half of it where it says causal."""
    place, first = _CAUSAL[operator]
    query, key, value = (call.sizes(first + row) for row in range(3))
    if not len(query) == len(key) == len(value) == 4:
        return None
    heads, length = (2, 1) if operator.startswith("flash_attn") else (1, 2)
    pairs = query[0] * query[heads] * query[length] * key[length]
    backward = "backward" in operator
    flop = 2.0 * pairs * (query[3] + value[3]) * (2 if backward else 1)
    if call.argument(place) is True:
        flop /= 2
    number = call.type(first)
    moved = sum(call.bytes(first + row) for row in range(3)) + call.bytes(first)
    return Work("attention", flop, moved * (2.0 if backward else 1.0) or None, number, AGAIN if backward else 1.0)


def _moved(operator: str, call: _Call) -> float:
    """Return the bytes that an operator which memory limits reads and writes at least; 0 where that is not known."""
    if names.COPY.search(operator):
        return float(call.bytes(0) + call.bytes(1))
    if names.FILLS.search(operator):
        return float(call.bytes(0))
    if names.READS.search(operator):
        return float(call.bytes(0))
    if names.NORMALIZES.search(operator):
        return 2.0 * call.bytes(0)
    if names.NORMALIZES_BACK.search(operator):
        return float(2 * call.bytes(0) + call.bytes(1))
    for operands, pattern in names.ELEMENTWISE_OPS.items():
        if pattern.search(operator):
            return _elementwise(operator, call, operands)
    return 0.0


def _elementwise(operator: str, call: _Call, operands: int) -> float:
    """Return the bytes of the operands and of a result as large as the largest of them. In place is no different."""
    largest = max(range(operands), key=call.count)
    size = 1 if names.COMPARES.search(operator) else max(ELEMENT.get(call.type(largest), 0), 1)
    read = sum(call.bytes(place) for place in range(operands))
    return float(read + call.count(largest) * size) if read else 0.0
