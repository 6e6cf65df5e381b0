"""Claims in words: what a criterion says, what was measured, and what came of all of them."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, Literal

from initbench.claims.criteria import (
    SCALE,
    AtChance,
    Contrast,
    Correlation,
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
from initbench.comparing.formatting import counted
from initbench.reporting.sentence import Sentence
from initbench.reporting.words.measured import group_words
from initbench.reporting.words.sentence import bolded, first_fitting
from initbench.reporting.words.sides import side_words, told_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.claims.criteria import Criterion
    from initbench.claims.verdict import ClaimVerdict, CriterionVerdict
    from initbench.metric import Metric

_ORDER = ("held", "did not hold", "undecided", "not run")
_WORDS = {"recipe.lr": "learning rate"}


def overall_words(verdicts: Sequence[ClaimVerdict]) -> list[Sentence]:
    """Return how many claims held.

    Args:
        verdicts: of all claims of a report.
    """
    counts = {status: sum(one.status == status for one in verdicts) for status in _ORDER}
    parts = [f"{number} {status}" for status, number in counts.items() if number]
    return [bolded(f"Of {counted(len(verdicts), 'claim')} {', '.join(parts)}.", bold=(parts[0],))]


def claim_words(verdict: ClaimVerdict, metrics: Sequence[Metric | None]) -> list[Sentence]:
    """Return what became of one claim, which is their subject: its status, then each criterion with its numbers.

    Args:
        verdict: of the claim.
        metrics: that the measures of its `judged` criteria are; None for one that is none.
    """
    status, subject = verdict.status.capitalize(), verdict.claim.claim
    found = [bolded(f"{status}.", bold=(status,), subject=subject)]
    if verdict.lacks:
        found.append(bolded(f"{verdict.lacks}.", subject=subject, is_open=True))
    for place, (criterion, metric) in enumerate(zip(verdict.judged, metrics, strict=True)):
        groups = _groups_words(criterion, metric)
        if not groups and not criterion.lacks:
            continue
        is_refutation = place >= len(verdict.criteria)
        own = criterion.status.capitalize() if len(verdict.judged) > 1 else "Measured"
        own = f"What would refute it: {criterion.status}" if is_refutation else own
        few = [f"{own}: {'; '.join(groups[:k])}{_more(len(groups) - k)}." for k in range(len(groups), 0, -1)]
        text = first_fitting(*few) if few else f"{own}."
        found.append(bolded(text, subject=subject, is_open=criterion.status == "undecided"))
        if criterion.lacks:
            found.append(bolded(f"{criterion.lacks}.", subject=subject, is_open=True))
    return found


def _more(left: int) -> str:
    return f"; and {left} more" if left else ""


def measured_words(verdict: CriterionVerdict, metric: Metric | None) -> str:
    """Return what was measured for a criterion, each group with its interval and its seeds.

    Args:
        verdict: of the criterion.
        metric: that its measure is; None for one that is none.
    """
    return "; ".join([*_groups_words(verdict, metric), *[verdict.lacks] * bool(verdict.lacks)])


def _groups_words(verdict: CriterionVerdict, metric: Metric | None) -> list[str]:
    sides, _ = told_apart(list(verdict.criterion.selectors.values()))
    return [group_words(group, metric, sides) for group in verdict.groups]


def criterion_words(criterion: Criterion, metric: Metric | None) -> str:
    """Return what a criterion says, as a sentence without its full stop.

    Args:
        criterion: of a claim.
        metric: that its measure is; None for one that is none.
    """
    text = _says(criterion, metric)
    if criterion.best_over is not None:
        text += f", each at its best {_name(criterion.best_over)}"
    if criterion.groups is not None:
        text += f", for at least {criterion.groups} of the {_names(criterion.each)}"
    return text


@singledispatch
def _says(criterion: Criterion, metric: Metric | None) -> str:
    del metric
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
    how = f" by more than {_size(criterion.by, metric)}" if criterion.by else ""
    text = f"In the mean {lower} has a lower {_measure(criterion, metric)} than {higher}{how}{where}"
    if criterion.beyond is not None:
        (first, second), there = _sides(criterion.beyond.lower, criterion.beyond.higher)
        text += f", by more than {first} leads {second}{there}"
    return text


@_says.register(Equality)
def _(criterion: Equality, metric: Metric | None) -> str:
    (one, other), where = _sides(*criterion.between)
    margin = criterion.within
    size = f"a factor of {criterion.within_factor:g}" if margin is None else _size(margin, metric)
    return f"{one} and {other} have the same {_measure(criterion, metric)} within {size}{where}"


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
    del metric
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
    del metric
    ratio = f"the best {_name(criterion.rate)} of {side_words(criterion.of)}, divided by the largest stable one,"
    if criterion.rises_with is None:
        bounds = _bounds(criterion.at_least, criterion.at_most, None)
        return f"{_when(criterion.held_at).capitalize()} {ratio} is {bounds}"
    rises = f"rises with {_name(criterion.rises_with)}"
    return f"T{ratio[1:]} {rises}: a rank correlation of at least {criterion.correlation:g}"


@_says.register(Layers)
def _(criterion: Layers, metric: Metric | None) -> str:
    del metric
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
    del metric
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
    return criterion.measure.removeprefix("probe.").removesuffix(".per_layer").replace("_", " ")


def _bounds(at_least: float | None, at_most: float | None, metric: Metric | None) -> str:
    ends = (("least", at_least), ("most", at_most))
    return " and ".join(f"at {end} {_bound(bound, metric)}" for end, bound in ends if bound is not None)


def _bound(value: float, metric: Metric | None) -> str:
    return f"{value:g}" if metric is None else metric.text(value)


def _size(value: float, metric: Metric | None) -> str:
    return f"{value:g}" if metric is None else metric.difference(value)


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
    return f"values of {' and '.join(_name(key) for key in keys)}"
