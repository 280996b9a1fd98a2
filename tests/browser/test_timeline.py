"""The timeline in a real browser: hands, keys, jumps, links, paper, and what a frame costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from markupsafe import Markup

import whyidle
from tests.browser.pages import made
from tests.browser.waiting import until
from tests.drawn import STEP, crowded
from whyidle.model.picture import Picture
from whyidle.render.html.page import page as html_of
from whyidle.render.html.section import Section

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.browser.chromium import OpenPage

ISLAND = '<div data-island="timeline"{}>without scripts</div>'
LINK = '<p><a href="#timeline" data-timeline="{}" data-start="{}" data-end="{}">the longest gap</a></p>'


def html(picture: Picture, *, align: bool = False, link: tuple[int, int, int] = (0, 2 * STEP, 3 * STEP)) -> str:
    island = ISLAND.format(' data-align="step"' if align else "")
    parts = [Section("verdict", "", Markup(LINK.format(*link))), Section("timeline", "Timeline", Markup(island))]
    return html_of("A crowded page", parts, "{}", picture)


@pytest.fixture(scope="module")
def small() -> Picture:
    return crowded(3000, steps=10)


def stage(page: Page, at: int = 0) -> Locator:
    return page.locator(".tl-stage canvas").nth(at)


def place(page: Page) -> tuple[int, int, int]:
    """Return the timeline and the span that the address names, once it has been still for a while."""
    until(page, "location.hash.startsWith('#t=')")
    before = ""
    while before != (now := page.evaluate("location.hash")):
        before = now
        page.wait_for_timeout(400)
    found = re.fullmatch(r"#t=(\d+):(-?\d+)-(-?\d+)(?:;m=-?\d+-\d+)?", before)
    assert found, before
    return int(found[1]), int(found[2]), int(found[3])


def press(page: Page, *keys: str) -> None:
    page.emulate_media(reduced_motion="reduce")  # a movement takes no time
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(50)  # it is drawn in the next frame


def test_a_jump_shows_the_gap_with_room_around_it_and_takes_the_focus(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    page.get_by_role("link", name="the longest gap").click()
    _, start, end = place(page)
    assert 1.2 * STEP < start < 2 * STEP
    assert 3 * STEP < end < 3.8 * STEP
    assert page.evaluate("document.activeElement.getAttribute('aria-roledescription')") == "timeline"
    assert "the longest gap" in page.locator(".tl-said").inner_text()


def test_a_jump_to_another_rank_shows_that_rank(open_page: OpenPage) -> None:
    page = open_page(html(crowded(4000, steps=10, ranks=3), link=(2, 5 * STEP, 6 * STEP)))
    page.get_by_role("link", name="the longest gap").click()
    timeline, start, end = place(page)
    assert timeline == 2
    assert start < 5 * STEP < 6 * STEP < end
    assert page.get_by_label("Timeline shown").input_value() == "2"


def test_a_wheel_scrolls_the_page_and_zooms_with_control(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small), 1280)
    page.set_viewport_size({"width": 1280, "height": 300})
    stage(page).scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 0)")
    box = stage(page).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.wheel(0, 100)
    until(page, "scrollY > 0")
    assert page.evaluate("location.hash") == ""
    box = stage(page).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    _, start, end = place(page)
    assert 0 < start < end < 10 * STEP


def test_keys_zoom_move_and_fit(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    stage(page).focus()
    press(page, "w", "w")
    _, start, end = place(page)
    assert end - start == pytest.approx(10 * STEP / 1.6**2, rel=0.01)
    press(page, "d")
    _, later, _ = place(page)
    assert later - start == pytest.approx(0.2 * (end - start), rel=0.02)
    press(page, "f")
    assert place(page)[1:] == (0, 10 * STEP)
    press(page, "?")
    assert page.get_by_text("zoom to a slice").is_visible()


def test_keys_go_from_slice_to_slice_and_say_each(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    stage(page).focus()
    detail = page.locator(".tl-detail")
    press(page, "ArrowDown")
    assert "step" in detail.inner_text()
    press(page, "]")
    second = detail.inner_text()
    assert second.startswith("step 2 100 ms")
    press(page, "ArrowDown")
    assert re.search(r"idle by cause .* step \d+, .*% of it", detail.inner_text())
    assert detail.get_attribute("aria-live") == "polite"
    press(page, "Enter")
    _, start, end = place(page)
    assert end - start < STEP
    press(page, "Escape")
    page.get_by_text(" shown").wait_for()


def test_the_pointer_tells_what_is_under_it_and_a_drag_moves(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    stage(page).focus()
    press(page, "w", "w")
    box = stage(page).bounding_box()
    page.mouse.move(box["x"] + 500, box["y"] + 36)
    assert "step" in page.locator(".tl-tip").inner_text()
    _, before, _ = place(page)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 36, steps=4)
    page.mouse.up()
    assert place(page)[1] > before


def test_a_drag_on_the_ruler_chooses_a_range(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    box = stage(page).bounding_box()
    left, width = box["x"] + 162, box["width"] - 162
    page.mouse.move(left + width * 0.3, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(left + width * 0.5, box["y"] + 10, steps=4)
    page.mouse.up()
    _, start, end = place(page)
    assert (start, end) == (pytest.approx(3 * STEP, rel=0.02), pytest.approx(5 * STEP, rel=0.02))


def test_a_search_counts_and_goes_from_hit_to_hit(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    stage(page).focus()
    press(page, "/")
    page.keyboard.type("kernel_3<")
    lane = [lane for lane in small.timelines[0].lanes if lane.kind == "stream"]
    names = small.timelines[0].names
    hits = sum("kernel_3<" in names[code] for one in lane for code in one.name.tolist())
    page.get_by_text(f"{hits} slices").wait_for()
    press(page, "Enter", "Enter")
    assert page.get_by_text(f"2 of {hits} slices").is_visible()
    assert page.locator(".tl-detail").inner_text().startswith("void kernel_3<")


def test_a_hit_in_a_row_that_is_folded_away_is_shown(open_page: OpenPage, small: Picture) -> None:
    timeline = small.timelines[0]
    lanes = tuple(
        replace(lane, name=np.where(lane.depth == 5, len(timeline.names), lane.name)) for lane in timeline.lanes
    )
    page = open_page(html(Picture((replace(timeline, lanes=lanes, names=(*timeline.names, "far down")),))))
    page.set_viewport_size({"width": 1280, "height": 300})
    assert page.get_by_role("button", name="+2 rows").count() == 3
    page.get_by_label("Find slices by name").fill("far down")
    page.keyboard.press("Enter")  # before the search has looked by itself
    page.get_by_text("1 of ").wait_for()
    assert page.get_by_role("button", name="fold").count() == 1
    bottom = stage(page).bounding_box()["y"] + stage(page).bounding_box()["height"]
    assert bottom > 0, "it is scrolled to"
    stage(page).focus()
    press(page, "N")
    count = page.locator(".tl-search [role=status]").inner_text()
    assert re.match(r"(\d+) of \1 slices", count), "the one before the first is the last"
    press(page, "Escape", "Escape")
    assert page.get_by_label("Find slices by name").input_value() == ""
    assert page.locator(".tl-search [role=status]").inner_text() == ""


def test_a_kernel_called_as_a_property_of_every_object_breaks_no_search(open_page: OpenPage, small: Picture) -> None:
    timeline = small.timelines[0]
    names = tuple("constructor" if "kernel_3<" in name else name for name in timeline.names)
    page = open_page(html(Picture((replace(timeline, names=names),))))
    page.get_by_label("Find slices by name").fill("kernel_4<")
    page.locator(".tl-search [role=status]").get_by_text(" slices").wait_for()


def test_the_legend_has_the_causes_in_view_and_what_they_mean(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    entry = page.get_by_role("button", name="waiting for data")
    assert "DataLoader" in entry.get_attribute("title")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "true"
    shares = [float(text[:-1]) for text in page.locator(".tl-legend .tl-soft").all_inner_texts()]
    said = re.search(r"idle (\d+)%", page.locator(".tl-detail").inner_text())
    assert said
    assert sum(shares) == pytest.approx(float(said[1]), abs=1.5)


def test_a_link_shows_what_it_was_copied_from(open_page: OpenPage) -> None:
    text = html(crowded(4000, steps=10, ranks=2))
    page = open_page(text, anchor=f"t=1:{3 * STEP}-{4 * STEP}")
    assert page.get_by_label("Timeline shown").input_value() == "1"
    page.get_by_text("100 ms shown").wait_for()
    stage(page).focus()
    press(page, "a")
    timeline, start, end = place(page)
    assert (timeline, end - start) == (1, STEP)
    assert start == pytest.approx(2.8 * STEP, rel=0.01)


def test_the_view_is_saved_as_a_trace_that_other_viewers_read(
    open_page: OpenPage, small: Picture, tmp_path: Path
) -> None:
    page = open_page(html(small), anchor=f"t=0:{3 * STEP}-{4 * STEP}")
    with page.expect_download() as download:
        page.get_by_role("button", name="trace JSON").click()
    saved = json.loads(download.value.path().read_text("utf-8"))
    slices = [event for event in saved["traceEvents"] if event["ph"] == "X"]
    names = {event["args"]["name"] for event in saved["traceEvents"] if event["name"] == "thread_name"}
    assert names == {lane.title for lane in small.timelines[0].lanes}
    inside = sum(int(((lane.end > 3 * STEP) & (lane.start < 4 * STEP)).sum()) for lane in small.timelines[0].lanes)
    assert len(slices) == inside
    assert all(event["ts"] * 1000 < 4 * STEP and (event["ts"] + event["dur"]) * 1000 > 3 * STEP for event in slices)


def test_the_saved_view_can_be_judged(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(made("demo").html)
    with page.expect_download() as download:
        page.get_by_role("button", name="trace JSON").click()
    saved = tmp_path / "view.json"
    download.value.save_as(saved)
    report, whole = whyidle.diagnose(saved), made("demo").report
    assert report.summary.steps == whole.summary.steps
    assert report.summary.gpu_idle_share == pytest.approx(whole.summary.gpu_idle_share, abs=0.005)
    assert report.summary.step_time_s == pytest.approx(whole.summary.step_time_s, rel=0.001)


def test_two_timelines_show_the_same_steps(open_page: OpenPage) -> None:
    before, after = crowded(2000, steps=10).timelines[0], crowded(2000, steps=20, seed=8).timelines[0]
    picture = Picture((replace(before, title="before"), replace(after, title="after", end=after.end // 2)))
    page = open_page(html(picture, align=True))
    assert page.locator(".tl-name").all_inner_texts() == ["before", "after"]
    stage(page, 1).focus()
    press(page, "w", "w")
    told = "[...document.querySelectorAll('.tl-stage canvas')].map((c) => c.ariaLabel.split(': ')[1])"
    until(page, f"{told}[1].startsWith('0.3') && {told}[0] === {told}[1]")


def test_what_is_deep_is_folded_until_asked_for(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    before = stage(page).bounding_box()["height"]
    page.get_by_role("button", name="+2 rows").first.click()
    until(page, f"document.querySelector('.tl-stage canvas').getBoundingClientRect().height > {before}")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_never_makes_the_page_wider(open_page: OpenPage, small: Picture, width: int) -> None:
    page = open_page(html(small), width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    press(page, "Tab")
    page.set_viewport_size({"width": width - 60, "height": 800})
    until(page, "document.documentElement.scrollWidth <= innerWidth")


def test_paper_is_light_and_sharp(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small), theme="dark")
    # By way of a canvas of its own: the browser warns of one that is read more than once.
    corner = """() => {
        const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        copy.drawImage(document.querySelector(".tl-stage canvas"), 0, 0);
        return [...copy.getImageData(0, 0, 1, 1).data];
    }"""
    assert sum(page.evaluate(corner)[:3]) < 200
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(corner)[:3] == [255, 255, 255]
    sharp = "() => { const c = document.querySelector('.tl-stage canvas'); return c.width / c.clientWidth; }"
    assert page.evaluate(sharp) == pytest.approx(3, rel=0.01)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert sum(page.evaluate(corner)[:3]) < 200


def test_frames_are_counted_and_each_draws_few_rectangles(open_page: OpenPage) -> None:
    page = open_page(html(crowded(100_000)))
    page.evaluate(
        """() => {
            window.rectangles = 0;
            const draw = CanvasRenderingContext2D.prototype.fillRect;
            CanvasRenderingContext2D.prototype.fillRect = function (...args) {
                window.rectangles++;
                draw.apply(this, args);
            };
        }"""
    )
    stage(page).focus()
    before = page.evaluate("whyidle.frames.length")
    page.evaluate("dispatchEvent(new Event('whyidle-theme'))")
    until(page, f"whyidle.frames.length > {before}")
    rows = 1 + 1 + 2 + 3 * 4
    # Each pixel of a row once; of idle time, once for each of its causes at most.
    assert page.evaluate("rectangles") < (rows + 15) * 1280


def touch(page: Page, *paths: list[tuple[float, float]]) -> None:
    """Move fingers, each along its path, and lift them."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    for at, points in enumerate(zip(*paths, strict=True)):
        fingers = [{"x": x, "y": y, "id": finger} for finger, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": "touchMove" if at else "touchStart", "touchPoints": fingers})
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_swipe_up_is_the_pages_and_a_pinch_the_timelines(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small), 390)
    page.set_viewport_size({"width": 390, "height": 400})
    page.evaluate("scrollTo(0, 0)")
    box = stage(page).bounding_box()
    x, y = box["x"] + 170, min(box["y"] + 60, 380)
    touch(page, [(x, y - 8 * step) for step in range(12)])
    until(page, "scrollY > 20")
    assert page.evaluate("location.hash") == ""
    y = stage(page).bounding_box()["y"] + 60
    touch(page, [(x - 20 - 8 * step, y) for step in range(10)], [(x + 20 + 8 * step, y) for step in range(10)])
    _, start, end = place(page)
    assert end - start < 5 * STEP


