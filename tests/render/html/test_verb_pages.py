"""Pages of compare, sweep, loader and scaling: read the snapshots as what a person without scripts reads."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.render.html.verb_page_text import read
from tests.render.test_comparison import FOUND
from tests.render.test_loader_screen import TRIALS, tried
from tests.render.test_markdown import tokens
from tests.render.test_scaling_screen import traced
from tests.render.test_sweep_screen import SWEEP, TWO, cell, without
from whyidle.compare.scaling import scaling_of
from whyidle.model.comparison import Arm, Comparison, Confounder, Interval, Learning
from whyidle.model.finding import Finding, Location, RunInfo, Summary
from whyidle.model.loader_trial import SeenLoader
from whyidle.model.picture import Picture, Timeline
from whyidle.model.scaling import Scaling
from whyidle.model.trial import Sweep
from whyidle.render import comparison, loader, scaling, sweep
from whyidle.render.base import Look
from whyidle.render.html.whiskers import to_ends, whisker
from whyidle.render.pasted import ROOM

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m\" style='x' {{ 7 * 7 }}"
BEFORE = Arm(
    ("runs/before",),
    RunInfo(),
    Summary(
        "", gpu_idle_share=0.44, idle_by_cause={"data_wait": 0.34, "dispatch": 0.1}, step_time_mean_s=0.176,
        step_time_s=0.17,
    ),
    90, 10, "ProfilerStep", 0.17, 0.176, 180.0, None, 3.97,
    findings=(
        Finding("input.workers_zero", "high", 0.9, "The DataLoader loads in the training process.", 0.34),
        Finding("host.launch_bound", "medium", 0.9, "The CPU launches too slowly.", 0.08),
    ),
)  # fmt: skip
AFTER = Arm(
    ("runs/after",),
    RunInfo(),
    Summary("", gpu_idle_share=0.1, idle_by_cause={"dispatch": 0.1}, step_time_mean_s=0.117, step_time_s=0.115),
    90, 10, "ProfilerStep", 0.115, 0.117, 271.0, None, 2.64,
    findings=(
        Finding("host.launch_bound", "medium", 0.9, "The CPU launches too slowly.", 0.1),
        Finding("host.gc_pause", "low", 0.9, "Python's garbage collector stops it.", 0.02),
    ),
)  # fmt: skip
IMPROVED = replace(
    FOUND,
    before=BEFORE,
    after=AFTER,
    learning=Learning(
        "the same", "The loss is the same to within 0.02.", steps=80, loss_before=2.31, loss_after=2.312,
        difference=Interval(-0.01, 0.002, 0.012), margin=0.02, required="batch_size",
    ),
    confounders=tuple(replace(one, message=f"{one.name} differs.") for one in FOUND.confounders),
    changes=FOUND.changes[:2],
    smallest_detectable=0.02,
    warnings=("BEFORE is odd.",),
)  # fmt: skip
COMPARISONS = {
    "improved": IMPROVED,
    "regressed": Comparison(
        "regressed", "Regressed: 0.75x the steps per second (0.70x–0.80x, 95%).", AFTER, BEFORE,
        Interval(0.7, 0.75, 0.8), Interval(0.7, 0.75, 0.8), smallest_detectable=0.02, between_runs=True,
    ),
    "no detectable change": Comparison(
        "no detectable change", "No detectable change: 1.00x (0.98x–1.02x, 95%).", BEFORE, BEFORE,
        Interval(0.98, 1.0, 1.02), Interval(0.98, 1.0, 1.02), smallest_detectable=0.03,
    ),
    "cannot judge": Comparison(
        "cannot judge", "Cannot judge: the GPUs differ. --force compares them all the same.",
        replace(BEFORE, step_time_s=None, step_time_mean_s=None, summary=Summary("")),
        replace(AFTER, step_time_s=None, step_time_mean_s=None, summary=Summary("")),
    ),
    "learns worse": replace(
        IMPROVED, message="Learns worse: the loss is 0.2 higher; 1.33x the steps per second.",
        learning=Learning("worse", "The loss is 0.2 higher.", "the loss is 0.2 higher"),
    ),
}  # fmt: skip
SWEEPS = {
    "one": SWEEP,
    "two": TWO,
    "none": Sweep(
        ("python", "train.py"), "grid", (without({"lr": "1"}, "failed", "exit code 1: ValueError: no"),),
        why="No cell gave a number.", folder="out",
    ),
    "empty": Sweep(("python", "train.py"), "grid", ()),
    "unknown width": replace(
        SWEEP,
        cells=(replace(cell({"num_workers": "0"}, 0.1), throughput=Interval(0.0, 320.0, math.inf)), *SWEEP.cells[1:]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str, snapshot: SnapshotAssertion) -> None:
    assert read(comparison.comparison_html(COMPARISONS[name], Look())) == snapshot


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps(name: str, snapshot: SnapshotAssertion) -> None:
    assert read(sweep.sweep_html(SWEEPS[name], Look())) == snapshot


@pytest.mark.parametrize("name", TRIALS)
def test_loaders(name: str, snapshot: SnapshotAssertion) -> None:
    assert read(loader.loader_html(tried(TRIALS[name]), Look())) == snapshot


def test_scaling(snapshot: SnapshotAssertion) -> None:
    assert read(scaling.scaling_html(traced(), Look())) == snapshot
    assert read(scaling.scaling_html(scaling_of({1: 1000, 4: 2400}), Look())) == snapshot


@pytest.mark.parametrize("name", ["sweep", "loader", "scaling"])
def test_markdown(name: str, snapshot: SnapshotAssertion) -> None:
    assert pasted(name, Look()) == snapshot
    assert pasted(name, Look(unicode=False)).isascii()


def pasted(name: str, look: Look) -> str:
    if name == "sweep":
        return sweep.FORMATS["markdown"](SWEEP, look)
    if name == "loader":
        return loader.FORMATS["markdown"](tried(TRIALS["fails"]), look)
    return scaling.FORMATS["markdown"](traced(), look)


def pages(look: Look) -> dict[str, str]:
    """Return pages on which everything that comes from a job is hostile."""
    finding = Finding(HOSTILE, "high", 0.9, HOSTILE, 0.3)
    arm = replace(BEFORE, paths=(HOSTILE,), findings=(finding,))
    compared = replace(
        IMPROVED,
        message=f"Improved: {HOSTILE}.",
        before=arm,
        after=replace(arm, findings=()),
        confounders=tuple(replace(one, name=HOSTILE, before=HOSTILE, message=HOSTILE) for one in FOUND.confounders),
        predicted=tuple(replace(one, rule=HOSTILE, why=HOSTILE) for one in FOUND.predicted),
        changes=tuple(replace(one, name=HOSTILE, now=HOSTILE) for one in FOUND.changes),
        not_recorded=(HOSTILE,),
        warnings=(HOSTILE,),
        learning=Learning("worse", HOSTILE, HOSTILE),
    )
    params = {HOSTILE: HOSTILE, "b": HOSTILE}
    swept = replace(
        SWEEP, command=(HOSTILE,), cells=(cell(params, 0.1), without(params, "failed", HOSTILE)), recommended=params,
        why=HOSTILE, take=HOSTILE, proof=HOSTILE, stopped=HOSTILE, folder=HOSTILE, applied={HOSTILE: HOSTILE},
        warnings=(HOSTILE,),
    )  # fmt: skip
    there = SeenLoader(0, where=HOSTILE, kind=HOSTILE, dataset=HOSTILE, num_workers=0)
    loaded = replace(tried(replace(TRIALS["fails"], loaders=(there,))), folder=HOSTILE, command=(HOSTILE,))
    scaled = replace(traced(), verdict=HOSTILE, why_kind=HOSTILE, warnings=(HOSTILE,), price_source=HOSTILE)
    return {
        "compare": comparison.comparison_html(compared, look),
        "sweep": sweep.sweep_html(swept, look),
        "loader": loader.loader_html(loaded, look),
        "scaling": scaling.scaling_html(scaled, look),
    }


def test_a_finding_leads_only_to_the_recording_in_which_it_was_seen() -> None:
    drawn = Picture((Timeline("rank 0", "runs/trace.json", None, 0, 10**9, (), ()),))
    seen = Location("runs/trace.json", rank=None, start_s=0.1, end_s=0.2)
    for place, jumps in ((seen, 1), (replace(seen, file="runs/gpu.csv"), 0)):
        finding = Finding("curve.sawtooth", "high", 0.9, "It dips.", 0.3, locations=(place,))
        arms = [replace(arm, findings=(finding,), picture=drawn) for arm in (BEFORE, AFTER)]
        html = comparison.comparison_html(replace(IMPROVED, before=arms[0], after=arms[1]), Look())
        assert html.partition("<script")[0].count("data-start") == jumps


def test_of_two_findings_of_one_rule_the_first_is_told() -> None:
    twice = tuple(
        Finding("sync.scalar_read", "high", 0.9, f"It reads at line {n}.", lost) for n, lost in ((1, 0.4), (2, 0.03))
    )
    text = read(comparison.comparison_html(replace(IMPROVED, before=replace(BEFORE, findings=twice)), Look()))
    assert "| 40% | –" in text
    assert "line 2" not in text


def test_shares_are_of_the_time_on_each_step_with_its_pauses() -> None:
    pauses = replace(IMPROVED, before=replace(BEFORE, summary=replace(BEFORE.summary, window_s=10.0, steps=5)))
    text = read(comparison.comparison_html(pauses, Look()))
    assert "2 s a step, with the first one and all pauses" in text
    assert "117 ms a step" in text
    assert re.search(r"34%\s+59.8 ms", comparison.comparison_text(IMPROVED, Look()))
    assert re.search(r"34%\s+680 ms", comparison.comparison_text(pauses, Look()))
    traced = replace(BEFORE, summary=replace(BEFORE.summary, watched_s=100.0))
    text = read(comparison.comparison_html(replace(IMPROVED, before=traced), Look()))
    assert "Each bar is all of the time that was recorded." in text, "a few steps of a job that was watched"


@pytest.mark.parametrize("name", ["compare", "sweep", "loader", "scaling"])
def test_what_a_job_says_is_text(name: str) -> None:
    page = pages(Look())[name]
    words = read(page)
    assert "</script><img src=x onerror=alert(1)>" in words
    assert "{{ 7 * 7 }}" in words
    assert not {"\x1b", "\u202e"} & set(page.partition("<script")[0])
    assert page.count("</script>") == 3


@pytest.mark.parametrize("name", ["compare", "sweep", "loader", "scaling"])
def test_pages_can_be_ascii(name: str) -> None:
    page = pages(Look(unicode=False))[name]
    assert page.isascii()
    assert read(page) == read(pages(Look())[name])


@pytest.mark.parametrize("name", ["compare", "sweep", "loader", "scaling"])
def test_the_page_holds_the_json(name: str) -> None:
    made: dict[str, tuple[Any, Any]] = {
        "compare": (comparison.FORMATS, IMPROVED),
        "sweep": (sweep.FORMATS, SWEEP),
        "loader": (loader.FORMATS, tried(TRIALS["helps"])),
        "scaling": (scaling.FORMATS, traced()),
    }
    formats, found = made[name]
    page = formats["html"](found, Look())
    held = re.search(r'id="whyidle-report">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1]) == json.loads(formats["json"](found, Look()))


def test_what_one_side_cannot_tell_is_neither_gone_nor_new() -> None:
    """As where AFTER has no trace: a finding that nobody looked for is not made good."""
    found = replace(
        IMPROVED,
        before=replace(BEFORE, not_asked=("host.gc_pause",)),
        after=replace(AFTER, not_asked=("input.workers_zero",)),
    )
    page = read(comparison.comparison_html(found, Look()))
    assert "input.workers_zero not judged after | 34% | not known |" in page
    assert "host.gc_pause not judged before | not known | 2% |" in page
    assert "gone" not in page


def test_of_findings_of_one_rule_the_first_is_told() -> None:
    twice = replace(BEFORE, findings=(*BEFORE.findings, replace(BEFORE.findings[0], lost_share=0.02)))
    page = read(comparison.comparison_html(replace(IMPROVED, before=twice), Look()))
    assert "input.workers_zero gone | 34% | – |" in page


def test_what_force_overrules_is_said_first() -> None:
    block = Confounder("gpu", "A100", "H100", "blocks", "they ran on different GPUs (A100; H100).")
    page = read(comparison.comparison_html(replace(IMPROVED, confounders=(block,)), Look()))
    assert "But they ran on different GPUs (A100; H100)." in page.partition("\n## ")[0]
    assert "gpu overruled by --force" in page


def test_what_is_not_judged_is_not_drawn() -> None:
    refused = replace(IMPROVED, verdict="cannot judge", message="Cannot judge: the GPUs differ.")
    assert "The point is what was measured" not in read(comparison.comparison_html(refused, Look()))


LINKS = "| @octocat #1 GH-2 http://evil.example www.evil.example a@b.example ![x](http://e/p.png) `c` **b** :tada:"
EVIL = f"{HOSTILE} {LINKS}"


def hostile_markdown(look: Look, text: str) -> dict[str, str]:
    """Return Markdown in which everything that comes from a job is this text."""
    compared = replace(
        IMPROVED,
        message=text,
        confounders=tuple(replace(one, message=text, weight="doubts") for one in FOUND.confounders),
        predicted=tuple(replace(one, rule=text, why=text) for one in FOUND.predicted),
        not_recorded=(text,),
        warnings=(text,) * 200,
        learning=Learning("worse", text, text),
    )
    params = {text: text, "b": text}
    swept = replace(
        SWEEP, cells=(cell(params, 0.1), *[without(params, "failed", text)] * 2000), recommended=params, why=text,
        take=text, proof=text, stopped=text, folder=text, applied={text: text}, warnings=(text,) * 50,
    )  # fmt: skip
    there = SeenLoader(0, where=text, kind=text, dataset=text, num_workers=0)
    loaded = replace(tried(replace(TRIALS["fails"], loaders=(there,))), folder=text, command=(text,))
    scaled = replace(traced(), verdict=text, why_kind=text, warnings=(text,) * 50, price_source=text)
    return {
        "compare": comparison.comparison_markdown(compared, look),
        "sweep": sweep.sweep_markdown(swept, look),
        "loader": loader.loader_markdown(loaded, look),
        "scaling": scaling.scaling_markdown(scaled, look),
    }


@pytest.mark.parametrize("name", ["compare", "sweep", "loader", "scaling"])
def test_nothing_of_a_job_acts_where_it_is_pasted(name: str) -> None:
    text = hostile_markdown(Look(), EVIL)[name]
    assert len(text) <= ROOM
    found = tokens(text)
    assert not {"link_open", "image", "html_inline", "html_block", "heading_open"} & {token.type for token in found}
    seen = "".join(token.content for token in found if token.type == "text")
    for mark in ("@octocat", "#1", "GH-2", "http://", "www.evil", "a@b", ":tada:"):
        assert mark not in seen
    assert sum(token.type == "table_open" for token in found) >= 1
    assert len(hostile_markdown(Look(), "n" * 10_000)[name]) <= ROOM


def test_what_no_cell_has_settled_is_said_beside_the_answer_and_not_green() -> None:
    loose = tuple(
        replace(one, settled=False, steps=15, throughput=Interval(100 * (1 - share), 100.0, 100 * (1 + share)))
        for one, share in zip(TWO.cells, (0.3, 0.63, 0.4, 0.63), strict=True)
    )
    page = sweep.sweep_html(replace(TWO, cells=loose), Look())
    top = read(page).partition("\n## ")[0]
    assert "But no cell's step time was settled: the rate of this one is known to ±63%, by 15 steps." in top
    assert '<h1 class="tone-unknown' in page
    assert '<h1 class="tone-good' in sweep.sweep_html(TWO, Look())


def test_of_cells_without_any_number_there_is_no_grid() -> None:
    late = tuple(without(one.params, "timed out", "no step in --cell-time 15 s") for one in TWO.cells)
    why = "Nothing to recommend: no cell gave a throughput. Each cell ended with no step in --cell-time 15 s."
    text = read(sweep.sweep_html(replace(TWO, cells=late, recommended=None, why=why), Look()))
    assert text.startswith("# Nothing to recommend: no cell gave a throughput.\nEach cell ended with no step")
    assert "Both settings" not in text
    assert "whisker" not in text


def test_a_command_is_copied_as_a_shell_takes_it() -> None:
    page = sweep.sweep_html(replace(SWEEP, command=("python", "train.py", "--name", "a b")), Look())
    assert '<pre class="change"><code>python train.py --name &#39;a b&#39;</code></pre>' in page
    assert page.count('<pre class="change"') == 3


def test_whiskers_end_within_the_drawing_unless_they_reach_far() -> None:
    near, far = Interval(93.0, 100.0, 107.0), Interval(0.0, 50.0, 1000.0)
    scale = to_ends([near, Interval(45.0, 50.0, 55.0)])
    assert whisker(near, scale).high < 99
    assert not whisker(near, scale).cut
    scale = to_ends([near, far])
    assert whisker(near, scale).likely == pytest.approx(100 / 1.53, abs=0.1)
    assert whisker(far, scale).cut
    assert to_ends([Interval(0.0, 5.0, math.inf)]).high == pytest.approx(5.1)


def test_a_loader_tried_beside_other_programs_is_in_doubt() -> None:
    found = tried(TRIALS["helps"])
    assert '<h1 class="tone-good' in loader.loader_html(found, Look())
    doubt = "But other programs used the CPUs meanwhile: try again when they are free."
    crowded = replace(found, advice=replace(found.advice, message=f"{found.advice.message} {doubt}"))
    page = loader.loader_html(crowded, Look())
    assert '<h1 class="tone-plain' in page
    assert f"<li>{doubt}</li>" in page


def test_a_loader_without_workers_adds_to_the_step_however_fast_it_is() -> None:
    """Above the line it waits all the same; with workers no row says so."""
    text = read(loader.loader_html(tried(TRIALS["helps"]), Look()))
    assert "0 workers now within the step, to which this adds" in text
    assert text.count("to which this adds") == 1
    assert "As it is now, a step was measured to take 125 ms." in text


def test_reasons_for_no_verdict_are_no_headline() -> None:
    why = (
        "they ran on different GPUs (A100; H100); the model differs; the batch size differs (32; 64), and nothing more"
    )
    said = f"Cannot judge: {why}. --force compares them all the same."
    page = comparison.comparison_html(replace(COMPARISONS["cannot judge"], message=said), Look())
    assert '<h1 class="tone-unknown">Cannot judge.</h1>' in page
    assert read(page).startswith(f"# Cannot judge.\nT{why[1:]}. --force compares them all the same.")


def test_phases_of_watched_jobs_have_shades_of_their_own() -> None:
    shares = {"forward": 0.3, "backward": 0.4, "optimizer": 0.1, "data": 0.2}
    arm = replace(BEFORE, summary=replace(AFTER.summary, gpu_idle_share=None, idle_by_cause={}, host_shares=shares))
    page = comparison.comparison_html(replace(IMPROVED, before=arm, after=arm), Look())
    for kind in ("c-busy w-forward", "c-busy w-backward", "c-busy w-optimizer", "c-waiting-for-data"):
        assert page.count(f'class="piece {kind}"') == 2
        assert page.count(f'class="chip {kind}"') == 1


def test_scaling_says_what_to_do() -> None:
    def top(found: Scaling) -> str:
        return scaling.scaling_html(found, Look()).partition("<nav")[2].partition('id="sizes"')[0]

    found = traced()
    recorded = replace(found, sizes=tuple(replace(one, paths=(f"runs/{one.gpus} GPUs",)) for one in found.sizes))
    assert "Cut communication" in top(recorded)
    assert "It takes 21% of the GPUs&#39; time on 8." in top(recorded)
    assert "<code>whyidle diagnose &#39;runs/8 GPUs&#39;</code>" in top(recorded)
    assert "<code>whyidle compare &#39;runs/1 GPUs&#39; &#39;runs/8 GPUs&#39;</code>" in top(recorded)
    assert "Find out what is lost to what: record each size with <code>whyidle run" in top(
        scaling_of({1: 1000, 4: 2400})
    )
    assert "Nothing: more GPUs are used as well as fewer are." in top(scaling_of({1: 1000, 4: 3990}))


def test_commands_within_sentences_are_code() -> None:
    ranks = Confounder(
        "ranks", "1", "8", "doubts", "they had 1 and 8 ranks (`whyidle scaling` compares numbers of GPUs)."
    )
    learning = replace(IMPROVED.learning or Learning("no losses", ""), message="`whyidle run --losses` records them.")
    made = (
        comparison.comparison_html(
            replace(IMPROVED, confounders=(ranks,), learning=learning, warnings=("`a`",)), Look()
        ),
        scaling.scaling_html(traced(), Look()),
        sweep.sweep_html(replace(SWEEP, warnings=("see `whyidle compare`",)), Look()),
    )
    for page in made:
        shown = page.partition("<main")[2].partition("<script")[0]
        assert "<code>" in shown
        assert "`" not in shown
