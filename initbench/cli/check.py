"""`initbench check MODEL`: whether a model starts sane, and how it scales with its width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from initbench.cli.model_options import (
    Arguments,
    FailOn,
    Html,
    InputShape,
    Model,
    Vocabulary,
    Weights,
    arguments_of,
    components_of,
    inputs_of,
    kinds_of,
    source_of,
    write_page,
)
from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.inspection.check import Check, Row
    from initbench.inspection.width import Widths


def check(
    model: Model,
    arguments: Arguments = None,
    weights: Weights = None,
    input_shape: InputShape = None,
    vocabulary: Vocabulary = None,
    initializer: Annotated[
        list[str] | None,
        typer.Option(
            help="Judge the model after each of these, instead of as built: kaiming,orthogonal[gain=2].",
            metavar="NAME,...",
        ),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Number of classes, if the function does not tell.", metavar="N")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Number of seeds.", metavar="N")] = 3,
    data: Annotated[
        str | None,
        typer.Option(help="A registered dataset for real inputs, and for initializers that need it.", metavar="NAME"),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="Instead fit how outputs and their first updates scale with this argument: embed_dim=64,128,256; "
            "--with num_heads=4,8,16 changes another one along with it.",
            metavar="KEY=VALUES",
        ),
    ] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="For --width: adam (by default) or sgd.", metavar="NAME")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="For --width: number of steps, by default 1.", metavar="N")
    ] = None,
    fail_on: FailOn = None,
    plugin: Plugins = None,
    html: Html = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Say whether a model starts sane: signals and gradients over depth, dead units, loss, without training.

    One sentence for the model as built, or for each --initializer: healthy, vanishing, exploding, dead, collapsed,
    chaotic, not_finite or loss_above_chance. The verdicts do not rank initializers.
    """
    load_plugins(plugin)
    if width is not None:
        if initializer or data or weights or fail_on or html:
            raise InitbenchError("--width takes no --initializer, --data, --weights, --fail-on or --html")
        options = {"outputs": classes, "optimizer": optimizer or "adam", "steps": steps or 1, "seeds": seeds}
        result = _widths(model, width, arguments, inputs=inputs_of(input_shape, vocabulary), **options)
        print_json(result.to_json()) if json else _print_widths(result)
        return
    if optimizer is not None or steps is not None:
        raise InitbenchError("--optimizer and --steps are for --width")
    if data is not None and (input_shape or vocabulary or classes):
        raise InitbenchError("--data takes no --input, --vocabulary or --classes: the dataset has them")
    from initbench.data.load import load_dataset
    from initbench.inspection.check import check as check_model
    from initbench.inspection.source import model_source
    from initbench.inspection.verdicts import KINDS

    kinds = kinds_of(fail_on, tuple(kind for kind in KINDS if kind != "healthy"))
    initializers = components_of(initializer, "--initializer")
    source = source_of(model, arguments, input_shape, vocabulary, weights)
    if data is not None and ":" not in model:  # a function knows its own sizes
        dataset = load_dataset(data, {})
        source = model_source(
            model, arguments_of(arguments), inputs=dataset.inputs, outputs=dataset.outputs, weights=weights
        )
    checked = check_model(source, initializers=initializers, seeds=seeds, outputs=classes, data=data)
    write_page(html, model, checked)
    print_json(checked.to_json()) if json else _print(checked)
    if kinds & checked.kinds:
        raise typer.Exit(1)


def _widths(model: str, width: str, assignments: list[str] | None, **options: Any) -> Widths:
    from initbench.inspection.width import scale_width

    name, _, values = width.partition("=")
    try:
        widths = [int(value) for value in values.split(",")]
    except ValueError:
        raise InitbenchError(f"--width {width}: must be KEY=VALUES, such as embed_dim=64,128,256") from None
    arguments, along = {}, {}
    for key, value in arguments_of(assignments).items():
        if isinstance(value, str) and "," in value:
            along[key] = list(arguments_of([f"{key}=[{value}]"])[key])
        else:
            arguments[key] = value
    return scale_width(model, name, widths, along=along, arguments=arguments, **options)


