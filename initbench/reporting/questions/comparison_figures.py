"""Figures of a comparison: the forest of mean differences, the critical-difference diagram, the performance profile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from initbench.comparing.formatting import listed
from initbench.metric import Metric
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.forest import ForestRow, forest_panel
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.comparison_sentences import pair_over_workloads
from initbench.reporting.results import Results
from initbench.statistics.cells import table
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import PairedComparison
from initbench.statistics.profiles import performance_profiles

if TYPE_CHECKING:
    from initbench.reporting.questions.comparison import Comparison


def comparison_figures(facts: Comparison, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the figures of treatments over workloads, and a sentence on each that there is not."""
    parts = list(_parts(facts, results))
    return [part for part in parts if isinstance(part, Figure)], [part for part in parts if isinstance(part, str)]


def shown_difference(difference: Estimate, metric: Metric) -> Estimate:
    """Return a difference of oriented outcomes in the metric's own direction, its interval within what there can be."""
    return difference.in_direction(metric).clipped(-metric.largest_difference, metric.largest_difference)


def _parts(facts: Comparison, results: Results) -> Iterator[Figure | str | None]:
    if results.terms.metric is not None:
        [(metric, comparisons)] = facts.against
        yield _differences(facts, comparisons, metric, results)
        yield _ranks(facts, results)
        yield _profile(facts, metric, results)
        return
    yield _ranks(facts, results)
    titles = listed([metric.title for metric, _ in facts.against])
    yield (
        f"The {results.names.noun}s have several metrics ({titles}), whose values are never put together: there is no "
        "forest of mean differences and no performance profile over all of them."
    )


def _differences(
    facts: Comparison, comparisons: Mapping[str, PairedComparison], metric: Metric, results: Results
) -> Figure | str:
    names = results.names
    reference = names.treatment(facts.reference)
    rows = []
    for label, comparison in comparisons.items():
        name, estimate = names.treatment(label), shown_difference(comparison.difference, metric)
        value, low, high = (metric.scale * part for part in estimate[:3])
        words = pair_over_workloads(name, reference, comparison, metric, names.noun)
        rows.append(ForestRow(name, Estimate(value, low, high, estimate.n), str(words)))
    unit = metric.difference_unit or metric.beside_title.unit
    drawing = forest_panel(rows, f"{metric.title} less that of {reference}" + (f" ({unit})" if unit else ""))
    if drawing is None:
        return (
            f"There are no mean differences to {reference}, because a trial diverged in its comparison with each other "
            f"{results.terms.treatment}."
        )
    note = f"Mean over the {names.noun}s of the paired differences, with simultaneous 95 % intervals over these."
    if missing := [row.label for row in rows if math.isnan(row.estimate.value)]:
        note += f" Not drawn, because a trial diverged: {', '.join(missing)}."
    title = f"Differences to {reference}" + ("" if facts.is_given else ", which ranks best")
    return Figure("differences", title, " ".join(row.words for row in rows), drawing, note)


def _ranks(facts: Comparison, results: Results) -> Figure | str | None:
    ranks, names, terms = facts.ranking.ranks, results.names, results.terms
    if math.isnan(ranks.critical_difference):
        return f"There is no critical-difference diagram: {terms.say(ranks.reason)}." if ranks.reason else None
    half, rows = ranks.critical_difference / 2, []
    for label, mean in ranks.mean_ranks.items():
        name, estimate = names.treatment(str(label)), Estimate(mean, mean - half, mean + half, ranks.workloads)
        rows.append(ForestRow(name, estimate, f"{name}: mean rank {mean:.2f}"))
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, {names.workloads_of(ranks.workloads)}): "
        f"two {terms.treatment}s whose bars do not overlap differ by more than that."
    )
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    alt = "; ".join(row.words for row in rows) + "."
    return None if drawing is None else Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)


def _profile(facts: Comparison, metric: Metric, results: Results) -> Figure | str:
    whole, noun = facts.ranking.whole.table, results.names.noun
    outcomes = table(results.cells).reindex(index=whole.index, columns=whole.columns)
    costs = outcomes.rename(columns=results.names.treatment) - metric.oriented(metric.best or 0.0)
    if (metric.better == "higher" and metric.best is None) or (costs < 0).to_numpy().any():
        return f"There is no performance profile: the {metric.title} has no best value to measure from."
    what, least = metric.title, "lowest"
    if metric.best:
        what, least = f"distance of the {metric.title} from {metric.beside_title.text(metric.best)}", "least"
    profiles = performance_profiles(costs)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    note = f"On what share of the {noun}s the median {what} is within a factor of the {least}; diverged is a miss."
    drawing = profile_panel(profiles, f"{what} over the {least} of the {noun}, log scale", results.palette)
    return Figure("profile-outcome", f"Performance profile: {metric.title}", f"{note} {best}.", drawing, note)
