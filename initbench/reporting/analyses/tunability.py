"""How easily is a good rate found: with how many tries, at what cost, within how wide a range?"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.metrics import outcome_metrics
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.curve_figures import drawn, in_words
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.values import value_panel
from initbench.reporting.columns import Column
from initbench.reporting.file_names import file_names
from initbench.reporting.results import as_results
from initbench.reporting.searches import chosen, counts_text, tries
from initbench.reporting.tables import Table
from initbench.reporting.trials import workload_metrics
from initbench.reporting.words.rates import differing_words, edge_words, no_edge_words, tries_words, widest_words
from initbench.statistics.rates import GOOD_SHARE, by_rate, by_tries, good_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.tune import Tune
    from initbench.statistics.rates import GoodRange


@dataclass(frozen=True)
class Tunability(Analysis):
    """What the searches of all cells tell.

    Attributes:
        results: that it is of.
        metrics: of the validation split, by workload.
        tries: as from `searches.tries`.
        rates: outcomes by rate, as from `rates.by_rate`.
        curves: outcomes by the number of tries, as from `rates.by_tries`.
        ranges: of good rates, by workload and treatment.
    """

    results: Results
    metrics: Mapping[str, Metric]
    tries: pd.DataFrame
    rates: pd.DataFrame
    curves: pd.DataFrame
    ranges: Mapping[tuple[str, str], GoodRange]
    name: ClassVar[str] = "tunability"

    @property
    def tune(self) -> Tune:
        """What is tuned."""
        assert self.results.tune is not None
        return self.results.tune

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"How easily is a good {self.tune.noun} found?"

    @cached_property
    def chosen(self) -> dict[tuple[str, str], pd.DataFrame]:
        """What the seeds of each cell chose, by workload and treatment."""
        groups = chosen(self.results).groupby(["workload", "treatment"], sort=False)
        return {(str(workload), str(treatment)): own for (workload, treatment), own in groups}

    @cached_property
    def edges(self) -> dict[tuple[str, str], str]:
        """The cells of which some seed chose the smallest or the largest rate that it tried: which of the two."""
        return edges_of(self.tries, self.chosen) if self.tune.has_rate else {}

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Whose good rates range widest, what one try loses, whose best is at an edge, and whose seeds differ."""
        found = [*self._widest(), *self._tries()]
        if self.tune.has_rate and not self.edges:
            found.append(no_edge_words(len(self.chosen)))
        for workload in self.metrics:
            subject = self.results.names.workload(workload)
            for end in ("smallest", "largest"):
                who = [self._display(t) for (w, t), edge in self.edges.items() if w == workload and end in edge]
                found += [edge_words(who, end, subject=subject)] if who else []
            differ = {
                self._display(treatment): counts_text(own)
                for (place, treatment), own in self.chosen.items()
                if place == workload and len(set(own["point"])) > 1
            }
            found += [differing_words(differ, self.tune.noun, subject=subject)] if differ else []
        return found

    def _display(self, treatment: str) -> str:
        return self.results.names.treatment(treatment)

    def _widest(self) -> list[Sentence]:
        """Return who has the widest range, over the workloads on which every treatment that has any has one."""
        spans: dict[str, dict[str, GoodRange]] = defaultdict(dict)
        for (workload, treatment), span in self.ranges.items():
            spans[treatment][workload] = span
        shared = set.intersection(*(set(own) for own in spans.values())) if spans else set()
        if not shared:
            return []
        means = {
            name: math.exp(np.mean([math.log(own[workload].factor) for workload in shared]))
            for name, own in spans.items()
        }
        order = sorted(means, key=lambda name: -means[name])
        widest, narrowest = order[0], order[-1] if len(order) > 1 else ""
        over = f" over {self.results.names.workloads_of(len(shared))}" if len(self.metrics) > 1 else ""
        is_open = any(spans[widest][workload].is_open for workload in shared)
        other = self._display(narrowest) if narrowest else ""
        return [
            widest_words(
                self._display(widest), means[widest], other, means.get(narrowest, 1.0), over=over, at_least=is_open
            )
        ]

    def _tries(self) -> list[Sentence]:
        """Return what one try loses against all, averaged over the workloads that all have, which share a metric."""
        if not len(self.curves) or len(set(self.curves["metric"])) > 1:
            return []
        metric = next(iter(self.metrics.values()))
        ends = self.curves.groupby(["treatment", "workload"], sort=False)["value_median"].agg(["first", "last"])
        loss = (metric.oriented(1.0) * (ends["first"] - ends["last"])).unstack("workload").dropna(axis="columns")  # noqa: PD010
        if not loss.shape[1]:
            return []
        means = loss.mean(axis="columns").sort_values(kind="stable")
        least, most = str(means.index[0]), str(means.index[-1])
        other = self._display(most) if most != least else ""
        return [
            tries_words(
                self._display(least), float(means.iloc[0]), other, float(means.iloc[-1]), self.tune.tries, metric
            )
        ]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return tunability_figures(self)

    @property
    def figures(self) -> list[Figure]:
        """Of each workload the outcome by rate, by tries and by their compute."""
        return self._drawn[0]

    @cached_property
    def tables(self) -> list[Table]:
        """The ranges and choices of every cell, its outcomes after so many tries, and those at each rate."""
        found = [ranges_table(self)] if self.tune.has_rate else []
        return [*found, *(tries_tables(self) if len(self.curves) else []), rates_table(self)]

    @cached_property
    def remarks(self) -> list[str]:
        """What is not drawn, and which cells have no curve by tries."""
        texts = list(self._drawn[1])
        cells = set(zip(self.tries["workload"], self.tries["treatment"], strict=True))
        without = len(cells - set(zip(self.curves["workload"], self.curves["treatment"], strict=True)))
        if without:
            how = "No cell has a" if without == len(cells) else f"{without} of {len(cells)} cells have no"
            why = "two seeds or more that tried the same points, and a chance level where a trial diverged"
            texts.append(f"{how} curve by the number of tries: that takes {why}.")
        return texts