def test_a_swipe_up_on_the_strip_is_the_pages_too(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small), 390, anchor=f"t=0:{3 * STEP}-{4 * STEP}")
    page.set_viewport_size({"width": 390, "height": 400})
    page.evaluate("scrollTo(0, 0)")
    before = page.evaluate("location.hash")
    box = page.locator(".tl-mini").bounding_box()
    x, y = box["x"] + 40, box["y"] + 17
    touch(page, [(x, y - 8 * step) for step in range(12)])
    until(page, "scrollY > 20")
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == before
    y = page.locator(".tl-mini").bounding_box()["y"] + 17
    touch(page, [(x, y)])
    assert place(page)[1] < 2 * STEP, "a tap moves the window there"


def test_a_new_width_is_no_error(open_page: OpenPage, small: Picture) -> None:
    page = open_page(html(small))
    page.evaluate("window.faults = []; addEventListener('error', (event) => faults.push(event.message))")
    for width in (1280, 390, 800, 500, 1280):
        page.set_viewport_size({"width": width, "height": 700})
        until(page, "(({ width, clientWidth }) => width === clientWidth)(document.querySelector('.tl-stage canvas'))")
    assert page.evaluate("faults") == []


def test_hostile_names_are_names(open_page: OpenPage) -> None:
    names = (
        '</script><img src=x onerror="document.title=1">',
        "x" * 10_000,
        "\u202eשלב\u2066",
        "\x00\n\x1b[31m",
    )
    picture = crowded(600, steps=10)
    timeline = picture.timelines[0]
    lanes = tuple(
        replace(lane, title=names[0] + "y" * 300) if lane.kind == "stream" else lane for lane in timeline.lanes
    )
    first = timeline.names.index("void kernel_0<float, 0>(float*, int)")
    hostile = (*timeline.names[:first], *(names * 10), *timeline.names[first + 40 :])
    page = open_page(
        html(Picture((replace(timeline, title=names[2], names=hostile, lanes=lanes, note=names[0]),))), 390
    )
    assert page.title() == "A crowded page"
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    stage(page).focus()
    press(page, "ArrowDown", "ArrowDown", "ArrowDown", "]", "]", "]", "]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_slices_there_is_no_timeline(open_page: OpenPage, small: Picture) -> None:
    empty = replace(small.timelines[0], lanes=(), names=())
    page = open_page(html(Picture((empty,))))
    assert stage(page).is_visible()
    page = open_page(html(Picture()))
    assert page.get_by_text("without scripts").is_visible()
