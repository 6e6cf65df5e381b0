"""What metrics are called where tasks have several: no two things of one name, and no number that reads wrong."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from ledgers import (
    BITS,
    CLASSIFICATION,
    ERROR,
    KAIMING,
    LANGUAGE,
    METAINIT,
    R_SQUARED,
    REGRESSION,
    make_measured,
    make_record,
    make_scored,
    make_spec,
    task_of,
    write_ledger,
)
from reports import knowing_chance, results_of
from scored import bits, r_squared, world

from initbench.cli.progress import outcome
from initbench.comparing.metrics import outcome_metrics
from initbench.errors import InitbenchError
from initbench.metric import Metric
from initbench.reporting.every_question import every_answer
from initbench.reporting.frame import results_frame
from initbench.reporting.heat_map import heat_map
from initbench.reporting.page.methods import methods
from initbench.reporting.page.trial_table import trial_table
from initbench.reporting.questions.comparison import rank
from initbench.reporting.questions.workloads import workloads
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import in_direction


def test_the_frame_has_one_outcome_for_each_task():
    records = [*world(REGRESSION, r_squared, (10,)), make_record(make_spec(KAIMING), 0.1)]
    frame = results_frame(records)
    assert dict(frame.groupby("dataset")["metric"].first()) == {"digits": "test_error", "sines": "test_r_squared"}
    values = frame["test_r_squared"].fillna(frame["test_error"])
    assert list(frame["outcome"]) == list(values)
    assert list(outcome_metrics(records).values()) == [R_SQUARED, ERROR]


def test_two_tasks_may_call_different_metrics_alike():
    nats = task_of(Metric("loss", better="lower", unit="nats", primary=True).on("test"), name="language_modelling")
    plain = task_of(Metric("loss", better="lower", primary=True).on("test"), name="regression")
    records = [*world(nats, bits, (10,)), *world(plain, bits, (10,))]
    assert set(results_frame(records)["metric"]) == {"test_loss (language_modelling)", "test_loss (regression)"}
    assert {metric.unit for metric in outcome_metrics(records).values()} == {"nats", ""}


def test_metrics_that_differ_in_their_chance_alone_are_one():
    """Chance is a dataset's: two datasets of one task have one metric."""
    other = {**CLASSIFICATION, "metrics": {**CLASSIFICATION["metrics"]}}
    other["metrics"]["test_error"] = ERROR.to_json() | {"chance": 0.9, "chance_standard_error": 0.01}
    records = [make_scored(make_spec(KAIMING, seed=s), task, 0.1) for s, task in enumerate((CLASSIFICATION, other))]
    results = results_of(records)
    assert len(results.metrics) == 1
    assert rank(results).whole.table.shape == (1, 1)


def test_metrics_of_one_key_have_columns_of_their_own():
    """Classification's error is a share in percent, the other task's is not; so is what it is after the first epoch."""
    absolute = Metric("error", better="lower", label="mean absolute error", show="{:.3f}", primary=True).on("test")
    early = Metric("first_epoch_accuracy", "higher", "first-epoch closeness", show="{:.1f}")
    task = task_of(absolute, early, name="regression")
    records = [make_record(make_spec(KAIMING, seed=seed), 0.05) for seed in range(3)]
    for seed in range(3):
        spec = make_spec(KAIMING, seed=seed, dataset={"name": "sines"}, task="regression")
        numbers = {"first_epoch_accuracy": 7.5, "train_error": 2.5}
        records.append(make_scored(spec, task, 3.2, metrics=numbers))
    results = results_of(records)
    table = trial_table(results)
    kinds = {column["heading"]: column["kind"] for column in table["columns"]}
    values = {name: {row[i] for row in table["rows"]} for i, name in enumerate(kinds)}
    for heading, unit, value in (
        ("Test error", "%", 0.05),
        ("Test mean absolute error", "", 3.2),
        ("Training error", "%", 0.01),
        ("Training mean absolute error", "", 2.5),
        ("First-epoch accuracy", "%", 0.5),
        ("First-epoch closeness", "", 7.5),
    ):
        assert kinds[heading]["unit"] == unit
        assert values[heading] == {value, None}
    # On each workload its own: 50 % after the first epoch, and 7.5.
    shown = {}
    for own in workloads(results).main_tables:
        heads = [column.heading for column in own.columns]
        [at] = [i for i, head in enumerate(heads) if head.startswith("First-epoch")]
        shown[heads[at]] = [row[at] for row in own.cells]
    assert shown == {"First-epoch accuracy": ["50.00\N{NO-BREAK SPACE}%"], "First-epoch closeness": ["7.5"]}


