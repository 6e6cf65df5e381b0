"""The comparison of reports: that it sees one bit, takes no reason without its proof, and converts without loss."""

import csv
import math
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import vl_convert
from ledgers import BITS, CLASSIFICATION, METAINIT, WRN, cell, make_record, make_scored, make_spec, task_of

from bitwise import compare, compare_reports
from bitwise.report_ledgers import CHANCE, made_up
from bitwise.reports_asked import ReportsOfSet, SetOfTrials, _targets, reference
from bitwise.reports_compared import compare_tables
from bitwise.reports_inputs import TIED, trains, untrained, with_schemes_moved, with_untrained_tied, without_causes
from bitwise.reports_reasons import FURTHER, NEW, REFERENCE, SCHEMES, TARGET, UNTRAINED
from bitwise.reports_schema import NEW_IN_RECIPE, NotInSchema1Error, schema_1
from bitwise.reports_tables import Table, equal, read_tables
from bitwise.trees import TESTS
from bitwise.worker import flat
from initbench.reporting.report import write_report

V01 = "d558414"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of a report of this tree with every table, without its drawings."""
    folder = tmp_path_factory.mktemp("reports")
    trials = SetOfTrials("m", [record.to_json() for record in made_up()["one seed"]()])
    pair = ReportsOfSet(trials, folder, schema=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vl_convert, "vegalite_to_svg", lambda *_, **__: '<svg width="10" height="10"></svg>')
        write_report(pair.new["plain"]["folder"], pair.new["plain"]["output"])
    return pair.new["plain"]["output"]


def tables_of(folder):
    return read_tables(Path(folder), renamed=False)


def one_bit_further(folder, copy, name):
    """Copy a report and move one number of one table by its last bit; return the number's column."""
    shutil.copytree(folder, copy)
    path = copy / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    places = [
        (i, j)
        for i, line in enumerate(lines[1:], 1)
        for j, text in enumerate(line)
        if "." in text and text.replace(".", "").replace("-", "").isdigit() and float(text) != int(float(text))
    ]
    i, j = places[len(places) // 2]
    lines[i][j] = repr(math.nextafter(float(lines[i][j]), math.inf))
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(lines)
    return lines[0][j]


EVERY = ["comparison", "correlation", "costs", "curves", "depths", "differences", "paired_differences", "probes"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EVERY, "rank_pairs", "results"])
def test_one_bit_of_one_number_of_any_table_is_seen(report, tmp_path, name):
    column = one_bit_further(report, tmp_path / "changed", name)
    found = compare_tables(tables_of(tmp_path / "changed"), tables_of(report))
    assert {other for other, table in found.items() if not table.is_equal} == {name}
    [line] = found[name].unexplained
    assert f" {column}: " in line
    assert found[name].equal == found[name].numbers - 1


def test_a_report_equals_itself_number_by_number(report):
    found = compare_tables(tables_of(report), tables_of(report))
    assert {*EVERY, "rank_pairs", "results", "conditions"} <= set(found)
    assert all(table.is_equal and table.equal == table.numbers > 0 for table in found.values())


def test_numbers_are_equal_by_their_bits_and_missing_ones_to_each_other():
    assert equal("3", "3.0")
    assert equal("", "nan")
    assert not equal("", "0.0")
    assert not equal("0.0", "-0.0")
    assert not equal("0.1", repr(0.1 + 2**-56 * 2))
    assert not equal("inf", "-inf")
    assert not equal("kaiming", "xavier")


def comparison(**rows):
    """A table of one workload: by treatment, the cells."""
    return {"comparison": Table(["rank", "outcome_median"], {("w", name): row for name, row in rows.items()})}


BEFORE = comparison(a={"rank": "1", "outcome_median": "0.8"}, b={"rank": "2", "outcome_median": "0.9"})
TIE = comparison(a={"rank": "1.5", "outcome_median": "2.0"}, b={"rank": "1.5", "outcome_median": "2.0"})


def test_a_number_that_the_cause_leads_to_is_explained():
    now = comparison(a={"rank": "1.5", "outcome_median": "0.8"}, b={"rank": "1.5", "outcome_median": "0.9"})
    found = compare_tables(now, BEFORE, [(UNTRAINED, TIE)])["comparison"]
    assert found.unexplained == []
    assert found.reasons == {UNTRAINED: 2}
    assert (found.numbers, found.equal) == (4, 2)


def test_a_number_that_the_cause_does_not_lead_to_is_not_explained():
    now = comparison(a={"rank": "1", "outcome_median": "0.8"}, b={"rank": "3", "outcome_median": "0.9"})
    found = compare_tables(now, BEFORE, [(UNTRAINED, TIE)])["comparison"]
    assert found.unexplained == ["w · b rank: 2 → 3"]


