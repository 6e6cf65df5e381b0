"""The optimizer's parameter groups: which learning rate and weight decay a parameter has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.structure.kinds import NORM_LAYERS, is_weight_layer, is_written_out_rms_norm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from initbench.training.recipe import ByRole, Recipe, Role


def roles(model: nn.Module) -> dict[str, Role]:
    """Return the role of each parameter by its name; of a tied one by the first of its names.

    - ``norm``: a parameter of a normalization: of torch's classes, or of a written-out RMSNorm;
    - ``scalar``: a parameter of one number and at most one dimension that is no weight layer's: a multiplier or a bias
      of Fixup or SkipInit, β of β-Swish, the slope of a PReLU;
    - ``bias``: another one of at most one dimension whose name, in its module, has ``bias`` in it: of a linear layer, a
      convolution, an attention, or the bias of each channel that stands in the place of a normalization;
    - ``weight``: all others, so embeddings and gates of more than one number too.

    Args:
        model: any module.
    """
    found: dict[str, Role] = {}
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        above, _, own = name.rpartition(".")
        found[name] = _role(modules[above], own, parameter)
    return found


def _role(module: nn.Module, name: str, parameter: nn.Parameter) -> Role:
    if isinstance(module, NORM_LAYERS) or is_written_out_rms_norm(module):
        return "norm"
    if parameter.dim() > 1:
        return "weight"
    if parameter.numel() == 1 and not is_weight_layer(module):
        return "scalar"
    return "bias" if "bias" in name else "weight"


def make_parameter_groups(
    model: nn.Module, recipe: Recipe, declared: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Return parameter groups for the recipe's optimizer, frozen parameters left out.

    A parameter's learning rate is `recipe.lr` times the recipe's multiplier for its role, else times the one that the
    initializer declares for the parameter, else times 1: a recipe that names a role says so for every initializer, and
    what it does not name stays each initializer's own. Its weight decay is the recipe's for its role, else that of all.

    Args:
        model: what is trained.
        recipe: how.
        declared: learning-rate multipliers by parameter name, as an initializer's record has them; None for none.
    """
    declared = declared or {}
    multipliers, decays = _named(recipe.lr_multipliers), _named(recipe.weight_decays)
    role_of: Mapping[str, str] = roles(model) if multipliers or decays else {}
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            role = role_of.get(name, "")
            multiplier = multipliers.get(role, declared.get(name, 1.0))
            groups.setdefault((multiplier, decays.get(role, recipe.weight_decay)), []).append(parameter)
    return [
        {"params": parameters, "lr": recipe.lr * multiplier, "weight_decay": decay}
        for (multiplier, decay), parameters in groups.items()
    ]


def _named(values: ByRole | None) -> dict[str, float]:
    return {} if values is None else values.named
