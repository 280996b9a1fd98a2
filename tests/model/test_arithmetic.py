"""Published numbers, reproduced."""

from __future__ import annotations

import pytest

from whyidle.model import arithmetic as by

A100, H100 = 312e12, 989e12

# Megatron-LM (SC'21), table 1: billions of parameters, layers, hidden size, TFLOP/s per GPU, percent of the peak
MEGATRON = [
    (1.7, 24, 2304, 137, 44), (3.6, 30, 3072, 138, 44), (7.5, 36, 4096, 142, 46), (18.4, 40, 6144, 135, 43),
    (39.1, 48, 8192, 138, 44), (76.1, 60, 10240, 140, 45), (145.6, 80, 12288, 148, 47), (310.1, 96, 16384, 155, 50),
    (529.6, 105, 20480, 163, 52), (1008.0, 128, 25600, 163, 52),
]  # fmt: skip


@pytest.mark.parametrize(("billions", "layers", "hidden", "tera", "percent"), MEGATRON)
def test_megatron_table(billions, layers, hidden, tera, percent):
    parameters = by.megatron_parameters(layers, hidden, 51_200, 2048)
    assert parameters / 1e9 == pytest.approx(billions, rel=0.001, abs=0.06)
    assert by.mfu(1, tera * 1e12, 1, A100) * 100 == pytest.approx(percent, abs=0.7)


@pytest.mark.parametrize(
    ("tokens", "parameters", "gpus", "tera", "days"),
    # published: 34 and 84 days; with 1e12 parameters for the 1.008e12 of its table it is 83.2
    [(300e9, 175e9, 1024, 140, 33.9), (450e9, 1e12, 3072, 163, 83.2), (450e9, 1008e9, 3072, 163, 83.9)],
)
def test_megatron_training_time(tokens, parameters, gpus, tera, days):
    assert by.training_s(tokens, parameters, gpus, tera * 1e12) / 86_400 == pytest.approx(days, abs=0.05)


def test_megatron_flop_agrees_with_training_time():
    """Eight FLOP per parameter and token with recomputation, six without."""
    parameters = by.megatron_parameters(96, 12_288, 51_200, 2048)
    tokens = 1536 * 2048
    for recompute, times in ((True, 8), (False, 6)):
        flop = by.megatron_flop(1536, 2048, 96, 12_288, 51_200, recompute=recompute)
        assert flop / (parameters * tokens) == pytest.approx(times, rel=0.04)


def test_palm():
    flop = by.train_flop_per_token(540e9, 118, 48, 256, 2048)
    assert by.mfu(238_300, flop, 6144, 275e12) == pytest.approx(0.462, abs=0.001)


@pytest.mark.parametrize(("tera", "percent"), [(430, 43.5), (400, 40.4), (380, 38.4)])
def test_llama_3(tera, percent):
    assert by.mfu(1, tera * 1e12, 1, H100) * 100 == pytest.approx(percent, abs=0.05)


@pytest.mark.parametrize(("tokens_per_s", "full", "causal"), [(5762, 33.7, 30.0), (6667, 39.0, 34.7)])
def test_torchtitan_llama_3_8b(tokens_per_s, full, causal):
    sizes = (7.5e9, 32, 32, 128, 8192)
    assert by.mfu(tokens_per_s, by.train_flop_per_token(*sizes), 1, H100) * 100 == pytest.approx(full, abs=0.1)
    assert by.mfu(tokens_per_s, by.train_flop_per_token_causal(*sizes), 1, H100) * 100 == pytest.approx(causal, abs=0.5)


def test_bus_bandwidth():
    """nccl-tests: 47.38 GB/s of the algorithm are 91.80 GB/s of the bus with 32 ranks."""
    assert 47.38 * by.busbw_factor("all_reduce", 32) == pytest.approx(91.80, abs=0.01)
    assert by.busbw_factor("all_gather", 4) == 0.75
    assert by.busbw_factor("broadcast", 4) == 1.0
    with pytest.raises(ValueError, match="gossip"):
        by.busbw_factor("gossip", 4)


def test_hierarchical_all_reduce():
    """P6-B200, 4 GiB over 4 nodes of 8: 7 GiB on NVLink and 0.75 GiB over the network of each GPU, 16.1 ms of wire."""
    inside, between = 4 * by.busbw_factor("all_reduce", 8), 4 / 8 * by.busbw_factor("all_reduce", 4)
    assert (inside, between) == (7.0, 0.75)
    assert between * 2**30 / 50e9 == pytest.approx(0.0161, rel=0.01)


@pytest.mark.parametrize(("stages", "microbatches", "percent"), [(4, 8, 27.3), (16, 128, 10.5)])
def test_pipeline_bubble(stages, microbatches, percent):
    assert by.pipeline_bubble_share(stages, microbatches) * 100 == pytest.approx(percent, abs=0.05)
    assert by.pipeline_bubble_share(stages, microbatches, 4) < by.pipeline_bubble_share(stages, microbatches)


def test_amdahl():
    assert by.amdahl(0.41, float("inf")) == pytest.approx(1.69, abs=0.01)
    assert by.amdahl(0.5, 2) == pytest.approx(4 / 3)


def test_a_story_that_does_not_add_up():
    """Without a data wait of 41% 19 h become 11.2 h: of the 2.9x to 6.5 h other changes have to bring 1.72x."""
    most, others = by.parts_of_speedup(19, 6.5, 0.41)
    assert (most, others) == pytest.approx((1.69, 1.72), abs=0.006)
    assert 19 / most == pytest.approx(11.2, abs=0.02)
    assert most * others == pytest.approx(19 / 6.5)


def test_decoding_is_limited_by_memory():
    """An 8B model in 16 bits on an H100: 16 GB of weights take 4.8 ms for every token of one sequence."""
    flop = by.decode_flop_per_token(8e9, 32, 32, 128, 1000)
    bytes_ = by.decode_bytes(8e9, 2, 131_072, 1, 1000)
    least = by.roofline_s(flop, bytes_, H100, 3.35e12)
    assert least == pytest.approx(4.8e-3, rel=0.02)
    assert by.mbu(bytes_, 2 * least, 3.35e12) == pytest.approx(0.5)


def test_price_of_tokens():
    assert by.usd_per_million_tokens(8, 2.0, 40_000) == pytest.approx(0.111, abs=0.001)
