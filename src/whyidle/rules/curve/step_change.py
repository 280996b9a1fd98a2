from __future__ import annotations

from collections.abc import Iterator

from whyidle.model.finding import Finding
from whyidle.model.measurement import Measurements
from whyidle.model.times import span
from whyidle.rules.base import Fires, Rule, Silent, Threshold
from whyidle.rules.curve import settle


class StepChange(Rule):
    """From some moment on the GPU works at another level, and stays there.

    ## Why it costs time
    Something changed and did not change back: the clock falls for heat or power while utilization stays at 100%,
    another job came, data no longer fits the page cache, something leaks. What is below the better of the two levels is
    lost.

    ## How we know
    Change points of means (binary segmentation, squared error, penalty 3 log(n) sigma^2) of utilization, and, while
    the GPU is busy, of its SM clock and power; a level that goes one way all the while is told as a drift. The message
    names the counter and both levels.

    ## When to ignore it
    The job itself changed at that time: another phase, a longer sequence, a second model.
    """

    needs = (("curve_change_share", "curve_change_counter"), ("curve_slowed_share", "curve_change_counter"))
    uses = (
        "curve_change_share", "curve_slowed_share", "curve_change_s", "curve_change_from", "curve_change_to",
        "curve_change_memory_bytes", "curve_change_gradual",
        "temperature_c", "throttle_power_share", "throttle_thermal_share", *settle.READ,
    )  # fmt: skip
    busy = ("curve_slowed_share",)

    units = {"utilization": "%", "SM clock": " MHz", "power": " W"}
    vague = Threshold(
        0.5, "of confidence", source="power follows what runs, too: in a public run it halved with the phase"
    )
    came = Threshold(1e9, "B", source="as hw.gpu_shared: a desktop or an idle context holds 0.1 to 0.6 GB")
    hot = Threshold(83, "°C", source="NVIDIA's data-center GPUs start to slow down between 83 and 90 °C")

    def diagnose(self, m: Measurements) -> Iterator[Finding]:
        lost = min(m.get("curve_change_share", 0.0) + m.get("curve_slowed_share", 0.0), 1.0)
        counter = str(m.one("curve_change_counter").value)
        unit, low, high = self.units.get(counter, ""), m.get("curve_change_from", 0.0), m.get("curve_change_to", 0.0)
        moved = f"from {low:.4g}{unit} to {high:.4g}{unit}"
        gradual = bool(m.get("curve_change_gradual", 0.0))
        how = f"drifts {moved}" if gradual else f"shifts {moved} and stays"
        yield from self.finding(
            f"{counter[:1].upper()}{counter[1:]} {how}, which costs up to {lost:.0%} of the time.",
            lost_share=lost,
            confidence=settle.sure(m, self.vague if counter == "power" else 1.0),
            seen=f"{moved}{', bit by bit: half way' if gradual else ''} after {self._when(m, counter)}",
            locations=m.one("curve_change_counter").locations,
            fixes=(
                settle.by_trace("steps before and after")
                if counter == "utilization"
                else settle.by_clocks("what lowers the clock"),
            ),
            candidates=self._candidates(m, counter),
        )

    def _when(self, m: Measurements, counter: str) -> str:
        degrees = f", {m.number('temperature_c'):.0f} °C while busy" if "temperature_c" in m else ""
        return f"{span(m.get('curve_change_s', 0.0))}{degrees}{self._memory(m, counter)}"

    def _memory(self, m: Measurements, counter: str) -> str:
        more = m.get("curve_change_memory_bytes", 0.0)
        return (
            f", with {more / 1e9:.3g} GB more of memory in use"
            if counter == "utilization" and more >= self.came
            else ""
        )

    def _candidates(self, m: Measurements, counter: str) -> tuple[str, ...]:
        """Return the rules that look like this, the likeliest first."""
        if counter != "utilization":
            return self._of_clocks(m, counter)
        if m.get("curve_change_from", 0.0) > m.get("curve_change_to", 0.0):
            usual = ("input.storage", "hw.gpu_shared", "input.cpu_transform", "dist.straggler", "host.gc_pause")
        else:
            usual = ("input.storage", "pause.startup", "compile.recompile", "input.worker_startup", "hw.gpu_shared")
        more = m.get("curve_change_memory_bytes", 0.0) >= self.came
        return tuple(dict.fromkeys(("hw.gpu_shared", *usual))) if more else usual

    def _of_clocks(self, m: Measurements, counter: str) -> tuple[str, ...]:
        """Return what holds a clock down: the reason that NVML names first, else by the temperature."""
        power, heat = m.get("throttle_power_share", 0.0), m.get("throttle_thermal_share", 0.0)
        cool = power > heat or (power == heat and (counter == "power" or m.get("temperature_c", self.hot) < self.hot))
        pair = ("hw.power_cap", "hw.thermal") if cool else ("hw.thermal", "hw.power_cap")
        return (*pair, "dist.straggler", "hw.gpu_shared") if counter == "power" else (*pair, "hw.gpu_shared")

    cases = (
        Fires(
            "the clock falls to a third, utilization stays",
            curve_slowed_share=0.6,
            curve_change_counter="SM clock",
            curve_change_s=60.0,
            curve_change_from=1755.0,
            curve_change_to=510.0,
            temperature_c=88.0,
            curve_samples=600,
        ),
        Fires(
            "the second epoch waits for data",
            curve_change_share=0.2,
            curve_change_counter="utilization",
            curve_change_s=900.0,
            curve_change_from=96.0,
            curve_change_to=60.0,
            curve_samples=1800,
        ),
        Fires(
            "a neighbour came: the GPU is busier, and its memory fuller",
            curve_change_share=0.1,
            curve_change_counter="utilization",
            curve_change_s=900.0,
            curve_change_from=70.0,
            curve_change_to=99.0,
            curve_change_memory_bytes=2e10,
            curve_samples=1800,
        ),
        Silent("no shift", curve_change_share=0.0, curve_change_counter="utilization", curve_samples=600),
    )
