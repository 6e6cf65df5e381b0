"""What happened: who trains everywhere, who fails where, who leads, the cost of initializing, the unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from initbench.comparing.formatting import count, counted
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.heat_map import heat_map as heat_map_chart
from initbench.reporting.comparison_sentences import is_same_everywhere, needed_text
from initbench.reporting.failure_sentences import all_workloads, failure_sentences, guessing, joined_failures
from initbench.reporting.heat_map import HeatMap, heat_map
from initbench.reporting.lead import Lead, find_lead, lead_sentences
from initbench.reporting.questions.claims import claims
from initbench.reporting.questions.comparison import rank
from initbench.reporting.questions.cost import initialization_costs
from initbench.reporting.questions.protocols import main_change
from initbench.reporting.questions.transfer import main_transfer
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, bold_names, named, say
from initbench.reporting.sizes import outcome_words
from initbench.reporting.tables import table_of
from initbench.statistics.intervals import MINIMUM_SEEDS
from initbench.statistics.paired import compare_paired
from initbench.statistics.ranks import RankComparison, workloads_for_one_rank

MOST_SENTENCES = 5
_MUCH = 0.1  # of the training steps, from which on the cost of initialization is mentioned
_MOST_NAMED = 4


@dataclass(frozen=True)
class Cost:
    """The most that initialization costs, in training steps, and the label of the treatment that it costs."""

    treatment: str
    steps: float
    training_steps: float


@dataclass(frozen=True)
class Unknown:
    """What the results do not tell.

    Attributes:
        what: ``order`` if there are too few workloads to find a difference of one rank; ``sizes`` if the differences
            over workloads are too small, ``workloads`` if there are too few for an interval, ``divergence``
            if they have no mean because trials diverged; ``shared`` if two treatments have only one of several
            workloads in common; ``metrics`` if two treatments ran on workloads of several metrics; ``differences`` on
            the only workload; ``seeds`` if there are too few for any interval; ``nothing`` if no two treatments can be
            compared.
        have: how many workloads, seeds or (``nothing``) treatments there are.
        needed: how many would be needed; None if unknown or more than 10,000.
    """

    what: str
    have: int
    needed: int | None = None


@dataclass(frozen=True)
class Overview:
    """The facts of the first screen.

    Attributes:
        results: of the report.
        map: the heat map.
        lead: who is better than whom; None if no difference is found.
        cost: of initialization; None if it is small.
        unknown: None if nothing of the kind is unknown.
        tuned: the difference that own values make, else how the best rate depends on the size of the network; None if
            the suite tells neither.
        claimed: how many claims hold; None if the suite states none.
    """

    results: Results
    map: HeatMap
    lead: Lead | None = None
    cost: Cost | None = None
    unknown: Unknown | None = None
    tuned: Sentence | None = None
    claimed: Sentence | None = None

    @property
    def trained(self) -> dict[str, int]:
        """Label of a treatment → on how many workloads it trains at every seed, in the order of the map."""
        return {row.label: sum(cell.trains for cell in row.cells) for row in self.map.rows}

    @property
    def everywhere(self) -> tuple[str, ...]:
        """The labels of the treatments that train on every workload at every seed."""
        return tuple(label for label, trained in self.trained.items() if trained == len(self.map.columns))

    @property
    def wherever_run(self) -> dict[str, int]:
        """Label → number of workloads, for treatments that train on all that they ran on but did not run on all."""
        ran = {
            row.label: sum(cell.state not in {"missing", "incompatible"} for cell in row.cells) for row in self.map.rows
        }
        return {
            label: trained
            for label, trained in self.trained.items()
            if 0 < trained < len(self.map.columns) and trained == ran[label]
        }

    @property
    def common_failure(self) -> str:
        """The state of all cells if all of several treatments fail in the same way, else empty."""
        states = set(self.results.judged["state"])
        return str(*states) if len(states) == 1 and len(self.map.rows) > 1 and "trained" not in states else ""

    @property
    def knows_chance(self) -> bool:
        """Whether it is known of every cell if it is better than chance, and so who trains."""
        judged = self.results.judged
        return bool(len(judged)) and bool(judged["trained"].notna().all())


def overview(results: Results | str | Path) -> Answer:
    """Return what happened.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    cells, ranks = heat_map(results), rank(results).ranks
    lead, claimed = find_lead(results, ranks), claims(results)
    facts = Overview(
        results,
        cells,
        lead,
        _most_expensive(results),
        _unknown(results, cells, ranks, lead),
        main_change(results) or main_transfer(results),
        None if claimed is None else claimed.sentences[0],
    )
    sentences = overview_sentences(facts)
    return Answer(
        "overview",
        "What happened?",
        sentences,
        [table_of(results, "overview", "What each cell came to", cells.frame, "treatment workload state text note")],
        [
            Figure(
                "overview",
                f"What happened: {cells.metric or 'outcome of each workload'}",
                " ".join(map(str, sentences)),
                heat_map_chart(cells.frame),
            )
        ],
        facts=facts,
    )


