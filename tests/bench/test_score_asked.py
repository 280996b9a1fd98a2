"""Which jobs, public cases and recordings the scoreboard asks about, and when an answer is right."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from scoring.cases import FILES, ask, by_kind
from scoring.corpus import Known, busy_errors, verdict
from scoring.jobs import limited
from scoring.matrix import Asked, matrix, not_offered
from scoring.rates import Rate
from tests.bench.outcomes import report
from whyidle.errors import WhyIdleError
from whyidle.model.finding import DeviceBusy


def loop():
    while True:
        pass


def test_a_loop_without_end_costs_one_job():
    with pytest.raises(TimeoutError, match=r"0\.01 s"), limited(0.01):
        loop()


def spec(families=("gpt", "dlrm"), severities=(0.02, 0.1, 0.2), min_ranks=1):
    return SimpleNamespace(families=families, severities=severities, min_ranks=min_ranks)


WORLD = SimpleNamespace(
    FAMILIES=("gpt", "dlrm"),
    FAULTS={
        "input.storage": spec(),
        "input.cpu_transform": spec(),
        "dist.straggler": spec(families=("gpt",), min_ranks=8),
        "sync.scalar_read": spec(severities=(0.02, 0.1)),
    },
    CONTROLS={"pinned": spec(families=("dlrm",))},
    MISSPECIFIED=("lost_events",),
)


class TestMatrix:
    def test_it_has_each_job_once_and_the_same_every_time(self):
        asked = Asked(severities=(0.1, 0.2), seeds=(0, 1), pairs=5, misspecified=3)
        jobs = matrix(WORLD, asked)
        assert jobs == matrix(WORLD, asked)
        assert len(set(jobs)) == len(jobs) == len({job.name for job in jobs})

    def test_it_keeps_to_what_the_world_offers(self):
        asked = Asked(severities=(0.1, 0.2), pairs=0, misspecified=0)
        singles = [job for job in matrix(WORLD, asked) if job.faults]
        assert len(singles) == 12
        assert {job.family for job in singles if job.faults[0][0] == "dist.straggler"} == {"gpt"}
        assert {job.ranks for job in singles if job.faults[0][0] == "dist.straggler"} == {8}
        assert not_offered(WORLD, asked) == 2

    def test_healthy_jobs_and_controls_can_be_had_alone(self):
        asked = Asked(faults=("dist.*",), severities=(), pairs=0, misspecified=0)
        assert [job.name for job in matrix(WORLD, asked)] == [
            "gpt-healthy-r1-s0",
            "dlrm-healthy-r1-s0",
            "dlrm-healthy-control_pinned-r1-s0",
        ]

    def test_no_pair_has_one_answer_for_both(self):
        pairs = [dict(job.faults).keys() for job in matrix(WORLD, Asked(pairs=99)) if len(job.faults) == 2]
        assert pairs
        assert {"input.storage", "input.cpu_transform"} not in pairs

    def test_a_name_that_fits_nothing_is_refused(self):
        with pytest.raises(ValueError, match="rabbit"):
            matrix(WORLD, Asked(families=("rabbit",)))


class TestCases:
    CASE = {
        "id": "case-1",
        "minimal_input": {"kind": "util_curve", "csv": "t,util\n0,1\n"},
        "input_provenance": "0/80% reported; cycle ours",
        "expected_cause": "input.storage",
        "look_alikes": ["pause.evaluation"],
        "case_kind": "positive",
    }

    def test_a_kind_that_nothing_reads_is_counted_and_not_scored(self):
        (kind,) = by_kind([ask({**self.CASE, "minimal_input": {"kind": "nccl_log", "text": "NCCL INFO Bootstrap\n"}})])
        assert (kind.kind, kind.cases, kind.read) == ("nccl_log", 1, 0)
        assert kind.reported.n == kind.filled_in.n == 0

    def test_with_a_reader_a_refused_one_is_a_miss(self):
        def reads(paths):
            return report(("input.workers_too_few", "high", 0.9, 0.3))

        def refuses(paths):
            raise WhyIdleError("no")

        reported = {**self.CASE, "input_provenance": "all reported"}
        (kind,) = by_kind([ask(self.CASE, reads), ask(reported, reads), ask(reported, refuses)])
        assert kind.read == 2
        assert kind.filled_in == Rate.of(1, 1)
        assert kind.reported == Rate.of(1, 2)

    def test_a_negative_case_asks_that_its_look_alikes_are_not_found(self):
        negative = {**self.CASE, "case_kind": "negative", "expected_cause": "none.clean"}
        assert ask(negative, lambda paths: report()).right
        assert not ask(negative, lambda paths: report(("pause.evaluation", "low", 0.3, 0.03))).right

    def test_a_kind_without_a_file_of_its_own_is_not_read(self):
        config = {**self.CASE, "minimal_input": {"kind": "config", "data": {}}}
        assert "config" not in FILES
        assert ask(config).said is None


class TestCorpus:
    def test_busy_shares_are_compared_over_the_steps_where_there_are_any(self):
        facts = {
            "devices": {
                "0": {"busy_share_of_gpu_span": 0.9, "busy_share_of_step_window": 0.5},
                "1": {"busy_share_of_gpu_span": 0.4},
            }
        }
        seen = report(devices=(DeviceBusy(0, 0, 0.52, 1.0), DeviceBusy(0, 1, 0.39, 1.0)))
        assert [error.points for error in busy_errors("x", facts, seen)] == pytest.approx([2.0, -1.0])

    def test_what_is_known_is_first_or_claimed_or_absent(self):
        seen = report(("host.gc_pause", "high", 0.9, 0.3), ("input.storage", "medium", 0.5, 0.1))

        def right(place, cause, said=seen):
            return verdict(Known("x", place, cause, "why"), "x", said).right

        assert right("first", "host.gc_pause")
        assert not right("first", "input.storage")
        assert right("claimed", "input.cpu_transform")
        assert not right("claimed", "dist.straggler")
        assert right("absent", "sync.*")
        assert not right("absent", "input.*")
        assert not right("absent", "sync.*", "crash: ValueError")
