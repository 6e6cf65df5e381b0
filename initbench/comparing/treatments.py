"""The comparison of a suite: the treatment of each trial, and the workload on which treatments are compared.

`compare` is a list of factors, by default the initializer. A factor covers the key that it names and the keys below it:
``initializer`` covers ``initializer.steps``. The covered keys make the treatment; all others but the seed make the
workload. A scheme that an initializer brings belongs to the initializer, a scheme in the suite to the architecture.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from initbench.arguments import nearest
from initbench.comparing.keys import COMPONENTS, Key
from initbench.comparing.labels import (
    ALWAYS,
    arguments_of,
    ignored_arguments,
    ignored_keys,
    nested_components,
    scheme_of,
    shown_components,
    tuned_keys,
    with_contents,
)
from initbench.errors import InitbenchError

Spec = Mapping[str, Any]

DEFAULT_COMPARE = ("initializer",)


class Standing(NamedTuple):
    """The position of a trial in the comparison.

    Attributes:
        trial: its index.
        scheme_named_by: ``suite`` or ``initializer``; a trial from two entries of a suite is compared for each.
        treatment: the values of the compared factors.
        workload: the values of all other factors that distinguish trials.
    """

    trial: int
    scheme_named_by: str
    treatment: Key
    workload: Key


def treatment_word(compare: Sequence[str]) -> str:
    """Return the word for what is compared: ``initializer`` if only initializers are, else ``treatment``."""
    return "initializer" if tuple(compare) == DEFAULT_COMPARE else "treatment"


def factors(specs: Iterable[Spec]) -> set[str]:
    """Return every factor that can be compared in these trials (`TrialSpec`s as plain data)."""
    names = {"scheme", "recipe"}
    for spec in specs:
        for kind in COMPONENTS:
            names |= {kind, *(f"{kind}.{name}" for name in spec[kind]["arguments"])}
        names |= {f"recipe.{name}" for name in spec["recipe"]}
    return names


def check_compare(compare: Sequence[str], specs: Sequence[Spec]) -> None:
    """Refuse factors that no trial has, or that are given twice.

    Raises:
        InitbenchError: one line with the factor and the nearest existing one.
    """
    known = factors(specs)
    if not compare:
        raise InitbenchError(f"compare: names no factor; the default is {', '.join(DEFAULT_COMPARE)}")
    for index, factor in enumerate(compare):
        if factor not in known:
            raise InitbenchError(f"compare: no trial has {factor}{nearest(factor, known)}")
        if factor in compare[:index]:
            raise InitbenchError(f"compare: {factor} is given twice")


def standings(specs: Sequence[Spec], compare: Sequence[str] = DEFAULT_COMPARE) -> list[Standing]:
    """Return the standings of the trials, in order; if a trial has two, the one whose scheme the suite names is first.

    A key that a rule sets for some trials of an architecture is ignored in the workloads of all of them: a learning
    rate that is lowered for one initializer alone must not take this initializer out of the comparison. Suites without
    such a rule for the architecture are not compared with suites that have one: there the key's value reads "by rules".
    A key that a suite's `tune` searches is ignored likewise, and reads "tuned". A key that `compare` names stays in the
    treatment, whoever set it. Datasets with one name and different content are different datasets
    (`labels.with_contents`).

    Args:
        specs: `TrialSpec`s as plain data.
        compare: factors; a factor that a trial lacks is not part of its treatment.
    """
    named_by = [
        (i, by)
        for i, spec in enumerate(specs)
        for by in sorted(spec["scheme_named_by"], key=("suite", "initializer").index)
    ]
    datasets = with_contents([spec["dataset"] for spec in specs])
    compared = [{**specs[i], "dataset": datasets[i]} for i, _ in named_by]
    is_brought = [by == "initializer" and "initializer" in compare for _, by in named_by]
    in_treatment = [brought or "scheme" in compare for brought in is_brought]
    standing: dict[tuple[int, Key, Key], Standing] = {}
    rows = zip(named_by, _treatments(compared, compare), _workloads(compared, compare, in_treatment), strict=True)
    for (i, by), treatment, workload in rows:
        standing.setdefault((i, treatment, workload), Standing(i, by, treatment, workload))
    return list(standing.values())


def _treatments(specs: Sequence[Spec], compare: Sequence[str]) -> list[Key]:
    columns = [_factor(factor, specs, compare) for factor in compare]
    return [Key({f: value for values in row for f, value in values.items()}) for row in zip(*columns, strict=True)]


def _factor(factor: str, specs: Sequence[Spec], compare: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return the contribution of one factor to each treatment; empty for a trial that lacks it."""
    kind, _, argument = factor.partition(".")
    if kind == "scheme":
        return [scheme_of(spec).under(kind) for spec in specs]
    components = [_component(spec, kind) for spec in specs]
    if not argument:
        # Only initializers lose the values that a rule or a search sets: a tuner with other steps on one network
        # remains the same treatment, which would otherwise have gaps on all other networks.
        named = arguments_of(kind, compare)
        ignored = [ignored_arguments(spec, kind) - named if kind == "initializer" else set() for spec in specs]
        shown = shown_components(components, ignored, ALWAYS if kind == "architecture" else ())
        return [component.under(kind) for component in shown]
    if kind in compare:  # the whole component has it
        return [{}] * len(specs)
    nested = nested_components(components)
    return [
        {factor: inner.get(argument, component["arguments"][argument])} if argument in component["arguments"] else {}
        for component, inner in zip(components, nested, strict=True)
    ]


