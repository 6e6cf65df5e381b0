"""`initbench list`: every initializer, architecture, scheme, task, dataset, probe and recipe with its arguments."""

from __future__ import annotations

from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json


def list_components(
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """List the initializers, architectures, schemes, tasks, datasets, probes and recipes with their arguments."""
    from initbench.registry import REGISTRIES
    from initbench.training.named_recipes import RECIPES

    load_plugins(plugin)
    if json:
        from initbench.cli.card import card, recipe_card

        cards = {r.kind: [card(r.find(name)) for name in r.names()] for r in REGISTRIES}
        print_json(cards | {RECIPES.kind: [recipe_card(RECIPES.get(name)) for name in RECIPES.names()]})
        return
    from rich.table import Table
    from rich.text import Text

    from initbench.arguments import show
    from initbench.cli.listing import argument_text, listing

    out = console()
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for registry in REGISTRIES:
        sections[f"{registry.kind}s"] = [
            (
                line.name,
                ", ".join(argument_text(a.name, a.type, a.required, a.default) for a in line.arguments),
                line.summary,
            )
            for line in (listing(registry, name) for name in registry.names())
        ]
    sections[f"{RECIPES.kind}s"] = [
        (own.name, ", ".join(f"{name} = {show(value)}" for name, value in own.fields.items()), own.summary)
        for own in map(RECIPES.get, RECIPES.names())
    ]
    for title, lines in sections.items():
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), title_style="bold")
        for column in ("name", "fields" if title == "recipes" else "arguments", "what it is"):
            table.add_column(column, overflow="fold")
        for name, arguments, summary in lines:
            table.add_row(Text(name, style="cyan"), Text(arguments), Text(summary))
        out.print(table)
        out.print()
