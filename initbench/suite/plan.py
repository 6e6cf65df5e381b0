"""The plan: every trial of a suite, and the pairs that cannot run with the reason. Pure: nothing is read or written."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import ArgumentError, SuiteError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS
from initbench.suite.match import matches, parse_only, problem, properties
from initbench.suite.schema import recipe_of
from initbench.suite.spec import ComponentSpec, TrialSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.suite.document import Key
    from initbench.suite.load import Choice, Suite


@dataclass(frozen=True)
class Incompatible:
    """A pair that cannot run.

    Attributes:
        spec: its trial at the first seed.
        reason: why, in one line.
    """

    spec: TrialSpec
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a suite comes to.

    Attributes:
        trials: what runs, in the order of the file, all cells at the first seed before the second seed.
        incompatible: the cells that cannot run.
        excluded: how many trials ``exclude`` left out.
        unselected: the trials of the suite that ``only`` left out; labels tell trials apart from these too.
    """

    trials: tuple[TrialSpec, ...]
    incompatible: tuple[Incompatible, ...]
    excluded: int
    unselected: tuple[TrialSpec, ...]

    def missing(self, statuses: Mapping[str, str]) -> tuple[TrialSpec, ...]:
        """Return the trials without a result; a failed one is tried again.

        Args:
            statuses: trial id → status, as the ledger has them.
        """
        return tuple(t for t in self.trials if statuses.get(t.id) not in {"finished", "diverged"})


def plan(suite: Suite, only: Iterable[str] = ()) -> Plan:
    """Return the plan of a suite.

    Args:
        suite: checked by `load_suite`.
        only: ``KEY=VALUE,VALUE`` filters; a trial must meet all of them.

    Raises:
        SuiteError: a rule, ``exclude`` or filter names what the suite does not have; a rule or an argument
            that the component refuses.
    """
    filters = [(option, parse_only(option)) for option in only]
    reasons = _Reasons(suite)
    trials: list[TrialSpec] = []
    unselected: list[TrialSpec] = []
    incompatible: list[Incompatible] = []
    excluded = 0
    _check_conditions(suite, filters)
    cells = list(itertools.product(suite.datasets, suite.architectures, suite.recipes, suite.initializers))
    for seed in suite.seeds:
        for dataset, architecture, recipe, initializer in cells:
            spec = _spec(suite, dataset, architecture, recipe, initializer, seed)
            found = properties(spec)
            if any(matches(c, found) for c in suite.exclude):
                excluded += 1
                continue
            reason = reasons.of(dataset, architecture, initializer, spec)
            if not all(matches(c, found) for _, c in filters):
                unselected += [spec] if reason is None else []
            elif reason is None:
                trials.append(spec)
            elif seed == suite.seeds[0]:
                incompatible.append(Incompatible(spec, reason))
    _refuse_doubled(suite, [*trials, *unselected])
    return Plan(tuple(trials), tuple(incompatible), excluded, tuple(unselected))


def _spec(
    suite: Suite, dataset: Choice, architecture: Choice, recipe: dict[str, Any], initializer: Choice, seed: int
) -> TrialSpec:
    """Return one trial with the rules applied in their order."""
    declared = INITIALIZERS.get(initializer.spec.name).traits
    spec = TrialSpec(
        suite=suite.name,
        architecture=architecture.spec,
        scheme=architecture.scheme or declared.scheme or "standard",
        initializer=initializer.spec,
        dataset=dataset.spec,
        recipe=recipe_of(suite.document, recipe, ("recipe",)),
        probes=suite.probes,
        seed=seed,
    )
    found = properties(spec)
    set_by_rules: set[str] = set()
    for index, rule in enumerate(suite.rules):
        if not matches(rule.when, found):
            continue
        if rule.recipe:
            recipe = {**recipe, **rule.recipe}
            checked = recipe_of(suite.document, recipe, ("rules", index, "recipe"))
            spec = spec.model_copy(update={"recipe": checked})
            set_by_rules |= {f"recipe.{name}" for name in rule.recipe}
        if rule.initializer:
            changed = _changed(suite, spec.initializer, rule.initializer, ("rules", index, "initializer"))
            spec = spec.model_copy(update={"initializer": changed})
            set_by_rules |= {f"initializer.{name}" for name in rule.initializer}
    return spec.model_copy(update={"set_by_rules": tuple(sorted(set_by_rules))})


def _changed(suite: Suite, initializer: ComponentSpec, values: dict[str, Any], key: Key) -> ComponentSpec:
    component = INITIALIZERS.get(initializer.name)
    arguments = {**initializer.arguments, **values}
    try:
        component.build(arguments)
        return initializer.model_copy(update={"arguments": component.resolve(arguments)})
    except ArgumentError as error:
        raise suite.document.error(
            (*key, error.argument or ""), str(error).removeprefix(f"{error.argument}: ")
        ) from error


