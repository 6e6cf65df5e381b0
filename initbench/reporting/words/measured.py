"""What was measured for a criterion, in words: the estimate with its interval, its seeds, and where trials diverged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.comparing.formatting import counted, quotient
from initbench.reporting.sizes import difference_words, interval_words, plain_words, share_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.claims.verdict import Form, GroupVerdict
    from initbench.metric import Metric
    from initbench.statistics.intervals import Estimate


def group_words(group: GroupVerdict, metric: Metric | None, sides: Sequence[str]) -> str:
    """Return what was measured in one group: ``3.00 points (2.00 to 4.00), 5 of 5 seeds``.

    Of trials that have no finite value because they diverged it says at which steps: ``diverged at step 0, 3 of 3
    seeds``, or ``median 12.00 %, 4 of 5 seeds (diverged at step 18 at 1 of 5 seeds)``.

    Args:
        group: as judged.
        metric: that the measure is; None for one that is none.
        sides: the criterion's in words, by which a diverged trial of two or more sides is named.
    """
    n = group.estimate.n
    seeds = counted(n, group.sample) if group.agreeing is None else f"{group.agreeing} of {counted(n, group.sample)}"
    return f"{group.label + ': ' if group.label else ''}{_found(group, metric, sides, seeds)}"


def _found(group: GroupVerdict, metric: Metric | None, sides: Sequence[str], seeds: str) -> str:
    n = group.estimate.n
    size = _size(group.estimate, metric, group.form)
    if group.ends is not None:
        low, high = (quotient(end) for end in group.ends)
        size += f" of the layers, whose values are {low if low == high else f'{low} to {high}'}"
    if group.against is not None:
        size += f" against {_size(group.against, metric, group.form)}"
    if not any(group.diverged):
        return f"{size}, {seeds}"
    if len(group.diverged) == 1 and len(group.diverged[0]) == n and group.agreeing in {n, None}:
        return f"diverged{_steps(group.diverged[0])}, {seeds}"
    where = ", ".join(
        f"{side + ' ' if len(sides) > 1 else ''}diverged{_steps(steps)} at {len(steps)} of {counted(n, group.sample)}"
        for side, steps in zip(sides, group.diverged, strict=True)
        if steps
    )
    if math.isfinite(group.estimate.value):
        return f"median {size}, {seeds} ({where})"
    return f"no mean, as {where}" if group.agreeing is None else f"{where}, met at {seeds}"


def _size(estimate: Estimate, metric: Metric | None, form: Form) -> str:
    value = estimate.value
    if form == "factor":
        return f"{plain_words(estimate) if math.isfinite(value) else quotient(value)} times"
    if form == "share":
        return share_words(estimate)
    if form == "number" or metric is None:
        ends = (quotient(end) if estimate.has_interval else "" for end in (estimate.low, estimate.high))
        return interval_words(quotient(value), *ends)
    if form == "difference":
        return difference_words(estimate, metric) if math.isfinite(value) else "–"
    ends = (metric.number(end) if estimate.has_interval else "" for end in (estimate.low, estimate.high))
    return interval_words(metric.text(value), *ends)


def _steps(steps: Sequence[int | None]) -> str:
    """Return `` at step 0``, or `` at steps 18 to 27``; empty where none is known."""
    known = [step for step in steps if step is not None]
    if not known:
        return ""
    return f" at step {known[0]}" if min(known) == max(known) else f" at steps {min(known)} to {max(known)}"
