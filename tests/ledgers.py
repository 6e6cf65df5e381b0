"""Ledgers made up for tests, through the real `TrialSpec`, `TrialRecord`, `Metric` and `Ledger`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.ledger import Ledger, TrialRecord
from initbench.metric import Metric
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec, digest
from initbench.training.recipe import Recipe

DELTA_1 = {"name": "delta_orthogonal", "gain": 1.0}
DELTA_2 = {"name": "delta_orthogonal", "gain": 2.0}
KAIMING = {"name": "kaiming", "gain": 1.0, "mode": "fan_in"}
METAINIT = {"name": "metainit", "steps": 100, "base": DELTA_1, "batch_size": 32}
PLAIN = {"name": "plain", "depth": 28, "width": 1, "norm": "none"}
WRN = {"name": "wrn", "depth": 28, "width": 1, "norm": "none"}

PERCENT: dict[str, Any] = {"unit": "%", "difference_unit": "percentage points", "scale": 100, "show": "{:.2f}"}
ERROR = Metric("error", better="lower", best=0.0, primary=True, **PERCENT).on("test")
R_SQUARED = Metric("r_squared", better="higher", label="R²", best=1.0, show="{:.3f}", primary=True).on("test")
BITS = Metric("bits_per_byte", better="lower", unit="bits", show="{:.3f}", primary=True).on("test")


def task_of(*metrics: Metric, name: str = "classification") -> dict[str, Any]:
    """Return the task entry of a record: the metrics by key, of which the first is primary."""
    return {
        "name": name,
        "primary": metrics[0].name,
        "metrics": {metric.name: metric.to_json() for metric in metrics},
    }


CLASSIFICATION = task_of(
    ERROR,
    Metric("loss", better="lower", best=0.0, unit="nats").on("test"),
    Metric("first_epoch_accuracy", "higher", "first-epoch accuracy", best=1.0, **PERCENT),
    Metric("best_test_accuracy", "higher", "best test accuracy", best=1.0, **PERCENT),
)
REGRESSION = task_of(R_SQUARED, Metric("mean_squared_error", better="lower", best=0.0).on("test"), name="regression")
LANGUAGE = task_of(BITS, name="language_modelling")


def component(config: dict[str, Any]) -> ComponentSpec:
    """Return the component of a flat config as in a suite: name and arguments; a mapping named `base` is one too."""
    config = dict(config)
    if isinstance(config.get("base"), dict):
        config["base"] = component(config["base"]).model_dump(mode="json")
    known = {key: config.pop(key) for key in ("version", "source") if key in config}
    return ComponentSpec(name=config.pop("name"), arguments=config, **known)


def make_spec(
    initializer: dict[str, Any],
    architecture: dict[str, Any] = PLAIN,
    seed: int = 0,
    *,
    scheme: str = "standard",
    named_by: tuple[str, ...] = ("suite",),
    dataset: dict[str, Any] | None = None,
    recipe: dict[str, Any] | None = None,
    rules: tuple[str, ...] = (),
    probes: tuple[str, ...] = ("gradient_quotient", "gradient_norm"),
    phase: str = "final",
    suite: str = "made-up",
    task: str = "classification",
    tuned: tuple[str, ...] = (),
    protocols: tuple[str, ...] = (),
) -> TrialSpec:
    """Return a spec with plausible defaults."""
    return TrialSpec(
        suite=suite,
        architecture=component(architecture),
        scheme=scheme,
        initializer=component(initializer),
        dataset=DatasetSpec(
            **component(dataset or {"name": "digits", "train_size": None, "image_size": None}).model_dump(),
            task=task,
            inputs=Inputs((1, 8, 8)),
            outputs=10,
        ),
        recipe=Recipe(**({"epochs": 8, "batch_size": 64} | (recipe or {}))),
        probes=tuple(ComponentSpec(name=name) for name in probes),
        seed=seed,
        phase=phase,
        set_by_rules=rules,
        scheme_named_by=named_by,
        tuned=tuned,
        protocols=protocols,
    )


def make_record(
    spec: TrialSpec,
    test_error: float | None = 0.05,
    *,
    status: str = "finished",
    quotient: float | None = 0.5,
    saturated: bool = False,
    first_epoch_accuracy: float | None = 0.5,
    initialization_seconds: float = 0.25,
    error: dict[str, Any] | None = None,
    metrics: dict[str, Any] | None = None,
) -> TrialRecord:
    """Return a record such as a trial of classification with that spec would leave, with the given outcome."""
    numbers: dict[str, Any] = {
        "test_error": test_error,
        "test_loss": 0.2,
        "first_epoch_accuracy": first_epoch_accuracy,
        "best_test_accuracy": None if test_error is None else 1 - test_error,
        "train_loss": 0.1,
        "train_error": 0.01,
        "validation_error": test_error,
        "diverged_at_step": None,
        "steps": 168,
        "parameters": 369_498,
    }
    if status == "diverged":
        numbers |= {"test_error": None, "test_loss": None, "best_test_accuracy": None, "validation_error": None}
        numbers |= {"train_loss": None, "train_loss_reason": "nan", "diverged_at_step": 37, "steps": 37}
    entry = {
        "step": 21,
        "epoch": 1,
        "lr": 0.1,
        "train_loss": 1.0,
        "train_error": 0.4,
        "test_loss": 0.9,
        "test_error": 0.5,
    }
    return _record(
        spec,
        CLASSIFICATION,
        status,
        numbers | (metrics or {}),
        entry,
        quotient,
        saturated,
        initialization_seconds,
        error,
    )


def make_scored(
    spec: TrialSpec,
    task: dict[str, Any],
    outcome: float | None,
    *,
    quotient: float = 0.5,
    metrics: dict[str, Any] | None = None,
) -> TrialRecord:
    """Return a record of any task, by `task_of`; None is a diverged trial."""
    status = "diverged" if outcome is None else "finished"
    numbers = {task["primary"]: outcome, "train_loss": 0.1, "steps": 168, "parameters": 369_498}
    entry = {"step": 21, "epoch": 1, "lr": 0.1, "train_loss": 1.0, task["primary"]: outcome}
    return _record(spec, task, status, numbers | (metrics or {}), entry, quotient, False, 0.25, None)


def make_measured(spec: TrialSpec, *, quotient: float = 0.5) -> TrialRecord:
    """Return a record of a trial of 0 epochs, which measures only."""
    numbers = {"steps": 0, "parameters": 369_498}
    record = _record(spec, CLASSIFICATION, "finished", numbers, {}, quotient, False, 0.25, None)
    for data in (record.spec, record.identity):
        data["recipe"] = data["recipe"] | {"epochs": 0}
    return replace(record, id=digest(record.identity))


def _record(
    spec: TrialSpec,
    task: dict[str, Any],
    status: str,
    metrics: dict[str, Any],
    entry: dict[str, Any],
    quotient: float | None,
    saturated: bool,
    initialization_seconds: float,
    error: dict[str, Any] | None,
) -> TrialRecord:
    conditions = {"eps": 1e-5, "batch_size": 32, "batches": 4, "data": "random", "mode": "eval"}
    conditions |= {"fraction_below_epsilon": 0.99 if saturated else 0.01, "saturated": saturated}
    scalar = {"kind": "scalar", "unit": "", "log": False}
    probes = [
        {"name": "gradient_quotient", "value": quotient, "conditions": conditions, **scalar},
        {"name": "gradient_norm", "value": 1.5, "conditions": {"batch_size": 32, "batches": 4}, **scalar},
    ]
    failed = status == "failed"
    epochs = range(1, spec.recipe.epochs + 1) if entry else ()
    identity = _identity(spec)
    return TrialRecord(
        id=digest(identity),
        spec=spec.model_dump(mode="json"),
        identity=identity,
        status=status,
        task={} if failed else _described(task, metrics),
        metrics={} if failed else metrics,
        history=[] if failed else [entry | {"epoch": epoch} for epoch in epochs],
        initialization={} if failed else {"initializer": spec.initializer.name, "seed": spec.seed},
        probes=[] if failed else [p for p in probes if p["name"] in {probe.name for probe in spec.probes}],
        environment={"torch": "2.13.0", "initbench": "0.1.0", "device": "cpu", "python": "3.11.7"},
        timing={} if failed else {"initialization_seconds": initialization_seconds, "total_seconds": 20.0},
        error=error or ({"type": "RuntimeError", "message": "lost", "traceback": "line 1"} if failed else None),
    )


def _described(task: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """Return a task's entry with the metrics that the record has, as a run writes it; a test may change it."""
    return task | {"metrics": {key: dict(metric) for key, metric in task["metrics"].items() if key in metrics}}


