"""How do layers scale with the size of the network?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from initbench.comparing.formatting import counted
from initbench.comparing.names import short_names
from initbench.errors import InitbenchError
from initbench.probes.coordinate_check import NOT_MOVED, TOLERANCE
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import layer_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.questions.line_figures import drawn, in_words
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sized_networks import SizedNetwork, sized_networks
from initbench.reporting.sizes import plain_words
from initbench.reporting.tables import table_of
from initbench.statistics.exponents import exponent_over_seeds
from initbench.statistics.intervals import Estimate

_PROBE = "coordinates"
_PARTS = ("activation", "change")
_FAMILY = ["family", "size", "steps"]
_CHANGES = {"grows", "shrinks"}
_NOTE = (
    "Exponents b of the root mean square ∝ size^b: the mean over seeds of each seed’s slope, with its 95 % interval. A "
    f"layer grows or shrinks if the interval lies beyond ±{TOLERANCE:g}, and is stable if it lies within; otherwise it "
    "is undecided. Intervals hold for one layer at a time."
)


def scaling(results: Results | str | Path) -> Answer | None:
    """Return how layers scale with the size of networks; None unless trials at several sizes have `coordinates`.

    Suites that tune the learning rate are left out, because their trials take steps at different rates.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is not None and results.tune.has_rate:
        return None
    rows = [row for network in sized_networks(results) for row in _rows(network, results)]
    if not rows:
        return None
    facts = pd.DataFrame(rows)
    show = "family treatment layer activation activation_verdict change change_verdict seeds"
    table = table_of(results, "scaling", "Exponents by layer", facts, show, _NOTE)
    figures, left = _figures(facts, results)
    sentences = [sentence for _, rows in facts.groupby(_FAMILY, sort=False) for sentence in _sentences(rows, results)]
    question = "How do layers scale with the size of the network?"
    return Answer("scaling", question, sentences, [table], figures, left, facts)


def _rows(network: SizedNetwork, results: Results) -> Iterator[dict[str, Any]]:
    """Yield a row for each layer that a network has at every size, of each treatment."""
    for (treatment, steps), of_seeds in _measured(network, results).items():
        if len(of_seeds) < 2:
            continue
        common = sorted(set.intersection(*(set(each) for each in of_seeds.values())))
        if not common:
            continue
        seeds, measured = len(common), {size: [each[seed] for seed in common] for size, each in of_seeds.items()}
        if len({tuple(layers) for each in measured.values() for layers in each}) > 1:
            measured = {size: [_from_both_ends(layers) for layers in each] for size, each in measured.items()}
        every = [layers for each in measured.values() for layers in each]
        for position, layer in enumerate(name for name in every[-1] if all(name in layers for layers in every)):
            same = {"family": network.label, "size": network.argument, "treatment": treatment, "steps": steps}
            row: dict[str, Any] = {**same, "layer": layer, "place": position, "seeds": seeds}
            for part in _PARTS:
                values = [[layers[layer].get(part, math.nan) for layers in each] for each in measured.values()]
                exponent, verdict = _judged(list(measured), values)
                row |= exponent.columns(part) | {f"{part}_verdict": verdict}
            yield row


def _measured(
    network: SizedNetwork, results: Results
) -> dict[tuple[str, int], dict[float, dict[int, dict[str, dict[str, float]]]]]:
    """Return (treatment, steps) → size → seed → layer → part → value."""
    measured: dict[tuple[str, int], dict[float, dict[int, dict[str, dict[str, float]]]]] = defaultdict(dict)
    for workload, size in network.sizes.items():
        for treatment, trials in results.trials_on[workload].groupby("treatment", sort=False):
            for trial, seed in zip(trials["trial_id"], trials["seed"], strict=True):
                by_steps: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
                for entry in results.by_id[trial].probes:
                    probe, _, part = entry["name"].rpartition(".")
                    if probe.partition("[")[0] == _PROBE and part in _PARTS:
                        for layer, value in entry["values"].items():
                            number = math.nan if value is None else float(value)
                            by_steps[entry["conditions"]["steps"]][layer][part] = number
                for steps, layers in by_steps.items():
                    measured[str(treatment), steps].setdefault(size, {})[int(seed)] = layers
    return measured