def test_metrics_of_one_title_are_told_apart_by_their_tasks():
    plain = task_of(Metric("error", better="lower", show="{:.3f}", primary=True).on("test"), name="regression")
    records = [make_record(make_spec(KAIMING), 0.05)]
    records.append(make_scored(make_spec(KAIMING, dataset={"name": "sines"}, task="regression"), plain, 3.2))
    headings = [column["heading"] for column in trial_table(results_of(records))["columns"]]
    assert len(set(headings)) == len(headings)
    assert {"Test error", "Test error (regression)"} <= set(headings)


def test_ledgers_that_do_not_agree_what_is_better_are_refused():
    records = []
    for suite, better in (("a", "higher"), ("b", "lower")):
        task = task_of(Metric("score", better=better, primary=True).on("test"), name="chess")
        records.append(make_scored(make_spec(KAIMING, dataset={"name": suite}, suite=suite, task="chess"), task, 1.0))
    with pytest.raises(InitbenchError, match="do not agree which test_score of chess is better: higher in a; lower in"):
        results_frame(records)


# What a plug-in brought.

REPORT = """
import sys
from initbench.reporting.report import write_report
write_report(sys.argv[1])
assert not {"torch", "initbench.registry", "initbench.tasks", "initbench.plugins"} & set(sys.modules), sys.modules
"""


def test_a_report_needs_no_plugin_and_no_registry(tmp_path):
    """The names of task, dataset, architecture, initializer, metric and probe are known to the records alone."""
    task = task_of(Metric("elo", better="higher", unit="Elo", show="{:.0f}", primary=True).on("test"), name="chess")
    base = {"name": "plugin_base", "temperature": 2.0, "source": "sha256:1"}
    own = {"name": "plugin_initializer", "base": base, "source": "sha256:2"}
    records = []
    for i, initializer in enumerate((own, own | {"base": base | {"temperature": 3.0}})):
        for seed in range(3):
            spec = make_spec(
                initializer,
                {"name": "plugin_network", "depth": 3, "source": "sha256:3"},
                seed,
                dataset={"name": "plugin_games", "size": 10},
                task="chess",
            )
            record = make_scored(spec, task, 1200.0 + 300 * i + seed * (1 + i))
            record.probes.append({"name": "plugin_probe", "kind": "scalar", "value": 3.5 + i, "conditions": {}})
            records.append(record)
    write_ledger(tmp_path, records)
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for shown in ("plugin_network-3", "plugin_games", "Plugin probe", "1502\N{NO-BREAK SPACE}Elo"):
        assert shown in text, shown
    said = [str(own) for analysis in every_answer(results_of(records)) for own in analysis.sentences]
    assert any(own.startswith("plugin_initializer #2 beats plugin_initializer #1 by 301 Elo (") for own in said)


def test_the_methods_of_what_was_measured_only_say_nothing_of_outcomes():
    records = [make_measured(make_spec(own, seed=seed)) for own in (KAIMING, METAINIT) for seed in range(3)]
    found = methods(results_of(records), {"gradient_quotient": "eps 1e-05"})
    assert found.startswith("2 initializers (")
    assert "(a cell) was measured with 3 seeds." in found
    assert "Models were not trained, but measured at initialization." in found
    assert "statistics are given with such values" not in found
    for word in ("utcome", "diverge", "Probes were tested", "Intervals", "was trained"):
        assert word not in found, word


