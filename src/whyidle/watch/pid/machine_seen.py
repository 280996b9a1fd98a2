"""What the machine's counters say of the time between two looks, by their names in the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.collect.host import COLUMNS, Number
from whyidle.collect.machine import Machine


def counters(
    facts: Machine, before: Sequence[Number], after: Sequence[Number], seconds: float, used_s: float
) -> dict[str, float]:
    """Return what was measured of a machine.

    Args:
        facts: what it is.
        before: a sample of its counters, as collect.host has them.
        after: the same, later.
        seconds: between the two.
        used_s: CPU time of the job's processes in that time.
    """
    rates = {
        name: (late - early) / seconds
        for name, early, late in zip(COLUMNS, before, after, strict=True)
        if early is not None and late is not None
    }
    online, quota = facts.cpus, facts.cpu_quota
    allowed = min((count for count in (online, quota, len(facts.cpus_allowed or ())) if count), default=None)
    found: dict[str, float] = {}
    if online:
        found |= {"cpus_online": online, "cpu_quota": min(quota or online, online)}
    if allowed:
        found |= {"cpus_allowed": allowed, "job_cpu_share": min(used_s / seconds / allowed, 1.0)}
    if online and "cpu_busy_s" in rates:
        found["cpus_taken"] = min(max(rates["cpu_busy_s"] - used_s / seconds, 0.0), online)
    for name, counter in (("cpu_pressure_share", "cpu_pressure_us"), ("io_pressure_share", "io_pressure_us")):
        if counter in rates:
            found[name] = min(max(rates[counter] / 1e6, 0.0), 1.0)
    if "throttled_us" in rates:
        # Throttled time counts each CPU's; there is no more of it than of periods in which it happened.
        part = rates["throttled_periods"] / rates["periods"] if rates.get("periods") else 1.0
        found["cpu_throttled_share"] = min(max(min(rates["throttled_us"] / 1e6, part), 0.0), 1.0)
    return found