def test_a_reason_explains_its_own_columns_alone():
    now = comparison(a={"rank": "1", "outcome_median": "2.0"}, b={"rank": "2", "outcome_median": "0.9"})
    found = compare_tables(now, BEFORE, [(UNTRAINED, TIE)])["comparison"]
    assert found.unexplained == ["w · a outcome_median: 0.8 → 2.0"]
    assert compare_tables(now, BEFORE, [(SCHEMES, TIE)])["comparison"].reasons == {SCHEMES: 1}


def test_rows_and_columns_that_are_gone_are_not_explained():
    now = {"comparison": Table(["rank"], {("w", "a"): {"rank": "1"}})}
    found = compare_tables(now, BEFORE)["comparison"]
    assert found.unexplained == ["the column outcome_median is missing", "w · b: the row is missing"]
    assert compare_tables({}, BEFORE)["comparison"].unexplained


def test_new_columns_are_listed_and_a_new_row_needs_a_reason():
    now = comparison(
        a={"rank": "1", "outcome_median": "0.8", "state": "trained"}, b={"rank": "2", "outcome_median": "0.9"}
    )
    now["comparison"].columns.append("state")
    assert compare_tables(now, BEFORE)["comparison"].reasons == {NEW: 1}
    now["comparison"].rows["w", "c"] = {"rank": "3", "outcome_median": "0.95"}
    assert compare_tables(now, BEFORE)["comparison"].unexplained == ["w · c: the row is new"]


def differences(**ranks):
    rows = {(name,): {"mean_rank": rank, "difference": "0.1"} for name, rank in ranks.items()}
    return {"differences": Table(["mean_rank", "difference"], rows)}


def test_a_treatment_that_joins_the_differences_must_be_without_a_mean_rank():
    before = differences(a="1.0", b="2.0")
    found = compare_tables(differences(a="1.0", b="2.0", c=""), before)["differences"]
    assert (found.reasons, found.unexplained) == ({FURTHER: 1}, [])
    found = compare_tables(differences(a="1.0", b="2.0", c="3.0"), before)["differences"]
    assert found.unexplained == ["c: the row is new"]


def test_the_reference_is_the_first_of_the_differences_or_the_only_one_that_is_not_compared():
    assert reference(differences(b="1.0", a="2.0")) == "b"
    paired = {"paired_differences": Table([], {("w", "b"): {}})}
    assert reference(BEFORE | paired) == "a"
    assert REFERENCE.covers("paired_differences", "low")
    assert not REFERENCE.covers("rank_pairs", "low")


@pytest.mark.parametrize(("target", "proved"), [("0.8", True), ("", True), ("0.85", False), ("0.9", False)])
def test_a_new_target_must_be_the_median_of_a_cell_that_trained(target, proved):
    [record] = cell([0.5])
    known = record.to_json()
    known["task"]["metrics"]["test_error"] |= {"chance": 0.9, "chance_standard_error": 0.01}
    now = BEFORE | {"costs": Table(["target"], {("w", "a"): {"target": target}})}
    before = {"costs": Table(["target"], {("w", "a"): {"target": "0.7"}})}
    assert (list(_targets(now, before, [known])) == ["w"]) == proved
    assert not TARGET.covers("costs", "initialization_steps")


def test_a_cell_trains_where_it_is_better_than_chance_by_both_margins():
    assert trains(0.9 - 2.6 * 0.01, (0.9, 0.01, 0.0))
    assert not trains(0.9 - 2.5 * 0.01, (0.9, 0.01, 0.0))
    assert not trains(0.9 * 0.981, (0.9, 0.0, 0.0))
    assert trains(0.9 * 0.979, (0.9, 0.0, 0.0))
    assert trains(1.0, None)


def planted(errors, **options):
    records = [record.to_json() for record in cell(errors, **options)]
    for record in records:
        record["task"]["metrics"]["test_error"] = record["task"]["metrics"].get("test_error", {}) | {
            "chance": 0.9,
            "chance_standard_error": 0.01,
            "best": 0.0,
        }
    return records


def test_a_cell_did_not_train_by_its_median_a_diverged_seed_being_the_worst():
    assert len(untrained(planted([0.9, 0.2, 0.9]))) == 3
    assert untrained(planted([0.9, 0.2, 0.2])) == set()
    assert len(untrained(planted([0.2, 0.9, None]))) == 2
    assert untrained(planted([0.9, None, None])) == set()
    assert untrained(without_causes(planted([0.9, 0.9, 0.9]))) == set()


def test_cells_that_did_not_train_are_given_one_outcome_and_no_other_trial_is():
    records = planted([0.9, 0.89, 0.9])
    [other] = planted([0.9], initializer=METAINIT)
    tied = with_untrained_tied([*records, other], untrained(records))
    assert [record["metrics"]["test_error"] for record in tied] == [TIED, TIED, TIED, 0.9]
    assert records[0]["metrics"]["test_error"] == 0.9


