"""The first sentences of a report, five at the most: a newcomer reads them and knows what happened."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from initbench.reporting.formatting import capitalized, count, counted
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import Sentence, first_fitting, named
from initbench.reporting.words.sizes import needed_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric
    from initbench.reporting.analyses.overview import Lead, Overview
    from initbench.reporting.results import Results

MOST_SENTENCES = 5
_UNTRAINED = ("do not train", "does not train", "none trains")
_DIVERGED = ("diverge", "diverges", "all diverge")
"""Of several, of one, of all."""


def overview_sentences(found: Overview) -> list[Sentence]:
    """Return what happened: who trains, who fails where, who leads, what it costs, and what is not known.

    A sentence that has nothing to say is left out. The first one says what is known.

    Args:
        found: the facts.
    """
    if not len(found.results.judged):
        return [_nothing(found)]
    trains, lead, cost, unknown = _trains(found), _lead(found), _cost(found), _unknown(found)
    failures = _failures(found)
    if not [*trains, *lead, *failures, *cost]:
        trains = [_range(found)]
    room = MOST_SENTENCES - len([*trains, *lead, *cost, *unknown])
    failing = next((texts for texts in failures if len(texts) <= room), failures[-1])[:room] if failures else []
    return [*trains, *failing, *lead, *cost, *unknown]


def _nothing(found: Overview) -> Sentence:
    states = found.map.states - {"incompatible", "missing"}
    if states == {"measured"}:
        return Sentence("Nothing was trained: the networks were measured at initialization alone.")
    if states == {"failed"}:
        return Sentence("Every trial failed: there is no outcome to compare.")
    return Sentence("No trial has an outcome: there is nothing to compare.")


def _range(found: Overview) -> Sentence:
    """Return from where to where the medians go: what there is to say where no chance level tells who trains."""
    results, metric = found.results, found.results.terms.metric
    if metric is None:
        cells = counted(len(results.judged), "cell")
        return Sentence(f"There are {cells} with an outcome, each in the metric of its {results.names.noun}.")
    ordered = results.judged.sort_values("outcome", kind="stable").to_dict("records")
    names = {}
    for end, row in (("first", ordered[0]), ("last", ordered[-1])):
        names |= {
            end: results.names.treatment(row["treatment"]),
            f"{end}_place": results.names.workload(row["workload"]),
        }
    low, high = (metric.brief(metric.oriented(row["outcome"])) for row in (ordered[0], ordered[-1]))
    if low == high:
        return Sentence(f"Median {metric.title}: {low} in {counted(len(ordered), 'cell')}.")
    what = f"Median {metric.title} goes from {low}"
    if len(results.metric_of) == 1:
        text = f"{what} ({{first}}) to {high} ({{last}})."
    else:
        text = f"{what} ({{first}} on {{first_place}}) to {high} ({{last}} on {{last_place}})."
    return said(text, names=names, bold=["first"])


def _trains(found: Overview) -> list[Sentence]:
    """Return who trains on every workload; nothing where no chance level tells who does."""
    results, names = found.results, found.results.names
    if not found.knows_chance:
        return []
    workloads, total = len(found.map.columns), len(found.map.rows)
    if total == 1:
        return _alone(found)
    one, several = results.terms.treatment, f"{results.terms.treatment}s"
    every = [names.treatment(label) for label in found.everywhere]
    place, values = {"place": _all_workloads(results, workloads)}, _values(found, found.everywhere)
    if len(every) == total:
        who = f"Both {several}" if total == 2 else f"All {total} {several}"
        return [said(f"{who} train {{place}}{{shown}}.", f"{who} train {{place}}.", names=place, shown=values)]
    if every:
        verb = "train" if len(every) > 1 else "trains"
        texts = [f"Only {{{who}}} {verb} {{place}}{rest}." for who in ("every", "few") for rest in ("{shown}", "")]
        texts.append(f"{len(every)} of {total} {several} {verb} {{place}}.")
        listed = {"every": named(every, len(every)), "few": named(every)}
        return [_with_bold(said(*texts, names=place, shown=values, **listed), every)]
    best, count_of = found.most
    if count_of == 0:
        cells = len(results.judged)
        none = f"none of the {cells} cells is" if cells > 1 else "the only cell with a result is not"
        return [Sentence(f"Nothing trains: {none} better than guessing.")]
    most = [names.treatment(label) for label in best]
    verb = "train" if len(most) > 1 else "trains"
    text = first_fitting(
        f"No {one} trains {place['place']}; {named(most)} {verb} on {count_of} of {workloads}, the most.",
        f"No {one} trains {place['place']}; {len(most)} {verb} on {count_of} of {workloads}, the most.",
    )
    return [_with_bold(Sentence(text), most)]


def _with_bold(sentence: Sentence, names: Sequence[str]) -> Sentence:
    return replace(sentence, bold=tuple(name for name in names if name in sentence.text))


def _alone(found: Overview) -> list[Sentence]:
    results, workloads, label = found.results, len(found.map.columns), found.map.rows[0].label
    names, trained = {"name": results.names.treatment(label)}, found.most[1]
    values = _values(found, found.everywhere)
    if workloads == 1 and trained == 0:
        return []  # that it fails is said where failures are
    where = "" if workloads == 1 else f" on {trained} of {results.names.workloads_of(workloads)}"
    return [
        said(f"{{name}} trains{where}{{shown}}.", f"{{name}} trains{where}.", names=names, bold=["name"], shown=values)
    ]


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
        joined = f"{_where(found, untrained, _UNTRAINED)}; {_where(found, diverged, _DIVERGED)}."
        text = first_fitting(_begun(found, joined), _counts(found))
        ways.append([_with_bold(Sentence(text), _places(found, untrained, diverged))])
    return ways


def _by_names(failing: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    """Return treatments → the workloads on which just these fail, those of most workloads first."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for workload, treatments in failing.items():
        groups[treatments].append(workload)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def _where(found: Overview, groups: Mapping[tuple[str, ...], list[str]], verbs: tuple[str, str, str]) -> str:
    """Return ``on plain-28, kaiming and xavier do not train; on wrn-28, lsuv does not train``."""
    names, texts = found.results.names, []
    total = len(found.map.columns)
    several, one, every = verbs
    for treatments, workloads in groups.items():
        who = named([names.treatment(label) for label in treatments], 4)
        if len(workloads) == total > 1:
            where = f"on {_all_workloads(found.results, total)}"
        else:
            where = "on " + named([names.workload(label) for label in workloads])
        text = f"{who} {several if len(treatments) > 1 else one}"
        if len(treatments) == len(found.map.rows) > 1:
            text = every
        texts.append(f"{where}, {text}" if total > 1 else text)
    return "; ".join(texts)


