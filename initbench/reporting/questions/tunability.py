"""How easily is a good rate found: with how many tries, at what cost, within how wide a range?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.metrics import outcome_metrics
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.charts.axis import with_unit
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import value_panel
from initbench.reporting.columns import Column
from initbench.reporting.file_names import file_names
from initbench.reporting.questions.line_figures import Kind, drawn, in_words
from initbench.reporting.questions.stable_rates import fold
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.searches import chosen, counts_text, tries
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.tables import Table, table_of
from initbench.reporting.trials import workload_metrics
from initbench.reporting.tune import Tune
from initbench.statistics.rates import GOOD_SHARE, GoodRange, by_rate, by_tries, good_ranges

_CELL = ["workload", "treatment"]
_RANGES = [
    *(*_CELL, "chosen", "seeds", "choices_differ", "edge", "best", "low", "high", "factor"),
    *("is_open_below", "is_open_above"),
]
_MOST_NAMED = 12
_ENDS = ("value_median", "value_smallest", "value_largest")


class Tunability(NamedTuple):
    """What the searches of all cells show.

    Attributes:
        tune: what is tuned.
        metrics: of the validation split, by workload.
        tries: as from `searches.tries`.
        rates: outcomes by rate, as from `rates.by_rate`.
        curves: outcomes by the number of tries, as from `rates.by_tries`.
        ranges: of good rates, by workload and treatment.
        chosen: what the seeds of each cell chose, as from `searches.chosen`.
        edges: the cells in which some seed chose the smallest or the largest rate that it tried: which of the two.
    """

    tune: Tune
    metrics: Mapping[str, Metric]
    tries: pd.DataFrame
    rates: pd.DataFrame
    curves: pd.DataFrame
    ranges: Mapping[tuple[str, str], GoodRange]
    chosen: Mapping[tuple[str, str], pd.DataFrame]
    edges: Mapping[tuple[str, str], str]


def tunability(results: Results | str | Path) -> Answer | None:
    """Return how easily a good rate is found; None if no search trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if (tune := results.tune) is None or not len(tries(results)):
        return None
    facts = _facts(results)
    figures, remarks = _figures(facts, results)
    tables = [_ranges_table(facts, results)] if tune.has_rate else []
    tables += _tries_tables(facts, results) if len(facts.curves) else []
    tables.append(table_of(results, "searched", "Every rate that was tried", facts.rates))
    question = f"How easily is a good {tune.noun} found?"
    sentences = list(_sentences(facts, results))
    return Answer("tunability", question, sentences, tables, figures, [*remarks, *_without_curve(facts)], facts)


@once
def _facts(results: Results) -> Tunability:
    known = tries(results)
    metrics = workload_metrics(results.searched[results.searched["metric"].notna()], outcome_metrics(results.records))
    metrics = {name: metrics[name] for name in results.metric_of if name in set(known["workload"])}
    cells = {(str(w), str(t)): rows for (w, t), rows in chosen(results).groupby(_CELL, sort=False)}
    assert results.tune is not None
    edges = _edges(known, cells) if results.tune.has_rate else {}
    curves, ranges = by_tries(known, metrics), good_ranges(known)
    return Tunability(results.tune, metrics, known, by_rate(known, metrics), curves, ranges, cells, edges)


def _edges(tried: pd.DataFrame, cells: Mapping[tuple[str, str], pd.DataFrame]) -> dict[tuple[str, str], str]:
    """Return the cells in which some seed chose the smallest or the largest rate that it tried, and trained at it."""
    edges = {}
    for (workload, treatment), searched in tried.groupby(_CELL, sort=False):
        choices = cells.get((str(workload), str(treatment)))
        if choices is None:
            continue
        ends = searched.groupby("seed")["rate"].agg(["min", "max"])
        trained = set(searched.loc[searched["is_trained"], ["seed", "rate"]].itertuples(index=False, name=None))
        at = set()
        for seed, rate in zip(choices["seed"], choices["rate"], strict=True):
            searching = seed if seed in ends.index else ends.index[0]  # one search for all seeds
            low, high = ends.loc[searching]
            if low < high and (searching, rate) in trained:
                at |= {name for name, end in (("smallest", low), ("largest", high)) if rate == end}
        if at:
            edges[str(workload), str(treatment)] = ", ".join(sorted(at, reverse=True))
    return edges


