from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.input import late_rank, loader_model, taken


class NoOverlap(Rule):
    """Data making and training take turns: the training thread loads data itself, outside a DataLoader.

    ## Why it costs time
    The step is as long as both phases together, though the CPU could make the next batch while the
    GPU works on this one. With overlap it would be as long as the longer of the two.

    ## How we know
    A range of your own (`record_function`, NVTX) whose name says that it loads data is open on the
    launching thread while no kernel, copy or fill runs.

    `whyidle run` sees it without a range, but less surely: between the steps of a job that has no DataLoader
    of PyTorch nothing is known to run (no forward or backward pass, optimizer, checkpoint or evaluation), and the
    GPU waits. That is how loading of one's own looks (generators, WebDataset pipelines, queues filled by threads), and
    so does other work of the loop.

    ## When to ignore it
    The next batch depends on the result of this step, as in reinforcement learning with one
    environment or in active learning. Then only making it faster helps.
    """

    needs = (("idle_data_range_share",), ("lost_data_other_share",))
    uses = ("data_wait_share", "on_gpu", *late_rank.READ, *taken.READ)
    explains = ("data_wait",)

    confidence = Threshold(
        0.8, "probability", source="the range's name is all that says what it does; not calibrated yet"
    )
    between_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: what runs between steps need not be loading"
    )
    applies = Threshold(0.7, "probability", source="judgement: fails where the next batch depends on this step")
    workers = Threshold(4, "workers", source="kineto resnet50 sample pair: num_workers=0 and 4")
    contention = loader_model.CONTENTION
    residual = Threshold(0.02, "of the wait", source="1.4 of 69 ms left with 4 workers: kineto resnet50 sample pair")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        watched = "lost_data_other_share" in m
        wait = m.one("lost_data_other_share" if watched else "idle_data_range_share")
        lost = late_rank.own(m, wait.name) if watched else m.number(wait.name)
        name = next((f" ({place.name})" for place in wait.locations if place.name), "")
        seen = f"your range that loads data{name} covers {lost:.0%} of the time with the GPU idle"
        if watched:
            seen = (
                f"for {lost:.0%} of the watched time {waits.who(m)} waits between steps, and no DataLoader is at work"
            )
        seems = ", it seems," if watched else ""
        pinned = ", pin_memory=True" if waits.on_gpu(m) else ""
        workers = taken.at_most(m, int(self.workers))
        yield from self.finding(
            f"The training thread makes each batch itself{seems} while {waits.who(m)} waits, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.between_confidence if watched else self.confidence,
            seen=seen,
            locations=wait.locations,
            fixes=(
                Fix(
                    "make batches in worker processes, ahead of the step",
                    "class Batches(torch.utils.data.IterableDataset):\n"
                    "    def __iter__(self):\n"
                    "        while True:\n"
                    "            yield make_batch()\n\n"
                    f"loader = DataLoader(Batches(), batch_size=None, num_workers={workers}{pinned})",
                    effort="code",
                    applies=self.applies,
                    risk="each worker runs the whole __iter__: seed or shard by torch.utils.data.get_worker_info()",
                    edits=(
                        Edit("scale_host", {"cause": "data_wait"}, {"factor": self.residual, "prior": 1.0, "workers": workers}),
                        *loader_model.contention(m, workers),
                    ),
                ),
            ),
            candidates=("host.python_overhead",) if watched else (),
        )

    cases = (
        Fires("watched: seven seconds of making data, then training", lost_data_other_share=0.7),
        Silent("watched: steps follow each other", lost_data_other_share=0.01, idle_data_range_share=0.3),
        Fires("strict alternation", idle_data_range_share=0.38, data_wait_share=0.38),
        Silent("loads while the GPU is busy with queued work", idle_data_range_share=0.0, data_wait_share=0.3),
        Silent("within noise", idle_data_range_share=0.015),
    )