def _untrained(found: Overview, groups: Mapping[tuple[str, ...], list[str]]) -> Sentence | None:
    if not groups:
        return None
    text, guess = _begun(found, _where(found, groups, _UNTRAINED)), _guessing(found)
    counts = _count_words(found, found.untrained, _UNTRAINED)
    fitting = first_fitting(f"{text}{guess}.", f"{text}.", f"{counts}{guess}.", f"{counts}.")
    return _with_bold(Sentence(fitting), _places(found, groups))


def _diverged(found: Overview, groups: Mapping[tuple[str, ...], list[str]]) -> Sentence | None:
    if not groups:
        return None
    text = f"{_begun(found, _where(found, groups, _DIVERGED))}."
    fitting = first_fitting(text, f"{_count_words(found, found.diverged, _DIVERGED)}.")
    return _with_bold(Sentence(fitting), _places(found, groups))


def _guessing(found: Overview) -> str:
    """Return ``: no better than guessing, 90.0 %``, where all have one chance level."""
    judged, metric = found.results.judged, found.results.terms.metric
    levels = set(judged[judged["state"] == "untrained"]["chance"])
    if metric is None or len(levels) != 1:
        return ", no better than guessing"
    return f": guessing gives {metric.brief(metric.oriented(levels.pop()))}"


def _count_words(found: Overview, failing: Mapping[str, tuple[str, ...]], verbs: tuple[str, str, str]) -> str:
    """Return ``7 of 33 cells do not train, most often xavier: on 3 of 4 networks``."""
    results = found.results
    cells = [(label, workload) for workload, labels in failing.items() for label in labels]
    often: dict[str, int] = defaultdict(int)
    for label, _ in cells:
        often[label] += 1
    most = max(often, key=lambda label: often[label])
    text = f"{len(cells)} of {counted(len(results.judged), 'cell')} {verbs[0] if len(cells) > 1 else verbs[1]}"
    name, places = results.names.treatment(most), results.names.workloads_of(len(found.map.columns))
    return first_fitting(f"{text}, most often {name}: on {often[most]} of {places}", text)


