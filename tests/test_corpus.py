"""Verdicts on real recordings made by others: what is known of each has to come out."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.conftest import CORPUS
from whyidle.errors import WhyIdleError
from whyidle.judge import judge
from whyidle.model.finding import Report
from whyidle.read import load

FACTS = json.loads((CORPUS / "FACTS.json").read_text()) if (CORPUS / "FACTS.json").exists() else {}
RESNET = "kineto/resnet50_num_workers_{}/worker0.{}.pt.trace.json.gz"
H100, MI300 = "kineto/tracelens_h100/", "kineto/tracelens_mi300/"
OWLV2 = "google_owlv2-large-patch14-ensemble__1016001.json.gz"
pytestmark = pytest.mark.skipif(not FACTS, reason="no recordings here: set WHYIDLE_CORPUS to the corpus folder")


@cache
def report(name: str) -> Report:
    return judge(load([CORPUS / name]))


def rules(name: str, *, severities=("high", "medium", "low")) -> list[str]:
    return [finding.rule for finding in report(name).findings if finding.severity in severities]


UNREAD = "kineto/tracelens_rocprof/908_results.json.gz"


@pytest.mark.parametrize("name", sorted(FACTS.keys() - {UNREAD}))
def test_every_recording_gets_a_verdict(name):
    judged = report(name)
    assert judged.summary.verdict
    assert judged.exit_code in (0, 1, 2)
    if not FACTS[name]["devices"]:
        assert judged.exit_code == 2
        assert judged.summary.gpu_idle_share is None


def test_a_format_that_is_not_read_yet_is_named():
    with pytest.raises(WhyIdleError, match="rocprof") as refused:
        report(UNREAD)
    assert refused.value.hint


@pytest.mark.parametrize("name", sorted(name for name, facts in FACTS.items() if facts["devices"]))
def test_busy_shares_and_step_times_equal_the_facts(name):
    facts, judged = FACTS[name], report(name)
    if "capture" in name:
        assert judged.summary.gpu_idle_share is None
        return
    busy = {str(device.device): device.busy_share for device in judged.summary.devices}
    known = {
        device: values.get("busy_share_of_step_window", values["busy_share_of_gpu_span"])
        for device, values in facts["devices"].items()
    }
    assert busy == pytest.approx(known, abs=0.005)
    step = facts.get("step_us_median_first_dropped") or facts.get("step_us_median")
    if step:
        assert judged.summary.step_time_s == pytest.approx(step / 1e6, rel=0.005)
    for values in facts["devices"].values():
        loader = values.get("dataloader_share_of_step_window")
        if loader is not None:
            assert judged.summary.data_wait_share == pytest.approx(loader, abs=0.005)


@pytest.mark.parametrize("stamp", ["1623143089861", "v_2d19"])
def test_resnet_without_workers_is_told_to_use_them(stamp):
    first = report(RESNET.format(0, stamp)).findings[0]
    assert first.rule == "input.workers_zero"
    assert first.severity == "high"
    assert first.fixes[0].effort == "argument"


@pytest.mark.parametrize("stamp", ["1623212756351", "v_7bd2"])
def test_resnet_with_workers_is_bound_by_the_host(stamp):
    name = RESNET.format(4, stamp)
    assert not [rule for rule in rules(name, severities=("high", "medium")) if rule.startswith("input.")]
    # 161 of its launches per step are fills in zero_grad
    assert rules(name)[0] in {"host.launch_bound", "compute.zero_grad_fill"}
    assert "compute.zero_grad_fill" in rules(name)
    # 483 others update 161 parameters one by one, which costs 1 to 3%
    assert "host.optimizer_loop" not in rules(name, severities=("high", "medium"))
    assert "host.launch_bound" in rules(name, severities=("high", "medium"))


@pytest.mark.parametrize(("folder", "share"), [(H100, 0.51), (MI300, 0.64)])
def test_owlv2_waits_for_its_loader(folder, share):
    judged = report(folder + OWLV2)
    assert judged.findings[0].rule == "input.workers_zero"
    assert judged.summary.data_wait_share == pytest.approx(share, abs=0.005)


def test_a_busy_gpu_gets_no_idle_finding():
    grave = rules(
        "kineto/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", severities=("high", "medium")
    )
    assert not [rule for rule in grave if rule.split(".")[0] in {"input", "sync", "transfer", "host", "pause"}]


def test_a_small_model_is_launch_bound():
    assert rules(H100 + "gaunernst_bert-small-uncased__1016001.json.gz")[0].startswith("host.")
    judged = report("kineto/nccl_parser_config/nccl_data.json.gz")
    assert judged.findings[0].rule.startswith("host.")
    assert judged.summary.gpu_idle_share == pytest.approx(0.764, abs=0.005)


def test_a_gpu_busy_for_part_of_its_step_only_is_told_as_such():
    verdict = report(H100 + "facebook_timesformer-base-finetuned-k400__1016002.json.gz").summary.verdict
    assert "idle 59%" in verdict
    assert "busy 99% of the time from its first to its last operation" in verdict


@pytest.mark.parametrize("name", [name for name in FACTS if "capture_traces" in name])
def test_a_graph_capture_is_not_an_idle_gpu(name):
    judged = report(name)
    assert judged.exit_code == 2
    assert judged.summary.gpu_idle_share is None
    assert any("capture of a CUDA/HIP graph" in warning for warning in judged.warnings)


def test_no_memory_pool_is_seen_as_allocator_thrash():
    assert rules(MI300 + "ddp_resnet18_no_pool/train_resnet18.json.gz")[0] == "memory.allocator_thrash"


def test_a_folder_is_one_run_of_eight_ranks():
    judged = report("kineto/dlrm_8_ranks")
    assert [device.rank for device in judged.summary.devices] == list(range(8))
    assert judged.run.world_size == 8
    weights = [device.window_s for device in judged.summary.devices]
    mean = sum(d.busy_share * d.window_s for d in judged.summary.devices) / sum(weights)
    assert judged.summary.gpu_busy_share == pytest.approx(mean)
