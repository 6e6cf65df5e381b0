"""One report of several ledgers, and the command that writes it."""

from __future__ import annotations

import json
import re
import sys
from html import unescape

import pandas as pd
import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, PLAIN, WRN, make_record, make_spec, write_ledger

from initbench.cli.command_line import main
from initbench.errors import InitbenchError
from initbench.reporting.conditions import conditions, differing
from initbench.reporting.frame import results_frame
from initbench.reporting.page.methods import methods
from initbench.reporting.records import slim
from initbench.reporting.report import write_report
from initbench.reporting.results import Results
from initbench.reporting.source import Source, join, read_source


def record(initializer=KAIMING, seed=0, suite="first", error=0.1, **options):
    return make_record(make_spec(initializer, seed=seed, suite=suite), error, **options)


def source_of(*records):
    return Source([slim(r) for r in records])


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["initbench", "report", *map(str, arguments)])
    try:
        main()
    except SystemExit as stop:
        return stop.code
    return 0


def test_rows_carry_their_suite_and_are_compared_together(tmp_path):
    write_ledger(tmp_path / "a", [record(seed=s) for s in range(3)])
    write_ledger(tmp_path / "b", [record(DELTA_1, seed=s, suite="second", error=0.2) for s in range(3)])
    page = write_report([tmp_path / "a", tmp_path / "b"], tmp_path / "both").page
    results = pd.read_csv(page.parent / "results.csv")
    assert dict(zip(results["treatment"], results["suite"], strict=True)) == {
        "kaiming": "first",
        "delta_orthogonal": "second",
    }
    comparison = pd.read_csv(page.parent / "comparison.csv")
    assert list(comparison["rank"]) == [1, 2]
    assert len(set(comparison["workload"])) == 1
    text = page.read_text(encoding="utf-8")
    assert "<h1>first, second</h1>" in text
    assert '"heading":"Suite"' in text


