"""The description of a component as plain data, which `initbench describe` and `initbench list --json` print."""

from __future__ import annotations

import inspect
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initbench import plugins
from initbench.arguments import show
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Component
from initbench.training.named_recipes import NamedRecipe

if TYPE_CHECKING:
    from initbench.structure.find import Structure


_SECTIONS = {
    "initializer": "initializers:\n  - {}",
    "architecture": "architectures:\n  - {}",
    "dataset": "dataset: {}",
    "probe": "probes:\n  - {}",
    "scheme": "architectures:\n  - {}",
}
# Plain words that YAML 1.1 or 1.2 does not read as text.
_NOT_A_TEXT = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}
_HEADER = re.compile(r"(Args|Arguments|Attributes|Example|Examples|Note|Raises|Returns|Yields):$")
_ENTRY = re.compile(r"(\*{0,2}[\w.]+)(?: \([^)]*\))?:(?:\s+(.*))?$")
# Tried in this order: images of the size of CIFAR and of ImageNet, bytes of text, and pairs of sentences.
_INPUTS = (Inputs((3, 32, 32)), Inputs((3, 224, 224)), Inputs((16,), 256), Inputs((2, 16), 256))
_CLASSES = 10


def card(component: Component[Any]) -> dict[str, Any]:
    """Return the description of a component.

    ``text`` has paragraphs, ``declared`` the properties and requirements by kind, ``raises`` error → when, ``from`` a
    module or a plug-in's file, ``line`` the line in it, and ``suite`` lines that can be pasted into a suite.
    """
    docstring = parse(component.documentation)
    line = None  # of the definition in its module; a notebook has no source to read
    with suppress(OSError, TypeError):
        line = inspect.getsourcelines(component.definition)[1]
    arguments = [
        {
            "name": a.name,
            "type": a.type,
            "required": a.required,
            "default": None if a.required else a.default,
            "description": docstring.arguments.get(a.name, ""),
        }
        for a in component.arguments
    ]
    return {
        "kind": component.kind,
        "name": component.name,
        "version": component.version,
        "summary": component.summary,
        "text": docstring.text,
        "declared": _declared(component, docstring),
        "arguments": arguments,
        "raises": docstring.raises,
        "reference": component.traits.reference,
        "from": plugins.origin(component.module),
        "line": line,
        "suite": _suite_lines(component, arguments),
    }


def recipe_card(recipe: NamedRecipe) -> dict[str, Any]:
    """Return the description of a recipe as `card` does for a component: the recipe's fields are its arguments.

    A recipe has no version, because a trial stores only the values of the fields.
    """
    arguments = [
        {"name": name, "type": "", "required": False, "default": value, "description": recipe.sources.get(name, "")}
        for name, value in recipe.fields.items()
    ]
    return {
        "kind": "recipe",
        "name": recipe.name,
        "version": None,
        "summary": recipe.summary,
        "text": parse(recipe.description).text,
        "declared": {},
        "arguments": arguments,
        "raises": {},
        "reference": recipe.reference,
        "from": plugins.origin(recipe.origin),
        "line": None,
        "suite": f"recipe: {{use: {_yaml(recipe.name)}}}",
    }


def _declared(component: Component[Any], docstring: Docstring) -> dict[str, Any]:
    traits = component.traits
    if component.kind == "initializer":
        return {
            "starts_from": list(component.initializer_arguments),
            "data": traits.data,
            "scheme": traits.scheme,
            "reads_optimizer": traits.reads_optimizer,
        }
    if component.kind == "architecture":
        return {
            "tasks": list(traits.tasks),
            "builds_schemes": list(traits.schemes),
            "input": docstring.arguments.get("inputs", ""),
        }
    if component.kind == "scheme":
        return {
            "instead_of_norm": traits.instead_of_norm,
            "keeps_function": traits.keeps_function,
            "brings_biases": traits.brings_biases,
            "includes": traits.includes,
        }
    if component.kind == "task":
        task: Any = component.definition
        metrics = [metric.to_json() for metric in (*task.metrics, *task.final_metrics)]
        return {"metrics": metrics, "recipe_fields": sorted(task.recipe_fields)}
    if component.kind == "dataset":
        sample = {}
        with suppress(InitbenchError, ValueError):  # its files are needed and absent, or its defaults are refused
            described = traits.describe(**component.resolve({}))
            sample = {"inputs": described.inputs.to_json(), "outputs": described.outputs}
        return {"task": traits.task, **sample}
    return {}


def _suite_lines(component: Component[Any], arguments: list[dict[str, Any]]) -> str:
    """Return the component as an entry of a suite, with every argument at its default.

    A required argument has its type in angle brackets. The text is empty for a task, because suites name only datasets.
    """
    if component.kind not in _SECTIONS:
        return ""
    name = component.name
    values = {a["name"]: f"<{a['type']}>" if a["required"] else a["default"] for a in arguments}
    if component.kind == "scheme":
        scheme = {"name": name, **values} if values else name
        return _SECTIONS["scheme"].format(_yaml({**component.traits.example, "scheme": scheme}))
    if name.endswith("/*"):
        name = name.removesuffix("*") + (component.traits.example or "NAME")
    entry = {"name": name, **values}
    return _SECTIONS[component.kind].format(_yaml(entry if values else name))


def _yaml(value: Any) -> str:
    """Return a value as YAML in flow style, in the plainest form that reads back as the same value."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_yaml(key)}: {_yaml(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_][\w./-]*", value) and value.lower() not in _NOT_A_TEXT
        return value if plain else json.dumps(value, ensure_ascii=False)
    return show(value)


@dataclass
class Docstring:
    text: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    raises: dict[str, str] = field(default_factory=dict)


def parse(docstring: str) -> Docstring:
    """Split a docstring without indentation, as `inspect.getdoc` returns it, into its parts."""
    result = Docstring()
    sections = {"Args": result.arguments, "Arguments": result.arguments, "Raises": result.raises}
    # Other sections are skipped.
    entries: dict[str, str] | None = None
    latest: str | None = None
    paragraph = ""
    for line in [*docstring.splitlines()[1:], ""]:
        words = line.strip()
        header = _HEADER.match(line)
        if header:
            entries, latest = sections.get(header[1], {}), None
        elif entries is not None and words and line.startswith(" "):
            entry = _ENTRY.match(words) if not line.startswith(" " * 5) else None
            if entry:
                latest = entry[1].lstrip("*")
                entries[latest] = " ".join(filter(None, [entries.get(latest), entry[2]]))
            elif latest is not None:
                entries[latest] = f"{entries[latest]} {words}".strip()
        elif words:
            entries, paragraph = None, f"{paragraph} {words}".strip()
        if paragraph and (not words or header):
            result.text.append(paragraph)
            paragraph = ""
    return result


def structure_of_default(component: Component[Any]) -> tuple[Inputs, Structure] | None:
    """Return the structure of an architecture with default arguments, and the inputs with which it was determined.

    Nothing is computed, because the model is on the meta device. Return None for a family of architectures, if an
    argument has no default, or if the model accepts no `_INPUTS`.
    """
    import torch

    from initbench.architectures.create import build_model
    from initbench.models.batches import zero_inputs
    from initbench.structure.find import find_structure

    if component.name.endswith("/*") or any(argument.required for argument in component.arguments):
        return None
    for inputs in _INPUTS:
        # A constructor may need numbers, which the meta device lacks.
        with suppress(Exception), torch.device("meta"):
            model = build_model(component, component.resolve({}), inputs, inputs.vocabulary or _CLASSES, STANDARD)
            return inputs, find_structure(model, zero_inputs(inputs, model))
    return None