def _sentences(facts: Tunability, results: Results) -> Iterator[Sentence]:
    """Yield who has the widest range of good rates, what one try loses, whose best rate is at an edge, who differs."""
    names = results.names
    yield from _widest(facts, results)
    yield from _one_try(facts, results)
    if facts.tune.has_rate and facts.chosen and not facts.edges:
        text = "The best rate is neither the smallest nor the largest that was tried."
        if len(facts.chosen) > 1:
            text = f"In none of {len(facts.chosen)} cells is the best rate the smallest or the largest that was tried."
        yield say(text)
    for workload in facts.metrics:
        about = names.workload(workload)
        for end in ("smallest", "largest"):
            who = [names.treatment(t) for (w, t), edge in facts.edges.items() if w == workload and end in edge]
            if who:
                rate, verb = ("rate", "is") if len(who) == 1 else ("rates", "are")
                text = f"The best {rate} of {{who}} {verb} the {end} that was tried; a better one may lie beyond."
                yield say(text, who=named(who), subject=about)
        differ = {
            names.treatment(treatment): counts_text(choices)
            for (label, treatment), choices in facts.chosen.items()
            if label == workload and len(set(choices["point"])) > 1
        }
        if differ:
            what = f": {next(iter(differ.values()))}" if len(differ) == 1 else ""
            text = f"Seeds chose different {facts.tune.noun}s for {{who}}{{what}}."
            yield say(text, who=named(list(differ)), what=what, subject=about)


def _widest(facts: Tunability, results: Results) -> Iterator[Sentence]:
    """Yield who has the widest range, over the workloads on which every treatment that has any range has one."""
    spans: dict[str, dict[str, GoodRange]] = defaultdict(dict)
    for (workload, treatment), span in facts.ranges.items():
        spans[treatment][workload] = span
    shared = set.intersection(*(set(ranges) for ranges in spans.values())) if spans else set()
    if not shared:
        return
    means = {name: math.exp(np.mean([math.log(ranges[w].factor) for w in shared])) for name, ranges in spans.items()}
    over = f" over {results.names.workloads_of(len(shared))}" if len(facts.metrics) > 1 else ""
    is_open = {name for name, ranges in spans.items() if any(ranges[workload].is_open for workload in shared)}

    def having(factor: float) -> list[str]:
        return [name for name in means if fold(means[name]) == fold(factor)]

    def size(who: Sequence[str]) -> str:
        factor, least = means[who[0]], bool(is_open & set(who))
        if factor == 1:
            return "a single rate" + " or more" * least
        return "at least " * least + f"{fold(factor)}-fold"

    widest, narrowest = having(max(means.values())), having(min(means.values()))
    # An open range may be wider than was seen, and so wider than any other.
    others = is_open - set(widest if len(widest) == 1 else ())
    start = "Among the rates tried, the" if others else "The"
    shown = [named([results.names.treatment(name) for name in who]) for who in (widest, narrowest)]
    if len(means) == 1:
        yield say(f"{start} range of good rates of {{who!b}} is {size(widest)}{over}.", who=shown[0])
    elif len(widest) == len(means):
        yield say(f"{start} range of good rates is equally wide for {{who}}: {size(widest)}{over}.", who=shown[0])
    else:
        least = "it is narrowest for {least}:" if not is_open & set(narrowest) else "for {least} it is"
        text = f"{start} range of good rates is widest for {{most!b}}: {size(widest)}{over}; {least} {size(narrowest)}."
        yield say(text, most=shown[0], least=shown[1])


