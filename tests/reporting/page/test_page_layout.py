"""The page as a browser sets it: wide, narrow, on paper, and reached by a link."""

from __future__ import annotations

import asyncio

import pytest
from browser import CHROMIUM, OFFLINE, opened
from made_page import SENTENCES, contents, heat_map, large, render_html

from initbench.reporting.page.contents import OverviewView

pytestmark = [
    pytest.mark.slow,  # starting a browser takes seconds
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]
OPEN = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
OUTSIDE = """
[...document.querySelectorAll("main *")]
  .filter((element) => !element.closest(".scroll, svg, .unseen"))
  .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((element) => element.outerHTML.slice(0, 200))
"""
OVERLAPS = """
[...document.querySelectorAll(".heat-map td.cell")].filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length
"""
WHOLE = "document.documentElement.scrollWidth <= innerWidth"
MAPS = {
    "quickstart": heat_map(),
    "eight": large(8, 8),
    "twelve": large(12, 12),
    "largest": large(40, 30),
    "long names": large(40, 30, "_" + "x" * 66),
}


def ask(tmp_path, questions, made=None, anchor=""):
    """Return what `questions` (a coroutine of the tab) returns of a page with this map."""
    page = tmp_path / "index.html"
    page.write_text(render_html(contents(overview=OverviewView(SENTENCES, made or heat_map()))), encoding="utf-8")

    async def run():
        async with opened(page.as_uri() + anchor, tmp_path / "profile", network=OFFLINE) as tab:
            answer = await questions(tab)
            assert tab.errors == []
            assert {url.partition("#")[0] for url in tab.requests if not url.startswith("about:")} == {page.as_uri()}
            return answer

    return asyncio.run(run())


async def resize(tab, width, height=800):
    await tab.send(
        "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
    )


@pytest.mark.parametrize("name", MAPS)
def test_the_page_never_scrolls_sideways_and_no_cell_runs_over(tmp_path, name):
    async def questions(tab):
        await tab.evaluate(OPEN)
        answers = []
        for width in (390, 800, 1280):
            await resize(tab, width)
            answers.append([await tab.evaluate(question) for question in (OUTSIDE, OVERLAPS, WHOLE)])
        return answers

    assert ask(tmp_path, questions, MAPS[name]) == [[[], 0, True]] * 3


def test_the_first_screen_has_the_sentences_the_map_and_the_first_questions(tmp_path):
    async def questions(tab):
        await resize(tab, 1280)
        return await tab.evaluate(
            "[...document.querySelectorAll('.happened, .heat, .section > summary')]"
            ".map((element) => element.getBoundingClientRect().bottom)"
        )

    bottoms = ask(tmp_path, questions)
    assert len([bottom for bottom in bottoms if bottom <= 800]) >= 2 + 3


def test_on_a_narrow_screen_the_two_last_columns_go(tmp_path):
    async def questions(tab):
        shown = "[...document.querySelectorAll('.heat-map .side')].filter((cell) => cell.offsetWidth).length"
        await resize(tab, 1280)
        wide = await tab.evaluate(shown)
        await resize(tab, 390)
        return wide, await tab.evaluate(shown)

    assert ask(tmp_path, questions) == (2 * (1 + 4), 0)


def test_names_stay_in_sight_while_a_large_map_scrolls(tmp_path):
    async def questions(tab):
        await resize(tab, 1280)
        return await tab.evaluate(
            "(() => { const box = document.querySelector('.heat .scroll'); box.scrollLeft = 500;"
            " const name = box.querySelector('tbody th').getBoundingClientRect();"
            " return [box.scrollLeft, Math.round(name.left - box.getBoundingClientRect().left), box.tabIndex]; })()"
        )

    assert ask(tmp_path, questions, large(40, 30)) == [500, 0, 0]


@pytest.mark.parametrize(("anchor", "section"), [("#cost", "cost"), ("#word-seed", "reading"), ("#no%ZZ", None)])
def test_a_link_opens_the_section_it_leads_to(tmp_path, anchor, section):
    async def questions(tab):
        return await tab.evaluate("[...document.querySelectorAll('.section[open]')].map((section) => section.id)")

    assert ask(tmp_path, questions, anchor=anchor) == ([section] if section else [])


def test_on_paper_everything_is_open_but_what_is_very_long(tmp_path):
    async def questions(tab):
        closed = "document.querySelectorAll('details:not([open])').length"
        before = await tab.evaluate(closed)
        await tab.evaluate("dispatchEvent(new Event('beforeprint'))")
        during = await tab.evaluate("[...document.querySelectorAll('details:not([open])')].map((d) => d.className)")
        await tab.evaluate("dispatchEvent(new Event('afterprint'))")
        return before, during, await tab.evaluate(closed)

    before, during, after = ask(tmp_path, questions)
    assert during == ["table long"]
    assert before == after > 8


def test_in_print_closed_sections_show_without_a_script(tmp_path):
    async def questions(tab):
        await tab.send("Emulation.setEmulatedMedia", media="print")
        await tab.drawn()
        return await tab.evaluate(
            "[...document.querySelectorAll('.section:not([open]) > p')].map((p) => p.checkVisibility({"
            "contentVisibilityAuto: true}) && p.getBoundingClientRect().height > 0)"
        )

    shown = ask(tmp_path, questions)
    assert shown
    assert all(shown)
