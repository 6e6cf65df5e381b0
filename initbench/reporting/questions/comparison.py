"""Which treatment is better, over all workloads and on each?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import counted, listed, natural, typeset
from initbench.comparing.metrics import UNKNOWN
from initbench.comparing.names import label_of
from initbench.errors import InitbenchError
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.charts.axis import with_unit
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import LEAST_PROFILED, profile_panel
from initbench.reporting.charts.rows import ForestRow, forest_panel
from initbench.reporting.comparison_sentences import left_out_remark, needed_text, pair_over_workloads
from initbench.reporting.lead import find_lead, first_rank, lead_sentences
from initbench.reporting.questions.workloads import workload_sentences
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sizes import over_words, plain_words
from initbench.reporting.tables import Table, table_of
from initbench.statistics.cells import Complete, all_train, complete, table, trial_outcomes
from initbench.statistics.divergence import divergence_rates
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import PairedComparison, by_seed, compare_columns, in_direction
from initbench.statistics.profiles import performance_profiles
from initbench.statistics.ranks import RankComparison, compare_ranks
from initbench.statistics.seed_variance import SuiteVariances

Against = Sequence[tuple[Metric, Mapping[str, PairedComparison]]]
"""For each metric the comparison of each treatment with the reference."""
_SMALLEST = 2  # workloads, below which there is nothing to compare over
_DIFFERENCES = [
    *("treatment", "mean_rank", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high"),
    *("workloads", "rate", "rate_low", "rate_high", "trials", "trials_diverged"),
]


class Ranking(NamedTuple):
    """Treatments ranked over the workloads on which all ran: the cells' `ranked` without gaps, and its ranks."""

    whole: Complete
    ranks: RankComparison

    @property
    def treatments(self) -> list[str]:
        """The labels of the treatments that are ranked, the best first."""
        return [str(name) for name in self.ranks.mean_ranks.index]


class Comparison(NamedTuple):
    """Treatments over all workloads together.

    Each treatment is compared with the one that has the least mean rank. That one was chosen from the same trials, so
    the intervals are simultaneous over all pairs. Workloads on which not every treatment ran are left out of all but
    the rates of divergence, and so are treatments (`cells.complete`). A treatment that is left out is compared with the
    best on the workloads that have both; these intervals are simultaneous over all pairs of all treatments. If
    workloads have several metrics, their differences are put together by metric.

    Attributes:
        ranking: over the workloads on which all of them ran.
        against: the treatments that are ranked, against the reference.
        further: those that the ranking leaves out, against the reference.
        rates: as from `divergence.divergence_rates`.
        reference: label of the treatment that the others are compared with, empty if none is ranked.
        is_given: whether it was named beforehand: intervals are then simultaneous over the comparisons with it alone.
    """

    ranking: Ranking
    against: Against
    further: Against
    rates: pd.DataFrame
    reference: str
    is_given: bool

    @property
    def pairs(self) -> list[tuple[Metric, str, PairedComparison]]:
        """Every treatment that is compared with the reference, for each metric."""
        compared = [*self.against, *self.further]
        return [(metric, name, comparison) for metric, by_name in compared for name, comparison in by_name.items()]

    @property
    def is_over_workloads(self) -> bool:
        """Whether there is something to compare over workloads."""
        return len(self.ranking.treatments) > 1 and len(self.ranking.whole.table) >= _SMALLEST


def compare(results: Results | str | Path, *, reference: str = "") -> Answer:
    """Return which treatment is better.

    Args:
        results: as from `read_results`, or a suite's folder.
        reference: the treatment that the others are compared with, by its short or whole name; by default the one that
            ranks best.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such treatment, or it did not
            run wherever the others did.
    """
    results = as_results(results)
    facts = _facts(results, reference)
    figures, remarks = comparison_figures(facts, results) if facts.is_over_workloads else ([], [])
    sentences = list(_sentences(facts, results))
    return Answer(
        "comparison",
        f"Which {results.terms.treatment} is better?",
        sentences or [say("There is nothing to compare.", is_open=True)],
        _tables(facts, results),
        figures,
        [*remarks, *_left_out(facts, results)],
        facts,
    )


