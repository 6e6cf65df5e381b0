"""A smoke run: a few trials of two steps each, on random data, to check that every part of a suite works."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from initbench.inputs import Inputs
from initbench.registry import DATASETS, INITIALIZERS, PROBES, Registry
from initbench.suite.part import Row
from initbench.suite.schema import Resources
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.recipe import Recipe

if TYPE_CHECKING:  # they load torch, and reports ask `is_smoke` without it
    from initbench.suite.load import Suite
    from initbench.suite.plan import Plan

_SUFFIX = "-smoke"
# Batches of large samples are smaller, because a tuner keeps several passes of a batch in memory: for 8 images of
# 224×224, MetaInit takes 10 GB on a ResNet-50.
_LARGEST_BATCH, _LEAST_BATCH = 8, 2
_LARGEST_BATCH_NUMBERS = 100_000
_HELD_OUT = 8
_RANDOM_DATA = "random"
_RECIPE = Recipe().model_dump()


def smoke_suite(suite: Suite) -> Suite:
    """Return the suite of a smoke run: its own name and ledger, one core per trial, no search, checkpoints, claims."""
    document = replace(suite.document, overrides={**suite.document.overrides, ("smoke",): "--smoke"})
    return replace(
        suite,
        document=document,
        name=suite.name + _SUFFIX,
        resources=Resources(),
        search=None,
        checkpoints=None,
        published=None,
        claims=(),
    )


def is_smoke(spec: Mapping[str, Any]) -> bool:
    return bool(spec["suite"].endswith(_SUFFIX) and spec["dataset"]["name"] == _RANDOM_DATA)


def smoke(plan: Plan) -> Plan:
    """Return the plan of a smoke run.

    Every trial is made small: random data for its task with its dataset's shapes, one seed, batches of at most 8 (fewer
    for large images), the values that its initializer and probes declare for a smoke run, and two steps (two epochs of
    one, so that a warm-up and a milestone occur). A few of these trials are kept: together they have every initializer,
    dataset, recipe and architecture (each set of arguments beside the depth, at its smallest depth), including those
    that rules made.

    Args:
        plan: of the whole suite. Its excluded and incompatible trials do not run here either, nor do those on a dataset
            whose inputs are unknown because its files are absent.
    """
    rows = [row for row in plan.rows if row.status == "run"]
    rows += [row for part, waiting in plan.waiting.items() if part.described for row in waiting]
    if not rows:
        others = tuple(row for row in plan.rows if row.status in {"excluded", "incompatible"})
        return replace(plan, rows=others)
    seed = rows[0].spec.seed
    small: dict[str, Row] = {}
    for row in rows:
        reduced = _reduced(row, seed)
        small.setdefault(reduced.spec.id, reduced)  # two that differed only in the number of epochs are now equal
    # The cells that cannot run are made small too, so that the report shows them by the same labels. A dataset without
    # trials has no workload in the report.
    datasets = {row.parts.dataset for row in rows}
    refused: dict[str, Row] = {}
    for row in plan.refused:
        if row.parts.dataset in datasets:
            reduced = _reduced(row, seed)
            refused.setdefault(reduced.spec.id, reduced)
    left_out = tuple(row for row in plan.rows if row.status in {"excluded", "incompatible"})
    return replace(
        plan,
        rows=(*_cover(list(small.values())), *left_out),
        refused=tuple(row for trial, row in refused.items() if trial not in small),
    )


def _reduced(row: Row, seed: int) -> Row:
    """Return a row that no longer waits for files, because its data are random."""
    spec, dataset = row.spec, row.parts.dataset.described
    assert dataset is not None
    assert dataset.inputs is not None
    largest = max(_LEAST_BATCH, min(_LARGEST_BATCH, _LARGEST_BATCH_NUMBERS // math.prod(dataset.inputs.shape)))
    recipe = _recipe(spec.recipe, largest)
    probes = [_short(PROBES, probe, largest) for probe in spec.probes]
    small = {
        "suite": spec.suite + _SUFFIX,
        "initializer": _short(INITIALIZERS, spec.initializer, largest),
        "dataset": _random_data(dataset, dataset.inputs, recipe.batch_size),
        "recipe": recipe,
        "probes": tuple({probe.model_dump_json(): probe for probe in probes}.values()),
        "seed": seed,
    }
    return replace(row, spec=spec.model_copy(update=small), status="run" if row.status == "waiting" else row.status)


def _recipe(recipe: Recipe, largest: int) -> Recipe:
    """Return a recipe of two steps with the parts of the given one, such as a warm-up; 0 steps stay 0."""
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
    if recipe.batch_norm == "micro_batch":
        largest = max(largest, 4)  # each of two micro-batches needs two samples
    # Random data have no lengths of sentences, which batches of tokens need.
    always = {"batch_size": min(recipe.batch_size, largest), "batch_tokens": None, "threads": 1}
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


def _random_data(spec: DatasetSpec, inputs: Inputs, batch_size: int) -> DatasetSpec:
    """Return random data with the same inputs and outputs, and one training batch."""
    component = DATASETS.get(_RANDOM_DATA)
    arguments = component.resolve(
        {
            "task": spec.task,
            "shape": inputs.shape,
            "vocabulary": inputs.vocabulary,
            "outputs": spec.outputs,
            "train_size": batch_size,
            "validation_size": _HELD_OUT,
            "test_size": _HELD_OUT,
        }
    )
    return DatasetSpec(**component.spec(arguments), task=spec.task, inputs=inputs, outputs=spec.outputs)


def _cover(rows: list[Row]) -> list[Row]:
    """Return a few rows that together have every part of all rows, in order.

    This is the greedy cover: always the trial with the most missing parts, and among equals the shallowest.
    """
    trials = [row.spec for row in rows]
    kinds = [_beside_depth(trial) for trial in trials]
    smallest: dict[str, float] = {}
    for trial, kind in zip(trials, kinds, strict=True):
        smallest[kind] = min(_depth(trial), smallest.get(kind, math.inf))
    # The parts that a trial checks; its architecture only if none of its kind is shallower.
    parts = [
        {(name, getattr(trial, name).model_dump_json()) for name in ("initializer", "dataset", "recipe")}
        | ({("architecture", kind)} if _depth(trial) == smallest[kind] else set())
        for trial, kind in zip(trials, kinds, strict=True)
    ]
    missing = set[tuple[str, str]]().union(*parts)
    chosen: set[int] = set()
    while missing:
        best = min(range(len(rows)), key=lambda index: (-len(parts[index] & missing), _depth(trials[index])))
        chosen.add(best)
        missing -= parts[best]
    return [row for index, row in enumerate(rows) if index in chosen]


def _depth(trial: TrialSpec) -> float:
    depth = trial.architecture.arguments.get("depth")
    return depth if isinstance(depth, int | float) else 0


def _beside_depth(trial: TrialSpec) -> str:
    """Return the architecture with its scheme, without a depth that is a number."""
    skipped = {"depth"} if isinstance(trial.architecture.arguments.get("depth"), int | float) else set()
    network = trial.architecture.model_dump_json(exclude={"arguments": skipped})
    return f"{trial.scheme} {trial.scheme_arguments} {network}"
