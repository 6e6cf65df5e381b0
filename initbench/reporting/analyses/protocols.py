"""What do values of their own change: treatments at the recipe's, at a shared rate and at their own best?"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized, natural
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.results import as_results
from initbench.reporting.searches import at_protocol, counts_text
from initbench.reporting.tables import Column, Table
from initbench.reporting.words.protocols import (
    changes_words,
    first_words,
    flip_words,
    once_words,
    training_words,
)
from initbench.statistics.cells import cells, complete, table
from initbench.statistics.ranks import compare_ranks
from initbench.statistics.verdicts import verdicts_over_workloads, workload_verdicts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from initbench.reporting.results import Results
    from initbench.reporting.tune import Tune
    from initbench.reporting.words.sentence import Sentence
    from initbench.statistics.verdicts import Verdict


_TOGETHER = 2  # treatments in a sentence that the same one beats: each is named
_NAMED_FIRST = ("own", "shared", "recipe")  # the first of these that tells a difference says who is named as better


class Flip(NamedTuple):
    """A verdict that is not the same under every protocol.

    Attributes:
        workload: label; empty where it is over all workloads.
        first: label of the treatment that is better somewhere.
        second: label of the other.
        sides: protocol → 1 where the first is told to be better, -1 where the second is, 0 where neither is.
        is_of_training: whether under some protocol one of them trains and the other does not.
    """

    workload: str
    first: str
    second: str
    sides: dict[str, int]
    is_of_training: bool


@dataclass(frozen=True)
class Protocols(Analysis):
    """Treatments at the values of each protocol.

    Attributes:
        results: that it is of.
        cells: of each protocol, as from `cells.cells`.
        verdicts: of each protocol, by workload (empty for all together) and pair.
    """

    results: Results
    cells: Mapping[str, pd.DataFrame]
    verdicts: Mapping[str, Mapping[tuple[str, str, str], Verdict]]
    name: ClassVar[str] = "protocols"

    @property
    def tune(self) -> Tune:
        """What is tuned."""
        assert self.results.tune is not None
        return self.results.tune

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"What do {self.tune.noun}s of their own change?"

    @property
    def references(self) -> list[str]:
        """What own values are compared with, the first before others: the shared rate, the recipe's values."""
        return [name for name in ("shared", "recipe") if name in self.verdicts] if "own" in self.verdicts else []

    def changed(self, reference: str) -> list[tuple[str, str, str]]:
        """Return the pairs on a workload whose verdict at own values is another than under a protocol."""
        own, other = self.verdicts["own"], self.verdicts[reference]
        return [key for key in own if key[0] and key in other and own[key].side != other[key].side]

    @cached_property
    def flips(self) -> list[Flip]:
        """The verdicts that are not the same under every protocol."""
        found = []
        for key in dict.fromkeys(key for own in self.verdicts.values() for key in own):
            known = {name: own[key] for name, own in self.verdicts.items() if key in own}
            sides = {name: verdict.side for name, verdict in known.items()}
            if len(set(sides.values())) > 1:
                wins = next(sides[name] for name in _NAMED_FIRST if sides.get(name))
                first, second = key[1:] if wins < 0 else (key[2], key[1])
                of_training = any(verdict.is_of_training for verdict in known.values())
                oriented = {name: side * wins for name, side in sides.items()}
                found.append(Flip(key[0], first, second, oriented, of_training))
        return found

    @cached_property
    def sentences(self) -> list[Sentence]:
        """How many verdicts change, who is first under each protocol, then each verdict that changes."""
        found = [changes_words(len(self.changed(name)), self._pairs(name), name, self.tune) for name in self.references]
        if leaders := self._leaders():
            over = f" over {self.results.names.workloads_of(len(self._everywhere))}" if self._everywhere else ""
            found.append(first_words(leaders, self.tune, over))
        found += self._flips("", where=f" over all {self.results.names.noun}s")
        for workload in self.results.metric_of:
            found += self._training(workload)
            found += self._flips(workload, subject=self.results.names.workload(workload))
        return [*found, *once_words(self.tune)]

    @cached_property
    def main_change(self) -> Sentence | None:
        """What own values change, in the one sentence of the first screen; None where there is nothing to compare."""
        if not self.references or not (total := self._pairs(self.references[0])):
            return None
        reference = self.references[0]
        changed = self.changed(reference)
        return changes_words(len(changed), total, reference, self.tune, self._told(changed, reference))

    def _told(self, changed: list[tuple[str, str, str]], reference: str) -> Sentence | None:
        """Return the change of the verdict whose difference is the clearest, among those that are of no training."""
        both = {name: self.verdicts[name] for name in (reference, "own")}
        clear = []
        for key in changed:
            told = [own[key] for own in both.values() if own[key].side]
            if any(own[key].is_of_training for own in both.values()):
                continue
            size = max(abs(verdict.difference.value) / verdict.difference.half_width for verdict in told)
            clear.append((size, key))
        if not clear:
            return self._trained(changed, reference)
        workload, first, second = max(clear)[1]
        sides = {name: own[workload, first, second].side for name, own in both.items()}
        wins = next(side for side in (sides["own"], sides[reference]) if side)
        names = [self.results.names.treatment(name) for name in ((first, second) if wins < 0 else (second, first))]
        one = len(self.results.metric_of) == 1
        return flip_words(
            names[0],
            names[1:],
            {name: side * wins for name, side in sides.items()},
            self.tune,
            where="" if one else " on {place}",
            subject="" if one else self.results.names.workload(workload),
        )

    def _trained(self, changed: list[tuple[str, str, str]], reference: str) -> Sentence | None:
        """Return who trains at own values alone, or at the others alone, where that is what changes verdicts."""
        for workload, *pair in changed:
            for treatment in pair:
                sides = {
                    name: "trained"
                    in set(own[(own["workload"] == workload) & (own["treatment"] == treatment)]["state"])
                    for name, own in self.cells.items()
                    if name in (reference, "own")
                }
                if len(set(sides.values())) > 1:
                    one = len(self.results.metric_of) == 1
                    who, where = [self.results.names.treatment(treatment)], "" if one else " on {place}"
                    subject = "" if one else self.results.names.workload(workload)
                    return training_words(who, sides, self.tune, where=where, subject=subject)
        return None

    def _pairs(self, reference: str) -> int:
        return sum(bool(key[0]) and key in self.verdicts[reference] for key in self.verdicts["own"])

    @cached_property
    def _everywhere(self) -> list[str]:
        """The workloads over which every protocol has ranks."""
        shared = [set(complete(table(own, "ranked")).table.index) for own in self.cells.values()]
        return sorted(set.intersection(*shared), key=natural) if shared else []

    def _leaders(self) -> dict[str, list[str]]:
        leaders = {}
        for name, own in self.cells.items():
            ranks = compare_ranks(complete(table(own[own["workload"].isin(self._everywhere)], "ranked")).table)
            if len(ranks.mean_ranks) > 1:
                leaders[name] = [self.results.names.treatment(label) for label in ranks.leaders]
        return leaders if len(leaders) > 1 else {}

    def _flips(self, workload: str, where: str = "", subject: str = "") -> list[Sentence]:
        """Return one sentence for the verdicts of one treatment that change alike, each named.

        What changes because a treatment does not train somewhere is said of that one (`_training`), not of each pair.
        """
        alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = defaultdict(list)
        for flip in self.flips:
            if flip.workload == workload and not flip.is_of_training:
                alike[flip.first, tuple(flip.sides.items())].append(self.results.names.treatment(flip.second))
        found = []
        for (first, sides), seconds in alike.items():
            for start in range(0, len(seconds), _TOGETHER):
                part, name = seconds[start : start + _TOGETHER], self.results.names.treatment(first)
                found.append(flip_words(name, part, dict(sides), self.tune, where=where, subject=subject))
        return found

    def _training(self, workload: str) -> list[Sentence]:
        """Return who trains on a workload under one protocol and not under another."""
        trains: dict[str, dict[str, bool]] = defaultdict(dict)
        for name, cells_of in self.cells.items():
            here = cells_of[(cells_of["workload"] == workload) & cells_of["outcome"].notna()]
            for treatment, state in zip(here["treatment"], here["state"], strict=True):
                trains[str(treatment)][name] = state == "trained"
        alike: dict[tuple[tuple[str, bool], ...], list[str]] = defaultdict(list)
        for treatment, does in trains.items():
            if len(set(does.values())) > 1:
                alike[tuple(does.items())].append(self.results.names.treatment(treatment))
        subject = self.results.names.workload(workload)
        return [training_words(who, dict(sides), self.tune, subject=subject) for sides, who in alike.items()]

    @cached_property
    def tables(self) -> list[Table]:
        """The protocols side by side, and every verdict."""
        return [places_table(self), verdicts_table(self)]

    @property
    def remarks(self) -> list[str]:
        """What a verdict is, and what the protocols are."""
        text = (
            f"A verdict is on a pair of {self.results.terms.treatment}s on one {self.results.names.noun}, by the "
            "intervals that hold for all of its pairs at once; where one of the two trains and the other does not, "
            "that is the verdict. Mean ranks alone are none."
        )
        return [text]


