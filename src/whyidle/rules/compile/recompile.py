from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold

SHOWN = 160  # characters of a reason: two lines of a report


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

    `whyidle run` reads PyTorch's own counters: functions that are compiled again in the second half of the run, the
    time that this takes there, and the guard that failed most often. Only the second half counts, in which a job
    that compiles once has nothing left to compile; a job that goes on like this loses twice that share.

    ## When to ignore it
    The recording covers the first steps of the job, where few different shapes are seen for the first time. Then record
    later, after a warm-up.
    """

    needs = (
        ("recompile_steps", "recompile_share", "recompile_late_share"),
        ("recompilations_late", "compile_late_share"),
    )
    uses = ("steps", "compiled_versions", "recompile_reason", "watched_steps", *waits.READ_LEFT)
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
        yield from self._watched(m) if "compile_late_share" in m and "recompilations_late" in m else self._recorded(m)

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        again = m.number("recompilations_late")
        if again < self.again:
            return
        lost = waits.timed(m, "compile_late_share")
        reason = shorten(str(m.one("recompile_reason").value), SHOWN) if "recompile_reason" in m else ""
        steps = f" of {m.number('watched_steps'):.0f} steps" if "watched_steps" in m else ""
        yield from self.finding(
            f"torch.compile compiles again and again, which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"{again:.0f} functions were compiled again in the second half{steps}, {lost:.1%} of the watched time"
                + (f"; most often since {reason}" if reason else "")
            ),
            locations=m.one("compile_late_share").locations,
            fixes=self._fixes(sizes=not reason or "size" in reason or "shape" in reason),
            candidates=("compile.graph_break",),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
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
            fixes=self._fixes(sizes=True),
            candidates=("pause.startup",),
        )

    def _fixes(self, *, sizes: bool) -> tuple[Fix, ...]:
        """Return the fixes, the one for sizes only where these may be what changes."""
        dynamic, guard = (
            Fix(
                "compile for sizes that change",
                "model = torch.compile(model, dynamic=True)\n# or only where they do: torch._dynamo.mark_dynamic(x, 1)",
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
        )
        return (dynamic, guard) if sizes else (guard,)

    cases = (
        Fires(
            "watched: each length is compiled for",
            recompilations_late=12,
            compile_late_share=0.2,
            recompile_reason="tensor 'x' size mismatch at index 1. expected 96, actual 97",
        ),
        Silent("watched: compiled at the beginning", recompilations_late=0, compile_late_share=0.0),
        Silent(
            "watched: one function was reached late",
            recompilations_late=1,
            compile_late_share=0.1,
        ),
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
