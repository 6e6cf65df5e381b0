"""Sentences on which treatments do not train or diverge, and where."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from initbench.comparing.formatting import counted
from initbench.reporting.heat_map import HeatMap
from initbench.reporting.results import Results
from initbench.reporting.sentence import Sentence, bold_names, joined, named, say
from initbench.statistics.verdicts import learning_differences

Failures = Mapping[str, tuple[str, ...]]
"""Label of a workload → labels of the treatments that fail there."""
_MOST_CLAUSES = 3  # of a sentence that names who fails where


class Verbs(NamedTuple):
    several: str
    one: str
    none: str
    negation: str
    several_in_part: str
    one_in_part: str


UNTRAINED = Verbs("do not train", "does not train", "none trains", " not", "fail in part", "fails in part")
DIVERGED = Verbs("diverge", "diverges", "all diverge", "", "diverge in part", "diverges in part")


class _Clause(NamedTuple):
    text: Sentence  # who fails where, and at how many seeds
    may_be_luck: bool


def failure_sentences(results: Results, heat_map: HeatMap) -> list[Sentence]:
    """Return what is said of those that do not train and of those that diverge, each if there are any."""
    untrained, diverged = _clauses(results, heat_map)
    guess = guessing(results, ": guessing gives {level}.") or say(", no better than guessing.")
    ends = (untrained, guess), (diverged, say("."))
    luck = say(" That may be luck.")
    return [
        _begun(clause.text) + (end + luck if clause.may_be_luck else end) for clause, end in ends if clause is not None
    ]


def joined_failures(results: Results, heat_map: HeatMap) -> list[Sentence]:
    """Return one sentence on those that do not train and those that diverge, if there are any."""
    clauses = [
        clause.text + say(", which may be luck" if clause.may_be_luck else "")
        for clause in _clauses(results, heat_map)
        if clause is not None
    ]
    return [_begun(joined(clauses, "; ")) + say(".")] if clauses else []


def guessing(results: Results, template: str) -> Sentence | None:
    """Return a sentence with the ``level`` that guessing reaches; None if there are several levels or metrics."""
    judged, metric = results.judged, results.terms.metric
    levels = set(judged[judged["state"] == "untrained"]["chance"])
    if metric is None or len(levels) != 1:
        return None
    return say(template, level=metric.brief(metric.oriented(levels.pop())))


def _clauses(results: Results, heat_map: HeatMap) -> list[_Clause | None]:
    kinds = [(heat_map.treatments_in("untrained"), UNTRAINED), (heat_map.treatments_in("diverged"), DIVERGED)]
    is_only = sum(bool(failing) for failing, _ in kinds) == 1
    return [_clause(results, heat_map, failing, verbs, is_only) if failing else None for failing, verbs in kinds]


def _begun(sentence: Sentence) -> Sentence:
    """Return a sentence with a capital letter unless it begins with a name."""
    (text, is_bold), *others = sentence.parts
    return replace(sentence, parts=(("On ", is_bold), *others)) if text == "on " else sentence


def _clause(results: Results, heat_map: HeatMap, failing: Failures, verbs: Verbs, is_only: bool) -> _Clause:
    """Return who fails where, at how many seeds, and whether luck may explain it; else how many cells fail."""
    cells = _cells(results, heat_map, failing, verbs, is_only)
    text = _count(results, heat_map, failing, verbs) if cells is None else cells + say(_seeds(results, failing, verbs))
    return _Clause(text, _may_be_luck(results, failing))


def _seeds(results: Results, failing: Failures, verbs: Verbs) -> str:
    """Return `` (0 of 3 seeds)``, how many seeds train or diverge of cells that fail; empty if each has one seed.

    It is `` (trained at 1 of 3 seeds)`` if some seed trains, because that may be read as the number that does not.
    """
    cells = results.judged.set_index(["workload", "treatment"])
    rows = cells.loc[[(workload, label) for workload, labels in failing.items() for label in labels]]
    column = "diverged" if verbs is DIVERGED else "trains"
    counts = rows[column].fillna(0).astype(int)
    seeds, numbers = set(rows["seeds"].astype(int)), sorted({counts.min(), counts.max()})
    if seeds == {1}:
        return ""
    trained = "trained at " if verbs is UNTRAINED and numbers[-1] > 0 else ""
    many = trained + " to ".join(map(str, numbers))
    return f" ({many} of {seeds.pop()} seeds)" if len(seeds) == 1 else f" ({many} seeds)"


def _may_be_luck(results: Results, failing: Failures) -> bool:
    """Return whether others train where some fail, and too few seeds to find that difference.

    A treatment that fails is compared with those that train: on the workload, by `suite_verdicts`, and over all
    workloads, by an exact sign test of the seeds at which only one of the two learns.
    """
    trains, differences = results.judged[results.judged["state"] == "trained"], learning_differences(results.trials)
    for workload, labels in failing.items():
        training = set(trains.loc[trains["workload"] == workload, "treatment"])
        pairs = [{v.first, v.second} for v in results.suite_verdicts[workload] if v.is_of_training and v.side]
        for label in labels:
            if training and not any({label, other} in pairs or {label, other} in differences for other in training):
                return True
    return False


def _cells(results: Results, heat_map: HeatMap, failing: Failures, verbs: Verbs, is_only: bool) -> Sentence | None:
    """Return who fails where, by workload or by treatment; if that is long, by a factor; None if that is long too."""
    if len(heat_map.columns) == 1:
        return _who(results, heat_map, next(iter(failing.values())), verbs)
    ways = [_by_workload(results, heat_map, failing, verbs), _by_treatment(results, heat_map, failing, verbs)]
    shortest = min(ways, key=len)
    if len(shortest) <= _MOST_CLAUSES:
        return joined(shortest, "; " if shortest is ways[0] else ", ")
    return failures_by_factor(results, heat_map, verbs) if is_only else None


def _by_workload(results: Results, heat_map: HeatMap, failing: Failures, verbs: Verbs) -> list[Sentence]:
    """Return ``on plain-28, kaiming and xavier do not train``, ..."""
    workloads: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for workload, treatments in failing.items():
        workloads[treatments].append(workload)
    return [
        say("on {where}, {who}", where=_where(results, on), who=_who(results, heat_map, treatments, verbs))
        for treatments, on in sorted(workloads.items(), key=lambda item: -len(item[1]))
    ]


def _by_treatment(results: Results, heat_map: HeatMap, failing: Failures, verbs: Verbs) -> list[Sentence]:
    """Return ``xavier does not train on plain-16 and plain-28``, ``kaiming not on plain-28``, ..."""
    workloads: dict[str, list[str]] = defaultdict(list)
    for workload, labels in failing.items():
        for label in labels:
            workloads[label].append(workload)
    treatments: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for label, on in workloads.items():
        treatments[tuple(on)].append(label)
    (most, first), *others = sorted(treatments.items(), key=lambda item: -len(item[0]))
    return [
        say("{who} on {where}", who=_who(results, heat_map, first, verbs), where=_where(results, most)),
        *(
            say(f"{{names}}{verbs.negation} on {{where}}", names=_treatments(results, who), where=_where(results, on))
            for on, who in others
        ),
    ]


def _treatments(results: Results, labels: Sequence[str]) -> str:
    return named([results.names.treatment(label) for label in labels], 4)


def _who(results: Results, heat_map: HeatMap, labels: Sequence[str], verbs: Verbs) -> Sentence:
    """Return ``kaiming and xavier do not train``, or ``none trains``."""
    if len(labels) == len(heat_map.rows) > 1:
        return say(verbs.none)
    return say(f"{{names}} {verbs.several if len(labels) > 1 else verbs.one}", names=_treatments(results, labels))


def _where(results: Results, workloads: Sequence[str]) -> Sentence:
    if len(workloads) == len(results.metric_of):
        return all_workloads(results)
    return bold_names([results.names.workload(label) for label in workloads])


def all_workloads(results: Results) -> Sentence:
    """Return ``both networks``, ``all 4 networks``, or the name of the only one, in bold."""
    workloads, noun = results.metric_of, results.names.noun
    if len(workloads) == 1:
        return say("{name!b}", name=results.names.workload(next(iter(workloads))))
    return say(f"both {noun}s" if len(workloads) == 2 else f"all {len(workloads)} {noun}s")


def _count(results: Results, heat_map: HeatMap, failing: Failures, verbs: Verbs) -> Sentence:
    """Return ``7 of 33 cells do not train, most often xavier (on 3 of 4 networks)``."""
    counts = Counter(label for labels in failing.values() for label in labels)
    [(most, times)] = counts.most_common(1)
    cells = counts.total()
    which = f"{cells} of {counted(len(results.judged), 'cell')} {verbs.several if cells > 1 else verbs.one}"
    where = f"on {times} of {results.names.workloads_of(len(heat_map.columns))}"
    return say(f"{which}, most often {{name}} ({where})", name=results.names.treatment(most))


def failures_by_factor(results: Results, heat_map: HeatMap, verbs: Verbs) -> Sentence | None:
    """Return ``With norm post, kaiming does not train; with norm pre, none``; None if no factor explains the failures.

    The factor has a value on every workload. Of several, the one that explains most is chosen: a treatment that fails
    at a level fails on all or most of the level's workloads.
    """
    ways = [shares for levels in _factors(results, heat_map).values() if (shares := _shares(results, levels))]
    if not ways:
        return None
    clauses: list[Sentence] = []
    said = None  # whether the last verb was about a whole level
    for level, who in sorted(min(ways, key=_unexplained).items(), key=lambda item: -len(item[1])):
        text = f"{'with' if clauses else 'With'} {{level}}, {{names}}"
        is_whole = all(share == 1 for share in who.values())
        if who and is_whole is not said:  # a clause without a verb takes the previous one
            several, one = (verbs.several, verbs.one) if is_whole else (verbs.several_in_part, verbs.one_in_part)
            text, said = f"{text} {one if len(who) == 1 else several}", is_whole
        clauses.append(say(text, level=level, names=_treatments(results, list(who)) if who else "none"))
    return joined(clauses, "; ")


Shares = dict[str, dict[str, float]]
"""Level of a factor, ``norm post`` → label of a treatment that fails there → on what share of the level's workloads."""


