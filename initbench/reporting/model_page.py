"""The page of one model: what `audit`, `diff` or `check` found, as one offline HTML file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from initbench.inspection.propagation import LayerSignal
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
_TEXTS = {"text"}


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


def _table(name: str, title: str, rows: Sequence[Mapping[str, Any]], headings: Mapping[str, tuple[str, str]]) -> Table:
    """Return a table with a heading and a format (see `formatting.FILTERS`) for each of its columns."""
    frame = pd.DataFrame(list(rows), columns=list(headings))
    for column, (_, form) in headings.items():
        if form not in _TEXTS:
            frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    return Table(name, title, frame, [Column(heading, form, column) for column, (heading, form) in headings.items()])


# ---------------------------------------------------------------- audit


@line_of.register
def _(result: Audit) -> str:
    entries = sum(tensor.entries for tensor in result.tensors)
    return f"{counted(len(result.tensors), 'tensor')}: {entries:,} entries"


@model_answers.register
def _(result: Audit) -> list[Answer]:
    number = len(result.findings)
    head = say("{found!b}.", found=counted(number, "finding") if number else "No findings")
    findings = [say("{kind!b}: {what}.", kind=one.kind, what=_rest(str(one), one.kind)) for one in result.findings]
    seen = [
        {"tensor": one.tensors[0], "kind": one.kind, "reason": one.reason, "line": one.line} for one in result.findings
    ]
    laws = [
        {
            "role": row.role,
            "tensors": len(row.tensors),
            "law": row.description,
            "others": "; ".join(row.laws[1:]),
            "std": row.std[0],
            "largest_std": row.std[1],
        }
        for row in result.roles
    ]
    tensors = [
        {
            "name": one.role.name,
            "role": one.role.role,
            "shape": "×".join(map(str, one.role.shape)),
            "fan_in": one.role.fan_in,
            "fan_out": one.role.fan_out,
            "mean": one.mean,
            "std": one.std,
            "kurtosis": one.excess_kurtosis,
            "rank": one.rank,
            "condition": one.condition,
        }
        for one in result.tensors
    ]
    headings = {"tensor": ("Tensor", "text"), "kind": ("Finding", "text"), "reason": ("Reason", "text")}
    first = _table("findings", "Findings", seen, headings | {"line": ("To see it", "text")})
    return [
        Answer("findings", "What is out of order?", [head, *findings], [first] if seen else [], remarks=result.notes),
        Answer(
            "laws",
            "Which laws do the tensors have?",
            [say("Tensors of one role share a law if all of them fit it.")],
            [_table("laws", "Laws by role", laws, {
                "role": ("Role", "text"),
                "tensors": ("Tensors", "count"),
                "law": ("Law", "text"),
                "others": ("Fits as well", "text"),
                "std": ("Smallest σ", "quotient"),
                "largest_std": ("Largest σ", "quotient"),
            })],
        ),
        Answer(
            "tensors",
            "What does each tensor hold?",
            [say("In the order in which they run.")],
            [_table("tensors", "Tensors", tensors, {
                "name": ("Tensor", "text"),
                "role": ("Role", "text"),
                "shape": ("Shape", "text"),
                "fan_in": ("Fan-in", "count"),
                "fan_out": ("Fan-out", "count"),
                "mean": ("Mean", "probability"),
                "std": ("σ", "quotient"),
                "kurtosis": ("Excess\nkurtosis", "coefficient"),
                "rank": ("Rank", "count"),
                "condition": ("Condition", "quotient"),
            })],
        ),
    ]  # fmt: skip


def _rest(text: str, kind: str) -> str:
    return text.removeprefix(f"{kind}: ").removesuffix(".")


# ---------------------------------------------------------------- diff


@line_of.register
def _(result: Difference) -> str:
    alarms = f"false alarms at most {100 * result.false_alarms:g} % over all"
    return f"{counted(len(result.tensors), 'pair')} of tensors: {result.tests} tests, {alarms}"


@model_answers.register
def _(result: Difference) -> list[Answer]:
    differing = [pair for pair in result.tensors if pair.kinds]
    _, *sentences = str(result).splitlines()
    head = "The laws are the same, as far as the tests see" if result.same else f"{result.a} and {result.b} differ"
    rows = [
        {
            "a": pair.a,
            "b": pair.b if pair.b != pair.a else "",
            "kinds": ", ".join(pair.kinds),
            "law_a": pair.law_a,
            "law_b": pair.law_b,
            "factor": pair.factor,
            "visible": pair.visible_factor,
        }
        for pair in (*differing, *(pair for pair in result.tensors if not pair.kinds))
    ]
    said = [say("{head!b}.", head=head), *(say("{text}", text=text) for text in sentences)]
    table = _table("pairs", "All pairs, differences first", rows, {
        "a": ("Tensor of A", "text"),
        "b": ("of B, if named\ndifferently", "text"),
        "kinds": ("Differ in", "text"),
        "law_a": ("Law in A", "text"),
        "law_b": ("Law in B", "text"),
        "factor": ("σ of B\nover σ of A", "quotient"),
        "visible": ("Smallest factor\nthat would be seen", "quotient"),
    })  # fmt: skip
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


@model_answers.register
def _(result: Check) -> list[Answer]:
    rows = [
        {
            "initializer": row.initializer,
            "verdict": _verdict(row),
            "gradient_range": row.gradient_range,
            "correlation": row.correlation,
            "dead": row.dead,
            "quotient": None if row.quotient is None else row.quotient.value,
            "gradient_norm": row.gradient_norm,
            "loss": row.loss_over_chance,
        }
        for row in result.rows
    ]
    said = [say("{name!b}: {verdict}.", name=row.initializer, verdict=_verdict(row)) for row in result.rows]
    table = _table("verdicts", "Medians over seeds", rows, {
        "initializer": ("Initializer", "text"),
        "verdict": ("Verdict", "text"),
        "gradient_range": ("Gradient, first\nlayer over last", "quotient"),
        "correlation": ("Correlation\nof two inputs", "coefficient"),
        "dead": ("Dead units", "percent"),
        "quotient": ("Gradient\nquotient", "quotient"),
        "gradient_norm": ("Gradient\nnorm", "quotient"),
        "loss": ("Loss over\nchance", "quotient"),
    })  # fmt: skip
    notes = [f"{row.initializer}: {note}" for row in result.rows for note in row.notes]
    return [Answer("verdicts", "Does it start sane?", said, [table], list(_profiles(result.rows)), notes)]


def _verdict(row: Row) -> str:
    return f"not judged: {row.not_judged}" if row.verdict is None else row.verdict.sentence.removesuffix(".")


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
            {"series": label, "kind": "", "x": place, "low": math.nan, "high": math.nan}
            | {"value": value, "words": f"{label}, {layer}: {value:.3g}"}
            for label, profile in profiles.items()
            for place, (layer, value) in enumerate(profile, start=1)
        ]
        layers = axis("layer, in the order in which they run", (1, max(map(len, profiles.values()))))
        drawing = lines(points, chosen, layers, log_axis(words, positive))
        if drawing is not None:
            yield Figure(name, title, f"{title}: the {words} at each layer.", drawing)


def _profile(row: Row, measured: str) -> list[tuple[str, float]]:
    """Return the name of each layer, and the median over seeds of what was measured there."""
    layers: dict[str, list[float]] = {}
    for signals in row.seeds:
        for layer in signals.trunk:
            value = _measured(layer, measured)
            if value is not None and not layer.aside:
                layers.setdefault(layer.name, []).append(value)
    return [(name, median(values)) for name, values in layers.items()]


def _measured(layer: LayerSignal, name: str) -> float | None:
    value: float | None = getattr(layer, name)
    return value
