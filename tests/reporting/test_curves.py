"""Training curves and depth curves, as numbers and as drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest
from drawings import SVG, lines_of, marks_of, parsed
from ledgers import DELTA_1, KAIMING, METAINIT, PLAIN, WRN, make_record, make_spec, quickstart_records

from initbench.comparing.keys import Key
from initbench.comparing.labels import Labels
from initbench.reporting.questions.depth import depth_profile
from initbench.reporting.questions.training import training_curves as training
from initbench.reporting.records import CURVE_POINTS, slim
from initbench.reporting.results import Results
from initbench.reporting.source import Source
from initbench.statistics.cost import gradient_equivalents, initialization_steps
from initbench.statistics.curves import training_curves
from initbench.statistics.depth import DEPTH, depth_curves


def with_curve(spec, errors, *, status="finished", cost=None):
    """Return a record with a history of these test errors, ten steps each."""
    history = [{"step": 10 * i, "epoch": i, "test_error": error} for i, error in enumerate(errors, 1)]
    record = make_record(spec, errors[-1], status=status)
    return replace(record, history=history, initialization={"cost": cost} if cost else {})


def results_of(*records):
    return Results(Source([slim(record) for record in records]))


def curves_of(*records):
    results = results_of(*records)
    return training_curves(results.trials, results.records, results.metric_of)


def depths_of(records):
    results = results_of(*records)
    families = {workload: results.labels.family(workload, DEPTH) for workload in results.metric_of}
    return depth_curves(results.trials, results.metric_of, families)


@pytest.mark.parametrize(
    ("forward", "backward", "gradients"),
    [(1, 1, 1), (2, 0, 2 / 3), (0, 0, 0), (1, 3, 9), (500, 1500, 4500), (10, 20, 30)],
    ids=["training step", "LSUV", "a distribution", "MetaInit step", "MetaInit", "gradient of a gradient's norm"],
)
def test_what_passes_cost_in_gradients(forward, backward, gradients):
    assert gradient_equivalents({"forward": forward, "backward": backward}) == pytest.approx(gradients)


def test_an_initializer_is_charged_for_its_own_batches():
    # 10 steps of MetaInit are 90 gradients of 32 samples; training has batches of 64.
    tuned = with_curve(make_spec(METAINIT), [0.5], cost={"forward": 10, "backward": 30})
    assert initialization_steps(tuned) == pytest.approx(45)
    assert math.isnan(initialization_steps(with_curve(make_spec(KAIMING), [0.5])))


def test_a_curve_is_the_median_over_seeds_and_starts_after_what_the_initializer_spent():
    cost = {"forward": 10, "backward": 30}
    table = curves_of(
        *(
            with_curve(make_spec(METAINIT, seed=seed), errors, cost=cost)
            for seed, errors in enumerate([[0.5, 0.1], [0.6, 0.3], [0.9, 0.2]])
        )
    )
    assert list(table["step"]) == [10, 20]
    assert list(table["compute"]) == [55, 65]
    assert list(table["outcome_median"]) == [0.6, 0.2]
    assert list(table["outcome_smallest"]) == [0.5, 0.1]
    assert list(table["outcome_largest"]) == [0.9, 0.3]
    assert list(table["seeds"]) == [3, 3]


def test_a_diverged_trial_counts_as_worst_from_where_it_ended():
    table = curves_of(
        with_curve(make_spec(KAIMING, seed=0), [0.5, 0.4, 0.3]),
        with_curve(make_spec(KAIMING, seed=1), [0.7, 0.8], status="diverged"),
    )
    assert list(table["outcome_median"]) == [pytest.approx(0.6), pytest.approx(0.6), math.inf]
    assert list(table["diverged"]) == [0, 0, 1]
    assert list(table["outcome_largest"]) == [0.7, 0.8, math.inf]


def test_what_diverged_before_the_first_point_has_one():
    records = [make_record(make_spec(KAIMING, seed=s), None, status="diverged") for s in range(2)]  # at step 37
    table = curves_of(*(replace(record, history=[]) for record in records))
    assert table[["step", "seeds", "diverged", "outcome_median"]].to_numpy().tolist() == [[37, 2, 2, math.inf]]


def test_triangles_at_one_place_are_all_seen():
    records = [
        with_curve(make_spec(initializer, PLAIN | {"depth": depth}, 0), [error], status=status)
        for depth, error, status in ((10, 0.1, "finished"), (28, 0.5, "diverged"))
        for initializer in (KAIMING, METAINIT)
    ]
    [figure] = depth_profile(results_of(*records)).figures
    outlines = [
        path.get("d")
        for path in parsed(figure.svg).iter(f"{SVG}path")
        if ": diverged" in (path.get("aria-label") or "")
    ]
    assert len(outlines) == len(set(outlines)) == 2


def test_failed_trials_and_groups_are_kept_apart():
    table = curves_of(
        with_curve(make_spec(KAIMING, PLAIN), [0.5]),
        with_curve(make_spec(KAIMING, WRN), [0.1]),
        make_record(make_spec(KAIMING, PLAIN, 1), status="failed"),
    )
    assert dict(zip(table["workload"], table["outcome_median"], strict=True)) == {
        "plain[depth=28, width=1]": 0.5,
        "wrn[depth=28, width=1]": 0.1,
    }
    assert list(table["seeds"]) == [1, 1]


def test_long_histories_are_thinned_alike_for_trials_of_any_end():
    spec = make_spec(KAIMING, recipe={"epochs": 200})
    whole, ended = (
        [entry for entry in slim(with_curve(spec, [0.5] * epochs, status=status)).history if entry["drawn"]]
        for epochs, status in ((200, "finished"), (117, "diverged"))
    )
    assert sum(entry["drawn"] for entry in whole) == CURVE_POINTS
    assert whole[-1]["epoch"] == 200
    assert ended == whole[: len(ended)]
    short = make_spec(KAIMING, recipe={"epochs": 7})
    assert [entry["epoch"] for entry in slim(with_curve(short, [0.5] * 7)).history] == [1, 2, 3, 4, 5, 6, 7]


def test_the_first_entry_at_any_target_is_kept_and_not_drawn():
    errors = [0.9 - 0.001 * epoch for epoch in range(200)]
    errors[100:] = [0.95] * 100
    whole = slim(with_curve(make_spec(KAIMING, recipe={"epochs": 200}), errors)).history
    assert [e["test_error"] for e in whole if e["epoch"] <= 100] == errors[:100]
    assert sum(e["epoch"] > 100 for e in whole) == CURVE_POINTS / 2
    drawn = sum(e["drawn"] for e in whole)
    record = replace(with_curve(make_spec(KAIMING, recipe={"epochs": 200}), errors), history=whole)
    assert drawn == CURVE_POINTS == len(curves_of(record))


def test_depth_curves_have_one_row_per_initializer_and_depth():
    records = [
        make_record(
            make_spec(initializer, PLAIN | {"depth": depth}, seed),
            None if depth == 100 and seed else error + seed / 100,
            status="diverged" if depth == 100 and seed else "finished",
        )
        for initializer, error in ((KAIMING, 0.1), (DELTA_1, 0.2))
        for depth in (16, 100)
        for seed in range(3)
    ]
    records += [make_record(make_spec(KAIMING, WRN, 0), 0.3)]
    table = depths_of(records)
    assert set(table["family"]) == {"plain[width=1]"}  # wrn has one depth
    kaiming = table[table["treatment"] == "kaiming"]
    assert list(kaiming["depth"]) == [16, 100]
    assert list(kaiming["outcome_median"]) == [pytest.approx(0.11), math.inf]
    assert list(kaiming["diverged"]) == [0, 2]


@pytest.mark.parametrize(
    ("workload", "family"),
    [
        ({"architecture": "plain", "architecture.depth": 28, "architecture.width": 1}, "plain[width=1]"),
        ({"architecture": "plain", "architecture.depth": 28}, "plain"),
        ({"architecture": "net", "architecture.depth": 2.5, "architecture.width": 1}, "net[width=1]"),
        (
            {"architecture": "mlp", "architecture.width": 4, "architecture.depth": 2}
            | {"scheme": "fixup", "dataset": "digits", "recipe.lr": 0.1},
            "mlp[width=4] + fixup · digits · lr=0.1",
        ),
        ({"architecture": "timm/resnet18"}, "timm/resnet18"),
    ],
)
def test_a_family_is_a_workload_without_its_depth(workload, family):
    labels = Labels()
    assert labels.family(labels.workload(Key(workload)), DEPTH) == family


def test_networks_whose_depths_are_no_integers_are_one_family():
    records = [
        make_record(make_spec(KAIMING, {"name": "net", "depth": depth, "width": 1}, seed), depth / 10)
        for depth in (2.5, 4.0)
        for seed in range(2)
    ]
    results = results_of(*records)
    answer = depth_profile(results)
    assert list(answer.facts.depths["family"]) == ["net[width=1]"] * 2
    assert list(answer.facts.depths["depth"]) == [2.5, 4.0]
    assert {row[0] for row in answer.tables[0].cells} == {"net"}
    assert "on net: from 25.00\N{NO-BREAK SPACE}% at depth 2.5 to 40.00\N{NO-BREAK SPACE}% at depth 4." in str(
        answer.sentences[0]
    )


def test_every_point_is_drawn_and_the_end_of_a_line_is_marked_once():
    records = [
        with_curve(make_spec(KAIMING), [0.5, 0.4, 0.3, 0.2]),
        with_curve(make_spec(DELTA_1, seed=0), [0.5, 0.6], status="diverged"),
        with_curve(make_spec(DELTA_1, seed=1), [0.5, 0.6, 0.7, 0.8]),
    ]
    [step] = training(results_of(*records)).figures  # what was spent is not known, so there is none by compute
    found = marks_of(step.svg)
    assert len(found) == 4 + 2 + 1
    assert "delta_orthogonal, step 30: diverged, 2 seeds, 1 diverged" in found
    assert "kaiming at step 40: 20.00" in step.alt
    assert step.alt.index("kaiming") < step.alt.index("delta_orthogonal")
    assert "delta_orthogonal at step 40: diverged" in step.alt


def test_depths_are_drawn_with_a_triangle_where_half_diverged():
    records = [
        make_record(make_spec(KAIMING, PLAIN | {"depth": depth}), error, status=status)
        for depth, error, status in ((10, 0.1, "finished"), (16, 0.2, "finished"), (28, None, "diverged"))
    ]
    [figure] = depth_profile(results_of(*records)).figures
    assert len(marks_of(figure.svg)) == 3
    assert "kaiming, depth 28: diverged, 1 seed, 1 diverged" in marks_of(figure.svg)
    assert [len(points) for *_, points in lines_of(figure.svg)] == [2]
    assert figure.specification["layer"][0]["encoding"]["x"]["axis"]["values"] == [10, 16, 28]


def test_nothing_to_draw_is_no_figure():
    failed = [make_record(make_spec(KAIMING), status="failed")]
    assert training(results_of(*failed)) is None
    assert depths_of(failed).empty
    assert depth_profile(results_of(*failed)) is None
    diverged = [with_curve(make_spec(KAIMING), [math.inf], status="diverged")]
    assert training(results_of(*diverged)).figures == []


def test_the_curves_table_of_quickstart_has_no_gap():
    records = quickstart_records()
    table = curves_of(*records)
    assert set(table["seeds"]) == {3}
    pd.testing.assert_frame_equal(table, curves_of(*records[::-1]))
