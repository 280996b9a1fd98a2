"""`compare` on recordings: pairs whose change is known, and each recording beside itself."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import whyidle
from whyidle.compare import compare, confounders
from whyidle.compare.arms import repeat_of
from whyidle.compare.same_model import models
from whyidle.errors import WhyIdleError
from whyidle.model.comparison import Confounder

RUNS = Path(__file__).parents[1] / "runs"
WATCHED = RUNS / "watched"
ALL = [
    *sorted(path for path in WATCHED.iterdir() if path.is_dir()),
    *(RUNS / name for name in ("healthy", "no_marks", "scalar_read", "straggler", "workers_2021", "curve/train.log")),
]
# Of the corpus, those with enough steps.
STEPPED = [
    "resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "resnet50_autograd_api_num_workers_0",
    "ns_resolution_trace",
    "trace_diff/control",
    "trace_diff/test",
    "negative_queue_length_values_check",
]
# Before and after one change.
PAIRS = [
    ("loader-workers-0", "loader-workers-1"),
    ("workers-one", "workers-two"),
    ("checkpoint-every-step", "checkpoint-every-50"),
    ("epochs-again", "epochs-persistent"),
    ("storage-far", "storage-near"),
    ("transform-slow", "transform-cached"),
    ("threads-eight-each", "threads-one-each"),
]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_a_run_beside_itself_has_not_changed(path: Path) -> None:
    found = compare(path, path)
    assert found.verdict == "no detectable change"
    assert found.exit_code == 0
    assert not [each for each in found.confounders if each.weight != "noted"]
    assert "BEFORE and AFTER are the same recording." in found.warnings
    assert not [each for each in found.predicted if each.made]


@pytest.mark.parametrize("name", STEPPED)
def test_a_recording_of_the_corpus_beside_itself_has_not_changed(name: str, corpus: Path) -> None:
    assert compare(corpus / "kineto" / name, corpus / "kineto" / name).verdict == "no detectable change"


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_change_that_helped_is_seen_both_ways(before: str, after: str) -> None:
    there, back = compare(WATCHED / before, WATCHED / after), compare(WATCHED / after, WATCHED / before)
    assert (there.verdict, there.exit_code) == ("improved", 0)
    assert (back.verdict, back.exit_code) == ("regressed", 1)
    assert [each for each in there.predicted if each.made]
    assert not [each for each in back.predicted if each.came_true]


def test_the_loader_pair_of_the_corpus(corpus: Path) -> None:
    one, other = (corpus / "kineto" / name for name in STEPPED[:2])
    found = compare(one, other)
    assert found.verdict == "improved"
    assert found.speedup is not None
    assert found.throughput_ratio is not None
    assert round(found.speedup.likely, 2) == 1.40
    assert round(found.throughput_ratio.likely, 2) == 1.33
    (first,) = [each for each in found.predicted if each.rule == "input.workers_zero"]
    assert (first.made, first.came_true) == (True, True)
    assert (found.before.warm_up, found.before.steps) == (1, 5)
    assert (found.changes_per, found.changes[0].what) == ("step", "removed")
    assert found.changes[0].name.startswith("enumerate(DataLoader)#_SingleProcess")


def test_recordings_without_steps_need_units(corpus: Path) -> None:
    folder = corpus / "kineto" / "batch_size_sweep"
    one, other = folder / "batch_size_16.json.gz", folder / "batch_size_128.json.gz"
    found = compare(one, other)
    assert (found.verdict, found.exit_code) == ("cannot judge", 2)
    assert "--units" in found.message
    found = compare(one, other, units=(16, 128))
    assert (found.verdict, found.per, found.exit_code) == ("improved", "unit", 0)


def test_curves_alone_have_no_common_unit() -> None:
    found = compare(RUNS / "curve" / "gpu.csv.gz", RUNS / "curve" / "gpu.csv.gz")
    assert found.verdict == "cannot judge"
    assert "GPU curves alone tell how busy a GPU is, not how fast its job" in found.message


def test_a_log_of_losses_says_which_lines_would_tell_a_speed(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {k} loss {2 - k / 100}\n" for k in range(1, 60)), "utf-8")
    found = compare(path, path)
    assert found.verdict == "cannot judge"
    assert "its lines tell neither how long steps take nor a rate" in found.message
    assert "`50.1 ms/step`" in found.message


def test_three_steps_are_not_judged(corpus: Path) -> None:
    path = corpus / "kineto" / "tracelens_mi300" / "resnet_act_checkpoint.json.gz"
    assert "BEFORE has 3 steps, of which 2 are left" in compare(path, path).message


def test_different_models_are_not_compared_unless_forced(corpus: Path) -> None:
    one, other = corpus / "kineto" / "ns_resolution_trace", corpus / "kineto" / "trace_diff" / "control"
    found = compare(one, other)
    assert (found.verdict, found.exit_code, found.predicted) == ("cannot judge", 2, ())
    assert "the models differ: BEFORE runs 53 convolutions and 3 matrix products per step" in found.message
    forced = compare(one, other, force=True)
    assert forced.verdict != "cannot judge"
    assert forced.predicted == ()
    assert forced.throughput_ratio == found.throughput_ratio


def test_one_model_is_the_same_with_another_loader_or_another_pytorch(corpus: Path) -> None:
    older = "resnet50_num_workers_0/worker0.v_2d19.pt.trace.json.gz"
    one, *others = (repeat_of(corpus / "kineto" / name) for name in (*STEPPED[:3], older))
    assert [found for other in others for found in models(one, other)] == []
    (found,) = models(one, repeat_of(corpus / "kineto" / "trace_diff" / "control"))
    assert found.weight == "blocks"


def test_repeats_are_compared_between_runs() -> None:
    found = compare(
        [WATCHED / "workers-one", WATCHED / "loader-workers-1"], [WATCHED / "workers-two", WATCHED / "loader-workers-2"]
    )
    assert found.between_runs
    assert any("the repeats of BEFORE are not alike" in warning for warning in found.warnings)


def test_a_recording_given_twice_is_no_repeat() -> None:
    found = compare([WATCHED / "workers-one"] * 2, [WATCHED / "workers-two"] * 2)
    assert sum("holds a recording twice" in warning for warning in found.warnings) == 2


def test_ranks_of_one_job_are_no_repeats() -> None:
    ranks = sorted((RUNS / "straggler").glob("*.json.gz"))[:2]
    with pytest.raises(WhyIdleError, match="ranks 0 and 1 are given as repeats of one run"):
        compare(ranks, ranks)
    assert compare([ranks], [ranks]).verdict == "no detectable change"


def test_how_a_run_ended_and_what_is_wrong_with_it_is_said(tmp_path: Path) -> None:
    run = tmp_path / "failed"
    shutil.copytree(WATCHED / "workers-one", run)
    (told,) = run.rglob("node.json")
    node = json.loads(told.read_text("utf-8"))
    node["ended"]["exit_code"] = 3
    told.write_text(json.dumps(node), "utf-8")
    assert "AFTER: The job ended with exit code 3." in compare(WATCHED / "workers-one", run).warnings


def test_price_makes_cost_per_unit() -> None:
    found = compare(WATCHED / "loader-workers-0", WATCHED / "loader-workers-1", price=3.6, gpus=2)
    for arm in (found.before, found.after):
        assert arm.samples_per_s is not None
        assert arm.usd_per_million_samples == pytest.approx(1e6 * 2 * 3.6 / 3600 / arm.samples_per_s)


def log(path: Path, step_s: float, losses: list[float]) -> Path:
    """Write what a trainer prints."""
    took = np.random.default_rng(len(path.name)).normal(step_s, 0.05 * step_s, len(losses))
    rows = ({"step": k, "step_time": float(took[k]), "loss": loss} for k, loss in enumerate(losses))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_a_schedule_is_no_change(tmp_path: Path) -> None:
    def grows(name: str, count: int) -> Path:
        noise = np.random.default_rng(count).normal(1, 0.05, count)
        rows = ({"step": k + 1, "step_time": (0.1 + 0.0001 * k) * noise[k]} for k in range(count))
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return tmp_path / name

    long, short = grows("long.jsonl", 1000), grows("short.jsonl", 300)
    found = compare(long, short)
    assert found.verdict == "no detectable change"
    assert (found.before.steps, found.after.steps) == (290, 290)
    assert found.before.step_time_mean_s == pytest.approx(0.115, rel=0.02)


def test_a_larger_batch_in_a_log_is_judged_by_the_rate_beside_the_step_time(tmp_path: Path) -> None:
    def printed(name: str, step_s: float, batch: int) -> Path:
        took = np.random.default_rng(batch).normal(step_s, 0.03 * step_s, 200)
        lines = (f"step={k} loss=2.1 step_time={t:.5f} samples_per_s={batch / t:.1f}\n" for k, t in enumerate(took, 1))
        (tmp_path / name).write_text("".join(lines), "utf-8")
        return tmp_path / name

    found = compare(printed("32.log", 0.1, 32), printed("64.log", 0.18, 64))
    assert (found.verdict, found.per) == ("improved", "sample")
    assert found.throughput_ratio is not None
    assert found.throughput_ratio.likely == pytest.approx(2 / 1.8, rel=0.01)
    assert found.after.samples_per_s == pytest.approx(64 / 0.18, rel=0.01)
    assert found.learning is not None
    assert (found.learning.required, found.learning.verdict) == ("the batch size", "cannot be paired")


def test_a_faster_job_that_learns_worse_fails(tmp_path: Path) -> None:
    losses = [float(loss) for loss in 1 + np.exp(-np.arange(300) / 100) + np.random.default_rng(0).normal(0, 0.1, 300)]
    before = log(tmp_path / "before.jsonl", 0.2, losses)
    same = compare(before, log(tmp_path / "same.jsonl", 0.1, losses))
    assert same.learning is not None
    assert (same.verdict, same.learning.verdict, same.exit_code) == ("improved", "the same", 0)
    worse = compare(
        before, log(tmp_path / "worse.jsonl", 0.1, [(1.02 if k > 50 else 1) * loss for k, loss in enumerate(losses)])
    )
    assert worse.learning is not None
    assert (worse.verdict, worse.learning.verdict, worse.exit_code) == ("improved", "worse", 1)
    assert re.match(r"Learns worse: the loss is 2\.\d\d% higher; \d\.\d\dx the steps per second \(", worse.message)
    assert (worse.concern, same.concern) == ("learns worse", None)


def test_what_is_bad_comes_before_the_speed(tmp_path: Path) -> None:
    """A model that is all NaN is not improved, however fast it is; nor one whose speed nobody knows."""
    losses = [2 - k / 300 for k in range(300)]
    before = log(tmp_path / "before.jsonl", 0.2, losses)
    gone = log(tmp_path / "gone.jsonl", 0.1, [loss if k < 2 else float("nan") for k, loss in enumerate(losses)])
    found = compare(before, gone)
    assert found.message.startswith("Learns worse: 298 of 300 losses are not numbers; 2.02x the steps per second")
    assert (found.verdict, found.concern, found.exit_code) == ("improved", "learns worse", 1)
    slower = compare(before, log(tmp_path / "as-fast.jsonl", 0.2, [float("nan")] * 300))
    assert slower.message.startswith("Learns worse: 300 of 300 losses are not numbers; no detectable change: ")
    for path in (before, gone):
        path.write_text(path.read_text("utf-8").replace("step_time", "took"), "utf-8")
    unknown = compare(before, gone)
    assert unknown.message.startswith("Learns worse: 298 of 300 losses are not numbers. Cannot judge: BEFORE")
    assert unknown.exit_code == 2


def test_a_much_higher_loss_is_told_also_where_steps_are_no_pairs(tmp_path: Path) -> None:
    sides = [
        log(tmp_path / f"{seed}.jsonl", step, list(level + np.random.default_rng(seed).normal(0, 0.1, 300)))
        for seed, step, level in ((0, 0.2, 1.0), (1, 0.1, 1.2))
    ]
    found = compare(*sides)
    assert found.learning is not None
    assert found.learning.verdict == "cannot be paired"
    assert "over steps 100 to 299 the mean loss is" in found.learning.message
    assert ". But the loss is 2" in found.message
    assert (found.verdict, found.exit_code) == ("improved", 0)


def test_a_proof_that_is_asked_for_and_missing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faster in another precision, and nothing shows that the model learns the same: no merge on that."""
    monkeypatch.setattr(sys.modules["whyidle.compare.learning"], "required_by", lambda _: "the precision")
    sides = [log(tmp_path / f"{name}.jsonl", step, [1.0] * 300) for name, step in (("before", 0.2), ("after", 0.1))]
    for side in sides:
        side.write_text(side.read_text("utf-8").replace(', "loss": 1.0', ""), "utf-8")
    found = compare(*sides)
    assert found.learning is not None
    assert (found.verdict, found.learning.verdict, found.exit_code) == ("improved", "no losses", 1)
    assert ". But it is not shown that the model learns the same, as a change of the precision asks for. " in (
        found.message
    )


