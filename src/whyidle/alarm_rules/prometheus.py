"""Alert rules for Prometheus: a GPU that was idle over a whole window, by our exporter's metrics or by DCGM's.

The mean over the window decides, not whether the GPU was ever busy in it: one kernel a minute would silence that.
A window of which most was not measured says nothing, so it alerts nobody; that metrics are missing is told apart.
https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from whyidle.fetch.moments import duration

Metrics = Literal["whyidle", "dcgm"]

LOOKS: Final = 10  # at the window, evenly spaced,
ENOUGH: Final = 8  # of which so many have to find that the metric was there
HELD_MIB: Final = 1024  # device memory; without a process a driver shows less


@dataclass(frozen=True, slots=True)
class Rule:
    """A metric that tells how busy a GPU is, and what an alert on it says."""

    alert: str
    metric: str
    only: str  # matchers that belong to it
    busy: float  # what it is of a GPU that is always busy; 0 where it counts idle time, up to 1
    gpu: str  # what it is of, as a template
    idle: str  # how idle that was, as a template


_WHERE: Final = "GPU {{ $labels.gpu }} of {{ or $labels.Hostname $labels.instance }}"
_SHARE: Final = "{{ $value | humanizePercentage }}"
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "whyidle": (
        Rule("GpuIdle", "whyidle_gpu_idle_share", "", 0, f"{_WHERE} ({{{{ $labels.name }}}})", f"idle {_SHARE}"),
    ),
    "dcgm": (
        Rule("GpuIdle", "DCGM_FI_DEV_GPU_UTIL", "", 100, _WHERE, 'busy {{ printf "%.0f" $value }}%'),
        # NVML has no utilization of a GPU that is split.
        Rule(
            "GpuInstanceIdle",
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            'GPU_I_ID!=""',
            1,
            f"MIG {{{{ $labels.GPU_I_PROFILE }}}} {{{{ $labels.GPU_I_ID }}}} on {_WHERE}",
            f"busy {_SHARE}",
        ),
    ),
}
HELD: Final = {"whyidle": "whyidle_gpu_held{{{}}} == 1", "dcgm": f"DCGM_FI_DEV_FB_USED{{{{{{}}}}}} > {HELD_MIB}"}


def rules(metrics: Metrics, floor: float, window_s: float, matchers: str = "", *, held: bool = False) -> str:
    """Return a rules file, as YAML.

    Args:
        metrics: whose: "whyidle" of `whyidle watch --listen`, "dcgm" of dcgm-exporter.
        floor: share of the time that a GPU is busy at least, between 0 and 1.
        window_s: s, over which the mean is taken.
        matchers: labels that the metrics have to have, `cluster="a",gpu=~"0|1"`.
        held: only of GPUs that something holds: elsewhere a free GPU is meant to be idle.
    """
    chosen = RULES[metrics]
    lines = [
        f"# By `whyidle alarm prometheus`: GPUs that are busy less than {100 * floor:g}% of {duration(window_s)}.",
        "# What was not measured alerts nobody; that nothing is measured at all is told by an alert of its own.",
        "groups:",
        f"  - name: {_quoted(f'whyidle-{metrics}')}",
        "    rules:",
    ]
    for rule in chosen:
        expression = _expression(rule, floor, window_s, matchers)
        if held:
            expression += f" and {HELD[metrics].format(_all(rule.only, matchers))}"
        summary = f"{rule.gpu}: {rule.idle} of the last {duration(window_s)}"
        lines += _alert(rule.alert, expression, "warning", summary, _WHAT_TO_DO)
    absent = " and ".join(f"absent({rule.metric}{{{_all(rule.only, matchers)}}})" for rule in chosen)
    says = f"no metrics of GPUs ({', '.join(rule.metric for rule in chosen)}) for {duration(window_s)}"
    lines += _alert("GpuMetricsAbsent", absent, "info", says, _UNKNOWN[metrics], wait_s=window_s)
    return "\n".join(lines) + "\n"


_WHAT_TO_DO: Final = (
    "On that machine `whyidle watch --once` says which job holds the GPU, and `whyidle watch --pid PID` why it waits, "
    "in about 15 s and without touching it."
)
_UNKNOWN: Final = {
    "whyidle": "Whether GPUs idle is not known. Does `whyidle watch --listen` run, and does Prometheus scrape it?",
    "dcgm": "Whether GPUs idle is not known. Does dcgm-exporter run, and does Prometheus scrape it?",
}


def _expression(rule: Rule, floor: float, window_s: float, matchers: str) -> str:
    """Return what holds for a GPU that is idle: its mean beyond the floor, of a window that was measured."""
    series = f"{rule.metric}{{{_all(rule.only, matchers)}}}"
    beyond = f"< {floor * rule.busy:.6g}" if rule.busy else f"> {1 - floor:.6g}"
    window, look = duration(window_s), duration(window_s / LOOKS)
    return f"avg_over_time({series}[{window}]) {beyond} and count_over_time({series}[{window}:{look}]) >= {ENOUGH}"


def _alert(
    name: str, expression: str, severity: str, summary: str, description: str, wait_s: float = 0.0
) -> Iterator[str]:
    yield f"      - alert: {_quoted(name)}"
    yield f"        expr: {_quoted(expression)}"
    if wait_s:
        yield f"        for: {_quoted(duration(wait_s))}"
    yield f"        labels: {{severity: {_quoted(severity)}}}"
    yield "        annotations:"
    yield f"          summary: {_quoted(summary)}"
    yield f"          description: {_quoted(description)}"


def _all(*matchers: str) -> str:
    return ",".join(filter(None, matchers))


def _quoted(text: str) -> str:
    """Return text as YAML: what JSON writes is a double-quoted scalar there."""
    return json.dumps(text, ensure_ascii=False)
