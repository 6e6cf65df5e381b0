"""Reports that compare more than initializers on one network: schemes that initializers bring, and several factors."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ledgers import KAIMING, METAINIT, WRN, make_measured, make_record, make_spec, write_ledger
from reports import comparison, results_of, sentences_of, table_of

from initbench.cli.command_line import main
from initbench.comparing.labels import Labels
from initbench.comparing.treatments import standings
from initbench.errors import InitbenchError, LedgerError
from initbench.reporting.facts_line import facts_line
from initbench.reporting.frame import load_results, results_frame
from initbench.reporting.page.methods import methods
from initbench.reporting.questions.comparison import compare, rank
from initbench.reporting.questions.divergence import divergence
from initbench.reporting.questions.prediction import predict
from initbench.reporting.questions.workloads import workloads
from initbench.reporting.report import contents_of
from initbench.reporting.source import read_source
from initbench.statistics.paired import compare_paired
from initbench.suite.load import load_suite
from suites import plan_of

SUITE = Path(__file__).parents[2] / "suites" / "digits_initializers.yaml"
NORM = ("initializer", "architecture.norm")
PLAIN_DEEP = [{"name": "plain", "depth": depth, "width": 1, "norm": "none"} for depth in (16, 28)]
WITHOUT_SCHEME = ["pytorch_default", "xavier", "kaiming", "delta_orthogonal", "lsuv", "gradinit", "metainit"]
WITH_SCHEME = ["fixup", "skipinit", "weight_norm"]


def runs_on(name, architecture):
    """Whether an initializer runs there: two need residual branches, and all three stand in the place of a norm."""
    if name == "weight_norm":
        return architecture["norm"] == "none"
    return name not in WITH_SCHEME or (architecture["name"] == "wrn" and architecture["norm"] == "none")


def digits_initializers():
    """A ledger with the structure of suites/digits_initializers.yaml; its outcomes are in the order of the names."""
    records = []
    for a, architecture in enumerate([*PLAIN_DEEP, WRN, WRN | {"norm": "batch"}]):
        for i, name in enumerate([*WITHOUT_SCHEME, *WITH_SCHEME]):
            if not runs_on(name, architecture):
                continue
            brought = {"scheme": name, "named_by": ("initializer",)} if name in WITH_SCHEME else {}
            for seed in range(3):
                noise = 0.001 * float(np.random.default_rng((a, i, seed)).standard_normal())
                own = make_record(make_spec({"name": name}, architecture, seed, **brought), 0.1 + 0.01 * i + noise)
                own.metrics["parameters"] = 370_000 + 100 * (name in WITH_SCHEME)
                records.append(own)
    return records


def test_the_suite_itself_is_planned_to_this():
    """Its trials stand in the workloads, with as many treatments, that the made-up ledger has."""
    trials = plan_of(load_suite(SUITE)).trials
    labels = Labels()
    found = {
        (labels.workload(standing.workload), standing.treatment)
        for standing in standings([trial.model_dump(mode="json") for trial in trials])
    }
    sizes = Counter(workload.replace(", activation=relu", "") for workload, _ in found)
    assert sizes == dict(comparison(digits_initializers()).groupby("workload").size())


def write_compare(folder, compare):
    (folder / "resolved.json").write_text(json.dumps({"schema": 2, "name": "made-up", "compare": compare}))


def test_digits_initializers_compares_ten_on_wrn_eight_on_plain_and_seven_with_batch_norm():
    table = comparison(digits_initializers())
    assert dict(table.groupby("workload").size()) == {
        "plain[depth=16, width=1]": 8,
        "plain[depth=28, width=1]": 8,
        "wrn[depth=28, width=1, norm=batch]": 7,
        "wrn[depth=28, width=1, norm=none]": 10,
    }
    best = table[table["rank"] == 1]
    assert set(best["treatment"]) == {"pytorch_default"}


def test_what_brings_a_scheme_is_named_and_compared_where_it_runs():
    results = results_of(digits_initializers())
    whole = rank(results).whole
    assert sorted(whole.treatments) == sorted(WITH_SCHEME)
    assert len(whole.table) == 4
    found = compare(results)
    [remark] = [text for text in found.remarks if "not every initializer ran everywhere" in text]
    assert all(name in remark for name in WITH_SCHEME)
    [(_, further)] = found.facts.further
    assert {name: own.workloads for name, own in further.items()} == {"fixup": 1, "skipinit": 1, "weight_norm": 3}
    assert {own.comparisons for own in further.values()} == {45}  # all pairs of ten
    said = sentences_of(found, "")[2:]
    assert len(said) == 3
    for name, where in (("fixup", "one"), ("weight_norm", "3")):
        assert any(name in own and f"{where} network" in own for own in said)
    paired = table_of(found, "paired_differences").frame
    assert len(paired[paired["treatment"] == "fixup"]) == 1
    assert len(paired[paired["treatment"] == "xavier"]) == 4
    # Parameter counts stand beside the treatments where they differ, which is without a norm.
    shown = {
        table.title: "Parameters" in {column.heading for column in table.columns}
        for table in workloads(results).main_tables
    }
    assert sorted(shown.values()) == [False, True, True, True]
    assert [title for title, has in shown.items() if not has] == ["wrn-28 (norm batch)"]
    [wrn] = [table for table in workloads(results).main_tables if table.title == "wrn-28 (norm none)"]
    assert "370,100" in str(wrn.cells)


def norm_records():
    """MetaInit without a norm is two points better than Kaiming with BatchNorm, at every seed, and noise in common."""
    records = []
    for depth in (16, 28):
        for seed in range(5):
            common = 0.1 + 0.05 * float(np.random.default_rng((depth, seed)).standard_normal())
            for initializer, norm, shift in ((METAINIT, "none", 0.0), (KAIMING, "batch", 0.02), (KAIMING, "none", 0.3)):
                own = 0.001 * float(np.random.default_rng((depth, seed, int(100 * shift))).standard_normal())
                spec = make_spec(initializer, WRN | {"depth": depth, "norm": norm}, seed)
                record = make_record(spec, common + shift + own)
                record.metrics["parameters"] = 370_000 if norm == "none" else 372_000
                records.append(record)
    return records


def test_an_initializer_without_a_norm_is_paired_by_seed_with_another_that_has_one():
    results = results_of(norm_records(), NORM)
    first, second = "metainit(delta_orthogonal), norm=none", "kaiming, norm=batch"
    paired = compare_paired(results.trials, first, second)
    assert list(paired.by_workload["workload"]) == ["wrn[depth=16, width=1]", "wrn[depth=28, width=1]"]
    assert list(paired.by_workload["seeds"]) == [5, 5]
    # The noise in common, of 5 points, is in neither interval.
    assert (paired.by_workload["high"] - paired.by_workload["low"]).max() < 0.01
    assert paired.difference.value == pytest.approx(-0.02, abs=0.002)
    found = compare(results)
    assert found.facts.ranking.treatments[:2] == [first, second]
    [(_, against)] = found.facts.against
    own = against[second]
    assert own.comparisons == 3
    assert [own.on(workload).side() for workload in own.by_workload["workload"]] == [1, 1]
    for workload in ("wrn-16", "wrn-28"):
        assert sentences_of(found, workload)[0].startswith("metainit beats kaiming (norm batch) by ")
    assert set(workloads(results).facts["parameters"]) == {370_000, 372_000}
    assert all("Parameters" in {c.heading for c in table.columns} for table in workloads(results).main_tables)


def test_what_is_compared_is_called_a_treatment_and_the_initializer_is_what_is_exchanged():
    """Of permutations and jackknife both a note in the page and the paragraph for a paper say so."""
    results = results_of(norm_records(), NORM)
    found, probes = compare(results), predict(results)
    assert found.question == "Which treatment is better?"
    assert contents_of(results).facts["Compared"] == "initializer, architecture.norm"
    assert results.terms.exchanged == "initializer"
    exchanged = "permutations exchange and the jackknife leaves out the initializer with all its treatments at once"
    assert exchanged in table_of(probes, "probes").note
    assert exchanged in methods(results, {})
    # Two initializers, however many treatments they make: no test, and no ρ is told.
    assert not probes.facts.probes[0].test.is_testable
    assert table_of(probes, "probes").frame["rho"].isna().all()
    for analysis in (found, probes, divergence(results)):
        texts = [*sentences_of(analysis), *analysis.remarks, *(table.note for table in analysis.tables)]
        texts += [column.heading for table in analysis.tables for column in table.columns]
        for words in ("not every initializer", "over the initializers", "pairs of initializers", "Initializers"):
            assert not [text for text in texts if words in text]
    assert "simultaneous over the treatments" in table_of(found, "differences").note


def test_compare_comes_from_the_resolved_suite(tmp_path):
    write_ledger(tmp_path, norm_records())
    assert set(load_results(tmp_path)["treatment"]) == {"kaiming", "metainit(delta_orthogonal)"}
    write_compare(tmp_path, NORM)
    assert len(set(load_results(tmp_path)["treatment"])) == 3
    assert set(load_results(tmp_path, compare=["architecture.norm"])["treatment"]) == {"norm=none", "norm=batch"}
    for content in ("[", "[1]", '{"compare": []}', '{"compare": "initializer"}'):
        (tmp_path / "resolved.json").write_text(content)
        with pytest.raises(InitbenchError, match="--compare"):
            load_results(tmp_path)
    (tmp_path / "resolved.json").write_text('{"schema": 1, "compare": ["initializer"]}')
    with pytest.raises(LedgerError):
        load_results(tmp_path)


def test_the_command_overrides_what_is_compared(tmp_path, monkeypatch, capsys):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        write_ledger(folder, norm_records())
    write_compare(folders[1], NORM)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["initbench", "report", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return stop.code
        return 0

    assert run(folders[0], "--compare", "initializer, architecture.norm") == 0
    results = pd.read_csv(folders[0] / "report" / "comparison.csv")
    assert set(results["treatment"]) == {
        "metainit(delta_orthogonal), norm=none",
        "kaiming, norm=batch",
        "kaiming, norm=none",
    }
    capsys.readouterr()
    assert run(*folders, "--out", tmp_path / "both") == 2
    error = capsys.readouterr().err
    assert "the suites compare different things (made-up: initializer; made-up: initializer,architecture.norm)" in error
    assert "--compare" in error
    assert run(*folders, "--out", tmp_path / "both", "--compare", "architecture.norm") == 0
    capsys.readouterr()
    assert run(folders[0], "--compare", "initializer,initializer") == 2
    assert capsys.readouterr().err.endswith("compare: initializer is given twice\n")
    assert run(folders[0], "--compare", "initialiser") == 2
    assert "no trial has initialiser (did you mean 'initializer'?)" in capsys.readouterr().err


def both_records():
    """Fixup's own network, named by the suite and brought by fixup: one trial stands in two workloads."""
    records = [
        *(make_record(make_spec(KAIMING, WRN, seed), 0.3) for seed in range(3)),
        *(make_record(make_spec(KAIMING, WRN, seed, scheme="fixup"), 0.2) for seed in range(3)),
    ]
    both = {"scheme": "fixup", "named_by": ("suite", "initializer")}
    return [*records, *(make_record(make_spec({"name": "fixup"}, WRN, seed, **both), 0.1) for seed in range(3))]


