"""MetaInit: tuning the norms of the weights so that the gradient quotient falls.

Dauphin & Schoenholz, "MetaInit: Initializing learning by learning to initialize", NeurIPS 2019, listing of Figure 2.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from initbench.errors import InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.probes.checks import check_count, check_positive
from initbench.probes.gradient_quotient import (
    batch_loss,
    check_parameters,
    flatten,
    hessian_products,
    loss_gradients,
    quotient,
)
from initbench.registry import register_initializer

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK_EVERY = 50


@register_initializer(
    "metainit",
    kind="tuner",
    base="delta_orthogonal",
    batch_size=32,
    reference="Dauphin & Schoenholz, MetaInit, NeurIPS 2019, Figure 2",
)
def metainit(steps: int = 500, lr: float = 0.1, momentum: float = 0.9, eps: float = 1e-5) -> Apply:
    """Tune the norm of each weight by signSGD so that the gradient quotient of random batches falls.

    Each step draws one batch of noise, takes GQ over all trainable parameters and moves the norm of every one with
    two or more dimensions by the sign of its derivative, with momentum. A step that takes a norm below zero flips the
    signs of the weight's entries, as the paper's listing does; flips are counted. The model is in eval mode
    meanwhile: BatchNorm uses its running statistics. Biases, scalars and gates keep their values.

    Args:
        steps: number of steps, one batch each.
        lr: by which a norm moves in one step, an absolute length.
        momentum: of signSGD.
        eps: ε0 of the gradient quotient.

    Raises:
        ValueError: an argument is out of its range.
    """
    check_count("steps", steps)
    check_positive("lr", lr)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
    check_positive("eps", eps)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        model.eval()
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        tuned = {name: p for name, p in trainable.items() if p.dim() >= 2}
        if not tuned:
            raise InitializationError("metainit: no parameter of two or more dimensions requires a gradient")
        over = list(trainable.values())
        check_parameters(over)
        norms = _Norms(tuned, lr, momentum)
        quotients: list[Tensor] = []
        unused: list[str] = []
        batch_shape: list[int] = []
        for step, (inputs, targets) in zip(range(steps), context.batches(), strict=False):
            gradients = loss_gradients(batch_loss(model, inputs, targets, context.loss_fn), over)
            g = flatten(gradients, over)
            gq = quotient(g, g - flatten(hessian_products(gradients, over), over), eps)
            slopes = loss_gradients(gq, list(tuned.values()), create_graph=False)
            if step == 0:
                batch_shape = list(inputs.shape)
                unused = [name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None]
                _check_first_step(gq, slopes, tuned)
            quotients.append(gq.detach())
            norms.step(gq.detach(), slopes)
            if step % _LOOK_EVERY == 0 and norms.stopped():
                break
        norms.finish()
        record = context.record
        kept = int(norms.finite_steps)
        record.history = [
            {"step": step, "gradient_quotient": value} for step, value in enumerate(torch.stack(quotients).tolist())
        ][: kept + 1]
        record.cost = {"forward": len(quotients), "backward": 3 * len(quotients)}
        stopped_at = kept if kept < len(quotients) else None
        record.conditions |= {
            "steps": steps,
            "lr": lr,
            "momentum": momentum,
            "eps": eps,
            "norm": "l1",
            "method": "exact",
            "mode": "eval",
            "batch_norm": "running statistics" if any(isinstance(m, _NormBase) for m in model.modules()) else None,
            "batch_shape": batch_shape,
            "sign_flips": norms.sign_flips(),
            "unused_parameters": unused,
            "stopped_at_step": stopped_at,
        }
        for name, scale in norms.scales().items():
            record.note(name, "untouched: the loss does not use it" if name in unused else f"scaled by {scale:.4g}")
        if stopped_at is not None:
            warnings.warn(
                f"metainit stopped at step {stopped_at} of {steps}: the gradient quotient was not finite; the weights "
                "are those of the step before",
                stacklevel=2,
            )

    return apply