_HEADINGS = (
    *("initializer", "seeds", "forward", "backward", "gradient range", "correlation", "dead units"),
    *("branch/skip", "GQ", "gradient norm", "loss/chance"),
)


def _print(checked: Check) -> None:
    from rich.table import Table

    out = console()
    for row in checked.rows:
        out.print(str(row), style=None if row.verdict and row.verdict.kind == "healthy" else "bold", markup=False)
        for note in row.notes:
            out.print(f"  {note}", style="dim", markup=False)
    judged = [row for row in checked.rows if row.verdict is not None]
    if not judged:
        return
    table = Table(*_HEADINGS, box=None, header_style="dim")
    for row in judged:
        table.add_row(*_cells(row))
    out.print()
    out.print(table)
    noise = "random inputs" if checked.data is None else checked.data
    objective = checked.objective
    loss = "a random projection of the outputs" if objective == "projection" else f"the loss of {objective}"
    out.print(f"\nOn {noise} ({checked.inputs}); gradients are those of {loss}.", style="dim", markup=False)


def _cells(row: Row) -> list[str]:
    signals = row.seeds[0].trunk
    quotient = "" if row.quotient is None else f"{row.quotient.value:.3g}{' (saturated)' * row.quotient.saturated}"
    return [
        row.initializer,
        str(len(row.seeds)),
        sparkline([layer.output for layer in signals if not layer.aside]),
        sparkline([layer.gradient for layer in signals if not layer.aside]),
        _number(row.gradient_range),
        _number(row.correlation),
        "" if row.dead is None else f"{row.dead:.0%}",
        _number(row.branch_ratio),
        quotient,
        _number(row.gradient_norm),
        _number(row.loss_over_chance),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


_BARS = "▁▂▃▄▅▆▇█"
_COLUMNS = 16
_DECADES = 4.0  # that the bars span at least, so that small changes look small


def sparkline(values: Sequence[float | None]) -> str:
    """Return the logarithms of positive values as at most 16 bars; others are ``x``."""
    known = [value for value in values if value is not None]
    if len(known) > _COLUMNS:
        known = [known[round(i * (len(known) - 1) / (_COLUMNS - 1))] for i in range(_COLUMNS)]
    logs = [math.log10(value) if 0 < value < math.inf else math.nan for value in known]
    finite = [value for value in logs if not math.isnan(value)]
    if not finite:
        return "x" * len(logs)
    middle, span = (min(finite) + max(finite)) / 2, max(max(finite) - min(finite), _DECADES)
    levels = [(value - middle) / span + 0.5 for value in logs]
    return "".join(
        "x" if math.isnan(level) else _BARS[min(int(level * len(_BARS)), len(_BARS) - 1)] for level in levels
    )


def _print_widths(scaling: Widths) -> None:
    from rich.table import Table

    out = console()
    for row in scaling.rows:
        out.print(f"{row.layer}: the update {row.sentence}", markup=False)
    headings = ("layer", "exponent at the start", "exponent of the update", *map(str, scaling.widths))
    table = Table(*headings, box=None, header_style="dim")
    for row in scaling.rows:
        table.add_row(row.layer, _number(row.activation), _number(row.update), *map(_number, row.updates))
    out.print()
    out.print(table)
    steps = "1 step" if scaling.steps == 1 else f"{scaling.steps} steps"
    how = f"{steps} of {scaling.optimizer} at {scaling.lr:g}, {scaling.seeds} seeds"
    expected = "0, 1 and 1 to 1.5" if scaling.optimizer == "adam" else "-0.5, 0.5 and 1"
    out.print(
        f"\n{how}. On the right: the change's root mean square.\nExpected at the first step of the standard "
        f"parametrization: {expected} for the first layer, later ones and logits; 0 for muP.",
        style="dim",
        markup=False,
    )