def test_a_trial_of_two_entries_stands_in_both_workloads_and_is_counted_once():
    records = both_records()
    frame = results_frame(records)
    assert len(frame) == 9
    fixup = frame[frame["initializer"] == "fixup"]
    assert set(fixup["workload"]) == {"wrn[depth=28, width=1] + fixup"}
    table = comparison(records).set_index(["workload", "treatment"])
    assert dict(table["seeds"]) == {
        ("wrn[depth=28, width=1]", "fixup"): 3,
        ("wrn[depth=28, width=1]", "kaiming"): 3,
        ("wrn[depth=28, width=1] + fixup", "fixup"): 3,
        ("wrn[depth=28, width=1] + fixup", "kaiming"): 3,
    }
    results = results_of(records)
    assert facts_line(results).startswith("9 trials: 2 initializers × 2 networks × 3 seeds")
    assert len(results.frame) == 9
    assert sentences_of(divergence(results)) == ["Not one of 9 trials diverged."]


def test_a_divergence_is_counted_once_for_a_trial_of_two_workloads():
    records = both_records()
    first = next(i for i, record in enumerate(records) if record.spec["initializer"]["name"] == "fixup")
    status = {"status": "diverged", "metrics": records[first].metrics | {"test_error": None}}
    records[first] = replace(records[first], **status)
    results = results_of(records)
    rate = divergence(results).facts.set_index("treatment").loc["fixup"]
    assert (rate["rate"], rate["workloads"], rate["trials_diverged"], rate["trials"]) == (1, 2, 1, 3)
    assert sentences_of(divergence(results))[0].startswith("fixup diverges on 2 of 2 networks at one seed or more")
    for table in (table_of(compare(results), "differences"), table_of(divergence(results), "divergence")):
        frame = table.frame.set_index("treatment")
        assert dict(frame["trials"]) == {"fixup": 3, "kaiming": 6}
        assert dict(frame["trials_diverged"]) == {"fixup": 1, "kaiming": 0}


