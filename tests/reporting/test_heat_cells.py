"""The cells of the overview: order, states, notes, colours by closed form, and who is marked as best."""

import math

import pytest
from ledgers import BITS, make_spec
from planted import (
    FAILED,
    LANGUAGE,
    MEASURED,
    NO_CHANCE,
    REGRESSION,
    TEN_CLASSES,
    around,
    planted,
    results_of,
    task_with_chance,
)

from initbench.reporting.heat_map import heat_map, order_of

nan = math.nan


def mapped(outcomes, task=TEN_CLASSES, **options):
    return heat_map(results_of(planted(outcomes, task), **options))


def one(values, task=TEN_CLASSES):
    """Return the only cell of a map."""
    [cell] = mapped({"net": {"a": values}}, task).cells
    return cell


def column(outcomes, task=TEN_CLASSES):
    """Return treatment → cell, of one workload."""
    found = mapped({"net": outcomes}, task)
    return {row.label: row.cells[0] for row in found.rows}


def test_rows_are_in_the_order_of_how_many_train_then_of_mean_rank_then_of_names():
    outcomes = {
        "net1": {"a": [0.9], "b": [0.2], "c": [0.1], "d10": [0.3], "d9": [0.3]},
        "net2": {"a": [0.01], "b": [0.1], "c": [0.2], "d10": [0.3], "d9": [0.3]},
        "net3": {"a": [0.01], "b": [0.1], "c": [0.2], "d10": [0.3], "d9": [0.3]},
    }
    found = mapped(outcomes)
    assert [row.label for row in found.rows] == ["b", "c", "d9", "d10", "a"]
    assert [row.trains for row in found.rows] == ["3 of 3"] * 4 + ["2 of 3"]
    assert [column.label for column in found.columns] == ["net1", "net2", "net3"]
    assert found.frame["treatment"].tolist() == [name for name in ["b", "c", "d9", "d10", "a"] for _ in range(3)]


def test_one_that_ran_on_fewer_is_placed_by_the_share_of_its_rank():
    """Second of four is better than second of two."""
    outcomes = {
        "net1": {"a": [0.1], "b": [0.2], "c": [0.3], "d": [0.4]},
        "net2": {"e": [0.1], "f": [0.2]},
    }
    assert order_of(results_of(planted(outcomes))) == ["a", "b", "e", "c", "d", "f"]


@pytest.mark.parametrize(
    ("values", "state", "words", "note"),
    [
        ([0.025, 0.025, 0.025], "trained", "2.5\N{NO-BREAK SPACE}%", ""),
        ([0.025, 0.025, 0.9], "trained", "2.5\N{NO-BREAK SPACE}%", "2 of 3 seeds"),
        # Better than guessing, but less than half of the way from it (90 %) to the best.
        ([0.025, 0.025, 0.7], "trained", "2.5\N{NO-BREAK SPACE}%", "2 of 3 seeds"),
        ([0.025, 0.025, None], "trained", "2.5\N{NO-BREAK SPACE}%", "2 of 3 seeds"),
        ([0.025, 0.025, FAILED], "trained", "2.5\N{NO-BREAK SPACE}%", "1 failed"),
        ([0.9, 0.9, 0.9], "untrained", "did not train", ""),
        ([0.025, 0.9, None], "untrained", "did not train", "1 of 3 diverged"),
        ([None, None, 0.1], "diverged", "diverged", "2 of 3"),
        ([FAILED, FAILED], "failed", "failed", ""),
        ([MEASURED], "measured", "not trained", ""),
    ],
    ids=str,
)
def test_what_a_cell_says(values, state, words, note):
    cell = one(values)
    assert (cell.state, cell.words, cell.note) == (state, words, note)
    assert math.isnan(cell.level) == (state != "trained")
    assert not (cell.is_best and state != "trained")
    assert cell.title.endswith(".")


def test_without_a_chance_level_the_seeds_that_did_not_diverge_count():
    cell = one([0.9, None, 0.9], NO_CHANCE)
    assert (cell.state, cell.note) == ("trained", "2 of 3 seeds")
    assert mapped({"net": {"a": [0.9]}}, NO_CHANCE).rows[0].trains == ""


def test_cells_that_cannot_run_are_told_from_those_that_have_not_run():
    spec = make_spec({"name": "b"}, {"name": "net2"}, dataset={"name": "classification_data"}).model_dump(mode="json")
    outcomes = {"net1": {"a": [0.1], "b": [0.2], "c": [0.2]}, "net2": {"a": [0.1]}}
    found = mapped(outcomes, incompatible=((spec, "no residual branch"),))
    cells = {
        (row.label, column.label): cell
        for row in found.rows
        for column, cell in zip(found.columns, row.cells, strict=True)
    }
    assert cells["b", "net2"].state == "incompatible"
    assert cells["b", "net2"].title == "b on net2 cannot run: no residual branch."
    assert cells["c", "net2"].state == "missing"
    assert {row.label: row.trains for row in found.rows} == {"a": "2 of 2", "b": "1 of 1", "c": "1 of 1"}


def test_the_level_is_the_log_of_how_much_of_the_way_from_chance_is_left():
    """With d the distance from the best value: log(0.9 / d) / log(0.9 / 0.03)."""
    cells = column({"a": [0.03], "b": [0.3], "c": [0.8], "d": [0.9]})
    assert cells["a"].level == 1
    assert cells["b"].level == pytest.approx(math.log(3) / math.log(30))
    assert cells["c"].level == pytest.approx(math.log(0.9 / 0.8) / math.log(30))
    assert math.isnan(cells["d"].level)


