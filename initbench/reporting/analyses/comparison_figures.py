"""The figures of the comparison over workloads: mean differences, mean ranks, and a performance profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from initbench.reporting.cells import table
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.forest import ForestRow, forest_panel
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.formatting import listed
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.profiles import performance_profiles
from initbench.reporting.words.comparison import pair_over_workloads_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.metric import Metric
    from initbench.reporting.analyses.comparison import Comparison
    from initbench.reporting.statistics.paired import PairedComparison


def comparison_figures(found: Comparison) -> tuple[list[Figure], list[str]]:
    """Return the forest of mean differences, the critical-difference diagram and the performance profile.

    Args:
        found: of treatments over two workloads or more.

    Returns:
        The figures, and a sentence for each that there is not.
    """
    terms = found.results.terms
    parts: list[Figure | str] = [_ranks(found)]
    if terms.metric is None:
        titles = listed([metric.title for metric, _ in found.against])
        parts.append(
            f"The workloads have several metrics ({titles}), whose values are never put together: there is no forest "
            "of mean differences and no performance profile over all of them."
        )
    else:
        [(metric, comparisons)] = found.against
        parts = [_differences(found, comparisons, metric), *parts, _profile(found, metric)]
    figures = [part for part in parts if isinstance(part, Figure)]
    return figures, [part for part in parts if isinstance(part, str) and part]


def shown(difference: Estimate, metric: Metric) -> Estimate:
    """Return a difference of oriented outcomes in the metric's own direction, its interval within what there can be."""
    return difference.in_direction(metric).clipped(-metric.largest_difference, metric.largest_difference)


def _differences(found: Comparison, comparisons: Mapping[str, PairedComparison], metric: Metric) -> Figure | str:
    names, terms = found.results.names, found.results.terms
    reference = names.treatment(found.reference)
    rows = []
    for label, comparison in comparisons.items():
        estimate, name = shown(comparison.difference, metric), names.treatment(label)
        scaled = estimate._replace(
            value=metric.scale * estimate.value, low=metric.scale * estimate.low, high=metric.scale * estimate.high
        )
        words = pair_over_workloads_words(name, reference, comparison, metric, place=names.noun)
        rows.append(ForestRow(name, scaled, str(words)))
    unit = metric.difference_unit or metric.beside_title.unit
    drawing = forest_panel(rows, f"{metric.title} less that of {reference}" + (f" ({unit})" if unit else ""))
    if drawing is None:
        other = f"with each other {terms.treatment}, a trial diverged somewhere"
        return f"There are no mean differences to {reference}: {other}."
    missing = [row.label for row in rows if np.isnan(row.estimate.value)]
    note = f"Mean over the {names.noun}s of the paired differences, with simultaneous 95 % intervals over these."
    note += f" Not drawn, because a trial diverged: {', '.join(missing)}." if missing else ""
    alt = " ".join(row.words for row in rows)
    return Figure(
        "differences", f"Differences to {reference}" + ("" if found.given else ", which ranks best"), alt, drawing, note
    )


def _ranks(found: Comparison) -> Figure | str:
    ranks, names, terms = found.ranking.ranks, found.results.names, found.results.terms
    if np.isnan(ranks.critical_difference):
        return f"There is no critical-difference diagram: {terms.say(ranks.reason)}." if ranks.reason else ""
    half = ranks.critical_difference / 2
    rows = [
        ForestRow(name, Estimate(mean, mean - half, mean + half, ranks.workloads), f"{name}: mean rank {mean:.2f}")
        for label, mean in ranks.mean_ranks.items()
        for name in [names.treatment(str(label))]
    ]
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, {names.workloads_of(ranks.workloads)}): "
        f"two {terms.treatment}s whose bars do not overlap differ by more than that."
    )
    alt = "; ".join(row.words for row in rows) + "."
    return "" if drawing is None else Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)


def _profile(found: Comparison, metric: Metric) -> Figure | str:
    whole = found.ranking.whole.table
    outcomes = table(found.results.cells).reindex(index=whole.index, columns=whole.columns)
    outcomes = outcomes.rename(columns=found.results.names.treatment)
    from_best = metric.best is not None and metric.best != 0
    costs = outcomes - metric.oriented(metric.best or 0.0)
    if (metric.better == "higher" and metric.best is None) or (costs < 0).to_numpy().any():
        return f"There is no performance profile: the {metric.title} has no best value to measure from."
    profiles = performance_profiles(costs)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    origin = metric.beside_title.text(metric.best or 0.0)
    what = f"distance of the {metric.title} from {origin}" if from_best else metric.title
    least, noun = "least" if from_best else "lowest", found.results.names.noun
    note = f"On what share of the {noun}s the median {what} is within a factor of the {least}; diverged is a miss."
    drawing = profile_panel(profiles, f"{what} over the {least} of the {noun}, log scale", found.results.palette)
    return Figure("profile-outcome", f"Performance profile: {metric.title}", f"{note} {best}.", drawing, note)