def _from_both_ends(layers: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the layers by names in which the last of several blocks is ``last``: ``h.last.attn``.

    So the last blocks of networks of different depths have the same name.
    """
    last: dict[tuple[str, ...], int] = {}
    for layer in layers:
        before, number, _ = _numbered(layer)
        if number is not None:
            last[before] = max(last.get(before, 0), number)
    named = {}
    for layer, values in layers.items():
        before, number, behind = _numbered(layer)
        is_last = number is not None and last[before] == number > 0
        named[".".join((*before, "last", *behind)) if is_last else layer] = values
    return named


def _numbered(layer: str) -> tuple[tuple[str, ...], int | None, tuple[str, ...]]:
    """Split a layer's name at its first number."""
    parts = tuple(layer.split("."))
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return (parts, None, ()) if at is None else (parts[:at], int(parts[at]), parts[at + 1 :])


def _judged(sizes: Sequence[float], values: Sequence[Sequence[float]]) -> tuple[Estimate, str]:
    """Return the exponent of values, (sizes, seeds), and the verdict on it."""
    try:
        exponent = exponent_over_seeds(sizes, values)
    except InitbenchError:
        is_zero = all(value == 0 for of_size in values for value in of_size)
        return Estimate(math.nan, math.nan, math.nan, 0), "is 0" if is_zero else "no exponent"
    if not exponent.has_interval:
        return exponent, "undecided"
    side = [exponent.side(bound) for bound in (-TOLERANCE, TOLERANCE)]
    return exponent, {(1, 1): "grows", (-1, -1): "shrinks", (1, -1): "stable"}.get((side[0], side[1]), "undecided")


def _sentences(facts: pd.DataFrame, results: Results) -> Iterator[Sentence]:
    """Yield for each treatment what its layers' changes do, then what does not move, and the outputs at the start."""
    label, size, steps = str(facts["family"].iloc[0]), str(facts["size"].iloc[0]), int(facts["steps"].iloc[0])
    family = short_names(results.labels, [], [label]).workload(label)
    for treatment, part in facts.groupby("treatment", sort=False):
        name, rows = results.names.treatment(str(treatment)), part.to_dict("records")
        if known := [row for row in rows if math.isfinite(row["change"])]:
            moving = [row for row in known if row["change_verdict"] in _CHANGES]
            row = max(moving or known, key=lambda row: abs(row["change"]))
            if moving:
                text = f"the change of {len(moving)} of {len(known)} layers in {steps} steps depends on the {size}, "
                text += "most in {layer}, with the exponent {exponent}"
            else:
                text = f"no layer’s change in {steps} steps was found to depend on the {size}; "
                text += "the largest exponent is {exponent}, in {layer}"
            undecided = sum(row["change_verdict"] == "undecided" for row in known)
            more = f"; {undecided} of {len(known)} layers are undecided" if undecided else ""
            yield say(
                f"On {{family!b}} with {{name!b}}, {text}{more}.",
                family=family,
                name=name,
                layer=row["layer"],
                exponent=_exponent(row, "change"),
            )
        if unmoved := [str(row["layer"]) for row in rows if row["change_verdict"] == "is 0"]:
            others = f" (and {counted(len(unmoved) - 1, 'other')})" if len(unmoved) > 1 else ""
            text = f"On {{family!b}} with {{name!b}}, {{layer}}{others} {NOT_MOVED}."
            yield say(text, is_open=True, family=family, name=name, layer=unmoved[0])
        if starts := [row for row in rows if row["activation_verdict"] in _CHANGES]:
            row = max(starts, key=lambda row: abs(row["activation"]))
            layers = counted(len(starts), "layer")
            yield say(
                f"On {{family!b}} with {{name!b}}, the outputs of {layers} before training depend on the {size}, most "
                "in {layer}, with the exponent {exponent}.",
                family=family,
                name=name,
                layer=row["layer"],
                exponent=_exponent(row, "activation"),
            )


def _exponent(row: Mapping[Hashable, Any], part: str) -> str:
    return plain_words(Estimate(row[part], row[f"{part}_low"], row[f"{part}_high"], row["seeds"]), "{:+.2f}")


def _figures(facts: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the exponents of changes by layer, a figure for each network."""
    named = facts.assign(network=[" · ".join(map(str, key)) for key in facts[_FAMILY].itertuples(index=False)])
    ends = {"value_median": "change", "value_smallest": "change_low", "value_largest": "change_high"}
    values, colours = in_words(named.assign(**{end: named[column] for end, column in ends.items()}), results)
    labels, left = drawn(values, "network", "scaling.csv")
    files, figures = file_names(labels, "scaling-"), []
    for label in labels:
        rows = values[values["network"] == label]
        family, size = str(rows["family"].iloc[0]), rows["size"].iloc[0]
        where = short_names(results.labels, [], [family]).workload(family)
        what = f"exponent of the change in the {size}"
        panel = layer_panel(rows, what, colours, log=False, marked=(-TOLERANCE, 0.0, TOLERANCE))
        if panel is not None:
            title = f"Exponent of each layer’s first change in the {size}: {where}"
            alt = f"{title}. {_alt(rows)}"
            figures.append(Figure(files[label], title, alt, panel, _NOTE, subject=where))
    return figures, left


def _alt(rows: pd.DataFrame) -> str:
    ends = rows.groupby("treatment", sort=False)["change"].agg(["min", "max"]).dropna()
    texts = [f"{name} from {low:+.2f} to {high:+.2f}" for name, low, high in ends.itertuples()]
    return f"Means over the seeds, smallest and largest of the layers: {'; '.join(texts)}."
