"""A smoke run: does every part of a suite work at all? A few trials of two steps each, on random data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from initbench.registry import DATASETS, INITIALIZERS, PROBES
from initbench.suite.schema import Resources
from initbench.suite.spec import ComponentSpec, DatasetSpec
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.registry import Registry
    from initbench.suite.load import Suite
    from initbench.suite.planned import Incompatible, Plan
    from initbench.suite.spec import TrialSpec

_SUFFIX = "-smoke"
# Samples of a batch: fewer where they are large, as a tuner keeps several passes of a batch in memory: 8 images of
# 224×224 take MetaInit 10 GB on a ResNet-50.
_LARGEST_BATCH, _LEAST_BATCH = 8, 2
_LARGEST_BATCH_NUMBERS = 100_000
_HELD_OUT = 8
_RANDOM_DATA = "random"
_RECIPE = Recipe().model_dump()


def smoke_suite(suite: Suite) -> Suite:
    """Return the suite of a smoke run: a name and a ledger of its own, one core a trial, no checkpoints, no claims."""
    document = replace(suite.document, overrides={**suite.document.overrides, ("smoke",): "--smoke"})
    return replace(
        suite,
        document=document,
        name=suite.name + _SUFFIX,
        resources=Resources(),
        checkpoints=None,
        published=None,
        claims=(),
    )


def is_smoke(spec: Mapping[str, Any]) -> bool:
    """Return whether a trial's spec, as plain data, is of a smoke run: its results mean nothing."""
    return bool(spec["suite"].endswith(_SUFFIX) and spec["dataset"]["name"] == _RANDOM_DATA)


def smoke(plan: Plan) -> Plan:
    """Return the plan of a smoke run.

    Every trial is made small: random data of its task and of its dataset's shape, two steps (two epochs of one, so that
    a warm-up and a milestone are met too), batches of at most 8 (fewer of large images), what its initializer and
    probes declare for a smoke run, one seed. Of these a few are kept that together have every architecture (each set of
    arguments beside the depth, at its smallest depth), initializer, dataset and recipe, those that rules made included.

    Args:
        plan: of the whole suite; what is excluded or incompatible there does not run here either, nor what is on a
            dataset whose files are absent where only these say what it asks of a model.
    """
    small: dict[str, TrialSpec] = {}
    trials = _trials(plan)
    for trial in trials:
        reduced = _reduced(trial, trials[0].seed)
        small.setdefault(reduced.id, reduced)  # what told two trials apart may be gone, such as the number of epochs
    return replace(
        plan,
        trials=_cover(list(small.values())),
        unselected=(),
        undescribed=(),
        refused=_refused(plan, trials, small),
    )


def _trials(plan: Plan) -> list[TrialSpec]:
    """Return the trials of which it is known what random data stand for theirs, those that wait for files too."""
    waiting = [draft.on(found.dataset) for found in plan.undescribed if found.dataset for draft in found.trials]
    return [*plan.trials, *waiting]


def _refused(plan: Plan, trials: list[TrialSpec], small: Mapping[str, TrialSpec]) -> tuple[Incompatible, ...]:
    """Return the cells that cannot run made small as the trials are, so that they are told by the same labels."""
    if not trials:
        return plan.refused
    described = {_asked(trial.dataset): trial.dataset for trial in trials}
    found: dict[str, Incompatible] = {}
    for pair in plan.refused:
        dataset = described.get(_asked(pair.spec.dataset))
        if dataset is not None:  # else no trial is on it, and no workload of the report either
            reduced = _reduced(pair.spec.on(dataset), trials[0].seed)
            found.setdefault(reduced.id, replace(pair, spec=reduced))
    return tuple(pair for i, pair in found.items() if i not in small)


def _asked(dataset: ComponentSpec) -> str:
    """Return what a suite says of a dataset."""
    return dataset.model_dump_json(include={"name", "arguments"})


def _reduced(trial: TrialSpec, seed: int) -> TrialSpec:
    largest = _largest_batch(trial.dataset)
    recipe = _recipe(trial.recipe, largest)
    probes = [_short(PROBES, probe, largest) for probe in trial.probes]
    return trial.model_copy(
        update={
            "suite": trial.suite + _SUFFIX,
            "initializer": _short(INITIALIZERS, trial.initializer, largest),
            "dataset": _random_data(trial.dataset, recipe.batch_size),
            "recipe": recipe,
            "probes": tuple({probe.model_dump_json(): probe for probe in probes}.values()),
            "seed": seed,
        }
    )