def _most_expensive(results: Results) -> Cost | None:
    costs = initialization_costs(results).dropna(subset=["initialization_steps", "training_steps"])
    much = costs[costs["initialization_steps"] > _MUCH * costs["training_steps"]]
    if not len(much):
        return None
    most = max(much.to_dict("records"), key=lambda row: float(row["initialization_steps"]))
    return Cost(most["treatment"], float(most["initialization_steps"]), float(most["training_steps"]))


def _unknown(results: Results, cells: HeatMap, ranks: RankComparison, lead: Lead | None) -> Unknown | None:
    judged = results.judged
    workloads, treatments = judged["workload"].nunique(), judged["treatment"].nunique()
    if treatments < 2 or not judged.duplicated("workload").any():
        return Unknown("nothing", treatments) if len(judged) else None
    if ranks.is_told or (lead is not None and not lead.workload):
        return None  # the order over workloads is known, or that there is one
    if int(judged["seeds"].max()) < MINIMUM_SEEDS:
        return Unknown("seeds", int(judged["seeds"].max()), MINIMUM_SEEDS)
    if workloads >= 2 and len(ranks.mean_ranks) > 2:
        enough = workloads_for_one_rank(len(ranks.mean_ranks))
        return (
            Unknown("order", ranks.workloads, enough)
            if ranks.workloads < enough
            else Unknown("sizes", ranks.workloads, ranks.needed)
        )
    if workloads >= 2 and len(ranks.mean_ranks) == 2:
        return _unknown_of_two(results, ranks)
    is_open = any(cell.mark == "unresolved" for cell in cells.cells)
    return Unknown("differences", workloads) if workloads == 1 and is_open else None


def _unknown_of_two(results: Results, ranks: RankComparison) -> Unknown | None:
    """Return why it is unknown which of two treatments is better over several workloads; None if it is known."""
    if results.terms.metric is None:
        return Unknown("metrics", ranks.workloads)
    one, other = map(str, ranks.mean_ranks.index)
    paired = compare_paired(results.trials, one, other)
    if paired.is_told or (paired.has_mean and is_same_everywhere(paired.judged)):
        return None
    if paired.workloads and not paired.has_mean:
        return Unknown("divergence", paired.workloads)
    if paired.is_over_seeds:
        return Unknown("shared", paired.workloads)
    if paired.workloads < MINIMUM_SEEDS:
        return Unknown("workloads", paired.workloads, MINIMUM_SEEDS)
    return Unknown("sizes", paired.workloads, paired.needed)


def overview_sentences(facts: Overview) -> list[Sentence]:
    """Return at most five sentences, the known before the unknown.

    In this order: claims, who trains, who fails where, who leads, what tuning shows, the cost of initializing,
    the unknown. If there is no room, the cost is left out, then the unknown; then failures share a sentence.
    """
    if not len(facts.results.judged):
        return [*_if(facts.claimed), _no_outcome(facts)]
    trains, lead = _trains(facts), lead_sentences(facts.lead, facts.results)
    failing = [] if trains and facts.common_failure else failure_sentences(facts.results, facts.map)
    cost, unknown = _cost(facts), _unknown_sentences(facts)
    if not [*trains, *lead, *failing, *cost]:
        trains = [_range(facts)]
    rest = [*_if(facts.claimed), *trains, *lead, *_tuned(facts, has_lead=bool(lead))]
    for least in (cost, unknown):
        if len([*rest, *failing, *cost, *unknown]) > MOST_SENTENCES:
            least.clear()
    if len([*rest, *failing]) > MOST_SENTENCES:
        failing = joined_failures(facts.results, facts.map)[: MOST_SENTENCES - len(rest)]
    before = len([*_if(facts.claimed), *trains])
    return [*rest[:before], *failing, *rest[before:], *cost, *unknown]


def _if(sentence: Sentence | None) -> list[Sentence]:
    return [] if sentence is None else [sentence]