def _one_try(facts: Tunability, results: Results) -> Iterator[Sentence]:
    """Yield what one try loses against all, averaged over the workloads that all have, which share a metric."""
    if not len(facts.curves) or len(set(facts.curves["metric"])) > 1:
        return
    metric = next(iter(facts.metrics.values()))
    ends = facts.curves.groupby(["treatment", "workload"], sort=False)["value_median"].agg(["first", "last"])
    loss = (metric.oriented(1.0) * (ends["first"] - ends["last"])).unstack("workload").dropna(axis="columns")  # noqa: PD010
    if not loss.shape[1]:
        return
    means = loss.mean(axis="columns").sort_values(kind="stable")
    texts = [metric.difference(max(float(means.iloc[end]), 0.0)) for end in (0, -1)]
    names = [results.names.treatment(str(means.index[end])) for end in (0, -1)]
    text = f"Against {facts.tune.tries} tries, one try loses {{loss}} with {{least!b}}"
    sentence = say(text, loss=texts[0], least=names[0])
    if len(means) > 1:
        sentence += say(", the least, and {loss} with {most}, the most", loss=texts[1], most=names[1])
    yield sentence + say(".")


def _without_curve(facts: Tunability) -> Iterator[str]:
    cells = set(zip(facts.tries["workload"], facts.tries["treatment"], strict=True))
    without = len(cells - set(zip(facts.curves["workload"], facts.curves["treatment"], strict=True)))
    if without:
        how = "No cell has a" if without == len(cells) else f"{without} of {len(cells)} cells have no"
        why = "at least two seeds that tried the same points, and a chance level if a trial diverged"
        yield f"{how} curve by the number of tries, which needs {why}."


def _ranges_table(facts: Tunability, results: Results) -> Table:
    """Return the table of what each cell chose, and how wide its range of good rates is."""
    rows: list[dict[str, Any]] = []
    for key, choices in facts.chosen.items():
        row = dict(zip(_CELL, key, strict=True)) | {"chosen": counts_text(choices), "seeds": len(choices)}
        row |= {"choices_differ": len(set(choices["point"])) > 1, "edge": facts.edges.get(key, "")}
        if (span := facts.ranges.get(key)) is not None:
            row |= {name: getattr(span, name) for name in _RANGES[6:]}
        rows.append(row)
    frame = pd.DataFrame(rows, columns=_RANGES)
    ends = zip(*(frame[name] for name in ("low", "high", "is_open_below", "is_open_above")), strict=True)
    note = (
        f"A rate is good if its median validation outcome loses at most {100 * GOOD_SHARE:.0f} % of the best rate’s "
        "gain over chance. The range extends from the best rate to both sides as long as every tried rate is good; "
        "≤ and ≥ mark a range that reaches the edge of the tried rates and may extend beyond it."
    )
    title = "Chosen values, and the range of good rates"
    show = "workload treatment chosen edge range factor"
    return table_of(results, "good_rates", title, frame.assign(range=[_range(*end) for end in ends]), show, note)


def _range(low: float, high: float, is_open_below: bool, is_open_above: bool) -> str:
    """Return ``0.01 to 0.1``, ``≤ 0.001 to 0.1``, ``0.1 alone``; empty if there is no range."""
    if math.isnan(low):
        return ""
    below, above = ("≤ " if is_open_below else "", "≥ " if is_open_above else "")
    if low == high:
        return f"{below or above}{low:g}" if below or above else f"{low:g} alone"
    return f"{below}{low:g} to {above}{high:g}"


def _tries_tables(facts: Tunability, results: Results) -> list[Table]:
    """Return the outcomes after 1, 2, 4 and all tries, which a page shows, and after every number of tries."""
    curves = facts.curves
    last = int(curves["tries"].max())
    numbers = sorted({number for number in (1, 2, 4, last) if number <= last})
    wide = curves.pivot(index=[*_CELL, "metric"], columns="tries", values="value_median")  # noqa: PD010  # it refuses duplicates
    wide = wide.reindex(columns=numbers).set_axis([f"after_{number}" for number in numbers], axis="columns")
    one = curves.loc[curves["tries"] == 1, [*_CELL, "compute"]]
    frame = curves[_CELL].drop_duplicates().merge(wide.reset_index(), on=_CELL).merge(one, on=_CELL)
    titles = {metric.title for metric in facts.metrics.values()}
    head = capitalized(next(iter(titles)) if len(titles) == 1 else "outcome")
    note = (
        "On the validation split, after so many tries in random order, averaged over all orders: one seed’s search "
        "chooses, and the other seeds measure the choice. A diverged trial counts as chance. The compute of a try "
        "includes the initialization."
    )
    table = table_of(results, "tunability", "Outcome after so many tries", frame, "workload treatment compute", note)
    after = [
        Column(f"{head}\nafter {number} {'try' if number == 1 else 'tries'}", "outcome", f"after_{number}")
        for number in numbers
    ]
    shown = [*table.columns[:2], *after, *table.columns[2:]]
    metrics = {metric.name: metric for metric in facts.metrics.values()}
    return [
        replace(table, columns=shown, metrics=metrics, is_written=False),
        table_of(results, "tunability", "Outcome after so many tries", curves),
    ]