def test_ledgers_that_come_to_one_trial_by_different_entries_give_it_both_places(tmp_path):
    brought = [
        replace(r, spec=r.spec | {"scheme_named_by": ["initializer"], "suite": "other"})
        for r in both_records()
        if r.spec["initializer"]["name"] == "fixup"
    ]
    named = [replace(r, spec=r.spec | {"scheme_named_by": ["suite"]}) for r in both_records()]
    write_ledger(tmp_path / "a", named)
    write_ledger(tmp_path / "b", brought)
    source = read_source([tmp_path / "a", tmp_path / "b"])
    assert len(source.records) == 9
    assert len(comparison(source.records)) == 4


def test_a_cell_that_was_run_twice_stands_once_in_each_workload():
    """Its scheme was named by the suite in one run and by its initializer in another, which had other probes."""
    twice = [
        make_record(
            make_spec({"name": "fixup"}, WRN, seed, scheme="fixup", named_by=(by,), probes=probes), 0.05 + 0.001 * seed
        )
        for by, probes in (("suite", ("gradient_quotient", "gradient_norm")), ("initializer", ("gradient_norm",)))
        for seed in range(3)
    ]
    records = [*twice, *(make_record(make_spec(KAIMING, WRN, seed, scheme="fixup"), 0.06) for seed in range(3))]
    table = comparison(records, ("initializer", "scheme")).set_index("treatment")
    assert dict(table["seeds"]) == {"fixup, scheme=fixup": 3, "kaiming, scheme=fixup": 3}
    paired = compare_paired(results_of(records, ("initializer", "scheme")).trials, *table.index)
    assert list(paired.by_workload["seeds"]) == [3]
    # Where the scheme is not compared it stands in the workloads of both.
    assert dict(comparison(records).set_index(["workload", "treatment"])["seeds"]) == {
        ("wrn[depth=28, width=1]", "fixup"): 3,
        ("wrn[depth=28, width=1] + fixup", "fixup"): 3,
        ("wrn[depth=28, width=1] + fixup", "kaiming"): 3,
    }


@pytest.mark.parametrize("without", [make_measured, lambda spec: make_record(spec, status="failed")])
def test_a_treatment_without_any_outcome_is_named(without):
    rows = [(own, depth, seed) for own in (KAIMING, METAINIT) for depth in (16, 28) for seed in range(3)]
    records = [make_record(make_spec(own, WRN | {"depth": depth}, seed), 0.1) for own, depth, seed in rows]

    def left_out(records):
        return [text for text in compare(results_of(records)).remarks if "no statistic" in text]

    assert left_out(records) == []
    records += [without(make_spec({"name": "lsuv"}, WRN | {"depth": depth})) for depth in (16, 28)]
    assert left_out(records) == ["No trial of these has an outcome, so no statistic includes them: lsuv."]
    assert "lsuv" not in set(results_of(records).judged["treatment"])
