"""The recipe: how a model is trained. Pure data, no torch, so that suites and reports can read it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Precision = Literal["fp32", "bf16"]
RECIPE_VERSION = 1
"""Part of every trial's id: raised when a recipe comes to other numbers, by a default or by the training loop."""


class Recipe(BaseModel):
    """How a model is trained; every field is part of a trial's id.

    Attributes:
        epochs: passes over the training split.
        batch_size: samples per step; the last batch of an epoch may be smaller, and a single sample left over joins it.
        optimizer: ``sgd``, ``signsgd`` (Bernstein et al., signSGD, ICML 2018: algorithm 2, Signum, and with momentum 0
            algorithm 1, signSGD) or ``adam``.
        lr: initial learning rate; where there is a warm-up, the one that it leads to.
        momentum: of ``sgd`` and ``signsgd``. SGD's velocity is v ← μv + g, Signum's is the average m ← μm + (1 − μ)g.
        nesterov: Nesterov's form of SGD's momentum.
        weight_decay: λ, on every parameter: λθ is added to the gradient (L2). With ``signsgd``, whose step has no size
            that a gradient could change, it is decoupled: θ is multiplied by 1 − lr·λ before the step.
        betas: of Adam.
        schedule: ``cosine`` (per iteration, to 0, one cycle), ``step`` or ``constant``.
        milestones: for ``step``: the epochs at whose start the learning rate is multiplied by `step_factor`.
        step_factor: see `milestones`.
        warmup_epochs: epochs over which the learning rate rises linearly, in steps of equal size, to `lr` (Goyal et
            al., Accurate, Large Minibatch SGD, 2017, section 2.2). The cosine runs over the steps that remain;
            milestones are counted from the beginning.
        clip_norm: largest global L2 norm of the gradient; null for no clipping.
        crop: pixels of zero padding on each side before a random crop to the original size; 0 for none.
        flip: horizontal flip with probability 1/2.
        cutout: side in pixels of a square that is set to 0 (the training mean), its centre anywhere in the image; 0
            for none (DeVries & Taylor, 2017, section 3.2).
        mixup: α of mixup's Beta(α, α); 0 for none (Zhang et al., 2018).
        label_smoothing: ε: the training targets are (1 − ε) · one-hot + ε / classes; evaluation keeps the plain
            cross-entropy (Szegedy et al., Rethinking the Inception Architecture, 2016, section 7).
        precision: ``bf16`` runs the model under `torch.autocast` in bfloat16, in training and in evaluation; the
            parameters, the optimizer and the loss stay in float32.
        activation_checkpointing: keep the inputs of the model's blocks alone and compute the rest again in the backward
            pass, for less memory (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016). The numbers are
            the same up to what the device's kernels do not repeat, which is why it is part of the id all the same.
        channels_last: memory format of model and inputs.
        history_every: steps between entries of the step history; null for one entry per epoch alone.
        threads: CPU threads of a trial. 1 and 2 threads are not bitwise equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    epochs: Count = 10
    batch_size: Count = 128
    optimizer: Literal["sgd", "signsgd", "adam"] = "sgd"
    lr: NonNegative = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    schedule: Literal["cosine", "step", "constant"] = "cosine"
    milestones: tuple[Count, ...] = ()
    step_factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    warmup_epochs: NonNegative = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    crop: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    cutout: Annotated[int, Field(ge=0)] = 0
    mixup: NonNegative = 0.0
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    precision: Precision = "fp32"
    activation_checkpointing: bool = False
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
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs must be less than epochs, {self.epochs}; got {self.warmup_epochs:g}")
        if self.milestones and self.warmup_epochs > self.milestones[0]:
            raise ValueError(
                f"warmup_epochs must be at most the first milestone, {self.milestones[0]}; got {self.warmup_epochs:g}"
            )
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise ValueError("nesterov needs optimizer: sgd with momentum above 0")
        if self.clip_norm is not None and self.optimizer == "signsgd" and self.momentum == 0:
            raise ValueError(
                "clip_norm does not change the sign of a gradient: optimizer: signsgd needs momentum above 0"
            )
        for name, switch, needed in (
            ("momentum", "optimizer", ("sgd", "signsgd")),
            ("betas", "optimizer", ("adam",)),
            ("step_factor", "schedule", ("step",)),
        ):
            # It would change the id of a trial and nothing else of it.
            if getattr(self, switch) not in needed and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} is for {switch}: {' or '.join(needed)}, not {getattr(self, switch)}")
        return self
