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
from initbench.reporting.answers.treatments import rank
from ledgers import KAIMING, METAINIT, WRN, make_measured, make_record, make_spec, write_ledger
from reports import compared, comparison

from initbench.cli import main
from initbench.errors import InitbenchError, LedgerError
from initbench.reporting.frame import load_results, results_frame
from initbench.reporting.report import read_source, write_report
from initbench.reporting.statistics.paired import compare_paired
from initbench.suite.load import load_suite
from initbench.suite.treatments import standings
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
    found = {(place.workload, place.treatment) for place in standings([t.model_dump(mode="json") for t in trials])}
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


def test_what_brings_a_scheme_is_named_and_compared_where_it_runs(tmp_path):
    records = digits_initializers()
    whole = rank(compared(records).trials).whole
    assert sorted(whole.treatments) == sorted(WITH_SCHEME)
    assert len(whole.table) == 4
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "because not every initializer ran everywhere: initializers" in text
    for name, workloads in (("fixup", "1 workload"), ("weight_norm", "3 workloads")):
        assert f"<dt>{name}, on {workloads}</dt>" in text
    paired = pd.read_csv(tmp_path / "report" / "paired_differences.csv")
    assert len(paired[paired["treatment"] == "fixup"]) == 1
    assert len(paired[paired["treatment"] == "xavier"]) == 4
    # Parameter counts stand beside the treatments where they differ, on wrn without a norm.
    assert text.count('<th scope="col">Parameters</th>') == 3
    assert "<td>370,100</td>" in text


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


def test_an_initializer_without_a_norm_is_paired_by_seed_with_another_that_has_one(tmp_path):
    trials = compared(norm_records(), NORM).trials
    first, second = "metainit(delta_orthogonal), norm=none", "kaiming, norm=batch"
    paired = compare_paired(trials, first, second)
    assert list(paired.by_workload["workload"]) == ["wrn[depth=16, width=1]", "wrn[depth=28, width=1]"]
    assert list(paired.by_workload["seeds"]) == [5, 5]
    # The noise in common, of 5 points, is in neither interval.
    assert (paired.by_workload["high"] - paired.by_workload["low"]).max() < 0.01
    assert paired.difference.value == pytest.approx(-0.02, abs=0.002)
    write_ledger(tmp_path, norm_records())
    write_compare(tmp_path, NORM)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert f"{first} has the lowest median test error" in text
    assert f"points less test error than {second} (95 % interval, simultaneous over 3 comparisons" in text
    assert "Which treatment is better?" in text
    assert "Treatments (initializer, architecture.norm) are compared where all else is equal" in text
    for words in ("not enough initializers", "simultaneous over the initializers"):
        assert words not in text
        assert words.replace("initializer", "treatment") in text
    assert '<th scope="col">Parameters</th>' in text
    assert text.count("the initializer is what is exchanged and left out, with all its treatments at once") == 2


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
    assert capsys.readouterr().err.endswith("compare: initializer stands twice\n")
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


def test_a_trial_of_two_entries_stands_in_both_workloads_and_is_counted_once(tmp_path):
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
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<b>9</b>finished" in text
    assert len(pd.read_csv(tmp_path / "report" / "results.csv")) == 9
    assert "No trial diverged, of 9." in text


def test_a_divergence_is_counted_once_for_a_trial_of_two_workloads(tmp_path):
    records = both_records()
    first = next(i for i, record in enumerate(records) if record.spec["initializer"]["name"] == "fixup")
    status = {"status": "diverged", "metrics": records[first].metrics | {"test_error": None}}
    records[first] = replace(records[first], **status)
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    assert "fixup diverged on 2 of 2 workloads at one seed or more" in text
    assert "), in 1 of 3 trials." in text
    differences = pd.read_csv(tmp_path / "report" / "differences.csv").set_index("treatment")
    assert dict(differences["trials"]) == {"fixup": 3, "kaiming": 6}
    assert dict(differences["trials_diverged"]) == {"fixup": 1, "kaiming": 0}


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
    paired = compare_paired(compared(records, ("initializer", "scheme")).trials, *table.index)
    assert list(paired.by_workload["seeds"]) == [3]
    # Where the scheme is not compared it stands in the workloads of both.
    assert dict(comparison(records).set_index(["workload", "treatment"])["seeds"]) == {
        ("wrn[depth=28, width=1]", "fixup"): 3,
        ("wrn[depth=28, width=1] + fixup", "fixup"): 3,
        ("wrn[depth=28, width=1] + fixup", "kaiming"): 3,
    }


@pytest.mark.parametrize("without", [make_measured, lambda spec: make_record(spec, status="failed")])
def test_a_treatment_without_any_outcome_is_named(tmp_path, without):
    rows = [(own, depth, seed) for own in (KAIMING, METAINIT) for depth in (16, 28) for seed in range(3)]
    records = [make_record(make_spec(own, WRN | {"depth": depth}, seed), 0.1) for own, depth, seed in rows]
    write_ledger(tmp_path / "a", records)
    assert "In no statistic" not in write_report(tmp_path / "a").read_text(encoding="utf-8")
    records += [without(make_spec({"name": "lsuv"}, WRN | {"depth": depth})) for depth in (16, 28)]
    write_ledger(tmp_path / "b", records)
    text = write_report(tmp_path / "b").read_text(encoding="utf-8")
    assert "In no statistic, because no trial has an outcome: initializers lsuv." in text
