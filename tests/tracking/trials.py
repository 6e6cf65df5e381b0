"""Trial records as a run writes them, without running anything."""

from __future__ import annotations

from typing import Any

from initbench.ledger import Status, TrialRecord
from initbench.suite.spec import ComponentSpec, TrialSpec
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
        dataset=ComponentSpec(name="digits", arguments={"train_size": None, "image_size": 8}),
        recipe=Recipe(epochs=epochs, batch_size=64),
        probes=(ComponentSpec(name="gradient_quotient"),),
        seed=seed,
    )
    common: dict[str, Any] = {"id": spec.id, "spec": spec.model_dump(mode="json"), "status": status}
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
        "per_layer": {"weight": 1.0},
    }
    return TrialRecord(
        **common,
        metrics=metrics,
        history=history,
        probes=[
            {"name": "gradient_quotient", "value": 0.46, "conditions": conditions},
            {"name": "gradient_quotient[data=real]", "value": 0.51, "conditions": {**conditions, "data": "real"}},
            {"name": "gradient_norm", "value": None, "conditions": {"value_reason": "inf"}},
        ],
        environment={"torch": "2.13.0", "processor": "x86-64"},
        timing={"initialization_seconds": 0.5, "training_seconds": seconds - 1, "total_seconds": seconds},
    )


def metainit(steps: int = 100) -> ComponentSpec:
    """Return a tuner on a base, with a batch size."""
    base = ComponentSpec(name="delta_orthogonal", arguments={"gain": 1.0})
    return ComponentSpec(name="metainit", arguments={"steps": steps, "lr": 0.1}, base=base, batch_size=32)