def _check_conditions(suite: Suite, filters: list[tuple[str, dict[str, Any]]]) -> None:
    """Refuse conditions that can never match: they are misspelled."""
    known: set[str] = set()
    dataset, recipe = suite.datasets[0], suite.recipes[0]
    for architecture in suite.architectures:
        known |= set(properties(_bare(suite, dataset, architecture, recipe, suite.initializers[0])))
    for initializer in suite.initializers:
        known |= set(properties(_bare(suite, dataset, suite.architectures[0], recipe, initializer)))
    conditions: list[tuple[Key, dict[str, Any]]] = [(("rules", i, "when"), r.when) for i, r in enumerate(suite.rules)]
    conditions += [(("exclude", i), c) for i, c in enumerate(suite.exclude)]
    for key, condition in conditions:
        found = problem(condition, suite, known)
        if found:
            raise suite.document.error((*key, found[0]), found[1])
    for option, condition in filters:
        found = problem(condition, suite, known)
        if found:
            raise SuiteError(f"--only {option}: {found[1]}")


def _bare(
    suite: Suite, dataset: Choice, architecture: Choice, recipe: dict[str, Any], initializer: Choice
) -> TrialSpec:
    return TrialSpec(
        suite=suite.name,
        architecture=architecture.spec,
        initializer=initializer.spec,
        dataset=dataset.spec,
        recipe=recipe_of(suite.document, recipe, ("recipe",)),
        probes=(),
        seed=suite.seeds[0],
    )


def _refuse_doubled(suite: Suite, trials: list[TrialSpec]) -> None:
    seen: dict[str, TrialSpec] = {}
    for trial in trials:
        if trial.id in seen:
            raise suite.document.error(
                ("rules",), f"make two trials the same: {trial.architecture.name} with {trial.initializer.name}"
            )
        seen[trial.id] = trial


class _Reasons:
    """Why a pair cannot run; each architecture is tried once, on the meta device, where nothing is computed."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.tried: dict[tuple[str, str, str], str | None] = {}

    def of(self, dataset: Choice, architecture: Choice, initializer: Choice, spec: TrialSpec) -> str | None:
        needed = INITIALIZERS.get(initializer.spec.name).traits.scheme
        if needed is not None and spec.scheme != needed:
            return f"{initializer.spec.name} needs scheme {needed}, the suite says {spec.scheme}"
        offered = ARCHITECTURES.get(architecture.spec.name).traits.schemes
        if spec.scheme not in offered:
            return f"{architecture.spec.name} has no scheme {spec.scheme} (it has {', '.join(offered)})"
        key = (architecture.spec.model_dump_json(), spec.scheme, dataset.spec.model_dump_json())
        if key not in self.tried:
            self.tried[key] = self._try(dataset, architecture, spec.scheme)
        return self.tried[key]

    def _try(self, dataset: Choice, architecture: Choice, scheme: str) -> str | None:
        import torch

        input_shape, num_classes = data_shape(dataset.spec)
        component = ARCHITECTURES.get(architecture.spec.name)
        try:
            with torch.device("meta"):
                model = component.build(
                    architecture.spec.arguments, input_shape=input_shape, num_classes=num_classes, scheme=scheme
                )
        except ArgumentError as error:
            key = (*architecture.key, error.argument) if error.argument else architecture.key
            raise self.suite.document.error(key, str(error).removeprefix(f"{error.argument}: ")) from error
        try:
            with torch.no_grad():
                output = model.eval()(torch.empty(2, *input_shape, device="meta"))
        except NotImplementedError:
            return None  # an operation without a meta kernel says nothing about the shape
        except (RuntimeError, ValueError, AssertionError) as error:
            shape = "×".join(map(str, input_shape))
            return f"{architecture.spec.name} refuses inputs of {shape}: {str(error).strip().partition(chr(10))[0]}"
        if tuple(output.shape) != (2, num_classes):
            return f"{architecture.spec.name} gives outputs of {tuple(output.shape[1:])}, not {num_classes} classes"
        return None


def data_shape(dataset: ComponentSpec) -> tuple[tuple[int, int, int], int]:
    """Return ((channels, height, width), number of classes) of a dataset without reading it.

    What was declared at registration, unless the arguments ``image_size``, ``channels`` or ``num_classes`` say else.
    """
    traits = DATASETS.get(dataset.name).traits
    channels, height, width = traits.input_shape
    size = dataset.arguments.get("image_size")
    shape = (dataset.arguments.get("channels", channels), size or height, size or width)
    return shape, dataset.arguments.get("num_classes", traits.num_classes)
