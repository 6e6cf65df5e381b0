"""Ledgers that lack what a report is usually made of: each has a page that says so, in every format."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from html import unescape

import pytest
from drawings import parsed
from ledgers import (
    DELTA_1,
    DELTA_2,
    ERROR,
    KAIMING,
    METAINIT,
    PLAIN,
    WRN,
    make_measured,
    make_record,
    make_scored,
    make_spec,
    task_of,
    write_ledger,
)
from made_page import render_html

from initbench.errors import InitbenchError
from initbench.reporting.page.json import render_json
from initbench.reporting.page.latex import render_latex
from initbench.reporting.page.markdown import render_markdown
from initbench.reporting.records import slim
from initbench.reporting.report import contents_of, write_report
from initbench.reporting.results import Results
from initbench.reporting.source import Source, read_folder

CHANCE = task_of(replace(ERROR, chance=0.9, chance_standard_error=0.005))
FOUR = (KAIMING, DELTA_1, DELTA_2, METAINIT)
LONG = [{"name": f"{letter * 79}{letter}"} for letter in "abc"]
LONG_NETWORKS = [{"name": "n" * 78 + f"_{number}", "depth": 28} for number in (1, 2)]


def scored(initializer, outcomes, architecture=PLAIN):
    """Return a record for each outcome, its seed the place, of a task that says what guessing gives: 90 %."""
    return [make_scored(make_spec(initializer, architecture, s), CHANCE, o) for s, o in enumerate(outcomes)]


def crossed(outcomes, initializers=FOUR, architectures=(PLAIN, WRN)):
    """Return the records of all initializers on all architectures, with the same outcomes everywhere."""
    return [r for i in initializers for a in architectures for r in scored(i, outcomes, a)]


def failed(initializer, seeds=2):
    return [make_record(make_spec(initializer, seed=s), status="failed") for s in range(seeds)]


def without_probes(records):
    return [replace(record, probes=[], initialization={}) for record in records]


def not_finite(records):
    """Return records whose probes were taken and gave nothing finite, as a record says it."""
    return [replace(r, probes=[p | {"value": None, "value_reason": "nan"} for p in r.probes]) for r in records]


def contents(records):
    return contents_of(Results(Source([slim(record) for record in records])))


def visible(page):
    """Return the words of a page."""
    page = re.sub(r"<script.*?</script>|<style>.*?</style>|<svg.*?</svg>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", page))


def answers(found):
    """Return the sentences of each section."""
    return {analysis.name: " ".join(map(str, analysis.sentences)) for analysis in found.analyses}


def assert_readable(found):
    """Check that a report is made in every format, and that each is short, whole and free of what no one can read."""
    assert 1 <= len(found.overview.sentences) <= 5
    said = [*found.overview.sentences, *(s for analysis in found.analyses for s in analysis.sentences)]
    assert [str(sentence) for sentence in said if not str(sentence).endswith(".")] == []
    assert all(analysis.sentences for analysis in found.analyses)
    page, markdown, latex = render_html(found), render_markdown(found), render_latex(found)
    data = json.loads(render_json(found))
    assert [sentence["text"] for sentence in data["sentences"]] == [str(s) for s in found.overview.sentences]
    for text in (visible(page), markdown, latex):
        assert not re.search(r"\b(nan|inf|None|NaN|NaT)\b|<NA>|\[\]", text)
        assert not re.search(r"\b1 (seeds|trials|initializers|networks|cells|epochs|steps)\b", text)
        assert not re.search(r"\b0 of 0\b", text)
    for sentence in found.overview.sentences:
        assert str(sentence) in visible(page)
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}")
    for section in ("every-trial", "conditions", "methods", "reading", "workloads"):
        assert page.count(f'id="{section}"') == 1
    for analysis in found.analyses:
        for figure in analysis.figures:
            parsed(figure.file())
    return page


# name → records, what the first screen says, what it does not; then what a section says.
LEDGERS = {
    "one seed": (
        scored(KAIMING, [0.1]) + scored(DELTA_1, [0.2]),
        ["Both initializers train plain-28", "1 seed is too few; at least 3 are needed"],
        ["beats", "±"],
        {"workloads": "No difference was found", "variance": "1 seed"},
    ),
    "one trial": (
        scored(KAIMING, [0.25]),
        ["kaiming trains: 25.0", "There is only one initializer, so nothing is compared"],
        ["beats", "Only", "most"],
        {"divergence": "The trial did not diverge"},
    ),
    "one cell": (
        scored(KAIMING, [0.1, 0.2, 0.3]),
        ["kaiming trains: 20.0", "nothing is compared"],
        ["beats", "Not known: the order"],
        {"comparison": "nothing to compare it with"},
    ),
    "one cell that does not train": (
        scored(KAIMING, [0.9] * 3),
        ["kaiming does not train (0 of 3 seeds): guessing gives 90.0"],
        ["kaiming trains", "Kaiming", "beats"],
        {"training": "No curve ends better than chance"},
    ),
    "one initializer": (
        scored(KAIMING, [0.1, 0.2, 0.3]) + scored(KAIMING, [0.2, 0.21, 0.22], WRN),
        ["kaiming trains on 2 of 2 networks: 20.0", "There is only one initializer"],
        ["beats", "an order"],
        {"workloads": "nothing to compare it with"},
    ),
    "all diverged": (
        scored(KAIMING, [None] * 3) + scored(DELTA_1, [None] * 3),
        ["Nothing trains", "diverge"],
        ["beats", "Delta_orthogonal", "best", "trains plain"],
        {
            "comparison": "Every initializer diverges",
            "divergence": "kaiming diverges in 3 of 3 trials",
            "training": "at least half of its seeds have diverged",
        },
    ),
    "all failed": (
        failed(KAIMING) + failed(DELTA_1),
        ["Every trial failed: there is no outcome to compare"],
        ["diverge", "train ", "beats"],
        {"workloads": "No trial has a result"},
    ),
    "one failed, the other diverged": (
        failed(KAIMING) + scored(DELTA_1, [None] * 3),
        ["diverge", "Only one initializer has a result, so nothing is compared"],
        ["There is only one initializer", "kaiming diverge", "beats"],
        {"divergence": "delta_orthogonal diverges in 3 of 3 trials"},
    ),
    "all at chance": (
        scored(KAIMING, [0.9] * 3) + scored(DELTA_1, [0.89, 0.9, 0.91]),
        ["Nothing trains: none of the 2 cells is better than guessing", "90.0"],
        ["beats", "best", "diverge"],
        {"workloads": "No initializer trains here", "training": "No curve ends better than chance"},
    ),
    "measured alone": (
        [make_measured(make_spec(i, seed=s)) for i in (KAIMING, DELTA_1) for s in (0, 1)],
        ["Nothing was trained"],
        ["failed", "diverge", "beats", "train plain"],
        {"workloads": "only measured at initialization"},
    ),
    "no two on one network": (
        scored(KAIMING, [0.1, 0.2, 0.3]) + scored(DELTA_1, [0.2, 0.21, 0.22], WRN),
        ["No two initializers ran on the same network, so nothing is compared"],
        ["beats", "Only"],
        {"workloads": "nothing to compare it with"},
    ),
    "all outcomes equal": (
        crossed([0.2] * 3),
        ["All 4 initializers train both networks at all 3 seeds: 20.0\N{NO-BREAK SPACE}% test error"],
        ["beats", "20.0 to 20.0", "ahead of"],
        {"variance": "All outcomes are equal", "training": "and 2 others end with the best"},
    ),
    "all outcomes 0": (
        crossed([0.0] * 3),
        ["All 4 initializers train both networks at all 3 seeds: 0.0\N{NO-BREAK SPACE}% test error"],
        ["beats", "-0"],
        {"variance": "All outcomes are equal"},
    ),
    "probes that are not finite": (
        not_finite(crossed([0.2, 0.21, 0.22])),
        ["All 4 initializers train both networks"],
        ["beats"],
        {"prediction": "No measurement at initialization is finite"},
    ),
    "no probes": (
        without_probes(scored(KAIMING, [0.1, 0.2, 0.3]) + scored(DELTA_1, [0.3, 0.41, 0.5])),
        ["Both initializers train plain-28"],
        ["gradient quotient"],
        {"prediction": "Nothing was measured at initialization"},
    ),
    "probes that are constant": (
        [
            r
            for i, e in zip((*FOUR, {"name": "lsuv"}), range(5), strict=True)
            for a in (PLAIN, WRN)
            for r in scored(i, [0.1 + 0.1 * e + 0.01 * s for s in range(3)], a)
        ],
        ["delta_orthogonal (gain 2) and metainit train both networks at all 3 seeds: 11.0 to 41.0"],
        [],
        {"prediction": "Whether the gradient quotient and the gradient norm predict the test error cannot be tested"},
    ),
    "long names": (
        [r for k, i in enumerate(LONG) for a in LONG_NETWORKS for r in scored(i, [[0.9], [None], [0.1]][k] * 3, a)],
        [
            f"Only {LONG[2]['name']} trains both networks",
            f"{LONG[0]['name']} does not train",
            f"{LONG[1]['name']} diverges",
        ],
        [f"Only {LONG[0]['name']}"],
        {"workloads": f"Only {LONG[2]['name']} trains"},
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_a_degenerate_ledger_has_a_report_that_is_right_and_readable(name):
    records, said, unsaid, by_section = LEDGERS[name]
    found = contents(records)
    assert_readable(found)
    first = " ".join(map(str, found.overview.sentences))
    assert [words for words in said if words not in first] == []
    assert [words for words in unsaid if words in first] == []
    sections = answers(found)
    assert {section: words for section, words in by_section.items() if words not in sections[section]} == {}


def test_a_probe_that_is_constant_is_judged_by_nothing():
    """Every quotient and every norm is the same, so that no order of them can be compared with that of the outcomes."""
    records, *_ = LEDGERS["probes that are constant"]
    prediction = next(analysis for analysis in contents(records).analyses if analysis.name == "prediction")
    assert all(sentence.is_open for sentence in prediction.sentences)
    assert not any(result.test.is_testable for result in prediction.facts.probes)


def test_long_names_are_whole_in_the_page():
    records, *_ = LEDGERS["long names"]
    page = assert_readable(contents(records))
    for name in (*(config["name"] for config in LONG), *(config["name"] for config in LONG_NETWORKS)):
        assert name in visible(page)


@pytest.mark.slow
def test_many_workloads_and_treatments_are_one_page_of_a_size_that_opens(tmp_path):
    """40 networks × 30 initializers of one seed each: 8 MB, and every cell and every trial is there."""
    records = [
        make_scored(
            make_spec({"name": f"initializer_{i:02}"}, {"name": f"net_{a % 10}", "depth": 10 * (a // 10 + 1)}),
            CHANCE,
            [None, 0.9][a % 2] if i == 29 else 0.1 + 0.01 * i + 0.002 * a,
        )
        for a in range(40)
        for i in range(30)
    ]
    write_ledger(tmp_path, records)
    begun = time.process_time()
    written = write_report(tmp_path)
    assert time.process_time() - begun < 60
    page = written.page.read_text(encoding="utf-8")
    assert len(page.encode()) <= 8e6
    assert 1 <= len(written.sentences) <= 5
    first = " ".join(map(str, written.sentences))
    assert re.search(r"(27 others|29 of 30 initializers) train all 40 networks", first)
    assert "initializer_29" in first  # what fails is named, among 30
    assert page.count('<td class="cell') == 40 * 30
    assert len(json.loads(re.search(r'id="trials-data">(.*?)</script>', page, re.DOTALL)[1])["rows"]) == 40 * 30
    map_shown = page.partition('<table class="heat-map">')[2].partition("</table>")[0]
    assert (map_shown.count("cell diverged"), map_shown.count("cell untrained")) == (20, 20)
    assert map_shown.index("initializer_29") > map_shown.index("initializer_28")  # what fails stands last


def test_a_truncated_record_is_named_and_loses_nothing_else(tmp_path):
    whole = crossed([0.1, 0.2, 0.3])
    ledger = write_ledger(tmp_path / "made-up", [*whole, make_scored(make_spec(KAIMING, seed=7), CHANCE, 0.9)])
    path = next(path for path in ledger.trials.glob("*.json") if json.loads(path.read_text())["spec"]["seed"] == 7)
    path.write_text(path.read_text(encoding="utf-8")[:200], encoding="utf-8")
    source = read_folder(ledger.folder)
    assert len(source.records) == len(whole)
    [line] = source.skipped
    assert line.startswith(f"made-up/trials/{path.name}: not a trial record (")
    found = contents_of(Results(source))
    [notice] = found.notices
    assert notice.startswith("1 record could not be read and is missing below: ")
    assert path.name in notice
    for text in (render_html(found), render_markdown(found), render_json(found)):
        assert path.name in text.replace("\\", "")
    assert found.overview == contents(whole).overview
    assert answers(found) == answers(contents(whole))


def test_a_ledger_of_truncated_records_alone_is_refused_by_name(tmp_path):
    ledger = write_ledger(tmp_path, scored(KAIMING, [0.1]))
    [path] = ledger.trials.iterdir()
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InitbenchError, match=rf"no trial records in .*; 1 cannot be read, such as .*{path.name}"):
        write_report(tmp_path)
    assert not (tmp_path / "report").exists()


def test_an_empty_ledger_is_refused_in_one_line(tmp_path):
    write_ledger(tmp_path, []).trials.mkdir(parents=True)
    with pytest.raises(InitbenchError, match="no trial records") as caught:
        write_report(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report").exists()
