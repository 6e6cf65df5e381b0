"""`initbench list`: every initializer, architecture, scheme, task, dataset, probe and recipe with its arguments.

Importing the components imports torch, which takes seconds. `ast` reads names, arguments and summaries from the source
in milliseconds; only annotations and defaults are evaluated. The result equals the one that `inspect` gives.
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from initbench.arguments import show, type_text
from initbench.cli.options import Debug, Json, Plugins, console, load_plugins, print_json
from initbench.registry import REGISTRIES, Argument, Component, Registry
from initbench.registry.component import as_a_user_writes_it

_PACKAGE = Path(__file__).parents[1]
_REGISTRY = "initbench.registry"
_INIT = "__init__"


@dataclass(frozen=True)
class Listing:
    name: str
    arguments: tuple[Argument, ...]
    summary: str


def listing(registry: Registry[Any], name: str) -> Listing:
    """Return the listing of a component; import it only if its source is not enough."""
    if name in registry.builtins:
        with suppress(Exception):  # the source may use a construct that this reader does not know
            return read_source(registry, name)
    return of_component(registry.find(name))


def of_component(component: Component[Any]) -> Listing:
    return Listing(component.name, component.arguments, component.summary)


def read_source(registry: Registry[Any], name: str) -> Listing:
    """Return the listing of a component of the library, from its source.

    Raise any exception if the source is not as expected: no such decorator, or an expression that needs an import.
    """
    module = _source(registry.builtins[name])
    definition = module.registered(f"register_{registry.kind}", name)
    arguments = module.arguments(definition, registry.supplied)
    if name.endswith("/*"):
        arguments = arguments[1:]  # for a family, the name of the member
    summary = (ast.get_docstring(definition) or "").partition("\n")[0]
    return Listing(name, tuple(arguments), summary)


class _Source(dict[str, Any]):
    """The names of a module's top level, each evaluated at its first use."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__()
        self.tree = tree

    def registered(self, decorator: str, name: str) -> ast.FunctionDef | ast.ClassDef:
        for node in self.tree.body:
            for call in node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else ():
                if (
                    isinstance(call, ast.Call)
                    and ast.unparse(call.func) == decorator
                    and self.value(call.args[0]) == name
                ):
                    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
                    return node
        raise LookupError(name)

    def arguments(self, definition: ast.FunctionDef | ast.ClassDef, without: Collection[str]) -> list[Argument]:
        """Return the arguments of a function or of a class's constructor, except those in `without`."""
        if isinstance(definition, ast.ClassDef):
            constructors = [
                node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == _INIT
            ]
            if not constructors:
                return []  # a task
            definition, without = constructors[0], {*without, "self"}
        given = definition.args
        positional = [*given.posonlyargs, *given.args]
        required = [None] * (len(positional) - len(given.defaults))
        defaults = [*required, *given.defaults, *given.kw_defaults]
        return [
            Argument(
                node.arg,
                type_text(inspect.Parameter.empty if node.annotation is None else self.value(node.annotation)),
                inspect.Parameter.empty if default is None else as_a_user_writes_it(self.value(default)),
            )
            for node, default in zip([*positional, *given.kwonlyargs], defaults, strict=True)
            if node.arg not in without
        ]

    def value(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<source>", "eval"), {}, self)  # noqa: S307

    def __missing__(self, name: str) -> Any:
        """Evaluate a name; an unknown one may be a builtin."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                self[name] = self.value(node.value)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        self[name] = _imported(node, alias.name)
        if name in self:
            return self[name]
        raise KeyError(name)


@cache
def _source(module: str) -> _Source:
    path = _PACKAGE.parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            # Keeps only the docstring and the arguments, because each garbage collection visits all objects.
            node.body = [node.body[0], *(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == _INIT)]
    return _Source(tree)


def _imported(node: ast.Import | ast.ImportFrom, name: str) -> Any:
    """Return the result of an import statement.

    Our modules are read, except the registry, which is already imported; of other modules only the standard library
    is imported.
    """
    module = name if isinstance(node, ast.Import) else str(node.module)
    if module == _REGISTRY:
        return getattr(sys.modules[module], name)
    if module.partition(".")[0] == _PACKAGE.name:
        return _source(module)[name]
    if module.partition(".")[0] not in sys.stdlib_module_names:
        raise ImportError(module)
    imported = importlib.import_module(module)
    return imported if isinstance(node, ast.Import) else getattr(imported, name)


def argument_text(name: str, type_name: str, required: bool, default: Any) -> str:
    """Return ``name: type = default``; required arguments have no default, and fields of recipes no type."""
    return name + (f": {type_name}" if type_name else "") + ("" if required else f" = {show(default)}")


def list_components(
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """List the initializers, architectures, schemes, tasks, datasets, probes and recipes with their arguments."""
    from initbench.training.named_recipes import RECIPES

    load_plugins(plugin)
    if json:
        from initbench.cli.card import card, recipe_card

        cards = {r.kind: [card(r.find(name)) for name in r.names()] for r in REGISTRIES}
        print_json(cards | {RECIPES.kind: [recipe_card(RECIPES.get(name)) for name in RECIPES.names()]})
        return
    from rich.table import Table
    from rich.text import Text

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
        (recipe.name, ", ".join(f"{name} = {show(value)}" for name, value in recipe.fields.items()), recipe.summary)
        for recipe in map(RECIPES.get, RECIPES.names())
    ]
    for title, lines in sections.items():
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), title_style="bold")
        for column in ("name", "fields" if title == "recipes" else "arguments", "what it is"):
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for name, arguments, summary in lines:
            table.add_row(Text(name, style="cyan"), Text(arguments), Text(summary))
        out.print(table)
        out.print()
