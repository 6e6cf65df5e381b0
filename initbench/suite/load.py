"""From a suite file to a `Suite`: every name looked up, every argument checked, every list crossed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from initbench.arguments import Key, dotted, nearest, show
from initbench.comparing.treatments import factors
from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, Component, scheme_names
from initbench.suite.crossing import cross_arguments
from initbench.suite.document import Document, read
from initbench.suite.overrides import override
from initbench.suite.recipes import USE, cross_recipes
from initbench.suite.schema import (
    Checkpoints,
    Entry,
    Resources,
    Rule,
    entry_key,
    recipe_takes_a_list,
    validate,
)
from initbench.suite.spec import SCHEMA, ComponentSpec
from initbench.suite.tune import Search
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from initbench.claims.claim import Claim, Published
    from initbench.registry import Registry


@dataclass(frozen=True)
class Choice:
    """One component of a suite after crossing.

    Attributes:
        spec: the component, defaults resolved.
        key: where it stands in the file.
        component: what is registered under its name.
        scheme: of an architecture, the scheme that the suite asks for; of an initializer, the one that it needs (see
            `needed_scheme`); None for any.
        reading: of a dataset, the arguments that say how its files are read.
    """

    spec: ComponentSpec
    key: Key
    component: Component[Any]
    scheme: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """What a suite file asks for.

    Attributes:
        document: the file, for messages and to keep beside the results.
        name: the suite's name.
        description: the question that it answers.
        datasets: in the order of the file, as all that follow.
        architectures: likewise.
        initializers: likewise.
        compare: the factors whose values are compared (see `initbench.comparing.treatments`).
        recipes: fields that the file sets, or the recipe that it starts from, one mapping for each crossing; rules are
            applied to these.
        search: what is tuned; None where nothing is.
        rules: what depends on the pair.
        exclude: conditions of the pairs that do not run.
        probes: what is measured.
        seeds: the replicates.
        resources: what each trial takes.
        checkpoints: when trials under way are kept, and where; None for never.
        keep_checkpoints: what stays of the checkpoints of a trial that has a result.
        published: numbers of a paper; None for none.
        claims: of a paper.
    """

    document: Document
    name: str
    description: str
    datasets: tuple[Choice, ...]
    architectures: tuple[Choice, ...]
    initializers: tuple[Choice, ...]
    compare: tuple[str, ...]
    recipes: tuple[dict[str, Any], ...]
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
        """Return what a report needs of the suite, as ``resolved.json`` in its folder holds it."""
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


def load_suite(path: str | Path, assignments: Iterable[str] = (), seeds: int | None = None) -> Suite:
    """Read and check a suite file.

    Args:
        path: the YAML file.
        assignments: ``KEY=VALUE`` overrides, applied before anything is checked (see `initbench.suite.overrides`).
        seeds: the number of seeds, in place of the suite's.

    Raises:
        SuiteError: what is wrong, with file, line and key.
    """
    document = read(path)
    for assignment in assignments:
        override(document, assignment)
    if seeds is not None:
        override(document, f"seeds={seeds}", f"--seeds {seeds}")
    return suite_of(document)


def suite_of(document: Document) -> Suite:
    """Check a document; see `load_suite`."""
    file = validate(document)
    recipes = cross_recipes(document, file.recipe)
    for index, rule in enumerate(file.rules):
        _check_rule(document, rule, ("rules", index))
    # A dataset reads its files and an architecture needs the shape of the inputs: the driver and the planner try them.
    datasets = _section(document, "dataset", DATASETS, file.dataset, call=False)
    architectures = _section(document, "architectures", ARCHITECTURES, file.architectures, call=False)
    initializers = _section(document, "initializers", INITIALIZERS, file.initializers)
    probes = _section(document, "probes", PROBES, file.probes)
    names = [choice.spec.name for choice in initializers]
    search = None if file.tune is None else Search(document, file.tune, dict.fromkeys(names))
    _check_factors(
        document, file.compare, {"architecture": architectures, "initializer": initializers, "dataset": datasets}
    )
    tuned = set() if search is None else {own.key for own in search.ranges}
    if factor := next((own for own in file.compare if own in tuned), None):
        raise document.error(("compare",), f"{factor} is tuned: each treatment chooses its own, so it tells none apart")
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
        probes=tuple(choice.spec for choice in probes),
        seeds=tuple(file.seeds),
        resources=file.resources,
        checkpoints=file.checkpoints,
        keep_checkpoints=file.keep_checkpoints,
        published=file.published,
        claims=tuple(file.claims),
    )


def checked_spec(
    document: Document,
    component: Component[Any],
    arguments: Mapping[str, Any],
    key: Key,
    places: Mapping[str, Key] | None = None,
    *,
    call: bool = True,
) -> ComponentSpec:
    """Return a component with its arguments checked and its defaults filled in.

    Args:
        document: for messages.
        component: what is registered.
        arguments: as a suite or a spec has them.
        key: where the component stands.
        places: where arguments stand that are items of a list.
        call: whether the factory is asked too.

    Raises:
        SuiteError: an argument is unknown, of the wrong type or refused.
    """
    try:
        resolved = component.resolve(arguments)
        if call:
            component.call(resolved)
    except ArgumentError as error:
        raise document.argument_error(key, error, places) from error
    return ComponentSpec(**component.spec(resolved))


def needed_scheme(initializer: ComponentSpec) -> str | None:
    """Return the scheme that an initializer needs, or one of those that it starts from; None for any."""
    component = INITIALIZERS.get(initializer.name)
    nested = [initializer.arguments[name] for name in component.initializer_arguments]
    inner = (needed_scheme(ComponentSpec(**spec)) for spec in nested if spec is not None)
    return component.traits.scheme or next(filter(None, inner), None)


def _section(
    document: Document, section: str, registry: Registry[Any], entries: Iterable[Entry], *, call: bool = True
) -> tuple[Choice, ...]:
    """Return every combination of a section's entries."""
    choices: dict[tuple[str, str | None], Choice] = {}
    for index, entry in enumerate(entries):
        key = entry_key(document, section, index)
        component = _lookup(document, registry, entry.name, key)
        for crossed in cross_arguments(document, component, entry.arguments, key):
            arguments = crossed.arguments
            scheme = _asked_scheme(document, component, arguments, key) if registry is ARCHITECTURES else None
            spec = checked_spec(document, component, arguments, key, crossed.places, call=call)
            if registry is INITIALIZERS:
                scheme = needed_scheme(spec)
            same = (spec.model_dump_json(), scheme)
            if same in choices:
                raise document.error(key, f"the same {entry.name} stands twice in {section}")
            reading = component.reading(component.resolve(arguments)) if component.reading_arguments else {}
            choices[same] = Choice(spec, key, component, scheme, reading)
    return tuple(choices.values())


