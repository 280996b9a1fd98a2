from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import LOW, Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.compile.recompile import Recompile


class Startup(Rule):
    """Code is compiled or loaded, or memory allocated, while the GPU waits: first uses inside the window.

    ## Why it costs time
    The first call of a kernel loads its code (CUDA loads lazily), the first call of a compiled function compiles
    it, the first call of a library sets it up, the first tensors fill PyTorch's pool of GPU memory. Each takes
    milliseconds to minutes, and the GPU waits. Once per job
    that is nothing; inside a recording of a few steps it hides everything else; at every new shape it never ends.

    ## How we know
    The GPU is idle while the launching thread is in a range or frame that compiles, or in a driver call that took
    1 ms and more, once: a launch takes 2–30 µs, and a call that is as slow in most steps is no first use. Or it
    is idle while memory is allocated, before the second step. Synchronization and copies are counted elsewhere.

    `whyidle run` measures the time from the command to the end of the first step. It is told where it took a minute
    and more, as a share of the run as long as it was watched: in a longer run the share is smaller.

    ## When to ignore it
    The recording holds the first steps of the job. Record later ones, after a warm-up, before you change anything.
    """

    needs = (("idle_compile_share",), ("startup_s", "watched_s"))
    uses = (
        "steps",
        "compiled",
        "idle_allocator_share",
        "alloc_lost_share",
        "startup_s",
        "watched_s",
        *Recompile.needs[0],
    )
    explains = ("compile", "allocator")

    confidence = Threshold(
        0.75,
        "probability",
        source="right in 32 of 33 simulated jobs, bench/README.md; a contended driver lock looks alike",
    )
    long = Threshold(60, "s", source="judgement: to import PyTorch, read a model and run a first step takes 10 to 60 s")
    run_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: how long the job will run is not known"
    )
    run_applies = Threshold(0.4, "probability", source="judgement: part of it is paid in any case")
    run_residual = Threshold(0.3, "of the start", source="judgement: imports, the model and the first step remain")
    applies = Threshold(
        0.5, "probability", source="judgement: half of such recordings lack a warm-up, others recompile"
    )

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        found = list(self._recorded(m)) if "idle_compile_share" in m else []
        yield from found or self._watched(m)

    @classmethod
    def run_share(cls, m: Measurements) -> float:
        """Return the share of the run until now that went by before its first step ended; 0 where that is usual."""
        if "startup_s" not in m or "watched_s" not in m or m.number("startup_s") < cls.long:
            return 0.0
        return m.number("startup_s") / (m.number("startup_s") + m.number("watched_s"))

    def _watched(self, m: Measurements) -> Iterator[Finding]:
        lost = self.run_share(m)
        if not lost:
            return
        yield from self.finding(
            f"The job takes {m.number('startup_s'):.0f} s to its first step, {lost:.0%} of the run until now.",
            lost_share=lost,
            confidence=self.run_confidence,
            seen=(
                f"{m.number('startup_s'):.0f} s from the command to the end of the first step, "
                f"{m.number('watched_s'):.0f} s of steps after it; in a longer run the share is smaller"
            ),
            locations=m.one("startup_s").locations,
            fixes=(
                Fix(
                    "see what takes so long, and keep its result",
                    "python -X importtime train.py 2> imports.txt   # imports\n"
                    "py-spy record --duration 120 --output start.svg -- python train.py   # all of it\n"
                    "# indexing the data: store the index; compiling: TORCHINDUCTOR_CACHE_DIR on a disk that stays",
                    effort="code",
                    applies=self.run_applies,
                    risk="a stored index has to be made again when the data changes",
                    edits=(Edit("scale_host", {"cause": "startup"}, {"factor": self.run_residual, "prior": 1.0}),),
                ),
            ),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        # what is compiled again in steady state is compile.recompile's
        code = max(m.number("idle_compile_share") - Recompile.claimed(m), 0.0)
        # memory that is allocated in steady state is memory.allocator_thrash's
        memory = max(m.get("idle_allocator_share", 0.0) - m.get("alloc_lost_share", 0.0), 0.0)
        lost = code + memory
        what = "Code is compiled or loaded" if code >= memory else "GPU memory is allocated for the first time"
        if min(code, memory) >= LOW:
            what = "Code is loaded, and GPU memory allocated for the first time,"
        where = "idle_compile_share" if code >= memory else "idle_allocator_share"
        steps = f" of {m.number('steps'):.0f} steps" if "steps" in m else ""
        compiled = "compiled" in m and bool(m.one("compiled").value)
        yield from self.finding(
            f"{what} while the GPU waits, which costs {lost:.0%} of the recorded time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"GPU idle {code:.0%} of the time{steps} while the host compiles or stays in a driver call for 1 ms "
                f"and more, {memory:.0%} while it allocates GPU memory"
            ),
            locations=m.one(where).locations,
            fixes=(
                Fix(
                    "record after a warm-up; if it stays, shapes change: pad them or compile with dynamic=True",
                    "profile(schedule=torch.profiler.schedule(wait=5, warmup=2, active=6, repeat=1), ...)"
                    + ("\nTORCH_LOGS=recompiles python train.py   # says what changes" if compiled else ""),
                    effort="setting",
                    applies=self.applies,
                    risk="dynamic=True makes kernels somewhat slower than fixed shapes",
                    edits=(*self._gone("compile", code, m), *self._gone("allocator", memory, m)),
                ),
            ),
            candidates=("compile.recompile", "compute.cudnn_autotune"),
        )

    def _gone(self, cause: str, part: float, m: Measurements) -> Iterator[Edit]:
        """Yield that this part of the host's time of a cause is gone; what other rules speak of stays."""
        if part > 0:
            yield Edit("scale_host", {"cause": cause}, {"factor": 1 - min(part / m.number(f"idle_{cause}_share"), 1.0)})

    cases = (
        Fires("watched: four minutes until the first step, ten minutes of steps", startup_s=240.0, watched_s=600.0),
        Silent("watched: a short trial of a job that starts in 20 s", startup_s=20.0, watched_s=40.0),
        Silent("watched: four minutes of a day", startup_s=240.0, watched_s=86400.0),
        Fires("one launch call of 1.5 s: the kernel's code is loaded", idle_compile_share=0.55, steps=5),
        Fires("compiled code, and too few steps to see whether it goes on", idle_compile_share=0.2, compiled=True),
        Fires("the pool of GPU memory is filled", idle_compile_share=0.0, idle_allocator_share=0.5, steps=1),
        Silent(
            "memory comes and goes in steady state: memory.allocator_thrash",
            idle_compile_share=0.0,
            idle_allocator_share=0.5,
            alloc_lost_share=0.49,
            steps=8,
        ),
        Silent("within noise", idle_compile_share=0.01, steps=5),
        Silent(
            "it compiles in every step: compile.recompile",
            idle_compile_share=0.6,
            recompile_steps=7,
            recompile_share=0.6,
            recompile_late_share=0.3,
            steps=8,
        ),
    )
