"""Schemes for any model: its normalization is taken out, and what the scheme needs is put in."""

from __future__ import annotations

from collections import Counter, OrderedDict
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import is_parametrized

from initbench.architectures.layers import NORM_LAYERS, classifier_name
from initbench.architectures.residual import residual_branches
from initbench.architectures.schemes import SCHEMES, ScalarBias, ScalarMultiplier, Scheme, branch_multiplier
from initbench.errors import ArgumentError
from initbench.plugins import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ChannelBias(nn.Module):
    """Adds a learnable bias of its own to each channel.

    Source: Zhu et al., GradInit, NeurIPS 2021, appendix A.1, whose networks without BatchNorm have one in its place.

    Args:
        bias: initial values, of shape (C,) for inputs (N, C, ...), or of the last dimensions of the input.
        last: whether the bias is of the input's last dimensions.
    """

    def __init__(self, bias: Tensor, *, last: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)
        self._last = last

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return x + (self.bias if self._last else self.bias.view(-1, *[1] * (x.dim() - 2)))


def remove_normalization(model: nn.Module) -> nn.Module:
    """Return a copy of a model with a learnable bias in the place of each normalization.

    BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm are replaced by a bias of the same channels, which starts
    at the normalization's own bias, 0 if it has none. What timm's classes do after the normalization, such as an
    activation, stays. All other values are those of the model.

    Args:
        model: any module; it stays as it is.

    Raises:
        ValueError: the model has no normalization, has one of another kind, or is one.
    """
    rewritten = deepcopy(model)
    replacements = _without_norms(rewritten, _channel_bias)
    if not replacements:
        raise ValueError(f"{type(model).__name__} has no BatchNorm, InstanceNorm, GroupNorm, LayerNorm or RMSNorm")
    _replace(rewritten, replacements)
    return rewritten


def rewrite(model: nn.Module, scheme: Scheme, *, inputs: Tensor | None = None) -> nn.Module:
    """Return a copy of a model with the parts of a scheme, which stand in the place of its normalization.

    - ``fixup`` (Zhang, Dauphin & Ma, 2019, rule 3): a scalar bias in the place of each normalization and before each
      convolution and linear layer but the first, and a scalar multiplier at the end of each residual branch, before the
      bias where the branch ends in a normalization.
    - ``skipinit`` (De & Smith, 2020, section 4): each normalization is left out, convolutions have biases, and a scalar
      gate of 0 ends each residual branch.
    - ``weight_norm`` (Salimans & Kingma, 2016): each normalization is left out, convolutions have biases, and they and
      the linear layers but for the classifier, which is the last one, are weight-normalized.

    Layers within `nn.MultiheadAttention` stay as they are. The values of all weights are those of the model; call
    `initbench.initialize` afterwards. Modules that something is put before or behind are found under another name.

    Args:
        model: any module; it stays as it is. For fixup and skipinit `torch.fx` must be able to trace its forward pass.
        scheme: fixup, skipinit or weight_norm; for a model without normalization alone see `remove_normalization`.
        inputs: a batch of images, tokens or what else the model takes. Where it is given the rewritten model runs once
            on it, in eval mode, so that one whose forward pass reaches into a module that is no longer there is refused
            here.

    Raises:
        ArgumentError: the scheme is unknown.
        ValueError: the model has another normalization, no residual branch is found, a branch ends in no module that a
            multiplier can follow, a weight to normalize has a row of zeros or is shared, or the rewritten model fails
            on `inputs`.
    """
    if scheme == "standard" or scheme not in SCHEMES:
        raise ArgumentError(f"must be fixup, skipinit or weight_norm, got {scheme!r}", "scheme")
    rewritten = deepcopy(model)
    {"fixup": _fixup, "skipinit": _skipinit, "weight_norm": _weight_norm}[scheme](rewritten)
    if inputs is not None:
        _check_that_it_runs(rewritten, scheme, inputs)
    return rewritten


def _check_that_it_runs(model: nn.Module, scheme: Scheme, inputs: Tensor) -> None:
    """Raise a ValueError where a rewritten model fails; a copy runs, so that nothing of the model changes."""
    trial = deepcopy(model).eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            trial(inputs.clone())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"{scheme}: the rewritten {type(model).__name__} fails on inputs of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


def _fixup(model: nn.Module) -> None:
    ends = _ends(model, "fixup")
    replacements = _without_norms(model, lambda _: ScalarBias())
    within_attention = _attention_layers(model)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd) and m not in within_attention]
    for layer in layers[1:]:
        replacements[layer] = _in_order(bias=ScalarBias(), layer=layer)
    for end in ends:
        branch = replacements.get(end, end)
        if isinstance(branch, ScalarBias):  # as in the authors' code, whose last bias follows the multiplier
            replacements[end] = _in_order(multiplier=ScalarMultiplier(), bias=branch)
        else:
            replacements[end] = _in_order(branch=branch, multiplier=ScalarMultiplier())
    _replace(model, replacements)