def test_the_order_of_the_ledgers_does_not_matter(tmp_path):
    write_ledger(tmp_path / "a", [record(seed=s) for s in range(3)])
    write_ledger(tmp_path / "b", [record(DELTA_1, suite="second")])
    written = [write_report([tmp_path / name for name in names], tmp_path / names) for names in ("ab", "ba")]
    for first, second in zip(*(report.files for report in written), strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_a_trial_in_two_ledgers_is_counted_once_and_other_numbers_are_told():
    first = Source([record(seed=0), record(seed=1), record(seed=2, status="failed")])
    second = Source([record(seed=0, suite="second"), record(seed=1, error=0.9), record(seed=2, error=0.3)])
    joined = join([first, second])
    errors = {r.spec["seed"]: r.metrics["test_error"] for r in joined.records}
    assert errors == {0: 0.1, 1: 0.1, 2: 0.3}  # a result replaces a failure
    [note] = joined.notes
    assert note.startswith("3 trials are in more than one ledger and are counted once; 1 of them with other numbers")


def test_what_differs_between_suites_is_said(tmp_path):
    other = record(DELTA_1, suite="second")
    other.environment["torch"] = "2.15.0"
    table = conditions([record(), record(seed=1), other])
    rows = table.set_index("condition")
    assert list(table.columns) == ["section", "condition", "differs", "first", "second"]
    assert tuple(rows.loc["torch", ["differs", "first", "second"]]) == (True, "2.13.0", "2.15.0")
    assert tuple(rows.loc["seed", ["first", "second"]]) == ("0 or 1", "0")
    assert tuple(rows.loc["ε", ["differs", "first", "second"]]) == (False, "1e-05", "1e-05")
    assert not rows.loc["fraction_below_epsilon", "differs"]
    assert (
        differing(table)
        == "The suites differ in seed (first: 0 or 1; second: 0), torch (first: 2.13.0; second: 2.15.0)."
    )
    assert differing(conditions([record()])) == ""
    page = write_report(source_of(record(), other), tmp_path).page.read_text(encoding="utf-8")
    assert "torch (first: 2.13.0; second: 2.15.0)" in page


def test_a_condition_of_several_sections_is_named_with_its_own():
    other = record(suite="second")
    for probe in other.probes:
        probe["conditions"]["batch_size"] = 64 if probe["name"] == "gradient_norm" else 32
    said = differing(conditions([record(), other]))
    assert said == "The suites differ in probe gradient_norm: batch_size (first: 32; second: 64)."


def test_a_suite_may_have_the_name_of_a_column(tmp_path):
    names = ("condition", "differs", "section")
    for number, name in enumerate(names):
        own = make_record(make_spec(KAIMING, suite=name, recipe={"lr": 0.1 * 2**number}))
        write_ledger(tmp_path / name, [own])
    page = write_report([tmp_path / name for name in names], tmp_path / "all").page
    text = page.read_text(encoding="utf-8")
    assert "The suites differ in lr (condition: 0.1; differs: 0.2; section: 0.4)." in text
    cells = "".join(f"<td>{cell}</td>" for cell in ("recipe", "lr", "0.1", "0.2", "0.4"))
    assert f'<tr class="differs">{cells}</tr>' in text
    lines = (page.parent / "conditions.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "section,condition,differs,condition,differs,section"
    assert "recipe,lr,True,0.1,0.2,0.4" in lines


def test_each_description_stands_under_its_suite(tmp_path):
    """Also where all trials of a suite stand in another one, so that no record has its name, or one says nothing."""
    for name, seed, description in (("first", 0, "Does it train?"), ("second", 0, "Is it fast?"), ("third", 1, "")):
        write_ledger(tmp_path / name, [record(suite=name, seed=seed)])
        (tmp_path / name / "suite.yaml").write_text(f"description: {description!r}", encoding="utf-8")
    for names, lead in (
        (["first"], "Does it train?"),
        (["first", "second"], "first: Does it train?\nsecond: Is it fast?"),
        (["first", "third"], "first: Does it train?"),
        (["third"], None),
    ):
        source = read_source([tmp_path / name for name in names])
        text = write_report(source, tmp_path / "report").page.read_text(encoding="utf-8")
        said = re.findall(r'<p class="question">(.*?)</p>', text, re.DOTALL)
        assert said == ([lead] if lead else [])


def test_conditions_that_vary_are_ranges_and_flags_are_counted():
    records = [record(seed=s, saturated=s == 2) for s in range(7)]
    for i, r in enumerate(records):
        r.probes[0]["conditions"] |= {"fraction_below_epsilon": i / 10, "epsilon_floor": i / 20, "per_batch": [1, 2]}
    rows = conditions(records).set_index("condition")["first"]
    assert rows["fraction_below_epsilon"] == "0 to 0.6 (median 0.3)"
    assert rows["ε floor (GQ of the same gradient without curvature)"] == "0 to 0.3 (median 0.15)"
    assert rows["saturated"] == "yes in 1 of 7"
    assert rows["seed"] == "0 to 6 (7 values)"
    assert "per_batch" not in rows


def test_several_ledgers_need_a_place(tmp_path):
    write_ledger(tmp_path / "a", [record()])
    with pytest.raises(InitbenchError, match="say where to write it"):
        write_report([tmp_path / "a", tmp_path / "a"])
    with pytest.raises(InitbenchError, match=r"^only one suite's folder has a place for its report: say where"):
        write_report(read_source(tmp_path / "a"))


def test_the_command_takes_several_folders(tmp_path, monkeypatch, capsys):
    for name, initializer in (("a", KAIMING), ("b", DELTA_1)):
        write_ledger(tmp_path / name, [record(initializer, suite=name)])
    assert command(monkeypatch, tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["report"] == str(tmp_path / "both" / "index.html")
    assert any(file.endswith(".svg") for file in told["files"])
    assert told["files"] == sorted(str(path) for path in (tmp_path / "both").rglob("*") if path.is_file())
    (tmp_path / "both" / "notes.txt").write_text("mine", encoding="utf-8")
    assert command(monkeypatch, tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == told["files"]
    assert len(pd.read_csv(tmp_path / "both" / "results.csv")) == 2
    assert command(monkeypatch, tmp_path / "a", tmp_path / "b") == 2
    assert "--out FOLDER" in capsys.readouterr().err
    assert not (tmp_path / "a" / "report").exists()


def test_the_command_names_a_truncated_record_and_exits_with_1(tmp_path, monkeypatch, capsys):
    ledger = write_ledger(tmp_path / "a", [record(), record(seed=1)])
    broken = min(ledger.trials.iterdir())
    broken.write_text("{", encoding="utf-8")
    assert command(monkeypatch, ledger.folder) == 1
    told = capsys.readouterr()
    assert told.out.endswith(f"\nreport: {ledger.folder / 'report' / 'index.html'}\n")
    assert told.err.startswith(f"skipped a/trials/{broken.name}: not a trial record")
    assert len(pd.read_csv(ledger.folder / "report" / "results.csv")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--from", "depth"], "--from depth: write mlflow:EXPERIMENT"), (["--from", "mlflow:x"], "give --out FOLDER")],
)
def test_an_experiment_that_cannot_be_meant_is_one_line(monkeypatch, capsys, arguments, message):
    assert command(monkeypatch, *arguments) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_smoke_runs_report_says_that_it_means_nothing(tmp_path):
    random_data = {"name": "random", "train_size": 8}
    smoke = make_record(make_spec(KAIMING, suite="depth-smoke", dataset=random_data))
    for name, records, banner in (
        ("smoke", [smoke], True),
        ("real", [record()], False),
        ("named like one", [make_record(make_spec(KAIMING, suite="depth-smoke"))], False),
    ):
        text = write_report(source_of(*records), tmp_path / name).page.read_text(encoding="utf-8")
        assert ("Its results mean nothing" in text) == banner, name


def test_figures_of_an_earlier_report_are_removed_and_others_are_kept(tmp_path):
    write_report(source_of(record(), make_record(make_spec(KAIMING, WRN), 0.2)), tmp_path)
    before = {path.name for path in (tmp_path / "figures").iterdir()}
    (tmp_path / "figures" / "mine.svg").write_text("<svg/>", encoding="utf-8")
    write_report(source_of(record()), tmp_path)
    after = {path.name for path in (tmp_path / "figures").iterdir()}
    assert after == {name for name in before if "wrn" not in name} | {"mine.svg"}


def test_tables_of_an_earlier_report_are_removed_and_others_are_kept(tmp_path):
    places = enumerate((KAIMING, DELTA_1, DELTA_2), start=1)  # the same order at six depths: every table is there
    many = [
        make_record(make_spec(initializer, PLAIN | {"depth": depth}, seed), 0.1 * place + 0.001 * seed)
        for place, initializer in places
        for depth in range(10, 70, 10)
        for seed in range(3)
    ]
    write_ledger(tmp_path / "many", many)
    write_ledger(tmp_path / "one", [make_record(make_spec(KAIMING, probes=()), status="failed")])
    written = {}
    for name in ("many", "one"):
        written[name] = {path.name for path in write_report(tmp_path / name).files if path.suffix == ".csv"}
    names = ("rank_pairs", "differences", "paired_differences", "depths", "costs", "probes", "curves")
    assert {f"{name}.csv" for name in names} < written["many"] - written["one"]
    assert written["one"] == {"results.csv", "comparison.csv", "conditions.csv"}
    page = write_report(tmp_path / "many", tmp_path / "report").page
    (page.parent / "mine.csv").write_text("mine", encoding="utf-8")
    write_report(tmp_path / "one", tmp_path / "report")
    assert {path.name for path in page.parent.glob("*.csv")} == written["one"] | {"mine.csv"}


def test_methods_say_what_was_done(tmp_path):
    records = [
        make_record(make_spec(initializer, seed=seed, recipe={"clip_norm": 1.0, "lr": 0.05}), error, status=status)
        for initializer in (KAIMING, DELTA_1)
        for seed, error, status in ((0, 0.1, "finished"), (1, None, "diverged"), (2, 0.2, "finished"))
    ]
    paragraph = methods(Results(source_of(*records)), {"gradient_quotient": "ε 1e-05"})
    text = write_report(source_of(*records), tmp_path).page.read_text(encoding="utf-8")
    [shown] = [line for line in text.splitlines() if line.startswith('<p class="methods">')]
    assert paragraph.partition("(gradient_quotient")[0] in unescape(shown)
    for said in (
        "2 initializers (delta_orthogonal and kaiming) were compared on 1 architecture (plain[depth=28, width=1])",
        "with initbench 0.1.0",
        "trained with 3 seeds",
        "for 8 epochs in batches of 64 with SGD (learning rate 0.05, momentum 0.9",
        "gradients clipped at norm 1.0",
        "2 of 6 trials diverged",
        "gradient_quotient with ε 1e-05",
        "cpu with Python 3.11.7 and PyTorch 2.13.0",
    ):
        assert said in paragraph


def test_methods_say_what_holds_for_some_networks_alone():
    """A rule clips the gradients of one; crops and flips are named too."""
    recipe = {"crop": 4, "flip": True, "nesterov": True}
    records = [
        make_record(make_spec(KAIMING, architecture, seed, recipe=recipe | clipped), 0.1)
        for architecture, clipped in ((PLAIN, {"clip_norm": 1.0}), (WRN, {}))
        for seed in range(2)
    ]
    paragraph = methods(Results(source_of(*records)), {})
    assert (
        "(learning rate 0.1, momentum 0.9, Nesterov’s form of it, schedule cosine, gradients clipped at norm 1.0 or "
        "not, random crops after padding by 4, random horizontal flips, precision fp32)"
    ) in paragraph
    assert "Friedman" not in paragraph


def test_what_one_suites_rule_sets_is_not_compared_with_a_suite_without_the_rule():
    """Within the suite the rule's key is ignored, as ever; beside the other suite it is named."""
    clipped = [
        make_record(make_spec(KAIMING, seed=0, recipe={"clip_norm": 1.0}, rules=("recipe.clip_norm",), suite="a"), 0.1),
        make_record(make_spec(DELTA_2, seed=0, suite="a"), 0.2),
    ]
    other = [make_record(make_spec(DELTA_1, seed=0, suite="b"), 0.1)]
    assert set(results_frame(clipped)["workload"]) == {"plain[depth=28, width=1]"}
    frame = results_frame(clipped + other).set_index("initializer")
    assert (
        list(frame.loc[["kaiming", "delta_orthogonal[gain=2]"], "workload"])
        == ["plain[depth=28, width=1] · clip_norm=by rules"] * 2
    )
    assert frame.loc["delta_orthogonal[gain=1]", "workload"] == "plain[depth=28, width=1] · clip_norm=null"
