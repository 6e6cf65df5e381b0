"""`initbench audit MODEL`: what each tensor really holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.model_options import (
    MODEL_HELP,
    Arguments,
    FailOn,
    Html,
    InputShape,
    Vocabulary,
    Weights,
    kinds_of,
    source_of,
    write_page,
)
from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json
from initbench.cli.output import say
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.inspection.audit import Audit
    from initbench.inspection.role_laws import RoleLaw
    from initbench.inspection.tensors import TensorSummary

_WEIGHTS_FILES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_SHOWN = 3


def audit(
    model: Annotated[
        str | None,
        typer.Argument(help=f"{MODEL_HELP} Or a weights file, read tensor by tensor.", metavar="MODEL"),
    ] = None,
    with_: Arguments = None,
    weights: Weights = None,
    input_shape: InputShape = None,
    vocabulary: Vocabulary = None,
    expect: Annotated[
        str | None,
        typer.Option(
            help="A YAML list of declared laws, such as {role: linear*, law: normal, std: sqrt(2/fan_in)}: a pattern "
            "of role or name; law: normal, uniform, truncated_normal, constant, orthogonal, zeros or ones; and its "
            "std, bound, value or gain.",
            metavar="FILE",
        ),
    ] = None,
    tensors: Annotated[bool, typer.Option("--tensors", help="Print a row for each tensor.")] = False,
    fail_on: FailOn = None,
    plugin: Plugins = None,
    html: Html = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> int:
    """Print what each tensor of a model really holds: its role, law, mean and deviation, and what is wrong.

    Laws are named jointly over the tensors of a role; findings come first. Nothing is trained. With weights alone,
    roles are guessed from names and sizes, and the file may be larger than memory.
    """
    from initbench.inspection.audit import audit as audit_model
    from initbench.inspection.audit import audit_weights
    from initbench.inspection.findings import KINDS

    load_plugins(plugin)
    failing = kinds_of(fail_on, KINDS)
    file = model or weights
    if file is None:
        raise InitbenchError("give a model, such as timm/resnet18, or --weights FILE")
    if model is None or (weights is None and model.endswith(_WEIGHTS_FILES)):
        if with_ or input_shape or vocabulary:
            raise InitbenchError(f"{file}: weights alone take no --with, --input or --vocabulary; give the model, too")
        result = audit_weights(Path(file), expect=expect)
    else:
        result = audit_model(source_of(model, with_, input_shape, vocabulary, weights), expect=expect)
    write_page(html, str(file), result)
    if json:
        print_json(result.to_json())
    else:
        _print(result, tensors=tensors)
    return int(any(finding.kind in failing for finding in result.findings))


def _print(result: Audit, *, tensors: bool) -> None:
    say(result.head)
    for finding in result.findings:
        say(f"  {finding}")
        say(f"    {finding.line}")
    for note in result.notes:
        say(f"note: {note}")
    _print_roles(result.roles)
    if tensors:
        _print_tensors(result.tensors)


def _print_roles(rows: tuple[RoleLaw, ...]) -> None:
    from rich.table import Table

    watched = any(row.untouched is not None for row in rows)
    table = Table("role", "tensors", "law", "also fits", "mean", "σ", box=None, pad_edge=False)
    if watched:
        table.add_column("not initialized")
    for row in rows:
        others = row.laws[1 : _SHOWN + 1]
        more = f"; {len(row.laws) - 1 - _SHOWN} more" if len(row.laws) > _SHOWN + 1 else ""
        cells = [row.role, str(len(row.tensors)), row.description, "; ".join(others) + more]
        cells += [_range(*row.mean), _range(*row.std)]
        if watched:
            cells.append(f"{row.untouched} of {len(row.tensors)}" if row.untouched else "")
        table.add_row(*cells)
    console().print(table, markup=False)


def _range(low: float, high: float) -> str:
    first, last = f"{low:.3g}", f"{high:.3g}"
    return first if first == last else f"{first} to {last}"


def _print_tensors(summaries: tuple[TensorSummary, ...]) -> None:
    from rich.table import Table

    names = ("tensor", "role", "shape", "fan-in", "fan-out", "mean", "σ", "kurtosis", "rank", "condition", "tied to")
    table = Table(*names, box=None, pad_edge=False)
    for one in summaries:
        role = one.role
        numbers = (role.fan_in, role.fan_out, one.mean, one.std, one.excess_kurtosis, one.rank, one.condition)
        cells = ["" if number is None else f"{number:.4g}" for number in numbers]
        table.add_row(role.name, role.role, "×".join(map(str, role.shape)), *cells, ", ".join(role.tied))
    console().print(table, markup=False)
