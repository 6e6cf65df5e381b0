"""From a suite file to a `Suite`: every name is looked up, every argument checked, every list crossed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from initbench.arguments import Key, dotted, nearest, show
from initbench.claims.claim import Claim, Published
from initbench.comparing.treatments import DEFAULT_COMPARE, factors
from initbench.errors import ArgumentError, DataError, UnknownNameError
from initbench.registry import (
    ARCHITECTURES,
    DATASETS,
    INITIALIZERS,
    PROBES,
    SCHEMES,
    TASKS,
    Component,
    Registry,
    scheme_arguments,
    scheme_names,
)
from initbench.suite.document import Document, Origin, read
from initbench.suite.overrides import override
from initbench.suite.part import (
    Part,
    RecipePart,
    cross,
    part_of,
    recipe_of,
    recipe_takes_a_list,
)
from initbench.suite.schema import Checkpoints, Entry, Resources, Rule, entry_key, validate
from initbench.suite.spec import SCHEMA, ComponentSpec, DatasetSpec
from initbench.suite.tuning import Search
from initbench.training.named_recipes import RECIPES
from initbench.training.recipe import Recipe

USE = "use"
"""The key that names the recipe from which a suite's recipe starts; it is not a field."""
# Fields that replace or define others: if the suite changes the first, the named recipe loses the others.
_BELONG_TO = {
    "epochs": ("steps",),
    "steps": ("epochs",),
    "warmup_epochs": ("warmup_steps", "shift_steps"),
    "warmup_steps": ("warmup_epochs", "shift_steps"),
    "shift_steps": ("warmup_epochs", "warmup_steps"),
    "schedule": ("milestones", "step_factor", "shift_steps"),
    "optimizer": ("momentum", "nesterov", "betas"),
}