def _counts(found: Overview) -> str:
    untrained = sum(map(len, found.untrained.values()))
    diverged = sum(map(len, found.diverged.values()))
    return f"Of {len(found.results.judged)} cells, {untrained} do not train and {diverged} diverge."


def _places(found: Overview, *groups: Mapping[tuple[str, ...], list[str]]) -> list[str]:
    workloads = {label for own in groups for labels in own.values() for label in labels}
    return [found.results.names.workload(label) for label in sorted(workloads)]


def _begun(found: Overview, text: str) -> str:
    """Return a text with a capital first letter; on a single workload it begins with a name, which stays as it is."""
    return capitalized(text) if len(found.map.columns) > 1 else text


def _lead(found: Overview) -> list[Sentence]:
    lead, results = found.lead, found.results
    if lead is None:
        return []
    names = {"winner": results.names.treatment(lead.winner), "loser": results.names.treatment(lead.loser)}
    places = results.names.workloads_of(lead.difference.n)
    if not lead.workload and lead.is_of_ranks:
        low, high = lead.difference.low, lead.difference.high
        return [
            said(
                f"Over {places}, {{winner}} ranks first, ahead of {{loser}} by {{size}}.",
                f"Over {places}, {{winner}} ranks first, ahead of the last by {{size}}.",
                names=names,
                bold=["winner"],
                size=f"{lead.difference.value:.1f} ranks ({low:.1f} to {high:.1f})",
            )
        ]
    metric = results.metric_of[lead.workload or next(iter(results.metric_of))]
    unit = f" {metric.points}" if metric.points else ""
    size = f"{metric.brief(lead.difference.value, unit=False)}{unit} ({_ends(lead, metric)})"
    if not lead.workload:
        return [
            said(
                f"Over {places}, {{winner}} beats {{loser}} by {{size}} of {metric.title} on average.",
                f"Over {places}, {{winner}} beats {{loser}} by {{size}}.",
                names=names,
                bold=["winner"],
                size=size,
            )
        ]
    names["place"] = results.names.workload(lead.workload)
    return [
        said(
            f"On {{place}}, {{winner}} beats {{loser}} by {{size}} of {metric.title}.",
            "On {place}, {winner} beats {loser} by {size}.",
            names=names,
            bold=["winner", "place"],
            size=size,
        )
    ]


def _ends(lead: Lead, metric: Metric) -> str:
    most = metric.largest_difference
    low, high = max(lead.difference.low, -most), min(lead.difference.high, most)
    return f"{metric.brief(low, unit=False)} to {metric.brief(high, unit=False)}"


def _cost(found: Overview) -> list[Sentence]:
    cost = found.cost
    if cost is None:
        return []
    text = (
        f"Initializing by {{name}} costs as much as {count(cost.steps)} training steps; "
        f"training itself has {count(cost.training_steps)}."
    )
    return [said(text, names={"name": found.results.names.treatment(cost.treatment)}, bold=["name"])]


def _unknown(found: Overview) -> list[Sentence]:
    unknown, results = found.unknown, found.results
    if unknown is None:
        return []
    one, noun = results.terms.treatment, results.names.noun
    over = results.names.workloads_of(unknown.have)
    if unknown.what == "nothing":
        why = f"There is one {one}" if unknown.have == 1 else f"No two {one}s ran on the same {noun}"
        text = f"{why}: nothing is compared."
    elif unknown.what == "seeds":
        seeds = counted(unknown.have, "seed")
        text = f"Not known: whether any difference is more than chance. {seeds} cannot tell; it takes {unknown.needed}."
    elif unknown.what == "differences":
        text = "Not known: the order of those that are marked as best. More seeds would tell."
    elif unknown.what == "order":
        few = f"{unknown.have} {'is' if unknown.have == 1 else 'are'} too few"
        text = f"Not known: an order over {noun}s. {few}; {unknown.needed} would tell a difference of one rank."
    else:
        text = f"Not known: an order of the {one}s. {over} cannot tell; {needed_words(unknown.needed, noun)}."
    return [Sentence(text, (), is_open=True)]
