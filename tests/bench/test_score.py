"""The arithmetic of the accuracy scoreboard, on truths and reports that are written here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import whyidle
from scoring import Outcome, judge_failure, judge_one, score, truth_of
from scoring.alarms import score_alarms
from scoring.alike import ALIKE, answers, right
from scoring.attribution import errors_of, score_attribution
from scoring.board import worlds
from scoring.calibration import calibrate
from scoring.causes import false_claims, missed, score_all_causes, score_causes
from scoring.loss import score_loss
from scoring.order import score_order
from scoring.peer_answers import WORDS
from scoring.rates import Rate, Spread, f1, wilson
from scoring.records import Fault, PeerSaid, Said
from scoring.show import WIDTH, boards, table
from tests.bench.outcomes import job, outcome, report
from tests.conftest import CORPUS


def one(scores, cause):
    return next(row for row in scores if row.cause == cause)


WRITTEN = {
    "job": {"family": "gpt", "gpu": "A100", "ranks": 2, "seed": 3, "steps": 6},
    "faults": [{"id": "sync.scalar_read", "asked": 0.2, "severity": 0.19, "step_time_without_s": 0.1}],
    "control": None,
    "misspecified": None,
    "devices": [
        {"rank": 0, "device": 0, "window_s": 3.0, "busy_share": 0.8, "idle_by_cause": {"python": 0.2}},
        {"rank": 1, "device": 0, "window_s": 1.0, "busy_share": 0.4, "idle_by_cause": {"python": 0.4, "gc": 0.2}},
    ],
}


class TestRates:
    def test_wilson_is_the_textbook_interval(self):
        assert wilson(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
        assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
        assert wilson(10, 10)[1] == pytest.approx(1.0)

    def test_nothing_of_nothing_is_unknown(self):
        assert Rate.of(0, 0).ratio is None

    def test_f1_is_the_harmonic_mean(self):
        assert f1(Rate.of(1, 2), Rate.of(4, 4)) == pytest.approx(2 / 3)

    def test_f1_of_nothing_found_is_zero_and_of_nothing_asked_unknown(self):
        assert f1(Rate.of(0, 0), Rate.of(0, 3)) == 0.0
        assert f1(Rate.of(0, 4), Rate.of(0, 0)) is None
        assert f1(Rate.of(0, 0), Rate.of(1, 3)) is None  # found, but at low severity only

    def test_spread_keeps_the_sign_in_its_bias(self):
        spread = Spread.of([-3.0, 1.0])
        assert (spread.n, spread.mean, spread.max, spread.bias) == (2, 2.0, 3.0, -1.0)
        assert Spread.of([]) == Spread(0)


class TestTruth:
    def test_devices_are_weighted_by_their_windows(self):
        truth = truth_of(WRITTEN)
        assert truth.idle_by_cause == pytest.approx({"python": 0.25, "gc": 0.05})
        assert truth.busy_share == pytest.approx(0.7)

    def test_its_name_tells_jobs_apart(self):
        assert truth_of(WRITTEN).name == "gpt sync.scalar_read=0.2 ranks 2 seed 3"
        broken = truth_of({**WRITTEN, "faults": [], "control": "pinned", "misspecified": "two_threads"})
        assert broken.name == "gpt pinned (two_threads) ranks 2 seed 3"
        assert broken.harmless
        assert not broken.healthy

    def test_a_fault_counts_from_five_whole_points(self):
        assert not job([("a.b", 0.0449)]).counted
        assert job([("a.b", 0.0496)]).counted


class TestJudging:
    def test_a_report_becomes_what_is_scored(self):
        judged = judge_one(WRITTEN, report(("sync.scalar_read", "high", 0.8, 0.2), idle_by_cause={"python": 0.5}))
        assert judged.findings == (Said("sync.scalar_read", "high", 0.8, 0.2),)
        assert judged.idle_by_cause == {"python": 0.5}
        assert judged.failure is None

    def test_that_nothing_is_wrong_is_no_cause(self):
        assert judge_one(WRITTEN, report(("none.compute_bound", "low", 0.95, 0.0))).findings == ()

    def test_exit_code_2_is_a_miss_whatever_it_lists(self):
        judged = judge_one(WRITTEN, report(("sync.scalar_read", "low", 0.8, 0.04), judged=False))
        assert judged.failure == "not judged"
        assert judged.findings
        assert score_all_causes([judged]).strict.recall == Rate.of(0, 1)
        assert score([judged]).failed[0].job == judged.truth.name

    def test_a_crash_is_a_miss_and_listed(self):
        board = score([judge_failure(WRITTEN, "crash", "ValueError: no")])
        assert board.all_causes.accepted.recall == Rate.of(0, 1)
        assert board.attribution.without == 1
        assert (board.failed[0].failure, board.failed[0].why) == ("crash", "ValueError: no")


class TestCauses:
    def test_precision_and_recall_of_one_cause(self):
        jobs = [
            outcome([("sync.scalar_read", 0.1)], ["sync.scalar_read"]),
            outcome([("sync.scalar_read", 0.1)]),
            outcome([], ["sync.scalar_read"]),
            outcome([("dist.straggler", 0.1)], ["sync.scalar_read"], ["dist.straggler"]),
        ]
        scored = one(score_causes(jobs), "sync.scalar_read").strict
        assert scored.recall == Rate.of(1, 2)
        assert scored.precision == Rate.of(1, 3)
        assert scored.f1 == pytest.approx(0.4)

    def test_a_suggestion_is_no_claim(self):
        hedged = outcome([("sync.scalar_read", 0.1)], ["sync.scalar_read", "high", 0.49])
        assert score_all_causes([hedged]).accepted.recall == Rate.of(0, 1)
        assert score_all_causes([hedged]).accepted.precision.n == 0

    def test_a_low_claim_counts_like_any_other(self):
        low = outcome([("sync.scalar_read", 0.05)], ["sync.scalar_read", "low"], ["host.gc_pause", "low"])
        scored = score_all_causes([low]).strict
        assert scored.recall == Rate.of(1, 1)
        assert scored.precision == Rate.of(1, 2)

    def test_a_small_fault_need_not_be_found_but_may_be_claimed(self):
        small = outcome([("sync.scalar_read", 0.02)], ["sync.scalar_read", "medium"])
        scored = one(score_causes([small]), "sync.scalar_read").strict
        assert scored.recall.n == 0
        assert scored.precision == Rate.of(1, 1)

    def test_the_same_rule_twice_is_one_claim(self):
        assert score_all_causes([outcome([], ["host.gc_pause"], ["host.gc_pause"])]).strict.precision == Rate.of(0, 1)

    def test_what_a_trace_cannot_tell_apart_is_accepted_and_not_strictly_right(self):
        scored = one(score_causes([outcome([("input.storage", 0.1)], ["input.workers_too_few"])]), "input.storage")
        assert (scored.strict.recall.hits, scored.accepted.recall.hits) == (0, 1)
        assert (scored.strict.precision.n, scored.accepted.precision) == (0, Rate.of(1, 1))
        assert scored.accepted.f1 == 1.0

    def test_a_wrong_claim_counts_against_the_cause_that_it_names_only(self):
        jobs = [
            outcome([("sync.framework", 0.1)], ["sync.framework"]),
            outcome([("host.gc_pause", 0.1)], ["sync.scalar_read"]),
        ]
        assert one(score_causes(jobs), "sync.framework").accepted.f1 == 1.0
        assert one(score_causes(jobs), "sync.scalar_read").accepted.precision == Rate.of(0, 1)
        assert [(row.injected, row.said) for row in false_claims(jobs)] == [("host.gc_pause", "sync.scalar_read")]

    def test_what_was_said_instead_is_counted(self):
        jobs = [
            outcome([("input.storage", 0.1)], ["host.gc_pause"]),
            outcome([("input.storage", 0.1)], ["host.gc_pause"]),
            outcome([("input.storage", 0.1)], ["host.gc_pause"], ["input.storage", "high", 0.3]),
            outcome([("input.storage", 0.1)]),
        ]
        assert [(row.said, row.jobs) for row in missed(jobs)] == [
            ("host.gc_pause", 2),
            ("input.storage, as a suggestion only", 1),
            ("nothing", 1),
        ]


class TestAlike:
    def test_the_table_has_a_reason_per_line(self):
        assert all(row.why and row.truths and row.answers for row in ALIKE)

    def test_a_cause_is_its_own_answer(self):
        assert answers("dist.straggler") == {"dist.straggler"}

    def test_one_way_is_one_way(self):
        assert right("host.launch_bound", ("host.cpu_oversubscription",), strict=False)
        assert not right("host.cpu_oversubscription", ("host.launch_bound",), strict=False)

    def test_it_knows_the_taxonomy_only(self):
        path = CORPUS.parent / "cases" / "taxonomy.json"
        if not path.exists():
            pytest.skip("no taxonomy here: it stands beside the corpus, set WHYIDLE_CORPUS")
        known = json.loads(path.read_text())
        named = {cause for row in ALIKE for cause in (*row.truths, *row.answers)}
        named |= {cause for row in WORDS for cause in row.names}
        assert named <= known.keys()


class TestAttribution:
    def test_errors_are_in_points_over_the_causes_of_both(self):
        errors = errors_of({"python": 0.20, "gc": 0.0004}, {"python": 0.25, "data_wait": 0.01})
        assert errors == pytest.approx({"python": 5.0, "data_wait": 1.0})

    def test_a_job_is_as_wrong_as_its_worst_cause(self):
        jobs = [
            outcome(truth=job(name="good", idle_by_cause={"gc": 0.1}), idle_by_cause={"gc": 0.11}, busy_share=1.0),
            outcome(truth=job(name="bad", idle_by_cause={"gc": 0.1}), idle_by_cause={"gc": 0.05}, busy_share=0.97),
            outcome(truth=job(name="none")),
        ]
        scored = score_attribution(jobs)
        assert scored.points.n == 2
        assert scored.points.mean == pytest.approx(3.0)
        assert scored.points.bias == pytest.approx(-2.0)
        assert scored.within == Rate.of(1, 2)
        assert [(worst.job, worst.cause) for worst in scored.worst] == [("bad", "gc"), ("good", "gc")]
        assert scored.without == 1
        assert one(scored.by_cause, "gc").points.mean == pytest.approx(3.0)
        assert scored.busy_points.max == pytest.approx(3.0)


class TestOrder:
    def test_top_1_and_top_3_count_suggestions_as_the_reader_sees_them(self):
        first = outcome([("sync.scalar_read", 0.1)], ["sync.scalar_read", "medium", 0.3])
        third = outcome([("sync.scalar_read", 0.2)], ["a.a"], ["b.b"], ["sync.scalar_read"])
        fourth = outcome([("sync.scalar_read", 0.2)], ["a.a"], ["b.b"], ["c.c"], ["sync.scalar_read"])
        main = score_order([first, third, fourth]).main
        assert main.top1 == Rate.of(1, 3)
        assert main.top3 == Rate.of(2, 3)

    def test_by_severity_and_family(self):
        jobs = [
            outcome(truth=job([("a.b", 0.02)], family="gpt")),
            outcome([], ["a.b"], truth=job([("a.b", 0.4)], family="resnet")),
            outcome([], ["a.b"], truth=job([("a.b", 0.1)], family="resnet")),
        ]
        order = score_order(jobs)
        assert [(row.label, row.top1.n, row.top1.hits) for row in order.by_severity] == [
            ("2.0%", 1, 0),
            ("10.0%", 1, 1),
            ("40.0%", 1, 1),
        ]
        assert [(row.label, row.top1.n) for row in order.by_family] == [("resnet", 2)]
        assert order.main.top1 == Rate.of(2, 2)

    def test_accepted_answers_count_apart(self):
        order = score_order([outcome([("input.storage", 0.2)], ["input.cpu_transform"])])
        assert (order.main.top1.hits, order.main.top1_accepted.hits) == (0, 1)

    def test_of_a_pair_one_first_or_both_in_three(self):
        pair = [("sync.scalar_read", 0.1), ("dist.straggler", 0.1)]
        jobs = [
            outcome(pair, ["dist.straggler"], ["x.x"], ["sync.scalar_read"]),
            outcome(pair, ["sync.scalar_read"], ["sync.scalar_read"]),
            outcome(pair, ["x.x"], ["sync.scalar_read"], ["dist.straggler"]),
            outcome([("sync.scalar_read", 0.1), ("dist.straggler", 0.02)]),
        ]
        pairs = score_order(jobs).pairs
        assert pairs.top1 == Rate.of(2, 3)
        assert pairs.both_in_top3 == Rate.of(2, 3)
        assert pairs.left_out == 1
        assert score_order(jobs).main.top1.n == 0


def test_lost_share_is_compared_with_the_severity_of_single_faults():
    jobs = [
        outcome([("dist.straggler", 0.2)], ["x.x", "high", 0.9, 0.9], ["dist.straggler", "high", 0.9, 0.25]),
        outcome([("input.storage", 0.1)], ["input.workers_too_few", "low", 0.4, 0.07]),
        outcome([("input.storage", 0.1), ("dist.straggler", 0.1)], ["dist.straggler"]),
        outcome([("input.storage", 0.1)]),
    ]
    loss = score_loss(jobs)
    assert loss.points.n == 2
    assert loss.points.mean == pytest.approx(4.0)
    assert loss.points.bias == pytest.approx(1.0)
    assert [row.cause for row in loss.by_cause] == ["dist.straggler", "input.storage"]


def test_alarms_are_counted_by_job_and_listed_by_finding():
    jobs = [
        outcome([], ["a.a", "high", 0.3], ["b.b", "medium"], truth=job(name="ill")),
        outcome([], ["a.a", "low", 0.3], truth=job(name="fine")),
        outcome([], ["c.c", "low"], truth=job(name="looks ill", control="pinned")),
        outcome([("a.a", 0.2)], ["a.a"]),
    ]
    healthy, control = score_alarms(jobs)
    assert (healthy.high, healthy.medium, healthy.claim) == (Rate.of(1, 2), Rate.of(1, 2), Rate.of(1, 2))
    assert [(alarm.job, alarm.rule) for alarm in healthy.listed] == [("ill", "a.a"), ("ill", "b.b")]
    assert (control.high, control.claim) == (Rate.of(0, 1), Rate.of(1, 1))


def test_confidence_is_binned_and_compared_with_being_right():
    jobs = [
        outcome([("a.a", 0.02)], ["a.a", "high", 0.95], ["b.b", "medium", 0.9]),
        outcome([], ["a.a", "medium", 0.4], ["a.a", "low", 0.95]),
        outcome([("input.storage", 0.2)], ["input.workers_too_few", "high", 0.5], ["x.x", "high", 1.0]),
    ]
    bins = {(row.low, row.high): row for row in calibrate(jobs)}
    assert bins[0.9, 1.0].right == Rate.of(1, 3)
    assert bins[0.9, 1.0].said == pytest.approx(0.95)
    assert bins[0.3, 0.5].right == Rate.of(0, 1)
    assert (bins[0.5, 0.7].right.hits, bins[0.5, 0.7].right_strict.hits) == (1, 0)
    assert bins[0.7, 0.8].said is None


class TestTargets:
    def test_all_are_met_by_a_tool_that_is_right(self):
        truth = job([("dist.straggler", 0.2)], idle_by_cause={"peer_wait": 0.2}, busy_share=0.8)
        found = outcome([], ["dist.straggler"], truth=truth, idle_by_cause={"peer_wait": 0.2}, busy_share=0.8)
        quiet = [outcome(truth=job(control=control), idle_by_cause={}, busy_share=1.0) for control in (None, "pinned")]
        assert [target.met for target in score([found, *quiet]).targets] == [True] * 5

    def test_none_is_met_by_one_that_is_silent_or_cries(self):
        silent = outcome([("dist.straggler", 0.2)])
        cries = [outcome([], ["a.a", "high"], truth=job(control=control)) for control in (None, "pinned")]
        board = score([silent, *cries])
        assert [target.met for target in board.targets] == [False, None, False, False, False]

    def test_without_attribution_in_one_job_the_target_is_missed(self):
        good = outcome(truth=job(idle_by_cause={"gc": 0.1}), idle_by_cause={"gc": 0.1})
        assert [t.met for t in score([good]).targets if "idle by cause" in t.goal] == [True]
        assert [t.met for t in score([good, outcome()]).targets if "idle by cause" in t.goal] == [False]


def test_broken_worlds_have_a_board_of_their_own():
    jobs = [outcome(), outcome(truth=job(misspecified="lost_events"))]
    assert {name: board.jobs for name, board in worlds(jobs).items()} == {"matched": 1, "mis-specified": 1}


class TestShown:
    def test_a_board_fits_the_screen_and_names_everything(self):
        long = job([("transfer.pageable_h2d", 0.2)], name="x" * 200)
        crashed = judge_failure(long, "crash", "y" * 300)
        shown = list(boards(worlds([outcome([], ["a.a", "high"]), crashed, outcome(truth=job(control="pinned"))])))
        assert max(map(len, shown)) <= WIDTH
        text = "\n".join(shown)
        for part in ("NOT MET", "transfer.pageable_h2d", "crash", "a.a", "healthy", "control"):
            assert part in text

    def test_a_table_is_aligned(self):
        assert list(table(("name", "n"), [("a", "100")])) == ["", "name    n", "a     100"]
        assert list(table(("name", "n"), [])) == []


def test_a_board_is_json():
    from dataclasses import asdict

    jobs = [outcome([("a.a", 0.1)], ["a.a"], peers=(PeerSaid("hta", 0.1, ("host_wait",)),)), outcome()]
    assert json.loads(json.dumps(asdict(score(jobs))))["jobs"] == 2


def test_a_run_is_judged_as_a_user_would_see_it():
    runs = Path(__file__).parents[1] / "runs"
    truth = json.loads((runs / "scalar_read.truth.json").read_text())
    board = score([judge_one(truth, whyidle.diagnose(runs / "scalar_read"))])
    assert board.order.main.top1 == Rate.of(1, 1)
    assert board.attribution.within == Rate.of(1, 1)


def also(severity: float, lost: float) -> Outcome:
    """A healthy job that would gain so much by compiling, and is said to gain so much more."""
    truth = job([], also=(Fault("compile.not_used", severity, severity),))
    return Outcome(truth, (Said("compile.not_used", "high", 0.6, lost),))


def test_what_a_job_would_gain_by_besides_is_right_as_far_as_it_is_worth_what_is_promised():
    for severity, lost, good in ((0.10, 0.14, True), (0.021, 0.50, False)):
        judged = also(severity, lost)
        assert judged.is_right(judged.findings[0], strict=False) is good
        assert not judged.is_right(judged.findings[0], strict=True)
        (healthy, _) = score([judged]).alarms
        assert healthy.high.hits == (0 if good else 1)


def test_a_crash_on_a_healthy_job_is_no_silence():
    board = score([judge_failure(job([]), "crash", "ValueError")])
    (quiet,) = [target for target in board.targets if "healthy" in target.goal]
    assert quiet.met is False
