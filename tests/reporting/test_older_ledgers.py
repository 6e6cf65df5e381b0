"""Ledgers whose recipes have fewer fields than today's, and ledgers of both."""

from __future__ import annotations

import math

import pytest
from ledgers import quickstart_records, write_ledger

from initbench.reporting.frame import load_results
from initbench.reporting.report import write_report

LATER = ("warmup_epochs", "cutout", "label_smoothing", "precision", "activation_checkpointing")


def older(record):
    for field in LATER:
        del record.spec["recipe"][field]
    return record


@pytest.mark.parametrize("share", [1, 2])
def test_a_ledger_without_the_later_fields_of_the_recipe_is_read(tmp_path, share):
    """All of its records or every second one."""
    records = [older(r) if i % share == 0 else r for i, r in enumerate(quickstart_records())]
    write_ledger(tmp_path, records)
    frame = load_results(tmp_path).set_index("trial_id")
    assert len(frame) == len(records)
    for record in records:
        assert frame.loc[record.id, "train_loss"] == pytest.approx(
            record.metrics["train_loss"] or math.nan, nan_ok=True
        )
        assert frame.loc[record.id, "recipe.lr"] == record.spec["recipe"]["lr"]
        if share == 1:
            assert "recipe.cutout" not in frame
        else:
            cutout = frame.loc[record.id, "recipe.cutout"]
            assert math.isnan(cutout) if "cutout" not in record.spec["recipe"] else cutout == 0
    write_report(tmp_path, tmp_path / "report")
    assert (tmp_path / "report" / "index.html").exists()
