"""Options of the commands that look at one model: `audit`, `diff` and `check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from initbench.cli.output import say
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs

if TYPE_CHECKING:
    from initbench.inspection.source import ModelSource
    from initbench.reporting.model_page import Result

MODEL_HELP = (
    "timm/NAME, torchvision/NAME, hf/NAME, one of initbench's architectures, or package.module:function, where the "
    "function returns the model."
)
Model = Annotated[str, typer.Argument(help=MODEL_HELP, metavar="MODEL")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--with", help="An argument of the model: --with depth=50.", metavar="KEY=VALUE"),
]
Weights = Annotated[
    str | None,
    typer.Option(help="A state dict to load into the model; no code in the file runs.", metavar="FILE"),
]
InputShape = Annotated[
    str | None,
    typer.Option(
        "--input",
        help="Shape of one sample: 3,224,224 for images, 128 for vectors or, with --vocabulary, for tokens.",
        metavar="SIZES",
    ),
]
Vocabulary = Annotated[int | None, typer.Option(min=1, help="Number of tokens, if inputs are tokens.", metavar="N")]
FailOn = Annotated[
    str | None,
    typer.Option(help="Exit with code 1 if the command reports one of these kinds; any for all.", metavar="KIND,..."),
]

Html = Annotated[
    Path | None,
    typer.Option(help="Write an offline page with tables and figures; needs initbench[suite].", metavar="FILE"),
]


def write_page(path: Path | None, title: str, result: Result) -> None:
    """Write the page of a result if a path is given, and say so on stderr."""
    if path is not None:
        from initbench.reporting.model_page import write_model_page

        write_model_page(path, title, result)
        say(f"{path}: written", to_stderr=True)


def source_of(
    model: str, arguments: list[str] | None, input_shape: str | None, vocabulary: int | None, weights: str | None
) -> ModelSource:
    """Return the source of the model that the options describe.

    Raises:
        InitbenchError: an option cannot be read, or there is no such model.
    """
    from initbench.inspection.source import model_source

    return model_source(model, arguments_of(arguments), inputs=inputs_of(input_shape, vocabulary), weights=weights)


def arguments_of(assignments: list[str] | None, option: str = "--with", example: str = "depth=50") -> dict[str, Any]:
    """Return arguments by name; values are read as YAML: ``norm=none`` is a text, ``depth=50`` a number.

    Raises:
        InitbenchError: one of them is no assignment; it names the option and gives the example.
    """
    from initbench.suite.document import parse_value

    read: dict[str, Any] = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise InitbenchError(f"{option} {assignment}: must be KEY=VALUE, such as {example}")
        read[name] = parse_value(value, f"{option} {assignment}")
    return read


def components_of(texts: list[str] | None, option: str) -> list[dict[str, Any]]:
    """Return components with their arguments, as in ``kaiming,orthogonal[gain=2]``.

    Raises:
        InitbenchError: an argument cannot be read, or a bracket is not closed.
    """
    components = []
    for part in _separated(",".join(texts or [])):
        name, bracket, rest = part.partition("[")
        if bracket and not rest.endswith("]"):
            raise InitbenchError(f"{option} {part}: must be NAME or NAME[KEY=VALUE,...], such as orthogonal[gain=2]")
        arguments = arguments_of(_separated(rest[:-1]), f"{option} {name}:", "gain=2")
        if "name" in arguments:  # a mapping with this key would be another component
            raise InitbenchError(f"{option} {part}: name is an unknown key")
        components.append({"name": name} | arguments)
    return components


def _separated(text: str) -> list[str]:
    """Return the parts between commas that are not within brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def inputs_of(shape: str | None, vocabulary: int | None) -> Inputs | None:
    if shape is None:
        if vocabulary is not None:
            raise InitbenchError("--vocabulary needs --input, the number of tokens")
        return None
    try:
        sizes = tuple(int(size) for size in shape.replace("x", ",").split(","))
        return Inputs(sizes, vocabulary)
    except (ValueError, ArgumentError):
        raise InitbenchError(f"--input {shape}: must be sizes of at least 1, such as 3,224,224") from None


def kinds_of(fail_on: str | None, known: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of `--fail-on`.

    Raises:
        InitbenchError: one of them is unknown.
    """
    from initbench.arguments import nearest

    kinds = frozenset(kind.strip() for kind in (fail_on or "").split(",") if kind.strip())
    if kinds == {"any"}:
        return frozenset(known)
    for kind in kinds:
        if kind not in known:
            raise InitbenchError(f"--fail-on: unknown kind {kind!r}{nearest(kind, known)}")
    return kinds