def _skipinit(model: nn.Module) -> None:
    ends = _ends(model, "skipinit")
    replacements = _without_norms(model, lambda _: nn.Identity())
    for end in ends:
        replacements[end] = _in_order(branch=replacements.get(end, end), multiplier=ScalarMultiplier(0.0))
    _add_biases(model)
    _replace(model, replacements)


def _weight_norm(model: nn.Module) -> None:
    _replace(model, _without_norms(model, lambda _: nn.Identity()))
    _add_biases(model)
    within_attention = _attention_layers(model)
    classifier = classifier_name(model)
    names = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    for name, module in list(model.named_modules()):
        wanted = isinstance(module, nn.Linear | _ConvNd) and name != classifier
        if not wanted or module in within_attention or is_parametrized(module, "weight"):
            continue
        weight = module.get_parameter("weight")
        if names[id(weight)] > 1:
            raise ValueError(f"weight_norm: {name}.weight is shared with another module")
        if bool(weight.detach().flatten(1).norm(dim=1).eq(0).any()):
            raise ValueError(f"weight_norm: {name}.weight has a row of zeros, which has no direction")
        weight_norm(module)


def _ends(model: nn.Module, scheme: str) -> list[nn.Module]:
    """Return the modules that a multiplier is put behind.

    Raises:
        ValueError: there is no branch, or one without such a module.
    """
    branches = residual_branches(model)
    if not branches:
        raise ValueError(f"{scheme}: no residual branches are found in {type(model).__name__}")
    lacking = [branch for branch in branches if branch.output is None]
    if lacking:
        block = lacking[0].block or type(model).__name__
        raise ValueError(f"{scheme}: a branch of {block} ends in no module that a multiplier could follow")
    return [model.get_submodule(b.output or "") for b in branches if branch_multiplier(model, b) is None]


def _without_norms(model: nn.Module, make: Callable[[nn.Module], nn.Module]) -> dict[nn.Module, nn.Module]:
    """Return what takes the place of each normalization.

    Raises:
        ValueError: the model is one, or has one of a kind that is not known.
    """
    found: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, NORM_LAYERS):
            # timm's classes such as BatchNormAct2d are a normalization with further modules, which follow it.
            after = {name: part for name, part in module.named_children() if not isinstance(part, nn.Identity)}
            found[module] = _in_order(bias=make(module), **after) if after else make(module)
        elif "norm" in kind.lower() and not any(module.children()) and "parametrizations" not in name:
            raise ValueError(f"{name} is a {kind}, which is none of the normalizations that can be taken out")
    if model in found:
        raise ValueError(f"the model itself is a normalization, {type(model).__name__}")
    return found


def _channel_bias(norm: Any) -> nn.Module:
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        shape = tuple(norm.normalized_shape)
    else:
        shape = (norm.num_features,) if isinstance(norm, _NormBase) else (norm.num_channels,)
    own = getattr(norm, "bias", None)
    like = next((p for p in norm.parameters(recurse=False)), torch.empty(0))
    values = torch.zeros(shape, device=like.device, dtype=like.dtype) if own is None else own.detach().clone()
    # timm's and torchvision's LayerNorm2d are LayerNorms over the channels of images.
    last = isinstance(norm, nn.LayerNorm | nn.RMSNorm) and not type(norm).__name__.endswith("2d")
    return ChannelBias(values, last=last)


def _add_biases(model: nn.Module) -> None:
    """Give every convolution a bias of zeros that has none."""
    for module in model.modules():
        if isinstance(module, _ConvNd) and module.bias is None:
            weight = module.get_parameter("weight")
            module.bias = nn.Parameter(torch.zeros(module.out_channels, device=weight.device, dtype=weight.dtype))


def _attention_layers(model: nn.Module) -> list[nn.Module]:
    attentions = [module for module in model.modules() if isinstance(module, nn.MultiheadAttention)]
    return [part for attention in attentions for part in attention.modules()]


def _in_order(**modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(modules))


def _replace(model: nn.Module, replacements: Mapping[nn.Module, nn.Module]) -> None:
    """Put modules in the place of others, wherever these stand in the model."""
    known = set(model.modules())
    like = next(model.parameters(), torch.empty(0))
    named = [(*name.rpartition("."), module) for name, module in model.named_modules(remove_duplicate=False)]
    places = [(model.get_submodule(parent), name, module) for parent, _, name, module in named]
    for parent, name, module in places:
        if module in replacements:
            setattr(parent, name, replacements[module])
            for part in set(replacements[module].modules()) - known:
                part.training = module.training
                if isinstance(part, ScalarBias | ScalarMultiplier):
                    part.to(like)
