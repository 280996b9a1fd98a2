from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Edit, Finding, Fix
from whyidle.model.measurement import Measurements
from whyidle.rules import waits
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.hw.gpu_shared import GpuShared


class PowerCap(Rule):
    """The GPU lowers its clock since it is at its power limit, which is set low, or holds it far below its clock.

    ## Why it costs time
    A limit of half the watts takes a fifth to a half of the speed of kernels that compute. The GPU counts as
    fully busy all the while.

    ## How we know
    NVML says that the clock is lowered for power in at least a tenth of the samples in which the GPU is busy, and not
    for heat. That alone is no fault: large matrix products bring every data-center GPU to its limit. So either the
    limit is set below its default, or the clock is at less than half of its maximum.

    With its own clock, kernels would take as much less as the clock is lower, and no more than power is lower:
    the smaller of the two, of the time in which the GPU is busy and throttled, bounds what is lost. Kernels that wait
    for memory gain less.

    ## When to ignore it
    The limit was set to save energy: a few percent of speed for a fifth of the power is a fair trade.
    """

    needs = (("throttle_power_share", "clock_share", "utilization_mean_share"),)
    uses = ("power_limit_share", "throttle_thermal_share", *GpuShared.needs[0], *GpuShared.uses, *waits.READ)
    busy = ("utilization_mean_share",)

    throttled = Threshold(0.1, "of busy samples", source="judgement: a peak now and then meets the limit anywhere")
    lowered = Threshold(0.95, "of default", source="judgement: within 5% of its default the limit is the default")
    low_clock = Threshold(0.5, "of maximum", source="judgement: at their default limit GPUs hold 0.6 and more")
    confidence = Threshold(0.75, "probability", source="judgement, not calibrated yet: NVML names the reason")
    default_confidence = Threshold(
        0.5, "probability", source="judgement, not calibrated yet: at its default limit some part is defective"
    )
    applies = Threshold(0.5, "probability", source="judgement: limits are rarely the user's to change")

    @classmethod
    def claimed(cls, m: Measurements) -> float:
        """Return the share of the time that this rule speaks for; 0 where it is silent."""
        if any(name not in m for name in cls.needs[0]) or m.get("throttle_thermal_share", 0.0) >= cls.throttled:
            return 0.0
        power, clock = m.number("throttle_power_share"), m.number("clock_share")
        limit = m.get("power_limit_share", 1.0)
        if power < cls.throttled or (limit >= cls.lowered and clock >= cls.low_clock):
            return 0.0
        return (waits.at_work(m) - GpuShared.claimed(m)) * power * cls._slower(m)

    @classmethod
    def _slower(cls, m: Measurements) -> float:
        """Return how much shorter kernels would be with their own clock, while it is lowered."""
        clock, limit = m.number("clock_share"), m.get("power_limit_share", 1.0)
        return max(1 - clock if limit >= cls.lowered else min(1 - clock, 1 - limit), 0.0)

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = self.claimed(m)
        limit = m.get("power_limit_share", 1.0)
        lowered = limit < self.lowered
        yield from self.finding(
            f"The GPU is at its power limit and lowers its clock, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=self.confidence if lowered else self.default_confidence,
            seen=(
                f"lowered for power in {m.number('throttle_power_share'):.0%} of the busy samples, the clock at "
                f"{m.number('clock_share'):.0%} of its maximum"
                + (
                    f", the limit at {limit:.0%} of its default, or the highest known"
                    if "power_limit_share" in m
                    else ""
                )
            ),
            locations=m.one("throttle_power_share").locations,
            fixes=(
                Fix(
                    "raise the limit to its default" if lowered else "look for what holds the power down",
                    "nvidia-smi -q -d POWER,PERFORMANCE\n"
                    + (
                        "nvidia-smi -pl WATTS   # the default that it shows; as root"
                        if lowered
                        else "# power brake or SW power cap at part load: power cables, power supply, firmware"
                    ),
                    effort="setting",
                    applies=self.applies,
                    risk="more power and heat; someone may have set the limit for a reason",
                    edits=(
                        Edit(
                            "scale_device",
                            {"class": "compute"},
                            {"factor": 1 - min(m.number("throttle_power_share"), 1.0) * self._slower(m)},
                        ),
                    ),
                ),
            ),
        )

    cases = (
        Fires(
            "held at half its watts",
            throttle_power_share=0.9,
            clock_share=0.6,
            utilization_mean_share=0.95,
            power_limit_share=0.5,
        ),
        Fires(
            "at its default limit, and a quarter of its clock: a defect",
            throttle_power_share=1.0,
            clock_share=0.25,
            utilization_mean_share=0.9,
            power_limit_share=1.0,
        ),
        Silent(
            "large products at the default limit, as usual",
            throttle_power_share=0.95,
            clock_share=0.75,
            utilization_mean_share=0.99,
            power_limit_share=1.0,
        ),
        Silent(
            "too hot: hw.thermal",
            throttle_power_share=0.5,
            throttle_thermal_share=0.9,
            clock_share=0.3,
            utilization_mean_share=0.99,
        ),
        Silent(
            "a low limit that is never met",
            throttle_power_share=0.01,
            clock_share=0.97,
            utilization_mean_share=0.5,
            power_limit_share=0.6,
        ),
    )
