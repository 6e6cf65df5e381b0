"""Who fails, by the factor of the workloads that tells it best: ``with norm post, lsuv and kaiming``."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from initbench.reporting.words.sentence import named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.reporting.analyses.overview import Overview

Failing = dict[str, dict[str, float]]
"""Level of a factor, ``norm post`` → label of a treatment that fails there → on what share of its workloads."""


def failures_by_factor(found: Overview, everywhere: tuple[str, str], in_part: tuple[str, str]) -> str:
    """Return who fails at which level of one factor, without a full stop; nothing where no factor tells it.

    The factor is the one of whose levels the failures say most: where a treatment fails at a level, it fails on as many
    of its workloads as can be, and elsewhere not. All workloads have a value of it.

    Args:
        found: the facts.
        everywhere: verb, of several and of one, where all who are named fail on all of a level's workloads.
        in_part: likewise where one of them fails on some alone.
    """
    ways = [ways for levels in _factors(found).values() if (ways := _failing(found, levels))]
    if not ways:
        return ""
    chosen = min(ways, key=_mixed)
    texts: list[str] = []
    for level, shares in sorted(chosen.items(), key=lambda item: -len(item[1])):
        who = named([found.results.names.treatment(label) for label in shares], 4) if shares else "none"
        verb = (everywhere if all(share == 1 for share in shares.values()) else in_part)[len(shares) == 1]
        texts.append(f"with {level}, {who}" if texts else f"With {level}, {who} {verb}")
    return "; ".join(texts)


def _factors(found: Overview) -> dict[str, dict[str, list[str]]]:
    """Return factor → level → workloads, of factors of which all workloads have one of several values."""
    names = found.results.names.workloads
    places = [column.label for column in found.map.columns]
    levels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for label in places:
        for part in filter(None, names[label].detail.split(", ")):
            levels[part.rpartition(" ")[0]][part].append(label)
    return {
        key: own
        for key, own in levels.items()
        if key and len(own) > 1 and sorted(label for group in own.values() for label in group) == sorted(places)
    }


def _failing(found: Overview, levels: Mapping[str, list[str]]) -> Failing:
    """Return who fails at each level; nothing where it is the same at all of them."""
    judged = found.results.judged
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
