"""Measurements that are no single number, and trials that measure only."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest
from ledgers import DELTA_1, KAIMING, cell, make_measured, make_record, make_spec, write_ledger

from initbench.reporting.frame import results_frame
from initbench.reporting.questions.layers import layers
from initbench.reporting.questions.workloads import comparison_frame
from initbench.reporting.records import slim
from initbench.reporting.report import write_report
from initbench.reporting.results import Results
from initbench.reporting.source import Source

CURVE = {
    "name": "signal_by_depth",
    "kind": "curve",
    "x": [0, 1, 2],
    "y": [1.0, 0.5, None],
    "over": "depth",
    "unit": "mean square",
    "log": True,
    "conditions": {"samples": 16, "y_reason": "inf"},
}
LAYERS = {"name": "gradient_norm.per_layer", "kind": "per_layer", "values": {"conv1.weight": 2.0, "fc.bias": None}}
SCALAR = {"name": "sharpness", "kind": "scalar", "value": None, "conditions": {"value_reason": "nan"}}


def results_of(records):
    return Results(Source([slim(record) for record in records]))


def with_probes(record):
    return replace(record, probes=[*record.probes, CURVE, LAYERS | {"unit": "", "conditions": {}}, SCALAR])


def test_scalars_stand_in_the_frame_and_nothing_else_does():
    frame = results_frame([with_probes(record) for record in cell([0.1, 0.2])])
    probes = [column for column in frame.columns if column.startswith("probe.")]
    assert probes == [
        "probe.gradient_norm",
        "probe.gradient_quotient",
        "probe.gradient_quotient.saturated",
        "probe.sharpness",
    ]
    assert frame["probe.sharpness"].isna().all()


def test_curves_and_layers_are_tabled_and_left_out_of_the_statistics_by_name(tmp_path):
    records = [with_probes(record) for own in (KAIMING, DELTA_1) for record in cell([0.1, 0.2, 0.3], own)]
    write_ledger(tmp_path, records)
    remark, *_ = layers(results_of(records)).remarks
    assert remark == (
        "Statistics use only single numbers and therefore leave out signal_by_depth (1 curve; probe_curves.csv) and "
        "gradient_norm.per_layer (1 layer profile; probe_layers.csv)."
    )
    text = write_report(tmp_path).page.read_text(encoding="utf-8")
    assert text.count(remark) == 1
    assert 'href="probe_curves.csv"' in text
    curves = pd.read_csv(tmp_path / "report" / "probe_curves.csv")
    assert list(curves.columns) == ["trial_id", "workload", "treatment", "seed", "probe", "over", "x", "y", "unit"]
    assert len(curves) == 6 * 3
    assert list(curves["y"][:3].fillna(-1)) == [1.0, 0.5, -1]
    values = pd.read_csv(tmp_path / "report" / "probe_layers.csv")
    assert list(values["layer"][:2]) == ["conv1.weight", "fc.bias"]
    assert set(values["treatment"]) == {"kaiming", "delta_orthogonal"}
    # A report without them has neither the tables nor the sentence.
    write_ledger(tmp_path / "plain", cell([0.1]))
    text = write_report(tmp_path / "plain", tmp_path / "report").page.read_text(encoding="utf-8")
    assert "Statistics use only single numbers" not in text
    assert not (tmp_path / "report" / "probe_curves.csv").exists()
    assert not (tmp_path / "report" / "probe_layers.csv").exists()


def test_a_trial_that_was_not_trained_shows_its_probes_and_is_in_no_outcome_statistic(tmp_path):
    measured = [
        make_measured(make_spec(own, seed=seed), quotient=0.25 + i)
        for i, own in enumerate((KAIMING, DELTA_1))
        for seed in range(3)
    ]
    frame = results_frame(measured)
    assert frame["outcome"].isna().all()
    assert list(frame["probe.gradient_quotient"]) == [1.25] * 3 + [0.25] * 3
    table = comparison_frame(results_of(measured))
    assert list(table["gradient_quotient_median"]) == [1.25, 0.25]
    assert table[["rank", "outcome_median", "outcome_mean"]].isna().all(axis=None)
    write_ledger(tmp_path, measured)
    text = write_report(tmp_path).page.read_text(encoding="utf-8")
    assert "Nothing was trained here" in text
    assert "Models were not trained, but measured at initialization." in text
    assert "lowest median" not in text
    data = json.loads(text.partition('id="trials-data">')[2].partition("</script>")[0])
    cells = zip(data["columns"], data["rows"][0], strict=True)
    row = [column["texts"][value] if "texts" in column else value for column, value in cells]
    assert row[:5] == ["plain-28", "delta_orthogonal", 0, "finished", 1.25]


@pytest.mark.parametrize("extra", [KAIMING, {"name": "xavier"}], ids=["of the same initializer", "of another"])
def test_measured_trials_move_no_statistic_of_trained_ones(extra):
    trained = [
        record
        for own, errors in ((KAIMING, [0.1, 0.2, 0.3]), (DELTA_1, [0.4, 0.5, 0.6]))
        for record in cell(errors, own)
    ]
    alone = comparison_frame(results_of(trained)).set_index(["workload", "treatment"])
    both = [*trained, *(make_measured(make_spec(extra, seed=seed)) for seed in range(3))]
    table = comparison_frame(results_of(both))
    named = table[table["outcome_median"].notna()]
    assert list(named["outcome_mean"]) == list(alone["outcome_mean"])
    assert list(named["rank"]) == [1, 2]
    assert len(results_of(both).metrics) == 1


def test_a_diverged_and_a_failed_trial_without_a_task_are_read(tmp_path):
    """A lost worker tells nothing; what diverged before anything was evaluated has no metric but its divergence."""
    records = [
        *cell([0.1, 0.2, 0.3]),
        replace(
            make_record(make_spec(DELTA_1, seed=0), None, status="diverged"),
            task={"name": "classification", "primary": "test_error", "metrics": {}},
        ),
        make_record(make_spec(DELTA_1, seed=1), status="failed"),
    ]
    table = comparison_frame(results_of(records)).set_index("treatment")
    assert dict(table["diverged"]) == {"kaiming": 0, "delta_orthogonal": 1}
    assert table.loc["delta_orthogonal", "rank"] == 2
    write_ledger(tmp_path, records)
    written = write_report(tmp_path)
    assert "delta_orthogonal diverges" in str(written.sentences[0]).lower()
    assert "1 of 4 trials diverged" in written.page.read_text(encoding="utf-8")
