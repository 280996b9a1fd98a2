from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold


class Recompile(Rule):
    """torch.compile compiles again and again while the GPU waits.

    ## Why it costs time
    Compiled code holds for what it was compiled for: shapes, dtypes, the value of each Python number
    that it uses. A call that differs in one of them compiles another version, which takes seconds to
    minutes. After a number of versions (`recompile_limit`, 8 by default) PyTorch gives up and runs the
    function uncompiled, without an error.

    ## How we know
    In two steps or more after the first of the recording, and still in the second half of it, the host is in ranges or
    frames of torch.compile or of Triton's compiler and autotuner, and the GPU is idle. Ranges of compiled code name the
    version that they run. The recording shows that it compiles, not why: `TORCH_LOGS=recompiles` prints the guard that
    failed.

    ## When to ignore it
    The recording covers the first steps of the job, where few different shapes are seen for the first time. Then record
    later, after a warm-up.
    """

    needs = (("recompile_steps", "recompile_share", "recompile_late_share"),)
    uses = ("steps", "compiled_versions")
    explains = ("compile",)

    again = Threshold(
        2, "steps", source="one compilation after the first step may be code that is reached for the first time"
    )
    confidence = Threshold(
        0.85, "probability", source="that it compiles is recorded: right in 13 of 13 simulated jobs, bench/README.md"
    )
    applies = Threshold(0.5, "probability", source="judgement: shapes are the usual guard that fails, numbers the next")
    guard_applies = Threshold(0.6, "probability", source="judgement: once the guard is known, most can be avoided")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the window that this rule speaks for; 0 where it is silent."""
        goes_on = m.get("recompile_steps", 0.0) >= cls.again and m.get("recompile_late_share", 0.0) > 0
        return m.get("recompile_share", 0.0) if goes_on else 0.0

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        of = f" of {m.number('steps') - 1:.0f}" if "steps" in m else ""
        versions = (
            f"; one function is at version {m.number('compiled_versions'):.0f}" if "compiled_versions" in m else ""
        )
        yield from self.finding(
            f"torch.compile compiles again and again while the GPU waits, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{m.number('recompile_steps'):.0f}{of} steps after the first compile, "
                f"the GPU idle meanwhile {lost:.0%} of the time{versions}"
            ),
            locations=m.one("recompile_share").locations,
            fixes=(
                Fix(
                    "compile for sizes that change",
                    "model = torch.compile(model, dynamic=True)\n"
                    "# or only where they do: torch._dynamo.mark_dynamic(x, 1)",
                    effort="argument",
                    applies=self.applies,
                    risk="kernels for any size are somewhat slower than those for one",
                    edits=(Edit("scale_host", {"cause": "compile"}, {"factor": 0.0}),),
                ),
                Fix(
                    "find the guard that fails, and keep what it checks the same",
                    "TORCH_LOGS=recompiles python train.py\n"
                    "# a learning rate: Adam(params, lr=torch.tensor(1e-3)); lengths: pad to few sizes;\n"
                    "# a counter: keep it out of the compiled function",
                    effort="code",
                    applies=self.guard_applies,
                    risk="padding computes what nobody needs",
                    edits=(Edit("scale_host", {"cause": "compile"}, {"factor": 0.0}),),
                ),
            ),
            candidates=("pause.startup",),
        )

    cases = (
        Fires(
            "every batch has its own length", recompile_steps=7, recompile_share=0.8, recompile_late_share=0.4, steps=8
        ),
        Silent("compiled once, in the first step", recompile_steps=0, recompile_share=0.0, recompile_late_share=0.0),
        Silent(
            "another function is reached for the first time: pause.startup",
            recompile_steps=1,
            recompile_share=0.3,
            recompile_late_share=0.3,
        ),
        Silent(
            "the second and third step of many: sizes were made dynamic, and that was it",
            recompile_steps=2,
            recompile_share=0.3,
            recompile_late_share=0.0,
            steps=40,
        ),
        Silent("beside a busy GPU", recompile_steps=7, recompile_share=0.0, recompile_late_share=0.0, steps=8),
    )
