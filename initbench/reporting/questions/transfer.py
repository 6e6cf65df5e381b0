"""Does the best learning rate depend on the size of the network?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted
from initbench.comparing.names import short_names
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import number, value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.questions.line_figures import drawn, in_words
from initbench.reporting.results import Results, as_results
from initbench.reporting.searches import tries
from initbench.reporting.sentence import Sentence, joined, say
from initbench.reporting.sized_networks import SizedNetwork, sized_networks
from initbench.reporting.sizes import plain_words
from initbench.reporting.tables import table_of
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate
from initbench.statistics.optima import Optimum, optimum, transfer_exponent
from initbench.statistics.rates import best_at_rates

_MOST_TOGETHER = 3  # exponents in one sentence
_NOTE = (
    "At each seed, the best rate is the minimum of a parabola in log(rate) through the best rate tried and its "
    "neighbours. The exponent b of the best rate ∝ size^b is the mean over seeds of each seed’s slope, with its 95 % "
    "interval. At edge: searches whose best rate is the smallest or the largest tried, so that the true one may lie "
    "beyond."
)


class Transfer(NamedTuple):
    """How best rates change with the size of networks.

    Attributes:
        optima: a row for each network, treatment and size: ``value_median``, the geometric mean of the seeds' best
            rates, with the smallest and the largest; ``at_edge``: how many are at the edge of what was tried.
        exponents: a row for each network and treatment: ``exponent`` with its interval; ``at_edge``; ``edges``:
            ``smallest``, ``largest`` or both.
    """

    optima: pd.DataFrame
    exponents: pd.DataFrame


def transfer(results: Results | str | Path) -> Answer | None:
    """Return how best rates change with the size; None unless a suite tunes the rate of networks of several sizes.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or not results.tune.has_rate:
        return None
    networks = sized_networks(results)
    optima = pd.DataFrame([row for network in networks for row in _optima(network, results)])
    if not len(optima):
        return None
    keys = ["family", "size", "treatment"]
    rows = [
        dict(zip(keys, cell, strict=True)) | row
        for cell, cell_optima in optima.groupby(keys, sort=False)
        for row in _exponents(cell_optima)
    ]
    if not rows:
        return None
    facts = Transfer(optima.drop(columns="each"), pd.DataFrame(rows))
    show = "family treatment exponent seeds at_edge"
    tables = [table_of(results, "transfer", "The best rate’s exponent in the size", facts.exponents, show, _NOTE)]
    show = "family treatment at value_median value_smallest value_largest seeds at_edge"
    tables.append(table_of(results, "optima", "Best rates by size", facts.optima, show))
    figures, left = _figures(facts.optima, results)
    question = "Does the best learning rate depend on the size of the network?"
    return Answer("transfer", question, list(_sentences(facts.exponents, results)), tables, figures, left, facts)


def main_transfer(results: Results) -> Sentence | None:
    """Return the exponents in the one sentence of the first screen.

    None if best rates are not known at several sizes, if an exponent has too few seeds, or if there are too many for a
    sentence.
    """
    answer = transfer(results)
    if answer is None:
        return None
    exponents: pd.DataFrame = answer.facts.exponents
    sizes = exponents[["family", "size"]].drop_duplicates().itertuples(index=False)
    (family, size), *others = map(tuple, sizes)
    if others or len(exponents) > _MOST_TOGETHER or exponents["seeds"].min() < MINIMUM_SEEDS:
        return None
    *first, last = [
        say("{exponent} with {name!b}", exponent=_words(row), name=results.names.treatment(row["treatment"]))
        for row in exponents.to_dict("records")
    ]
    at_edge, searches = exponents["at_edge"].sum(), exponents["searches"].sum()
    edge = f"; but in {at_edge} of {searches} searches it is the smallest or the largest rate tried" if at_edge else ""
    return say(
        f"On {{family!b}}, the best rate is proportional to {size} to the power {{exponents}}{edge}.",
        is_open=bool(at_edge),
        family=short_names(results.labels, [], [family]).workload(family),
        exponents=joined([joined(first, ", "), last], " and ") if first else last,
    )


