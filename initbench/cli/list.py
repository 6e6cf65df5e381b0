"""`initbench list`: every initializer, architecture, dataset and probe with its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json

if TYPE_CHECKING:
    from initbench.registry import Component


def list_components(
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """List the initializers, architectures, datasets and probes with their arguments and defaults."""
    from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES

    load_plugins(plugin)
    found = {
        registry.kind: [registry.find(name) for name in registry.names()]
        for registry in (INITIALIZERS, ARCHITECTURES, DATASETS, PROBES)
    }
    if json:
        print_json({kind: [card(c) for c in components] for kind, components in found.items()})
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    for kind, components in found.items():
        table = Table(title=f"{kind}s", title_justify="left", box=None, padding=(0, 2, 0, 0), title_style="bold")
        for column in ("name", "arguments", "what it is"):
            table.add_column(column, overflow="fold")
        for component in components:
            arguments = ", ".join(argument_text(a) for a in card(component)["arguments"])
            table.add_row(Text(component.name, style="cyan"), Text(arguments), Text(component.summary))
        out.print(table)
        out.print()


def card(component: Component[Any]) -> dict[str, Any]:
    """Return what is known of a component as plain data."""
    from initbench import plugins

    traits = component.traits
    arguments = [
        {"name": a.name, "type": a.type, "required": a.required, "default": None if a.required else a.default}
        for a in component.arguments
    ]
    if getattr(traits, "kind", "") == "tuner":
        arguments += [
            {"name": "base", "type": "distribution", "required": False, "default": traits.base},
            {"name": "batch_size", "type": "int", "required": False, "default": traits.batch_size},
        ]
    return {
        "kind": component.kind,
        "name": component.name,
        "summary": component.summary,
        "version": component.version,
        "arguments": arguments,
        "reference": traits.reference,
        "documentation": component.documentation,
        "from": plugins.origin(component.module),
    }


def argument_text(argument: dict[str, Any]) -> str:
    """Return an argument as ``name: type = default``."""
    from initbench.validation import show

    default = "" if argument["required"] else f" = {show(argument['default'])}"
    return f"{argument['name']}: {argument['type']}{default}"
