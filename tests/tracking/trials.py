"""Trial records as a run writes them, without running anything."""

from __future__ import annotations

from typing import Any

from initbench.inputs import Inputs
from initbench.ledger import Status, TrialRecord
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.tasks.classification import Classification
from initbench.training.recipe import Recipe

EPOCHS = 8
STEPS_PER_EPOCH = 21


def make_record(
    *,
    architecture: str = "wrn",
    depth: int = 28,
    initializer: ComponentSpec | None = None,
    seed: int = 0,
    status: Status = "finished",
    test_error: float = 0.25,
    seconds: float = 12.5,
    epochs: int = EPOCHS,
) -> TrialRecord:
    """Return a record of `epochs` epochs, whose test error falls to `test_error`."""
    spec = TrialSpec(
        suite="depth",
        architecture=ComponentSpec(
            name=architecture,
            arguments={"depth": depth, "width": 1, "norm": "none", "activation": "beta_swish", "dropout": 0.0},
        ),
        initializer=initializer or ComponentSpec(name="kaiming", arguments={"mode": "fan_in", "gain": 1.0}),
        dataset=DatasetSpec(
            name="digits", arguments={"train_size": None, "image_size": 8}, inputs=Inputs((1, 8, 8)), outputs=10
        ),
        recipe=Recipe(epochs=epochs, batch_size=64),
        probes=(ComponentSpec(name="gradient_quotient"),),
        seed=seed,
    )
    common: dict[str, Any] = {
        "id": spec.id,
        "spec": spec.model_dump(mode="json"),
        "identity": spec.identity,
        "status": status,
    }
    if status == "failed":
        error = {"type": "RuntimeError", "message": "out of memory", "traceback": "Traceback ..."}
        return TrialRecord(**common, error=error)
    curve = [1 - (1 - test_error) * (epoch + 1) / epochs for epoch in range(epochs)]
    history = [
        {
            "step": (epoch + 1) * STEPS_PER_EPOCH,
            "epoch": epoch + 1,
            "lr": 0.1 * (epochs - epoch) / epochs,
            "train_loss": 2 * error,
            "train_error": error,
            "test_loss": 2.1 * error,
            "test_error": error,
        }
        for epoch, error in enumerate(curve)
    ]
    metrics: dict[str, Any] = {
        "test_error": test_error,
        "test_loss": 2.1 * test_error,
        "first_epoch_accuracy": 1 - curve[0],
        "best_test_accuracy": 1 - test_error,
        "train_loss": 2 * test_error,
        "train_error": test_error,
        "validation_error": test_error,
        "diverged_at_step": None,
        "steps": epochs * STEPS_PER_EPOCH,
        "parameters": 369_000,
    }
    if status == "diverged":
        for name in ("test_error", "test_loss", "train_loss", "train_error", "validation_error"):
            metrics[name], metrics[f"{name}_reason"] = None, "diverged at step 30"
        metrics["diverged_at_step"] = 30
        history = history[:1]
    conditions = {
        "eps": 1e-5,
        "batch_size": 64,
        "batches": 4,
        "data": "random",
        "mode": "eval",
        "fraction_below_epsilon": 0.03,
        "saturated": False,
        "per_batch": [0.46, 0.44],
    }
    return TrialRecord(
        **common,
        task=task(metrics),
        metrics=metrics,
        history=history,
        probes=[
            scalar("gradient_quotient", 0.46, conditions),
            scalar("gradient_quotient[data=real]", 0.51, {**conditions, "data": "real"}),
            scalar("gradient_norm", None, {}) | {"value_reason": "inf"},
            {"name": "gradient_norm.per_layer", "values": {"stem.weight": 1.5, "stem.bias": None, "head.weight": 0.5}}
            | {"kind": "per_layer", "values_reason": "inf", "unit": "", "conditions": {}},
        ],
        environment={"torch": "2.13.0", "processor": "x86-64"},
        timing={"initialization_seconds": 0.5, "training_seconds": seconds - 1, "total_seconds": seconds},
    )


def task(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return what a record of classification says of its metrics; guessing has a test error of 0.9."""
    described = [metric.on(split) for split in ("test", "validation", "train") for metric in Classification.metrics]
    described += Classification().summary_metrics("test", Classification().primary)
    chance = {"test_error": {"chance": 0.9, "chance_standard_error": 0.0158}}
    return {
        "name": "classification",
        "primary": "test_error",
        "metrics": {m.name: m.to_json() | chance.get(m.name, {}) for m in described if m.name in metrics},
    }


def scalar(name: str, value: float | None, conditions: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a probe that measures a number."""
    return {"name": name, "kind": "scalar", "value": value, "unit": "", "conditions": conditions}


def metainit(steps: int = 100) -> ComponentSpec:
    """Return an initializer that starts from another one."""
    base = {"name": "delta_orthogonal", "arguments": {"gain": 1.0}, "version": 1, "source": None}
    return ComponentSpec(name="metainit", arguments={"base": base, "steps": steps, "lr": 0.1, "batch_size": 32})