def _factors(results: Results, heat_map: HeatMap) -> dict[str, dict[str, list[str]]]:
    """Return factor → level → workloads, of the factors that have several levels and a level on every workload."""
    levels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for column in heat_map.columns:
        for factor, words in results.names.details.get(column.label, {}).items():
            levels[factor][words].append(column.label)
    return {
        factor: workloads
        for factor, workloads in levels.items()
        if "." in factor and len(workloads) > 1 and sum(map(len, workloads.values())) == len(heat_map.columns)
    }


def _shares(results: Results, levels: Mapping[str, list[str]]) -> Shares:
    """Return who fails at each level; nothing if the same treatments fail at all of them."""
    judged = results.judged
    shares: Shares = {}
    for level, workloads in levels.items():
        cells = judged[judged["workload"].isin(workloads)]
        failed = (cells["state"] != "trained").groupby(cells["treatment"], sort=False).mean()
        ordered = failed[failed > 0].sort_values(ascending=False, kind="stable")
        shares[level] = {str(label): float(share) for label, share in ordered.items()}
    return shares if len({frozenset(treatments) for treatments in shares.values()}) > 1 else {}


def _unexplained(shares: Shares) -> float:
    """Return 0 if each treatment fails on all workloads of a level or on none."""
    return sum(1 - share for treatments in shares.values() for share in treatments.values())
