"""The field's formulas for FLOPs, bytes, utilization and scaling, each with its source and the form that it takes.

Papers use them in several forms that differ by a third and more: whoever prints a result says which form it is.
N parameters, L layers, H heads of width Q, T tokens in a sequence, B sequences in a batch, h hidden size, V vocabulary.
"""

from __future__ import annotations


def train_flop_per_token(parameters: float, layers: int, heads: int, width: int, tokens: int) -> float:
    """Return FLOP per token of a training step: 6 N + 12 L H Q T (PaLM, appendix B).

    N is without the table of embeddings and with the output layer; attention counts in full, causal or not.
    """
    return 6 * parameters + 12 * layers * heads * width * tokens


def train_flop_per_token_causal(parameters: float, layers: int, heads: int, width: int, tokens: int) -> float:
    """Return FLOP per token of a training step: 6 N + 6 L H Q T, the half of attention that a causal mask leaves."""
    return 6 * parameters + 6 * layers * heads * width * tokens


def megatron_parameters(layers: int, hidden: int, vocabulary: int, tokens: int) -> float:
    """Return the parameters of a GPT: 12 L h^2 (1 + 13 / (12 h) + (V + T) / (12 L h)) (Megatron-LM, SC'21)."""
    return 12 * layers * hidden**2 * (1 + 13 / (12 * hidden) + (vocabulary + tokens) / (12 * layers * hidden))


def megatron_flop(batch: int, tokens: int, layers: int, hidden: int, vocabulary: int, *, recompute: bool) -> float:
    """Return FLOP of a training step: 96 B T L h^2 (1 + T / (6 h) + V / (16 L h)) (Megatron-LM, SC'21).

    That is with every activation computed again in the backward pass. Without, 72 stands for 96 of the layers; the
    output layer is never computed again, and its part stays as it is.
    """
    layer = (96 if recompute else 72) * batch * tokens * layers * hidden**2 * (1 + tokens / (6 * hidden))
    return layer + 6 * batch * tokens * hidden * vocabulary


def training_s(tokens: float, parameters: float, gpus: int, flops: float) -> float:
    """Return seconds of a training run: 8 T P / (n X), with recomputation, X FLOP/s per GPU (Megatron-LM, SC'21)."""
    return 8 * tokens * parameters / (gpus * flops)


def decode_flop_per_token(parameters: float, layers: int, heads: int, width: int, context: int) -> float:
    """Return FLOP that a decoder takes for one token: 2 N + 4 L H Q context."""
    return 2 * parameters + 4 * layers * heads * width * context


def decode_bytes(parameters: float, parameter_bytes: float, cache_bytes: float, batch: int, context: int) -> float:
    """Return bytes that a step of decoding reads: the weights once, and each sequence's cache, of bytes per token."""
    return parameters * parameter_bytes + batch * context * cache_bytes


def mfu(tokens_per_s: float, flop_per_token: float, gpus: int, peak: float) -> float:
    """Return model FLOPs utilization, 0-1: FLOP/s that the model needs over the dense peak of all GPUs (PaLM)."""
    return tokens_per_s * flop_per_token / (gpus * peak)


def mbu(bytes_: float, seconds: float, bandwidth: float) -> float:
    """Return memory bandwidth utilization, 0-1: bytes that have to be read in this time, over what memory carries."""
    return bytes_ / (seconds * bandwidth)


def roofline_s(flop: float, bytes_: float, flops: float, bandwidth: float) -> float:
    """Return the least time of some work, s: that of its arithmetic or that of its memory, the longer."""
    return max(flop / flops, bytes_ / bandwidth)


def usd_per_million_tokens(gpus: int, usd_per_gpu_hour: float, tokens_per_s: float) -> float:
    """Return US dollars per million tokens (or samples, of samples per second), all GPUs together."""
    return 1e6 * gpus * usd_per_gpu_hour / 3600 / tokens_per_s


def parts_of_speedup(before_s: float, after_s: float, share: float) -> tuple[float, float]:
    """Return what ending a wait can have brought at most, 1 / (1 - share), and what has to come from other changes.

    `share` of the time before was that wait. The product of the two is the speedup, `before_s / after_s`.
    """
    most = amdahl(share, float("inf"))
    return most, before_s / after_s / most


def pipeline_bubble_share(stages: int, microbatches: int, interleaved: int = 1) -> float:
    """Return the idle share of a pipeline's step: (p - 1) / (v m + p - 1), p stages in v pieces each (Megatron-LM)."""
    return (stages - 1) / (interleaved * microbatches + stages - 1)


def amdahl(share: float, times: float) -> float:
    """Return the speedup of the whole where a share of its time becomes so many times faster."""
    return 1 / (1 - share + share / times)


def scaling_efficiency(base_throughput: float, base_gpus: int, throughput: float, gpus: int) -> float:
    """Return what each GPU does, over what each did at the base: X_n n_1 / (n X_1); 1 is linear.

    With the same batch in all it is strong scaling, with the same batch per GPU weak scaling.
    """
    return throughput * base_gpus / (gpus * base_throughput)


def strong_efficiency(base_s: float, base_gpus: int, seconds: float, gpus: int) -> float:
    """Return strong-scaling efficiency by the time of the same work: T_1 n_1 / (n T_n) (Amdahl, 1967)."""
    return base_s * base_gpus / (gpus * seconds)


def weak_efficiency(base_s: float, seconds: float) -> float:
    """Return weak-scaling efficiency by the time of a step with the same batch per GPU: T_1 / T_n (Gustafson, 1988)."""
    return base_s / seconds


def usl(gpus: float, serial: float, crosstalk: float) -> float:
    """Return the speedup over one GPU: n / (1 + s (n - 1) + k n (n - 1)) (Gunther's Universal Scalability Law).

    `serial` is the share that does not become faster, `crosstalk` what each pair of GPUs costs; without: Amdahl's law.
    """
    return gpus / (1 + serial * (gpus - 1) + crosstalk * gpus * (gpus - 1))


def busbw_factor(collective: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth, as nccl-tests defines it (doc/PERFORMANCE.md).

    Raises:
        ValueError: no such collective.
    """
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in {"all_gather", "reduce_scatter", "all_to_all"}:
        return (ranks - 1) / ranks
    if collective in {"broadcast", "reduce", "send_recv"}:
        return 1.0
    raise ValueError(collective)