@once
def rank(results: Results) -> Ranking:
    """Return the treatments ranked over the workloads; what did not train shares the last rank before what diverged."""
    whole = complete(table(results.cells, "ranked"))
    return Ranking(whole, compare_ranks(whole.table))


def by_metric(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> list[tuple[Metric, pd.DataFrame]]:
    """Return the trials of each metric, all of them if there is one."""
    if len(metrics) <= 1:
        return [(next(iter(metrics.values()), UNKNOWN), trials)]
    return [(metric, trials[trials["metric"] == name]) for name, metric in metrics.items()]


def _facts(results: Results, reference: str) -> Comparison:
    ranking, trials, metrics = rank(results), results.trials, results.metrics
    given = label_of(reference, results.names.treatments, results.terms.treatment) if reference else ""
    if given and given not in ranking.treatments:
        raise InitbenchError(f"{reference} has no result on some workload, so nothing is compared with it over all")
    trains = results.cells[all_train(results.cells)].groupby("treatment").size()
    means = ranking.ranks.mean_ranks
    names = sorted(ranking.treatments, key=lambda name: (given not in {"", name}, means[name], -trains.get(name, 0)))
    everywhere = trials[trials["workload"].isin(ranking.whole.table.index)]
    every = results.judged["treatment"].nunique()

    def comparisons(treatments: int) -> int:
        """Any pair might have been looked at if the best is found from the same trials."""
        return treatments - 1 if given else treatments * (treatments - 1) // 2

    return Comparison(
        ranking,
        _against(everywhere, names, metrics, comparisons(len(names)), results.variances),
        _against(trials, [*names[:1], *ranking.whole.treatments], metrics, comparisons(every), results.variances),
        divergence_rates(results.judged, trial_outcomes(trials)),
        names[0] if names else "",
        bool(given),
    )


def _against(
    trials: pd.DataFrame,
    names: Sequence[str],
    metrics: Mapping[str, Metric],
    comparisons: int,
    variances: SuiteVariances,
) -> Against:
    """Return for each metric the comparisons of the treatments with the first, which hold for so many at once."""
    return [
        (
            metric,
            {
                name: compare_columns(wide, name, names[0], comparisons, variances.on(name, names[0]))
                for name in names[1:]
            },
        )
        for metric, rows in by_metric(trials, metrics)
        for wide in [by_seed(rows, names)]
    ]


def _sentences(facts: Comparison, results: Results) -> Iterator[Sentence]:
    """Yield who leads where, the order over the workloads, the first two, each workload, then who is not ranked."""
    said = [*_over_all(facts, results), *_on_each(results)]
    said += [
        _pair(facts, name, comparison, metric, results)
        for metric, comparisons in facts.further
        for name, comparison in comparisons.items()
        if comparison.workloads
    ]
    yield from said
    if (tune := results.tune) is not None and tune.protocol and said:
        treatment = results.terms.treatment
        yield say("Compared: {which}.", which=tune.chosen(f"each {treatment}", f"all {treatment}s"))
        yield from tune.caution()


def _over_all(facts: Comparison, results: Results) -> Iterator[Sentence]:
    ranks = facts.ranking.ranks
    if not ranks.is_told:  # else the order over workloads is the first finding
        yield from lead_sentences(find_lead(results, ranks), results)
    if facts.is_over_workloads:
        yield ranks_sentence(ranks, results.terms.treatment, results.names.noun, results.names.treatment)
        others = [name for name in facts.ranking.treatments if name != facts.reference]
        for metric, comparisons in facts.against:
            for name in others if facts.is_given else others[:1]:
                yield _pair(facts, name, comparisons[name], metric, results)


def _on_each(results: Results) -> Iterator[Sentence]:
    """Yield the first sentence on each workload with several treatments; on each workload if none has several."""
    judged = results.judged
    several = judged.groupby("workload", sort=False).filter(lambda cells: len(cells) > 1)
    for workload in dict.fromkeys((several if len(several) else judged)["workload"]):
        yield from workload_sentences(results, str(workload))[:1]


def _pair(facts: Comparison, name: str, comparison: PairedComparison, metric: Metric, results: Results) -> Sentence:
    names, several = results.names, results.terms.metric is None
    one, other = names.treatment(name), names.treatment(facts.reference)
    return pair_over_workloads(one, other, comparison, metric, names.noun, several=several)


def ranks_sentence(
    ranks: RankComparison, treatment: str, noun: str = "workload", display: Callable[[str], str] = str
) -> Sentence:
    """Return which treatment ranks best over workloads and who is behind it, or how many workloads would be needed."""
    if math.isnan(ranks.pvalue):
        return _no_ranks(ranks, treatment, noun)
    n, over = ranks.workloads, over_words(ranks.workloads, noun)
    if not ranks.is_told:
        needed, what = ranks.needed, "differences of this size"
        if ranks.needed_for_one_rank is not None and ranks.needed_for_one_rank > n:
            needed, what = ranks.needed_for_one_rank, "a difference of one rank"
        return say(f"No order is found over {over}; {needed_text(needed)} to find {what}.", is_open=True)
    if not len(ranks.behind):
        count = len(ranks.mean_ranks)
        return say(
            f"{count} {treatment}s differ in rank over {over}, but no difference was found between any two of them."
        )
    who = first_rank([display(label) for label in ranks.leaders])
    nearest = ranks.behind.iloc[0]
    size = plain_words(Estimate(nearest["difference"], nearest["low"], nearest["high"], n), unit="ranks")
    further = len(ranks.behind) - 1
    more = f" and of {counted(further, 'other')} by more" if further else ""
    text = f"{{who}} over {over}, ahead of {{second}} by {{size}}{more}."
    return say(text, who=who, second=display(str(nearest["second"])), size=size)


def _no_ranks(ranks: RankComparison, treatment: str, noun: str) -> Sentence:
    k = len(ranks.mean_ranks)
    if ranks.workloads == 0 or k == 0:
        text = f"There is no order over {noun}s: on no {noun} does every {treatment} have a result."
    elif k == 1:
        text = f"There is only one {treatment}."
    elif k == 2:
        text = f"Ranks need at least 3 {treatment}s; 2 are compared by their difference."
    else:
        needed = f"at least {ranks.needed_for_one_rank} would be needed to find a difference of one rank"
        text = f"One {noun} alone gives no order; {needed}."
    return say(text, is_open=True)


def _left_out(facts: Comparison, results: Results) -> Iterator[str]:
    if left := left_out_remark(facts.ranking.whole, results):
        yield left
    judged = set(results.judged["treatment"])
    without = sorted(set(results.trials["treatment"]) - judged, key=natural) if judged else []
    if without:
        which = ", ".join(results.names.treatment(name) for name in without)
        yield f"No trial of these has an outcome, so no statistic includes them: {which}."


def _tables(facts: Comparison, results: Results) -> list[Table]:
    """Return every treatment against the reference, over the workloads and on each, and all pairs of mean ranks."""
    tables, pairs = [], facts.ranking.ranks.pairs
    if facts.is_over_workloads:
        tables.append(_differences_table(facts, results))
        if len(pairs):
            title = f"Pairs of {results.terms.treatment}s by mean rank"
            tables.append(table_of(results, "rank_pairs", title, pairs, "first second difference pvalue"))
    if facts.pairs:
        tables.append(_paired_table(facts, results))
    return tables


def _differences_table(facts: Comparison, results: Results) -> Table:
    terms, noun, best = results.terms, results.names.noun, results.names.treatment(facts.reference)
    note, differences = "", ""
    if (metric := terms.metric) is not None:
        unit = f" in {metric.difference_unit or metric.unit}" if metric.unit else ""
        note = (
            f"Differences{unit}, and the probability that a run has {metric.better} {metric.quantity} than a run "
            f"of {best}; intervals are simultaneous 95 % intervals over the {noun}s. "
        )
        differences = "difference improvement"
    note += (
        f"Diverged: on what share of its {noun}s at least one seed did, with Wilson's interval, simultaneous over the "
        f"{terms.treatment}s.{_test(facts.ranking.ranks, results)}"
    )
    title = f"Every {terms.treatment} against {best} over the {noun}s"
    show = f"treatment mean_rank {differences} workloads rate"
    return table_of(results, "differences", title, _differences(facts, terms.metric), show, note, reference=best)


def _differences(facts: Comparison, metric: Metric | None) -> pd.DataFrame:
    """Return one row per treatment: its mean rank, its difference from the reference, and how often it diverges."""
    ranks = facts.ranking.ranks.mean_ranks
    rates = {row["treatment"]: row for row in facts.rates.to_dict("records")}
    compared = {name: comparison for _, name, comparison in facts.pairs}
    rows = []
    for name in [*facts.ranking.treatments, *facts.further[0][1]]:
        row: dict[Any, Any] = {"treatment": name, "mean_rank": ranks.get(name, math.nan)} | rates[name]
        if metric is not None and name in compared:
            row |= shown_difference(compared[name].difference, metric).columns("difference")
            row |= compared[name].probability_of_improvement.columns("improvement")
        rows.append(row)
    return pd.DataFrame(rows).reindex(columns=_DIFFERENCES)


def _test(ranks: RankComparison, results: Results) -> str:
    """Return Friedman's test as a sentence, empty if there is none."""
    if math.isnan(ranks.pvalue):
        return ""
    return (
        f" Mean ranks over {results.names.workloads_of(ranks.workloads)}: Friedman's χ² = {ranks.statistic:.1f} with "
        f"{len(ranks.mean_ranks) - 1} degrees of freedom, p = {ranks.pvalue:.2g}; what did not train shares the last "
        "rank before what diverged."
    )


def _paired_table(facts: Comparison, results: Results) -> Table:
    """Return every treatment against the reference on each workload."""
    terms, noun, best = results.terms, results.names.noun, results.names.treatment(facts.reference)
    frames = [
        in_direction(comparison.by_workload, metric).assign(treatment=name, metric=metric.name)
        for metric, name, comparison in facts.pairs
    ]
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[["workload", "treatment", *(c for c in frame if c not in {"workload", "treatment"})]]
    over = f"the {terms.treatment}s" if facts.is_given else f"all pairs of {terms.treatment}s"
    unit = "" if terms.metric is None else terms.metric.difference_unit or terms.metric.unit
    note = f"In {unit}; intervals" if unit else "Intervals"
    note += f" over seeds are simultaneous over {over}. There is no mean if a trial diverged."
    title = f"Every {terms.treatment} against {best} on each {noun}, seed by seed"
    show = "workload treatment difference median probability_of_improvement seeds diverged"
    return table_of(results, "paired_differences", title, frame, show, note, reference=best)


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
        yield _differences_figure(facts, comparisons, metric, results)
        yield _ranks_figure(facts, results)
        yield _profile_figure(facts, metric, results)
        return
    yield _ranks_figure(facts, results)
    titles = listed([metric.title for metric, _ in facts.against])
    yield (
        f"The {results.names.noun}s have several metrics ({titles}), whose values are never put together: there is no "
        "forest of mean differences and no performance profile over all of them."
    )


def _differences_figure(
    facts: Comparison, comparisons: Mapping[str, PairedComparison], metric: Metric, results: Results
) -> Figure | str:
    names = results.names
    reference = names.treatment(facts.reference)
    rows = []
    for label, comparison in comparisons.items():
        name, row = names.treatment(label), names.treatment_in_figure(label)
        for each in in_direction(comparison.by_workload, metric).to_dict("records"):
            words = f"{name} on {names.workload(each['workload'])}: {typeset(metric.signed(each['difference']))}"
            alone = Estimate(metric.scale * each["difference"], math.nan, math.nan, 1)
            rows.append(ForestRow(row, alone, words))
        estimate = shown_difference(comparison.difference, metric)
        if estimate.has_interval:
            value, low, high = (metric.scale * part for part in estimate[:3])
            pair = pair_over_workloads(name, reference, comparison, metric, names.noun)
            rows.append(ForestRow(row, Estimate(value, low, high, estimate.n), str(pair), pooled=True))
    unit = metric.difference_unit or metric.beside_title.unit
    drawing = forest_panel(rows, with_unit(f"{metric.title} less that of {reference}", unit))
    if drawing is None:
        return (
            f"No difference from {reference} can be drawn, because a trial diverged in its comparison with each other "
            f"{results.terms.treatment} on each {names.noun}."
        )
    note = f"Mean paired differences, a disc for each {names.noun}, if no trial diverged there."
    if any(row.pooled for row in rows):
        note += f" Diamond: their mean, with simultaneous 95 % intervals over the {names.noun}s."
    ranks = facts.ranking.ranks.mean_ranks
    is_best = not facts.is_given and (ranks == ranks.min()).sum() == 1 and _trains(facts.reference, results)
    title = f"Differences from {reference}" + (", which ranks best" if is_best else "")
    alt = "; ".join(row.words.rstrip(".") for row in rows)
    return Figure("differences", title, f"{alt}.", drawing, note)


def _trains(label: str, results: Results) -> bool:
    cells = results.cells
    return bool((all_train(cells) & (cells["treatment"] == label)).any())


def _ranks_figure(facts: Comparison, results: Results) -> Figure | str | None:
    ranks, names, terms = facts.ranking.ranks, results.names, results.terms
    if math.isnan(ranks.critical_difference):
        return f"There is no critical-difference diagram: {terms.say(ranks.reason)}." if ranks.reason else None
    half, rows = ranks.critical_difference / 2, []
    for label, mean in ranks.mean_ranks.items():
        name, estimate = (
            names.treatment_in_figure(str(label)),
            Estimate(mean, mean - half, mean + half, ranks.workloads),
        )
        rows.append(ForestRow(name, estimate, f"{name}: mean rank {mean:.2f}"))
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, {names.workloads_of(ranks.workloads)}): "
        f"two {terms.treatment}s whose bars do not overlap differ by more than that."
    )
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    alt = "; ".join(row.words for row in rows) + "."
    return None if drawing is None else Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)


def _profile_figure(facts: Comparison, metric: Metric, results: Results) -> Figure | str:
    whole, noun = facts.ranking.whole.table, results.names.noun
    outcomes = table(results.cells).reindex(index=whole.index, columns=whole.columns)
    costs = outcomes.rename(columns=results.names.treatment_in_figure) - metric.oriented(metric.best or 0.0)
    if (metric.better == "higher" and metric.best is None) or (costs < 0).to_numpy().any():
        return f"There is no performance profile: the {metric.title} has no best value to measure from."
    what, least = metric.title, "lowest"
    if metric.best:
        what, least = f"distance of the {metric.title} from {metric.beside_title.text(metric.best)}", "least"
    if len(whole) < LEAST_PROFILED:
        few = results.names.workloads_of(len(whole))
        return f"There is no performance profile: {few}; one is drawn from {LEAST_PROFILED} on."
    profiles = performance_profiles(costs)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    note = f"On what share of the {noun}s the median {what} is within a factor of the {least}; diverged is a miss."
    drawing = profile_panel(profiles, f"{what} over the {least} of the {noun}, log scale", results.palette)
    return Figure("profile-outcome", f"Performance profile: {metric.title}", f"{note} {best}.", drawing, note)
