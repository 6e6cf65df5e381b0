"""What is said of the initializers of one workload."""

from __future__ import annotations

from ledgers import (
    DELTA_1,
    ERROR,
    METAINIT,
    cell,
)
from reports import compared

from initbench.reporting.comparison import compare
from initbench.reporting.verdicts import verdicts


def sentences(*cells):
    found = compared([record for c in cells for record in c])
    return verdicts(compare(found.trials, found.metrics), found.trials, ERROR, found.terms)


def test_verdict_names_the_best_and_compares_it_with_the_next_by_seed():
    apart = sentences(cell([0.01, 0.011, 0.012]), cell([0.051, 0.051, 0.051], METAINIT))
    # The differences are 4.1, 4.0 and 3.9 points: t(.975, 2) s / √3 = 4.303 · 0.1 / 1.732 = 0.25.
    assert apart[0] == (
        f"kaiming has the lowest median test error, {ERROR.text(0.011)}; next is metainit(delta_orthogonal), "
        f"{ERROR.text(0.051)}. kaiming has 4.00 points less test error than metainit(delta_orthogonal) "
        "(95 % interval 3.75 to 4.25 points, n = 3 seeds)."
    )


def test_verdict_on_the_best_of_three_holds_for_all_pairs():
    cells = cell([0.01, 0.02, 0.03]), cell([0.06, 0.06, 0.06], METAINIT)
    # 4 ± 2.48 points; over three pairs t(1 - .05 / 6, 2) = 7.649, and 7.649 · 1 / √3 = 4.42 points.
    assert "(95 % interval 1.52 to 6.48 points" in sentences(*cells)[0]
    three = sentences(*cells, cell([0.9, 0.9, 0.91], DELTA_1))[0]
    assert "Not enough evidence that kaiming and metainit(delta_orthogonal) differ" in three
    assert "simultaneous over 3 comparisons, -8.42 to 0.42 points" in three


def test_verdict_compares_no_intervals_that_do_not_exist():
    few = sentences(cell([0.1, 0.1]), cell([0.2, 0.2], METAINIT))[0]
    assert few.endswith("differ: n = 2 seeds; an interval takes 3.")
    diverged = sentences(cell([0.1, 0.1, None]), cell([0.2, 0.2, 0.2], METAINIT))
    assert diverged[0].endswith(
        "diverged, so that there is no mean difference (n = 3 seeds); their medians are all there is to compare."
    )
    assert diverged[1] == "kaiming: 1 of 3 trials diverged."


def test_verdict_on_ties_lone_initializers_and_general_divergence():
    tie = sentences(cell([0.1]), cell([0.1], METAINIT), cell([0.2], DELTA_1))
    assert tie[0] == f"kaiming and metainit(delta_orthogonal) share the lowest median test error, {ERROR.text(0.1)}."
    assert "nothing to compare" in sentences(cell([0.1]))[0]
    assert sentences(cell([None]), cell([None], METAINIT))[0].startswith("No initializer has a finite median")
    assert "of each of the others, at least half" in sentences(cell([0.1]), cell([None], METAINIT))[0]


def test_verdict_never_calls_a_saturated_quotient_curvature():
    found = sentences(cell([0.9], quotient=1.0, saturated=True), cell([0.1], METAINIT))
    assert "GQ is saturated for kaiming: the gradient has vanished, GQ says nothing of curvature." in found