def test_what_is_nearest_to_the_best_value_has_one_colour():
    """Below 0.5 % of 0.9: an error of 0 is no infinity away."""
    cells = column({"a": [0.0], "b": [0.004], "c": [0.09]})
    assert cells["a"].level == cells["b"].level == 1
    assert cells["c"].level == pytest.approx(math.log(10) / math.log(200))


def test_the_level_where_higher_is_better():
    cells = column({"a": [0.9], "b": [0.5]}, REGRESSION)
    assert cells["a"].level == 1
    assert cells["b"].level == pytest.approx(math.log(1 / 0.5) / math.log(1 / 0.1))


def test_the_level_without_a_best_value_and_without_a_chance_level():
    cells = column({"a": [2.0], "b": [3.5]}, LANGUAGE)
    assert (cells["a"].level, cells["b"].level) == (1, pytest.approx(0.25))
    cells = column({"a": [2.0], "b": [2.5], "c": [4.0]}, task_with_chance(BITS, None, None))
    assert [cells[name].level for name in "abc"] == pytest.approx([1, 0.75, 0])
    assert one([0.5], NO_CHANCE).level == 1


def test_the_best_the_worse_and_the_open_ones_are_marked():
    cells = column({"a": [0.1, 0.12, 0.11], "b": [0.12, 0.1, 0.11], "c": [0.51, 0.5, 0.52], "d": [0.9, 0.89, 0.91]})
    assert {name: cell.mark for name, cell in cells.items()} == {"a": "best", "b": "unresolved", "c": "worse", "d": ""}
    assert not any(cell.is_told_apart for cell in cells.values())
    assert cells["b"].title.endswith("; no difference from the best was found.")


def test_one_that_tests_tell_apart_from_all_others():
    cells = column({"a": around(0.1), "b": around(0.301), "c": around(0.502), "d": around(0.903)})
    assert [name for name, cell in cells.items() if cell.is_best] == ["a"]
    assert [name for name, cell in cells.items() if cell.is_told_apart] == ["a"]


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ([0.1], [0.9], False),  # one seed is no test
        ([0.1, 0.11], [0.9, 0.9], False),
        ([0.1, 0.11, 0.12], [0.9, 0.91, 0.9], True),
        ([0.1, 0.5, 0.84], [0.9, 0.9, 0.9], False),  # its seeds vary too much
        ([0.1, 0.11], [None, None], False),
        ([0.1, 0.11, 0.12], [None, None, None], True),
        ([0.1, 0.11, None], [None, None, None], False),
        ([0.1, 0.11, 0.12], [FAILED], False),  # nothing is known of it
    ],
    ids=str,
)
def test_the_only_one_that_trains_is_told_apart_where_seeds_say_so(a, b, told):
    cells = column({"a": a, "b": b})
    assert cells["a"].is_best == (len(a) >= 3 and None not in a)  # no mark below 3 seeds, nor where seeds disagree
    assert cells["a"].is_told_apart == told


def test_one_alone_is_told_apart_from_nothing():
    assert not one([0.1, 0.11, 0.12]).is_told_apart


def test_the_mean_stands_beside_the_median_where_no_seed_diverged():
    [cell] = mapped({"net": {"a": [0.02, 0.03, 0.04]}}).cells
    # t₀.₉₇₅,₂ = 4.303 times 0.01 / √3.
    assert cell.mean == "3.00 ± 2.48\N{NO-BREAK SPACE}%"
    assert one([0.01, 0.03, 0.08]).mean == "4.00\N{NO-BREAK SPACE}% (0.00 to 12.96)"  # not below 0 %
    assert one([0.02, 0.03, None]).mean == ""
    assert one([0.02, 0.03]).mean == ""


def test_several_metrics_have_each_their_own_scale():
    outcomes = {"cnn": {"a": [0.03], "b": [0.3]}, "transformer": {"a": [3.5], "b": [2.0]}}
    found = mapped(outcomes, {"cnn": TEN_CLASSES, "transformer": LANGUAGE})
    cells = {
        (row.label, column.short): cell
        for row in found.rows
        for column, cell in zip(found.columns, row.cells, strict=True)
    }
    assert [column.metric for column in found.columns] == ["test error", "test bits per byte"]
    assert (found.metric, found.unit) == ("", "")
    assert cells["a", "cnn"].level == cells["b", "transformer"].level == 1
    assert cells["b", "cnn"].level == pytest.approx(math.log(3) / math.log(30))
    assert cells["a", "transformer"].level == pytest.approx(0.25)
    assert (found.darkest, found.lightest) == ("best", "worst")


@pytest.mark.parametrize(("other", "unit"), [([0.1], "%"), ([MEASURED], "")])
def test_cells_that_were_only_measured_have_no_unit(other, unit):
    assert mapped({"net1": {"a": [MEASURED]}, "net2": {"a": other}}).unit == unit


@pytest.mark.parametrize(
    ("task", "value", "ends"),
    [
        (TEN_CLASSES, 0.1, ("low error (10.0\N{NO-BREAK SPACE}%)", "high (90.0\N{NO-BREAK SPACE}%)")),
        (REGRESSION, 0.5, ("high R² (0.500)", "low (0.000)")),
        (LANGUAGE, 2.0, ("low bits per byte (2.000)", "high (4.000)")),
    ],
    ids=["lower", "higher", "no best"],
)
def test_what_the_colours_mean(task, value, ends):
    found = mapped({"net": {"a": [value]}}, task)
    assert (found.darkest, found.lightest) == ends
    assert found.metric.endswith(", median of seeds")
