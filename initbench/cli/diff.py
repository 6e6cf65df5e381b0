"""`initbench diff`: do two models start from the same laws?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.model_options import (
    MODEL_HELP,
    FailOn,
    Html,
    InputShape,
    Vocabulary,
    arguments_of,
    inputs_of,
    kinds_of,
    write_page,
)
from initbench.cli.options import Debug, Json, Plugins, load_plugins, print_json
from initbench.cli.output import say
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.inputs import Inputs
    from initbench.inspection.fingerprint import Fingerprint

_SIDE_HELP = f"A fingerprint's file (.json), or a model: {MODEL_HELP}"


def diff(
    a: Annotated[str, typer.Argument(help=_SIDE_HELP, metavar="A")],
    b: Annotated[str | None, typer.Argument(help="Likewise; without it, --save writes A's.", metavar="[B]")] = None,
    *,
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Number of models built of each.", metavar="N")] = 5,
    false_alarms: Annotated[
        float, typer.Option(help="Probability of any difference being seen between equal laws.", metavar="P")
    ] = 0.05,
    with_a: Annotated[
        list[str] | None, typer.Option(help="An argument of model A: --with-a depth=50.", metavar="KEY=VALUE")
    ] = None,
    with_b: Annotated[list[str] | None, typer.Option(help="An argument of model B.", metavar="KEY=VALUE")] = None,
    input_shape: InputShape = None,
    vocabulary: Vocabulary = None,
    save: Annotated[Path | None, typer.Option(help="Write the fingerprint of A to a file.", metavar="FILE")] = None,
    fail_on: FailOn = None,
    html: Html = None,
    as_json: Json = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> None:
    """Compare the laws of two models' tensors: location, scale, shape and dependence, over several seeds.

    A and B are models or fingerprints; `initbench diff MODEL --save FILE` writes a fingerprint.
    """
    load_plugins(plugin)
    if b is None and save is None:
        raise InitbenchError("diff needs A and B, or A and --save FILE, which writes its fingerprint")
    if b is None and with_b:
        raise InitbenchError("--with-b needs B")
    inputs = inputs_of(input_shape, vocabulary)
    from initbench.inspection import diff as comparison

    kinds = kinds_of(fail_on, comparison.KINDS)
    first = _fingerprint(a, with_a, "--with-a", inputs, seeds)
    if save is not None:
        from initbench.inspection.fingerprint import write_fingerprint

        write_fingerprint(save, first)
        say(f"{save}: {len(first.tensors)} tensors, {first.seeds} seeds", to_stderr=True)
    if b is None:
        return
    difference = comparison.diff(first, _fingerprint(b, with_b, "--with-b", inputs, seeds), false_alarms=false_alarms)
    write_page(html, f"{a} against {b}", difference)
    if as_json:
        print_json(difference.to_json())
    else:
        say(str(difference), keep="\n")
    if kinds & difference.kinds:
        raise typer.Exit(1)


def _fingerprint(side: str, arguments: list[str] | None, option: str, inputs: Inputs | None, seeds: int) -> Fingerprint:
    from initbench.inspection.fingerprint import fingerprint, read_fingerprint
    from initbench.inspection.source import model_source

    if side.endswith(".json"):
        if arguments:
            raise InitbenchError(f"{side}: is a fingerprint, to which {option} does not apply")
        return read_fingerprint(side)
    source = model_source(side, arguments_of(arguments, option), inputs=inputs)
    return fingerprint(source, seeds=seeds, inputs=inputs)