def _workloads(specs: Sequence[Spec], compare: Sequence[str], scheme_in_treatment: Sequence[bool]) -> list[Key]:
    # Architectures that are compared with one another share the keys that rules set for any of them.
    names = ["" if "architecture" in compare else spec["architecture"]["name"] for spec in specs]
    rules: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for spec, name in zip(specs, names, strict=True):
        marks = rules[name, spec["suite"]]
        for key in ignored_keys(spec) - set(compare):
            marks[key] = "tuned" if key in tuned_keys(spec) else marks.get(key, "by rules")
    everywhere: dict[str, set[str]] = {}
    for (name, _), marks in rules.items():
        everywhere[name] = everywhere.get(name, {*marks}) & marks.keys()
    marked = [_marked(spec, rules[name, spec["suite"]]) for spec, name in zip(specs, names, strict=True)]

    def values(kind: str) -> list[dict[str, Any]]:
        if kind in compare:
            return [{}] * len(specs)
        compared = arguments_of(kind, compare)
        components = [_without(_component(spec, kind), compared) for spec in marked]
        ignored = [
            ignored_arguments(spec, kind) if kind == "initializer" else arguments_of(kind, everywhere[name])
            for spec, name in zip(specs, names, strict=True)
        ]
        shown = shown_components(components, ignored, ALWAYS if kind == "architecture" else ())
        return [component.under(kind) for component in shown]

    schemes = [
        {} if compared or spec["scheme"] == "standard" else scheme_of(spec).under("scheme")
        for spec, compared in zip(specs, scheme_in_treatment, strict=True)
    ]
    datasets = values("dataset")
    parts = [
        *(values("architecture"), schemes, _where_several(datasets), values("recipe")),
        _where_several(values("initializer")),
    ]
    keys = [Key({f: value for part in row for f, value in part.items()}) for row in zip(*parts, strict=True)]
    return [key or Key(dataset) for key, dataset in zip(keys, datasets, strict=True)]


def _component(spec: Spec, kind: str) -> Mapping[str, Any]:
    """Return a part of a spec as a component; the recipe has no name."""
    return {"name": "", "arguments": spec["recipe"]} if kind == "recipe" else spec[kind]


def _without(component: Mapping[str, Any], arguments: Collection[str]) -> dict[str, Any]:
    """Return a component without some arguments, including components that its label always shows."""
    kept = {name: value for name, value in component["arguments"].items() if name not in arguments}
    return {**component, "arguments": kept}


def _marked(spec: Spec, marks: Mapping[str, str]) -> dict[str, Any]:
    """Return a spec with marks instead of the values that rules or a search set."""
    marked = {kind: spec[kind] for kind in ("architecture", "dataset", "recipe", "initializer")}
    for key, mark in marks.items():
        kind, _, name = key.partition(".")
        if kind == "recipe":
            marked[kind] = {**marked[kind], name: mark}
        elif kind in {"architecture", "dataset"}:
            marked[kind] = {**marked[kind], "arguments": {**marked[kind]["arguments"], name: mark}}
    return {**spec, **marked}


def _where_several(values: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return values if len({Key(value) for value in values}) > 1 else [{}] * len(values)