def _tuned(facts: Overview, *, has_lead: bool) -> list[Sentence]:
    """Return at which values a tuned suite compares its treatments, unless the lead says so, and what tuning shows."""
    tune, terms = facts.results.tune, facts.results.terms
    if tune is None or not tune.protocol:
        return []
    compared = say("Compared: {which}.", which=tune.chosen(f"each {terms.treatment}", f"all {terms.treatment}s"))
    return [*([] if has_lead else [compared]), *_if(facts.tuned), *tune.caution()]


def _no_outcome(facts: Overview) -> Sentence:
    states = facts.map.states - {"incompatible", "missing"}
    if states == {"measured"}:
        return say("Nothing was trained: the networks were only measured at initialization.")
    if states == {"failed"}:
        return say("Every trial failed: there is no outcome to compare.")
    if not states and facts.results.tune is not None:
        return say("The searches are not done: no trial at a rate that they chose has a result yet.", is_open=True)
    return say("No trial has an outcome: there is nothing to compare.")


def _range(facts: Overview) -> Sentence:
    """Return the range of the medians, which is what can be said if no chance level tells who trains."""
    results, metric = facts.results, facts.results.terms.metric
    if metric is None:
        cells = counted(len(results.judged), "cell")
        return say(f"There are {cells} with an outcome, each in the metric of its {results.names.noun}.")
    ordered = results.judged.sort_values("outcome", kind="stable")
    first, last = ordered.to_dict("records")[0], ordered.to_dict("records")[-1]
    low, high = (metric.beside_title.brief(metric.oriented(row["outcome"])) for row in (first, last))
    if low == high:
        text = f"Median {{metric}}: {{low}} in {counted(len(ordered), 'cell')}."
        return say(text, metric=metric.title, low=low)
    text = "Median {metric} goes from {low} ({first!b}) to {high} ({last})."
    if len(results.metric_of) > 1:
        text = "Median {metric} goes from {low} ({first!b} on {first_workload}) to {high} ({last} on {last_workload})."
    return say(
        text,
        metric=metric.title,
        low=low,
        high=high,
        first=results.names.treatment(first["treatment"]),
        last=results.names.treatment(last["treatment"]),
        first_workload=results.names.workload(first["workload"]),
        last_workload=results.names.workload(last["workload"]),
    )


def _trains(facts: Overview) -> list[Sentence]:
    """Return who trains on every workload, if the chance levels tell."""
    results, total = facts.results, len(facts.map.rows)
    if not facts.knows_chance:
        return _too_few_samples(results)
    if total == 1:
        return _alone(facts)
    everywhere = facts.everywhere
    if not everywhere:
        return [_trains_on_most(facts) if any(facts.trained.values()) else _nothing_trains(facts)]
    verb = "trains" if len(everywhere) == 1 else "train"
    if len(everywhere) == total:
        who = say(f"{'Both' if total == 2 else f'All {total}'} {results.terms.treatment}s")
    elif len(everywhere) <= _MOST_NAMED:
        who = say("Only ") + bold_names(_treatments(results, everywhere), _MOST_NAMED)
    else:
        who = say(f"{len(everywhere)} of {total} {results.terms.treatment}s")
    text = f"{{who}} {verb} {{where}}{_at_every_seed(results)}{{values}}."
    return [say(text, who=who, where=all_workloads(results), values=_values(results, everywhere))]


def _too_few_samples(results: Results) -> list[Sentence]:
    """Say on which workloads chance is known, but too uncertain for any outcome to be better."""
    judged = results.judged
    small = list(dict.fromkeys(judged[judged["trained"].isna() & judged["chance"].notna()]["workload"]))
    if not small:
        return []
    where = bold_names([results.names.workload(workload) for workload in small])
    return [say("The evaluated split of {where} is too small to tell training from guessing.", where=where)]


def _at_every_seed(results: Results) -> str:
    """Return ``at all 3 seeds``; empty if there is only one."""
    seeds = set(results.judged["seeds"].astype(int))
    if seeds == {1}:
        return ""
    if seeds == {2}:
        return " at both seeds"
    return f" at all {seeds.pop()} seeds" if len(seeds) == 1 else " at every seed"


def _treatments(results: Results, labels: Sequence[str]) -> list[str]:
    return [results.names.treatment(label) for label in labels]


def _nothing_trains(facts: Overview) -> Sentence:
    cells, failure = len(facts.results.judged), facts.common_failure
    if "trained" in facts.map.states:
        return say(f"No {facts.results.terms.treatment} trains any {facts.results.names.noun} at every seed.")
    if failure == "diverged":
        return say(f"Nothing trains: {f'all {cells} cells diverge' if cells > 1 else 'the only cell diverges'}.")
    none = f"none of the {cells} cells is" if cells > 1 else "the only cell with a result is not"
    level = guessing(facts.results, ", {level}") if failure else None
    return say(f"Nothing trains: {none} better than guessing{{level}}.", level=level or "")


