"""The first sentences of a report, five at the most: a newcomer reads them and knows what happened."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from initbench.reporting.formatting import capitalized, count
from initbench.reporting.words.sentence import Sentence, first_fitting, named
from initbench.reporting.words.sizes import difference_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.reporting.analyses.overview import Overview
    from initbench.reporting.results import Results

MOST_SENTENCES = 5


def overview_sentences(found: Overview) -> list[Sentence]:
    """Return what happened: who trains, who fails where, who leads, what it costs, and what is not known.

    A sentence that has nothing to say is left out.

    Args:
        found: the facts.
    """
    if not len(found.results.judged):
        return [_nothing(found)]
    trains, lead = _trains(found), _lead(found)
    failures = _failures(found)
    rest = [*_cost(found), *_unknown(found)]
    room = MOST_SENTENCES - len(trains) - len(lead) - len(rest)
    failing = next((texts for texts in failures if len(texts) <= room), failures[-1])[:room] if failures else []
    return [*trains, *failing, *lead, *rest]


def _nothing(found: Overview) -> Sentence:
    states = found.map.states - {"incompatible", "missing"}
    if states == {"measured"}:
        return Sentence("Nothing was trained: the networks were measured at initialization alone.")
    if states == {"failed"}:
        return Sentence("Every trial failed: there is no outcome to compare.")
    return Sentence("No trial has an outcome: there is nothing to compare.")


def _trains(found: Overview) -> list[Sentence]:
    """Return who trains on every workload; nothing where no chance level tells who does."""
    results, names = found.results, found.results.names
    if not found.knows_chance:
        return []
    workloads, total = len(found.map.columns), len(found.map.rows)
    several = f"{results.terms.treatment}s"
    if total == 1:
        return _alone(found)
    every = [names.treatment(label) for label in found.everywhere]
    place = _all_workloads(results, workloads)
    values = _values(found, found.everywhere)
    if len(every) == total:
        text = first_fitting(f"All {total} {several} train {place}{values}.", f"All {total} {several} train {place}.")
        return [Sentence(text, ())]
    if every:
        verb = "train" if len(every) > 1 else "trains"
        listed = first_fitting(named(every, len(every)), named(every))
        text = first_fitting(
            f"Only {listed} {verb} {place}{values}.",
            f"Only {listed} {verb} {place}.",
            f"{len(every)} of {total} {several} train {place}.",
        )
        return [Sentence(text, tuple(every))]
    best, count_of = found.most
    if count_of == 0:
        guessing = "is better than guessing" if workloads > 1 or total > 1 else "it"
        return [Sentence(f"Nothing trains: none of the {len(results.judged)} cells {guessing}.")]
    most = [names.treatment(label) for label in best]
    verb = "train" if len(most) > 1 else "trains"
    text = first_fitting(
        f"No {results.terms.treatment} trains {place}; {named(most)} {verb} on most, {count_of} of {workloads}.",
        f"No {results.terms.treatment} trains {place}; {len(most)} train on {count_of} of {workloads}.",
    )
    return [Sentence(text, tuple(most))]


def _alone(found: Overview) -> list[Sentence]:
    names, workloads = found.results.names, len(found.map.columns)
    label = found.map.rows[0].label
    trained, name = (len(found.everywhere) and workloads) or found.most[1], names.treatment(label)
    if workloads == 1 and trained:
        return [Sentence(first_fitting(f"{name} trains{_values(found, (label,))}.", f"{name} trains."), (name,))]
    text = f"{name} trains on {trained} of {names.workloads_of(workloads)}{_values(found, found.everywhere)}."
    return [Sentence(first_fitting(text, f"{name} trains on {trained} of {workloads}."), (name,))]


def _all_workloads(results: Results, workloads: int) -> str:
    noun = results.names.noun
    if workloads == 1:
        [label] = results.metric_of
        return results.names.workload(label)
    return f"both {noun}s" if workloads == 2 else f"all {workloads} {noun}s"


def _values(found: Overview, labels: Sequence[str]) -> str:
    """Return ``: 2.5 % and 3.6 % test error``, or a range; nothing where there are several metrics."""
    metric = found.results.terms.metric
    judged = found.results.judged
    own = judged[judged["treatment"].isin(labels)]["outcome"]
    if metric is None or not len(own):
        return ""
    values = [metric.oriented(value) for value in own]
    if len(values) <= 2:
        shown = list(dict.fromkeys(metric.brief(value) for value in values))
        return f": {' and '.join(shown)} {metric.title}"
    low, high = metric.brief(min(values), unit=False), metric.brief(max(values))
    return f": {low} to {high} {metric.title}"


def _failures(found: Overview) -> list[list[Sentence]]:
    """Return ways to say who fails where, from the one that says most to the one that says least."""
    untrained, diverged = _by_names(found.untrained), _by_names(found.diverged)
    if not untrained and not diverged:
        return []
    own = [_untrained(found, untrained), _diverged(found, diverged)]
    separate = [sentence for sentence in own if sentence is not None]
    ways = [separate]
    if len(separate) == 2:
        # What guessing gives is said last: who fails matters more.
        texts = [_where(found, group, "do not train", "does not train") for group in (untrained,)]
        joined = f"{texts[0]}; {_lower(_where(found, diverged, 'diverge', 'diverges'))}."
        ways.append([Sentence(first_fitting(capitalized(joined), _counts(found)), _bold(found, untrained, diverged))])
    return ways


def _by_names(failing: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Return treatments → the workloads on which just these fail, those of most workloads first."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for workload, treatments in failing.items():
        groups[treatments].append(workload)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _where(found: Overview, groups: Mapping[tuple[str, ...], list[str]], verb: str, verb_of_one: str) -> str:
    """Return ``on plain-28, kaiming and xavier do not train; on wrn-28, lsuv does not train``."""
    names, texts = found.results.names, []
    total = len(found.map.columns)
    for treatments, workloads in groups.items():
        who = named([names.treatment(label) for label in treatments], 4)
        if len(workloads) == total > 1:
            where = f"on {_all_workloads(found.results, total)}"
        else:
            where = "on " + named([names.workload(label) for label in workloads])
        everything = len(treatments) == len(found.map.rows) > 1
        does = verb if len(treatments) > 1 or everything else verb_of_one
        texts.append(f"{where}, {'all' if everything else who} {does}" if total > 1 else f"{who} {does}")
    return "; ".join(texts)


def _untrained(found: Overview, groups: Mapping[tuple[str, ...], list[str]]) -> Sentence | None:
    if not groups:
        return None
    text = capitalized(_where(found, groups, "do not train", "does not train"))
    guess = _guessing(found)
    count_words = _count_words(found, found.untrained, "do not train", "does not train")
    return Sentence(
        first_fitting(f"{text}{guess}.", f"{text}.", f"{count_words}{guess}.", f"{count_words}."), _bold(found, groups)
    )


def _diverged(found: Overview, groups: Mapping[tuple[str, ...], list[str]]) -> Sentence | None:
    if not groups:
        return None
    text = capitalized(_where(found, groups, "diverge", "diverges"))
    return Sentence(
        first_fitting(f"{text}.", f"{_count_words(found, found.diverged, 'diverge', 'diverges')}."),
        _bold(found, groups),
    )


def _guessing(found: Overview) -> str:
    """Return ``: no better than guessing, 90.0 %``, where all have one chance level."""
    judged, metric = found.results.judged, found.results.terms.metric
    levels = set(judged[judged["state"] == "untrained"]["chance"])
    if metric is None or len(levels) != 1:
        return ", no better than guessing"
    return f": guessing gives {metric.brief(metric.oriented(levels.pop()))}"


def _count_words(found: Overview, failing: Mapping[str, tuple[str, ...]], verb: str, verb_of_one: str) -> str:
    """Return ``7 of 33 cells do not train, most often xavier: on 3 of 4 networks``."""
    results = found.results
    cells = [(label, workload) for workload, labels in failing.items() for label in labels]
    often: dict[str, int] = defaultdict(int)
    for label, _ in cells:
        often[label] += 1
    most = max(often, key=lambda label: often[label])
    does = verb if len(cells) > 1 else verb_of_one
    text = f"{len(cells)} of {len(results.judged)} cells {does}"
    name, places = results.names.treatment(most), results.names.workloads_of(len(found.map.columns))
    return first_fitting(f"{text}, most often {name}: on {often[most]} of {places}", text)


def _counts(found: Overview) -> str:
    untrained = sum(map(len, found.untrained.values()))
    diverged = sum(map(len, found.diverged.values()))
    return f"Of {len(found.results.judged)} cells, {untrained} do not train and {diverged} diverge."


def _bold(found: Overview, *groups: Mapping[tuple[str, ...], list[str]]) -> tuple[str, ...]:
    workloads = {label for own in groups for labels in own.values() for label in labels}
    return tuple(found.results.names.workload(label) for label in sorted(workloads))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _lead(found: Overview) -> list[Sentence]:
    lead, results = found.lead, found.results
    if lead is None:
        return []
    winner, loser = results.names.treatment(lead.winner), results.names.treatment(lead.loser)
    if not lead.workload:
        size = f"by {lead.difference.value:.1f} ranks ({lead.difference.low:.1f} to {lead.difference.high:.1f})"
        places = results.names.workloads_of(lead.difference.n)
        text = first_fitting(
            f"Over {places}, {winner} ranks first, ahead of {loser} {size}.",
            f"{winner} ranks first, ahead of the last {size}.",
        )
        return [Sentence(text, (winner,))]
    metric, workload = results.metric_of[lead.workload], results.names.workload(lead.workload)
    size = difference_words(lead.difference, metric)
    text = first_fitting(
        f"On {workload}, {winner} beats {loser} by {size}.",
        f"{winner} beats {loser} by {size}.",
    )
    return [Sentence(text, (winner, workload))]


def _cost(found: Overview) -> list[Sentence]:
    cost = found.cost
    if cost is None:
        return []
    name = found.results.names.treatment(cost.treatment)
    text = (
        f"Initializing by {name} costs as much as {count(cost.steps)} training steps; "
        f"training itself has {count(cost.training_steps)}."
    )
    return [Sentence(text, (name,))]


def _unknown(found: Overview) -> list[Sentence]:
    unknown, results = found.unknown, found.results
    if unknown is None:
        return []
    several = f"{results.terms.treatment}s"
    if unknown.what == "nothing":
        text = (
            f"There is {'one' if unknown.have == 1 else 'no pair of'} {results.terms.treatment}: nothing is compared."
        )
    elif unknown.what == "seeds":
        seeds = f"{unknown.have} seed{'s' if unknown.have != 1 else ''}"
        text = f"Not known: whether any difference is more than chance. {seeds} cannot tell; it takes {unknown.needed}."
    elif unknown.what == "differences":
        text = "Not known: the order of those that are marked as best. More seeds would tell."
    elif unknown.needed is not None and unknown.have < unknown.needed:
        noun = results.names.noun
        text = (
            f"Not known: an order over {noun}s. {capitalized(str(unknown.have))} "
            f"{'is' if unknown.have == 1 else 'are'} too few; {unknown.needed} would tell a difference of one rank."
        )
    else:
        over = results.names.workloads_of(unknown.have)
        text = f"Not known: an order of the {several}; over {over} none is ahead of another."
    return [Sentence(text, (), is_open=True)]