_ORDER = (
    "averaged over all orders of the tries: one seed’s search chooses, the others measure the choice. The band goes "
    "from the best to the worst of the seeds that choose."
)
_RATES = Kind(
    *("rate", "learning rate", "searched-", "by learning rate"),
    "Every tried rate: the median over the seeds, and a band from the best to the worst of them.",
    log=True,
)
_TRIES = Kind("tries", "tries", "tries-", "by the number of tries", f"The outcome after so many tries, {_ORDER}")
_COMPUTE = Kind(
    *("compute", "compute of the tries, with initialization (training steps)", "tries-compute-"),
    "by the compute of the tries",
    f"The same over the compute of the tries, which includes the initialization; {_ORDER}",
)


def _figures(facts: Tunability, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the figures of the searches, those of one workload beside each other, and remarks on those left out."""
    labels, left = drawn(facts.rates, "workload", "searched.csv")
    # Of seeds that tried different rates a line would join noise.
    several = facts.rates.groupby(_CELL)["seeds"].transform("max")
    shared = facts.rates[(several > 1) | (len(set(facts.tries["seed"])) == 1)]
    if len(shared) < len(facts.rates):
        left.append("Outcomes by rate are not drawn if each seed tried its own rates; searched.csv has them.")
    rates = shared if facts.tune.has_rate else shared.iloc[:0]
    kinds = [(_RATES, rates), (_TRIES, facts.curves), (_COMPUTE, facts.curves.dropna(subset=["compute"]))]
    files = {kind: file_names(labels, kind.prefix) for kind, _ in kinds}
    figures = [
        _figure(facts, results, label, frame[frame["workload"] == label], kind, files[kind][label])
        for label in labels
        for kind, frame in kinds
    ]
    return [figure for figure in figures if figure is not None], left


def _figure(
    facts: Tunability, results: Results, label: str, rows: pd.DataFrame, kind: Kind, name: str
) -> Figure | None:
    if not len(rows):
        return None
    metric, where = facts.metrics[label], results.names.workload(label)
    shown, colours = in_words(rows, results)
    scaled = shown.assign(**{end: metric.scale * shown[end] for end in _ENDS})
    up = with_unit(metric.title, metric.beside_title.unit)

    def at(row: Any) -> str:
        return f"{kind.x} {row[kind.x]:,g}" if kind.x != "tries" else f"after {row[kind.x]:.0f}"

    panel = value_panel(scaled, kind.x, kind.axis, up, colours, x_words=at, log_x=kind.log, unfinished="diverged")
    if panel is None:
        return None
    title = f"{capitalized(metric.title)} {kind.suffix}: {where}"
    return Figure(name, title, f"{title}. {_alt(shown, metric, kind)}", panel, kind.note, subject=where)


def _alt(shown: pd.DataFrame, metric: Metric, kind: Kind) -> str:
    """Return at which rate every line has its best value, or where it begins and ends."""
    texts = []
    for treatment, line in shown.groupby("treatment", sort=False):
        values = line["value_median"]
        if kind.x != "rate":
            texts.append(f"{treatment} from {metric.text(values.iloc[0])} to {metric.text(values.iloc[-1])}")
        elif len(finite := line[np.isfinite(values)]):
            best = finite.iloc[int((finite["value_median"] * metric.oriented(1.0)).argmin())]
            texts.append(f"{treatment} {metric.text(best['value_median'])} at {best['rate']:g}")
        else:
            texts.append(f"{treatment} diverged at every rate")
    how = "The best rate of each" if kind.x == "rate" else "From the first try to the last"
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{how}: {'; '.join(texts[:_MOST_NAMED])}{more}."
