"""Why a recipe cannot train a model on a task: known when trials are planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from initbench.data.dataset import Samples
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.tasks import Task
from initbench.training.checkpointing import find_blocks
from initbench.training.precision import tf32_is_supported
from initbench.training.recipe import Recipe

_OF_SOME_TASKS = ("mixup", "label_smoothing", "batch_tokens")
_OF_IMAGES = ("random_resized_crop", "crop", "flip", "cutout", "channels_last")


@dataclass(frozen=True)
class ModelTraits:
    """The properties of a model that a recipe depends on.

    They are whether it has blocks for activation checkpointing, and whether its outputs depend on batch statistics.
    """

    has_blocks: bool
    has_batch_norm: bool

    @classmethod
    def of(cls, model: nn.Module) -> Self:
        return cls(bool(find_blocks(model)), any(isinstance(module, _BatchNorm) for module in model.modules()))


def data_refusal(recipe: Recipe, task: Task, inputs: Inputs) -> str | None:
    """Return why a recipe cannot train any model on these data, beginning with the field; None if it can."""
    if not recipe.trains:
        return None
    for field in _OF_SOME_TASKS:
        if getattr(recipe, field) and field not in task.recipe_fields:
            return f"{field} is not for task {task.name}"
    for field in _OF_IMAGES:
        if getattr(recipe, field) and not inputs.is_image:
            return f"{field} is for images, the inputs are {inputs}"
    if recipe.mixup and inputs.vocabulary is not None:
        return f"mixup is for inputs that are numbers, they are {inputs}"
    return None


def model_refusal(recipe: Recipe, model: ModelTraits) -> str | None:
    """Return why a recipe cannot train a model on any data, beginning with the field; None if it can."""
    if not recipe.trains:
        return None
    if recipe.activation_checkpointing and not model.has_blocks:
        return "activation_checkpointing needs blocks, modules of layers in an nn.Sequential or nn.ModuleList"
    if recipe.accumulate > 1 and recipe.batch_norm == "whole_batch" and model.has_batch_norm:
        return (
            "accumulate takes the statistics of BatchNorm over micro-batches, which changes the training; "
            "write batch_norm: micro_batch if that is intended"
        )
    return None


def multiplier_refusal(recipe: Recipe) -> str | None:
    """Return why a recipe cannot keep an initializer's multipliers exactly, beginning with the field; None if it can.

    Multipliers that are part of a method stand for factors in the forward pass that are folded into the weights.
    """
    if not recipe.trains:
        return None
    for field in ("lr_multipliers", "weight_decays"):
        if getattr(recipe, field) is not None:
            return f"{field} would replace multipliers that are part of the method; leave it out"
    if recipe.clip_norm is not None:
        return "clip_norm compares gradients of all parameters, which the method scales differently; leave it out"
    if recipe.optimizer == "adam" and recipe.weight_decay:
        return "weight_decay of adam is scaled with the gradient, so the method does not cover it; use adamw"
    return None


def check_sentences(recipe: Recipe, split: Samples) -> None:
    """Raise an ArgumentError if the sentences of a training split do not fit into batches of `batch_tokens`."""
    if not recipe.trains or recipe.batch_tokens is None:
        return
    if split.lengths is None:
        raise ArgumentError("is for pairs of sentences; the samples of this dataset have no lengths", "batch_tokens")
    longest = int(split.lengths.max())
    if longest > recipe.batch_tokens:
        raise ArgumentError(
            f"must be at least {longest}, the tokens of the longest training sentence; got {recipe.batch_tokens}",
            "batch_tokens",
        )


def check_device(recipe: Recipe, device: torch.device | str) -> None:
    """Raise an ArgumentError if the device does not support a field: the id would then stand for other numbers."""
    if recipe.precision == "tf32" and not tf32_is_supported(device):
        raise ArgumentError(
            f"tf32 needs a GPU that can compute in it, such as NVIDIA's since Ampere; the device is {device}",
            "precision",
        )
    if recipe.cudnn_benchmark and torch.device(device).type != "cuda":
        raise ArgumentError(f"is for GPUs; the device is {device}", "cudnn_benchmark")