def protocols(results: Results | str | Path) -> Protocols | None:
    """Return what own values change; None where no suite tunes, or its trials stand under one protocol alone.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or len(results.tune.protocols) < 2:
        return None
    return results.once(_protocols)


def _protocols(results: Results) -> Protocols:
    found: dict[str, pd.DataFrame] = {}
    verdicts: dict[str, dict[tuple[str, str, str], Verdict]] = {}
    for name, trials in results.trials_under.items():
        tuned = trials[trials["protocols"].notna()]
        found[name] = cells(tuned)
        every = list(workload_verdicts(found[name], tuned))
        if results.terms.metric is not None:
            every += verdicts_over_workloads(found[name], tuned)
        verdicts[name] = {(verdict.workload, verdict.first, verdict.second): verdict for verdict in every}
    return Protocols(results, found, verdicts)


_HEADS = {"recipe": "as the recipe\nwrites it", "shared": "shared", "own": "its own best"}


def places_table(found: Protocols) -> Table:
    """Return the table of every treatment on every workload under each protocol."""
    results, terms = found.results, found.results.terms
    columns = [
        Column(capitalized(results.names.noun), "workload", "workload"),
        Column(capitalized(terms.treatment), "treatment", "treatment"),
    ]
    noun = capitalized(found.tune.noun)
    for name in found.cells:
        columns += [
            Column(f"{noun},\n{_HEADS[name]}", "text", f"{name}_values"),
            Column(capitalized(terms.outcome) if terms.metric else "Outcome", "outcome", f"{name}_outcome"),
            Column("Rank", "count", f"{name}_rank"),
        ]
    note = (
        f"Median {terms.outcome} over the seeds, and the rank within the {results.names.noun}; what did not train "
        f"shares the last rank before what diverged. Where seeds have different {found.tune.noun}s, the number of "
        "seeds is in brackets."
    )
    title = f"Every {terms.treatment} at the {found.tune.noun}s of each protocol"
    metrics = {metric.name: metric for metric in results.metric_of.values()}
    return Table("protocols", title, places_frame(found), columns, note, metrics, results.names)


def places_frame(found: Protocols) -> pd.DataFrame:
    """Return one row per workload and treatment, with outcome, rank, state and values under each protocol.

    Returns:
        ``workload, treatment, metric``, and of each protocol ``<protocol>_outcome``: the median in the metric's own
        direction; ``_rank``: within the workload, equal ones share the least; ``_state``: as in `cells.cells`;
        ``_values``: at which it ran (`searches.counts_text`); ``_seeds``.
    """
    frame: pd.DataFrame | None = None
    labels = ["workload", "treatment"]
    for name, own in found.cells.items():
        judged = own[own["outcome"].notna()]
        ran = at_protocol(found.results, name)
        values = {key: counts_text(part) for key, part in ran.groupby(labels, sort=False)}
        metrics = [found.results.metric_of[workload] for workload in judged["workload"]]
        outcomes = [metric.oriented(value) for metric, value in zip(metrics, judged["outcome"], strict=True)]
        columns: dict[str, Any] = {
            f"{name}_outcome": outcomes,
            f"{name}_rank": judged.groupby("workload")["ranked"].rank(method="min"),
            f"{name}_state": judged["state"],
            f"{name}_values": [values[key] for key in zip(judged["workload"], judged["treatment"], strict=True)],
            f"{name}_seeds": judged["seeds"],
        }
        part = judged[labels].assign(metric=[metric.name for metric in metrics], **columns)
        frame = part if frame is None else frame.merge(part, on=[*labels, "metric"], how="outer")
    assert frame is not None
    keys = list(zip(frame["workload"], frame["treatment"], strict=True))
    order = sorted(range(len(keys)), key=lambda i: (natural(keys[i][0]), natural(keys[i][1])))
    return frame.iloc[order].reset_index(drop=True)


def verdicts_table(found: Protocols) -> Table:
    """Return the table of every verdict under each protocol; the page shows those that are not the same under all."""
    rows: list[dict[str, Any]] = []
    for key in dict.fromkeys(key for own in found.verdicts.values() for key in own):
        row: dict[str, Any] = {"workload": key[0] or "all", "first": key[1], "second": key[2]}
        for name, own in found.verdicts.items():
            if key not in own:
                continue
            verdict = own[key]
            better = {-1: verdict.first, 1: verdict.second, 0: ""}[verdict.side]
            row |= {
                f"{name}_better": better,
                f"{name}_difference": verdict.difference.value,
                f"{name}_low": verdict.difference.low,
                f"{name}_high": verdict.difference.high,
                f"{name}_of_training": verdict.is_of_training,
            }
        rows.append(row)
    ends = ("better", "difference", "low", "high", "of_training")
    columns = ["workload", "first", "second", *(f"{name}_{end}" for name in found.verdicts for end in ends)]
    return Table("verdicts", "Every verdict", pd.DataFrame(rows, columns=columns), is_shown=False)
