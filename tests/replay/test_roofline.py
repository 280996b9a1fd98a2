"""What is left of a product in another type of number: by the rule, by the GPU, and no less than memory needs."""

from __future__ import annotations

import json

import pytest

from tests.traces import Recording
from whyidle.model.evidence import Gpu
from whyidle.model.finding import Edit
from whyidle.replay.edits import apply
from whyidle.replay.graph import build
from whyidle.replay.select import Selection
from whyidle.rules.compute.fp32_no_tensorcore import Fp32NoTensorcore as Rule

SGEMM = "ampere_sgemm_128x64_tn"
HALF = "ampere_fp16_sgemm_fp16_128x64_tn"
TF32 = "ampere_tf32f32_s1688gemm_f32_128x128_ldg8_f2f_stages_32x5_tn"
V100 = Gpu(0, "Tesla V100-SXM2-32GB", 80, (7, 0))
RTX = Gpu(0, "NVIDIA GeForce RTX 4090", 128, (8, 9))
L4 = Gpu(0, "NVIDIA L4", 58, (8, 9))
UNKNOWN = Gpu(0, "NVIDIA H100", 132, (9, 0))
PRIOR = {"tf32": float(Rule.tf32_left), "bf16": float(Rule.fp16_left), "fp16": float(Rule.fp16_left)}


def left(to, name=SGEMM, gpu=None, dims=(), took=1000, types="float"):
    """Return what the rule's edit leaves of one product of 1 ms, or so many us."""
    r = Recording().step(0, 0, took + 5)
    if dims:
        r.op("aten::mm", 0, 2, shapes=json.dumps(dims), types=json.dumps([types] * len(dims)))
    r.kernel(5, 5 + took, 1, name=name, took=0.5)
    a = r.analysis(**({"gpus": [gpu]} if gpu else {}))
    edit = Edit(
        "scale_device", {"class": "matmul", "tensor_cores": False, "number": to}, {"factor": PRIOR[to], "prior": 1.0}
    )
    g = build(a, 0, 1)
    return float(apply(g, Selection(a), [edit]).duration[0] / g.duration[0])


def test_as_the_rule_says_on_the_gpus_that_it_speaks_of():
    assert left("tf32") == pytest.approx(Rule.tf32_left, abs=0.005)
    assert left("fp16", gpu=V100) == pytest.approx(Rule.fp16_left, abs=0.005)
    assert left("bf16") == pytest.approx(Rule.bf16_left, abs=0.02)


@pytest.mark.parametrize("to", ["tf32", "bf16"])
def test_where_the_gpu_is_not_known_the_rule_is_believed(to):
    assert left(to, gpu=UNKNOWN) == pytest.approx(PRIOR[to])
    assert left(to, gpu=UNKNOWN, dims=([8192, 8192], [8192, 8]), took=200) == pytest.approx(PRIOR[to])


def test_a_gpu_without_faster_units_gains_nothing():
    assert left("tf32", gpu=RTX) == 1.0  # 82.6 TFLOP/s either way
    assert left("tf32", gpu=V100) == 1.0  # has none
    assert left("tf32", gpu=L4) == pytest.approx(0.80, abs=0.01)  # 60 after 30.3
    assert left("bf16", gpu=RTX) == pytest.approx(0.70, abs=0.01)  # 165 after 82.6


def test_what_is_not_in_fp32_gains_nothing():
    assert left("bf16", HALF, dims=([64, 64], [64, 64]), types="c10::BFloat16") == 1.0
    assert left("tf32", "ampere_dgemm_128x64_tn", dims=([64, 64], [64, 64]), types="double") == 1.0
    assert left("bf16", TF32) == 1.0  # the edit speaks of what runs beside tensor cores


def test_memory_sets_the_least():
    """A product of one column reads 256 MiB: 132 us on this A100, 155 as kernels stream; in 16 bits the half of it."""
    dims = ([8192, 8192], [8192, 8])
    assert left("tf32", dims=dims, took=200) == pytest.approx(0.775, abs=0.01)
    assert left("bf16", dims=dims, took=200) == pytest.approx(0.775 / 2, abs=0.01)
    assert left("tf32", dims=dims, took=100) == 1.0  # faster than memory should be: nothing is told to be gained
