"""What MetaInit refuses: arguments, inputs of another size, and starts from which it cannot tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from initbench.arguments import check_count, check_positive
from initbench.batches import NOT_FINITE, zero_inputs
from initbench.errors import ArgumentError, InitializationError
from initbench.inputs import Inputs
from initbench.plugins import first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from initbench.batches import DataKind
    from initbench.initializers.context import InitializationContext
    from initbench.initializers.metainit_norms import NormOptimizer

MOMENTUM = 0.9
PLATEAU_TOLERANCE = 0.05


def check_optimizer(optimizer: NormOptimizer, momentum: float, clip: float | None) -> None:
    """Raise an ArgumentError where momentum or clip is out of its range or has no effect."""
    if not 0 <= momentum < 1:
        raise ArgumentError(f"must be at least 0 and below 1, got {momentum}", "momentum")
    if optimizer == "adam" and momentum != MOMENTUM:
        raise ArgumentError("has an effect only with the optimizers signsgd and sgd", "momentum")
    if clip is not None:
        check_positive("clip", clip)
        if optimizer == "signsgd":
            raise ArgumentError("has an effect only with the optimizers adam and sgd", "clip")


def check_input_size(size: int | None, data: DataKind) -> None:
    """Raise an ArgumentError where the size is out of its range or has no effect."""
    if size is not None:
        check_count("input_size", size)
        if data != "random":
            raise ArgumentError("is for random data", "input_size")


def random_inputs(model: nn.Module, context: InitializationContext, size: int) -> Inputs:
    """Return one sample of random data of another size than the model's inputs.

    Raises:
        InitializationError: batches are given, the inputs are no images, or the model does not take such a size.
    """
    if context.given_batches is not None:
        raise InitializationError("metainit: input_size is for random data, and batches are given")
    if context.inputs is None or not context.inputs.is_image:
        what = "not known" if context.inputs is None else context.inputs
        raise InitializationError(f"metainit: input_size is for images, the inputs are {what}")
    inputs = Inputs((context.inputs.shape[0], size, size))
    model.eval()
    try:
        with torch.no_grad():
            model(zero_inputs(inputs, model))
    except Exception as error:
        raise InitializationError(
            f"metainit: the network does not take inputs of {inputs}, which input_size asks for: {first_line(error)}"
        ) from error
    return inputs


def check_plateau(window: int | None, tolerance: float) -> None:
    """Raise an ArgumentError where the window or its tolerance is out of its range or has no effect."""
    if not 0 <= tolerance < 1:
        raise ArgumentError(f"must be at least 0 and below 1, got {tolerance}", "plateau_tolerance")
    if window is not None:
        check_count("plateau_window", window)
    elif tolerance != PLATEAU_TOLERANCE:
        raise ArgumentError("has an effect only with a plateau_window", "plateau_tolerance")


def check_first_step(
    gq: Tensor, slopes: Sequence[Tensor | None], tuned: dict[str, nn.Parameter], finite: list[Tensor]
) -> None:
    """Raise an InitializationError where there is nothing to start from."""
    if all(slope is None for slope in slopes):
        raise InitializationError(
            f"metainit: the gradient quotient does not depend on {', '.join(tuned)}: the loss is linear in the "
            "parameters or does not use them"
        )
    if not torch.isfinite(gq):
        check_batch(finite, 0)
        raise InitializationError(
            f"metainit: the gradient quotient of the base is {gq.item()}; start from smaller weights"
        )


def check_batch(finite: list[Tensor], step: int) -> None:
    """Raise an InitializationError where the batch of a step, if there was one, is the reason that it failed."""
    if step < len(finite) and not finite[step]:
        raise InitializationError(f"metainit: the batch of step {step} {NOT_FINITE}")
