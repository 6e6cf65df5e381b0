"""`initbench describe NAME`: the description of one component."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from initbench.arguments import nearest
from initbench.cli.list import argument_text
from initbench.cli.options import Debug, Json, Plugins, load_plugins, print_json
from initbench.errors import UnknownNameError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import REGISTRIES

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 80


def describe(
    name: Annotated[
        str,
        typer.Argument(help="An initializer, architecture, scheme, task, dataset, probe or recipe.", metavar="NAME"),
    ],
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Describe a component: its purpose, requirements, arguments and reference, and how to write it in a suite.

    For an architecture, also print its structure with default arguments: layers, residual branches, heads and norms.
    """
    from initbench.cli.card import card, recipe_card, structure_of_default
    from initbench.training.named_recipes import RECIPES

    load_plugins(plugin)
    cards = []
    for registry in REGISTRIES:
        try:
            component = registry.find(name)
        except UnknownNameError:
            # If the prefix of a family is right, the member is misspelled, and that registry's message is the best.
            if "/" in name and name.partition("/")[0] + "/*" in registry.names():
                raise
            continue
        cards.append(card(component))
        known = structure_of_default(component) if component.kind == "architecture" else None
        if known is not None:
            cards[-1] |= {"structure": str(known[1]).splitlines(), "structure_inputs": known[0].to_json()}
    if name in RECIPES.names():
        cards.append(recipe_card(RECIPES.get(name)))
    if not cards:
        names = [known for registry in REGISTRIES for known in registry.names()] + RECIPES.names()
        raise UnknownNameError(f"unknown name {name!r}{nearest(name, names)}")
    if json:
        print_json(cards)
        return
    from initbench.cli.console import VisibleConsole

    # Longer lines are hard to read, even on a wider terminal.
    out = VisibleConsole(highlight=False, emoji=False, width=min(_WIDTH, VisibleConsole().width))
    for index, entry in enumerate(cards):
        if index:
            out.rule()
        _print(out, entry)


def _print(out: Console, card: dict[str, Any]) -> None:
    version = "" if card["version"] is None else f", version {card['version']}"
    _say(out, f"{card['name']} ({card['kind']}{version})", style="bold")
    for paragraph in filter(None, (card["summary"], *card["text"])):
        _say(out, f"{paragraph}\n")
    sentences = _sentences(card["kind"], card["declared"])
    for sentence in sentences:
        _say(out, sentence)
    blank = "\n" if sentences else ""
    what = "fields" if card["kind"] == "recipe" else "arguments"
    _say(out, blank + (what.capitalize() if card["arguments"] else f"No {what}."), style="bold")
    for argument in card["arguments"]:
        text = argument_text(argument["name"], argument["type"], argument["required"], argument["default"])
        _say(out, text + (" (required)" if argument["required"] else ""), indent=2, style="cyan")
        _say(out, argument["description"], indent=6)
    if "structure" in card:
        inputs = Inputs.from_json(card["structure_inputs"])
        _lines(out, f"\nStructure, for samples of {inputs}", card["structure"])
    if card["raises"]:
        _lines(out, "\nErrors", [f"{error}: {when}" for error, when in card["raises"].items()])
    if card["suite"]:
        _say(out, "\nIn a suite", style="bold")
    for line in card["suite"].splitlines():
        before, brace, after = line.partition("{")
        _say(out, before + brace + after.replace(": ", ":\N{NO-BREAK SPACE}"), indent=2, hanging=len(before + brace))
    if card["reference"]:
        _say(out, f"\nReference: {card['reference']}")
    line = "" if card["line"] is None else f", line {card['line']}"
    _say(out, f"{'' if card['reference'] else chr(10)}Defined in {card['from']}{line}")


def _lines(out: Console, title: str, lines: list[str]) -> None:
    _say(out, title, style="bold")
    for line in lines:
        _say(out, line, indent=2)


def _say(out: Console, text: str, *, indent: int = 0, hanging: int = 0, style: str = "") -> None:
    """Print a paragraph or lines of a suite so that they can be pasted: no word is broken and no line ends in spaces.

    Newlines before and after the text are kept; lines do not break at a no-break space.
    """
    from rich.text import Text

    words = text.strip("\n")
    lines = textwrap.wrap(
        words.replace("``", "`"),
        out.width,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
    shown = "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")
    if shown:
        out.print(Text(text.replace(words, shown), style=style), soft_wrap=True)


def _sentences(kind: str, declared: dict[str, Any]) -> list[str]:
    if kind == "initializer":
        scheme = declared["scheme"]
        return [_what_it_does(declared), f"Needs the scheme {scheme}." if scheme else "Runs on any scheme."]
    if kind == "architecture":
        taken = [f"Input: {declared['input']}"] if declared["input"] else []
        schemes = declared["builds_schemes"]
        built = [f"Builds {' and '.join(schemes)} itself; other schemes are inserted."] if schemes else []
        return [f"Tasks: {', '.join(declared['tasks'])}.", *built, *taken]
    if kind == "scheme":
        return _where_it_stands(declared)
    if kind == "task":
        return [_metric_sentence(Metric.from_json(metric)) for metric in declared["metrics"]]
    if kind == "dataset":
        known = "inputs" in declared
        sample = f" Samples of {Inputs.from_json(declared['inputs'])}, {declared['outputs']} outputs." if known else ""
        return [f"Task: {declared['task']}.{sample}"]
    return []


def _what_it_does(declared: dict[str, Any]) -> str:
    data = f"batches of {declared['data']} data" if declared["data"] else "no data"
    optimizer = " It reads the optimizer of the recipe." if declared["reads_optimizer"] else ""
    if declared["starts_from"]:
        arguments = " and ".join(declared["starts_from"])
        return f"A tuner: it takes another initializer ({arguments}) and adjusts its result with {data}.{optimizer}"
    if declared["data"]:
        return f"It sets the parameters from {data}.{optimizer}"
    return f"A distribution: it draws the parameters, takes no data and costs no forward or backward pass.{optimizer}"


def _where_it_stands(declared: dict[str, Any]) -> list[str]:
    norm = "It replaces normalization."
    kept = "A model without normalization computes the same function with it."
    biases = "It adds biases, so convolutions have none."
    stated = {"instead_of_norm": norm, "keeps_function": kept, "brings_biases": biases}
    included = [f"It has all parts of {declared['includes']}."] if declared["includes"] else []
    return [sentence for name, sentence in stated.items() if declared[name]] + included


def _metric_sentence(metric: Metric) -> str:
    best = "" if metric.best is None else f", at best {metric.text(metric.best)}"
    primary = " It is the outcome of a trial." if metric.primary else ""
    return f"Metric {metric.name}: {metric.better} is better{best}.{primary}"
