"""Claims in words: criteria, and their measurements for it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, Literal

from initbench.claims.criteria import (
    SCALE,
    AtChance,
    Contrast,
    Correlation,
    Criterion,
    Difference,
    Equality,
    LayerDistance,
    Layers,
    Lead,
    NotWorse,
    Ordering,
    RateRatio,
    Trains,
    Within,
)
from initbench.claims.verdict import CriterionVerdict, Form, GroupVerdict
from initbench.comparing.formatting import counted, listed, quotient, typeset
from initbench.metric import Metric
from initbench.reporting.sizes import difference_words, interval_words, plain_words, share_words
from initbench.statistics.intervals import Estimate

_WORDS = {"recipe.lr": "learning rate"}
_COLUMN = re.compile(r"(.+)\.([a-z]\w*)")  # a probe's name, which may have arguments, and one of its columns
_PROTOCOLS = {
    "recipe": ", at the recipe's settings",
    "shared": ", at the best shared settings",
    "own": ", each at its own best settings",
}


def measured_words(verdict: CriterionVerdict, metric: Metric | None, most: int | None = None) -> str:
    """Return what was measured for a criterion, each group with its interval and its seeds, and anything missing.

    Args:
        verdict: of the criterion.
        metric: the metric it measures; None if it measures something else.
        most: groups that are given; all by default.
    """
    sides, _ = told_apart(list(verdict.criterion.selectors.values()))
    groups = [group_words(group, verdict.criterion, metric, sides) for group in verdict.groups]
    more = [f"and {len(groups) - most} more"] if most is not None and len(groups) > most else []
    return typeset("; ".join([*groups[:most], *more, *[verdict.lacks] * bool(verdict.lacks)]))


def criterion_words(criterion: Criterion, metric: Metric | None) -> str:
    """Return a criterion as a sentence without its full stop.

    Args:
        criterion: of a claim.
        metric: the metric it measures; None if it measures something else.
    """
    text = _says(criterion, metric)
    if criterion.protocol is not None:
        text += _PROTOCOLS[criterion.protocol]
    if criterion.best_over is not None:
        text += f", each at its best {_name(criterion.best_over)}"
    if not criterion.each:
        return text
    number = "each" if criterion.groups is None else f"at least {criterion.groups}"
    which = "on average over" if isinstance(criterion, Correlation) else f"for {number} of"
    return f"{text}, {which} the {_names(criterion.each)}"


@singledispatch
def _says(criterion: Criterion, metric: Metric | None) -> str:
    raise TypeError(type(criterion).__name__)


@_says.register(Ordering)
def _(criterion: Ordering, metric: Metric | None) -> str:
    (lower, higher), where = _sides(criterion.lower, criterion.higher)
    how = f" by more than {_size(criterion.by, metric)}" if criterion.by else ""
    how += f" by a factor of {criterion.factor:g} or more" if criterion.factor > 1 else ""
    when = _when(criterion.held_at).capitalize()
    return f"{when} {lower} has a lower {_measure(criterion, metric)} than {higher}{how}{where}"


@_says.register(Lead)
def _(criterion: Lead, metric: Metric | None) -> str:
    (lower, higher), where = _sides(criterion.lower, criterion.higher)
    measure, size = _measure(criterion, metric), _size(abs(criterion.by), metric)
    if criterion.beyond is None:
        if criterion.by < 0:
            return f"On average the {measure} of {lower} is at most {size} above that of {higher}{where}"
        how = f" by more than {size}" if criterion.by else ""
        return f"On average {lower} has a lower {measure} than {higher}{how}{where}"
    (first, second), there = _sides(criterion.beyond.lower, criterion.beyond.higher)
    if criterion.by == 0:
        how = f"by more than {first} leads {second}"
        return f"On average {lower} has a lower {measure} than {higher}{where}, {how}{there}"
    how = f"at least {size} larger" if criterion.by > 0 else f"at most {size} smaller"
    lead = f"the lead of {lower} over {higher} in {measure}{where}{',' if where else ''}"
    return f"On average {lead} is {how} than that of {first} over {second}{there}"


@_says.register(Equality)
def _(criterion: Equality, metric: Metric | None) -> str:
    (one, other), where = _sides(*criterion.between)
    margin = criterion.within
    size = f"a factor of {criterion.within_factor:g}" if margin is None else _size(margin, metric)
    return f"{one} and {other} have the same {_measure(criterion, metric)} within {size}{where}"


@_says.register(Difference)
def _(criterion: Difference, metric: Metric | None) -> str:
    (one, other), where = _sides(*criterion.between)
    size = _size(criterion.by, metric)
    return f"{one} and {other} differ in {_measure(criterion, metric)} by more than {size}{where}"


@_says.register(NotWorse)
def _(criterion: NotWorse, metric: Metric | None) -> str:
    (one, other), where = _sides(criterion.of, criterion.than)
    most = f"{_size(criterion.within, metric)} of {_measure(criterion, metric)}"
    return f"{one} is worse than {other} by no more than {most}{where}"


@_says.register(Trains)
def _(criterion: Trains, metric: Metric | None) -> str:
    bound, when = _bound(criterion.at_most, metric), _when(criterion.held_at)
    return f"{side_words(criterion.of)} trains: {_measure(criterion, metric)} of at most {bound} {when}"


@_says.register(AtChance)
def _(criterion: AtChance, metric: Metric | None) -> str:
    return f"{side_words(criterion.of)} is at chance {_when(criterion.held_at)}"


@_says.register(Within)
def _(criterion: Within, metric: Metric | None) -> str:
    when = _when(criterion.held_at)
    if criterion.against is not None:
        (one, other), where = _sides(criterion.of, criterion.against)
        bounds = _bounds(criterion.at_least, criterion.at_most, None)
        return f"{_measure(criterion, metric)} of {one} over that of {other} is {bounds} {when}{where}"
    bounds = _bounds(criterion.at_least, criterion.at_most, metric)
    return f"{_measure(criterion, metric)} of {side_words(criterion.of)} is {bounds} {when}"


@_says.register(Correlation)
def _(criterion: Correlation, metric: Metric | None) -> str:
    what = f"a rank correlation above {criterion.at_least:g}"
    which = ", of the treatments that train" if criterion.trained_only else ""
    return f"{_measure(criterion, metric)} and the outcome have {what} over {side_words(criterion.of)}{which}"


@_says.register(Contrast)
def _(criterion: Contrast, metric: Metric | None) -> str:
    (first, second), (third, fourth) = criterion.cells
    rows = told_apart([_shared(first, second), _shared(third, fourth)])[0]
    columns = told_apart([_shared(first, third), _shared(second, fourth)])[0]
    factor = f" {criterion.factor:g} times" if criterion.factor > 1 else ""
    effects = f"{' against '.join(rows)} changes {_measure(criterion, metric)} by more than{factor}"
    return f"{_when(criterion.held_at).capitalize()} {effects} what {' against '.join(columns)} does"


@_says.register(RateRatio)
def _(criterion: RateRatio, metric: Metric | None) -> str:
    ratio = f"the best {_name(criterion.rate)} of {side_words(criterion.of)}, divided by the largest stable one,"
    if criterion.rises_with is None:
        bounds = _bounds(criterion.at_least, criterion.at_most, None)
        if criterion.against is not None:
            (of, other), where = _sides(criterion.of, criterion.against)
            ratio = f"the best {_name(criterion.rate)} over the largest stable one of {of}, divided by that of {other},"
            bounds += where
        return f"{_when(criterion.held_at).capitalize()} {ratio} is {bounds}"
    rises = f"rises with {_name(criterion.rises_with)}"
    return f"T{ratio[1:]} {rises}: a rank correlation of at least {criterion.correlation:g}"


@_says.register(Layers)
def _(criterion: Layers, metric: Metric | None) -> str:
    side, bounds, where = side_words(criterion.of), _bounds(criterion.at_least, criterion.at_most, None), ""
    if criterion.against is not None:
        (side, other), where = _sides(criterion.of, criterion.against)
        bounds += f" times that of {other}"
    which = "" if criterion.layers == ".*" else f" named like “{criterion.layers}”"
    whole = (
        f"every layer{which}" if criterion.share == 1 else f"at least {100 * criterion.share:g} % of the layers{which}"
    )
    what = f"the {_measure(criterion, None)} of {side} is {bounds} in {whole}{where}"
    return f"{_when(criterion.held_at).capitalize()} {what}"


@_says.register(LayerDistance)
def _(criterion: LayerDistance, metric: Metric | None) -> str:
    (one, other), where = _sides(criterion.of, criterion.reference)
    what = f"the {_measure(criterion, None)} of each layer of {one} is near that of {other}"
    size = f"the mean of |ln ratio| is at most {criterion.at_most:g}"
    which = "" if criterion.layers == ".*" else f" over layers named {criterion.layers}"
    return f"{_when(criterion.held_at).capitalize()} {what}: {size}{which}{where}"


def _when(held_at: float | Literal["any"]) -> str:
    if held_at == "any":
        return "at one seed or more"
    return "at every seed" if held_at == 1 else f"at {100 * held_at:g} % of the seeds or more"


def _measure(criterion: Criterion, metric: Metric | None) -> str:
    if metric is not None:
        return metric.title
    if criterion.measure == SCALE:
        return "factor of scaling"
    if criterion.measure.startswith("recipe."):
        return _name(criterion.measure)
    measure = criterion.measure.removeprefix("probe.").removesuffix(".per_layer")
    return _COLUMN.sub(r"\2 (\1)", measure).replace("_", " ")


def _bounds(at_least: float | None, at_most: float | None, metric: Metric | None) -> str:
    ends = (("least", at_least), ("most", at_most))
    return " and ".join(f"at {end} {_bound(bound, metric)}" for end, bound in ends if bound is not None)


def _bound(value: float, metric: Metric | None) -> str:
    return typeset(f"{value:g}") if metric is None else metric.text(value)


def _size(value: float, metric: Metric | None) -> str:
    return typeset(f"{value:g}") if metric is None else metric.difference(value)


def _sides(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return what tells two conditions apart, and what both have, as an ending of a sentence."""
    sides, same = told_apart([one, other])
    return sides, f", with {same}" if same else ""


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if other.get(key) == value}


