"""Who does not train and who diverges, and where, in words."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from initbench.reporting.formatting import capitalized, counted
from initbench.reporting.words.sentence import Sentence, first_fitting, named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.reporting.analyses.overview import Overview
    from initbench.reporting.results import Results

_UNTRAINED = ("do not train", "does not train", "none trains")
_DIVERGED = ("diverge", "diverges", "all diverge")
"""Of several, of one, of all."""


def failure_sentences(found: Overview) -> list[list[Sentence]]:
    """Return ways to say who does not train and who diverges where, from what says most to what says least.

    Args:
        found: the facts.

    Returns:
        Two sentences or one; nothing where all train.
    """
    untrained, diverged = _by_names(found.untrained), _by_names(found.diverged)
    if not untrained and not diverged:
        return []
    own = [_untrained(found, untrained), _diverged(found, diverged)]
    separate = [sentence for sentence in own if sentence is not None]
    ways = [separate]
    if len(separate) == 2:
        # What guessing gives is said last: who fails matters more.
        joined = f"{_where(found, untrained, _UNTRAINED)}; {_where(found, diverged, _DIVERGED)}."
        text = first_fitting(capitalized(joined), _counts(found))
        ways.append([with_bold(Sentence(text), _places(found, untrained, diverged))])
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
            where = f"on {all_workloads(found.results, total)}"
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
    text, guess = capitalized(_where(found, groups, _UNTRAINED)), _guessing(found)
    counts = _count_words(found, found.untrained, _UNTRAINED)
    fitting = first_fitting(f"{text}{guess}.", f"{text}.", f"{counts}{guess}.", f"{counts}.")
    return with_bold(Sentence(fitting), _places(found, groups))


def _diverged(found: Overview, groups: Mapping[tuple[str, ...], list[str]]) -> Sentence | None:
    if not groups:
        return None
    text = f"{capitalized(_where(found, groups, _DIVERGED))}."
    fitting = first_fitting(text, f"{_count_words(found, found.diverged, _DIVERGED)}.")
    return with_bold(Sentence(fitting), _places(found, groups))


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


def all_workloads(results: Results, workloads: int) -> str:
    """Return ``both networks``, ``all 4 networks``, or the name of the one that there is."""
    noun = results.names.noun
    if workloads == 1:
        [label] = results.metric_of
        return results.names.workload(label)
    return f"both {noun}s" if workloads == 2 else f"all {workloads} {noun}s"


def with_bold(sentence: Sentence, names: Sequence[str]) -> Sentence:
    """Return a sentence with those of some names in bold that are in it."""
    return replace(sentence, bold=tuple(name for name in names if name in sentence.text))
