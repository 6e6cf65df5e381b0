"""Replace modules of a model, as schemes do."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from initbench.errors import ArgumentError
from initbench.structure.find import Structure
from initbench.structure.kinds import NORM_LAYERS, is_written_out_rms_norm
from initbench.structure.residual import ResidualBranch, scalar_gate


def in_order(**modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(modules))


def replace_modules(model: nn.Module, replacements: Mapping[nn.Module, nn.Module], *, convert: bool = True) -> None:
    """Replace modules wherever they occur in a model.

    A replacement may contain the module that it replaces. New modules get the mode (training or evaluation) of the
    module they replace and, if `convert`, the type and device of the model's first parameter.
    """
    known = set(model.modules())
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    named = [(*name.rpartition("."), module) for name, module in model.named_modules(remove_duplicate=False)]
    children = [(model.get_submodule(parent), name, module) for parent, _, name, module in named]
    for parent, name, module in children:
        if module in replacements:
            setattr(parent, name, replacements[module])
            for part in set(replacements[module].modules()) - known:
                part.training = module.training
                if convert:
                    _convert(part, like)


def _convert(module: nn.Module, like: torch.Tensor) -> None:
    """Like `nn.Module.to`, but without the modules inside, which may have existed before."""
    module._apply(  # type: ignore[no-untyped-call]  # noqa: SLF001  # no other way leaves out inner modules
        lambda held: held.to(like if held.is_floating_point() else like.device), recurse=False
    )


def norm_replacements(model: nn.Module, make: Callable[[nn.Module], nn.Module]) -> dict[nn.Module, nn.Module]:
    """Return the replacement of each normalization: BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm.

    RMSNorms may be custom classes, see `kinds.is_written_out_rms_norm`. Further operations in timm's classes, such as
    an activation after the normalization, stay. A normalization of another kind, or a model that is itself one, raises
    an ArgumentError.
    """
    replacements: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, NORM_LAYERS) or is_written_out_rms_norm(module):
            # timm's classes such as BatchNormAct2d contain further modules that follow the normalization.
            after = {name: part for name, part in module.named_children() if not isinstance(part, nn.Identity)}
            replacements[module] = in_order(bias=make(module), **after) if after else make(module)
        elif "norm" in kind.lower() and not any(module.children()) and "parametrizations" not in name:
            raise ArgumentError(f"{name} is a {kind}, which is none of the normalizations that can be taken out")
    if model in replacements:
        raise ArgumentError(f"the model itself is a normalization, {type(model).__name__}")
    return replacements


@torch.no_grad()
def take_over_gates(
    model: nn.Module, structure: Structure, branches: Iterable[ResidualBranch], value: float
) -> list[ResidualBranch]:
    """Set the gates of branches: a scalar to a scheme's value, others, such as LayerScale's, to 1.

    Zero gains of a branch's last weight, as in NF-ResNets, are also set to 1: of two gates in a row that start near 0,
    neither would have a gradient, since the gradient of α in α·β is β's value. Returns the branches without a scalar
    gate, which need a multiplier.
    """
    without = []
    gains = {layer.name: layer.gains for layer in structure.layers}
    for branch in branches:
        scalar = scalar_gate(model, branch)
        for gate in branch.gates:
            model.get_parameter(gate).fill_(value if gate == scalar else 1.0)
        for gain in (model.get_parameter(name) for end in branch.ends for name in gains[end]):
            if not gain.is_meta and not gain.any():
                gain.fill_(1.0)
        if scalar is None:
            without.append(branch)
    return without


def add_biases(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, _ConvNd) and module.bias is None:
            weight = module.get_parameter("weight")
            module.bias = nn.Parameter(torch.zeros(module.out_channels, device=weight.device, dtype=weight.dtype))


def attention_layers(model: nn.Module) -> set[nn.Module]:
    """Return the modules inside a model's `nn.MultiheadAttention`, which a scheme cannot change."""
    attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    return {part for attention in attentions for part in attention.modules()}