def test_a_brought_scheme_goes_and_one_that_the_suite_names_as_well_stands_in_both_places():
    def named(*by):
        return make_record(make_spec({"name": "fixup"}, WRN, scheme="fixup", named_by=by)).to_json()

    assert [r["spec"]["scheme"] for r in with_schemes_moved([named("suite")])] == ["fixup"]
    assert [r["spec"]["scheme"] for r in with_schemes_moved([named("initializer")])] == ["standard"]
    both = with_schemes_moved([named("suite", "initializer")])
    assert [r["spec"]["scheme"] for r in both] == ["fixup", "standard"]
    assert len({r["id"] for r in both}) == 2


LEFT_OUT = ("identity/", "task/", "spec/scheme_named_by", "schema")
LEFT_OUT_OF_DATASETS = tuple(f"spec/dataset/{name}" for name in ("task", "inputs", "outputs", "content"))


@pytest.mark.parametrize("name", ["at chance and diverged", "several probes", "missing and failed", "brought schemes"])
def test_schema_1_loses_no_number_that_a_report_reads(name):
    for record in made_up()[name]()[::5]:
        data = record.to_json()
        before, after = dict(flat(data)), dict(flat(schema_1(data)))
        kept = {k: v for k, v in before.items() if not k.startswith((*LEFT_OUT, *LEFT_OUT_OF_DATASETS))}
        kept = {
            k: v for k, v in kept.items() if not (k.startswith("probes/") and k.endswith(("/kind", "/unit", "/log")))
        }
        lost = {k for k in kept if k not in after}
        assert {k for k in lost if k.startswith("spec/recipe/")} == {f"spec/recipe/{k}" for k in NEW_IN_RECIPE}
        moved = {k for k in lost if k.startswith("spec/initializer/arguments/")}
        assert all(
            k.startswith(("spec/initializer/arguments/base", "spec/initializer/arguments/batch_size")) for k in moved
        )
        assert lost == moved | {k for k in lost if k.startswith("spec/recipe/")}
        assert all(after[k] == v for k, v in kept.items() if k not in lost)
        values = Counter(before[k] for k in moved if not k.endswith("length"))
        assert not values - Counter(after.values())


def test_what_schema_1_had_no_place_for_is_refused():
    assert CLASSIFICATION["name"] == "classification"
    with pytest.raises(NotInSchema1Error, match="no task language"):
        schema_1(make_scored(make_spec(METAINIT), task_of(BITS, name="language"), 1.0).to_json())
    with pytest.raises(NotInSchema1Error, match=r"no recipe\.accumulate"):
        schema_1(make_record(make_spec(METAINIT, recipe={"accumulate": 2})).to_json())
    with pytest.raises(NotInSchema1Error, match=r"no recipe\.optimizer = adamw"):
        schema_1(make_record(make_spec(METAINIT, recipe={"optimizer": "adamw"})).to_json())


def test_made_up_trials_have_what_statistics_depend_on():
    every = {name: make() for name, make in made_up().items()}
    assert len(every) >= 10
    states = Counter(record.status for records in every.values() for record in records)
    assert states.keys() == {"finished", "diverged", "failed"}
    plain = {name: [record.to_json() for record in records] for name, records in every.items()}
    assert untrained(plain["clear winner"]) == set()
    assert len(untrained(plain["all at chance"])) == len(plain["all at chance"])
    assert 0 < len(untrained(plain["saturated, at chance"])) < len(plain["saturated, at chance"])
    known = [r for records in plain.values() for r in records if r["status"] != "failed"]
    assert all(r["task"]["metrics"]["test_error"]["chance"] == CHANCE for r in known)
    assert all(r["initialization"]["cost"] is not None for r in known)


def test_a_request_that_cannot_be_met_is_one_line(capsys, tmp_path):
    assert compare_reports.main(["no-such-commit", "--only", "one workload"]) == 2
    assert compare_reports.main(["HEAD", "--only", "no such set"]) == 2
    assert compare_reports.main(["HEAD", str(tmp_path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("compare_reports.py: ") for line in lines)


@pytest.mark.slow
def test_two_versions_say_the_same_of_a_set_of_trials(capsys):
    known = subprocess.run(["git", "-C", str(TESTS), "cat-file", "-e", f"{V01}^{{commit}}"], check=False)
    if known.returncode:
        pytest.skip("the history does not reach back to version 0.1")
    assert TESTS.parent == compare.ROOT
    assert compare_reports.main([V01, "--only", "brought schemes, some at chance"]) == 0
    said = capsys.readouterr().out
    assert "joined the comparison" in said
    assert said.strip().endswith("all are equal or explained")
