"""The speed of large collectives, of what the links of the GPUs reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traces import A100, Recording
from whyidle.measure import measure
from whyidle.model.evidence import Gpu, Run

MIB = 1 << 20
REDUCE, GATHER = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ncclDevKernel_AllGather_RING_LL"
NODE = tuple(replace(A100, device=device) for device in range(8))
ALL = "0 [0, 1, 2, 3, 4, 5, 6, 7]"


def rank(
    took,
    *,
    number=0,
    gpus=NODE,
    world=8,
    group=ALL,
    members=8,
    payload=64 * MIB,
    call="allreduce",
    busy=0,
    gpu=None,
    **more,
):
    """A window of 100 ms with a collective of so many us every 10 ms, that ends at 9 ms, beside a kernel at its end."""
    r = Recording().step(0, 0, 100_000).op("aten::add", 0, 1)
    for place, long in enumerate(took):
        end = place * 10_000 + 9_000
        name = REDUCE if call == "allreduce" else GATHER
        more = {"collective": call, "payload": payload, "members": members, "group": group} | more
        r.kernel(end - long, end, name=name, message=payload // 2, device=number if gpu is None else gpu, **more)
        if busy:
            r.kernel(end - busy, end, stream=8, device=number if gpu is None else gpu)
    return replace(r.trace(path=f"r{number}.json", rank=number, gpus=gpus), world_size=world)


def speed(*ranks):
    m = measure(Run(tuple(ranks))).measurements
    return {
        name: m.one(name).value
        for name in ("link_speed_share", "busbw_bytes_per_s", "link", "link_exposed_share")
        if name in m
    }


def test_a_large_all_reduce_in_a_node():
    """64 MiB between 8: each rank sends 7/4 of it, 117.4 MB; in 1 ms that is 117.4 GB/s. At 210 GB/s (0.7 of 300) it
    takes 559 us, and 150 us to start: in 0.7 ms it is as fast as that, in 8 ms it reaches 0.089 of it."""
    took = 150e-6 + 64 * MIB * 1.75 / 210e9
    fast, slow = speed(rank([700] * 8)), speed(rank([8000] * 8))
    assert fast["busbw_bytes_per_s"] == pytest.approx(64 * MIB * 1.75 / 0.7e-3)
    assert fast["link_speed_share"] == 1
    assert slow["link"] == "inside a node"
    assert slow["link_speed_share"] == pytest.approx(took / 8e-3)
    assert slow["link_exposed_share"] == pytest.approx(8 * 8 / 100)


def test_what_each_rank_sends():
    """Of an all-gather half of what an all-reduce takes; in a group of two half of the payload."""
    assert speed(rank([1000] * 8, call="_allgather_base"))["busbw_bytes_per_s"] == pytest.approx(
        64 * MIB * 0.875 / 1e-3
    )
    two = rank([1000] * 8, members=2, group="1 [0, 1]", call="_reduce_scatter_base")
    assert speed(two)["busbw_bytes_per_s"] == pytest.approx(64 * MIB * 0.5 / 1e-3)


def test_of_one_rank_the_fastest_counts():
    """All but one wait for a rank that comes late; they carry data for as long as that one takes."""
    found = speed(rank([8000] * 7 + [2000]))
    assert found["busbw_bytes_per_s"] == pytest.approx(64 * MIB * 1.75 / 2e-3)
    assert found["link_exposed_share"] == pytest.approx(8 * 2 / 100)


def test_of_several_ranks_the_last_to_come_counts():
    """Rank 1 is late in each, so its kernels are shortest: 2 ms, on both. Beside 1 ms of them a kernel runs."""
    found = speed(rank([8000] * 8, busy=1000), rank([2000] * 8, number=1, busy=1000))
    assert found["busbw_bytes_per_s"] == pytest.approx(64 * MIB * 1.75 / 2e-3)
    assert found["link_exposed_share"] == pytest.approx(8 * 1 / 100)


@pytest.mark.parametrize(
    ("more", "link"),
    [
        ({}, "inside a node"),
        ({"world": 16, "group": "0 [0, 1, 2, 3, 4, 5, 6, 7, 8]", "members": 9}, "between nodes"),
        ({"world": 16, "group": "0 [4, 8]", "members": 2}, "between nodes"),
        ({"world": 16, "group": "0 [0, 1, ..., 9]", "members": 8}, "between nodes"),
        ({"gpus": NODE[:1]}, "between nodes"),
        ({"world": 2, "group": "0 [0, 1]", "members": 2}, "between nodes"),
        ({"world": 2, "group": "0 [0, 1]", "members": 2, "number": 1}, "inside a node"),
    ],
    ids=[
        "all of its GPUs",
        "more than its GPUs",
        "of two rows",
        "not all named",
        "one seen",
        "may be of two",
        "not alone",
    ],
)
def test_a_group_is_taken_to_be_on_one_node_only_where_that_shows(more, link):
    assert speed(rank([8000] * 8, **more))["link"] == link


@pytest.mark.parametrize(
    ("members", "ranks", "link"),
    [
        ("0, 1", [(0, 0), (1, 1)], "inside a node"),
        ("4, 5, 6, 7", [(4, 4), (7, 7)], "inside a node"),
        ("8, 9, 10, 11", [(8, 0), (11, 3)], "inside a node"),
        ("0, 1", [(0, 0), (1, 0)], "between nodes"),
        ("3, 8", [(3, 3), (8, 0)], "between nodes"),
        ("0, 9", [(0, 0), (9, 1)], "between nodes"),
        ("0, 1, 2, 3", [(0, 0), (1, 1)], "between nodes"),
    ],
    ids=["two", "a later row", "a later node", "each sees GPU 0", "of two nodes", "same places", "of some ranks"],
)
def test_ranks_on_the_gpus_of_their_places_share_a_node(members, ranks, link):
    """Each process sees its own GPU. Rank less GPU is the first rank of its node: the same for all, and none after."""
    size = len(members.split(","))
    recorded = [
        rank([8000] * 8, number=number, gpus=(replace(A100, device=gpu),), world=16, members=size,
             group=f"1 [{members}]", gpu=gpu)
        for number, gpu in ranks
    ]  # fmt: skip
    assert speed(*recorded)["link"] == link


def test_the_slowest_group_is_judged():
    """One inside the node that is fast, and one between nodes: of 50 GB/s 35 are expected, after 0.6 ms."""
    fast, slow = rank([1000] * 8, world=16), rank([8000] * 8, world=16, group="1 [0, 8]", members=2)
    r = speed(replace(fast, device_slices=slow.device_slices, strings=slow.strings))
    assert r["link"] == "between nodes"
    assert r["link_speed_share"] == pytest.approx((0.6e-3 + 64 * MIB / 35e9) / 8e-3)


@pytest.mark.parametrize(
    "more",
    [
        {"payload": 16 * MIB - 2},
        {"payload": -1},
        {"collective": ""},
        {"call": "allreduce_coalesced"},
        {"call": "broadcast"},
        {"members": -1},
        {"group": ""},
        {"gpus": (Gpu(0, "Some GPU of 2031"),)},
        {"gpus": (Gpu(0, "NVIDIA L4"),)},
    ],
)
def test_what_is_not_known_is_not_judged(more):
    """Small or unknown messages, unknown collectives, groups and GPUs; PCIe cards, whose network is not known."""
    assert not speed(rank([8000] * 8, **more))


def test_without_collectives_no_link_is_slow():
    assert speed(Recording().kernel(0, 10).trace()) == {"link_exposed_share": 0}


def test_a_few_are_too_few():
    assert not speed(rank([8000] * 4))
