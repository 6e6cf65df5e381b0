"""What a suite compares: the treatment of each trial, and the workload on which treatments are compared.

`compare` is a list of factors, by default the initializer. A factor covers the key that it names and those below it:
``initializer`` covers ``initializer.steps``. What it covers is the treatment; all else but the seed is the workload.
A scheme that an initializer brings goes with the initializer, one that the suite names with the architecture.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.arguments import nearest
from initbench.comparing.labels import (
    ALWAYS,
    component_labels,
    ignored_arguments,
    ignored_keys,
    nested_labels,
    tuned_keys,
    value_text,
    with_contents,
    with_scheme,
)
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    Spec = Mapping[str, Any]

DEFAULT_COMPARE = ("initializer",)
_KINDS = ("architecture", "initializer", "dataset")


class Standing(NamedTuple):
    """One place of a trial in a comparison.

    Attributes:
        trial: its index.
        scheme_named_by: ``suite`` or ``initializer``; a trial that two entries of a suite come to has a place for each.
        treatment: its label, ``metainit(delta_orthogonal), norm=none``.
        part: of the treatment, the factor that is exchanged with others as a whole: the initializer where it is
            compared, else the first factor of `compare`.
        rest: of the treatment, empty where there is one factor.
        workload: its label, ``wrn[depth=28, width=1] · lr=0.1``.
        architecture: the architecture's label, as the workload has it.
    """

    trial: int
    scheme_named_by: str
    treatment: str
    part: str
    rest: str
    workload: str
    architecture: str


def treatment_word(compare: Sequence[str]) -> str:
    """Return what is compared, in one word: ``initializer`` where nothing else is, else ``treatment``."""
    return "initializer" if tuple(compare) == DEFAULT_COMPARE else "treatment"


def factors(specs: Iterable[Spec]) -> set[str]:
    """Return every factor that can be compared in these trials (`TrialSpec`s as plain data)."""
    found = {"scheme", "recipe"}
    for spec in specs:
        for kind in _KINDS:
            found |= {kind, *(f"{kind}.{name}" for name in spec[kind]["arguments"])}
        found |= {f"recipe.{name}" for name in spec["recipe"]}
    return found


def check_compare(compare: Sequence[str], specs: Sequence[Spec]) -> None:
    """Refuse factors that no trial has, or that stand twice.

    Raises:
        InitbenchError: one line that names the factor, and the nearest that there is.
    """
    known = factors(specs)
    if not compare:
        raise InitbenchError(f"compare: names no factor; the default is {', '.join(DEFAULT_COMPARE)}")
    for index, factor in enumerate(compare):
        if factor not in known:
            raise InitbenchError(f"compare: no trial has {factor}{nearest(factor, known)}")
        if factor in compare[:index]:
            raise InitbenchError(f"compare: {factor} stands twice")


def standings(specs: Sequence[Spec], compare: Sequence[str] = DEFAULT_COMPARE) -> list[Standing]:
    """Return the places of each trial, in the order of the trials, the one whose scheme the suite named first.

    A key that a rule sets for some trials of an architecture is ignored in the workloads of all of them: a learning
    rate that is lowered for one initializer alone must not take this initializer out of the comparison. Of several
    suites, those that have the architecture without such a rule are not compared with those that have one: there the
    key's value reads "by rules". A key that a suite's `tune` searches is ignored likewise, and reads "tuned" there. A
    key that `compare` names itself stays in the treatment, whoever set it. Datasets of one name and other content are
    different datasets (`labels.with_contents`).

    Args:
        specs: `TrialSpec`s as plain data.
        compare: factors; one that a trial lacks is no part of its treatment.
    """
    places = [
        (i, by)
        for i, spec in enumerate(specs)
        for by in sorted(spec["scheme_named_by"], key=("suite", "initializer").index)
    ]
    datasets = with_contents([spec["dataset"] for spec in specs])
    own = [{**specs[i], "dataset": datasets[i]} for i, _ in places]
    is_brought = [by == "initializer" and "initializer" in compare for _, by in places]
    in_treatment = [brought or "scheme" in compare for brought in is_brought]
    treatments = _treatments(own, compare)
    architectures, workloads = _workloads(own, compare, in_treatment)
    found: dict[tuple[int, str, str], Standing] = {}
    rows = zip(places, treatments, workloads, architectures, strict=True)
    for (i, by), (treatment, part, rest), workload, architecture in rows:
        found.setdefault((i, treatment, workload), Standing(i, by, treatment, part, rest, workload, architecture))
    return list(found.values())


def _treatments(specs: Sequence[Spec], compare: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the treatment's label of each trial, its part and the rest of it."""
    short = Counter(factor.rpartition(".")[2] for factor in compare)
    parts = [_part(factor, specs, compare, short) for factor in compare]
    whole = compare.index("initializer") if "initializer" in compare else 0
    found = []
    for texts in zip(*parts, strict=True):
        rest = ", ".join(text for i, text in enumerate(texts) if text and i != whole)
        found.append((", ".join(text for text in texts if text) or "–", texts[whole], rest))
    return found


