"""Datasets of one name and other content, as two Pythons' libraries: different datasets, and it is said."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from ledgers import DELTA_1, KAIMING, LANGUAGE, PLAIN, make_scored, make_spec, write_ledger
from reports import results_of

from initbench.reporting.facts_line import facts_line
from initbench.reporting.heat_map import heat_map
from initbench.reporting.notices import notices
from initbench.reporting.page.methods import methods
from initbench.reporting.report import write_report
from initbench.reporting.results import Results
from initbench.reporting.source import Source
from initbench.reporting.text_report import text_of
from initbench.suite.spec import digest

ONE, OTHER = f"sha256:1ac505f5{7:056}", f"sha256:77d01fee{7:056}"
LIBRARY = {"name": "python_library", "context": 64}
NOTICE = (
    "2 datasets are called python_library but differ in content (1ac505f5 and 77d01fee), so their trials are not "
    "compared with one another."
)


def record(content, seed=0, initializer=KAIMING, dataset=LIBRARY):
    spec = make_spec(initializer, seed=seed, dataset=dataset, task="language_modelling", architecture=PLAIN)
    spec = spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"content": content})})
    own = make_scored(spec, LANGUAGE, 3.0 + 0.1 * (content == OTHER) + 0.01 * seed)
    # Not from the registry, which knows other arguments of this architecture.
    identity = own.identity | {"content": content}
    return replace(own, id=digest(identity), identity=identity)


def records(*contents, dataset=LIBRARY):
    return [record(c, seed, own, dataset) for c in contents for own in (KAIMING, DELTA_1) for seed in range(3)]


def test_two_ledgers_of_two_pythons_have_two_workloads_and_the_page_says_so(tmp_path):
    for name, content in (("a", ONE), ("b", OTHER)):
        write_ledger(tmp_path / name, records(content))
    page = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "both").page
    table = pd.read_csv(page.parent / "comparison.csv")
    places = [f"plain[depth=28, width=1] · python_library[content={digits}]" for digits in ("1ac505f5", "77d01fee")]
    assert list(dict.fromkeys(table["workload"])) == places
    assert set(table["treatment"]) == {"kaiming", "delta_orthogonal"}
    assert set(table["seeds"]) == {3}
    text = page.read_text(encoding="utf-8")
    assert NOTICE in text
    assert "2 initializers × 2 workloads × 3 seeds" in text
    assert "plain-28 (python_library, content 1ac505f5)" in text


def test_each_text_of_what_the_data_are_tells_them_apart():
    results = results_of(records(ONE, OTHER))
    assert "python_library (context 64, content 1ac505f5), python_library (context 64, content 77d01fee)" in facts_line(
        results
    )
    said = methods(results, {})
    assert "python_library (context 64, content 1ac505f5) and python_library (context 64, content 77d01fee)" in said
    assert NOTICE in text_of(results, "md").replace("\\_", "_")


@pytest.mark.parametrize(
    "found",
    [
        records(ONE),
        records(ONE) + records(None, dataset={"name": "digits"}),
        # What else tells them apart needs no content: files of another folder have other content.
        records(ONE, dataset=LIBRARY | {"path": "a"}) + records(OTHER, dataset=LIBRARY | {"path": "b"}),
    ],
)
def test_content_is_shown_only_where_it_is_needed(found):
    results = results_of(found)
    assert notices(results) == []
    assert not any("content" in label for label in results.metric_of)
    assert "content" not in facts_line(results)


def test_all_datasets_of_the_name_show_their_content_and_equal_beginnings_more_digits():
    long = ONE[: len("sha256:") + 9] + "f" * 55
    found = [*records(ONE, long), *records(ONE, dataset=LIBRARY | {"context": 128})]
    assert {label.partition(" · ")[2] for label in results_of(found).metric_of} == {
        "python_library[context=64, content=1ac505f500]",
        "python_library[context=64, content=1ac505f50f]",
        "python_library[context=128, content=1ac505f500]",
    }


def test_datasets_that_are_compared_are_two_treatments():
    results = results_of(records(ONE, OTHER), ("dataset",))
    assert set(results.trials["treatment"]) == {f"python_library[content={c}]" for c in ("1ac505f5", "77d01fee")}
    assert {name.text for name in results.names.treatments.values()} == {
        f"python_library (content {digits})" for digits in ("1ac505f5", "77d01fee")
    }


def test_a_pair_that_cannot_run_is_known_on_both():
    """A plan says what is refused by the dataset's name and arguments, before it is known what is in it."""
    draft = make_spec({"name": "fixup"}, dataset=LIBRARY).model_dump(mode="json")
    del draft["dataset"]["content"]
    other = make_spec({"name": "fixup"}, {"name": "mlp"}, dataset=LIBRARY, task="language_modelling")
    found = [*records(ONE, OTHER), make_scored(other, LANGUAGE, 3.0)]
    rows = heat_map(Results(Source(found, incompatible=((draft, "no branch"),)))).rows
    [states] = [[cell.state for cell in row.cells] for row in rows if row.label == "fixup"]
    assert sorted(states) == ["incompatible", "incompatible", "trained"]
