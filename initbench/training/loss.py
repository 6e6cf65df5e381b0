"""The loss and the error of a training batch: mixup's weights and label smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from initbench.data.batches import Batch


def batch_loss(logits: Tensor, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean cross-entropy (nats), 0-dim.

    Under mixup it is λ times that of the targets plus 1 − λ times that of their partners (Zhang et al., mixup, 2018),
    which is the cross-entropy of the mixed one-hot targets. Label smoothing makes each one-hot target
    (1 − ε) · one-hot + ε / classes (Szegedy et al., Rethinking the Inception Architecture, 2016, section 7).

    Args:
        logits: (N, classes).
        batch: N samples.
        label_smoothing: ε.
    """
    loss = functional.cross_entropy(logits, batch.targets, label_smoothing=label_smoothing)
    if batch.weight < 1:
        partners = functional.cross_entropy(logits, batch.partners, label_smoothing=label_smoothing)
        loss = batch.weight * loss + (1 - batch.weight) * partners
    return loss


def batch_error(logits: Tensor, batch: Batch) -> Tensor:
    """Return the fraction of wrong predictions, 0-dim; under mixup weighted by λ like the loss.

    Args:
        logits: (N, classes).
        batch: N samples.
    """
    predictions = logits.argmax(1)
    wrong = (predictions != batch.targets).float().mean()
    if batch.weight < 1:
        wrong = batch.weight * wrong + (1 - batch.weight) * (predictions != batch.partners).float().mean()
    return wrong