def _largest_batch(dataset: DatasetSpec) -> int:
    """Return how many samples a batch may have."""
    return max(_LEAST_BATCH, min(_LARGEST_BATCH, _LARGEST_BATCH_NUMBERS // math.prod(dataset.inputs.shape)))


def _recipe(recipe: Recipe, largest: int) -> Recipe:
    """Return a recipe of two steps, which has what the given one has: a warm-up, a milestone; one of none stays."""
    short = {
        "epochs": 2,
        "steps": 2,
        "accumulate": 2,
        "milestones": (1,),
        "warmup_epochs": 1.0,
        "warmup_steps": 1,
        "history_every": 1,
        "evaluate_every": 1,
    }
    asked = {name: value for name, value in short.items() if getattr(recipe, name) != _RECIPE[name]}
    length = {"epochs": 2} if recipe.trains and recipe.steps is None else {"epochs": recipe.epochs}
    always = {"batch_size": min(recipe.batch_size, largest), "threads": 1}
    return Recipe.model_validate(recipe.model_dump() | asked | length | always)


def _short(registry: Registry[Any], spec: ComponentSpec, largest: int) -> ComponentSpec:
    """Return an initializer or probe with the values that it declares for a smoke run, or smaller ones of the suite."""
    component = registry.get(spec.name)
    batch = {"batch_size": largest} if "batch_size" in spec.arguments else {}
    short = batch | component.traits.smoke
    arguments = dict(spec.arguments)
    for name, value in short.items():
        smaller = isinstance(arguments[name], int | float) and isinstance(value, int | float)
        arguments[name] = min(arguments[name], value) if smaller else value
    for name in component.initializer_arguments:
        if arguments[name] is not None:
            arguments[name] = _short(INITIALIZERS, ComponentSpec(**arguments[name]), largest).model_dump()
    return ComponentSpec(**component.spec(component.resolve(arguments)))


def _random_data(spec: DatasetSpec, batch_size: int) -> DatasetSpec:
    """Return random data that ask the same of a model, with one training batch."""
    component = DATASETS.get(_RANDOM_DATA)
    arguments = component.resolve(
        {
            "task": spec.task,
            "shape": spec.inputs.shape,
            "vocabulary": spec.inputs.vocabulary,
            "outputs": spec.outputs,
            "train_size": batch_size,
            "validation_size": _HELD_OUT,
            "test_size": _HELD_OUT,
        }
    )
    return DatasetSpec(**component.spec(arguments), task=spec.task, inputs=spec.inputs, outputs=spec.outputs)


def _cover(trials: list[TrialSpec]) -> tuple[TrialSpec, ...]:
    """Return few trials that have every part which any of them has, in their order.

    The greedy cover: always the trial with the most parts that are still missing, of equals the shallowest.
    """
    kinds = {trial.id: _beside_depth(trial) for trial in trials}
    smallest: dict[str, float] = {}
    for trial in trials:
        kind = kinds[trial.id]
        smallest[kind] = min(_depth(trial), smallest.get(kind, _depth(trial)))
    parts = {trial.id: _parts(trial, kinds[trial.id], smallest) for trial in trials}
    missing = set().union(*parts.values())
    chosen: set[str] = set()
    while missing:
        best = min(trials, key=lambda trial: (-len(parts[trial.id] & missing), _depth(trial)))
        chosen.add(best.id)
        missing -= parts[best.id]
    return tuple(trial for trial in trials if trial.id in chosen)


def _parts(trial: TrialSpec, kind: str, smallest: dict[str, float]) -> set[tuple[str, str]]:
    """Return what running this trial shows to work; its architecture only where none of its kind is shallower."""
    parts = {(name, getattr(trial, name).model_dump_json()) for name in ("initializer", "dataset", "recipe")}
    return parts | ({("architecture", kind)} if _depth(trial) == smallest[kind] else set())


def _depth(trial: TrialSpec) -> float:
    depth = trial.architecture.arguments.get("depth")
    return depth if isinstance(depth, int | float) else 0


def _beside_depth(trial: TrialSpec) -> str:
    """Return the architecture with its scheme and without its depth, where that is a number."""
    skipped = {"depth"} if isinstance(trial.architecture.arguments.get("depth"), int | float) else set()
    return f"{trial.scheme} {trial.architecture.model_dump_json(exclude={'arguments': skipped})}"
