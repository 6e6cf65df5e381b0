"""What do own values change: treatments at the recipe's values, at a shared rate and at their own best?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, listed, natural
from initbench.reporting.answer import Answer
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.searches import at_protocol, counts_text
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.tables import table_of
from initbench.reporting.trials import MAIN_FIRST
from initbench.reporting.tune import Tune
from initbench.statistics.cells import all_train, cells, complete, table
from initbench.statistics.ranks import compare_ranks
from initbench.statistics.seed_variance import suite_variances
from initbench.statistics.verdicts import verdicts_over_workloads, verdicts_side_by_side, workload_verdicts

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Mapping[Hashable, Any]
_TOGETHER = 2  # treatments that one sentence says the same one beats


class Protocols(NamedTuple):
    """The cells of each protocol (`cells.cells`), and its verdicts (`verdicts.verdicts_side_by_side`)."""

    cells: Mapping[str, pd.DataFrame]
    verdicts: pd.DataFrame


def protocols(results: Results | str | Path) -> Answer | None:
    """Return what own values change; None if no suite tunes, or if its trials ran under one protocol alone.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if (tune := results.tune) is None or len(tune.protocols) < 2:
        return None
    facts, treatment, noun = _facts(results), results.terms.treatment, results.names.noun
    note = (
        f"Median {results.terms.outcome} over the seeds, and the rank within the {noun}; what did not train shares the "
        f"last rank before what diverged. If seeds have different {tune.noun}s, the number of seeds is in brackets."
    )
    show = "workload treatment " + " ".join(f"{name}_values {name}_outcome {name}_rank" for name in facts.cells)
    title = f"Every {treatment} at the {tune.noun}s of each protocol"
    tables = [
        table_of(results, "protocols", title, _side_by_side(facts, results), show, note),
        table_of(results, "verdicts", "Every verdict", facts.verdicts),
    ]
    remark = (
        f"A verdict is on a pair of {treatment}s on one {noun}, corrected for all of its pairs by Holm’s procedure; if "
        "only one of the two is better than guessing, that is the verdict. Mean ranks alone are no verdict."
    )
    question = f"What do {tune.noun}s of their own change?"
    return Answer("protocols", question, list(_sentences(facts, results, tune)), tables, remarks=[remark], facts=facts)


def main_change(results: Results) -> Sentence | None:
    """Return what own values change, in the one sentence of the first screen; None if there is nothing to compare."""
    if (tune := results.tune) is None or len(tune.protocols) < 2:
        return None
    facts = _facts(results)
    return next((_changes(facts, name, results, tune, example=True) for name in _references(facts)), None)


@once
def _facts(results: Results) -> Protocols:
    tuned = {name: trials[trials["protocols"].notna()] for name, trials in results.trials_under.items()}
    of = {name: cells(trials) for name, trials in tuned.items()}
    verdicts = {
        name: list(workload_verdicts(of[name], trials, suite_variances(trials, of[name])))
        for name, trials in tuned.items()
    }
    if results.terms.metric is not None:
        for name, trials in tuned.items():
            verdicts[name] += verdicts_over_workloads(of[name], trials)
    return Protocols(of, verdicts_side_by_side(verdicts))


def _side_by_side(facts: Protocols, results: Results) -> pd.DataFrame:
    """Return one row per workload and treatment, with its outcome under each protocol."""
    parts, labels = [], ["workload", "treatment"]
    for name, group in facts.cells.items():
        judged = group[group["outcome"].notna()]
        values = {key: counts_text(part) for key, part in at_protocol(results, name).groupby(labels, sort=False)}
        metrics = [results.metric_of[workload] for workload in judged["workload"]]
        columns: dict[str, Any] = {
            "outcome": [metric.oriented(value) for metric, value in zip(metrics, judged["outcome"], strict=True)],
            "rank": judged.groupby("workload")["ranked"].rank(method="min"),
            "state": judged["state"],
            "values": [values[key] for key in zip(judged["workload"], judged["treatment"], strict=True)],
            "seeds": judged["seeds"],
        }
        part = judged[labels].assign(metric=[metric.name for metric in metrics])
        parts.append(part.assign(**{f"{name}_{column}": values for column, values in columns.items()}))
    frame = reduce(partial(pd.merge, on=[*labels, "metric"], how="outer"), parts)
    keys = [tuple(map(natural, key)) for key in zip(frame["workload"], frame["treatment"], strict=True)]
    return frame.iloc[sorted(range(len(frame)), key=keys.__getitem__)].reset_index(drop=True)


