"""Parameter groups, a recipe's optimizer, and the learning rate at each step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import nn

from initbench.structure.kinds import NORM_LAYERS, is_weight_layer, is_written_out_rms_norm
from initbench.training.recipe import ByRole, Recipe, Role

EPSILON = 1e-8
"""ε of Adam and AdamW, PyTorch's default."""


@dataclass(frozen=True)
class Multipliers:
    """What an initializer multiplies the recipe's settings by, by parameter name; 1 if missing."""

    learning_rate: Mapping[str, float] = field(default_factory=dict)
    weight_decay: Mapping[str, float] = field(default_factory=dict)
    epsilon: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, initialization: Mapping[str, Any]) -> Self:
        """Return the multipliers that a trial record's ``initialization`` declares."""
        names = ("learning_rate_multipliers", "weight_decay_multipliers", "epsilon_multipliers")
        return cls(*(initialization.get(name, {}) for name in names))


def make_optimizer(groups: list[dict[str, Any]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return the recipe's optimizer; parameter groups without ``lr``, ``weight_decay`` or ``eps`` get the recipe's."""
    on_gpu = all(parameter.is_cuda for group in groups for parameter in group["params"])
    kernels: dict[str, Any] = {"fused": True} if on_gpu else {"foreach": True}
    if recipe.optimizer in {"adam", "adamw"}:
        kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, recipe.lr, recipe.betas, EPSILON, recipe.weight_decay, **kernels)
    if recipe.optimizer == "signsgd":
        return _signsgd(groups, recipe)
    return torch.optim.SGD(
        groups,
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov,
        weight_decay=recipe.weight_decay,
        **kernels,
    )


def _signsgd(groups: list[dict[str, Any]], recipe: Recipe) -> torch.optim.Optimizer:
    """Return Signum: m ← μm + (1 − μ)g from m = 0, then θ ← (1 − lr·λ)θ − lr·sign(m), with sign(0) = 0.

    It is Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023) with β₁ = β₂ = μ: Lion steps by the
    sign of β₁m + (1 − β₁)g and then sets m to β₂m + (1 − β₂)g, so with equal β it steps by the sign of the new m.

    Source: Bernstein et al., signSGD, ICML 2018, algorithms 1 (μ = 0) and 2.
    """
    from timm.optim import Lion

    return Lion(
        groups, lr=recipe.lr, betas=(recipe.momentum, recipe.momentum), weight_decay=recipe.weight_decay, foreach=True
    )


def roles(model: nn.Module) -> dict[str, Role]:
    """Return the role of each parameter by its name; for a tied parameter, by its first name.

    - ``norm``: a parameter of a normalization: one of torch's classes, or a custom RMSNorm class;
    - ``scalar``: a parameter with one number and at most one dimension outside of weight layers: a multiplier or bias
      of Fixup or SkipInit, β of β-Swish, the slope of a PReLU;
    - ``bias``: another parameter of at most one dimension whose own name contains ``bias``: in a linear layer,
      convolution or attention, or the bias per channel that replaces a normalization;
    - ``weight``: all others, including embeddings and gates with more than one number.
    """
    role_of: dict[str, Role] = {}
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        parent, _, last = name.rpartition(".")
        role_of[name] = _role(modules[parent], last, parameter)
    return role_of


def _role(module: nn.Module, name: str, parameter: nn.Parameter) -> Role:
    if isinstance(module, NORM_LAYERS) or is_written_out_rms_norm(module):
        return "norm"
    if parameter.dim() > 1:
        return "weight"
    if parameter.numel() == 1 and not is_weight_layer(module):
        return "scalar"
    return "bias" if "bias" in name else "weight"


def make_parameter_groups(
    model: nn.Module, recipe: Recipe, declared: Multipliers | None = None
) -> list[dict[str, Any]]:
    """Return parameter groups for the recipe's optimizer, without frozen parameters.

    A parameter's learning rate is `recipe.lr` times the recipe's multiplier for its role; without one, times the
    initializer's multiplier for its name, or 1. So a role that the recipe names is treated alike for every initializer,
    and other parameters follow each initializer. The weight decay is the recipe's for the role, or else the general
    one times the initializer's multiplier. ε of Adam and AdamW is `EPSILON` times the initializer's multiplier.
    """
    declared = declared or Multipliers()
    multipliers, decays = _named(recipe.lr_multipliers), _named(recipe.weight_decays)
    role_of: Mapping[str, str] = roles(model) if multipliers or decays else {}
    groups: dict[tuple[float, float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            role = role_of.get(name, "")
            multiplier = multipliers.get(role, declared.learning_rate.get(name, 1.0))
            decay = decays.get(role, recipe.weight_decay * declared.weight_decay.get(name, 1.0))
            groups.setdefault((multiplier, decay, declared.epsilon.get(name, 1.0)), []).append(parameter)
    return [
        {"params": parameters, "lr": recipe.lr * multiplier, "weight_decay": decay}
        | ({"eps": EPSILON * epsilon} if recipe.optimizer in {"adam", "adamw"} else {})
        for (multiplier, decay, epsilon), parameters in groups.items()
    ]


def _named(values: ByRole | None) -> dict[str, float]:
    return {} if values is None else values.named


class Schedule:
    """A recipe's schedule in steps.

    Warm-up takes the first W steps, at (t + 1) / W: it starts above 0 and ends at 1 (Goyal et al., Accurate, Large
    Minibatch SGD, 2017, section 2.2). W is `warmup_steps`, or ⌊`warmup_epochs` · `steps_per_epoch`⌋. Then, for t = W
    ... T − 1:

    - ``cosine`` is (1 + cos(π(t − W) / (T − W))) / 2, one cycle over the remaining steps (Loshchilov & Hutter, SGDR,
      2017, equation 5 with a minimum of 0);
    - ``linear`` is 1 − (t − W) / (T − W) (Devlin et al., BERT, 2019, appendix A.2);
    - ``inverse_square_root`` is √(W / (t + 1)), which with the warm-up is the schedule of Vaswani et al., Attention Is
      All You Need, 2017, equation 3, with `lr` as its largest value (the paper counts steps from 1). With `shift_steps`
      S it is √(S / (S + t)), which starts at 1 (Huang et al., 2020);
    - ``step`` multiplies by `step_factor` after each milestone's number of epochs, counted from the beginning.

    Attributes:
        steps: T, the steps of the whole training; 0 for none.
        epochs: epochs that the steps take, the last one possibly in part.
        warmup: W. A warm-up that is longer than the training ends with it.
    """

    def __init__(self, recipe: Recipe, steps_per_epoch: int) -> None:
        self.recipe = recipe
        self.steps_per_epoch = steps_per_epoch
        self.steps = recipe.epochs * steps_per_epoch if recipe.steps is None else recipe.steps
        self.epochs = -(-self.steps // steps_per_epoch)
        # A product such as 0.29 * 100 is slightly below the intended whole number.
        self.warmup = recipe.warmup_steps or math.floor(recipe.warmup_epochs * steps_per_epoch + 1e-9)

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0; meaningless after the last step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        recipe, remaining = self.recipe, max(1, self.steps - self.warmup)
        if recipe.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / remaining))
        if recipe.schedule == "linear":
            return 1 - (step - self.warmup) / remaining
        if recipe.shift_steps:
            return math.sqrt(recipe.shift_steps / (recipe.shift_steps + step))
        if recipe.schedule == "inverse_square_root":
            return math.sqrt(max(1, self.warmup) / (step + 1))
        if recipe.schedule == "step":
            # Divided as integers, so that a milestone is met exactly.
            return float(recipe.step_factor ** bisect_right(recipe.milestones, step // self.steps_per_epoch))
        return 1.0
