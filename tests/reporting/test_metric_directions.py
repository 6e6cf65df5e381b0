"""Reports of other metrics than errors: R², of which more is better, and bits per byte."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from ledgers import BITS, ERROR, KAIMING, LANGUAGE, PLAIN, R_SQUARED, REGRESSION, make_scored, make_spec, task_of
from reports import comparison, results_of, sentences_of, table_of
from scored import DEPTHS, FIVE, NAMES, bits, r_squared, world

from initbench.metric import Metric
from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.overview import overview
from initbench.reporting.questions.prediction import predict
from initbench.reporting.questions.probe_results import measure
from initbench.reporting.questions.training import training_curves
from initbench.reporting.questions.workloads import workloads
from initbench.reporting.records import slim
from initbench.reporting.report import write_report
from initbench.statistics import probes
from initbench.statistics.cells import cells
from initbench.statistics.cost import cost_to_target, costs_to_target

EIGHT = (4, 6, 8, 10, 12, 16, 22, 28)
"""Depths of as many networks as a performance profile needs."""


def test_the_highest_r_squared_wins_everywhere():
    results = results_of(world(REGRESSION, r_squared))
    table = workloads(results).facts
    assert list(table["treatment"]) == NAMES * len(DEPTHS)
    assert list(table["rank"]) == [1, 2, 3, 4, 5] * len(DEPTHS)
    assert table["outcome_median"].iloc[0] == pytest.approx(0.9, abs=0.01)
    assert set(table["metric"]) == {"test_r_squared"}
    found = compare(results)
    ranks = found.facts.ranking.ranks
    assert list(ranks.mean_ranks.index) == NAMES
    assert (ranks.mean_ranks.iloc[0], ranks.workloads, ranks.is_told) == (1, 5, True)
    [(metric, against)] = found.facts.against
    assert metric == R_SQUARED
    # The differences are oriented: what ranks behind it has more of what is to be little.
    assert against["delta_orthogonal[gain=1]"].difference.low > 0
    over, on_each = sentences_of(found, ""), sentences_of(found, "plain-10")
    assert re.match(r"kaiming beats delta_orthogonal \(gain 1\) over 5 networks by 0\.0\d+ in test R² \(0\.0", over[1])
    assert re.match(r"kaiming beats delta_orthogonal \(gain 1\) by 0\.0\d+ in test R² \(0\.0", on_each[0])
    for said in sentences_of(found):
        assert "points" not in said
        assert "%" not in said


def test_a_page_of_another_metric_says_nothing_of_errors(tmp_path):
    written = write_report(results_of(world(REGRESSION, r_squared, DEPTHS[:2])), tmp_path)
    for path in written.files:
        assert "test error" not in path.read_text(encoding="utf-8").lower(), path.name
    assert "test R²" in written.page.read_text(encoding="utf-8")


def test_differences_and_intervals_are_in_the_metrics_own_direction():
    found = compare(results_of(world(REGRESSION, r_squared)))
    tables = {name: table_of(found, name).frame for name in ("differences", "paired_differences")}
    for table in tables.values():
        others = table[table["treatment"] != "kaiming"]
        assert (others["difference"] < 0).all()
    row = tables["differences"].set_index("treatment").loc["xavier"]
    assert row["difference"] == pytest.approx(-0.2, abs=0.01)
    assert row["difference_low"] < row["difference"] < row["difference_high"] < 0
    assert row["improvement"] == 0  # it is never better
    paired = tables["paired_differences"]
    assert ((paired["low"] < paired["difference"]) & (paired["difference"] < paired["high"])).all()


def test_what_is_drawn_and_said_of_a_difference_has_the_tables_direction():
    found = compare(results_of(world(REGRESSION, r_squared)))
    frame = table_of(found, "differences").frame.set_index("treatment")
    forest = next(figure for figure in found.figures if figure.name == "differences")
    assert "kaiming beats xavier" in forest.alt
    text = str(forest.specification)
    for column in ("difference", "difference_low", "difference_high"):
        assert repr(float(frame[column]["xavier"])) in text


def test_a_difference_of_an_unbounded_metric_is_not_clipped():
    found = compare(results_of(world(LANGUAGE, lambda i, a: 1.0 + 3 * i + 0.3 * a * (i + 1))))
    row = table_of(found, "differences").frame.set_index("treatment").loc["xavier"]
    assert row["difference"] > 12
    assert row["difference_high"] > row["difference"]


def test_a_diverged_trial_is_the_worst_where_higher_is_better():
    records = world(REGRESSION, r_squared, DEPTHS[:2])
    spec = make_spec({"name": "zero"}, PLAIN | {"depth": 10}, dataset={"name": "sines", "train_size": None})
    records += [make_scored(spec.model_copy(update={"seed": seed}), REGRESSION, None) for seed in range(3)]
    table = comparison(records)
    last = table[table["workload"].str.contains("depth=10")].iloc[-1]
    assert (last["treatment"], last["rank"], last["outcome_median"]) == ("zero", 6, -math.inf)
    results = results_of(records)
    assert overview(results).facts.map.treatments_in("diverged") == {last["workload"]: ("zero",)}
    [shown] = [own for own in workloads(results).main_tables if own.title == "plain-10"]
    assert "diverged" in shown.cells[-1]
    assert "-inf" not in str(shown.cells)
    # Triangles stand at the edge of the worst values, which is the lower one.
    [panel] = [own.specification for own in predict(results).figures if own.title.endswith("plain-10")]
    assert [layer["encoding"]["y"] for layer in layers_of(panel, "bottom")] == [{"value": "height"}]
    assert layers_of(panel, "top") == []
    assert training_curves(results).facts.curves["outcome_smallest"].min() == -math.inf


def layers_of(panel, field):
    """Return the layers of a panel that draw the marks that have a field."""
    found = [layer for layer in panel.get("layer", []) if field in str(layer.get("transform"))]
    return found + [own for layer in panel.get("layer", []) for own in layers_of(layer, field)]


@pytest.mark.parametrize(
    ("task", "value", "direction", "sign"), [(REGRESSION, r_squared, "lower", -1), (LANGUAGE, bits, "higher", 1)]
)
def test_probes_predict_in_the_metrics_own_direction(task, value, direction, sign):
    """The quotient grows as R² falls and as bits per byte grow."""
    found = predict(results_of(world(task, value)))
    outcome = Metric.from_json(task["metrics"][task["primary"]]).title
    first = found.facts.probes[0]
    assert first.test.statistic == pytest.approx(sign)
    assert first.chosen[1].regret.value == pytest.approx(0)
    rho = f"{sign:+.2f}".replace("-", "\N{MINUS SIGN}")
    assert f"The higher the gradient quotient, the {direction} the {outcome}: ρ = {rho}" in sentences_of(found)[0]
    own = table_of(found, "correlation").frame.query("probe == 'gradient_quotient'")
    assert list(own["rho"]) == pytest.approx([sign] * len(DEPTHS))


def test_bits_per_byte_read_with_their_unit_once():
    results = results_of(world(LANGUAGE, bits))
    on = workloads(results)
    assert list(on.facts["rank"]) == [1, 2, 3, 4, 5] * len(DEPTHS)
    assert re.match(r"kaiming beats delta_orthogonal \(gain 1\) by 0\.\d+ bits \(0\.", sentences_of(on, "plain-10")[0])
    shown = on.main_tables[0].cells[0]
    assert any(re.fullmatch(r"1\.\d{3}", text) for text in shown)  # the heading says the unit
    figure = next(own for own in predict(results).figures if own.title.endswith("plain-10"))
    assert "'test bits per byte'" in str(figure.specification)  # the axis
    for analysis in (on, compare(results)):
        for table in analysis.tables:
            assert "percentage points" not in table.note + str([column.heading for column in table.columns])


def test_a_profile_measures_from_the_best_value():
    """1 - R² of the last is three times that of the first and more; bits per byte have no best value but 0."""
    profiles = {own.name: own for own in compare(results_of(world(REGRESSION, r_squared, EIGHT))).figures}
    assert "distance of the test R² from 1.000" in profiles["profile-outcome"].note
    unknown = task_of(Metric("score", better="higher", primary=True).on("test"), name="regression")
    found = compare(results_of(world(unknown, r_squared, EIGHT)))
    assert found.remarks == ["There is no performance profile: the test score has no best value to measure from."]
    assert "profile-outcome" not in {figure.name for figure in found.figures}


def scored_with(values, seed=0):
    """Return a record of regression that had these values of R² every 10 steps, and whose initializer is free."""
    spec = make_spec(KAIMING, seed=seed, dataset={"name": "sines", "train_size": None})
    record = make_scored(spec, REGRESSION, values[-1])
    history = [{"step": 10 * i, "epoch": i, "test_r_squared": value} for i, value in enumerate(values, 1)]
    return replace(record, history=history, initialization={"cost": {"forward": 0, "backward": 0}})


def test_the_cost_to_a_target_is_met_from_the_better_side():
    record = scored_with((0.2, 0.5, 0.4, 0.8))
    assert [cost_to_target(record, target) for target in (0.1, 0.5, 0.7, 0.9)] == [10, 20, 40, math.inf]
    # Every value that is better than all before is kept, so that the first at any target is.
    assert [entry["test_r_squared"] for entry in slim(record).history if not entry["drawn"]] == []
    assert [entry["test_r_squared"] for entry in slim(record).history] == [0.2, 0.5, 0.4, 0.8]


def test_the_target_of_a_workload_is_in_the_metrics_own_direction():
    """Of two middle ones the better is the higher."""
    records = world(REGRESSION, r_squared, DEPTHS[:1])[:12]  # four initializers
    results = results_of(records)
    _, targets = costs_to_target(results.trials, results.by_id, results.metric_of)
    medians = np.median([[r.metrics["test_r_squared"] for r in records[3 * i : 3 * i + 3]] for i in range(4)], axis=1)
    assert list(targets) == [sorted(medians)[2]]


def test_early_metrics_are_shown_where_records_have_them():
    early = Metric("first_epoch_r_squared", "higher", "first-epoch R²", best=1.0, show="{:.3f}")
    task = task_of(R_SQUARED, early, name="regression")
    records = [
        make_scored(make_spec(own, seed=seed), task, 0.5 + 0.1 * i, metrics={"first_epoch_r_squared": 0.2 + 0.1 * i})
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]
    found = workloads(results_of(records))
    assert list(found.facts["first_epoch_r_squared_mean"]) == pytest.approx([0.6, 0.5, 0.4, 0.3, 0.2])
    [shown] = found.main_tables
    at = [column.heading for column in shown.columns].index("First-epoch R²")
    assert [row[at] for row in shown.cells] == ["0.600", "0.500", "0.400", "0.300", "0.200"]


@pytest.mark.parametrize(
    ("metric", "worst"),
    [
        (Metric("first_epoch_r_squared", "higher", best=1.0), -math.inf),
        (Metric("first_epoch_bits", "lower"), math.inf),
        (Metric("first_epoch_accuracy", "higher", unit="%", scale=100), 0.0),
    ],
)
def test_a_trial_that_diverged_in_its_first_epoch_is_the_worst_after_it(metric, worst, monkeypatch):
    """R² may be below 0, so that 0 would be better than what the others had learned."""
    task = task_of(R_SQUARED, metric, name="regression")
    records = [
        make_scored(
            make_spec(own, seed=seed), task, None if i == 4 else 0.5, metrics={metric.name: -2.0 if i < 4 else None}
        )
        for i, own in enumerate(FIVE)
        for seed in range(3)
    ]
    taken = {}
    monkeypatch.setattr(probes, "cells", lambda trials, columns: taken.update(trials=trials) or cells(trials, columns))
    measure(results_of(records))
    values = taken["trials"].groupby("status")[metric.name].agg(set)
    assert dict(values) == {"finished": {-2.0}, "diverged": {worst}}


def test_a_metric_of_bits_is_what_its_json_says():
    for metric in (BITS, R_SQUARED, ERROR):
        assert Metric.from_json(metric.to_json() | {"later": 1}) == metric
