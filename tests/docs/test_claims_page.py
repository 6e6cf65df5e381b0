"""The record of claims as a page: every claim once, with its reasons, on the site and on GitHub; and packed ledgers."""

from __future__ import annotations

import asyncio
import html
import importlib
import json
import re
import shlex
import subprocess
import sys
import tarfile
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from browser import CHROMIUM, opened
from markdown_it import MarkdownIt
from pages import DOCS, ROOT
from planted import planted
from ruamel.yaml import YAML
from typer.main import get_command

from initbench.cli.command_line import app
from initbench.cli.request import read_request
from initbench.ledger import Ledger

SCRIPTS = ("claims_page", "pack_ledger")
CLAIM = "metainit-t1-plain28-deltaorth-fails"
MOST_LEFT = 5
RUN = re.compile(r"(tar -xf (?P<archive>\S+) suite\.yaml && )?initbench run (?P<arguments>.*)")
MEASURE = "python tests/claims/measure_laws.py --only "
HOSTILE = "`x < y`, a_b_c *d* [e](f) <script>g</script> & {: #h } |i| $j$ ~k~ \\l # ` &amp;"


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    sys.path.remove(str(DOCS / "scripts"))
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture(scope="module")
def record():
    return json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page():
    return (DOCS / "claims.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def rows(page):
    """The text of each row with what it unfolds to, by the claim's id; in a list, for a claim could be there twice."""
    return re.findall(r'^<details class="claim" id="([a-z0-9-]+)"(.*?)^</details>$', page, re.DOTALL | re.MULTILINE)


# ---------------------------------------------------------------- What the page says


def test_each_entry_of_a_claims_log_leads_to_the_next_and_the_last_to_the_verdict(record):
    verdicts = {claim["id"]: claim["verdict"] for claim in record["claims"]}
    assert [entry["date"] for entry in record["log"]] == sorted(entry["date"] for entry in record["log"])
    chains = {}
    for entry in record["log"]:
        assert chains.get(entry["claim"], entry["from"]) == entry["from"]
        chains[entry["claim"]] = entry["to"]
    assert len(chains) < len(record["log"])
    assert {claim: verdicts[claim] for claim in chains} == chains


def test_the_readme_has_the_counts_of_the_record(record):
    verdicts = record["counts"]["verdicts"]
    held, refuted, undecided = (verdicts[name] for name in ("held", "did not hold", "undecided"))
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"Of {record['counts']['claims']} claims of four papers on initialization, {held + refuted + undecided} are "
        f"judged: {held} held, {refuted} did not hold and {undecided} are undecided."
    ) in text


def test_the_page_is_as_the_record_is(scripts, record, page):
    assert page == scripts["claims_page"].page(record), "python docs/scripts/claims_page.py --write"


def test_every_claim_of_the_list_is_on_the_page_once_with_its_sentence_and_its_criterion(scripts, rows):
    listed = {claim["id"]: claim for claim in YAML(typ="safe", pure=True).load(DOCS / "claims.yaml")}
    assert len(listed) == 110
    assert sorted(name for name, _ in rows) == sorted(listed)
    text = scripts["claims_page"].text
    for name, row in rows:
        assert f'<span class="c-claim">{text(listed[name]["claim"])} <a' in row
        assert text(listed[name]["twin"]) in row


def test_every_row_shows_its_verdict_and_what_did_not_hold_or_is_undecided_says_why(record, rows):
    claims = {claim["id"]: claim for claim in record["claims"]}
    for name, row in rows:
        verdict = claims[name]["verdict"]
        assert re.search(rf'<span class="c-verdict"><b>. {verdict}[ ,a-z]*</b>', row)
        assert f'data-verdict="{verdict}"' in row
        if verdict in ("did not hold", "undecided", "cannot be tested here"):
            assert re.search(r"^\*\*Why\.\*\* \w", row, re.MULTILINE), name


