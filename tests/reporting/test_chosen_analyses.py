"""Analyses of what was chosen: a workload, a probe, a target, a reference; and what is drawn for them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from drawings import SVG, drawn, parsed
from ledgers import BITS, DELTA_1, KAIMING, METAINIT, PLAIN, WRN, make_record, make_scored, make_spec, task_of
from reports import results_of

from initbench.comparing.names import Name, label_of
from initbench.errors import InitbenchError, UnknownNameError
from initbench.reporting import compare, cost, layers, predict, training_curves
from initbench.reporting.charts.axis import log_labels, log_ticks
from initbench.reporting.charts.rows import Bar, spending_panel

FREE, TUNED = {"forward": 0, "backward": 0}, {"forward": 10, "backward": 10}


def records(initializers=(KAIMING, DELTA_1, METAINIT)):
    """Three initializers on two networks: the i-th ends at .1 + .1 · i, all fall from .9 at step 21."""
    found = []
    for architecture in (PLAIN, WRN):
        for i, initializer in enumerate(initializers):
            for seed in range(4):
                end = 0.1 + 0.1 * i + 0.001 * (seed * (i + 1) % 3) + 0.01 * (architecture is WRN) * i
                made = make_record(make_spec(initializer, architecture, seed), end, quotient=0.5 + i)
                history = [{"step": 21, "epoch": 1, "test_error": 0.9}, {"step": 42, "epoch": 2, "test_error": end}]
                spent = {"cost": TUNED if initializer is METAINIT else FREE}
                norms = {"name": "gradient_norm.per_layer", "kind": "per_layer", "values": {"a.weight": 1.0}}
                other = {"name": "signal", "kind": "curve", "x": [0, 1], "y": [1.0, 2.0], "over": "depth"}
                entries = [*made.probes, *(entry | {"unit": "", "conditions": {}} for entry in (norms, other))]
                found.append(replace(made, history=history, initialization=spent, probes=entries))
    return found


def test_a_name_is_found_short_and_whole_and_the_nearest_is_given():
    known = {"plain[depth=28, width=1]": Name("plain-28"), "wrn[depth=28, width=1]": Name("wrn-28", "no norm")}
    for way in ("wrn-28", "wrn-28 (no norm)", "wrn[depth=28, width=1]"):
        assert label_of(way, known, "workload") == "wrn[depth=28, width=1]"
    with pytest.raises(UnknownNameError, match=r"^no workload 'wrn-29' in these results \(did you mean 'wrn-28'\?\)$"):
        label_of("wrn-29", known, "workload")
    # What two share is neither's.
    twins = {"a": Name("kaiming", "gain 1"), "b": Name("kaiming", "gain 2")}
    assert label_of("kaiming (gain 2)", twins, "initializer") == "b"
    with pytest.raises(UnknownNameError):
        label_of("kaiming", twins, "initializer")


def test_one_workload_has_the_numbers_and_the_colours_that_it_has_among_all():
    results = results_of(records())
    one, every = training_curves(results, workload="wrn-28"), training_curves(results)
    [*own] = (figure for figure in every.figures if figure.subject == "wrn-28")
    assert [figure.subject for figure in one.figures] == ["wrn-28"] * len(own)
    assert [figure.specification for figure in one.figures] == [figure.specification for figure in own]
    assert set(one.facts.ends["workload"]) == {"wrn[depth=28, width=1]"}


def test_one_probe_by_layer():
    found = layers(results_of(records()), probe="gradient_norm.per_layer", workload="plain-28")
    assert [(figure.subject, figure.name.split("-")[0]) for figure in found.figures] == [
        ("plain-28", "gradient_norm.per_layer")
    ]
    assert set(found.facts.levels["probe"]) == {"gradient_norm.per_layer"}


def test_the_probe_that_is_asked_for_comes_first_and_p_values_stay():
    others = ({"name": name} for name in ("xavier", "orthogonal", "zero"))
    results = results_of(records((KAIMING, DELTA_1, *others)))
    first, every = predict(results, probe="gradient_norm"), predict(results)
    assert first.facts.probes[0].probe == "gradient_norm"
    assert {figure.subject for figure in first.figures if figure.subject} == {"plain-28", "wrn-28"}
    assert sorted(map(str, first.sentences)) == sorted(map(str, every.sentences))


def test_one_target_for_all_workloads():
    found = cost(results_of(records()), target=0.25)
    steps = found.facts.to_target.to_numpy()
    # On plain all but the third fall below .25 at step 42, on wrn likewise; none of them spent anything before.
    assert sorted(steps.ravel().tolist()) == [42, 42, 42, 42, math.inf, math.inf]
    assert all("The target is a test error of 25.00" in table.note for table in found.tables)
    one = cost(results_of(records()), target=0.25, workload="wrn-28")
    assert list(one.tables[0].frame["workload"].unique()) == ["wrn[depth=28, width=1]"]
    assert list(one.tables[0].frame["target"].unique()) == [0.25]
    assert [figure.subject for figure in one.figures] == ["wrn-28"]


def test_a_target_is_of_one_metric():
    scored = make_scored(make_spec(KAIMING, seed=9, dataset={"name": "text"}), task_of(BITS, name="language"), 2.0)
    with pytest.raises(InitbenchError, match="target is of one metric, and these results have"):
        cost(results_of([*records(), scored]), target=0.5)


def test_a_reference_named_beforehand_has_fewer_comparisons_to_hold_for():
    results = results_of(records())
    chosen, best = compare(results, reference="kaiming"), compare(results)
    assert best.facts.reference == chosen.facts.reference == "kaiming"
    names = {"delta_orthogonal", "metainit(delta_orthogonal)"}
    [(_, own)], [(_, every)] = chosen.facts.against, best.facts.against
    assert set(own) == set(every) == names
    for name in names:  # 2 comparisons in place of the 3 pairs of 3
        assert own[name].difference.value == every[name].difference.value
        assert own[name].comparisons == 2
        assert every[name].comparisons == 3
    [(_, other)] = compare(results, reference="metainit").facts.against
    assert other["kaiming"].difference.value == pytest.approx(-own["metainit(delta_orthogonal)"].difference.value)


def test_a_reference_that_did_not_run_everywhere_is_refused():
    some = [
        made for made in records() if not ("metainit" in str(made.spec) and made.spec["architecture"]["name"] == "wrn")
    ]
    assert "metainit(delta_orthogonal)" not in compare(results_of(some)).facts.ranking.treatments
    with pytest.raises(InitbenchError, match="metainit has no result on some workload"):
        compare(results_of(some), reference="metainit")


def test_bars_are_as_long_as_what_is_spent():
    rows = [Bar("tuned", 30, 90, "tuned"), Bar("free", 0, 60, "free"), Bar("lost", 20, math.inf, "lost")]
    drawing = parsed(drawn(spending_panel(rows, "steps")))
    bars = [path for path in drawing.iter(f"{SVG}path") if path.get("aria-roledescription") == "bar"]
    widths = {
        (path.get("aria-label"), path.get("fill")): float(path.get("d").partition("h")[2].partition("v")[0])
        for path in bars
    }
    unit = widths["free", "#a9b4bf"] / 60
    assert {bar: width / unit for bar, width in widths.items()} == pytest.approx(
        {("tuned", "#5f6b78"): 30, ("tuned", "#a9b4bf"): 60, ("free", "#a9b4bf"): 60, ("lost", "#5f6b78"): 20}, rel=1e-6
    )
    assert "target not met" in {"".join(text.itertext()) for text in drawing.iter(f"{SVG}text")}


def test_nothing_spent_and_nothing_met_is_no_figure():
    assert spending_panel([Bar("lost", 0, math.inf, "lost")], "steps") is None
    assert spending_panel([Bar("unknown", math.nan, math.nan, "unknown")], "steps") is None


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((0.3, 20), ["0.5", "1", "2", "5", "10", "20"]),
        ((1e-9, 1.5), ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "1"]),
        ((1.5e-9, 6e-8), ["2·10⁻⁹", "5·10⁻⁹", "10⁻⁸", "2·10⁻⁸", "5·10⁻⁸"]),
        ((0.26, 0.9), ["0.4", "0.6", "0.8"]),
        ((0.8, 1.25), ["0.8", "1", "1.2"]),
        ((0.5, 2e4), ["1", "10", "100", "1,000", "10,000"]),
    ],
)
def test_labels_of_a_logarithmic_axis_are_of_one_kind(ends, labels):
    assert log_labels(log_ticks(*ends)) == labels
