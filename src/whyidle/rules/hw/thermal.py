from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.hw.gpu_shared import GpuShared
from whyidle.rules.hw.power_cap import PowerCap
from whyidle.rules.limited import READ, proviso, saved


class Thermal(Rule):
    """The same kernels take longer and longer: the GPU's clock falls.

    ## Why it costs time
    A GPU that is too hot, or at its power limit, lowers its clock by 5% to more than 50%. All kernels that compute take
    longer by that, and the GPU still counts as fully busy.

    ## How we know
    Kernels of the same name, as large and at the same place in the step do the same work. The larger part of
    their time gets longer by the same factor towards the end of the recording and stays so, and next to none
    of it shorter; collectives, and kernels that run beside one, are left out. In 12 public recordings the
    median kernel takes at most 1.1% longer in the slowest step than in the fastest.

    The recording does not hold clocks or temperatures: heat, a power limit (`hw.power_cap`) and another process on the
    same GPU (`hw.gpu_shared`) look the same. `nvidia-smi` tells them apart while the job runs.

    `whyidle run` does so: NVML says in which samples the clock was lowered for heat, or by the hardware. Then what is
    lost is bounded by how far the median clock is below its maximum, of the time in which the GPU is busy and
    throttled; kernels that wait for memory lose less. Where NVML shows another of the three, this rule is silent.

    ## When to ignore it
    Kernels whose grid does not depend on their input, on inputs of changing size. If a single GPU of several is slow,
    `dist.straggler` says so.
    """

    needs = (
        ("kernel_slowdown", "slower_share"),
        ("throttle_thermal_share", "clock_share", "utilization_mean_share"),
    )
    uses = (
        "throttle_thermal_share", "clock_share", "utilization_mean_share", "temperature_c", "gpu_busy_share",
        *PowerCap.needs[0], *PowerCap.uses, *READ,
    )  # fmt: skip

    slower = Threshold(
        1.05, "times", source="steps of 12 public recordings vary by up to 1.011; clocks fall in steps of 1% and more"
    )
    confidence = Threshold(
        0.75,
        "probability",
        source="right in 13 of 13 simulated jobs, bench/README.md; kept below: work may grow within the same grid",
    )
    throttled = PowerCap.throttled
    counted_confidence = Threshold(0.85, "probability", source="judgement, not calibrated yet: NVML names the reason")
    applies = Threshold(0.4, "probability", source="judgement: cooling and limits are rarely the user's to change")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        if all(name in m for name in self.needs[1]) and m.number("throttle_thermal_share") >= self.throttled:
            yield from self._counted(m)
        elif all(name in m for name in self.needs[0]) and not PowerCap.claimed(m) and not GpuShared.claimed(m):
            yield from self._recorded(m)

    def _counted(self, m: Measurements) -> Iterator[Finding]:
        hot, clock = m.number("throttle_thermal_share"), m.number("clock_share")
        lost = (waits.at_work(m) - GpuShared.claimed(m)) * hot * max(1 - clock, 0.0)
        degrees = f", at {m.number('temperature_c'):.0f} °C" if "temperature_c" in m else ""
        yield from self.finding(
            f"The GPU lowers its clock for heat, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.counted_confidence,
            seen=(
                f"throttled in {hot:.0%} of the busy samples{degrees}, the median clock at {clock:.0%} of its "
                "maximum; utilization does not show it"
            ),
            locations=m.one("throttle_thermal_share").locations,
            fixes=(self._fix(1 - hot * max(1 - clock, 0.0)),),
        )

    def _recorded(self, m: Measurements) -> Iterator[Finding]:
        slowdown, share = m.number("kernel_slowdown"), m.number("slower_share")
        if slowdown < self.slower:
            return
        lost = saved(m, share)
        yield from self.finding(
            f"The same kernels take {slowdown:.2f} times as long in the last steps as in the first, "
            f"which costs {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence,
            seen=(
                f"kernels that every step has take {slowdown:.2f} times as long, and stay so; all together that is "
                f"{share:.1%} of the time{proviso(m)}"
            ),
            locations=m.one("slower_share").locations,
            fixes=(self._fix(1 - self._part(m, share)),),
            candidates=("hw.power_cap", "hw.gpu_shared"),
        )

    def _part(self, m: Measurements, share: float) -> float:
        """Return the part of the GPU's work that is lost, 0-1."""
        work = max(m.get("gpu_busy_share", 1.0), share)
        return min(share / work, 1.0) if work > 0 else 0.0

    def _fix(self, factor: float) -> Fix:
        return Fix(
            "see why the clock falls while the job runs",
            "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK; nvidia-smi pmon -c 1\n"
            "# HW or SW thermal slowdown: cooling, another slot or host; SW power cap: nvidia-smi -pl WATTS;\n"
            "# a process of someone else: move one of the two",
            effort="setting",
            applies=self.applies,
            risk="none by looking; a higher power limit makes the GPU hotter",
            edits=(Edit("scale_device", {"class": "compute"}, {"factor": factor}),),
        )

    cases = (
        Fires(
            "by NVML: 88 °C, a third of its clock, and 100% utilization",
            throttle_thermal_share=0.9,
            clock_share=0.3,
            utilization_mean_share=1.0,
            temperature_c=88.0,
        ),
        Silent("by NVML: warm, at its clock", throttle_thermal_share=0.0, clock_share=0.97, utilization_mean_share=1.0),
        Silent(
            "by NVML it is the power limit: hw.power_cap",
            kernel_slowdown=1.3,
            slower_share=0.13,
            throttle_thermal_share=0.0,
            throttle_power_share=0.9,
            clock_share=0.5,
            power_limit_share=0.5,
            utilization_mean_share=1.0,
        ),
        Silent(
            "another process came: hw.gpu_shared",
            kernel_slowdown=1.3,
            slower_share=0.13,
            foreign_share=0.9,
            foreign_memory_bytes=8e9,
            utilization_mean_share=0.99,
            gpu_busy_share=0.6,
        ),
        Fires("throttles from the middle on", kernel_slowdown=1.3, slower_share=0.13),
        Silent("steps as they usually vary", kernel_slowdown=1.011, slower_share=0.003),
        Silent("from the last step on", kernel_slowdown=1.2, slower_share=0.01),
        Silent("the host limits the step", kernel_slowdown=1.3, slower_share=0.05, gpu_limited_share=0.1),
    )