def test_the_table_counts_the_claims_that_no_other_implies(record, page):
    header, *lines = [
        [cell.strip(" *") for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    counted = [claim for claim in record["claims"] if claim["implied_by"] is None]
    found = {
        (kind, verdict[2:]): int(n or 0) for kind, *cells in lines for verdict, n in zip(header[1:], cells, strict=True)
    }
    expected = Counter((claim["evidence"] or "no result", claim["verdict"]) for claim in counted)
    expected += Counter(("all", claim["verdict"]) for claim in counted)
    assert {key: n for key, n in found.items() if n} == expected
    assert f"Not counted: {len(record['claims']) - len(counted)} claim" in page


def test_what_is_implied_is_marked_and_linked_from_both_sides(record, rows):
    of = dict(rows)
    for claim in record["claims"]:
        assert ("implied, not counted" in of[claim["id"]]) == (claim["implied_by"] is not None)
        if claim["implied_by"]:
            assert f"(#{claim['implied_by']})" in of[claim["id"]]
            assert f"(#{claim['id']})" in of[claim["implied_by"]]


def test_one_word_of_a_claim_leaves_at_most_five_rows(record):
    for claim in record["claims"]:
        assert word_of(claim, record)[1] <= MOST_LEFT, claim["id"]


def word_of(claim, record):
    """Return the word of a claim's sentence that leaves fewest rows, and their number."""
    texts = [f"{one['id']} {one['claim']} {one['run']}".replace("`", "").lower() for one in record["claims"]]
    words = claim["claim"].replace("`", "").lower().split()
    return min(((word, sum(word in text for text in texts)) for word in words), key=lambda found: found[1])


# ---------------------------------------------------------------- What readers make of it


def test_text_is_shown_as_it_is_written(scripts):
    """Read as CommonMark, which GitHub does, nothing of it is markup but its code."""
    shown = MarkdownIt().render(scripts["claims_page"].text(HOSTILE))
    assert re.findall(r"<[^>]+>", shown) == ["<p>", "<code>", "</code>", "</p>"]
    assert html.unescape(re.sub(r"<[^>]+>", "", shown)).strip() == HOSTILE.replace("`", "", 2)


def test_the_page_reads_on_github(record, page):
    """GitHub does not know the attribute `markdown`: what is a link or a list on the site must be one without it."""
    tokens = MarkdownIt().enable("table").parse(page)
    kinds = Counter(token.type for token in tokens)
    assert kinds["code_block"] == kinds["fence"] == 0
    assert kinds["table_open"] == 1
    inside = [inner for token in tokens for inner in token.children or ()]
    links = Counter(dict(inner.attrs)["href"] for inner in inside if inner.type == "link_open")
    judgements = [judgement for claim in record["claims"] for judgement in claim["judgements"]]
    files = Counter(file for judgement in judgements for file in (judgement["ledger"], judgement["report"]) if file)
    assert {link: n for link, n in links.items() if link.startswith("results/")} == files
    assert all((DOCS / file).exists() for file in files)
    blocks = "".join(token.content for token in tokens if token.type == "html_block")
    for name in ("details", "summary", "div", "pre", "code"):
        assert len(re.findall(f"<{name}[ >]", blocks)) == blocks.count(f"</{name}>") > 0, name


# ---------------------------------------------------------------- Every command on it


def commands(page):
    """Return every distinct command of the page, in order, without continuation lines."""
    texts = [html.unescape(block) for block in re.findall(r"<pre><code>(.*?)</code></pre>", page, re.DOTALL)]
    lines = [line.strip() for text in texts for line in text.replace("\\\n", " ").splitlines()]
    return list(dict.fromkeys(filter(None, lines)))


def test_every_judgement_has_a_command_and_every_command_is_tried_below(page, record):
    assert all(judgement["command"] for claim in record["claims"] for judgement in claim["judgements"])
    kinds = Counter("law" if line.startswith(MEASURE) else RUN.fullmatch(line) and "suite" for line in commands(page))
    assert kinds.keys() == {"law", "suite"}


def test_every_law_that_a_command_measures_is_registered(page, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "claims"))
    laws = importlib.import_module("law").all_laws()
    named = [name for line in commands(page) if line.startswith(MEASURE) for name in line.removeprefix(MEASURE).split()]
    assert named
    assert set(named) <= set(laws)


@pytest.mark.slow
def test_every_suite_that_a_command_runs_is_read_and_planned_with_its_options(page, monkeypatch, tmp_path):
    """As `initbench plan` does it: where files are absent, what the suite says of them is enough to try every model."""
    monkeypatch.chdir(ROOT)
    run = get_command(app).commands["run"]
    runs = [found for line in commands(page) if (found := RUN.fullmatch(line))]
    assert runs
    for found in runs:
        archive, arguments = found.group("archive"), shlex.split(found.group("arguments"))
        if archive is not None:
            subprocess.run(["tar", "-xf", ROOT / archive, "suite.yaml"], cwd=tmp_path, check=True)
            arguments[0] = str(tmp_path / arguments[0])
        asked = run.make_context("run", arguments).params
        given = (asked[name] for name in ("suite", "assignments", "only", "seeds", "plugin"))
        plan = read_request(*given, smoke=asked["smoke"]).plan
        assert plan.trials or plan.waiting, found.group()


# ---------------------------------------------------------------- In a browser


SHOWN = """
[...document.querySelectorAll("details.claim")].filter((row) => row.checkVisibility()).map((row) => row.id)
"""
LEFT_BY = """
{0}.map((word) => {{
  const field = document.querySelector(".claims-filter [name=words]");
  field.value = word;
  field.dispatchEvent(new Event("input", {{bubbles: true}}));
  return {1}.length;
}})
"""
OPEN = "document.querySelectorAll('details').forEach((details) => { details.open = true; })"
OUTSIDE = """
[...document.querySelectorAll(".md-content *")]
  .filter((element) => element.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((element) => element.outerHTML.slice(0, 200))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the site, built as CI builds it."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/claims/"
        server.shutdown()


def ask(address, tmp_path, questions, **options):
    """Return what `questions` (a coroutine of the tab) returns, after checking that the page is quiet."""

    async def run():
        async with opened(address, tmp_path, **options) as tab:
            answer = await questions(tab)
            assert tab.errors == []
            return answer

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_word_in_the_filter_leaves_the_rows_that_have_it(site, record, tmp_path):
    best = [word_of(claim, record) for claim in record["claims"]]

    async def questions(tab):
        await tab.evaluate("document.querySelector('.claims-filter [name=words]').focus()")
        await tab.send("Input.insertText", text=best[0][0])
        typed = await tab.evaluate(SHOWN), await tab.evaluate("document.querySelector('.claims-filter output').value")
        query = await tab.evaluate("location.search")
        return typed, query, await tab.evaluate(LEFT_BY.format(json.dumps([word for word, _ in best]), SHOWN.strip()))

    (shown, said), query, left = ask(site, tmp_path, questions)
    assert record["claims"][0]["id"] in shown
    assert said == f"{len(shown)} of {len(record['claims'])} claims"
    assert left == [n for _, n in best]
    assert ask(f"{site}{query}", tmp_path / "again", lambda tab: tab.evaluate(SHOWN)) == shown


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_an_address_filters_and_opens_what_it_names(site, record, tmp_path):
    chosen = [claim for claim in record["claims"] if claim["verdict"] == "held" and claim["paper"] == "gradinit"]
    chosen = [claim["id"] for claim in chosen if claim["evidence"] == "at initialization"]
    assert chosen
    query = "?verdict=held&paper=gradinit&evidence=at+initialization"
    opened_rows = "[...document.querySelectorAll('details.claim[open]')].map((row) => row.id)"

    async def questions(tab):
        filtered = await tab.evaluate(SHOWN)
        await tab.evaluate(f"location.hash = '#{CLAIM}'")  # of another paper: the filter would hide it
        await tab.drawn()
        return filtered, await tab.evaluate(opened_rows), await tab.evaluate(SHOWN)

    filtered, unfolded, shown = ask(f"{site}{query}", tmp_path, questions)
    assert filtered == chosen
    assert unfolded == [CLAIM]
    assert len(shown) == len(record["claims"])
    assert ask(f"{site}#{CLAIM}", tmp_path / "again", lambda tab: tab.evaluate(opened_rows)) == [CLAIM]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(site, tmp_path, width):
    async def questions(tab):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        await tab.send("Emulation.setDeviceMetricsOverride", **metrics)
        await tab.evaluate(OPEN)
        await tab.drawn()
        return await tab.evaluate(OUTSIDE)

    assert ask(site, tmp_path, questions) == []


# ---------------------------------------------------------------- Packed ledgers


def write_suite(folder, outcomes, claim=CLAIM):
    ledger = Ledger(folder)
    records = planted(outcomes)
    for record in records:
        ledger.write(replace(record, history=[{"step": 1, "epoch": 0.5}, {"step": 2, "epoch": 1.0}]))
    criterion = {"judge": "at_chance", "of": {"initializer": "delta_orthogonal"}}
    claims = [{"id": claim, "claim": "It fails.", "source": "a paper", "criteria": [criterion]}]
    resolved = {"schema": 2, "name": "made-up", "compare": ["initializer"], "claims": claims, "seeds": 3}
    ledger.write_suite("name: made-up\n", resolved)
    return records


def test_a_packed_ledger_has_every_trial_and_its_epochs(scripts, tmp_path):
    records = write_suite(tmp_path / "run", {"digits": {"delta_orthogonal": [0.1, 0.2, 0.3]}})
    first, again = (tmp_path / f"{name}.tar.xz" for name in ("first", "again"))
    for archive in (first, again):
        scripts["pack_ledger"].pack(tmp_path / "run", archive)
    assert first.read_bytes() == again.read_bytes()
    scripts["pack_ledger"].unpack(first, tmp_path / "unpacked")
    unpacked = {record.id: record for record in Ledger(tmp_path / "unpacked").records()}
    assert unpacked.keys() == {record.id for record in records}
    for record in records:
        assert unpacked[record.id].metrics == record.metrics
        assert unpacked[record.id].history == [{"step": 2, "epoch": 1.0}]


def test_an_archive_writes_nothing_beside_its_folder(scripts, tmp_path):
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz") as archive:
        archive.addfile(tarfile.TarInfo("../outside.json"))
    with pytest.raises(ValueError, match=r"\.\./outside\.json is no file of a ledger"):
        scripts["pack_ledger"].unpack(tmp_path / "other.tar.xz", tmp_path / "folder")
    assert not (tmp_path / "outside.json").exists()
