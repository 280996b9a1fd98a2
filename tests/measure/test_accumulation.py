"""Gradients that are exchanged in backward passes that no update follows."""

from __future__ import annotations

import pytest

from tests.traces import AUTOGRAD, Recording, measured

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
NODE = "autograd::engine::evaluate_function: "


def micro_step(r, at, *, syncs=1, sync_in="torch::autograd::AccumulateGrad", message=64, name=REDUCE, thread=AUTOGRAD):
    """100 us: three kernels forward until 30, two backward until 70, then each collective alone for 10 us."""
    for place in range(3):
        r.op("aten::mm", at + 10 * place, at + 10 * place + 5)
        r.kernel(at + 10 * place + 2, at + 10 * place + 12, launched=at + 10 * place, took=1)
    for place in range(2):
        start = at + 30 + 10 * place
        r.op(f"{NODE}MmBackward0", start, start + 5, AUTOGRAD)
        r.kernel(start + 2, start + 20, launched=start + 1, took=1, thread=AUTOGRAD)
    r.op(f"{NODE}{sync_in}", at + 50, at + 65, AUTOGRAD)
    for place in range(syncs):
        start = at + 70 + 10 * place
        r.kernel(
            start, start + 10, launched=at + 51 + place, took=1, thread=thread, name=name, message=message, stream=20
        )


def job(*updates, steps=True, **more):
    """One step per update: as many micro-steps as it has numbers, each exchanging gradients in so many collectives."""
    r, at = Recording(), 0
    for number, update in enumerate(updates):
        begin = at
        for syncs in update:
            micro_step(r, at, syncs=syncs, **more)
            at += 100
        r.range("Optimizer.step#SGD.step", at, at + 10).kernel(at + 2, at + 10, launched=at + 1, took=1)
        at += 20
        if steps:
            r.step(number, begin, at)
    return r


def again(recording):
    m = measured(recording.analysis())
    return m["grad_syncs_per_update"], m["grad_sync_again_share"]


def test_all_but_the_last_exchange_of_an_update_is_for_nothing():
    """Four micro-steps of 100 us per update of 420 us, each with two collectives of 10 us: 60 of 420 us."""
    times, share = again(job((2, 2, 2, 2), (2, 2, 2, 2)))
    assert times == 4
    assert share == pytest.approx(60 / 420)


@pytest.mark.parametrize("update", [(2,), (0, 0, 0, 2)], ids=["one micro-step", "no_sync"])
def test_once_per_update_is_needed(update):
    assert again(job(update, update)) == (1, 0)


def test_without_collectives_nothing_is_exchanged():
    assert again(job((0, 0), (0, 0))) == (0, 0)


def test_beside_a_kernel_it_costs_nothing():
    assert again(job((2, 2), (2, 2)).kernel(0, 440, launched=-5, stream=9)) == (2, 0)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"sync_in": "SyncBatchNormBackward"}, "an operator of the model reduces"),
        ({"name": "ncclDevKernel_AllGather_RING_LL"}, "FSDP gathers parameters, which every pass needs"),
    ],
)
def test_what_every_pass_needs_is_no_exchange_of_gradients(more, why):
    assert again(job((2, 2), (2, 2), **more)) == (0, 0), why


def test_a_logged_loss_is_no_exchange_of_gradients():
    """All-reduced on the main thread after each backward pass, before the update."""
    r = job((0, 0), (0, 0))
    for at in (0, 100, 220, 320):
        r.kernel(at + 80, at + 90, launched=at + 75, took=1, name=REDUCE, message=1, stream=20)
    assert again(r) == (0, 0)


def test_passes_of_two_models_exchange_something_else():
    """Two losses, two backward passes, two updates: nothing is exchanged twice."""
    r = Recording().step(0, 0, 240)
    micro_step(r, 0, message=64)
    micro_step(r, 100, message=96)
    for at in (200, 220):
        r.range("Optimizer.step#SGD.step", at, at + 10).kernel(at + 2, at + 10, launched=at + 1, took=1)
    assert again(r) == (1, 0)


def test_passes_after_the_last_update_are_left_out():
    """What follows, a whole update or the rest of one, is not known."""
    r = job((1, 1))
    micro_step(r, 220)
    assert again(r) == (2, pytest.approx(10 / 220))


def test_a_copy_between_backward_and_update_is_no_forward_pass():
    """One launch, of three that a forward pass makes: the passes are still two."""
    r = job((2, 2))
    r.kernel(90, 92, launched=85, took=1).kernel(55, 58, launched=54.5, took=0.2, stream=9)
    assert again(r)[0] == 2


def test_reduce_scatter_is_told_from_all_reduce():
    names = [REDUCE, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"]
    found = [measured(job((1, 1), name=name).analysis())["grad_sync"] for name in names]
    assert found == ["all_reduce", "reduce_scatter"]


def test_without_an_update_or_a_backward_pass_nothing_is_known():
    r = Recording().step(0, 0, 100)
    micro_step(r, 0)
    assert "grad_syncs_per_update" not in measured(r.analysis())
    r = Recording().range("Optimizer.step#SGD.step", 50, 60).kernel(0, 90, launched=-5)
    assert "grad_syncs_per_update" not in measured(r.analysis())


def late(recording):
    m = measured(recording.analysis())
    return m["grad_sync_late_part"], m["grad_sync_late_share"], m["backward_alone_share"]


def test_gradients_launched_after_the_backward_pass_cannot_travel_beside_it():
    """Both backward kernels (18 us each, overlapping: 28 us) are launched before the collectives of 10 us, which run
    when they are done: 20 of 120 us each step, and nothing beside the backward pass."""
    assert late(job((2,), (2,))) == (1, pytest.approx(20 / 120), pytest.approx(28 / 120))


def test_gradients_launched_while_the_backward_pass_computes_are_in_time():
    """A collective launched between two backward kernels of 20 us; it runs alone where they are shorter than it.

    A step of 140 us: backward kernels 30-50 and 60-80, the collective 50-120: alone 50-60 and 80-120.
    """
    r = Recording()
    for number, at in enumerate((0, 140)):
        r.step(number, at, at + 140)
        r.op("aten::mm", at, at + 5).kernel(at + 2, at + 12, launched=at, took=1)
        for start in (30, 60):
            r.op(f"{NODE}MmBackward0", at + start, at + start + 3, AUTOGRAD)
            r.kernel(at + start, at + start + 20, launched=at + start + 1, took=1, thread=AUTOGRAD)
        r.op(f"{NODE}torch::autograd::AccumulateGrad", at + 40, at + 50, AUTOGRAD)
        r.kernel(at + 50, at + 120, launched=at + 41, took=1, thread=AUTOGRAD, name=REDUCE, message=64, stream=20)
        r.range("Optimizer.step#SGD.step", at + 125, at + 135).kernel(at + 130, at + 135, launched=at + 126, took=1)
    assert late(r) == (0, 0, pytest.approx(20 / 140))


def test_an_all_reduce_by_hand_before_the_update_is_late():
    """Launched on the main thread at 85 when the backward pass is over, for 10 of 120 us."""
    r = job((0,), (0,))
    for at in (0, 120):
        r.kernel(at + 88, at + 98, launched=at + 85, took=1, name=REDUCE, message=64, stream=20)
    assert late(r)[:2] == (1, pytest.approx(10 / 120))


def test_without_collectives_no_gradient_is_late():
    m = measured(job((0,), (0,)).analysis())
    assert m["grad_sync_late_share"] == 0
    assert "grad_sync_late_part" not in m
