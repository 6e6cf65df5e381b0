"""The state of a training run that must be kept so that it can continue as if nothing had happened."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from initbench.models import random_state
from initbench.plugins import first_line
from initbench.training.run import TrainingRun

# Attributes of a run that are numbers, texts, or lists and mappings of these.
_PLAIN = ("steps", "samples", "seconds", "history", "evaluations", "first", "names", "sums", "epoch_samples")
# The state of each optimizer for a parameter: `step` is a number, the rest has the parameter's shape.
_MOMENTS = {
    "sgd": {"momentum_buffer"},
    "signsgd": {"exp_avg"},
    "adam": {"step", "exp_avg", "exp_avg_sq"},
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
}


class CheckpointError(Exception):
    """A checkpoint does not fit the run that is to continue from it."""


def training_state(run: TrainingRun) -> dict[str, Any]:
    """Return the state that `restore` needs: only tensors, numbers, texts, lists and mappings, so that it loads safely.

    Tensors are the run's own and change with its next step. The state includes the model's parameters, buffers and
    extra state (`nn.Module.get_extra_state`), the optimizer's moments, the scheduler's position, the streams of data
    order and augmentation, the global streams, which dropout uses, and all measurements so far. The values of all steps
    must have been collected.
    """
    assert not run.pending
    model, device = run.model, run.dataset.train.device
    return {
        "parameters": {name: parameter.detach() for name, parameter in model.named_parameters()},
        "buffers": {name: buffer.detach() for name, buffer in model.named_buffers()},
        "extra": {name: module.get_extra_state() for name, module in _with_extra_state(model).items()},
        "optimizer": run.optimizer.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "batches": run.batches.state(),
        "global_stream": torch.get_rng_state(),
        "device_stream": random_state.device_state(device),
        # As text, because a plug-in's task may measure NumPy scalars, which are not plain data.
        "progress": json.dumps({name: getattr(run, name) for name in _PLAIN}, default=lambda scalar: scalar.item()),
    }


def restore(run: TrainingRun, state: Mapping[str, Any]) -> None:
    """Set a run that has not begun, and the global random streams, to the state of another run of the same trial.

    The numbers and texts of `state` have been checked as far as possible without the run. After a CheckpointError,
    which says that the state does not fit, the run must not be used.
    """
    model, device = run.model, run.dataset.train.device
    try:
        progress = _checked_progress(run, state["progress"])
        _check_optimizer(run, state, progress["steps"])
        if state["batches"]["taken"] != progress["steps"] % len(run.batches):
            raise ValueError("the batches that were taken are not those of its steps")  # noqa: TRY301
        _copy(dict(model.named_parameters()), state["parameters"])
        _copy(dict(model.named_buffers()), state["buffers"])
        for name, module in _with_extra_state(model).items():
            module.set_extra_state(state["extra"][name])
        run.optimizer.load_state_dict(state["optimizer"])
        run.scheduler.load_state_dict(state["scheduler"])
        run.batches.restore(state["batches"])
        torch.set_rng_state(state["global_stream"])
        if random_state.has_random_state(device):
            torch.get_device_module(device).set_rng_state(state["device_stream"], device)
        for name, value in progress.items():
            setattr(run, name, value)
    except Exception as error:  # whatever the reason, the trial can start again
        raise CheckpointError(f"it does not fit the trial: {type(error).__name__}: {first_line(error)}") from error


def kind_of(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.layout, bool]:
    """Return the properties that must be equal to copy a tensor into another."""
    return tensor.shape, tensor.dtype, tensor.layout, tensor.is_meta


def _checked_progress(run: TrainingRun, text: str) -> dict[str, Any]:
    progress: dict[str, Any] = json.loads(text)
    if not run.recipe.trains or progress["steps"] > run.schedule.steps:
        raise ValueError(f"it is of step {progress['steps']}, and the trial has {run.schedule.steps}")
    metrics = {metric.name for metric in run.task.metrics}
    evaluations = [*progress["evaluations"], *([] if progress["first"] is None else [progress["first"]])]
    if not all(metrics <= values.keys() for values in evaluations):
        raise ValueError("an evaluation lacks metrics of the task")
    return progress


def _check_optimizer(run: TrainingRun, state: Mapping[str, Any], steps: int) -> None:
    """Check the states of the optimizer and the scheduler, which load anything and would fail in the next step."""
    kept, current = state["optimizer"], run.optimizer.state_dict()
    rates = [group["lr"] for group in kept["param_groups"]]
    if not all(isinstance(rate, float | int) and math.isfinite(rate) for rate in rates):
        raise ValueError("a learning rate is not a number")
    if [group | {"lr": None} for group in kept["param_groups"]] != [g | {"lr": None} for g in current["param_groups"]]:
        raise ValueError("other parameter groups")
    position = {"last_epoch": steps, "_step_count": steps + 1, "_last_lr": rates}
    if state["scheduler"] != run.scheduler.state_dict() | position:
        raise ValueError("the position of the scheduler does not match the steps")
    parameters = [parameter for group in run.optimizer.param_groups for parameter in group["params"]]
    for index, moments in kept["state"].items():
        if moments.keys() != _MOMENTS[run.recipe.optimizer]:
            raise ValueError(f"other moments: {', '.join(map(str, moments))}")
        for name, tensor in moments.items():
            if name == "step":
                if not tensor.is_floating_point() or tensor.shape != () or not 0 <= tensor.item() <= steps:
                    raise ValueError("the optimizer's steps do not match the run")
            elif kind_of(tensor) != kind_of(parameters[index]):
                raise ValueError(f"{name} is of another shape or type")


def _with_extra_state(model: nn.Module) -> dict[str, nn.Module]:
    plain = nn.Module.get_extra_state
    return {name: module for name, module in model.named_modules() if type(module).get_extra_state is not plain}


def _copy(tensors: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    if tensors.keys() != kept.keys():
        raise ValueError(f"other tensors: {', '.join(sorted(tensors.keys() ^ kept.keys())[:3])}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if kind_of(tensor) != kind_of(kept[name]):
                raise ValueError(f"{name} is of another shape or type")
            tensor.copy_(kept[name])
