"""The figures of searches: of each workload the outcome by rate, by the number of tries, and by their compute."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.analyses.curve_figures import drawn, in_words
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.values import value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.formatting import capitalized

if TYPE_CHECKING:
    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.analyses.tunability import Tunability

_MOST_NAMED = 12
_ENDS = ("value_median", "value_smallest", "value_largest")


class _Kind(NamedTuple):
    """A kind of figure: the column of its horizontal axis, that axis' title, and what its name and title have."""

    x: str
    axis: str
    prefix: str
    suffix: str
    note: str
    log: bool = False


_RATES = _Kind(
    "rate",
    "learning rate",
    "searched-",
    "by learning rate",
    "Every rate that was tried: the median over the seeds, and a band from the best to the worst of them.",
    log=True,
)
_ORDER = (
    "averaged over all orders of the tries: one seed’s search chooses, the others show what that is worth. The band "
    "goes from the best to the worst of the seeds that choose."
)
_TRIES = _Kind("tries", "tries", "tries-", "by the number of tries", f"What so many tries come to, {_ORDER}")
_COMPUTE = _Kind(
    "compute",
    "compute of the tries, with initialization (training steps)",
    "tries-compute-",
    "by the compute of the tries",
    f"The same over what the tries cost, initialization included; {_ORDER}",
)


def tunability_figures(found: Tunability) -> tuple[list[Figure], list[str]]:
    """Return the figures of the searches, those of one workload beside each other, and what is not drawn.

    Outcomes by rate are drawn where the seeds of a cell tried the same rates: of others a line would join noise.

    Args:
        found: of any suite that tunes.
    """
    labels, left = drawn(found.rates, "workload", "searched.csv")
    several = found.rates.groupby(["workload", "treatment"])["seeds"].transform("max")
    shared = found.rates[(several > 1) | (len(set(found.tries["seed"])) == 1)]
    if len(shared) < len(found.rates):
        left.append("Outcomes by rate are not drawn where each seed tried rates of its own; searched.csv has them.")
    figures: dict[str, list[Figure]] = {label: [] for label in labels}
    kinds = [(_RATES, shared if found.tune.has_rate else shared.iloc[:0]), (_TRIES, found.curves)]
    for kind, frame in [*kinds, (_COMPUTE, found.curves.dropna(subset=["compute"]))]:
        names = file_names(labels, kind.prefix)
        for label in labels:
            own = frame[frame["workload"] == label]
            if len(own) and (figure := _figure(found, label, own, kind, names[label])) is not None:
                figures[label].append(figure)
    return [figure for own in figures.values() for figure in own], left


def _figure(found: Tunability, label: str, own: pd.DataFrame, kind: _Kind, name: str) -> Figure | None:
    metric, where = found.metrics[label], found.results.names.workload(label)
    shown, colours = in_words(own, found.results)
    shown = shown.assign(**{end: metric.scale * shown[end] for end in _ENDS})
    unit = metric.beside_title.unit
    up = metric.title + (f" ({unit})" if unit else "")

    def place(row: Any) -> str:
        return f"{kind.x} {row[kind.x]:,g}" if kind.x != "tries" else f"after {row[kind.x]:.0f}"

    panel = value_panel(shown, kind.x, kind.axis, up, colours, place=place, log_x=kind.log, unfinished="diverged")
    if panel is None:
        return None
    title = f"{capitalized(metric.title)} {kind.suffix}: {where}"
    return Figure(name, title, f"{title}. {_words(shown, own, metric, kind)}", panel, kind.note, subject=where)


def _words(shown: pd.DataFrame, own: pd.DataFrame, metric: Metric, kind: _Kind) -> str:
    """Return where every line has its best value, or where it begins and ends."""
    texts = []
    numbers = own.assign(treatment=shown["treatment"])
    for treatment, line in numbers.groupby("treatment", sort=False):
        values = line["value_median"]
        if kind.x == "rate":
            finite = line[[math.isfinite(value) for value in values]]
            if not len(finite):
                texts.append(f"{treatment} diverged at every rate")
                continue
            value, rate = min(
                zip(finite["value_median"], finite["rate"], strict=True), key=lambda p: metric.oriented(p[0])
            )
            texts.append(f"{treatment} {metric.text(value)} at {rate:g}")
        else:
            texts.append(f"{treatment} from {metric.text(values.iloc[0])} to {metric.text(values.iloc[-1])}")
    how = "The best rate of each" if kind.x == "rate" else "From the first try to the last"
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{how}: {'; '.join(texts[:_MOST_NAMED])}{more}."
