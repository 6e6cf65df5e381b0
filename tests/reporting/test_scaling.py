"""Exponents of layers over the size of networks, from planted measurements."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ledgers import make_measured, make_spec
from reports import results_of, sentences_of, table_of

from initbench.reporting.questions.scaling import scaling

WIDTHS = (32, 64, 128)
SPREAD = (-0.01, 0.0, 0.01)  # of the seeds' exponents


def measured(initializer, architecture, seed, activations, changes):
    record = make_measured(make_spec({"name": initializer}, architecture, seed))
    same = {"kind": "per_layer", "unit": "", "conditions": {"steps": 2, "batch_size": 8, "data": "real"}}
    parts = {"activation": activations, "change": changes}
    entries = [{"name": f"coordinates.{part}", "values": values, **same} for part, values in parts.items()]
    return replace(record, probes=[*record.probes, *entries])


def over_width(laws, initializer="mup"):
    """Records of networks in which each layer's change goes as width to the power of its law; None for no change."""
    found = []
    for width in WIDTHS:
        for seed, off in enumerate(SPREAD):
            changes = {layer: 0.0 if b is None else width ** (b + off) for layer, b in laws.items()}
            architecture = {"name": "gpt", "width": width, "heads": width // 16}
            found.append(measured(initializer, architecture, seed, dict.fromkeys(laws, width**off), changes))
    return found


def test_verdicts_by_the_interval_and_the_tolerance():
    laws = {"embedding": 0.0, "hidden": 1.0, "input": -0.5, "near": 0.25, "unmoved": None}
    found = scaling(results_of(over_width(laws)))
    rows = found.facts.set_index("layer")
    assert rows["change_verdict"].to_dict() == {
        "embedding": "stable",
        "hidden": "grows",
        "input": "shrinks",
        "near": "undecided",
        "unmoved": "is 0",
    }
    moved = rows.drop("unmoved")["change"]
    assert moved.to_dict() == pytest.approx({k: v for k, v in laws.items() if v is not None}, abs=0.01)
    assert set(rows["activation_verdict"]) == {"stable"}
    texts = sentences_of(found)
    assert texts[0].startswith("On gpt with mup, the change of 2 of 4 layers in 2 steps depends on the width, most in ")
    assert "hidden, with the exponent +1.00" in texts[0]
    assert texts[0].endswith("; 1 of 4 layers are undecided.")
    still = "does not change, because its input or what follows it is still zero; take more steps"
    assert texts[1] == f"On gpt with mup, unmoved {still}."
    assert len(found.figures) == 1
    assert len(table_of(found, "scaling").frame) == 5


def test_several_layers_that_nothing_moved_are_counted():
    for others, words in (([], ""), (["b"], " (and 1 other)"), (["b", "c"], " (and 2 others)")):
        laws = {"moved": 1.0, "a": None} | dict.fromkeys(others)
        assert sentences_of(scaling(results_of(over_width(laws))))[1].startswith(f"On gpt with mup, a{words} does not")


def test_networks_of_different_depths_are_compared_at_both_ends():
    records = []
    for depth in (2, 4, 8):
        for seed, off in enumerate(SPREAD):
            same = dict.fromkeys(["wte", *(f"h.{i}" for i in range(depth)), "head"], depth**off)
            changes = same | {f"h.{depth - 1}": depth ** (0.5 + off)}
            records.append(measured("mup", {"name": "gpt", "depth": depth}, seed, same, changes))
    found = scaling(results_of(records))
    assert found.facts["size"].unique().tolist() == ["depth"]
    exponents = found.facts.set_index("layer")["change"].to_dict()
    assert exponents == pytest.approx({"wte": 0, "h.0": 0, "h.last": 0.5, "head": 0}, abs=0.01)


def test_one_size_or_no_measurement_has_no_answer():
    assert scaling(results_of(over_width({"hidden": 1.0})[: len(SPREAD)])) is None
    plain = [replace(record, probes=[]) for record in over_width({"hidden": 1.0})]
    assert scaling(results_of(plain)) is None