def _sentences(facts: Protocols, results: Results, tune: Tune) -> Iterator[Sentence]:
    """Yield how many verdicts change, who ranks first under each protocol, then each verdict that changes."""
    yield from (_changes(facts, name, results, tune) for name in _references(facts))
    yield from _first_ranks(facts, results, tune)
    yield from _flips(facts, "all", results, tune, f" over all {results.names.noun}s")
    for workload in results.metric_of:
        yield from _training(facts, workload, results, tune)
        yield from _flips(facts, workload, results, tune)
    yield from tune.caution()


def _references(facts: Protocols) -> list[str]:
    """Return what own values are compared with: the shared rate first, then the recipe's values."""
    return [name for name in ("shared", "recipe") if name in facts.cells] if "own" in facts.cells else []


def _changes(facts: Protocols, reference: str, results: Results, tune: Tune, *, example: bool = False) -> Sentence:
    """Return how many verdicts own values change, with the clearest one as an example."""
    sides = [f"{reference}_better", "own_better"]
    both = facts.verdicts[facts.verdicts["workload"] != "all"].dropna(subset=sides).to_dict("records")
    changed = [row for row in both if row[sides[0]] != row[sides[1]]]
    many = f"{len(changed) or 'none'} of {counted(len(both), 'pairwise verdict')}"
    text = f"Own {tune.noun}s change {many} reached {tune.at(reference)}"
    if example and (one := _example(facts, changed, reference, results, tune)):
        return say(text + ": {one}", one=one)
    return say(text + ".")


def _example(facts: Protocols, changed: Sequence[Row], reference: str, results: Results, tune: Tune) -> Sentence | None:
    """Return the change whose difference is the clearest if both train; else who trains under one protocol alone."""
    sides, one = (reference, "own"), len(results.metric_of) == 1

    def clearness(row: Row) -> float:
        """The difference in half-widths of its interval, under the protocol that shows it more clearly."""
        told = [p for p in sides if row[f"{p}_better"]]
        return max(float(2 * abs(row[f"{p}_difference"]) / (row[f"{p}_high"] - row[f"{p}_low"])) for p in told)

    def where(row: Row) -> str:
        return "" if one else f" on {results.names.workload(row['workload'])}"

    clear = [row for row in changed if not any(row[f"{p}_of_training"] for p in sides)]
    if clear:
        row = max(clear, key=lambda row: (clearness(row), row["workload"], row["first"], row["second"]))
        first, second, better = _oriented(row, sides)
        return _flip(first, [second], better, results, tune, where(row))
    for row in changed:
        for treatment in (row["first"], row["second"]):
            for verbs, doing in _learning(facts, row["workload"]):
                does = {p: does for p, does in doing[treatment].items() if p in sides}
                if len(set(does.values())) > 1:
                    return _does_at([treatment], does, results, tune, verbs, where(row))
    return None


def _oriented(row: Row, protocols: Sequence[str]) -> tuple[str, str, dict[str, int]]:
    """Return who is better somewhere, the other, and by protocol 1 if the first is better, -1 if the second, else 0."""
    better = {p: row[f"{p}_better"] for p in protocols if row[f"{p}_better"] == row[f"{p}_better"]}
    # The first protocol that tells a difference says who is named as better.
    first = next((better[p] for p in MAIN_FIRST if better.get(p)), row["first"])
    second = row["second"] if first == row["first"] else row["first"]
    return first, second, {p: (who == first) - (who == second) for p, who in better.items()}


def _first_ranks(facts: Protocols, results: Results, tune: Tune) -> Iterator[Sentence]:
    """Yield who has the best mean rank under each protocol, over the workloads that all of them rank."""
    names = results.names
    whole = [set(complete(table(group, "ranked")).table.index) for group in facts.cells.values()]
    shared = sorted(set.intersection(*whole), key=natural)
    leaders: dict[str, list[str]] = defaultdict(list)
    several = False
    for protocol, group in facts.cells.items():
        ranks = compare_ranks(complete(table(group[group["workload"].isin(shared)], "ranked")).table)
        if len(ranks.mean_ranks) > 1:
            leaders[named([names.treatment(label) for label in ranks.leaders], 2)].append(protocol)
            several |= len(leaders) == 1 and len(ranks.leaders) > 1
    if sum(map(len, leaders.values())) > 1:
        over = f" over {names.workloads_of(len(shared))}" if shared else ""
        (first, at), *others = leaders.items()
        verb = "share" if several else "has"
        sentence = say(f"{{who!b}} {verb} the best mean rank{over} {tune.at(*at)}", who=first)
        for who, where in others:
            sentence += say(f", {{who!b}} {tune.at(*where)}", who=who)
        yield sentence + say(".")