def smi(path: Path, clock: int) -> Path:
    """Write what nvidia-smi --query-gpu prints of a busy GPU."""
    head = "timestamp, index, name, utilization.gpu [%], clocks.current.sm [MHz]\n"
    rows = (f"2026/01/05 10:00:{k:02}.000, 0, NVIDIA A100, {90 + k % 3} %, {clock + k % 2} MHz\n" for k in range(60))
    path.write_text(head + "".join(rows), "utf-8")
    return path


def test_clocks_that_changed_refuse_the_verdict(tmp_path: Path) -> None:
    one = [log(tmp_path / "before.jsonl", 0.2, [1.0] * 60), smi(tmp_path / "before.csv", 1410)]
    other = [log(tmp_path / "after.jsonl", 0.1, [1.0] * 60), smi(tmp_path / "after.csv", 1005)]
    found = compare([one], [other])
    assert (found.verdict, found.exit_code) == ("cannot judge", 2)
    assert "the SM clock was 1,410 and 1,006 MHz while the GPU was busy, 40% apart" in found.message
    assert "--force compares them all the same" in found.message
    assert compare([one], [other], force=True).verdict == "improved"


def test_other_programs_that_took_the_cpus_are_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Confounder("main_run_delay_share", "38%", "26%", "doubts", "other programs used 1.6 and 1.4 CPUs.")
    monkeypatch.setattr(confounders, "between", lambda *_: (crowd,))
    one, other = WATCHED / "loader-workers-0", WATCHED / "loader-workers-1"
    found = compare(one, other)
    assert found.verdict == "improved"
    assert re.match(r"Improved: 1\.62x [^:]* 95%\), but other programs used the CPUs: repeat\. By 139", found.message)
    assert ", but other" not in compare([one, one], [other, other]).message


