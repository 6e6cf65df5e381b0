"""Classification: one class for each sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from initbench.errors import InitializationError
from initbench.metric import Metric
from initbench.registry import register_task
from initbench.tasks.task import Task

_ERROR = Metric(
    "error", "lower", unit="%", difference_unit="points", scale=100.0, show="{:.2f}", best=0.0, primary=True
)
_ACCURACY = replace(_ERROR, name="accuracy", better="higher", best=1.0, primary=False)


@register_task("classification")
class Classification(Task):
    """Cross-entropy in nats, judged by the fraction of wrong predictions.

    Targets are class indices, int64, (N,); outputs are logits, (N, classes).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        _ERROR,
        Metric("loss", "lower", unit="nats", best=0.0),
    )
    recipe_fields: ClassVar[frozenset[str]] = frozenset({"mixup", "label_smoothing"})

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy in nats, 0-dim."""
        return functional.cross_entropy(outputs, targets)

    def smoothed_loss(self, outputs: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the mean cross-entropy with targets (1 − ε) · one-hot + ε / classes, 0-dim.

        Source: Szegedy et al., Rethinking the Inception Architecture, 2016, section 7.
        """
        return functional.cross_entropy(outputs, targets, label_smoothing=label_smoothing)

    def reference_losses(self, outputs: int) -> dict[str, float]:
        """Return ``log_num_classes``, the loss of a uniform prediction, in nats."""
        return {"log_num_classes": math.log(outputs)}

    def training_values(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the fraction of wrong predictions as ``error``, 0-dim."""
        return {"error": (outputs.argmax(1) != targets).float().mean()}

    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return the summed cross-entropy and the number of wrong predictions."""
        loss = functional.cross_entropy(outputs, targets, reduction="sum")
        return {"loss": loss, "errors": (outputs.argmax(1) != targets).sum()}

    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return ``error``, a fraction, and ``loss``, in nats."""
        return {"error": totals["errors"] / samples, "loss": totals["loss"] / samples}

    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return the log of each class's share: its largest entry is the majority class, its loss the entropy."""
        return (torch.bincount(targets, minlength=outputs).double() / len(targets)).log()

    def check_outputs(self, outputs: Tensor, expected: int) -> None:
        """Raise an InitializationError if there are fewer logits than classes, or only one, whose loss is always 0."""
        if not torch.is_tensor(outputs) or outputs.dim() < 2:
            return
        if outputs.shape[1] < expected:
            text = outputs.dim() == 3 and outputs.shape[2] == expected
            hint = f", of shape {tuple(outputs.shape)}; a language model needs task='language_modelling'" * text
            raise InitializationError(f"num_classes is {expected}, but the model has {outputs.shape[1]} outputs{hint}")
        if outputs.shape[1] == 1:
            problem = "the model has one output, for which the cross-entropy is always 0"
            raise InitializationError(f"{problem}; for regression or binary labels, give batches and loss_fn")

    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Return uniform classes, int64, (samples,)."""
        return torch.randint(outputs, (samples,), generator=generator, device="cpu")

    def summary(
        self, evaluations: Sequence[Mapping[str, float]], first: Mapping[str, float] | None, split: str
    ) -> dict[str, float | None]:
        """Return the accuracy after the first epoch and the best one over all evaluations, as reported in papers."""
        lowest = min((values["error"] for values in evaluations), default=math.nan)
        return {
            "first_epoch_accuracy": None if first is None else 1 - first["error"],
            f"best_{split}_accuracy": 1 - lowest if evaluations else None,
        }

    def summary_metrics(self, split: str, primary: Metric) -> tuple[Metric, ...]:
        """Return the metrics of these accuracies; their chance level is 1 minus that for the error."""
        accuracy = replace(
            _ACCURACY,
            chance=None if primary.chance is None else 1 - primary.chance,
            chance_standard_error=primary.chance_standard_error,
        )
        return (
            replace(accuracy, name="first_epoch_accuracy", label="first-epoch accuracy"),
            replace(accuracy, name=f"best_{split}_accuracy", label=f"best {split} accuracy"),
        )