def _name(key: str) -> str:
    """Return a property in words: ``batch size`` of ``recipe.batch_size``."""
    return _WORDS.get(key, key.rpartition(".")[2].replace("_", " "))


def _names(keys: Sequence[str]) -> str:
    return f"values of {listed([_name(key) for key in keys])}"


def group_words(group: GroupVerdict, criterion: Criterion, metric: Metric | None, sides: Sequence[str]) -> str:
    """Return what was measured in one group: ``3.00 points (2.00 to 4.00), 5 of 5 seeds``.

    Of trials that have no finite value because they diverged it says at which steps: ``diverged at step 0, 3 of 3
    seeds``, or ``median 12.00 %, 4 of 5 seeds (diverged at step 18 at 1 of 5 seeds)``.

    Args:
        group: as judged.
        criterion: by which it was judged.
        metric: the metric it measures; None if it measures something else.
        sides: the criterion's in words, by which a diverged trial of two or more sides is named.
    """
    n = group.estimate.n
    seeds = counted(n, group.sample) if group.agreeing is None else f"{group.agreeing} of {counted(n, group.sample)}"
    return f"{group.label + ': ' if group.label else ''}{_measured(group, criterion, metric, sides, seeds)}"


def _measured(
    group: GroupVerdict, criterion: Criterion, metric: Metric | None, sides: Sequence[str], seeds: str
) -> str:
    n = group.estimate.n
    size = _estimate_text(group.estimate, metric, group.form)
    if isinstance(criterion, Layers) and group.ends is not None:
        low, high = (quotient(end) for end in group.ends)
        bounds = _bounds(criterion.at_least, criterion.at_most, None)
        size += f" of the layers are {bounds} (all layers: {low if low == high else f'{low} to {high}'})"
    if group.against is not None:
        size += f" against {_estimate_text(group.against, metric, group.form)}"
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
        kind = "mean" if group.estimate.has_interval else "median"
        return f"{kind} {size}, {seeds} ({where})"
    return f"no mean, as {where}" if group.agreeing is None else f"{where}, met at {seeds}"