def _identity(spec: TrialSpec) -> dict[str, Any]:
    """Return the identity of a spec; of components that are not registered all that is no label."""
    try:
        return dict(spec.identity)
    except InitbenchError:
        return spec.model_dump(mode="json", exclude={"suite", "set_by_rules", "scheme_named_by", "tuned", "protocols"})


def cell(errors: list[float | None], initializer: dict[str, Any] = KAIMING, **options: Any) -> list[TrialRecord]:
    """Return one record for each error, its seed the place; None is a diverged trial."""
    return [
        make_record(make_spec(initializer, seed=s), e, status="diverged" if e is None else "finished", **options)
        for s, e in enumerate(errors)
    ]


def write_ledger(folder: Any, records: list[TrialRecord]) -> Ledger:
    """Write records as a suite's ledger and return it."""
    ledger = Ledger(folder)
    for record in records:
        ledger.write(record)
    return ledger


def quickstart_records() -> list[TrialRecord]:
    """Return two architectures × four initializers × three seeds: vanished gradients on plain, one diverged trial."""
    outcomes: dict[str, list[tuple[dict[str, Any], list[float], list[float], bool, float]]] = {
        "plain": [
            (KAIMING, [0.9, 0.9, 0.9028], [0.9989, 0.9991, 0.999], True, 0.01),
            (DELTA_1, [0.9, 0.9, 0.8972], [0.9999, 1.0, 1.0], True, 0.05),
            (DELTA_2, [0.0361, 0.0389, 0.0444], [0.71, 0.73, 0.78], False, 0.05),
            (METAINIT, [0.0306, 0.0278, 0.0333], [0.39, 0.4, 0.38], False, 14.2),
        ],
        "wrn": [
            (KAIMING, [0.025, 0.0278, 0.0222], [10.9, 9.2, 13.1], False, 0.01),
            (DELTA_1, [0.0194, 0.0167, 0.0222], [0.46, 0.48, 0.45], False, 0.05),
            (DELTA_2, [0.0417, 0.0333, 0.0389], [54.0, 88.0, 61.0], False, 0.05),
            (METAINIT, [0.0167, 0.0194, 0.0194], [0.31, 0.33, 0.3], False, 15.1),
        ],
    }
    records = []
    for architecture, rules in ((PLAIN, ("recipe.clip_norm",)), (WRN, ())):
        for initializer, errors, quotients, saturated, seconds in outcomes[architecture["name"]]:
            for seed in range(3):
                recipe = {"clip_norm": 1.0} if rules else {}
                spec = make_spec(initializer, architecture, seed, recipe=recipe, rules=rules)
                diverged = architecture is WRN and initializer is DELTA_2 and seed == 1
                records.append(
                    make_record(
                        spec,
                        errors[seed],
                        status="diverged" if diverged else "finished",
                        quotient=quotients[seed],
                        saturated=saturated,
                        first_epoch_accuracy=None if diverged else (1 - errors[seed]) / 2,
                        initialization_seconds=seconds,
                    )
                )
    return records
