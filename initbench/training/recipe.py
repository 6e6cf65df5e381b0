"""The recipe: how a model is trained. Pure data, no torch, so that suites and reports can read it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]


class Recipe(BaseModel):
    """How a model is trained; every field changes the numbers, so every field is part of a trial's id.

    Attributes:
        epochs: passes over the training split.
        batch_size: samples per step; the last batch of an epoch may be smaller, and a single sample left over joins it.
        optimizer: ``sgd`` or ``adam``.
        lr: initial learning rate.
        momentum: of SGD.
        nesterov: Nesterov's form of the momentum.
        weight_decay: L2 coefficient, on every parameter.
        betas: of Adam.
        schedule: ``cosine`` (per iteration, to 0, one cycle), ``step`` or ``constant``.
        milestones: for ``step``: the epochs at whose start the learning rate is multiplied by `step_factor`.
        step_factor: see `milestones`.
        clip_norm: largest global L2 norm of the gradient; null for no clipping.
        crop: pixels of zero padding on each side before a random crop to the original size; 0 for none.
        flip: horizontal flip with probability 1/2.
        mixup: α of mixup's Beta(α, α); 0 for none (Zhang et al., 2018).
        channels_last: memory format of model and inputs.
        history_every: steps between entries of the step history; null for one entry per epoch alone.
        threads: CPU threads of a trial. 1 and 2 threads are not bitwise equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    epochs: Count = 10
    batch_size: Count = 128
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: NonNegative = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    milestones: tuple[Count, ...] = ()
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    crop: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    mixup: NonNegative = 0.0
    channels_last: bool = False
    history_every: Count | None = None
    threads: Count = 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.schedule == "step" and not self.milestones:
            raise ValueError("schedule: step needs milestones, a list of epochs")
        if self.milestones and self.schedule != "step":
            raise ValueError(f"milestones are for schedule: step, not {self.schedule}")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("milestones must increase")
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise ValueError("nesterov needs optimizer: sgd with momentum above 0")
        for name, switch, needed in (
            ("momentum", "optimizer", "sgd"),
            ("betas", "optimizer", "adam"),
            ("step_factor", "schedule", "step"),
        ):
            # It would change the id of a trial and nothing else of it.
            if getattr(self, switch) != needed and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is for {switch}: {needed}, not {getattr(self, switch)}")
        return self
