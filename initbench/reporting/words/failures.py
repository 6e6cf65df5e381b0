"""Who does not train and who diverges, and where, in words."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from initbench.comparing.formatting import capitalized, counted
from initbench.reporting.sentence import Sentence, named
from initbench.reporting.words.sentence import bolded, first_fitting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.reporting.analyses.happened import Happened
    from initbench.reporting.results import Results


_UNTRAINED = ("do not train", "does not train", "none trains")
_DIVERGED = ("diverge", "diverges", "all diverge")
"""Of several, of one, of all."""
_NOT = {_UNTRAINED: " not", _DIVERGED: ""}


def failure_sentences(happened: Happened) -> list[list[Sentence]]:
    """Return ways to say who does not train and who diverges where, from what says most to what says least.

    Args:
        happened: the facts.

    Returns:
        Two sentences or one; nothing where all train.
    """
    if not happened.untrained and not happened.diverged:
        return []
    own = [_untrained(happened), _diverged(happened)]
    separate = [sentence for sentence in own if sentence is not None]
    ways = [separate]
    if len(separate) == 2:
        # What guessing gives is left out: who fails matters more.
        pairs = [
            f"{untrained}; {diverged}."
            for untrained in _texts(happened, happened.untrained, _UNTRAINED)
            for diverged in _texts(happened, happened.diverged, _DIVERGED)
        ]
        text = first_fitting(*(_begun(happened, pair) for pair in pairs), *_counts(happened))
        ways.append([with_bold(bolded(text), _places(happened))])
    return ways


def _texts(happened: Happened, failing: Mapping[str, tuple[str, ...]], verbs: tuple[str, str, str]) -> list[str]:
    """Return who fails where in two forms, by place and by treatment, without a full stop.

    ``on plain-28, kaiming and xavier do not train``; ``xavier does not train on plain-16 and plain-28, kaiming not on
    plain-28``.
    """
    if len(happened.map.columns) == 1:
        return [_group(happened, next(iter(failing.values())), verbs)]
    by_place: dict[tuple[str, ...], list[str]] = defaultdict(list)
    where: dict[str, list[str]] = defaultdict(list)
    for workload, treatments in failing.items():
        by_place[treatments].append(workload)
        for treatment in treatments:
            where[treatment].append(workload)
    by_treatment: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for treatment, workloads in where.items():
        by_treatment[tuple(workloads)].append(treatment)
    ordered = sorted(by_place.items(), key=lambda item: -len(item[1]))
    first = "; ".join(f"{_on(happened, places)}, {_group(happened, who, verbs)}" for who, places in ordered)
    groups = sorted(by_treatment.items(), key=lambda item: -len(item[0]))
    texts = [
        f"{_group(happened, who, verbs)} {_on(happened, places)}"
        if i == 0
        else f"{_who(happened, who)}{_NOT[verbs]} {_on(happened, places)}"
        for i, (places, who) in enumerate(groups)
    ]
    return [first, ", ".join(texts)]


def _who(happened: Happened, treatments: Sequence[str]) -> str:
    return named([happened.results.names.treatment(label) for label in treatments], 4)


def _group(happened: Happened, treatments: Sequence[str], verbs: tuple[str, str, str]) -> str:
    """Return ``kaiming and xavier do not train``, or ``none trains``."""
    several, one, every = verbs
    if len(treatments) == len(happened.map.rows) > 1:
        return every
    return f"{_who(happened, treatments)} {several if len(treatments) > 1 else one}"


def _on(happened: Happened, workloads: Sequence[str]) -> str:
    total = len(happened.map.columns)
    if len(workloads) == total:
        return f"on {all_workloads(happened.results, total)}"
    return "on " + named([happened.results.names.workload(label) for label in workloads])


def _untrained(happened: Happened) -> Sentence | None:
    if not happened.untrained:
        return None
    texts = [_begun(happened, text) for text in _texts(happened, happened.untrained, _UNTRAINED)]
    guess = guessing(happened, ": guessing gives {}") or ", no better than guessing"
    counts = _count_words(happened, happened.untrained, _UNTRAINED)
    if not happened.diverged and (
        by_factor := failures_by_factor(happened, _UNTRAINED[:2], ("fail in part", "fails in part"))
    ):
        texts.append(by_factor)
    ways = [f"{text}{rest}." for text in texts for rest in (guess, "")]
    return with_bold(bolded(first_fitting(*ways, f"{counts}{guess}.", f"{counts}.")), _places(happened))


def _diverged(happened: Happened) -> Sentence | None:
    if not happened.diverged:
        return None
    texts = [f"{_begun(happened, text)}." for text in _texts(happened, happened.diverged, _DIVERGED)]
    if not happened.untrained and (
        by_factor := failures_by_factor(happened, _DIVERGED[:2], ("diverge in part", "diverges in part"))
    ):
        texts.append(f"{by_factor}.")
    return with_bold(
        bolded(first_fitting(*texts, f"{_count_words(happened, happened.diverged, _DIVERGED)}.")), _places(happened)
    )


def _begun(happened: Happened, text: str) -> str:
    """Return a text with a capital first letter where it begins with a place, and not with a name."""
    return capitalized(text) if text.startswith("on ") and len(happened.map.columns) > 1 else text


def guessing(happened: Happened, form: str) -> str:
    """Return what guessing gives, ``90.0 %``, in a form such as ``, {}``; nothing where there are several levels."""
    judged, metric = happened.results.judged, happened.results.terms.metric
    levels = set(judged[judged["state"] == "untrained"]["chance"])
    return form.format(metric.brief(metric.oriented(levels.pop()))) if metric and len(levels) == 1 else ""


def _count_words(happened: Happened, failing: Mapping[str, tuple[str, ...]], verbs: tuple[str, str, str]) -> str:
    """Return ``7 of 33 cells do not train, most often xavier: on 3 of 4 networks``."""
    results = happened.results
    cells = [(label, workload) for workload, labels in failing.items() for label in labels]
    often: dict[str, int] = defaultdict(int)
    for label, _ in cells:
        often[label] += 1
    most = max(often, key=lambda label: often[label])
    text = f"{len(cells)} of {counted(len(results.judged), 'cell')} {verbs[0] if len(cells) > 1 else verbs[1]}"
    name, places = results.names.treatment(most), results.names.workloads_of(len(happened.map.columns))
    return first_fitting(f"{text}, most often {name}: on {often[most]} of {places}", text)


def _counts(happened: Happened) -> list[str]:
    """Return how many cells fail, with who does most often and without."""
    cells = [
        label for failing in (happened.untrained, happened.diverged) for labels in failing.values() for label in labels
    ]
    most = max(map(cells.count, cells))
    who = [happened.results.names.treatment(label) for label in dict.fromkeys(cells) if cells.count(label) == most]
    untrained = sum(map(len, happened.untrained.values()))
    diverged = len(cells) - untrained
    text = f"Of {len(happened.results.judged)} cells, {untrained} do not train and {diverged} diverge"
    places = happened.results.names.workloads_of(len(happened.map.columns))
    fail = f"fail most often, each on {most}" if len(who) > 1 else f"fails most often, on {most}"
    return [f"{text}; {named(who)} {fail} of {places}.", f"{text}."]


def _places(happened: Happened) -> list[str]:
    return [happened.results.names.workload(label) for label in sorted({*happened.untrained, *happened.diverged})]


def all_workloads(results: Results, workloads: int) -> str:
    """Return ``both networks``, ``all 4 networks``, or the name of the one that there is."""
    noun = results.names.noun
    if workloads == 1:
        [label] = results.metric_of
        return results.names.workload(label)
    return f"both {noun}s" if workloads == 2 else f"all {workloads} {noun}s"


def with_bold(sentence: Sentence, names: Sequence[str]) -> Sentence:
    """Return a sentence with those of some names in bold that are in it."""
    return bolded(sentence.text, names, sentence.is_open, sentence.subject)


Failing = dict[str, dict[str, float]]
"""Level of a factor, ``norm post`` → label of a treatment that fails there → on what share of its workloads."""


def failures_by_factor(happened: Happened, everywhere: tuple[str, str], in_part: tuple[str, str]) -> str:
    """Return who fails at which level of one factor, without a full stop; nothing where no factor tells it.

    The factor is the one of whose levels the failures say most: where a treatment fails at a level, it fails on as many
    of its workloads as can be, and elsewhere not. All workloads have a value of it.

    Args:
        happened: the facts.
        everywhere: verb, of several and of one, where all who are named fail on all of a level's workloads.
        in_part: likewise where one of them fails on some alone.
    """
    ways = [ways for levels in _factors(happened).values() if (ways := _failing(happened, levels))]
    if not ways:
        return ""
    chosen = min(ways, key=_mixed)
    texts: list[str] = []
    for level, shares in sorted(chosen.items(), key=lambda item: -len(item[1])):
        who = named([happened.results.names.treatment(label) for label in shares], 4) if shares else "none"
        verb = (everywhere if all(share == 1 for share in shares.values()) else in_part)[len(shares) == 1]
        texts.append(f"with {level}, {who}" if texts else f"With {level}, {who} {verb}")
    return "; ".join(texts)


def _factors(happened: Happened) -> dict[str, dict[str, list[str]]]:
    """Return factor → level → workloads, of factors of which all workloads have one of several values."""
    workloads = [column.label for column in happened.map.columns]
    levels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for label in workloads:
        for factor, words in happened.results.names.details.get(label, {}).items():
            levels[factor][words].append(label)
    return {
        factor: own
        for factor, own in levels.items()
        if "." in factor and len(own) > 1 and sum(map(len, own.values())) == len(workloads)
    }


def _failing(happened: Happened, levels: Mapping[str, list[str]]) -> Failing:
    """Return who fails at each level; nothing where it is the same at all of them."""
    judged = happened.results.judged
    shares: Failing = {}
    for level, places in levels.items():
        own = judged[judged["workload"].isin(places)]
        failed = (own["state"] != "trained").groupby(own["treatment"], sort=False).mean()
        ordered = failed[failed > 0].sort_values(ascending=False, kind="stable")
        shares[level] = {str(label): float(share) for label, share in ordered.items()}
    different = {frozenset(own) for own in shares.values()}
    return shares if len(different) > 1 else {}


def _mixed(failing: Failing) -> float:
    """Return how much the failures of a level leave open: 0 where each treatment fails on all of it or on none."""
    return sum(1 - share for own in failing.values() for share in own.values())