def _part(factor: str, specs: Sequence[Spec], compare: Sequence[str], short: Mapping[str, int]) -> list[str]:
    """Return what one factor adds to each label, empty where a trial lacks it."""
    kind, _, argument = factor.partition(".")
    if kind == "scheme":
        return [f"scheme={spec['scheme']}" for spec in specs]
    if not argument:
        # Of an initializer alone what a rule sets, or a search, is left out: a tuner of other steps on one network is
        # the same treatment there, which would have gaps everywhere else if it were not.
        own = _arguments(compare, kind)
        ignored = [ignored_arguments(spec, kind) - own if kind == "initializer" else set() for spec in specs]
        labels = component_labels(
            [_component(spec, kind) for spec in specs], ignored, ALWAYS if kind == "architecture" else ()
        )
        return [label.strip("[]") if kind == "recipe" else label for label in labels]
    if kind in compare:  # the label of the whole has it
        return [""] * len(specs)
    name = argument if short[argument] == 1 else factor
    nested = nested_labels([_component(spec, kind) for spec in specs])
    return [
        f"{name}={inner[argument] if argument in inner else value_text(_component(spec, kind)['arguments'][argument])}"
        if argument in _component(spec, kind)["arguments"]
        else ""
        for spec, inner in zip(specs, nested, strict=True)
    ]


def _workloads(
    specs: Sequence[Spec], compare: Sequence[str], scheme_in_treatment: Sequence[bool]
) -> tuple[list[str], list[str]]:
    """Return the architecture's label and the workload's of each trial."""
    # Architectures that are compared with one another share what rules set for any of them.
    names = ["" if "architecture" in compare else spec["architecture"]["name"] for spec in specs]
    rules: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for spec, name in zip(specs, names, strict=True):
        own = rules[name, spec["suite"]]
        for key in ignored_keys(spec) - set(compare):
            own[key] = "tuned" if key in tuned_keys(spec) else own.get(key, "by rules")
    everywhere: dict[str, set[str]] = {}
    for (name, _), marks in rules.items():
        everywhere[name] = everywhere.get(name, {*marks}) & marks.keys()
    marked = [_marked(spec, rules[name, spec["suite"]]) for spec, name in zip(specs, names, strict=True)]
    ignored = [everywhere[name] for name in names]

    def labels(kind: str, skipped: Sequence[Collection[str]], always: Collection[str] = ()) -> list[str]:
        if kind in compare:
            return [""] * len(specs)
        compared = _arguments(compare, kind)
        return component_labels(
            [_without(_component(spec, kind), compared) for spec in marked],
            skipped,
            always,
        )

    architectures = labels("architecture", [_within("architecture", keys) for keys in ignored], ALWAYS)
    schemes = [
        "standard" if compared else spec["scheme"] for spec, compared in zip(specs, scheme_in_treatment, strict=True)
    ]
    if "architecture" in compare:
        networks = ["" if scheme == "standard" else f"scheme {scheme}" for scheme in schemes]
    else:
        networks = architectures = [with_scheme(*own) for own in zip(architectures, schemes, strict=True)]
    datasets = labels("dataset", [_within("dataset", keys) for keys in ignored])
    recipes = [label.strip("[]") for label in labels("recipe", [_within("recipe", keys) for keys in ignored])]
    initializers = labels("initializer", [ignored_arguments(spec, "initializer") for spec in specs])
    parts = [networks, _where_several(datasets), recipes, _where_several(initializers)]
    workloads = [" · ".join(part for part in own if part) for own in zip(*parts, strict=True)]
    named = [workload or dataset or "all trials" for workload, dataset in zip(workloads, datasets, strict=True)]
    return architectures, named


def _arguments(compare: Sequence[str], kind: str) -> set[str]:
    """Return the arguments of one kind that `compare` names themselves."""
    return {factor.partition(".")[2] for factor in compare if factor.startswith(f"{kind}.")}


def _component(spec: Spec, kind: str) -> Mapping[str, Any]:
    """Return a part of a spec as a component; the recipe is one without a name."""
    return {"name": "", "arguments": spec["recipe"]} if kind == "recipe" else spec[kind]


def _without(component: Mapping[str, Any], arguments: Collection[str]) -> dict[str, Any]:
    """Return a component without some arguments, also those that are components and that its label always has."""
    kept = {name: value for name, value in component["arguments"].items() if name not in arguments}
    return {**component, "arguments": kept}


def _marked(spec: Spec, marks: Mapping[str, str]) -> dict[str, Any]:
    """Return a spec with marks in place of the values of those keys that rules or a search set."""
    marked = {kind: spec[kind] for kind in ("architecture", "dataset", "recipe", "initializer")}
    for key, mark in marks.items():
        kind, _, name = key.partition(".")
        if kind == "recipe":
            marked[kind] = {**marked[kind], name: mark}
        elif kind in {"architecture", "dataset"}:
            marked[kind] = {**marked[kind], "arguments": {**marked[kind]["arguments"], name: mark}}
    return {**spec, **marked}


def _within(kind: str, keys: Iterable[str]) -> set[str]:
    return {key.partition(".")[2] for key in keys if key.startswith(f"{kind}.")}


def _where_several(labels: list[str]) -> list[str]:
    return labels if len(set(labels)) > 1 else [""] * len(labels)
