"""Which trial of a side counts at each seed, and the trials that differ in one property alone."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from initbench.claims.check import difference
from initbench.comparing.formatting import natural
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from initbench.claims.trials import Found


def by_seed(trials: Iterable[Found], best_over: str | None = None) -> dict[int, Found]:
    """Return the trial that counts at each seed.

    Args:
        trials: of one side and group.
        best_over: a property; of the trials of a seed that differ in it alone the one with the best validation value
            counts (`best`). At a seed that has not all of them yet none does (`tries_by_seed`).

    Raises:
        InitbenchError: two trials of a seed differ in something else; or none has a validation value.
    """
    if best_over is not None:
        return {seed: best(tries) for seed, tries in tries_by_seed(trials, best_over).items()}
    found: dict[int, Found] = {}
    for trial in trials:
        other = found.setdefault(trial.seed, trial)
        if other is not trial:
            raise _several(other, trial)
    return found


def best(tries: Iterable[Found]) -> Found:
    """Return the trial with the best validation value; of equals, and where all diverged, the first."""
    return min(tries, key=lambda trial: trial.validation)


def tries_by_seed(trials: Iterable[Found], over: str) -> dict[int, list[Found]]:
    """Return the trials of each seed in ascending order of a property, of the seeds that have as many as any other.

    A seed that lacks a try, or of which one failed, is left out: its best would be the best of fewer.

    Args:
        trials: of one side and group.
        over: the property in which alone those of a seed differ.

    Raises:
        InitbenchError: two trials of a seed differ in something else; or none has a validation value.
    """
    trials = list(trials)
    known = [trial for trial in trials if not math.isnan(trial.validation)]
    if not known and any(trial.record.status == "finished" for trial in trials):
        raise InitbenchError("no trial has a validation value")
    found: dict[int, list[Found]] = defaultdict(list)
    for trial in known:
        others = found[trial.seed]
        for other in others:
            if not _differ_in(other, trial, over):
                raise _several(other, trial, over)
        others.append(trial)
    most = max(Counter(trial.seed for trial in trials).values(), default=0)
    return {
        seed: sorted(tries, key=lambda trial: _order(trial.properties.get(over)))
        for seed, tries in found.items()
        if len(tries) == most
    }


def _differ_in(one: Found, other: Found, over: str) -> bool:
    """Return whether two trials differ in a property and in nothing else."""
    keys = one.properties.keys() | other.properties.keys()
    return {key for key in keys if one.properties.get(key) != other.properties.get(key)} == {over}


def _several(one: Found, other: Found, over: str = "") -> InitbenchError:
    each = ({key: value for key, value in trial.properties.items() if key != over} for trial in (one, other))
    return InitbenchError(f"selects several trials at seed {one.seed}, which differ in {difference(*each)}")


def _order(value: Any) -> tuple[int, Any]:
    """Return by what values are sorted: none first, then numbers by size, then others by name."""
    if isinstance(value, int | float):
        return 0, value
    return (-1, 0) if value is None else (1, natural(str(value)))
