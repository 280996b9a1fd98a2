"""What a kernel takes in another type of number: no better than the rule, no less than memory needs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.traces import Recording
from whyidle.model.evidence import Gpu
from whyidle.replay.roofline import PRIOR, device_factor
from whyidle.rules.compute.fp32_no_tensorcore import Fp32NoTensorcore

SGEMM = "ampere_sgemm_128x64_tn"
HALF = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn"
TF32 = "ampere_tf32f32_s1688gemm_f32_128x128_ldg8_f2f_stages_32x5_tn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
ADD_HALF = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
V100 = Gpu(0, "Tesla V100-SXM2-32GB", 80, (7, 0))
RTX = Gpu(0, "NVIDIA GeForce RTX 4090", 128, (8, 9))
UNKNOWN = Gpu(0, "NVIDIA H100", 132, (9, 0))


def factor(name, to, gpu=None, dims=(), operator="aten::mm", took=1000, types="float"):
    r = Recording()
    if dims:
        r.op(operator, 0, 2, shapes=json.dumps(dims), types=json.dumps([types] * len(dims)))
    r.kernel(5, 5 + took, 1, name=name, took=0.5)
    return float(device_factor(r.analysis(**({"gpus": [gpu]} if gpu else {})), np.array([0]), to)[0])


def test_as_the_rule_says_on_the_gpus_that_it_speaks_of():
    rule = Fp32NoTensorcore
    assert factor(SGEMM, "tf32") == pytest.approx(rule.tf32_left, abs=0.005)
    assert factor(SGEMM, "fp16", V100) == pytest.approx(rule.fp16_left, abs=0.005)
    assert rule.bf16_left <= factor(SGEMM, "bf16") < rule.bf16_left + 0.02
    assert (PRIOR["tf32"], PRIOR["fp16"], PRIOR["bf16"]) == (rule.tf32_left, rule.fp16_left, rule.bf16_left)


def test_where_the_gpu_is_not_known_the_rule_is_believed():
    assert factor(SGEMM, "tf32", UNKNOWN) == PRIOR["tf32"]
    assert factor(SGEMM, "bf16", UNKNOWN) == PRIOR["bf16"]
    assert factor(HALF, "bf16", UNKNOWN) == 1.0


def test_a_gpu_without_faster_units_gains_nothing():
    assert factor(SGEMM, "tf32", RTX) == 1.0  # 82.6 TFLOP/s either way
    assert factor(SGEMM, "tf32", V100) == 1.0  # has none
    assert factor(SGEMM, "bf16", RTX) > 0.5


def test_what_is_there_already_gains_nothing():
    assert factor(HALF, "bf16") == 1.0
    assert factor(TF32, "tf32") == 1.0
    assert 0.3 < factor(TF32, "bf16") < 1.0
    assert factor(SGEMM, "bf16", dims=([64, 64], [64, 64]), types="c10::BFloat16") == 1.0  # 16-bit operands, by type


def test_memory_sets_the_least():
    """A product of one column reads 256 MiB: 132 us on this A100, whatever the units; in 16 bits the half of it."""
    dims = ([8192, 8192], [8192, 8])
    assert factor(SGEMM, "tf32", dims=dims, took=200) > 0.75
    assert factor(SGEMM, "bf16", dims=dims, took=200) == pytest.approx(factor(SGEMM, "tf32", dims=dims, took=200) / 2)


def test_what_memory_limits_moves_half_in_16_bits():
    assert factor(ADD, "bf16") == pytest.approx(0.55)
    assert factor(ADD, "tf32") == 1.0
    assert factor(ADD_HALF, "bf16") == 1.0
    assert factor(ADD, "bf16", dims=([64], [64]), operator="aten::add", types="c10::BFloat16") == 1.0
