"""Reports over workloads of several metrics: ranks stand over all of them, values are never put together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ledgers import DELTA_1, ERROR, KAIMING, LANGUAGE, R_SQUARED, REGRESSION, make_record, make_scored, make_spec
from reports import comparison, results_of, sentences_of, table_of
from scored import FIVE, NAMES, bits, mixed, r_squared, world

from initbench.reporting.questions.comparison import compare
from initbench.reporting.questions.overview import overview
from initbench.reporting.questions.prediction import predict
from initbench.reporting.questions.variance import variance
from initbench.reporting.questions.workloads import workloads
from initbench.statistics.cost import costs_to_target

TITLES = {"test_r_squared": "test R²", "test_bits_per_byte": "test bits per byte"}


def test_ranks_stand_over_several_metrics_and_values_are_never_put_together():
    found = compare(results_of(mixed()))
    ranks = found.facts.ranking.ranks
    assert list(ranks.mean_ranks.index) == NAMES
    assert (ranks.mean_ranks.iloc[0], ranks.workloads, ranks.is_told) == (1, 6, True)
    # Differences are those of each metric by itself.
    against = {metric.name: comparisons for metric, comparisons in found.facts.against}
    assert {name: own["xavier"].workloads for name, own in against.items()} == dict.fromkeys(TITLES, 3)
    assert all(comparison.comparisons == 10 for own in against.values() for comparison in own.values())
    assert against["test_r_squared"]["xavier"].difference.value == pytest.approx(0.2, abs=0.01)
    assert against["test_bits_per_byte"]["xavier"].difference.value == pytest.approx(0.4, abs=0.01)
    differences = table_of(found, "differences").frame
    assert differences[["difference", "improvement"]].isna().all(axis=None)
    assert list(differences["mean_rank"]) == [1, 2, 3, 4, 5]
    # Where values would be put together there is no figure, and a remark says why.
    assert {figure.name for figure in found.figures} == {"mean-ranks"}
    assert any("test R²" in text and "test bits per byte" in text and "never put" in text for text in found.remarks)


def test_what_each_workload_says_stands_in_its_own_metric_and_direction():
    results = results_of(mixed())
    found = compare(results)
    paired = table_of(found, "paired_differences").frame
    signs = {metric: set(np.sign(own["difference"])) for metric, own in paired.groupby("metric")}
    assert signs == {"test_r_squared": {-1.0}, "test_bits_per_byte": {1.0}}
    comparison_of = workloads(results).facts
    best = comparison_of[comparison_of["rank"] == 1]
    assert set(best["treatment"]) == {"kaiming"}
    assert {name: results.metric_of[name].title for name in best["workload"]} == {
        row["workload"]: TITLES[row["metric"]] for row in best.to_dict("records")
    }
    # On the first two there is a sentence for each metric, with its own unit.
    _, r_squared, bits = sentences_of(found, "")
    assert "in test R²" in r_squared or "in test R²" in bits
    assert "bits" in bits + r_squared
    assert all("over 3 workloads by" in said for said in (r_squared, bits))


def test_what_is_said_of_one_metric_alone_names_it():
    """Where two of three workloads have a metric, ``both workloads`` would be wrong."""
    found = compare(results_of([*world(REGRESSION, r_squared, (10, 16)), *world(LANGUAGE, bits, (10,))]))
    said = sentences_of(found, "")
    pair = "delta_orthogonal (gain 1) and kaiming"
    assert (
        f"No difference was found between {pair} over 2 workloads measured by test R²; at least 3 are needed." in said
    )
    assert not any("both" in text for text in said)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (world(LANGUAGE, bits, (10, 16)), "a run has lower bits per byte than a run of kaiming"),
        (world(REGRESSION, r_squared, (10, 16)), "a run has higher R² than a run of kaiming"),
    ],
    ids=["bits per byte", "R²"],
)
def test_a_quantity_has_no_article(records, words):
    assert words in table_of(compare(results_of(records)), "differences").note


def test_the_pairing_is_a_source_of_variance_in_words():
    [table] = variance(results_of(world(REGRESSION, r_squared, (10, 16)))).tables
    assert "Pairing of initializer\nand network" in [column.heading for column in table.columns]


def test_shares_of_the_variance_are_those_of_each_metric():
    found = variance(results_of(mixed()))
    assert {metric.name: split.shape for metric, split in found.facts} == dict.fromkeys(TITLES, (3, 5, 3))
    assert {sentence.subject for sentence in found.sentences} == set(TITLES.values())
    assert all(split.largest[0] == "treatment" for _, split in found.facts)
    assert set(found.tables[0].frame["metric"]) == set(TITLES.values())


def test_the_first_screen_puts_no_values_together():
    """It names the order by ranks, which stand over all metrics."""
    lead = overview(results_of(mixed())).facts.lead
    assert lead.workload == ""
    assert lead.winner == "kaiming"
    assert lead.difference.n == 6


def test_probes_over_several_metrics():
    found = predict(results_of(mixed()))
    [first, *_] = found.facts.probes
    assert first.test.statistic == pytest.approx(1)  # a higher quotient goes with a worse outcome, in both
    assert math.isnan(first.chosen[1].regret.value)
    assert first.chosen[1].precision.value == 1
    assert math.isnan(first.gain.without)
    said = sentences_of(found)
    assert said[0].startswith("The higher the gradient quotient, the worse the outcome: ρ = +1.00")
    assert not any("hoosing" in own or "adds" in own for own in said)
    [remark] = found.remarks
    assert "what choosing by a probe costs and what it adds are left out" in remark


def test_what_reaches_a_target_is_asked_on_each_workload_in_its_own_direction():
    """Every workload's target is the middle one of its five medians."""
    results = results_of(mixed())
    _, targets = costs_to_target(results.trials, results.by_id, results.metric_of)
    table = workloads(results).facts
    for workload, own in table.groupby("workload"):
        assert targets[workload] == sorted(own["outcome_median"])[len(FIVE) // 2]


def compared_datasets():
    """One network with two initializers on a dataset of classification and one of regression."""
    return [
        record
        for i, own in enumerate((KAIMING, DELTA_1))
        for seed in range(3)
        for record in (
            make_record(make_spec(own, seed=seed), 0.05 + 0.01 * i + 0.001 * seed),
            make_scored(
                make_spec(own, seed=seed, dataset={"name": "sines"}, task="regression"), REGRESSION, 0.8 - 0.01 * i
            ),
        )
    ]


def test_datasets_of_two_metrics_are_never_ranked_against_one_another():
    table = comparison(compared_datasets(), ("dataset",))
    assert set(table["workload"]) == {
        f"plain[depth=28, width=1] · {own} · {metric}"
        for own in ("kaiming", "delta_orthogonal")
        for metric in (ERROR.title, R_SQUARED.title)
    }
    assert list(table["rank"]) == [1] * 4
    assert {own: set(rows["metric"]) for own, rows in table.groupby("treatment")} == {
        "digits": {"test_error"},
        "sines": {"test_r_squared"},
    }
    # A trial that failed goes with the others of its treatment.
    records = compared_datasets()
    failed = make_record(make_spec(KAIMING, seed=9), status="failed")
    again = comparison([*records, failed], ("dataset",)).set_index(["workload", "treatment"])
    assert again["failed"]["plain[depth=28, width=1] · kaiming · test error", "digits"] == 1
    assert len(again) == 4
    assert set(comparison(records)["workload"]) == {
        "plain[depth=28, width=1] · digits",
        "plain[depth=28, width=1] · sines",
    }
