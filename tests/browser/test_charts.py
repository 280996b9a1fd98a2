"""Charts answer to mouse and keys, keep together by group, follow the theme, and are paths on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.render.html.charted import drawing, gpus, report, spread
from whyidle.render.base import Look
from whyidle.render.html import Html

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.browser.chromium import OpenPage
    from whyidle.model.finding import Report


def html(shown: Report) -> str:
    return Html().render(shown, Look())


def alive(page: Page, index: int) -> Locator:
    """Scroll to a chart, and wait until it is more than its drawing."""
    figure = page.locator(f"figure[data-chart='{index}']")
    figure.scroll_into_view_if_needed()
    page.wait_for_selector(f"figure[data-chart='{index}'].chart-lively")
    return figure


def point(page: Page, figure: Locator, share: float) -> None:
    """Move the mouse over a chart, to a share of its width."""
    box = figure.locator(".u-over").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)


def test_pointing_tells_all_values_and_the_mark(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    figure = alive(page, 0)
    point(page, figure, 262 / 1199)
    tip = figure.locator(".chart-tip")
    tip.wait_for(state="visible")
    said = tip.inner_text()
    assert "4:2" in said, "a pixel is 3 s"
    assert "GPU 0" in said
    assert "0%" in said
    assert "checkpoint 1" in said
    assert page.locator("figure[data-chart='1'] .chart-now").inner_text().endswith("MHz"), (
        "a chart of its group follows"
    )


def test_what_was_not_measured_is_said(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    figure = alive(page, 0)
    point(page, figure, 730 / 1199)
    figure.locator(".chart-tip").wait_for(state="visible")
    assert "not measured" in figure.locator(".chart-tip").inner_text()


def test_dragging_zooms_the_group_and_a_double_click_shows_all(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    figure = alive(page, 0)
    other = page.locator("figure[data-chart='6']")
    point(page, figure, 0.2)
    page.mouse.down()
    point(page, figure, 0.5)
    page.mouse.up()
    page.wait_for_selector("figure[data-chart='0'].chart-zoomed")
    alive(page, 6)
    assert "chart-zoomed" in other.get_attribute("class"), "one that was drawn later, too"
    alive(page, 0).locator(".u-over").dblclick()
    page.wait_for_selector("figure[data-chart='0']:not(.chart-zoomed)")
    assert page.locator(".chart-zoomed").count() == 0


def test_keys_walk_zoom_and_return(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    live = alive(page, 7).locator(".chart-live")
    live.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert live.get_attribute("aria-valuetext").startswith("step 2, step ")
    page.keyboard.press("End")
    assert live.get_attribute("aria-valuetext").startswith("step 200, step ")
    page.keyboard.press("+")
    page.wait_for_selector("figure[data-chart='7'].chart-zoomed")
    page.keyboard.press("Escape")
    page.wait_for_selector("figure[data-chart='7']:not(.chart-zoomed)")


def test_a_step_leads_to_its_place_on_the_timeline(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    page.evaluate(
        """() => document.addEventListener("click", (event) => {
            const link = event.target.closest("[data-timeline]");
            if (link) window.followed = [link.textContent, link.dataset.start, link.dataset.end];
        }, true)"""
    )
    figure = alive(page, 7)
    point(page, figure, 50 / 199)
    figure.locator(".u-over").click(
        position={"x": figure.locator(".u-over").bounding_box()["width"] * 50 / 199, "y": 90}
    )
    assert page.evaluate("window.followed") == ["step 51", "6500000000", "6630000000"]


def test_a_distribution_tells_the_bin(open_page: OpenPage) -> None:
    page = open_page(html(drawing(spread())))
    figure = alive(page, 0)
    point(page, figure, 12.5 / 50)
    figure.locator(".chart-tip").wait_for(state="visible")
    assert "123 ms to 125 ms" in figure.locator(".chart-tip").inner_text()


def test_lines_follow_the_theme(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    alive(page, 0)
    pixels = "document.querySelector('figure[data-chart=\"0\"] canvas').toDataURL()"
    before = page.evaluate(pixels)
    page.evaluate("document.documentElement.dataset.theme = 'dark'; dispatchEvent(new Event('whyidle-theme'))")
    page.wait_for_function(f"(before) => {pixels} !== before", arg=before)


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_charts_fit_every_width(open_page: OpenPage, width: int) -> None:
    page = open_page(html(report()), width=width)
    for index in range(9):
        alive(page, index)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 600, "height": 900})
    page.wait_for_function("[...document.querySelectorAll('.chart-live canvas')].every((c) => c.clientWidth <= 600)")


def test_on_paper_and_without_scripts_the_drawing_is_there(open_page: OpenPage) -> None:
    page = open_page(html(report()))
    figure = alive(page, 0)
    assert not figure.locator(".chart-static").is_visible()
    page.emulate_media(media="print")
    assert figure.locator(".chart-static").is_visible()
    assert not figure.locator(".chart-live").is_visible()
    silent = open_page(html(report()), scripts=False)
    assert silent.locator("figure[data-chart='0'] .chart-static").is_visible()
    assert silent.locator("figure[data-chart='0'] path.chart-line").count() == 1


def test_nothing_waits_for_many_charts(open_page: OpenPage) -> None:
    page = open_page(html(drawing(*(gpus(8, 400) for _ in range(40)))))
    page.wait_for_selector(".chart-lively")
    page.wait_for_timeout(300)
    assert page.locator(".chart-lively").count() < 20, "charts that nobody looks at are not drawn"
