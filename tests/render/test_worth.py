"""What fixes are worth, as a person sees it: read the snapshots as the pictures that they are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from whyidle import cost
from whyidle.model.finding import Applied, Asked, Estimate, Finding, Predicted, Prediction, Report
from whyidle.render import render
from whyidle.render.passages import Room, compact, finding_lines


def flat(text: str) -> str:
    return " ".join(text.split())


def of(report: Report) -> Prediction:
    assert report.prediction is not None
    return report.prediction


def with_worth(report: Report, predicted: Predicted) -> str:
    """Return the line on what the first fix of a report is worth."""
    finding = report.findings[0]
    fix = replace(finding.fixes[0], predicted=predicted)
    prediction = replace(of(report), sequence=(), joint=None)
    text = render(replace(report, findings=(replace(finding, fixes=(fix,)),), prediction=prediction), width=120)
    return (
        next(line for line in text.splitlines() if line.startswith("     worth ")).split(" · ")[0].split(maxsplit=1)[1]
    )


@pytest.mark.parametrize("width", [60, 80, 110])
@pytest.mark.parametrize("name", ["one_predicted", "predicted", "asked", "refused"])
def test_picture(name: str, width: int, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(cost.price(request.getfixturevalue(name), 2.60), width=width)
    assert max(map(len, text.splitlines())) <= width
    assert len(text.splitlines()) <= 36
    assert text == snapshot


@pytest.mark.parametrize("name", ["predicted", "refused"])
def test_everything(name: str, request: pytest.FixtureRequest, snapshot: SnapshotAssertion) -> None:
    text = render(cost.price(request.getfixturevalue(name), 2.60), width=80, everything=True)
    assert max(map(len, text.splitlines())) <= 80
    assert text == snapshot


def test_ascii_and_color(asked: Report) -> None:
    assert render(asked, unicode=False).isascii()
    plain, colored = render(asked), render(asked, color=True)
    assert re.sub(r"\x1b\[[\d;]*m| +$", "", colored, flags=re.M) == re.sub(r" +$", "", plain, flags=re.M)


def test_a_report_fits_a_small_screen_however_much_it_says(asked: Report) -> None:
    sequence = of(asked).sequence * 4
    report = replace(asked, findings=asked.findings * 3, prediction=replace(of(asked), sequence=sequence))
    for width in (60, 80, 120):
        lines = render(cost.price(report, 2.60), width=width).splitlines()
        assert len(lines) <= 36
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("speedup", "said"),
    [
        ((1.4, 1.5, 1.6), "176 → 117 ms/step, 1.5x (1.4–1.6x)"),
        ((0.98, 1.5, 1.6), "176 → 117 ms/step, 1.50x (0.98–1.60x), may not be faster"),
        ((1.0, 1.5, 1.6), "176 → 117 ms/step, 1.50x (1.00–1.60x), may not be faster"),
        ((1.02, 1.04, 1.06), "176 → 169 ms/step, 1.04x (1.02–1.06x)"),
        ((12, 13.4, 15), "176 → 13.1 ms/step, 13x (12–15x)"),
        ((1.5, 1.5, 1.5), "176 → 117 ms/step, 1.5x"),
        ((0.99, 1.001, 1.01), "nothing: the step stays at 176 ms (0.99–1.01x)"),
        ((0.9, 0.95, 1.0), "slower: 176 → 185 ms/step, 0.95x (0.90–1.00x)"),
    ],
)
def test_speedups(speedup: tuple[float, float, float], said: str, one_predicted: Report) -> None:
    step, mean = (Estimate(*(now / each for each in reversed(speedup))) for now in (0.176, 0.178))
    assert with_worth(one_predicted, Predicted(step, mean, Estimate(*speedup))) == said


def test_a_larger_batch_is_told_per_sample(one_predicted: Report) -> None:
    step = Estimate(0.11, 0.117, 0.126)
    predicted = Predicted(step, step, Estimate(1.4, 1.5, 1.6), per="sample")
    assert with_worth(one_predicted, predicted) == "176 → 117 ms per batch of today, 1.5x (1.4–1.6x) per sample"


def test_what_a_pause_costs_shows_in_the_mean_only(one_predicted: Report) -> None:
    prediction = replace(of(one_predicted), step_time_s=0.1, step_time_mean_s=0.15)
    step = Estimate(0.1, 0.1, 0.1)
    said = with_worth(replace(one_predicted, prediction=prediction), Predicted(step, step, Estimate(1.4, 1.5, 1.6)))
    assert said == "mean 150 → 100 ms/step, 1.5x (1.4–1.6x)"


def test_a_gain_that_the_median_does_not_show_is_told_by_the_mean(one_predicted: Report) -> None:
    prediction = replace(of(one_predicted), step_time_s=0.0227, step_time_mean_s=0.0232)
    step, mean = Estimate(0.0227, 0.0227, 0.0227), Estimate(0.0222, 0.0228, 0.0232)
    predicted = Predicted(step, mean, Estimate(1.0, 1.018, 1.05))
    said = with_worth(replace(one_predicted, prediction=prediction), predicted)
    assert said == "mean 23.2 → 22.8 ms/step, 1.02x (1.00–1.05x), may not be faster"


def test_the_step_of_the_recording_stands_in_for_that_of_the_replay(one_predicted: Report) -> None:
    prediction = replace(of(one_predicted), step_time_s=None, step_time_mean_s=None)
    step, mean = Estimate(1.7, 1.76, 1.8), Estimate(1.7, 1.78, 1.8)
    said = with_worth(replace(one_predicted, prediction=prediction), Predicted(step, mean, Estimate(1.4, 1.5, 1.6)))
    assert said == "176 ms → 1.76 s/step, 1.5x (1.4–1.6x)"


def test_where_no_step_time_is_known_the_speedup_is_told(predicted: Report) -> None:
    prediction = replace(of(predicted), step_time_s=None, step_time_mean_s=None)
    summary = replace(predicted.summary, step_time_s=None, step_time_mean_s=None)
    text = render(replace(predicted, summary=summary, prediction=prediction), width=110)
    assert "     worth   1.5x (1.4–1.6x) · one argument · sure\n" in text
    assert "  first  input.workers_zero  34% of today's step\n" in text


def test_a_replayed_step_that_differs_from_the_recorded_one_is_told(one_predicted: Report) -> None:
    assert "predicted:" not in render(one_predicted)
    prediction = replace(of(one_predicted), step_time_mean_s=0.2)
    text = render(replace(one_predicted, prediction=prediction))
    assert "predicted: the mean step takes 200 ms replayed as it is, 178 ms recorded" in text


def test_ranks_that_were_not_recorded_are_told(one_predicted: Report) -> None:
    text = render(replace(one_predicted, prediction=replace(of(one_predicted), local=True)))
    assert "predicted: what ranks wait for each other is held as it is, since not all were recorded" in text


@pytest.mark.parametrize(
    ("idle", "then", "said"),
    [
        (0.18, "host.launch_bound", "the next limit is host.launch_bound (18% idle)"),
        (0.02, "", "the GPU is the limit (2% idle)"),
        (0.18, "", "no other fix found here saves more (18% idle)"),
        (None, "", "no other fix found here saves more"),
    ],
)
def test_what_comes_next(idle: float | None, then: str, said: str, one_predicted: Report) -> None:
    (applied,) = of(one_predicted).sequence
    applied = replace(applied, then=then, predicted=replace(applied.predicted, gpu_idle_share=idle))
    text = render(replace(one_predicted, prediction=replace(of(one_predicted), sequence=(applied,))), width=110)
    assert f"     then    {said}\n" in text


def test_what_is_needless_after_the_others_is_told(predicted: Report) -> None:
    text = render(predicted, everything=True)
    assert text.count("nothing more to gain once those in the order below are fixed") == 1
    first = of(predicted).sequence[0]
    only = replace(predicted, prediction=replace(of(predicted), sequence=(replace(first, then=""),)))
    assert render(only, everything=True).count("nothing more to gain once input.workers_zero is fixed") == 3
    open_ended = replace(predicted, prediction=replace(of(predicted), sequence=(first,)))
    assert "nothing more to gain" not in render(open_ended, everything=True)


def test_savings_are_not_added(predicted: Report) -> None:
    """What each adds starts where the one before it led; what it saves alone says so."""
    text = render(predicted, width=110, everything=True)
    rows = re.findall(r"^  (?:first|then ) .* (\d+) → (\d+) ms/step$", text, flags=re.M)
    assert rows == [("176", "117"), ("117", "98"), ("98", "90")]
    assert "all three: 176 → 90 ms/step" in text
    assert re.findall(r"worth   176 → (\d+) ms/step alone", text) == ["150", "170", "172"]
    assert "shares overlap" not in text


def test_what_a_prediction_assumes(predicted: Report) -> None:
    assert "assumes" not in render(predicted)
    assert "assumes host time between launches falls to 0.2 of itself" in render(predicted, everything=True)


def test_a_fix_other_than_the_first_says_which_it_is(many: Report, one_predicted: Report) -> None:
    finding = many.findings[1]  # whose first fix nobody predicted
    gain = of(one_predicted).sequence[0].predicted
    fixes = (finding.fixes[0], replace(finding.fixes[1], predicted=gain))
    report = replace(one_predicted, findings=(replace(finding, fixes=fixes),), prediction=Prediction())
    assert "     worth   tf32: 176 → 117 ms/step, 1.5x (1.4–1.6x) · a setting · sure\n" in render(report, width=110)


def test_what_is_worth_that_much_stands_beside_it(many: Report, one_predicted: Report) -> None:
    """Where there is room for one change only, it is the one that the number is of."""
    finding = many.findings[1]
    first, other = replace(finding.fixes[0], change="first()"), replace(finding.fixes[1], change="other()")
    gain = of(one_predicted).sequence[0].predicted
    found = replace(finding, fixes=(first, replace(other, predicted=gain)))
    report = replace(one_predicted, findings=(found,), prediction=Prediction())
    for lines in (compact(1, found, report, 110), finding_lines(1, found, report, 110, Room(1, 6, 0, others=False))):
        text = "\n".join(line.plain for line in lines)
        assert "other()" in text
        assert "first()" not in text


def test_a_gpu_that_is_busy_with_collectives_is_not_the_limit(one_predicted: Report) -> None:
    (applied,) = of(one_predicted).sequence
    applied = replace(applied, then="", predicted=replace(applied.predicted, gpu_idle_share=0.02))
    report = replace(
        one_predicted,
        prediction=replace(of(one_predicted), sequence=(applied,)),
        summary=replace(one_predicted.summary, collective_exposed_share=0.3),
    )
    assert "     then    the GPU is busy, collectives and all (2% idle)\n" in render(report, width=110)


def test_do_nothing_is_not_said_of_what_nobody_could_predict(predicted: Report) -> None:
    same = Estimate(0.176, 0.176, 0.176)
    fix = replace(predicted.findings[0].fixes[0], predicted=Predicted(same, same, Estimate(0.99, 1.0, 1.01)))
    tried = replace(predicted.findings[0], fixes=(fix,))
    busy = replace(predicted.summary, gpu_idle_share=0.021, idle_by_cause={"gc": 0.021})
    none = replace(of(predicted), sequence=(), joint=None)
    report = replace(predicted, summary=busy, findings=(tried, LOST), prediction=none)
    assert "Do nothing" not in render(report)
    assert "Do nothing" in render(replace(report, findings=(tried,)))
    waits = replace(report, findings=(tried,), summary=replace(busy, collective_wait_share=0.2))
    assert "Do nothing" not in render(waits)


def test_nothing_to_do(predicted: Report, healthy: Report) -> None:
    none = replace(of(predicted), sequence=(), joint=None)
    same = Estimate(0.176, 0.176, 0.176)
    finding = predicted.findings[0]
    fix = replace(finding.fixes[0], predicted=Predicted(same, same, Estimate(0.99, 1.0, 1.01)))
    report = replace(predicted, findings=(replace(finding, fixes=(fix,)),), prediction=none)
    assert "No fix of these that could be predicted makes the step 1% shorter." in render(report)
    busy = replace(report, summary=replace(report.summary, gpu_idle_share=0.021, idle_by_cause={"gc": 0.021}))
    assert "Do nothing: the GPU is the limit (2% idle)." in render(busy)
    healthy = replace(healthy, warnings=(), prediction=none)
    assert len(render(healthy).strip().splitlines()) == 1
    assert "Do nothing: the GPU is the limit (2% idle)." in render(healthy, everything=True)
    refused = replace(predicted, findings=(LOST,), prediction=Prediction(refused="too few steps"))
    assert "makes the step faster" not in render(refused)


LOST = Finding("host.gc_pause", "high", 0.9, "The collector runs.", 0.3)


def test_what_somebody_asked(asked: Report) -> None:
    (answer,) = of(asked).asked

    def said(*asked_for: Asked) -> str:
        return flat(render(replace(asked, prediction=replace(of(asked), asked=asked_for)), width=120))

    assert "with input.workers_zero and sync.scalar_read: 176 → 101 ms/step, 1.7x (1.6–1.9x) host.numa: not" in said(
        answer
    )
    assert "host.numa: not found in this recording busy" in said(Asked(("host.numa",), None, "nothing of it was found"))
    why = "with input.workers_zero: not predicted: it was not replayed busy"
    assert why in said(Asked(("input.workers_zero",), None, "it was not replayed."))
    part = replace(answer, rules=(*answer.rules[:2], "host.gc_pause"), why_not="host.gc_pause has no price")
    assert "with input.workers_zero, sync.scalar_read and host.gc_pause: 176 → 101" in said(part)
    assert "(1.6–1.9x). host.gc_pause has no price" in said(part)


def test_a_refusal_is_said_once(refused: Report) -> None:
    why = of(refused).refused
    assert flat(render(refused)).count(why) == 1
    answer = Asked(("input.workers_zero",), None, why)
    text = flat(render(replace(refused, prediction=replace(of(refused), asked=(answer,)))))
    assert text.count(why.rstrip(".")) == 1
    assert "lost 34% of the step" in text


def test_a_healthy_job_does_not_hear_of_predictions(healthy: Report) -> None:
    report = replace(healthy, warnings=(), prediction=Prediction(refused="too few steps"))
    assert len(render(report).strip().splitlines()) == 1


def test_a_job_without_a_gpu(watched_cpu: Report) -> None:
    finding = watched_cpu.findings[0]
    step, mean = Estimate(0.06, 0.066, 0.07), Estimate(0.072, 0.078, 0.083)
    fix = replace(finding.fixes[0], predicted=Predicted(step, mean, Estimate(1.42, 1.51, 1.63)))
    made = Applied(finding.rule, fix.title, fix.predicted, 0.34, "")
    told = Prediction(source="the loader's records", step_time_s=0.1, step_time_mean_s=0.118, sequence=(made,))
    text = render(replace(watched_cpu, findings=(replace(finding, fixes=(fix,)),), prediction=told))
    assert "worth   100 → 66 ms/step, 1.5x (1.4–1.6x)" in text
    assert "then    no other fix found here saves more\n" in text


EVIL = "\x1b[31mred\x1b]0;title\x07[bold]markup[/bold]\x9b2J\u202e\r\n\ud800:smile:"


def test_text_from_files_is_only_text(asked: Report) -> None:
    told = of(asked)
    sequence = tuple(replace(applied, rule=EVIL + applied.rule, title=EVIL, then=EVIL) for applied in told.sequence)
    finding = replace(asked.findings[1], rule=sequence[0].rule)
    fix = finding.fixes[0]
    assert fix.predicted is not None
    finding = replace(finding, fixes=(replace(fix, title=EVIL, predicted=replace(fix.predicted, rests_on=(EVIL,))),))
    prediction = replace(
        told,
        sequence=sequence,
        source=EVIL,
        critical_path={EVIL: 0.5},
        unpriced={EVIL: EVIL},
        asked=(Asked((EVIL, finding.rule), None, EVIL),),
    )
    for everything in (True, False):
        for found in (prediction, Prediction(refused=EVIL)):
            text = render(replace(asked, findings=(finding,), prediction=found), everything=everything)
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800\xa0]", text)
            assert "red[bold]markup[/bold]" in text
            text.encode("utf-8")


seconds = st.floats(1e-6, 1e4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(seconds, seconds, st.floats(0.0, 1.0) | st.none()), min_size=1, max_size=7),
    st.floats(0.0, 0.5),
    st.sampled_from([60, 80, 120]),
)
def test_any_prediction_fits(
    one_predicted: Report, times: list[tuple[float, float, float | None]], spread: float, width: int
) -> None:
    """However the numbers lie: no line is too long, no screen too full, nothing reads as not a number."""
    (applied,) = of(one_predicted).sequence

    def estimate(likely: float) -> Estimate:
        return Estimate(likely * (1 - spread), likely, likely * (1 + spread))

    sequence = tuple(
        replace(
            applied, predicted=Predicted(estimate(step), estimate(mean), estimate(0.178 / mean), gpu_idle_share=idle)
        )
        for step, mean, idle in times
    )
    finding = one_predicted.findings[0]
    fix = replace(finding.fixes[0], predicted=sequence[0].predicted)
    prediction = replace(of(one_predicted), sequence=sequence, joint=sequence[-1].predicted)
    report = replace(one_predicted, findings=(replace(finding, fixes=(fix,)),), prediction=prediction)
    lines = render(cost.price(report, 2.60), width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 36
    assert not re.search(r"\b(?:nan|inf)\b|[ $(]-\d", "\n".join(lines))
