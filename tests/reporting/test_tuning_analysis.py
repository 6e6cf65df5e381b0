"""What tuning changes: objectives by step, scale factors and bases, as facts and as sentences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from drawings import lines_of
from ledgers import DELTA_1, KAIMING, METAINIT, PLAIN, WRN, cell, make_measured, make_record, make_spec

from initbench.json_values import json_values
from initbench.reporting.questions.tuning import tuning
from initbench.reporting.records import CURVE_POINTS, slim, slim_initialization, thinned
from initbench.reporting.results import Results
from initbench.reporting.source import Source

OTHER = {"name": "my_tuner", "base": DELTA_1, "rounds": 3}
PLAIN_28, WRN_28 = "plain[depth=28, width=1]", "wrn[depth=28, width=1]"


def history(values, quantity="gradient_quotient"):
    return [json_values({"step": step, quantity: value}) for step, value in enumerate(values)]


def with_tuning(record, values=(), factors=(), **named):
    entries = named.get("history", history(values))
    events = {
        f"layer{i}.weight": [{"event": "drawn", "law": "normal"}, {"event": "scaled", "factor": factor}]
        for i, factor in enumerate(factors)
    }
    return replace(record, initialization={"history": entries, "tensors": events})


def tuning_of(*records):
    return tuning(Results(Source([slim(record) for record in records])))


def change(found, **where):
    rows = found.facts.changes
    for column, value in where.items():
        rows = rows[rows[column] == value]
    [row] = rows.to_dict("records")
    return row


def test_before_and_after_are_medians_of_the_first_and_the_last_step():
    found = tuning_of(
        *(
            with_tuning(make_record(make_spec(METAINIT, seed=seed), 0.1), values)
            for seed, values in enumerate([[1.0, 0.9, 0.5], [1.2, 3.0, 0.3], [0.8, 0.2, 0.4]])
        )
    )
    row = change(found, source="history")
    assert (row["before"], row["before_smallest"], row["before_largest"]) == (1.0, 0.8, 1.2)
    assert (row["after"], row["after_smallest"], row["after_largest"]) == (0.4, 0.3, 0.5)
    assert (row["seeds"], row["steps"]) == (3, 3)
    assert list(found.facts.steps["value_median"]) == [1.0, 0.9, 0.4]
    assert list(found.facts.steps["value_largest"]) == [1.2, 3.0, 0.5]
    assert (
        str(found.sentences[0]) == "On plain-28, metainit lowers the gradient quotient: from 1.00 to 0.400 in 3 steps."
    )


def test_any_tuner_is_told_and_the_workload_where_it_changes_most():
    found = tuning_of(
        with_tuning(make_record(make_spec(OTHER)), history=history([10.0, 8.0], "spread_of_signals")),
        with_tuning(make_record(make_spec(OTHER, WRN)), history=history([0.3, 0.1], "spread_of_signals")),
        with_tuning(
            make_record(make_spec(OTHER, PLAIN | {"depth": 10})), history=history([1.0, 2.0], "spread_of_signals")
        ),
    )
    text = "my_tuner lowers the spread of signals on 2 of 3 networks, most on wrn-28: from 0.300 to 0.100 in 2 steps."
    assert str(found.sentences[0]) == text


def test_a_tuner_that_lowers_nothing_is_not_said_to():
    found = tuning_of(
        with_tuning(make_record(make_spec(METAINIT)), [0.5, 0.9]),
        with_tuning(make_record(make_spec(METAINIT, WRN)), [0.5, 0.5]),
    )
    text = str(found.sentences[0])
    assert text.startswith(
        "metainit does not lower the gradient quotient on any of 2 networks; on plain-28 it goes from"
    )


def test_values_that_are_not_finite_read_as_infinite():
    found = tuning_of(
        *(
            with_tuning(make_record(make_spec(METAINIT, seed=seed)), values)
            for seed, values in enumerate([[1.0, math.nan], [1.0, math.inf], [1.0, 0.5]])
        )
    )
    row = change(found, source="history")
    assert (row["after"], row["after_smallest"]) == (math.inf, 0.5)
    assert list(found.facts.steps["value_median"]) == [1.0, math.inf]
    assert "does not lower" in str(found.sentences[0])
    assert "from 1.00 to ∞" in str(found.sentences[0])


def test_a_seed_that_stopped_early_counts_as_far_as_it_got():
    found = tuning_of(
        with_tuning(make_record(make_spec(METAINIT, seed=0)), [1.0, 0.8, 0.6, 0.4]),
        with_tuning(make_record(make_spec(METAINIT, seed=1)), [1.0, 0.6]),
    )
    assert list(found.facts.steps["seeds"]) == [2, 2, 1, 1]
    assert list(found.facts.steps["value_median"]) == pytest.approx([1.0, 0.7, 0.6, 0.4])


def test_scale_factors_by_layer_keep_their_signs():
    found = tuning_of(
        *(
            with_tuning(make_record(make_spec(METAINIT, seed=seed)), [1.0, 0.5], factors)
            for seed, factors in enumerate([[2.0, -0.5, 0.1], [4.0, 0.5, 0.1], [3.0, -1.5, 0.1]])
        )
    )
    assert list(found.facts.factors["layer"]) == ["layer0.weight", "layer1.weight", "layer2.weight"]
    assert list(found.facts.factors["value_median"]) == [3.0, -0.5, 0.1]
    row = change(found, source="history")
    assert (row["smallest_factor"], row["largest_factor"]) == (0.1, 3.0)


def test_what_scales_without_a_history_is_told_by_its_factors():
    lsuv = {"name": "lsuv", "base": DELTA_1}
    found = tuning_of(with_tuning(make_record(make_spec(lsuv)), factors=[0.25, 0.5, 4.0]))
    assert str(found.sentences[0]) == "On plain-28, lsuv scales the weights of its base by 0.250 to 4.00."
    assert change(found)["source"] == ""
    assert [figure.title for figure in found.figures] == ["Scale factor, by layer: plain-28"]


def test_the_base_of_a_tuner_is_the_treatment_that_it_starts_from():
    lower = {"name": "delta_orthogonal", "gain": 2.0}
    found = tuning_of(
        *(with_tuning(record, [1.0, 0.5]) for record in cell([0.02, 0.03, 0.04], METAINIT, quotient=0.4)),
        *cell([0.9, 0.9, 0.8], DELTA_1, quotient=0.99),
        *cell([0.1, 0.1, 0.1], lower, quotient=0.7),
        *cell([0.5, 0.5, 0.5], KAIMING),
    )
    [row] = found.facts.outcomes.to_dict("records")
    assert row["base"] == "delta_orthogonal[gain=1]"
    assert (row["before"], row["before_smallest"], row["after"], row["seeds"]) == (0.9, 0.8, 0.03, 3)
    probe = change(found, source="base", quantity="gradient_quotient")
    assert (probe["before"], probe["after"]) == (0.99, 0.4)
    text = str(found.sentences[1]).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        text
        == "On plain-28, tuning takes the test error from 90.00 % (delta_orthogonal (gain 1)) to 3.00 % (metainit)."
    )


def test_a_base_that_diverged_and_one_that_did_not_run():
    found = tuning_of(
        with_tuning(make_record(make_spec(METAINIT), 0.1), [1.0, 0.5]),
        make_record(make_spec(DELTA_1), None, status="diverged"),
        with_tuning(make_record(make_spec(METAINIT, WRN), 0.1), [1.0, 0.5]),
    )
    assert list(found.facts.outcomes["workload"]) == [PLAIN_28]
    assert "from divergence (delta_orthogonal) to 10.00" in str(found.sentences[1])
    assert set(found.facts.changes.loc[found.facts.changes["workload"] == WRN_28, "source"]) == {"history"}


def test_gradients_before_and_after_stand_on_one_figure():
    def layers(*values):
        named = {f"layer{i}.weight": value for i, value in enumerate(values)}
        return {"name": "gradient_norm.per_layer", "kind": "per_layer", "values": named, "unit": "", "conditions": {}}

    found = tuning_of(
        replace(with_tuning(make_record(make_spec(METAINIT)), [1.0, 0.5]), probes=[layers(0.1, 0.2)]),
        replace(make_record(make_spec(DELTA_1)), probes=[layers(1e-6, 2e-6)]),
    )
    figure = next(figure for figure in found.figures if figure.name.startswith("tuned-"))
    assert sorted(bool(dash) for _, dash, _, _ in lines_of(figure.svg)) == [False, True]
    assert "metainit (from delta_orthogonal), before from 1.0·10⁻⁶ to 2.0·10⁻⁶" in figure.alt
    assert "metainit (from delta_orthogonal), after from 0.100 to 0.200" in figure.alt


def test_the_objective_before_and_after_by_depth():
    found = tuning_of(
        *(
            with_tuning(make_record(make_spec(METAINIT, PLAIN | {"depth": depth})), [depth / 10, depth / 20])
            for depth in (10, 28, 16)
        )
    )
    figure = next(figure for figure in found.figures if "-depth-plain-" in figure.name)
    assert sorted(bool(dash) for _, dash, _, _ in lines_of(figure.svg)) == [False, True]
    assert "at depth 10 from 1.00 to 0.500; metainit (from delta_orthogonal) at depth 16" in figure.alt


def test_flags_of_a_history_are_tabled_and_not_drawn():
    entries = [{"step": step, "objective": 2.0 - step, "constrained": float(step == 0)} for step in range(2)]
    found = tuning_of(with_tuning(make_record(make_spec(OTHER)), history=entries))
    assert list(found.facts.changes["quantity"]) == ["objective", "constrained"]
    assert [figure.title for figure in found.figures] == ["Objective while tuning: plain-28"]


def test_where_nothing_was_tuned_there_is_no_section():
    assert tuning_of(*cell([0.1, 0.2])) is None
    assert tuning_of(make_measured(make_spec(METAINIT))) is None
    assert tuning_of(make_record(make_spec(METAINIT), status="failed")) is None


@pytest.mark.parametrize("length", [1, 2, 59, 60, 61, 100, 119, 500, 10_000])
def test_a_thinned_history_has_both_ends_and_few_points(length):
    kept = thinned(length, CURVE_POINTS)
    assert kept[0] == 0
    assert kept[-1] == length - 1
    assert len(kept) <= CURVE_POINTS
    assert len(kept) == length or len(kept) > CURVE_POINTS / 2 - 1
    shorter = thinned(length // 2 + 1, CURVE_POINTS)
    assert set(kept) & set(range(shorter[-1])) <= set(shorter)


def test_what_is_kept_of_an_initialization_is_the_same_again():
    own = {
        "cost": {"forward": 2},
        "history": [
            {"step": 0, "loss": 1.0, "note": "text"},
            {"step": 1, "loss": None, "loss_reason": "-inf", "note": ""},
        ],
        "tensors": {
            "a": [{"event": "scaled", "factor": 2.0}, {"event": "scaled", "factor": 3.0}],
            "b": [{"event": "left"}],
        },
    }
    once = slim_initialization(own, CURVE_POINTS)
    assert {name: list(values) for name, values in once["tuning"].items()} == {"step": [0, 1], "loss": [1.0, -math.inf]}
    assert once["factors"] == {"a": 6.0}
    assert slim_initialization(once, CURVE_POINTS) == once
    assert slim_initialization({}, CURVE_POINTS) == {}
