"""`initbench list`: every initializer, architecture, scheme, task, dataset and probe with its arguments."""

from __future__ import annotations

from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json


def list_components(
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """List the initializers, architectures, schemes, tasks, datasets and probes with their arguments and defaults."""
    from initbench.registry import REGISTRIES

    load_plugins(plugin)
    if json:
        from initbench.cli.card import card

        print_json({r.kind: [card(r.find(name)) for name in r.names()] for r in REGISTRIES})
        return
    from rich.table import Table
    from rich.text import Text

    from initbench.cli.listing import argument_text, listing

    out = console()
    for registry in REGISTRIES:
        title = f"{registry.kind}s"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), title_style="bold")
        for column in ("name", "arguments", "what it is"):
            table.add_column(column, overflow="fold")
        for line in (listing(registry, name) for name in registry.names()):
            arguments = ", ".join(argument_text(a.name, a.type, a.required, a.default) for a in line.arguments)
            table.add_row(Text(line.name, style="cyan"), Text(arguments), Text(line.summary))
        out.print(table)
        out.print()
