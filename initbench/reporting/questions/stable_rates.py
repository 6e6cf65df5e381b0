"""How far below the largest stable learning rate is the best one?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, natural
from initbench.comparing.names import short_names
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import number, value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.questions.line_figures import in_words
from initbench.reporting.results import Results, as_results
from initbench.reporting.searches import tries
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sizes import interval_words
from initbench.reporting.tables import table_of
from initbench.statistics.intervals import Estimate
from initbench.statistics.rates import StableRate, ratio_over_cells, ratio_over_seeds
from initbench.statistics.rates import stable_rates as rates_of_cells

Cells = Mapping[tuple[str, str], Sequence[StableRate]]
"""By workload and treatment, the rates of the seeds at which some rate trained."""
_COLUMNS = ["workload", "treatment", "best", "stable", "ratio", "ratio_low", "ratio_high", "seeds", "open_seeds"]
_SIZE = "recipe.batch_size"
_BY_SIZE = ["family", "treatment", "batch size", "kind", "value_median", "value_smallest", "value_largest"]


def stable_rates(results: Results | str | Path) -> Answer | None:
    """Return how far below the largest stable rate the best one lies; None if no search over rates trained.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or not results.tune.has_rate:
        return None
    cells = rates_of_cells(tries(results))
    if not cells:
        return None
    note = (
        "From each seed’s search: the rate with the best validation outcome, and the largest rate such that every "
        "tried rate from the best up to it trained (did not diverge, and beat chance). Geometric means over the seeds, "
        "with 95 % intervals if there are at least 3 seeds; if all seeds agree, the range that the spacing of the "
        "rates allows."
    )
    title = "The largest stable rate of each cell compared with its best one"
    table = table_of(
        results, "stable_rates", title, _frame(cells), "workload treatment best stable ratio seeds open_seeds", note
    )
    remarks = ["Rates are known no more precisely than the spacing of those that were tried."]
    if any(one.is_open for seeds in cells.values() for one in seeds):
        remarks.append("If the largest rate that was tried is stable, the true ratio may be larger.")
    question = "How far below the largest stable rate is the best one?"
    figures = list(_figures(results, cells))
    return Answer("stable_rates", question, list(_sentences(cells, results)), [table], figures, remarks, cells)


def _frame(cells: Cells) -> pd.DataFrame:
    rows = []
    for (workload, treatment), seeds in cells.items():
        means = [math.exp(np.mean(np.log([getattr(one, kind) for one in seeds]))) for kind in ("best", "stable")]
        ratio, open_seeds = ratio_over_seeds(seeds), sum(one.is_open for one in seeds)
        rows.append((workload, treatment, *means, *ratio[:3], len(seeds), open_seeds))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _over_workloads(cells: Cells) -> dict[str, tuple[Estimate, int, bool]]:
    """Return for each treatment its ratio, over how many workloads it is, and whether it may be larger.

    Geometric means over the seeds of each workload, and over the workloads, which are the sample; over the seeds if
    there is one workload. Intervals are simultaneous over the treatments; if all values are equal they are the range
    that the spacing of the rates allows.
    """
    ratios = {}
    for name in (names := sorted({treatment for _, treatment in cells}, key=natural)):
        each = [seeds for (_, treatment), seeds in cells.items() if treatment == name]
        every = [one for seeds in each for one in seeds]
        if len(each) > 1:
            ratio = ratio_over_cells([ratio_over_seeds(seeds) for seeds in each], every, len(names))
        else:
            ratio = ratio_over_seeds(each[0], len(names))
        ratios[name] = (ratio, len(each), any(one.is_open for one in every))
    return ratios


def _sentences(cells: Cells, results: Results) -> Iterator[Sentence]:
    """Yield one sentence for each treatment, the largest ratio first."""
    several = len({workload for workload, _ in cells}) > 1
    for label, (ratio, workloads, is_open) in sorted(
        _over_workloads(cells).items(), key=lambda item: -item[1][0].value
    ):
        over = (
            f" over {results.names.workloads_of(workloads)}" if workloads > 1 else f" over {counted(ratio.n, 'seed')}"
        )
        over += f" of one {results.names.noun}" if several and workloads == 1 else ""
        name = results.names.treatment(label)
        if ratio.value < 1 + 1e-9:
            beyond = "; no larger rate was tried" if is_open else ""
            yield say(f"{{name!b}}: the best rate is the largest stable one{over}{beyond}.", name=name)
            continue
        low, high = (fold(end) if ratio.has_interval else "" for end in (ratio.low, ratio.high))
        size = interval_words(f"{'at least ' if is_open else ''}{fold(ratio.value)} times", low, high)
        told = ratio.has_interval and ratio.low > 1
        end = "" if told else "; no difference from 1 was found"
        yield say(
            f"{{name!b}}: the largest stable rate is {size} the best one{over}{end}.", name=name, is_open=not told
        )


def fold(value: float) -> str:
    """Return a factor in few digits: ``32``, ``3.2``."""
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}".removesuffix(".0")


def _figures(results: Results, cells: Cells) -> Iterator[Figure]:
    """Yield the best and the largest stable rate by batch size, for workloads that differ in nothing else."""
    values = rates_by_batch_size(results, cells)
    if not len(values):
        return
    shown, colours = in_words(values, results)
    families = list(dict.fromkeys(map(str, shown["family"])))
    names, files = short_names(results.labels, [], families), file_names(families, "rates-")
    for family, rates in shown.groupby("family", sort=False):
        if panel := value_panel(rates, "batch size", "batch size", "learning rate", colours, log_x=True, log_y=True):
            where = names.workload(str(family))
            title = f"Best and largest stable learning rate by batch size: {where}"
            texts = []
            for (treatment, size), both in rates.groupby(["treatment", "batch size"], sort=False):
                rate = both.set_index("kind")["value_median"].map(number)
                texts.append(f"{treatment} at {size:g} best {rate['best']}, largest stable {rate['stable']}")
            alt = f"{title}. Geometric means over the seeds: {'; '.join(texts)}."
            yield Figure(files[str(family)], title, alt, panel, subject=where)


def rates_by_batch_size(results: Results, cells: Cells) -> pd.DataFrame:
    """Return one row for each treatment, batch size and kind of rate, ``stable`` and ``best``.

    ``family`` is the workload's name without its batch size; a family of one batch size has no row. ``value_median`` is
    the geometric mean over the seeds.
    """
    if _SIZE not in results.trials:
        return pd.DataFrame(columns=_BY_SIZE)
    sizes = results.trials.drop_duplicates("workload").set_index("workload")[_SIZE]
    rows = []
    for (workload, treatment), seeds in cells.items():
        for kind in ("stable", "best") if workload in sizes.index else ():
            rates = [float(getattr(one, kind)) for one in seeds]
            family = results.labels.family(workload, _SIZE)
            mean = math.exp(np.mean(np.log(rates)))
            rows.append((family, treatment, sizes[workload], kind, mean, min(rates), max(rates)))
    values = pd.DataFrame(rows, columns=_BY_SIZE).sort_values("batch size", kind="stable")
    return values.groupby("family", sort=False).filter(lambda group: len(set(group["batch size"])) > 1)
