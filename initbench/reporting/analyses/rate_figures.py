"""The figures of stable rates: the best and the largest stable learning rate by batch size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.reporting.analyses.curve_figures import in_words
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.values import number, value_panel
from initbench.reporting.file_names import file_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.reporting.results import Results
    from initbench.statistics.rates import StableRate

_SIZE = "recipe.batch_size"
_COLUMNS = ["family", "treatment", "batch size", "kind", "value_median", "value_smallest", "value_largest"]


def rate_figures(results: Results, cells: Mapping[tuple[str, str], Sequence[StableRate]]) -> list[Figure]:
    """Return a figure for each family of workloads that differ in batch size alone.

    Args:
        results: that the cells are of.
        cells: of each workload and treatment, the rates of its seeds.
    """
    values = rates_by_batch_size(results, cells)
    if not len(values):
        return []
    shown, colours = in_words(values, results)
    families = list(dict.fromkeys(map(str, shown["family"])))
    names, files = results.labels.names([], families), file_names(families, "rates-")
    figures = []
    for family, own in shown.groupby("family", sort=False):
        panel = value_panel(own, "batch size", "batch size", "learning rate", colours, log_x=True, log_y=True)
        if panel is not None:
            where = names.workload(str(family))
            title = f"Best and largest stable learning rate by batch size: {where}"
            alt = f"{title}. Geometric means over the seeds: {_words(own)}."
            figures.append(Figure(files[str(family)], title, alt, panel, subject=where))
    return figures


def rates_by_batch_size(results: Results, cells: Mapping[tuple[str, str], Sequence[StableRate]]) -> pd.DataFrame:
    """Return one row for each treatment, batch size and kind of rate, ``stable`` and ``best``.

    ``family`` is the workload's name without its batch size; a family of one batch size has no row. ``value_median`` is
    the geometric mean over the seeds.
    """
    if _SIZE not in results.trials:
        return pd.DataFrame(columns=_COLUMNS)
    sizes = results.trials.drop_duplicates("workload").set_index("workload")[_SIZE]
    rows: list[dict[str, Any]] = []
    for (workload, treatment), seeds in cells.items():
        if workload not in sizes.index:
            continue
        for kind in ("stable", "best"):
            rates = [float(getattr(one, kind)) for one in seeds]
            ends = [math.exp(np.mean(np.log(rates))), min(rates), max(rates)]
            family = results.labels.family(workload, _SIZE)
            rows.append(dict(zip(_COLUMNS, [family, treatment, sizes[workload], kind, *ends], strict=True)))
    values = pd.DataFrame(rows, columns=_COLUMNS).sort_values("batch size", kind="stable")
    return values.groupby("family", sort=False).filter(lambda own: len(set(own["batch size"])) > 1)


def _words(own: pd.DataFrame) -> str:
    texts = []
    for (treatment, size), both in own.groupby(["treatment", "batch size"], sort=False):
        rate = both.set_index("kind")["value_median"]
        texts.append(f"{treatment} at {size:g} best {number(rate['best'])}, largest stable {number(rate['stable'])}")
    return "; ".join(texts)