def _flips(facts: Protocols, workload: str, results: Results, tune: Tune, where: str = "") -> Iterator[Sentence]:
    """Yield one sentence for the verdicts of one treatment that change alike, with two of the others in each."""
    subject = "" if workload == "all" else results.names.workload(workload)
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = defaultdict(list)
    for row in facts.verdicts[facts.verdicts["workload"] == workload].to_dict("records"):
        first, second, better = _oriented(row, list(facts.cells))
        # That a treatment learns under one protocol alone is said once (`_training`), not for each pair.
        if len(set(better.values())) > 1 and not any(row[f"{p}_of_training"] for p in better):
            alike[first, tuple(better.items())].append(second)
    for (first, sides), seconds in alike.items():
        for start in range(0, len(seconds), _TOGETHER):
            some = seconds[start : start + _TOGETHER]
            yield _flip(first, some, dict(sides), results, tune, where, subject)


def _flip(
    first: str,
    seconds: Sequence[str],
    better: Mapping[str, int],
    results: Results,
    tune: Tune,
    where: str,
    about: str = "",
) -> Sentence:
    """Return ``metainit beats kaiming at the shared rate; no difference is found at their own rates``."""
    at = {side: tune.at(*(p for p in tune.protocols if better.get(p) == side)) for side in set(better.values())}
    parts = [f"{{first!b}} beats {{seconds}}{{where}} {at[1]}"]
    parts += [
        f"{words} {at[side]}"
        for side, words in ((0, "no difference is found"), (-1, "the reverse holds"))
        if side in at
    ]
    names = [results.names.treatment(label) for label in (first, *seconds)]
    return say("; ".join(parts) + ".", first=names[0], seconds=listed(names[1:]), where=where, subject=about)


def _is_better_than_guessing(cells: pd.DataFrame) -> NDArray[np.bool_]:
    return (cells["state"] == "trained").to_numpy()


Verbs = tuple[str, str]
"""Of one treatment, and of several."""
# At every seed, as in the map; by the median, as most of the verdicts of training.
_LEARNING: list[tuple[Verbs, Callable[[pd.DataFrame], NDArray[np.bool_]]]] = [
    (("trains", "train"), all_train),
    (("is better than guessing", "are better than guessing"), _is_better_than_guessing),
]


def _learning(facts: Protocols, workload: str) -> Iterator[tuple[Verbs, dict[str, dict[str, bool]]]]:
    """Yield whether each treatment on a workload trains, then whether it is better than guessing, by protocol."""
    for verbs, judge in _LEARNING:
        does: dict[str, dict[str, bool]] = defaultdict(dict)
        for protocol, group in facts.cells.items():
            here = group[(group["workload"] == workload) & group["outcome"].notna()]
            for treatment, flag in zip(here["treatment"], judge(here).tolist(), strict=True):
                does[treatment][protocol] = flag
        yield verbs, does


def _training(facts: Protocols, workload: str, results: Results, tune: Tune) -> Iterator[Sentence]:
    """Yield who trains under some protocols alone, then who of the others is better than guessing under some alone."""
    said: set[str] = set()
    for verbs, doing in _learning(facts, workload):
        alike: dict[tuple[tuple[str, bool], ...], list[str]] = defaultdict(list)
        for treatment, does in doing.items():
            if len(set(does.values())) > 1 and treatment not in said:
                alike[tuple(does.items())].append(treatment)
                said.add(treatment)
        for sides, who in alike.items():
            yield _does_at(who, dict(sides), results, tune, verbs, about=results.names.workload(workload))


def _does_at(
    who: Sequence[str],
    does: Mapping[str, bool],
    results: Results,
    tune: Tune,
    verbs: Verbs,
    where: str = "",
    about: str = "",
) -> Sentence:
    """Return ``kaiming trains at its own rate, but not at the shared rate``."""
    one, names = len(who) == 1, named([results.names.treatment(label) for label in who])
    some, others = (tune.at(*(p for p in tune.protocols if does.get(p) is side), one=one) for side in (True, False))
    subject, verb = ("{who!b}", verbs[0]) if one else ("{who}", verbs[1])
    text = f"{subject} {verb}{{where}} {some}, but not {others.replace(' and ', ' nor ')}."
    return say(text, who=names, where=where, subject=about)
