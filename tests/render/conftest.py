"""Reports as a judge could have made them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whyidle.model.detail import Bucket, Copies, Detail, TopItem
from whyidle.model.evidence import Ignored
from whyidle.model.finding import (
    Applied,
    Asked,
    DeviceBusy,
    Estimate,
    EvidenceFile,
    Finding,
    Fix,
    GpuCount,
    Location,
    Predicted,
    Prediction,
    Report,
    RunInfo,
    Summary,
    Unknown,
)

LOADER = Finding(
    "input.workers_zero",
    "high",
    0.95,
    "The DataLoader loads in the training process: num_workers=0.",
    0.336,
    "DataLoader.__next__ covers 34% of the 44% of the time that the GPU is idle",
    (Location("runs/resnet50/trace.json.gz", rank=0, device=0, step=7, start_s=0.123, end_s=0.19),),
    (
        Fix(
            "load in worker processes",
            "DataLoader(..., num_workers=4, pin_memory=True, persistent_workers=True)",
            effort="argument",
            risk="each worker holds a copy of the data set object",
        ),
    ),
)
TENSOR_CORES = Finding(
    "compute.fp32_no_tensorcore",
    "medium",
    0.8,
    "Matrix products beside the tensor cores take 15% of the time: on them 10% of the time could be saved.",
    0.1,
    "by kernel name",
    (),
    (
        Fix("autocast", 'with torch.autocast("cuda"):\n    loss = step(batch)', effort="code"),
        Fix("tf32", "b", "setting"),
    ),
)
LOW = Finding(
    "host.gc_pause",
    "low",
    0.6,
    "Python's garbage collector stops the training thread, and the GPU runs dry, 3 times in 6 steps, for 12 ms each.",
    0.031,
)
DETAIL = Detail(
    kernels=(
        TopItem(
            "void cudnn::detail::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true>(int, float*)",
            120,
            0.3,
            0.4,
        ),
        TopItem("void at::native::(anonymous namespace)::softmax_warp_forward<float>(float*)", 6, 6e-6, 0.001),
    ),
    operators=(TopItem("aten::conv2d", 1053, 0.1, 0.3),),
    copies=(Copies("HtoD", False, 6, 38_535_168, 0.01, 0.012), Copies("DtoD", None, 2, None, 1e-5, 0.0001)),
    kernel_sizes=(Bucket(0.0, 1e-5, 1200, 0.001), Bucket(1e-5, 1e-4, 60, 0.003), Bucket(1e-4, None, 10, 0.1)),
)


@pytest.fixture
def one_finding() -> Report:
    return Report(
        RunInfo(
            (EvidenceFile("runs/resnet50/trace.json.gz", "kineto", 0),),
            (),
            (GpuCount("Tesla V100-DGXS-32GB", 1),),
            1,
            {"num_workers": 0, "with_stack": False},
        ),
        Summary(
            "Your GPU was idle 44% of the time.",
            window_s=1.05,
            steps=6,
            steps_from="ProfilerStep",
            step_time_s=0.176,
            step_time_mean_s=0.178,
            gpu_busy_share=0.5601,
            gpu_idle_share=0.4399,
            data_wait_share=0.39,
            tensor_core_share=0.0,
            launches_per_step=1200.4,
            idle_by_cause={
                "data_wait": 0.336,
                "dispatch": 0.05,
                "python": 0.024,
                "launch_latency": 0.019,
                "kernel_gap": 0.009,
                "gc": 0.0019,
            },
            devices=(DeviceBusy(0, 0, 0.5601, 1.05),),
        ),
        (LOADER,),
        (Unknown("compute.misaligned_dims", ("misaligned_share",), "record with record_shapes=True"),),
        (),
        DETAIL,
    )


@pytest.fixture
def many(one_finding: Report) -> Report:
    """Everything that a report can hold, at once."""
    unknown = (
        *one_finding.unknown,
        Unknown("compute.padding", ("x",), "record with record_shapes=True"),
        Unknown("host.gc_pause", ("gc_pauses",), "record with with_stack=True"),
        Unknown("dist.straggler", ("x",), "record all ranks"),
        Unknown("hw.clocks", ("x",), "add telemetry"),
    )
    ignored = tuple(Ignored(f"runs/resnet50/{name}.log", "not a format that we read") for name in "abcde")
    return replace(
        one_finding,
        run=replace(one_finding.run, ignored=ignored),
        findings=(LOADER, TENSOR_CORES, LOW, replace(LOW, rule="host.numa", candidates=("host.cpu_quota",))),
        unknown=unknown,
        warnings=("two traces for rank 0: the newest is judged",),
    )


@pytest.fixture
def ranks(one_finding: Report) -> Report:
    devices = tuple(DeviceBusy(rank, rank, 0.5 + rank / 100, 1.05) for rank in range(8))
    evidence = tuple(EvidenceFile(f"runs/ddp/rank{rank}.json.gz", "kineto", rank) for rank in range(8))
    run = replace(one_finding.run, evidence=evidence, gpus=(GpuCount("NVIDIA H100 80GB HBM3", 8),), world_size=16)
    return replace(one_finding, run=run, summary=replace(one_finding.summary, devices=devices))


@pytest.fixture
def healthy(one_finding: Report) -> Report:
    summary = replace(
        one_finding.summary,
        verdict="Healthy: the GPU was busy 98% of the time.",
        gpu_busy_share=0.981,
        gpu_idle_share=0.019,
        idle_by_cause={"kernel_gap": 0.019},
    )
    return replace(one_finding, summary=summary, findings=(), unknown=(), warnings=("2 events were cut off",))


@pytest.fixture
def not_judged() -> Report:
    return Report(
        RunInfo((EvidenceFile("cpu.json", "kineto", None),), (Ignored("notes.txt", "not a format that we read"),)),
        Summary("Cannot judge: no GPU operation was recorded, so nothing is known of the GPU. Record with CUDA."),
        judged=False,
    )


STEP, MEAN = 0.176, 0.178  # s


def worth(step: float, idle: float | None = None, spread: float = 0.06, **more: object) -> Predicted:
    """Return what a step of 176 ms becomes, give or take a part of it."""
    ends = (1 - spread, 1.0, 1 + spread)
    speedup = Estimate(*(STEP / step / end for end in reversed(ends)))
    estimates = [Estimate(*(time * end for end in ends)) for time in (step, step * MEAN / STEP)]
    return Predicted(*estimates, speedup, gpu_idle_share=idle, **more)  # type: ignore[arg-type]


def priced(finding: Finding, *predicted: Predicted | None) -> Finding:
    """Return the finding with what its fixes are worth."""
    pairs = zip(finding.fixes, predicted, strict=True)
    return replace(finding, fixes=tuple(replace(fix, predicted=found) for fix, found in pairs))


PREDICTION = Prediction(
    source="replay of steps 2-6 of rank 0",
    steps=(2, 3, 4, 5, 6),
    ranks=(0,),
    step_time_s=STEP,
    step_time_mean_s=MEAN,
    identity_error=0.002,
    queue=1024,
    critical_path={"data_wait": 0.34, "kernels": 0.51, "python": 0.15},
)
LAUNCHES = Finding(
    "host.launch_bound",
    "medium",
    0.8,
    "The host launches kernels more slowly than the GPU runs them, which costs 12% of the time.",
    0.12,
    "1,200 launches per step",
    (),
    (Fix("CUDA graphs", 'model = torch.compile(model, mode="reduce-overhead")', effort="code"),),
)
READS = Finding(
    "sync.scalar_read",
    "medium",
    0.9,
    "loss.item() in every step makes the host wait for the GPU, which costs 6% of the time.",
    0.06,
    "cudaStreamSynchronize in 6 of 6 steps",
    (Location("train.py", 41),),
    (Fix("read less often", "if step % 50 == 0: print(loss.item())", effort="argument"),),
)


@pytest.fixture
def one_predicted(one_finding: Report) -> Report:
    """One finding, one fix, and what comes after it."""
    made = Applied("input.workers_zero", "load in worker processes", worth(0.117, 0.18), 0.335, "host.launch_bound")
    prediction = replace(PREDICTION, sequence=(made,), joint=made.predicted)
    return replace(one_finding, findings=(priced(LOADER, made.predicted),), prediction=prediction)


@pytest.fixture
def predicted(many: Report) -> Report:
    """Several fixes that share time, one that is needless after them, one that nobody can predict."""
    assumed = ("host time between launches falls to 0.2 of itself",)
    steps = (worth(0.117, 0.18), worth(0.098, 0.05, 0.12, rests_on=assumed), worth(0.09, 0.021, 0.07))
    rules = (LOADER, LAUNCHES, READS)
    then = (LAUNCHES.rule, READS.rule, "")
    saved = (0.335, 0.108, 0.045)
    sequence = tuple(
        Applied(finding.rule, finding.fixes[0].title, predicted, share, following)
        for finding, predicted, share, following in zip(rules, steps, saved, then, strict=True)
    )
    gained = (
        priced(LOADER, steps[0]),
        priced(LAUNCHES, worth(0.15, 0.3, rests_on=assumed)),
        priced(READS, worth(0.17)),
    )
    prediction = replace(
        PREDICTION,
        sequence=sequence,
        joint=steps[-1],
        unpriced={"host.gc_pause": "pauses that come less often than the replayed steps"},
    )
    low = priced(
        replace(LOW, rule="transfer.pageable_h2d", fixes=(Fix("pin", "pin_memory=True", "argument"),)), worth(0.172)
    )
    return replace(many, findings=(*gained, low, LOW), prediction=prediction)


@pytest.fixture
def asked(predicted: Report) -> Report:
    """The same, and what somebody wanted to know."""
    assert predicted.prediction is not None
    answer = Asked((LOADER.rule, READS.rule, "host.numa"), worth(0.101, 0.08, 0.09))
    return replace(predicted, prediction=replace(predicted.prediction, asked=(answer,)))


@pytest.fixture
def refused(many: Report) -> Report:
    why = "replayed without a change, a step is off by 4.1% (2% are allowed)."
    return replace(many, prediction=Prediction(refused=why))


HOST = {
    "data": 0.362, "prepare": 0.02, "forward": 0.18, "backward": 0.25, "optimizer": 0.06, "save": 0.03,
    "evaluation": 0.05, "start": 0.012, "gc": 0.001, "environment": 0.0, "other": 0.035,
}  # fmt: skip
WAITS_FOR_WORKERS = Finding(
    "input.workers_too_few",
    "high",
    0.9,
    "Two DataLoader workers are too few: each step waits for data 34% of the time.",
    0.34,
    "workers compute in 95% of the time in which they make batches",
    (Location("/code/train.py", 12),),
    (Fix("more workers", "DataLoader(..., num_workers=4)", effort="argument"),),
)


@pytest.fixture
def watched_cpu() -> Report:
    """A job without a GPU that was watched, and not traced."""
    return Report(
        RunInfo((EvidenceFile("runs/1/node-box/4000-17", "whyidle run", 0),), world_size=1),
        Summary(
            "No GPU was used: 37% of each step waits for data, 3% of the time goes into writing checkpoints.",
            steps=12_345,
            steps_from="Optimizer.step",
            step_time_s=0.1,
            step_time_mean_s=0.118,
            data_wait_share=0.362,
            watched_s=1456.7,
            on_gpu=False,
            host_shares=HOST,
            lost_shares={"data_zero": 0.0, "data_workers": 0.34, "data_first": 0.034, "data_other": 0.0, "save": 0.03},
            samples_per_s=271.4,
            startup_s=14.2,
        ),
        (WAITS_FOR_WORKERS,),
        (Unknown("compute.misaligned_dims", ("misaligned_share",), "record with record_shapes=True"),),
    )


@pytest.fixture
def watched_gpu(watched_cpu: Report) -> Report:
    """The same on a GPU."""
    summary = replace(
        watched_cpu.summary,
        verdict="Each step waits for data 37% of the time, and the GPU idles in 36 of these 37 points.",
        on_gpu=True,
        tokens_per_s=98_412.0,
        utilization_mean_share=0.58,
    )
    run = replace(watched_cpu.run, gpus=(GpuCount("NVIDIA A100-SXM4-80GB", 1),))
    return replace(watched_cpu, run=run, summary=summary)


@pytest.fixture
def watched_unknown(watched_gpu: Report) -> Report:
    """The same where what the GPU does meanwhile was not measured."""
    summary = replace(watched_gpu.summary, verdict="Each step waits for data 37% of the time at most.", lost_shares={})
    return replace(watched_gpu, summary=summary, findings=())


@pytest.fixture
def watched_and_traced(one_finding: Report, watched_gpu: Report) -> Report:
    """A job of which some steps were traced, too."""
    names = "steps steps_from step_time_s step_time_mean_s watched_s on_gpu host_shares lost_shares tokens_per_s"
    told = {name: getattr(watched_gpu.summary, name) for name in names.split()}
    return replace(one_finding, summary=replace(one_finding.summary, **told))


@pytest.fixture
def watched_healthy(watched_cpu: Report) -> Report:
    shares = dict.fromkeys(HOST, 0.0) | {"data": 0.01, "forward": 0.4, "backward": 0.5, "other": 0.09}
    summary = replace(
        watched_cpu.summary,
        verdict="Healthy: no GPU was used; waits for data, checkpoints and metrics take 1% of the time.",
        host_shares=shares,
        lost_shares={"data_zero": 0.01, "data_workers": 0.0, "data_first": 0.0},
        step_time_mean_s=0.1,
    )
    return replace(watched_cpu, summary=summary, findings=(), unknown=())