@dataclass(frozen=True)
class Suite:
    """A suite file with its meaning; keys that are as in the file are described at `SuiteFile`.

    Datasets, and all other sections, have every combination of listed values, in the order of the file. Rules are
    applied to `recipes` later. The document is for messages, and is stored beside the results.
    """

    document: Document
    name: str
    description: str
    datasets: tuple[Part, ...]
    architectures: tuple[Part, ...]
    initializers: tuple[Part, ...]
    compare: tuple[str, ...]
    recipes: tuple[RecipePart, ...]
    search: Search | None
    rules: tuple[Rule, ...]
    exclude: tuple[dict[str, Any], ...]
    probes: tuple[ComponentSpec, ...]
    seeds: tuple[int, ...]
    resources: Resources
    checkpoints: Checkpoints | None = None
    keep_checkpoints: Literal["none", "last"] = "none"
    published: Published | None = None
    claims: tuple[Claim, ...] = ()

    def resolved(self) -> dict[str, Any]:
        """Return the part of the suite that a report needs, the content of ``resolved.json``."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "description": self.description,
            "compare": list(self.compare),
            **({} if self.search is None else {"tune": self.search.resolved()}),
            **({} if self.published is None else {"published": self.published.model_dump(mode="json")}),
            **({"claims": [claim.model_dump(mode="json") for claim in self.claims]} if self.claims else {}),
            **({"seeds": len(self.seeds)} if self.claims else {}),
        }

    @property
    def defaults(self) -> dict[str, dict[str, int | float]]:
        """Initializer → argument → default, of the arguments that a smoke run shortens because they may take long."""
        known = {
            part.spec.name: {
                argument.name: argument.default
                for argument in part.component.arguments
                if argument.name in part.component.traits.smoke and isinstance(argument.default, int | float)
            }
            for part in self.initializers
        }
        return {name: arguments for name, arguments in known.items() if arguments}


def load_suite(path: str | Path, assignments: Iterable[str] = (), seeds: int | None = None) -> Suite:
    """Read and check a suite file; an invalid one raises a SuiteError with file, line and key.

    `assignments` are ``KEY=VALUE`` overrides, applied before any check (see `initbench.suite.overrides`); `seeds` is
    the number of seeds, instead of the suite's.
    """
    document = read(path)
    for assignment in assignments:
        override(document, assignment)
    if seeds is not None:
        override(document, f"seeds={seeds}", f"--seeds {seeds}")
    return suite_of(document)


def suite_of(document: Document) -> Suite:
    file = validate(document)
    recipes = _cross_recipes(document, file.recipe)
    for index, rule in enumerate(file.rules):
        _check_rule(document, rule, ("rules", index))
    # Datasets read files and architectures need the shape of the inputs: the driver and the planner try them later.
    datasets = _section(document, "dataset", DATASETS, file.dataset, call=False)
    architectures = _section(document, "architectures", ARCHITECTURES, file.architectures, call=False)
    initializers = _section(document, "initializers", INITIALIZERS, file.initializers)
    probes = _section(document, "probes", PROBES, file.probes)
    names = dict.fromkeys(part.spec.name for part in initializers)
    search = None if file.tune is None else Search(document, file.tune, names)
    components = {"architecture": architectures, "initializer": initializers, "dataset": datasets}
    if tuple(file.compare) != DEFAULT_COMPARE:
        _check_factors(document, file.compare, components, recipes[0].recipe)
    tuned = set() if search is None else {tuned.key for tuned in search.ranges}
    if factor := next((factor for factor in file.compare if factor in tuned), None):
        raise document.error(("compare",), f"{factor} is tuned, so each treatment has its own value")
    return Suite(
        document=document,
        name=file.name,
        description=file.description,
        datasets=datasets,
        architectures=architectures,
        initializers=initializers,
        compare=tuple(file.compare),
        recipes=recipes,
        search=search,
        rules=tuple(file.rules),
        exclude=tuple(file.exclude),
        probes=tuple(part.spec for part in probes),
        seeds=tuple(file.seeds),
        resources=file.resources,
        checkpoints=file.checkpoints,
        keep_checkpoints=file.keep_checkpoints,
        published=file.published,
        claims=tuple(file.claims),
    )


def describe_datasets(suite: Suite) -> tuple[Part, ...]:
    """Return each dataset of a suite, in order, with its inputs and outputs, or with the files that it lacks.

    The driver does this once, before the plan, because it may read files.
    """
    from initbench.data.load import describe_component

    described = []
    for part in suite.datasets:
        try:
            known = describe_component(part.component, part.values)
            task = known.task or part.component.traits.task
            TASKS.get(task)
        except ArgumentError as error:
            raise part.origin.argument_error(error) from error
        except UnknownNameError as error:
            raise part.origin.error(str(error)) from error
        except DataError as error:
            described.append(replace(part, absent=error))
            continue
        spec = DatasetSpec(
            **dict(part.spec),
            task=task,
            inputs=known.inputs,
            outputs=known.outputs,
            content=known.content,
            reading=part.component.reading(part.values),
        )
        absent = None if known.absent is None else DataError(known.absent)
        described.append(replace(part, described=spec, absent=absent))
    return tuple(described)


def _section(
    document: Document, section: str, registry: Registry[Any], entries: Iterable[Entry], *, call: bool = True
) -> tuple[Part, ...]:
    parts: dict[tuple[str, str | None, str], Part] = {}
    for index, entry in enumerate(entries):
        key = entry_key(document, section, index)
        try:
            component = registry.get(entry.name)
        except UnknownNameError as error:
            named = (*key, "name")
            raise document.error(named if named in document.lines else key, str(error)) from error
        nested: dict[str, Registry[Any]] = dict.fromkeys(component.initializer_arguments, INITIALIZERS)
        if registry is ARCHITECTURES:
            nested["scheme"] = SCHEMES
        for arguments, origin in cross(document, entry.model_extra or {}, key, component.takes_a_list, nested):
            written = arguments.pop("scheme", None) if registry is ARCHITECTURES else None
            scheme = (None, {}) if written is None else _scheme(component, written, origin)
            part = part_of(component, arguments, origin, scheme=scheme, call=call)
            same = (part.spec.model_dump_json(), part.scheme, json.dumps(part.scheme_arguments, sort_keys=True))
            if same in parts:
                raise document.error(key, f"the same {entry.name} is given twice in {section}")
            parts[same] = part
    return tuple(parts.values())


def _scheme(architecture: Component[Any], written: Any, origin: Origin) -> tuple[str | None, Mapping[str, Any]]:
    """Return the name of a scheme and its arguments that are not at their defaults; `written` is a suite's value."""
    arguments = {}
    if isinstance(written, dict):
        arguments = {argument: value for argument, value in written.items() if argument != "name"}
        if "name" not in written:
            problem = f"must be a name or a mapping {{name: ...}}, got {show(written)}"
            raise origin.argument_error(ArgumentError(problem, "scheme"))
    name = written["name"] if isinstance(written, dict) else written
    known = scheme_names(architecture)
    if name not in known:
        hint = nearest(name, known, list_all=False) if isinstance(name, str) else ""
        raise origin.argument_error(
            ArgumentError(f"must be one of {', '.join(known)}; got {show(name)}{hint}", "scheme")
        )
    # A scheme that this architecture refuses is not an error: the pair is incompatible.
    try:
        return name, scheme_arguments(architecture, name, arguments)
    except ArgumentError as error:
        raise origin.argument_error(error) from error


