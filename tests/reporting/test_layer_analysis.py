"""What a network looked like at initialization: profiles over layers, as facts and as sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from drawings import lines_of, marks_of
from ledgers import DELTA_1, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec

from initbench.reporting.quantities import plain_number, quantity_words
from initbench.reporting.questions.layers import farthest, layers
from initbench.reporting.records import slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source

PROBE = "gradient_norm.per_layer"


def of_probe(found, probe):
    """The levels of a probe that have a finite value."""
    levels = found.facts.levels
    return levels[(levels["probe"] == probe) & (levels["layers"] > 0)]


def by_layer(values, name=PROBE, unit=""):
    return {"name": name, "kind": "per_layer", "values": values, "unit": unit, "conditions": {}}


def curve(y, name="signal", x=None):
    x = list(range(len(y))) if x is None else x
    return {"name": name, "kind": "curve", "x": x, "y": y, "over": "depth", "unit": "mean square", "conditions": {}}


def measured(initializer, *entries, architecture=PLAIN, seed=0):
    return replace(make_record(make_spec(initializer, architecture, seed)), probes=list(entries))


def layers_of(*records):
    return layers(Results(Source([slim(record) for record in records])))


def test_a_profile_is_the_median_over_seeds_by_the_place_of_the_layer():
    found = layers_of(
        *(
            measured(KAIMING, by_layer({"stem.weight": value, "fc.weight": 10 * value, "fc.bias": 0.5}), seed=seed)
            for seed, value in enumerate([1.0, 4.0, 2.0])
        )
    )
    rows = found.facts.profiles
    assert list(rows["layer"]) == ["stem.weight", "fc.weight", "fc.bias"]
    assert list(rows["place"]) == [0, 1, 2]
    assert list(rows["value_median"]) == [2, 20, 0.5]
    assert list(rows["value_smallest"]) == [1, 10, 0.5]
    assert list(rows["value_largest"]) == [4, 40, 0.5]
    assert list(rows["seeds"]) == [3, 3, 3]


def test_layers_that_a_scheme_added_stand_behind_what_they_follow():
    found = layers_of(
        measured(KAIMING, by_layer({"a.weight": 1.0, "b.weight": 1.0, "c.weight": 1.0, "d.weight": 1.0})),
        measured(DELTA_1, by_layer({"a.weight": 1.0, "a.gate": 1.0, "c.weight": 1.0})),
    )
    places = found.facts.profiles.set_index(["treatment", "layer"])["place"]
    assert dict(places["kaiming"]) == {"a.weight": 0, "b.weight": 2, "c.weight": 3, "d.weight": 4}
    assert dict(places["delta_orthogonal"]) == {"a.weight": 0, "a.gate": 1, "c.weight": 3}


def test_the_sentence_names_the_treatments_that_lie_farthest_apart_where_they_do():
    found = layers_of(
        measured(KAIMING, by_layer({"a.weight": 1e-9, "b.weight": 3e-9, "c.weight": 2e-9, "c.bias": 1e9})),
        measured(DELTA_1, by_layer({"a.weight": 0.1, "b.weight": 0.3, "c.weight": 0.2, "c.bias": 1e-30})),
        measured(METAINIT, by_layer({"a.weight": 1e-3, "b.weight": 9e-3, "c.weight": 5e-3})),
        measured(KAIMING, by_layer({"a.weight": 1.0, "b.weight": 2.0}), architecture=WRN),
        measured(DELTA_1, by_layer({"a.weight": 5.0, "b.weight": 5.0}), architecture=WRN),
    )
    workload, factor = farthest(of_probe(found, PROBE))
    assert workload == "plain[depth=28, width=1]"
    assert factor == pytest.approx(1e8)
    first, second = map(str, found.sentences)
    assert (
        first
        == "On plain-28, a layer’s typical gradient norm is 2.0·10⁻⁹ with kaiming and 0.200 with delta_orthogonal."
    )
    assert second.endswith("varies most with metainit on plain-28: 9.00-fold.")  # of weights alone, not of biases


def test_gradients_of_zero_are_farthest_of_all():
    found = layers_of(
        measured(KAIMING, by_layer({"a.weight": 0.0, "b.weight": 0.0})),
        measured(DELTA_1, by_layer({"a.weight": 0.0, "b.weight": 1.0})),
    )
    assert farthest(of_probe(found, PROBE)) == ("plain[depth=28, width=1]", math.inf)
    assert "is 0 with kaiming and 0.500 with delta_orthogonal" in str(found.sentences[0])
    assert str(found.sentences[1]).endswith("varies most with delta_orthogonal on plain-28: down to 0.")
    factors = found.facts.levels.set_index("treatment")["factor"]
    assert math.isnan(factors["kaiming"])
    assert factors["delta_orthogonal"] == math.inf


def test_probes_without_a_finite_value_are_said_and_not_drawn():
    found = layers_of(*(measured(KAIMING, by_layer({"a.weight": None, "b.weight": None}), seed=s) for s in range(2)))
    assert [str(sentence) for sentence in found.sentences] == ["No value of gradient norm is finite."]
    assert found.figures == []
    assert any("on plain-28 has no finite value" in remark for remark in found.remarks)
    assert list(found.facts.profiles["seeds"]) == [2, 2]


def test_some_values_that_are_not_finite_leave_the_others():
    found = layers_of(
        measured(KAIMING, by_layer({"a.weight": None, "b.weight": 2.0}), seed=0),
        measured(KAIMING, by_layer({"a.weight": 3.0, "b.weight": 4.0}), seed=1),
    )
    assert list(found.facts.profiles["value_median"]) == [3, 3]


def test_a_curve_is_told_by_its_last_value():
    found = layers_of(
        measured(KAIMING, curve([1.0, 0.1, 0.01])),
        measured(DELTA_1, curve([1.0, 1.0, 0.5])),
    )
    assert list(found.facts.profiles["place"]) == [0, 1, 2, 0, 1, 2]
    [sentence] = found.sentences
    assert str(sentence) == "On plain-28, the last signal is 0.0100 with kaiming and 0.500 with delta_orthogonal."
    [figure] = found.figures
    assert figure.title == "Signal by depth: plain-28"
    assert len(lines_of(figure.svg)) == 2


def test_a_curve_keeps_its_signs():
    """The eigenvalues of a Hessian may be negative."""
    found = layers_of(measured(KAIMING, curve([1.0, -2.0])), measured(DELTA_1, curve([1.0, 2.0])))
    assert (
        str(found.sentences[0]) == "On plain-28, the last signal is −2.00 with kaiming and 2.00 with delta_orthogonal."
    )
    levels = found.facts.levels.set_index("treatment")
    assert tuple(levels.loc["kaiming", ["typical", "smallest", "largest"]]) == (-2, -2, 1)
    assert math.isnan(levels.loc["kaiming", "factor"])
    both = layers_of(measured(KAIMING, curve([1.0, -2.0])), measured(DELTA_1, curve([1.0, -8.0])))
    assert farthest(both.facts.levels) == ("plain[depth=28, width=1]", 4)
    assert "is −8.00 with delta_orthogonal and −2.00 with kaiming" in str(both.sentences[0])
    alone = layers_of(measured(KAIMING, curve([1.0, -2.0])))
    assert str(alone.sentences[0]) == "On plain-28, the signal is between −2.00 and 1.00 with kaiming."


def test_one_treatment_has_a_range():
    found = layers_of(measured(KAIMING, by_layer({"a.weight": 0.5, "b.weight": 0.25})))
    assert (
        str(found.sentences[0]) == "On plain-28, the gradient norm of a layer is between 0.250 and 0.500 with kaiming."
    )


def test_weights_are_drawn_in_order_and_biases_are_not():
    values = {"a.weight": 1.0, "a.bias": 100.0, "b.weight": 2.0, "b.bias": 100.0, "c.weight": 3.0}
    [figure] = layers_of(measured(KAIMING, by_layer(values))).figures
    words = list(marks_of(figure.svg))
    assert words == [f"kaiming, layer {i} ({name}.weight): {i + 1}" for i, name in enumerate("abc")]
    assert figure.note == "Weights alone; the table has every parameter."


def test_names_that_tell_no_weight_are_all_taken():
    found = layers_of(measured(KAIMING, by_layer({"first": 1.0, "second": 3.0})))
    assert list(found.facts.levels["factor"]) == [3]
    assert len(marks_of(found.figures[0].svg)) == 2


def test_every_value_is_written_and_nothing_measured_is_no_section():
    found = layers_of(measured(KAIMING, by_layer({"a.weight": 1.0}), curve([1.0, 2.0])))
    assert [table.name for table in found.tables if not table.is_shown] == ["probe_curves", "probe_layers"]
    assert layers_of(make_record(make_spec(KAIMING))) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4196, "0.420"),
        (3.1e-9, "3.1·10⁻⁹"),
        (0, "0"),
        (1840.2, "1,840"),
        (2.5e7, "2.5·10⁷"),
        (math.inf, "∞"),
        (-2, "−2.00"),
    ],
)
def test_numbers_of_any_size_are_readable(value, text):
    assert plain_number(value) == text


def test_probes_in_words_keep_their_arguments():
    assert quantity_words("gradient_norm[batch_size=4].per_layer") == "gradient norm[batch_size=4]"
