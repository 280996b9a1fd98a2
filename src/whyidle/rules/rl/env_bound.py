from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class EnvBound(Rule):
    """The training thread steps the environment itself, and the GPU waits for it.

    ## Why it costs time
    In reinforcement learning acting and learning take turns: while a simulator runs on the CPU, in Python often on one
    core, there is nothing for the GPU to do.

    ## How we know
    The time in `step` of an environment (Gymnasium's interface) is measured in the training process. Lost is as much of
    it as the GPU was idle for no other reason that has a name.

    ## When to ignore it
    The policy must act on its very last update, and the environment is as fast as it can be. Environments in other
    processes are not seen; waiting for them is, as the step of the vector environment.
    """

    needs = (("host_environment_share",),)
    uses = waits.READ_LEFT
    explains = ("python", "dispatch")

    confidence = Threshold(0.85, "probability", source="judgement, not calibrated yet: its step was timed")
    unbounded_confidence = Threshold(
        0.6, "probability", source="judgement, not calibrated yet: nobody knows whether the GPU waited"
    )
    applies = Threshold(0.7, "probability", source="judgement: if the environment can be copied")
    overlap_applies = Threshold(0.4, "probability", source="judgement: the algorithm has to allow it")
    residual = Threshold(0.3, "of the time", source="judgement: 16 to 64 environments gave 1.33 times in a public case")
    hidden = Threshold(0.1, "of the time", source="judgement: what cannot be hidden behind learning")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        share = m.number("host_environment_share")
        lost = self.claimed(m)
        yield from self.finding(
            f"The environment's step runs while {waits.who(m)} waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if waits.known(m) else self.unbounded_confidence,
            seen=f"the training thread is in the environment's step {share:.0%} of the watched time",
            locations=m.one("host_environment_share").locations,
            fixes=(
                Fix(
                    "step many environments at a time, each in a process",
                    'env = gymnasium.make_vec("ENV", num_envs=16, vectorization_mode="async")',
                    effort="setting",
                    applies=self.applies,
                    risk="batches of experience get larger, which changes the learning recipe; CPUs for each",
                    edits=(Edit("scale_host", {"cause": "environment"}, {"factor": self.residual, "prior": 1.0}),),
                ),
                Fix(
                    "collect experience while learning",
                    "# actors in processes of their own, which send experience through a queue and\n"
                    "# take new weights every few updates (IMPALA, APPO, asynchronous collection in torchrl)",
                    effort="code",
                    applies=self.overlap_applies,
                    risk="experience is some updates old: the algorithm has to correct for it",
                    edits=(Edit("scale_host", {"cause": "environment"}, {"factor": self.hidden, "prior": 1.0}),),
                ),
            ),
        )

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        return waits.timed(m, "host_environment_share")

    cases = (
        Fires("a simulator in Python", host_environment_share=0.8, on_gpu=True, utilization_mean_share=0.05),
        Fires("its utilization is not known", host_environment_share=0.5),
        Silent("no environment", host_environment_share=0.0),
        Silent("learning takes the time", host_environment_share=0.01, on_gpu=True, utilization_mean_share=0.9),
        Silent("it runs beside a busy GPU", host_environment_share=0.4, on_gpu=True, utilization_mean_share=0.99),
    )
