"""schema_version 1: programs rely on these keys; one that goes or changes its meaning raises the number."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.sampled import curve, gpu, trainer
from whyidle import __version__, cost
from whyidle.errors import WhyIdleError
from whyidle.judge import judge
from whyidle.model.evidence import Run
from whyidle.model.finding import Edit, Report
from whyidle.render import render
from whyidle.rules import all_rules


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def loads(report: Report) -> Any:
    text = render(report, "json")
    assert text.endswith("}\n")
    return json.loads(text, parse_constant=refuse)


def keys(value: object) -> object:
    """Return the shape: keys all the way down, the first of each list."""
    if isinstance(value, dict):
        return {key: keys(item) for key, item in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else type(value).__name__


def test_shape(many: Report, snapshot: Any) -> None:
    found = loads(cost.price(many, 2.60, hours=24))
    assert found["schema_version"] == 1
    assert found["whyidle"] == __version__
    assert keys(found) == snapshot


def test_shape_of_predictions(asked: Report, snapshot: Any) -> None:
    found = loads(cost.price(asked, 2.60))
    assert keys(found["prediction"]) == snapshot
    assert keys(found["findings"][0]["fixes"][0]["predicted"]) == keys(found["prediction"]["joint"])


def test_numbers_of_predictions(one_predicted: Report) -> None:
    found = loads(cost.price(one_predicted, 2.60))
    predicted = found["findings"][0]["fixes"][0]["predicted"]
    assert predicted == {
        "step_time_s": {"low": 0.10998, "likely": 0.117, "high": 0.12402},
        "step_time_mean_s": {"low": 0.11123, "likely": 0.11833, "high": 0.125429},
        "speedup": {"low": 1.41913, "likely": 1.50427, "high": 1.60029},
        "per": "step",
        "source": "",
        "rests_on": [],
        "gpu_idle_share": 0.18,
        "usd_per_hour_saved": 0.8716,
    }
    assert found["prediction"]["sequence"][0]["predicted"] == found["prediction"]["joint"] == predicted
    assert found["prediction"]["critical_path"] == {"data_wait": 0.34, "kernels": 0.51, "python": 0.15}


def test_no_prediction(many: Report, refused: Report) -> None:
    assert loads(many)["prediction"] is None
    assert loads(refused)["prediction"]["refused"].startswith("replayed without a change")
    assert loads(refused)["prediction"]["sequence"] == []


def test_every_promised_key(many: Report) -> None:
    found = loads(many)
    assert set(found) >= {"schema_version", "whyidle", "run", "summary", "findings", "unknown", "warnings"}
    assert set(found["run"]) >= {"evidence", "ignored", "gpus", "world_size", "settings"}
    assert set(found["summary"]) >= {
        "verdict", "window_s", "steps", "step_time_s", "step_time_mean_s", "gpu_busy_share", "gpu_idle_share",
        "data_wait_share", "collective_wait_share", "idle_by_cause", "devices", "cost",
    }  # fmt: skip
    finding = found["findings"][0]
    assert set(finding) >= {
        "rule", "severity", "confidence", "message", "lost_share", "candidates", "locations", "fixes",
    }  # fmt: skip
    assert set(finding["fixes"][0]) >= {"title", "change", "effort", "risk", "predicted"}
    assert finding["fixes"][0]["predicted"] is None
    assert set(found["unknown"][0]) == {"rule", "missing", "how"}
    assert found["summary"]["cost"] is None


def test_a_location_has_only_what_is_known(many: Report) -> None:
    location = loads(many)["findings"][0]["locations"][0]
    assert location == {
        "file": "runs/resnet50/trace.json.gz", "rank": 0, "device": 0, "step": 7, "start_s": 0.123, "end_s": 0.19,
    }  # fmt: skip


def test_ranked_order_and_parts_that_sum(many: Report) -> None:
    found = loads(many)
    assert [finding["rule"] for finding in found["findings"]] == [finding.rule for finding in many.findings]
    summary = found["summary"]
    assert sum(summary["idle_by_cause"].values()) == pytest.approx(summary["gpu_idle_share"], abs=1e-3)


def test_numbers(many: Report) -> None:
    summary = replace(
        many.summary,
        window_s=1.23456789,
        step_time_s=float("nan"),
        step_time_mean_s=float("inf"),
        gpu_busy_share=np.float64(0.5),
        steps=np.int64(7),  # type: ignore[arg-type]
    )
    finding = many.findings[0]
    fix = replace(finding.fixes[0], edits=(Edit("scale_host", {"cause": np.str_("x"), "on": True}, {"factor": 0.02}),))
    place = replace(finding.locations[0], start_s=123.4567891, end_s=123.4567999)
    found = loads(replace(many, summary=summary, findings=(replace(finding, fixes=(fix,), locations=(place,)),)))
    assert found["summary"]["window_s"] == 1.23457
    assert found["summary"]["step_time_s"] is None
    assert found["summary"]["step_time_mean_s"] is None
    assert found["summary"]["gpu_busy_share"] == 0.5
    assert found["summary"]["steps"] == 7
    assert found["findings"][0]["locations"][0]["start_s"] == 123.456789
    assert found["findings"][0]["fixes"][0]["edits"] == [
        {"kind": "scale_host", "selector": {"cause": "x", "on": True}, "coefficients": {"factor": 0.02}}
    ]


def test_any_text_survives(many: Report) -> None:
    name = 'kernel\x1b[31m "quoted" [bold] µ'
    found = loads(replace(many, warnings=(name, "half a pair \ud800")))
    assert found["warnings"] == [name, "half a pair ?"]
    assert render(replace(many, warnings=(name,)), "json", unicode=False).isascii()


def test_not_judged(not_judged: Report) -> None:
    found = loads(not_judged)
    assert found["judged"] is False
    assert found["summary"]["gpu_idle_share"] is None
    assert found["findings"] == []


def test_unknown_format(many: Report) -> None:
    with pytest.raises(WhyIdleError, match="no format is called 'yaml'") as caught:
        render(many, "yaml")
    assert caught.value.hint == "formats: github, gitlab, html, json, junit, markdown, sarif, terminal"


def test_a_whole_report_on_curves(snapshot: Any) -> None:
    """Numbers to three digits: a spectrum differs in the last ones from machine to machine."""
    values = np.where(np.arange(300) % 30 < 9, 0.0, 97.0)
    told = curve(*(gpu(values, device=device) for device in range(2)), gpu([60e9] * 300, name="memory_used_bytes"))
    report = cost.price(judge(Run(curves=(told, trainer([5.0] * 60, [1.0] * 60)))), 2.60, hours=24)
    found = loads(report)
    assert sum(found["summary"]["idle_by_cause"].values()) == pytest.approx(
        found["summary"]["gpu_idle_share"], abs=1e-3
    )
    assert all(finding["confidence"] <= 0.6 for finding in found["findings"])
    assert {finding["rule"] for finding in found["findings"]} <= {rule.id for rule in all_rules()}
    del found["whyidle"], found["unknown"]
    assert rounded(found) == snapshot


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value
