"""The first sentences of a report, five at the most: a newcomer reads them and knows what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.comparing.formatting import count, counted
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.sizes import needed_words, outcome_words
from initbench.reporting.words.failures import all_workloads, failure_sentences, guessing, with_bold
from initbench.reporting.words.fitting import said
from initbench.reporting.words.lead import lead_words
from initbench.reporting.words.sentence import bolded, first_fitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.reporting.analyses.happened import Happened
    from initbench.reporting.terms import Terms

MOST_SENTENCES = 5


def overview_sentences(happened: Happened) -> list[Sentence]:
    """Return what happened: what became of claims, who trains, who fails where, who leads, what it costs, what is open.

    A sentence that has nothing to say is left out. The first one says what is known.

    Args:
        happened: the facts.
    """
    claimed = [happened.claimed] if happened.claimed else []
    return [*claimed, *_outcomes(happened, MOST_SENTENCES - len(claimed))]


def _outcomes(happened: Happened, most: int) -> list[Sentence]:
    """Return what came of the trials, in at most so many sentences."""
    if not len(happened.results.judged):
        return [_nothing(happened)]
    trains, lead = _trains(happened), lead_words(happened.lead, happened.results)
    cost, unknown = _cost(happened), _unknown(happened)
    failures = [] if trains and _one_failure(happened) else failure_sentences(happened)
    if not [*trains, *lead, *failures, *cost]:
        trains = [_range(happened)]
    tuned = tuned_words(happened, has_lead=bool(lead))
    for least in (cost, unknown):  # claims, and what own values change, are what a report of such a suite is for
        if (tuned or happened.claimed) and len([*trains, *lead, *tuned, *cost, *unknown]) + bool(failures) > most:
            least.clear()
    room = most - len([*trains, *lead, *tuned, *cost, *unknown])
    failing = next((texts for texts in failures if len(texts) <= room), failures[-1])[:room] if failures else []
    return [*trains, *failing, *lead, *tuned, *cost, *unknown]


def tuned_words(happened: Happened, *, has_lead: bool) -> list[Sentence]:
    """Return at what values the treatments of a tuned suite are compared, where no lead says it; and what these change.

    Args:
        happened: the facts.
        has_lead: whether there is a sentence on who leads, which ends with it.
    """
    tune = happened.results.tune
    if tune is None or not tune.protocol:
        return []
    said_of = [] if has_lead else [say(f"Compared: {tune.chosen(*_who(happened.results.terms))}.")]
    return [*said_of, *([happened.change] if happened.change else []), *tune.caution()]


def _who(terms: Terms) -> tuple[str, str]:
    return f"each {terms.treatment}", f"all {terms.treatment}s"


def _nothing(happened: Happened) -> Sentence:
    states = happened.map.states - {"incompatible", "missing"}
    if states == {"measured"}:
        return bolded("Nothing was trained: the networks were measured at initialization alone.")
    if states == {"failed"}:
        return bolded("Every trial failed: there is no outcome to compare.")
    if not states and happened.results.tune is not None:
        return bolded("The searches are not done: no trial at a rate that they chose has a result yet.", is_open=True)
    return bolded("No trial has an outcome: there is nothing to compare.")


def _one_failure(happened: Happened) -> str:
    """Return the state that all cells have where all fail alike, which one sentence says; else nothing."""
    states = set(happened.results.judged["state"])
    return str(states.pop()) if len(states) == 1 and len(happened.map.rows) > 1 and "trained" not in states else ""


def _range(happened: Happened) -> Sentence:
    """Return from where to where the medians go: what there is to say where no chance level tells who trains."""
    results, metric = happened.results, happened.results.terms.metric
    if metric is None:
        cells = counted(len(results.judged), "cell")
        return bolded(f"There are {cells} with an outcome, each in the metric of its {results.names.noun}.")
    ordered = results.judged.sort_values("outcome", kind="stable").to_dict("records")
    names: dict[str, str] = {}
    for end, row in (("first", ordered[0]), ("last", ordered[-1])):
        names |= {
            end: results.names.treatment(row["treatment"]),
            f"{end}_place": results.names.workload(row["workload"]),
        }
    low, high = (metric.beside_title.brief(metric.oriented(row["outcome"])) for row in (ordered[0], ordered[-1]))
    if low == high:
        return bolded(f"Median {metric.title}: {low} in {counted(len(ordered), 'cell')}.")
    what = f"Median {metric.title} goes from {low}"
    if len(results.metric_of) == 1:
        text = f"{what} ({{first}}) to {high} ({{last}})."
    else:
        text = f"{what} ({{first}} on {{first_place}}) to {high} ({{last}} on {{last_place}})."
    return said(text, names=names, bold=["first"])


def _trains(happened: Happened) -> list[Sentence]:
    """Return who trains on every workload; nothing where no chance level tells who does."""
    results, names = happened.results, happened.results.names
    if not happened.knows_chance:
        return []
    workloads, total = len(happened.map.columns), len(happened.map.rows)
    if total == 1:
        return _alone(happened)
    one, several = results.terms.treatment, f"{results.terms.treatment}s"
    every = [names.treatment(label) for label in happened.everywhere]
    place, values = {"place": all_workloads(results, workloads)}, _values(happened, happened.everywhere)
    if len(every) == total:
        who = f"Both {several}" if total == 2 else f"All {total} {several}"
        return [said(f"{who} train {{place}}{{shown}}.", f"{who} train {{place}}.", names=place, shown=values)]
    if every:
        verb = "train" if len(every) > 1 else "trains"
        texts = [f"Only {{{who}}} {verb} {{place}}{rest}." for who in ("every", "few") for rest in ("{shown}", "")]
        texts.append(f"{len(every)} of {total} {several} {verb} {{place}}.")
        sentence = said(*texts, names=place, shown=values, every=named(every, len(every)), few=named(every))
        return [with_bold(sentence, every)]
    best, count_of = happened.most
    if count_of == 0:
        cells = len(results.judged)
        failure = _one_failure(happened)
        if failure == "diverged":
            return [
                bolded(f"Nothing trains: {f'all {cells} cells diverge' if cells > 1 else 'the only cell diverges'}.")
            ]
        level = guessing(happened, ", {}") if failure else ""
        none = f"none of the {cells} cells is" if cells > 1 else "the only cell with a result is not"
        return [bolded(f"Nothing trains: {none} better than guessing{level}.")]
    most = [names.treatment(label) for label in best]
    verb = "train" if len(most) > 1 else "trains"
    text = first_fitting(
        f"No {one} trains {place['place']}; {named(most)} {verb} on {count_of} of {workloads}, the most.",
        f"No {one} trains {place['place']}; {len(most)} {verb} on {count_of} of {workloads}, the most.",
    )
    # Who was not run everywhere may have failed nowhere.
    others = {names.treatment(label): n for label, n in happened.wherever_run.items() if label not in best and n > 1}
    if others:
        where = f"on all {next(iter(others.values()))} that it ran on" if len(others) == 1 else "wherever they ran"
        text = first_fitting(f"{text[:-1]}, and {named(list(others))} {where}.", text)
        most = [*most, *others]
    return [with_bold(bolded(text), most)]


def _alone(happened: Happened) -> list[Sentence]:
    results, workloads, label = happened.results, len(happened.map.columns), happened.map.rows[0].label
    names, trained = {"name": results.names.treatment(label)}, happened.most[1]
    values = _values(happened, happened.everywhere)
    if workloads == 1 and trained == 0:
        return []  # that it fails is said where failures are
    where = "" if workloads == 1 else f" on {trained} of {results.names.workloads_of(workloads)}"
    return [
        said(f"{{name}} trains{where}{{shown}}.", f"{{name}} trains{where}.", names=names, bold=["name"], shown=values)
    ]


def _values(happened: Happened, labels: Sequence[str]) -> str:
    """Return ``: 97.5 % and 96.4 % test accuracy``, or a range; nothing where there are several metrics."""
    metric = happened.results.terms.metric
    judged = happened.results.judged
    own = judged[judged["treatment"].isin(labels)]["outcome"]
    if metric is None or not len(own):
        return ""
    values = [metric.oriented(value) for value in own]
    shown = list(dict.fromkeys(metric.beside_title.brief(value) for value in values))
    return f": {' and '.join(shown)} {metric.title}" if len(shown) <= 2 else f": {outcome_words(values, metric)}"


def _cost(happened: Happened) -> list[Sentence]:
    cost = happened.cost
    if cost is None:
        return []
    text = (
        f"Initializing by {{name}} costs as much as {count(cost.steps)} training steps; "
        f"training itself has {count(cost.training_steps)}."
    )
    return [said(text, names={"name": happened.results.names.treatment(cost.treatment)}, bold=["name"])]


def _unknown(happened: Happened) -> list[Sentence]:
    unknown, results = happened.unknown, happened.results
    if unknown is None:
        return []
    one, noun = results.terms.treatment, results.names.noun
    over = results.names.workloads_of(unknown.have)
    if unknown.what == "nothing":
        alone = f"Only one {one} has a result" if len(happened.map.rows) > 1 else f"There is one {one}"
        why = alone if unknown.have == 1 else f"No two {one}s ran on the same {noun}"
        text = f"{why}: nothing is compared."
    elif unknown.what == "seeds":
        seeds = counted(unknown.have, "seed")
        text = f"Not known: whether any difference is more than chance. {seeds} cannot tell; it takes {unknown.needed}."
    elif unknown.what == "metrics":
        text = f"Not known: which {one} is better over {noun}s. Their metrics differ; three {one}s could be ranked."
    elif unknown.what == "differences":
        text = "Not known: the order of those that are marked as best. More seeds would tell."
    elif unknown.what == "order":
        few = f"{unknown.have} {'is' if unknown.have == 1 else 'are'} too few"
        text = f"Not known: an order over {noun}s. {few}; {unknown.needed} would tell a difference of one rank."
    else:
        text = f"Not known: an order of the {one}s. {over} cannot tell; {needed_words(unknown.needed, noun)}."
    return [bolded(text, (), is_open=True)]
