"""What peers are given and how their answers are scored."""

from __future__ import annotations

import pytest

from scoring.peer_answers import WORDS, score_peers
from scoring.peers import advice, largest, rank_of
from scoring.rates import Rate
from scoring.records import PeerSaid
from tests.bench.outcomes import job, outcome


class TestPeers:
    def test_a_coarse_word_is_right_and_names_nothing(self):
        said = (PeerSaid("hta", 0.35, ("host_wait",)),)
        jobs = [outcome([("sync.scalar_read", 0.1)], ["sync.scalar_read"], peers=said, truth=None, busy_share=0.7)]
        ours, hta = score_peers(jobs)
        assert (ours.peer, ours.names.hits) == ("whyidle", 1)
        assert (hta.covers, hta.names) == (Rate.of(1, 1), Rate.of(0, 1))

    def test_a_word_that_says_what_to_change_names_the_cause(self):
        single = (PeerSaid("gpuidle", 0.2, ("dataloader_single",)),)
        jobs = [
            outcome([("input.workers_zero", 0.1)], peers=single),
            outcome([("input.storage", 0.1)], peers=single),
            outcome([], peers=single),
            outcome([], peers=(PeerSaid("gpuidle", crashed="ValueError"),)),
        ]
        _, peer = score_peers(jobs)
        assert (peer.covers.hits, peer.names.hits) == (2, 1)
        assert peer.alarms == Rate.of(1, 2)
        assert peer.crashed == 1
        assert [row.cause for row in peer.by_cause] == ["input.storage", "input.workers_zero"]

    def test_idle_shares_are_compared_in_points(self):
        truth = job([("input.storage", 0.1)], busy_share=0.8)
        _, peer = score_peers([outcome(truth=truth, peers=(PeerSaid("tb", 0.25),))])
        assert peer.idle_points.bias == pytest.approx(5.0)

    def test_nobody_asked_is_no_row(self):
        assert score_peers([outcome()]) == ()

    def test_every_word_has_a_reason(self):
        assert all(word.why and word.covers for word in WORDS)

    def test_parts_count_from_five_percent_and_advice_by_its_words(self):
        assert largest({"idle": 0.2, "exposed_comm": 0.04, "exposed_memcpy": 0.3}) == ["exposed_memcpy", "idle"]
        assert advice("33.4% of the step time is in DataLoader. You could") == ["dataloader"]
        assert advice("GPU 0 has low utilization. You could") == ["low_utilization"]


def test_files_are_given_to_peers_by_rank(tmp_path):
    names = ["rank10.json.gz", "rank2.json.gz", "rank0.json.gz"]
    assert sorted((tmp_path / name for name in names), key=rank_of)[-1].name == "rank10.json.gz"