def _trains_on_most(facts: Overview) -> Sentence:
    """Return who trains on most workloads, and who trains wherever it ran: it may have failed nowhere."""
    results, most = facts.results, max(facts.trained.values())
    best = [label for label, trained in facts.trained.items() if trained == most]
    others = {label: number for label, number in facts.wherever_run.items() if label not in best and number > 1}
    text = (
        f"No {results.terms.treatment} trains {{where}}{_at_every_seed(results)}; {{best}} "
        f"{'train' if len(best) > 1 else 'trains'} {most} of {len(facts.map.columns)}, the most"
    )
    if others:
        on = f"all {next(iter(others.values()))} that it ran on" if len(others) == 1 else "all on which they ran"
        text += f", and {{others}} {on}"
    return say(
        f"{text}.",
        where=all_workloads(results),
        best=bold_names(_treatments(results, best)),
        others=bold_names(_treatments(results, list(others))) if others else "",
    )


def _alone(facts: Overview) -> list[Sentence]:
    results, [(label, trained)] = facts.results, facts.trained.items()
    workloads = len(facts.map.columns)
    if workloads == 1 and trained == 0 and "trained" not in facts.map.states:
        return []  # the sentence on failures says so
    if trained == 0 and "trained" in facts.map.states:
        text = "{name!b} does not train {where} at every seed."
        return [say(text, name=results.names.treatment(label), where=all_workloads(results))]
    on = "" if workloads == 1 else f" on {trained} of {results.names.workloads_of(workloads)}"
    values = _values(results, facts.everywhere)
    return [say(f"{{name!b}} trains{on}{{values}}.", name=results.names.treatment(label), values=values)]


def _values(results: Results, labels: Sequence[str]) -> str:
    """Return ``: 97.5 % and 96.4 % test accuracy``, in the labels' order, or a range; empty for several metrics."""
    metric, judged = results.terms.metric, results.judged
    if metric is None:
        return ""
    of_label = [judged[judged["treatment"] == label]["outcome"] for label in labels]
    values = [metric.oriented(value) for outcomes in of_label for value in outcomes]
    if not values:
        return ""
    texts = [metric.beside_title.brief(value) for value in values]
    if len(set(texts)) == 1:
        return f": {texts[0]} {metric.title}"
    is_one_each = len(of_label) == 2 and all(len(outcomes) == 1 for outcomes in of_label)
    return f": {named(texts)} {metric.title}" if is_one_each else f": {outcome_words(values, metric)}"


def _cost(facts: Overview) -> list[Sentence]:
    cost = facts.cost
    if cost is None:
        return []
    text = (
        f"Initializing by {{name!b}} costs as much as {count(cost.steps)} training steps; "
        f"training itself has {count(cost.training_steps)}."
    )
    return [say(text, name=facts.results.names.treatment(cost.treatment))]


def _unknown_sentences(facts: Overview) -> list[Sentence]:
    unknown, results = facts.unknown, facts.results
    if unknown is None:
        return []
    one, noun, needed = results.terms.treatment, results.names.noun, needed_text(unknown.needed)
    are_few = "is too few" if unknown.have == 1 else "are too few"
    which = f"which {one} is better over {noun}s"
    if unknown.what == "nothing":
        alone = f"Only one {one} has a result" if len(facts.map.rows) > 1 else f"There is only one {one}"
        text = f"{alone if unknown.have == 1 else f'No two {one}s ran on the same {noun}'}, so nothing is compared."
    else:
        text = {
            "seeds": f"whether any difference exceeds chance ({counted(unknown.have, 'seed')} {are_few}; at least "
            f"{unknown.needed} are needed).",
            "metrics": f"{which}, because their metrics differ.",
            "differences": "which of those with an open mark are worse than the best; more seeds may tell.",
            "order": f"an order over {noun}s; {unknown.have} {are_few}, and {needed} to find a difference of one rank.",
            "sizes": f"an order of the {one}s over {noun}s; {counted(unknown.have, noun)} {are_few}, and {needed}.",
            "workloads": f"{which}; {counted(unknown.have, noun)} {are_few}, and at least {unknown.needed} are needed.",
            "shared": f"{which}; the two share only one {noun}, and more seeds or {noun}s are needed.",
            "divergence": f"{which}; there is no mean difference because trials diverged, and more {noun}s would be "
            "needed.",
        }[unknown.what]
        text = f"Not known: {text}"
    return [say(text, is_open=True)]
