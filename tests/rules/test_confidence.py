"""How sure a rule on several ranks is: with the recordings of all of them it knows more than with one."""

from __future__ import annotations

import pytest

from whyidle.model.measurement import Measurement, Measurements
from whyidle.rules import ask

EXPOSED = {"collective_exposed_share": 0.2, "collective_share": 0.4, "collective_kind": "gradients"}
LATE = {"grad_sync_late_part": 1.0, "grad_sync_late_share": 0.2, "backward_alone_share": 0.3}
IN_TIME = {"grad_sync_late_part": 0.1, "grad_sync_late_share": 0.02, "backward_alone_share": 0.3}


def confidence(rule, waits=(), **given):
    """Return how sure a rule is, of a run whose ranks wait for so much of the time."""
    m = [Measurement(name, value) for name, value in given.items()]
    m += [Measurement("collective_wait_share", wait, f"rank {rank}") for rank, wait in enumerate(waits)]
    if waits:
        m.append(Measurement("collective_wait_share", sum(waits) / len(waits)))
    findings, _ = ask(Measurements(m))
    return next(finding.confidence for finding in findings if finding.rule == rule)


@pytest.mark.parametrize(
    ("waits", "given", "expected"),
    [
        ((0.0, 0.0), EXPOSED | LATE, 0.8),
        ((0.0, 0.0), EXPOSED | IN_TIME, 0.3),
        ((0.0, 0.0), EXPOSED, 0.4),
        ((), EXPOSED | LATE, 0.4),
    ],
    ids=["launched late", "launched in time", "not known when", "one rank"],
)
def test_gradients_that_travel_alone(waits, given, expected):
    assert confidence("dist.bucket_overlap", waits, **given) == expected


@pytest.mark.parametrize(
    ("waits", "given", "expected"),
    [
        ((0.0, 0.1), {"late_share": 0.1, "late_host_share": 0.1, "late_ranks": "0", "late_steps": 9}, 0.8),
        ((0.0, 0.1), {"late_share": 0.1, "late_host_share": 0.1, "late_ranks": "", "late_steps": 1}, 0.5),
        ((0.0, 0.1), {}, 0.5),
        ((0.1, 0.09), {}, 0.4),
    ],
    ids=["why it is late is known", "of one step", "who is late is known", "nor that"],
)
def test_a_late_rank(waits, given, expected):
    assert confidence("dist.straggler", waits, **given) == expected


def test_slow_links():
    link = {"link_speed_share": 0.1, "link_exposed_share": 0.2, "link": "between nodes", "busbw_bytes_per_s": 2e9}
    assert confidence("dist.net_socket", (0.0, 0.0), **link) == 0.8
    assert confidence("dist.net_socket", (0.0, 0.0), **link | {"link_speed_share": 0.4}) == 0.5
    assert confidence("dist.net_socket", **link) == 0.4
