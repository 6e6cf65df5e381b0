"""The report of a ledger as a browser without a network shows it."""

from __future__ import annotations

import asyncio

import pytest
from browser import CHROMIUM, OFFLINE, opened
from ledgers import KAIMING, PLAIN, make_record, make_spec, quickstart_records, write_ledger

from initbench.reporting.report import write_report

pytestmark = [
    pytest.mark.slow,  # starting a browser takes seconds
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]
HOSTILE = "</script><script>document.title = 'taken'</script>"
DRAWN = """
[...document.querySelectorAll("figure svg")].map(
  (svg) => svg.getBoundingClientRect().width > 100 && svg.querySelectorAll("path[aria-label]").length > 0)
"""
COLUMN = """
[...document.querySelectorAll("#trials tbody tr")].map((row) => row.cells[{0}].textContent)
"""
OPEN = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
OUTSIDE = """
[...document.querySelectorAll("main *")]
  .filter((element) => !element.closest(".scroll, svg, .unseen"))
  .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((element) => element.outerHTML)
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The made-up quickstart, a second depth, a failed trial, and an initializer with a hostile name."""
    folder = tmp_path_factory.mktemp("ledger")
    deeper = [make_record(make_spec(KAIMING, PLAIN | {"depth": 56}, seed), 0.5) for seed in range(3)]
    hostile = [make_record(make_spec({"name": HOSTILE}, seed=seed), 0.3) for seed in range(3)]
    failed = make_record(make_spec(KAIMING, seed=9), status="failed")
    write_ledger(folder, [*quickstart_records(), *deeper, *hostile, failed])
    return write_report(folder).page


def ask(page, tmp_path, questions, **options):
    """Return what `questions` (a coroutine of the tab) returns, after checking that the page is quiet and alone."""

    async def run():
        async with opened(page.as_uri(), tmp_path, network=OFFLINE, **options) as tab:
            answer = await questions(tab)
            assert tab.errors == []
            assert {url for url in tab.requests if not url.startswith("about:")} == {page.as_uri()}
            return answer

    return asyncio.run(run())


def test_charts_are_drawn_and_nothing_is_fetched(page, tmp_path):
    async def questions(tab):
        await tab.evaluate(OPEN)
        return await tab.evaluate(DRAWN), await tab.evaluate("document.title")

    drawn, title = ask(page, tmp_path, questions)
    assert len(drawn) == len(list((page.parent / "figures").iterdir()))
    assert all(drawn)
    assert title == "made-up · initbench"


def test_the_table_of_trials_sorts_and_filters(page, tmp_path):
    async def questions(tab):
        headings = await tab.evaluate('[...document.querySelectorAll("#trials th")].map((cell) => cell.textContent)')
        error, initializer = headings.index("Test error"), headings.index("Initializer")
        press = f'document.querySelectorAll("#trials th button")[{error}].click()'
        columns = []
        for _ in range(2):
            await tab.evaluate(press)
            columns.append(await tab.evaluate(COLUMN.format(error)))
        await tab.evaluate(
            "var words = document.getElementById('trials-words'); words.value = 'metainit wrn';"
            "words.dispatchEvent(new Event('input'))"
        )
        found = await tab.evaluate(COLUMN.format(initializer))
        return columns, found, await tab.evaluate("document.getElementById('trials-shown').textContent")

    (rising, falling), found, shown = ask(page, tmp_path, questions)
    values = [float(text.split()[0]) for text in rising if text != "–"]
    assert values == sorted(values)
    assert rising[-2:] == falling[-2:] == ["–", "–"]  # one diverged, one failed
    assert [text for text in falling if text != "–"] == [f"{value:.2f} %" for value in sorted(values)[::-1]]
    assert found == ["metainit (from delta_orthogonal)"] * 3
    assert shown == "3 of 3 (of 31) trials shown"


def test_nothing_but_what_scrolls_is_wider_than_the_screen(page, tmp_path):
    async def questions(tab):
        await tab.evaluate(OPEN)
        found = {}
        for width in (360, 390, 1200):
            await tab.send(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
            )
            found[width] = await tab.evaluate(OUTSIDE)
        return found

    assert ask(page, tmp_path, questions) == {360: [], 390: [], 1200: []}


def test_the_first_screen_has_every_sentence_and_the_whole_map(page, tmp_path):
    async def questions(tab):
        await tab.send("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
        return await tab.evaluate(
            "[...document.querySelectorAll('.happened li, .heat-map tbody tr')]"
            ".map((element) => element.getBoundingClientRect().bottom)"
        )

    bottoms = ask(page, tmp_path, questions)
    assert len(bottoms) >= 2 + 5
    assert max(bottoms) <= 800


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_text_and_axes_follow_the_colour_scheme(page, tmp_path, scheme, dark):
    async def questions(tab):
        await tab.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return [
            await tab.evaluate(f"getComputedStyle({element}).{which}")
            for element, which in (
                ("document.body", "backgroundColor"),
                ("document.body", "color"),
                ('document.querySelector("figure svg text")', "fill"),
            )
        ]

    ground, text, axis = (
        sum(int(part) for part in colour.strip("rgb()").split(",")) / 3 for colour in ask(page, tmp_path, questions)
    )
    assert (ground < text) == dark
    assert abs(ground - text) > 150
    assert axis == text