def _estimate_text(estimate: Estimate, metric: Metric | None, form: Form) -> str:
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
    ends = (metric.number(end) if estimate.has_interval else "" for end in estimate.clipped(*metric.bounds)[1:3])
    return interval_words(metric.text(value), *ends)


def _steps(steps: Sequence[int | None]) -> str:
    """Return `` at step 0``, or `` at steps 18 to 27``; empty if none is known."""
    known = [step for step in steps if step is not None]
    if not known:
        return ""
    return f" at step {known[0]}" if min(known) == max(known) else f" at steps {min(known)} to {max(known)}"


_COMPONENTS = ("architecture", "initializer", "dataset", "scheme")


def told_apart(sides: Sequence[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return how conditions differ, a text for each, and what they share; empty if nothing.

    A condition without anything of its own is given whole.

    Args:
        sides: conditions as a suite states them.
    """
    first, *others = sides
    same = {key: value for key, value in first.items() if others and all(other.get(key) == value for other in others)}
    return [
        side_words({key: value for key, value in side.items() if key not in same} or side) for side in sides
    ], side_words(same)


def side_words(condition: Mapping[str, Any]) -> str:
    """Return a condition in words, such as ``plain, depth 28``."""
    return ", ".join(_property(key, value) for key, value in condition.items())


def _property(key: str, value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    text = listed([each if isinstance(each, str) else json.dumps(each) for each in values], "or")
    return text if key in _COMPONENTS else f"{key.rpartition('.')[2]} {text}"