def _cross_recipes(document: Document, written: Mapping[str, Any]) -> tuple[RecipePart, ...]:
    """Return every recipe of a suite.

    ``use`` names a registered recipe or a list of them; the other keys are set on top. If the suite sets a field that
    replaces or redefines another one, the named recipe's value of the other is dropped: ``steps`` replaces its
    ``epochs``, and another ``schedule`` drops its ``milestones``.
    """
    key: Key = ("recipe",)
    named = written.get(USE, [])
    for index, name in enumerate(named if isinstance(named, list) else [named]):
        at = (*key, USE, index) if isinstance(named, list) else (*key, USE)
        if not isinstance(name, str):
            raise document.error(at, f"must be the name of a recipe, got {show(name)}")
        try:
            RECIPES.get(name)
        except UnknownNameError as error:
            raise document.error(at, str(error)) from error
    parts: list[RecipePart] = []
    for asked, _ in cross(document, written, key, recipe_takes_a_list):
        fields = _on_named(asked) if USE in asked else asked
        recipe = recipe_of(document, fields, key)
        if USE in written and any(recipe == part.recipe for part in parts):
            problem = f"gives the same recipe twice, the second time with {asked[USE]}"
            raise document.error((*key, USE), problem)
        parts.append(RecipePart(fields, recipe))
    return tuple(parts)


def _on_named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a combination on top of the recipe that it starts from."""
    named = RECIPES.get(fields[USE]).fields
    known = Recipe.model_fields
    defaults = {name: known[name].default if name in known else None for name in fields}
    changed = {name for name in fields if fields[name] != named.get(name, defaults[name])}
    gone = {other for name in changed for other in _BELONG_TO.get(name, ())}
    kept = {name: value for name, value in named.items() if name not in gone}
    return kept | {name: value for name, value in fields.items() if name != USE}


def _check_factors(
    document: Document, compare: Sequence[str], components: Mapping[str, Sequence[Part]], recipe: Recipe
) -> None:
    """Refuse a factor that no trial has, or that is given twice."""
    # Enough trials that each component occurs in one.
    trials = [
        {kind: parts[min(n, len(parts) - 1)].spec.model_dump() for kind, parts in components.items()}
        | {"recipe": recipe.model_dump()}
        for n in range(max(map(len, components.values())))
    ]
    known = factors(trials)
    for index, factor in enumerate(compare):
        key = entry_key(document, "compare", index)
        if factor not in known:
            raise document.error(key, f"no trial has {dotted((factor,))}{nearest(factor, known)}")
        if factor in compare[:index]:
            raise document.error(key, f"{factor} is given twice")


def _check_rule(document: Document, rule: Rule, key: Key) -> None:
    if USE in rule.recipe:
        raise document.error((*key, "recipe", USE), "a rule sets fields; it cannot start from another recipe")
    for name, value in rule.recipe.items():
        if isinstance(value, list) and name in Recipe.model_fields and not recipe_takes_a_list(name):
            raise document.error((*key, "recipe", name), f"a rule sets one value, got {show(value)}")
    if "name" in rule.initializer:
        raise document.error((*key, "initializer", "name"), "a rule sets arguments; it cannot change the initializer")
