"""The page of one model: what `audit`, `diff` or `check` found, as one offline HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.files import written_whole
from initbench.inspection.audit import Audit
from initbench.inspection.check import Check, Row
from initbench.inspection.diff import Difference
from initbench.reporting.answer import Answer
from initbench.reporting.charts.axis import axis, log_axis
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import lines
from initbench.reporting.charts.style import colours
from initbench.reporting.columns import Column
from initbench.reporting.page.html import render_model_page
from initbench.reporting.sentence import say
from initbench.reporting.tables import Table

Result = Audit | Difference | Check


def write_model_page(path: Path, title: str, result: Result) -> None:
    """Write the page of a result.

    Args:
        path: the HTML file.
        title: the page's heading, such as the model's name.
        result: of `audit`, `diff` or `check`.

    Raises:
        InitbenchError: the file cannot be written.
    """
    page = render_model_page(title, line_of(result), model_answers(result))
    try:
        with written_whole(path, path.parent) as file:
            file.write(page)
    except OSError as error:
        raise InitbenchError(f"{path}: cannot be written: {error.strerror}") from error


@singledispatch
def model_answers(result: Any) -> list[Answer]:
    """Return what the page of a model says: answers with sentences, tables as frames, and figures.

    Args:
        result: of `initbench.audit`, `initbench.diff` or `initbench.check`.

    Raises:
        InitbenchError: it is something else.
    """
    raise InitbenchError(f"there is no page of a {type(result).__name__}")


@singledispatch
def line_of(result: Any) -> str:
    """Return the facts about a result in one line."""
    raise InitbenchError(f"there is no page of a {type(result).__name__}")


Cells = Mapping[str, tuple[str, str, Callable[[Any], Any]]]
"""Column → its heading, its format (see `formatting.FILTERS`), and the cell of an item."""


def _table(name: str, title: str, items: Iterable[Any], cells: Cells) -> Table:
    """Return a table with a row for each item."""
    rows = [{column: cell(item) for column, (_, _, cell) in cells.items()} for item in items]
    frame = pd.DataFrame(rows, columns=list(cells))
    for column, (_, form, _) in cells.items():
        if form != "text":
            frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    return Table(name, title, frame, [Column(heading, form, column) for column, (heading, form, _) in cells.items()])


# ---------------------------------------------------------------- audit


@line_of.register
def _(result: Audit) -> str:
    entries = sum(tensor.entries for tensor in result.tensors)
    return f"{counted(len(result.tensors), 'tensor')}: {entries:,} entries"


_FINDINGS: Cells = {
    "tensor": ("Tensor", "text", lambda finding: finding.tensors[0]),
    "kind": ("Finding", "text", lambda finding: finding.kind),
    "reason": ("Reason", "text", lambda finding: finding.reason),
    "line": ("To see it", "text", lambda finding: finding.line),
}
_LAWS: Cells = {
    "role": ("Role", "text", lambda row: row.role),
    "tensors": ("Tensors", "count", lambda row: len(row.tensors)),
    "law": ("Law", "text", lambda row: row.description),
    "others": ("Fits as well", "text", lambda row: "; ".join(row.laws[1:])),
    "std": ("Smallest σ", "quotient", lambda row: row.std[0]),
    "largest_std": ("Largest σ", "quotient", lambda row: row.std[1]),
}
_TENSORS: Cells = {
    "name": ("Tensor", "text", lambda tensor: tensor.role.name),
    "role": ("Role", "text", lambda tensor: tensor.role.role),
    "shape": ("Shape", "text", lambda tensor: "×".join(map(str, tensor.role.shape))),
    "fan_in": ("Fan-in", "count", lambda tensor: tensor.role.fan_in),
    "fan_out": ("Fan-out", "count", lambda tensor: tensor.role.fan_out),
    "mean": ("Mean", "probability", lambda tensor: tensor.mean),
    "std": ("σ", "quotient", lambda tensor: tensor.std),
    "kurtosis": ("Excess\nkurtosis", "coefficient", lambda tensor: tensor.excess_kurtosis),
    "rank": ("Rank", "count", lambda tensor: tensor.rank),
    "condition": ("Condition", "quotient", lambda tensor: tensor.condition),
}


@model_answers.register
def _(result: Audit) -> list[Answer]:
    number = len(result.findings)
    said = [
        say("{findings!b}.", findings=counted(number, "finding") if number else "No findings"),
        *(say("{kind!b}: {what}.", kind=one.kind, what=_rest(str(one), one.kind)) for one in result.findings),
    ]
    findings = [_table("findings", "Findings", result.findings, _FINDINGS)] if number else []
    laws = _table("laws", "Laws by role", result.roles, _LAWS)
    tensors = _table("tensors", "Tensors", result.tensors, _TENSORS)
    of_role = say("Tensors of one role share a law if all of them fit it.")
    return [
        Answer("findings", "What is out of order?", said, findings, remarks=result.notes),
        Answer("laws", "Which laws do the tensors have?", [of_role], [laws]),
        Answer("tensors", "What does each tensor hold?", [say("In the order in which they run.")], [tensors]),
    ]


def _rest(text: str, kind: str) -> str:
    return text.removeprefix(f"{kind}: ").removesuffix(".")


# ---------------------------------------------------------------- diff


@line_of.register
def _(result: Difference) -> str:
    alarms = f"false alarms at most {100 * result.false_alarms:g} % over all"
    return f"{counted(len(result.tensors), 'pair')} of tensors: {result.tests} tests, {alarms}"


_PAIRS: Cells = {
    "a": ("Tensor of A", "text", lambda pair: pair.a),
    "b": ("of B, if named\ndifferently", "text", lambda pair: pair.b if pair.b != pair.a else ""),
    "kinds": ("Differ in", "text", lambda pair: ", ".join(pair.kinds)),
    "law_a": ("Law in A", "text", lambda pair: pair.law_a),
    "law_b": ("Law in B", "text", lambda pair: pair.law_b),
    "factor": ("σ of B\nover σ of A", "quotient", lambda pair: pair.factor),
    "visible": ("Smallest factor\nthat would be seen", "quotient", lambda pair: pair.visible_factor),
}


@model_answers.register
def _(result: Difference) -> list[Answer]:
    _, *sentences = str(result).splitlines()
    head = "The laws are the same, as far as the tests see" if result.same else f"{result.a} and {result.b} differ"
    said = [say("{head!b}.", head=head), *(say("{text}", text=text) for text in sentences)]
    pairs = sorted(result.tensors, key=lambda pair: not pair.kinds)
    table = _table("pairs", "All pairs, differences first", pairs, _PAIRS)
    return [Answer("differences", "Do the two start from the same laws?", said, [table], remarks=result.notes)]


# ---------------------------------------------------------------- check


@line_of.register
def _(result: Check) -> str:
    seeds = max((len(row.seeds) for row in result.rows), default=0)
    inputs = f"of {result.data}" if result.data else "random"
    loss = (
        "a random projection of the outputs" if result.objective == "projection" else f"the loss of {result.objective}"
    )
    return f"{counted(seeds, 'seed')}: inputs are {inputs} ({result.inputs}), gradients those of {loss}"


def _verdict(row: Row) -> str:
    return f"not judged: {row.not_judged}" if row.verdict is None else row.verdict.sentence.removesuffix(".")


_VERDICTS: Cells = {
    "initializer": ("Initializer", "text", lambda row: row.initializer),
    "verdict": ("Verdict", "text", _verdict),
    "gradient_range": ("Gradient, first\nlayer over last", "quotient", lambda row: row.gradient_range),
    "correlation": ("Correlation\nof two inputs", "coefficient", lambda row: row.correlation),
    "dead": ("Dead units", "percent", lambda row: row.dead),
    "quotient": ("Gradient\nquotient", "quotient", lambda row: None if row.quotient is None else row.quotient.value),
    "gradient_norm": ("Gradient\nnorm", "quotient", lambda row: row.gradient_norm),
    "loss": ("Loss over\nchance", "quotient", lambda row: row.loss_over_chance),
}


@model_answers.register
def _(result: Check) -> list[Answer]:
    said = [say("{name!b}: {verdict}.", name=row.initializer, verdict=_verdict(row)) for row in result.rows]
    table = _table("verdicts", "Medians over seeds", result.rows, _VERDICTS)
    notes = [f"{row.initializer}: {note}" for row in result.rows for note in row.notes]
    return [Answer("verdicts", "Does it start sane?", said, [table], list(_profiles(result.rows)), notes)]


def _profiles(rows: Sequence[Row]) -> Iterator[Figure]:
    """Yield the figures of the signal and its gradient over depth, one line for each initializer."""
    judged = [row for row in rows if row.seeds]
    chosen = colours(row.initializer for row in judged)
    for name, title, words in (
        ("output", "Signal over depth", "RMS of the outputs"),
        ("gradient", "Gradient over depth", "RMS of the gradient"),
    ):
        profiles = {row.initializer: _profile(row, name) for row in judged}
        positive = [value for profile in profiles.values() for _, value in profile if 0 < value < math.inf]
        if not positive:
            continue
        points = [
            {"series": label, "kind": "", "x": position, "low": math.nan, "high": math.nan}
            | {"value": value, "words": f"{label}, {layer}: {value:.3g}"}
            for label, profile in profiles.items()
            for position, (layer, value) in enumerate(profile, start=1)
        ]
        layers = axis("layer, in the order in which they run", (1, max(map(len, profiles.values()))))
        drawing = lines(points, chosen, layers, log_axis(words, positive))
        if drawing is not None:
            yield Figure(name, title, f"{title}: the {words} at each layer.", drawing)


def _profile(row: Row, measured: str) -> list[tuple[str, float]]:
    """Return the name of each layer, and the median over seeds of a field of `LayerSignal`."""
    layers: dict[str, list[float]] = {}
    for layer in (layer for signals in row.seeds for layer in signals.trunk if not layer.aside):
        if getattr(layer, measured) is not None:
            layers.setdefault(layer.name, []).append(getattr(layer, measured))
    return [(name, median(values)) for name, values in layers.items()]