def test_repeats_that_are_none_are_told() -> None:
    zero, one, two = (WATCHED / f"loader-workers-{count}" for count in range(3))
    found = compare([zero, zero], [one, two])
    (told,) = [warning for warning in found.warnings if "are not alike" in warning]
    assert told.startswith("the repeats of AFTER are not alike: ")
    assert "num_workers: 1 → 2" in told


def test_repeats_of_another_model_refuse_the_verdict(tmp_path: Path) -> None:
    sides = [
        [log(tmp_path / f"{clock}.jsonl", 0.2, [1.0] * 60), smi(tmp_path / f"{clock}.csv", clock)]
        for clock in (1410, 1005)
    ]
    found = compare([sides[0], sides[1]], [sides[0]])
    assert found.verdict == "cannot judge"
    assert "the repeats of BEFORE are not of one job: the SM clock" in found.message
    assert found.predicted == ()


def test_a_folder_of_several_runs_says_how_to_name_one() -> None:
    with pytest.raises(WhyIdleError, match="runs lie there") as caught:
        compare(WATCHED, WATCHED)
    assert "name one of them for each side" in caught.value.hint


def test_evidence_of_one_run_in_several_files() -> None:
    found = compare([[RUNS / "curve" / "train.log", RUNS / "curve" / "gpu.csv.gz"]], [RUNS / "curve" / "train.log"])
    assert found.verdict == "no detectable change"


@pytest.mark.parametrize(
    "options", [{"price": -1.0}, {"gpus": 0}, {"units": 0.0}, {"units": (1.0, float("nan"))}, {"price": float("inf")}]
)
def test_numbers_that_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(WhyIdleError):
        compare(WATCHED / "workers-one", WATCHED / "workers-two", **options)  # type: ignore[arg-type]


def test_a_side_without_a_run() -> None:
    with pytest.raises(WhyIdleError, match="a side has no run"):
        compare([], WATCHED / "workers-two")


def test_it_is_public_whether_its_package_was_imported_or_not() -> None:
    found = whyidle.compare(WATCHED / "workers-one", WATCHED / "workers-one")
    assert json.loads(json.dumps(found.verdict)) == "no detectable change"