def _optima(network: SizedNetwork, results: Results) -> Iterator[dict[str, Any]]:
    every = best_at_rates(tries(results))
    for workload, size in network.sizes.items():
        cells = every[every["workload"] == workload].groupby("treatment", sort=False)
        for treatment, rows in cells:
            by_seed = {seed: optimum(of["rate"], of["outcome"]) for seed, of in rows.groupby("seed", sort=True)}
            each = {seed: one for seed, one in by_seed.items() if one is not None}
            if not each:
                continue
            rates = [one.rate for one in each.values()]
            yield {
                "family": network.label,
                "size": network.argument,
                "treatment": treatment,
                "at": size,
                "value_median": math.exp(float(np.mean(np.log(rates)))),
                "value_smallest": min(rates),
                "value_largest": max(rates),
                "seeds": len(each),
                "at_edge": sum(bool(one.edge) for one in each.values()),
                "each": each,
            }


def _exponents(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    optima: dict[float, dict[Hashable, Optimum]] = dict(zip(rows["at"], rows["each"], strict=True))
    if len(optima) < 2:
        return
    # A seed that diverges at every rate of one size has no exponent.
    seeds = [seed for seed in rows["each"].iloc[0] if all(seed in each for each in optima.values())]
    if not seeds:
        return
    exponent = transfer_exponent({size: [each[seed] for seed in seeds] for size, each in optima.items()})
    edges = {one.edge for each in optima.values() for one in each.values()} - {""}
    yield {
        **exponent.columns("exponent"),
        "seeds": exponent.n,
        "at_edge": int(rows["at_edge"].sum()),
        "searches": int(rows["seeds"].sum()),
        "edges": " or ".join(sorted(edges, reverse=True)),
    }


def _sentences(exponents: pd.DataFrame, results: Results) -> Iterator[Sentence]:
    for row in exponents.to_dict("records"):
        family, size = str(row["family"]), str(row["size"])
        exponent = _estimate(row)
        if verb := {1: "grows", -1: "falls"}.get(exponent.side()):
            text = f"the best rate {verb} as {size} to the power {{exponent}}"
        elif exponent.has_interval:
            text = f"the best rate was not found to depend on the {size}: its exponent is {{exponent}}"
        else:
            at = "the same at each of" if exponent.n >= MINIMUM_SEEDS else "from"
            text = f"whether the best rate depends on the {size} is undecided: its exponent is {{exponent}}, "
            text += f"{at} {counted(exponent.n, 'seed')}"
        if row["at_edge"]:
            wider = {"smallest": "smaller", "largest": "larger"}.get(row["edges"], "smaller and larger")
            text += f"; but in {row['at_edge']} of {row['searches']} searches it is the {row['edges']} rate tried"
            text += f": try {wider} ones"
        yield say(
            f"On {{family!b}} with {{name!b}}, {text}.",
            is_open=bool(row["at_edge"]) or not exponent.has_interval,
            family=short_names(results.labels, [], [family]).workload(family),
            name=results.names.treatment(row["treatment"]),
            exponent=_words(row),
        )


def _estimate(row: Mapping[Hashable, Any]) -> Estimate:
    return Estimate(row["exponent"], row["exponent_low"], row["exponent_high"], row["seeds"])


def _words(row: Mapping[Hashable, Any]) -> str:
    return plain_words(_estimate(row), "{:+.2f}")


def _size_words(row: Mapping[Any, Any]) -> str:
    return f"{row['size']} {row['at']:g}"


def _figures(optima: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    shown, colours = in_words(optima, results)
    shown = shown.assign(network=shown["family"].str.cat(shown["size"], sep=" · "))
    labels, left = drawn(shown, "network", "optima.csv")
    files, figures = file_names(labels, "transfer-"), []
    for label in labels:
        rows = shown[shown["network"] == label]
        family, size = str(rows["family"].iloc[0]), str(rows["size"].iloc[0])
        panel = value_panel(
            rows,
            "at",
            size,
            "best learning rate",
            colours,
            log_x=True,
            log_y=True,
            x_words=_size_words,
        )
        if panel is not None:
            where = short_names(results.labels, [], [family]).workload(family)
            title = f"Best learning rate by {size}: {where}"
            texts = [
                f"{row['treatment']} at {size} {row['at']:g} {number(row['value_median'])}"
                for row in rows.to_dict("records")
            ]
            alt = f"{title}. Geometric means over the seeds: {'; '.join(texts)}."
            figures.append(Figure(files[label], title, alt, panel, subject=where))
    return figures, left