# Numbers.


def test_no_number_is_minus_zero():
    for metric, zero in ((R_SQUARED, "0.000"), (ERROR, "0.00"), (Metric("m", "lower", show="{:.0e}"), "0e+00")):
        for value in (-0.0, -1e-9) if metric.name != "m" else (-0.0,):
            assert metric.number(value) == zero
            assert metric.signed(value) == f"+{zero}"
            assert metric.difference(value).split()[0] == zero
            assert not metric.text(value).startswith("-")
        assert metric.signed(-0.5).startswith("-")
        assert metric.number(-math.inf).endswith("-inf")
    tie = pd.DataFrame({"difference": [0.0], "low": [0.0], "high": [0.0], "median": [0.0]})
    assert not np.signbit(in_direction(tie, R_SQUARED).to_numpy()).any()
    assert not np.signbit(Estimate(0.0, 0.0, 0.0, 3).in_direction(R_SQUARED)[:3]).any()
    assert math.copysign(1, R_SQUARED.oriented(0.0)) == 1


def test_a_unit_that_the_title_has_is_not_said_twice():
    assert BITS.amount(0.05) == "0.050"
    assert ERROR.amount(0.05) == "5.00 points"
    assert BITS.beside_title.text(3.513) == "3.513"
    assert ERROR.beside_title.text(0.05) == "5.00\N{NO-BREAK SPACE}%"
    for title, is_said in (("loss (nats)", True), ("loss in nats", True), ("sonatsize", False), ("loss", False)):
        assert Metric("loss", "lower", title, unit="nats").beside_title.text(2.0) == (
            "2" if is_said else "2\N{NO-BREAK SPACE}nats"
        )


def test_the_line_of_a_trial_says_its_unit_once():
    spec = make_spec(KAIMING)
    assert outcome(make_scored(spec, LANGUAGE, 3.513)) == "test bits per byte 3.513"
    assert outcome(make_record(spec, 0.05)) == "test error 5.00 %"


def _strings(data):
    if isinstance(data, str):
        return [data]
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list | tuple) else ()
    return [text for item in inside for text in _strings(item)]


@pytest.mark.parametrize(("learned", "depths"), [(1.5, (10, 16)), (1.5, (10,)), (4.4, (10,))])
def test_no_text_of_a_report_says_the_unit_beside_the_title(learned, depths):
    """Sentences, tables, figures, the map and the page: where one says ``bits per byte``, no number has ``bits``."""
    records = knowing_chance(
        [
            *world(LANGUAGE, lambda i, a: bits(i, a) + learned - 1.5, depths),
            *world(LANGUAGE, lambda i, a: bits(i, a) + 3, (28,)),
        ],
        4.449,
        0.001,
    )
    results = results_of(records)
    texts = []
    for analysis in every_answer(results):
        texts += [*map(str, analysis.sentences), *analysis.remarks]
        for table in analysis.tables:
            headings = " ".join(column.heading for column in table.columns)
            texts += [f"{headings} {' '.join(row)}" for row in table.cells] + [table.note]
        for figure in analysis.figures:
            texts += [figure.alt, figure.note, *_strings(figure.specification)]
    found = heat_map(results)
    texts += [f"{found.metric} {cell.text} {cell.title} {cell.mean}" for row in found.rows for cell in row.cells]
    outcomes = [column for column in trial_table(results)["columns"] if "bits per byte" in column["heading"]]
    texts += [f"{column['heading']} 3.5 {column['kind']['unit']}" for column in outcomes]
    titled = [text.replace("\n", " ") for text in texts if "bits per byte" in text.replace("\n", " ").casefold()]
    assert len(titled) > 10
    for text in titled:
        assert not re.search(r"\d[\s\N{NO-BREAK SPACE}]bits\b(?! per byte)|\(bits\)", text), text
