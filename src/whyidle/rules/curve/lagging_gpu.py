from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.rules.base import Fires, Rule, Silent
from whyidle.rules.curve import settle


class LaggingGpu(Rule):
    """One GPU is apart from its peers all the time.

    ## Why it costs time
    In synchronous training all ranks wait for the slowest. It is the one that never waits: a GPU that is busier than
    all others, or one that runs at half the clock of its peers while all are busy, holds them up. A GPU that is less
    busy than the others got less work, or another host feeds it late.

    ## How we know
    In most windows of the recording one GPU differs from the median of all by more than 5 points of utilization and by
    more than three times their robust spread (1.4826 MAD); or, with all of them busy, its clock or its power is lower
    by as clear a distance.

    ## When to ignore it
    The GPUs do different work on purpose: stages of a pipeline, a separate evaluation, other models of GPU.
    """

    needs = (("curve_lag_share", "curve_lag_gpu", "curve_lag_counter"), ("curve_lag_slow_share", "curve_lag_gpu"))
    uses = (
        "curve_lag_share", "curve_lag_slow_share", "curve_lag_counter", "curve_lag_value", "curve_lag_peers",
        "curve_lag_windows_share", "curve_lag_gpus", "throttle_power_share", "throttle_thermal_share", *settle.READ,
    )  # fmt: skip
    busy = ("curve_lag_slow_share",)

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        idle, slow = m.get("curve_lag_share", 0.0), m.get("curve_lag_slow_share", 0.0)
        lost = min(idle + slow, 1.0)
        gpu, counter = str(m.one("curve_lag_gpu").value).replace("gpu ", "GPU "), "utilization"
        if "curve_lag_counter" in m:
            counter = str(m.one("curve_lag_counter").value)
        clocks = counter != "utilization"
        place = m.one("curve_lag_gpu").locations
        others = round(m.get("curve_lag_gpus", 1.0)) - 1
        who, whose = (f"{gpu} and {others} more have", "their") if others > 0 else (f"{gpu} has", "its")
        apart = "lower" if m.get("curve_lag_value", 0.0) <= m.get("curve_lag_peers", 0.0) else "higher"
        yield from self.finding(
            f"{who} a {apart} {counter} than {whose} peers, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, m.get("curve_lag_windows_share", 0.5)),
            seen=f"{counter} {m.get('curve_lag_value', 0.0):.4g} against {m.get('curve_lag_peers', 0.0):.4g} of its "
            f"peers, in {m.get('curve_lag_windows_share', 0.0):.0%} of the time",
            locations=place,
            fixes=(settle.by_clocks("what holds it down") if clocks else settle.by_trace("all ranks together"),),
            candidates=(*self._reasons(m), "dist.straggler", "hw.gpu_shared")
            if clocks
            else ("dist.straggler", "dist.input_straggler", "dist.length_imbalance", "hw.thermal", "hw.power_cap"),
        )

    def _reasons(self, m: Measurements) -> tuple[str, str]:
        hotter = m.get("throttle_thermal_share", 0.0) > m.get("throttle_power_share", 0.0)
        return ("hw.thermal", "hw.power_cap") if hotter else ("hw.power_cap", "hw.thermal")

    cases = (
        Fires(
            "half the clock of the others, all busy",
            curve_lag_slow_share=0.5,
            curve_lag_gpu="gpu 2",
            curve_lag_counter="SM clock",
            curve_lag_value=690.0,
            curve_lag_peers=1530.0,
            curve_lag_windows_share=1.0,
            curve_samples=300,
        ),
        Fires(
            "idles twice as much as the others",
            curve_lag_share=0.1,
            curve_lag_gpu="gpu 3",
            curve_lag_counter="utilization",
            curve_lag_value=40.0,
            curve_lag_peers=80.0,
            curve_lag_windows_share=0.95,
            curve_samples=600,
        ),
        Silent(
            "a point more or less",
            curve_lag_share=0.001,
            curve_lag_gpu="gpu 1",
            curve_lag_counter="utilization",
            curve_samples=600,
        ),
    )
