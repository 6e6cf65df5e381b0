"""Admin: the scales of shortcuts from the variance that the layers before them add to the signal."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.errors import InitializationError
from initbench.initializers.branches import transformer_stacks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.parameter_writer import ParameterWriter
from initbench.models.calls import LayerRun, run_visiting
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind
from initbench.schemes.admin import ShortcutScale


@register_initializer(
    "admin",
    data="real",
    scheme="admin",
    reference="Liu et al., Understanding the Difficulty of Training Transformers, EMNLP 2020, section 4.2",
)
def admin(
    base: Initializer | None = Initializer("fairseq_0_9"), data: DataKind = "real", batch_size: int = 64
) -> Apply:
    """ω of each shortcut from one forward pass: ω_1 = 1, ω_{i+1}² = Var(ω_i x_{i-1}) + Var(f_i(x_{i-1})).

    x_i = norm(ω_i ⊙ x_{i-1} + f_i(x_{i-1})) is the signal after residual branch i, and the variance is taken over
    all entries of the batch around one mean, padding included. So ω² is the sum of the variances that the branches
    before have added. The encoder and the decoder each start from ω = 1.

    One batch passes through the network in train mode, with dropout, and each ω takes effect as soon as it is known, as
    in the authors' code. This costs one forward pass. The authors profile with one seed and train all seeds with this
    profile; here each seed has its own. They start from the weights of `fairseq_0_9`.

    Args:
        base: initializer that draws the weights; null keeps the model as it is.
        data: ``real`` or ``random`` inputs.
        batch_size: samples in the one batch.

    Raises:
        ArgumentError: batch_size is below 1.
    """
    check_counts(batch_size=batch_size)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        context.apply(base, model)
        stacks = transformer_stacks(context)
        scales = {name: module for name, module in model.named_modules() if isinstance(module, ShortcutScale)}
        if not scales:
            raise InitializationError(
                "admin: no shortcut has a scale; initbench.rewrite(model, 'admin') puts one there if its norms follow "
                "additions"
            )
        starts = {0, len(stacks[0].branches)}
        norms = {branch.norm: model.get_submodule(branch.norm) for s in stacks for branch in s.branches if branch.norm}
        inputs, _ = next(context.batches(data, batch_size))
        model.train()
        profile = _Profile(starts)
        run_visiting(model, inputs, {**scales, **norms}, profile)
        if not profile.omegas.keys() == scales.keys():
            raise InitializationError("admin: a shortcut does not run, or none of its own norm follows it")
        writer = ParameterWriter(model, context)
        for name, omega in profile.omegas.items():
            if not 0 < omega < math.inf:
                raise InitializationError(f"admin: the signal before {name} has a variance of {omega**2:g}")
            parameter = scales[name].scale
            writer.set_to(parameter, torch.full_like(parameter, omega), "profiled")
        context.record.cost = {"forward": 1, "backward": 0}
        context.record.conditions |= {"mode": "train", "batch_shape": list(inputs.shape), "omega": profile.omegas}

    return apply


class _Profile:
    """Sets the scale of each shortcut when it runs, and measures the sum that the norm behind it receives.

    `starts` are the numbers of the shortcuts, in the order in which they run, at which a stack begins.
    """

    def __init__(self, starts: set[int]) -> None:
        self.omegas: dict[str, float] = {}
        self._starts = starts
        self._next = 1.0
        self._shortcut: Tensor | None = None

    def __call__(self, run: LayerRun) -> Tensor | None:
        module, outputs = run.layer, run.outputs
        if isinstance(module, ShortcutScale):
            if len(self.omegas) in self._starts:
                self._next = 1.0
            if not module.scale.requires_grad:
                self._next = module.scale.double().square().mean().sqrt().item()
            else:
                outputs = self._next * run.inputs[0]
            self.omegas[run.name] = self._next
            self._shortcut = outputs
            return outputs
        if self._shortcut is not None:
            shortcut, total = self._shortcut.double(), run.inputs[0].double()
            self._next = math.sqrt(shortcut.var(correction=0) + (total - shortcut).var(correction=0))
            self._shortcut = None
        return None