def _check_factors(document: Document, compare: Sequence[str], components: Mapping[str, Sequence[Choice]]) -> None:
    """Refuse a factor that nothing in the suite has, or that stands twice."""
    # As many trials as it takes for each component to stand in one.
    trials = [
        {kind: choices[min(n, len(choices) - 1)].spec.model_dump() for kind, choices in components.items()}
        | {"recipe": Recipe().model_dump()}
        for n in range(max(map(len, components.values())))
    ]
    known = factors(trials)
    for index, factor in enumerate(compare):
        key = entry_key(document, "compare", index)
        if factor not in known:
            raise document.error(key, f"no trial has {dotted((factor,))}{nearest(factor, known)}")
        if factor in compare[:index]:
            raise document.error(key, f"{factor} stands twice")


def _asked_scheme(document: Document, component: Component[Any], arguments: dict[str, Any], key: Key) -> str | None:
    """Take the scheme that a suite asks for out of an architecture's arguments."""
    scheme: str | None = arguments.pop("scheme", None)
    # One that this architecture or the scheme refuses is no mistake: the pair is incompatible.
    known = scheme_names(component)
    if scheme is not None and scheme not in known:
        hint = nearest(scheme, known, list_all=False) if isinstance(scheme, str) else ""
        raise document.error((*key, "scheme"), f"must be one of {', '.join(known)}; got {show(scheme)}{hint}")
    return scheme


def _lookup(document: Document, registry: Registry[Any], name: str, key: Key) -> Component[Any]:
    try:
        return registry.get(name)
    except UnknownNameError as error:
        raise document.error((*key, "name") if (*key, "name") in document.lines else key, str(error)) from error


def _check_rule(document: Document, rule: Rule, key: Key) -> None:
    if USE in rule.recipe:
        raise document.error((*key, "recipe", USE), "a rule sets fields; it cannot start from another recipe")
    for name, value in rule.recipe.items():
        if isinstance(value, list) and name in Recipe.model_fields and not recipe_takes_a_list(name):
            raise document.error((*key, "recipe", name), f"a rule sets one value, got {show(value)}")
    if "name" in rule.initializer:
        raise document.error((*key, "initializer", "name"), "a rule sets arguments; it cannot change the initializer")