def tunability(results: Results | str | Path) -> Tunability | None:
    """Return how easily a good rate is found; None where no search trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or not len(tries(results)):
        return None
    return results.once(_tunability)


def _tunability(results: Results) -> Tunability:
    # Of treatments and workloads alone that have names in the report: those that some final trial has.
    known = tries(results)
    known = known[known["workload"].isin(results.names.workloads) & known["treatment"].isin(results.names.treatments)]
    metrics = workload_metrics(results.searched[results.searched["metric"].notna()], outcome_metrics(results.records))
    own = {name: metrics[name] for name in results.metric_of if name in set(known["workload"])}
    return Tunability(results, own, known, by_rate(known, own), by_tries(known, own), good_ranges(known))


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


_MOST_NAMED = 12
_ENDS = ("value_median", "value_smallest", "value_largest")


class _Kind(NamedTuple):
    """A kind of figure: the column of its horizontal axis, that axis' title, and what its name and title have."""

    x: str
    axis: str
    prefix: str
    suffix: str
    note: str
    log: bool = False


_RATES = _Kind(
    "rate",
    "learning rate",
    "searched-",
    "by learning rate",
    "Every rate that was tried: the median over the seeds, and a band from the best to the worst of them.",
    log=True,
)
_ORDER = (
    "averaged over all orders of the tries: one seed’s search chooses, the others show what that is worth. The band "
    "goes from the best to the worst of the seeds that choose."
)
_TRIES = _Kind("tries", "tries", "tries-", "by the number of tries", f"What so many tries come to, {_ORDER}")
_COMPUTE = _Kind(
    "compute",
    "compute of the tries, with initialization (training steps)",
    "tries-compute-",
    "by the compute of the tries",
    f"The same over what the tries cost, initialization included; {_ORDER}",
)


def tunability_figures(found: Tunability) -> tuple[list[Figure], list[str]]:
    """Return the figures of the searches, those of one workload beside each other, and what is not drawn.

    Outcomes by rate are drawn where the seeds of a cell tried the same rates: of others a line would join noise.

    Args:
        found: of any suite that tunes.
    """
    labels, left = drawn(found.rates, "workload", "searched.csv")
    several = found.rates.groupby(["workload", "treatment"])["seeds"].transform("max")
    shared = found.rates[(several > 1) | (len(set(found.tries["seed"])) == 1)]
    if len(shared) < len(found.rates):
        left.append("Outcomes by rate are not drawn where each seed tried rates of its own; searched.csv has them.")
    figures: dict[str, list[Figure]] = {label: [] for label in labels}
    kinds = [(_RATES, shared if found.tune.has_rate else shared.iloc[:0]), (_TRIES, found.curves)]
    for kind, frame in [*kinds, (_COMPUTE, found.curves.dropna(subset=["compute"]))]:
        names = file_names(labels, kind.prefix)
        for label in labels:
            own = frame[frame["workload"] == label]
            if len(own) and (figure := _figure(found, label, own, kind, names[label])) is not None:
                figures[label].append(figure)
    return [figure for own in figures.values() for figure in own], left


def _figure(found: Tunability, label: str, own: pd.DataFrame, kind: _Kind, name: str) -> Figure | None:
    metric, where = found.metrics[label], found.results.names.workload(label)
    shown, colours = in_words(own, found.results)
    shown = shown.assign(**{end: metric.scale * shown[end] for end in _ENDS})
    unit = metric.beside_title.unit
    up = metric.title + (f" ({unit})" if unit else "")

    def place(row: Any) -> str:
        return f"{kind.x} {row[kind.x]:,g}" if kind.x != "tries" else f"after {row[kind.x]:.0f}"

    panel = value_panel(shown, kind.x, kind.axis, up, colours, place=place, log_x=kind.log, unfinished="diverged")
    if panel is None:
        return None
    title = f"{capitalized(metric.title)} {kind.suffix}: {where}"
    return Figure(name, title, f"{title}. {_words(shown, own, metric, kind)}", panel, kind.note, subject=where)


def _words(shown: pd.DataFrame, own: pd.DataFrame, metric: Metric, kind: _Kind) -> str:
    """Return where every line has its best value, or where it begins and ends."""
    texts = []
    numbers = own.assign(treatment=shown["treatment"])
    for treatment, line in numbers.groupby("treatment", sort=False):
        values = line["value_median"]
        if kind.x == "rate":
            finite = line[[math.isfinite(value) for value in values]]
            if not len(finite):
                texts.append(f"{treatment} diverged at every rate")
                continue
            value, rate = min(
                zip(finite["value_median"], finite["rate"], strict=True), key=lambda p: metric.oriented(p[0])
            )
            texts.append(f"{treatment} {metric.text(value)} at {rate:g}")
        else:
            texts.append(f"{treatment} from {metric.text(values.iloc[0])} to {metric.text(values.iloc[-1])}")
    how = "The best rate of each" if kind.x == "rate" else "From the first try to the last"
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{how}: {'; '.join(texts[:_MOST_NAMED])}{more}."
