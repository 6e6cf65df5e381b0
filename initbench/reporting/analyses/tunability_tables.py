"""The tables of searches: ranges of good rates with what was chosen, outcomes by tries, and outcomes by rate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.formatting import capitalized
from initbench.reporting.searches import counts_text
from initbench.reporting.statistics.rates import GOOD_SHARE
from initbench.reporting.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.reporting.analyses.tunability import Tunability

_RANGES = [
    *("workload", "treatment", "chosen", "seeds", "choices_differ", "edge", "best", "low", "high", "factor"),
    *("is_open_below", "is_open_above"),
]


def edges_of(tries: pd.DataFrame, chosen: Mapping[tuple[str, str], pd.DataFrame]) -> dict[tuple[str, str], str]:
    """Return the cells of which some seed chose the smallest or the largest rate that it tried, and trained at it.

    Args:
        tries: as from `searches.tries`.
        chosen: what the seeds of each cell chose, as from `searches.chosen`.

    Returns:
        Workload and treatment → ``smallest``, ``largest`` or ``smallest, largest``.
    """
    found = {}
    for (workload, treatment), searched in tries.groupby(["workload", "treatment"], sort=False):
        own = chosen.get((str(workload), str(treatment)))
        if own is None:
            continue
        ends = searched.groupby("seed")["rate"].agg(["min", "max"])
        trained = set(searched.loc[searched["is_trained"], ["seed", "rate"]].itertuples(index=False, name=None))
        at = set()
        for seed, rate in zip(own["seed"], own["rate"], strict=True):
            searching = seed if seed in ends.index else ends.index[0]  # one search for all seeds
            low, high = ends.loc[searching]
            if low < high and (searching, rate) in trained:
                at |= {name for name, end in (("smallest", low), ("largest", high)) if rate == end}
        if at:
            found[str(workload), str(treatment)] = ", ".join(sorted(at, reverse=True))
    return found


def ranges_table(found: Tunability) -> Table:
    """Return the table of what each cell chose, and how wide its range of good rates is."""
    rows: list[dict[str, Any]] = []
    for key, own in found.chosen.items():
        row = {"workload": key[0], "treatment": key[1], "chosen": counts_text(own), "seeds": len(own)}
        row |= {"choices_differ": len(set(own["point"])) > 1, "edge": found.edges.get(key, "")}
        if (span := found.ranges.get(key)) is not None:
            row |= {name: getattr(span, name) for name in _RANGES[6:]}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=_RANGES)
    ends = zip(*(frame[name] for name in ("low", "high", "is_open_below", "is_open_above")), strict=True)
    shown = frame.assign(range=[_range(*own) for own in ends])
    results, noun = found.results, found.tune.noun
    columns = [
        Column(capitalized(results.names.noun), "workload", "workload"),
        Column(capitalized(results.terms.treatment), "treatment", "treatment"),
        Column(f"{capitalized(noun)} chosen\n(seeds)", "text", "chosen"),
        Column("at the edge\nof what was tried", "text", "edge"),
        Column("Good rates", "text", "range"),
        Column("Range,\nfactor", "quotient", "factor"),
    ]
    note = (
        f"A rate is good where its median validation outcome loses at most {100 * GOOD_SHARE:.0f} % of what the best "
        "rate gains over chance; the range goes from the best to both sides as far as that holds for every rate that "
        "was tried. Where it reaches the edge of these it may go on: ≤ and ≥."
    )
    title = "What was chosen, and how wide the range of good rates is"
    return Table("good_rates", title, shown, columns, note, names=results.names)


def _range(low: float, high: float, is_open_below: bool, is_open_above: bool) -> str:
    """Return ``0.01 to 0.1``, ``≤ 0.001 to 0.1``, ``0.1 alone``; nothing where there is no range."""
    if math.isnan(low):
        return ""
    below, above = ("≤ " if is_open_below else "", "≥ " if is_open_above else "")
    if low == high:
        return f"{below or above}{low:g}" if below or above else f"{low:g} alone"
    return f"{below}{low:g} to {above}{high:g}"


def tries_tables(found: Tunability) -> list[Table]:
    """Return the table of outcomes after so many tries: that of 1, 2, 4 and all, which a page shows, and the whole."""
    results, curves = found.results, found.curves
    cell = ["workload", "treatment"]
    last = int(curves["tries"].max())
    numbers = sorted({own for own in (1, 2, 4, last) if own <= last})
    wide = curves.pivot(index=[*cell, "metric"], columns="tries", values="value_median")  # noqa: PD010  # it refuses duplicates
    wide = wide.reindex(columns=numbers).set_axis([f"after_{own}" for own in numbers], axis="columns").reset_index()
    one = curves.loc[curves["tries"] == 1, [*cell, "compute"]]
    shown = curves[cell].drop_duplicates().merge(wide, on=cell).merge(one, on=cell)
    titles = {metric.title for metric in found.metrics.values()}
    title = next(iter(titles)) if len(titles) == 1 else "outcome"
    columns = [
        Column(capitalized(results.names.noun), "workload", "workload"),
        Column(capitalized(results.terms.treatment), "treatment", "treatment"),
        *(
            Column(f"{capitalized(title)}\nafter {own} {'try' if own == 1 else 'tries'}", "outcome", f"after_{own}")
            for own in numbers
        ),
        Column("Compute of a try\n(training steps)", "count", "compute"),
    ]
    note = (
        "On the validation split, after so many tries in random order, averaged over all orders: one seed’s search "
        "chooses, the other seeds show what that is worth. What diverged counts as chance. The compute of a try has "
        "initialization in it."
    )
    metrics = {metric.name: metric for metric in found.metrics.values()}
    names = results.names
    return [
        Table("tunability", "What so many tries come to", shown, columns, note, metrics, names, is_written=False),
        Table("tunability", "What so many tries come to", curves, is_shown=False),
    ]


def rates_table(found: Tunability) -> Table:
    """Return the table of the outcomes at each rate that was tried, which is only written beside the page."""
    return Table("searched", "Every rate that was tried", found.rates, is_shown=False)
