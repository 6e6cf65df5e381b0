"""`initbench describe NAME`: the card of one component."""

from __future__ import annotations

from typing import Annotated

import typer

from initbench.cli.options import Debug, Json, Plugins, load_plugins, print_json
from initbench.errors import UnknownNameError


def describe(
    name: Annotated[str, typer.Argument(help="An initializer, architecture, dataset or probe.", metavar="NAME")],
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Describe a component: what it is, its arguments with their defaults, its reference."""
    from initbench.cli.list import argument_text, card
    from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES
    from initbench.validation import nearest

    load_plugins(plugin)
    registries = (INITIALIZERS, ARCHITECTURES, DATASETS, PROBES)
    cards = []
    for registry in registries:
        try:
            cards.append(card(registry.find(name)))
        except UnknownNameError:
            # A member of a family is misspelled where its prefix is right: that registry's own message is the best.
            if "/" in name and name.partition("/")[0] + "/*" in registry.names():
                raise
    if not cards:
        raise UnknownNameError(f"unknown name {name!r}{nearest(name, [n for r in registries for n in r.names()])}")
    if json:
        print_json(cards)
        return
    for found in cards:
        typer.secho(f"{found['name']} ({found['kind']}, version {found['version']})", bold=True)
        typer.echo(found["documentation"].strip())
        typer.echo("\nArguments:" if found["arguments"] else "\nNo arguments.")
        for argument in found["arguments"]:
            typer.echo(f"  {argument_text(argument)}")
        if found["reference"]:
            typer.echo(f"\nReference: {found['reference']}")
        typer.echo(f"Defined in {found['from']}")
