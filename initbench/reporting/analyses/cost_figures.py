"""The figures of the cost: what every treatment spends on each workload, and the performance profile over all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.analyses.curve_figures import drawn
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.charts.spending import Spending, spending_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.formatting import steps
from initbench.reporting.statistics.profiles import performance_profiles

if TYPE_CHECKING:
    from initbench.reporting.analyses.cost import Cost

_AXIS = "compute (training steps)"


def spending_figures(found: Cost) -> tuple[list[Figure], list[str]]:
    """Return what every treatment spends until the target, on each workload that has something to draw.

    Args:
        found: of any workloads.

    Returns:
        The figures, and a sentence on those that there are not.
    """
    results, frame = found.results, found.tables[0].frame
    labels, left = drawn(frame, "workload", "costs.csv")
    names, figures = file_names(labels, "spent-"), []
    for label in labels:
        metric, target = results.metric_of[label], found.targets.get(label, math.nan)
        own = frame[frame["workload"] == label].assign(total=lambda rows: rows["steps_to_target"].fillna(math.nan))
        # The least in all first; what misses the target last, the one that spent least before training first.
        rows = [
            Spending(
                name := results.names.treatment(row["treatment"]),
                row["initialization_steps"],
                row["total"],
                _words(name, row["initialization_steps"], row["total"]),
            )
            for row in own.sort_values(["total", "initialization_steps"], kind="stable").to_dict("records")
        ]
        panel = spending_panel(rows, _AXIS)
        if panel is None:
            continue
        where = results.names.workload(label)
        title = f"Compute to a {metric.title} of {metric.beside_title.text(target)}: {where}"
        alt = f"{title}. {'; '.join(row.words for row in rows)}."
        figures.append(Figure(names[label], title, alt, panel, subject=where))
    return figures, left


def profile_figure(found: Cost, note: str) -> Figure:
    """Return the performance profile of the compute to the target.

    Args:
        found: of two workloads or more.
        note: what the targets are.
    """
    results = found.results
    noun = results.names.noun
    note = (
        f"On what share of the {noun}s {results.terms.one} reaches the target within a factor of the least "
        f"compute, its own passes included. {note}"
    )
    profiles = performance_profiles(found.whole.table.rename(columns=results.names.treatment))
    drawing = profile_panel(profiles, f"compute over the least of the {noun}, log scale", results.palette)
    alt = f"{note} {found.sentences[-1]}"
    return Figure("profile-cost", "Performance profile: compute to a target", alt, drawing, note)


def _words(name: str, before: float, total: float) -> str:
    """Return ``metainit: 550 steps, 450 of them before training``."""
    if math.isnan(before) or math.isnan(total):
        return f"{name}: not known"
    if math.isinf(total):
        return f"{name}: target not met" + (f", {steps(before)} steps before training" if before > 0 else "")
    return f"{name}: {steps(total)} steps" + (f", {steps(before)} of them before training" if before > 0 else "")
