"""The recipe: how a model is trained. Pure data without torch, so that suites and reports can read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_serializer, model_validator

from initbench.arguments import Key, argument_of, explain
from initbench.errors import ArgumentError

Count = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Precision = Literal["fp32", "tf32", "bf16"]
Role = Literal["scalar", "norm", "bias", "weight"]
"""The role of a parameter for the optimizer; see `initbench.training.optimizer.roles`."""
RECIPE_VERSION = 1
"""Part of every trial's id: raised when a new default or training loop changes a recipe's numbers."""


class ByRole(BaseModel):
    """A number for the parameters of each named role; null for other roles.

    Attributes:
        scalar: for parameters with a single number, such as the multipliers and biases of Fixup and SkipInit.
        norm: for the parameters of normalizations.
        bias: for the biases of layers and channels.
        weight: for all others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    scalar: NonNegative | None = None
    norm: NonNegative | None = None
    bias: NonNegative | None = None
    weight: NonNegative | None = None

    @model_validator(mode="after")
    def _names_a_role(self) -> Self:
        if not self.named:
            raise ValueError(f"must name a role ({', '.join(type(self).model_fields)}), or be null")
        return self

    @property
    def named(self) -> dict[str, float]:
        return {role: value for role, value in self if value is not None}

    @model_serializer
    def _named_alone(self) -> dict[str, float]:
        return self.named


class Recipe(BaseModel):
    """How a model is trained; every field is part of a trial's id.

    A field that would change nothing but the id is refused, with an `ArgumentError` that names it. Milestones after the
    end of the training are accepted. With `epochs` 0 the training fields are accepted, so that a sweep's recipe can be
    used to measure at initialization only; they remain part of the id although they have no effect.

    Attributes:
        epochs: passes over the training split. 0 trains nothing: the network is only measured at initialization.
        steps: steps of the optimizer, instead of `epochs`; null for none. The schedule runs over them, and the last
            epoch may end early.
        batch_size: samples per step; the last batch of an epoch may be smaller, and a single leftover sample joins it.
        batch_tokens: for pairs of sentences, instead of `batch_size`: the most tokens per step, padding included, of
            the source or of the target. Sentences of like length form a batch; the batches of an epoch are fixed by
            the seed, and their order changes from epoch to epoch (as with ``--max-tokens`` of fairseq). null for none.
        accumulate: number of micro-batches per step, processed one after another to save memory. The gradient is the
            same mean over all samples of the batch, or over their target tokens, up to rounding.
        batch_norm: ``whole_batch`` refuses `accumulate` for a model with BatchNorm; ``micro_batch`` lets BatchNorm take
            its statistics over each micro-batch, which changes the numbers (in Ioffe & Szegedy, Batch Normalization,
            2015, they are over the whole batch).
        optimizer: ``sgd``, ``signsgd`` (Bernstein et al., signSGD, ICML 2018: algorithm 2, Signum, and with momentum 0
            algorithm 1, signSGD), ``adam`` (Kingma & Ba, Adam, 2015, algorithm 1) or ``adamw`` (Loshchilov & Hutter,
            Decoupled Weight Decay Regularization, 2019, algorithm 2).
        lr: initial learning rate, or the end of the warm-up if there is one.
        momentum: momentum of ``sgd`` and ``signsgd``. SGD's velocity is v ← μv + g, Signum's average is
            m ← μm + (1 − μ)g.
        nesterov: whether SGD uses Nesterov's form of momentum.
        weight_decay: λ, for every parameter (but see `weight_decays`): λθ is added to the gradient (L2). With
            ``adamw``, and with ``signsgd``, whose step size does not depend on the gradient's, it is decoupled: θ is
            multiplied by 1 − lr·λ before the step.
        lr_multipliers: role → multiplier of the learning rate for its parameters, overriding the initializer's; null
            for none. The roles are ``scalar`` (single numbers, such as the multipliers and biases of Fixup and
            SkipInit), ``norm`` (in normalizations), ``bias`` (of layers and channels) and ``weight`` (all others).
            ``{scalar: 0.1, bias: 0.1}`` is the rule of Fixup's and GradInit's authors for networks without
            normalization.
        weight_decays: role → λ for its parameters, overriding `weight_decay`; null for none. ``{norm: 0}`` is the rule
            of GradInit's authors for networks with BatchNorm.
        betas: betas of ``adam`` and ``adamw``.
        schedule: ``cosine`` (to 0, one cycle; Loshchilov & Hutter, SGDR, 2017), ``linear`` (to 0; Devlin et al., BERT,
            2019, appendix A.2), ``inverse_square_root`` (lr·√(W / t) after a warm-up of W steps; Vaswani et al.,
            Attention Is All You Need, 2017, section 5.3; or see `shift_steps`), all per step, ``step`` or
            ``constant``.
        milestones: for ``step``: the epochs at whose start the learning rate is multiplied by `step_factor`.
        step_factor: see `milestones`.
        warmup_epochs: epochs over which the learning rate rises linearly, in steps of equal size, to `lr` (Goyal et
            al., Accurate, Large Minibatch SGD, 2017, section 2.2). Cosine and linear run over the remaining steps;
            milestones are counted from the beginning.
        warmup_steps: the same in steps, instead of `warmup_epochs`; 0 for none.
        shift_steps: S of lr·√(S / (S + t)) at step t = 0, 1, ..., with which ``inverse_square_root`` starts at `lr`
            without a warm-up (Huang et al., Improving Transformer Optimization Through Better Initialization, 2020; S
            is 4000 in the authors' code); 0 for none.
        clip_norm: largest global L2 norm of the gradient; null for no clipping.
        random_resized_crop: for example ``[0.08, 1]``: from each image a random window of 8 % to 100 % of its area with
            a ratio of width to height between 3/4 and 4/3, resized to the image's size (Szegedy et al., Going Deeper
            with Convolutions, 2015, section 6); null for none. Only for images, like `crop`, `flip` and `cutout`.
        crop: pixels of zero padding on each side before a random crop to the original size; 0 for none.
        flip: horizontal flip with probability 1/2.
        cutout: side in pixels of a square that is set to 0 (the training mean), centred anywhere in the image; 0 for
            none (DeVries & Taylor, 2017, section 3.2).
        mixup: α of mixup's Beta(α, α); 0 for none (Zhang et al., 2018).
        label_smoothing: ε: the training targets are (1 − ε) · one-hot + ε / classes; evaluation keeps the plain
            cross-entropy (Szegedy et al., Rethinking the Inception Architecture, 2016, section 7).
        precision: of matrix products, convolutions and RNNs in training and evaluation. ``fp32`` is exact float32.
            ``tf32`` rounds the factors of float32 products to 10 bits, on GPUs that can (NVIDIA's since Ampere).
            ``bf16`` runs the model under `torch.autocast` in bfloat16; the parameters, the optimizer and the loss stay
            in float32. Initializers and probes always compute in exact float32.
        deterministic: whether the whole trial, with initializer and probes, uses only kernels that give equal bits in
            each run on a GPU (`torch.use_deterministic_algorithms`). An operation without such a kernel fails the trial
            with its name.
        cudnn_benchmark: whether cuDNN measures its convolution kernels in training, on a GPU, and takes the fastest
            (`torch.backends.cudnn.benchmark`). The choice can differ from run to run, so two trials with one id need
            not give the same bits.
        compile: whether training steps run the model through `torch.compile`, once for each shape; evaluation does not.
            A compiled model adds in another order, so the numbers differ in their last digits. Each trial compiles
            anew, which counts as training time. On a CPU this needs a C++ compiler.
        activation_checkpointing: whether to keep only the inputs of the model's blocks and recompute the rest in the
            backward pass, to save memory (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016). The
            numbers are the same except where the device's kernels are not deterministic, so it is still part of the id.
        channels_last: memory format of model and inputs, which must be images.
        history_every: steps between entries of the step history; null for one entry per epoch.
        evaluate_every: steps between evaluations; null for one at every entry of the history. If it is set, other
            entries contain only training values. The last step is always evaluated.
        threads: CPU threads of a trial. Results with 1 and 2 threads are not bitwise equal.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    epochs: Annotated[int, Field(ge=0)] = 10
    steps: Count | None = None
    batch_size: Count = 128
    batch_tokens: Count | None = None
    accumulate: Count = 1
    batch_norm: Literal["whole_batch", "micro_batch"] = "whole_batch"
    optimizer: Literal["sgd", "signsgd", "adam", "adamw"] = "sgd"
    lr: NonNegative = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: NonNegative = 0.0
    lr_multipliers: ByRole | None = None
    weight_decays: ByRole | None = None
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    schedule: Literal["cosine", "linear", "inverse_square_root", "step", "constant"] = "cosine"
    milestones: tuple[Count, ...] = ()
    step_factor: Fraction = 0.1
    warmup_epochs: NonNegative = 0.0
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    shift_steps: Annotated[int, Field(ge=0)] = 0
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    random_resized_crop: tuple[Fraction, Fraction] | None = None
    crop: Annotated[int, Field(ge=0)] = 0
    flip: bool = False
    cutout: Annotated[int, Field(ge=0)] = 0
    mixup: NonNegative = 0.0
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    precision: Precision = "fp32"
    deterministic: bool = False
    cudnn_benchmark: bool = False
    compile: bool = False
    activation_checkpointing: bool = False
    channels_last: bool = False
    history_every: Count | None = None
    evaluate_every: Count | None = None
    threads: Count = 1

    def plain(self) -> dict[str, Any]:
        """Return the fields as Python values; `ByRole` values become mappings."""
        return {name: value.named if isinstance(value, ByRole) else value for name, value in self}

    @property
    def trains(self) -> bool:
        """Whether the recipe has any step."""
        return self.steps is not None or self.epochs > 0

    @model_validator(mode="after")
    def _length(self) -> Self:
        if self.steps is not None and self.epochs != self._default("epochs"):
            raise ArgumentError(f"cannot be combined with epochs, {self.epochs}; give one of them", "steps")
        if self.warmup_steps and self.warmup_epochs:
            raise ArgumentError(
                f"cannot be combined with warmup_epochs, {self.warmup_epochs:g}; give one of them", "warmup_steps"
            )
        if self.steps is not None and self.warmup_steps >= self.steps:
            raise ArgumentError(f"must be less than steps, {self.steps}; got {self.warmup_steps}", "warmup_steps")
        if self.steps is None and self.trains and self.warmup_epochs >= self.epochs:
            raise ArgumentError(f"must be less than epochs, {self.epochs}; got {self.warmup_epochs:g}", "warmup_epochs")
        return self

    @model_validator(mode="after")
    def _learning_rates(self) -> Self:
        if self.schedule == "step" and not self.milestones:
            raise ArgumentError("must be a list of epochs with schedule: step", "milestones")
        if self.milestones and self.schedule != "step":
            raise ArgumentError(f"are for schedule: step, not {self.schedule}", "milestones")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ArgumentError("must increase", "milestones")
        if self.milestones and self.warmup_epochs > self.milestones[0]:
            raise ArgumentError(
                f"must be at most the first milestone, {self.milestones[0]}; got {self.warmup_epochs:g}",
                "warmup_epochs",
            )
        warm = self.warmup_steps or self.warmup_epochs
        if self.schedule == "inverse_square_root" and not (warm or self.shift_steps):
            raise ArgumentError(
                "inverse_square_root needs warmup_steps, warmup_epochs or shift_steps above 0", "schedule"
            )
        if self.shift_steps and self.schedule != "inverse_square_root":
            raise ArgumentError(f"is for schedule: inverse_square_root, not {self.schedule}", "shift_steps")
        if self.shift_steps and warm:
            raise ArgumentError("cannot be combined with a warm-up; give one of them", "shift_steps")
        return self

    @model_validator(mode="after")
    def _batches(self) -> Self:
        if self.batch_tokens is not None:
            if self.batch_size != self._default("batch_size"):
                raise ArgumentError(
                    f"cannot be combined with batch_size, {self.batch_size}; give one of them", "batch_tokens"
                )
            if self.batch_norm == "micro_batch":
                raise ArgumentError("micro_batch is for batch_size, not batch_tokens", "batch_norm")
            return self
        if self.accumulate > self.batch_size:
            raise ArgumentError(f"must be at most batch_size, {self.batch_size}; got {self.accumulate}", "accumulate")
        if self.batch_norm == "micro_batch" and self.accumulate == 1:
            raise ArgumentError("is for accumulate above 1", "batch_norm")
        if self.batch_norm == "micro_batch" and self.batch_size < 2 * self.accumulate:
            raise ArgumentError(
                f"must be at most batch_size / 2, {self.batch_size / 2:g}, with batch_norm: micro_batch; "
                f"got {self.accumulate}",
                "accumulate",
            )
        return self

    @model_validator(mode="after")
    def _kernels(self) -> Self:
        if self.deterministic and self.cudnn_benchmark:
            raise ArgumentError(
                "cannot be combined with deterministic: its choice of kernels varies", "cudnn_benchmark"
            )
        if self.compile and self.activation_checkpointing:
            raise ArgumentError(
                "cannot be combined with activation_checkpointing: the compiler chooses what is recomputed", "compile"
            )
        return self

    @model_validator(mode="after")
    def _augmentation(self) -> Self:
        if self.random_resized_crop is not None and self.random_resized_crop[0] > self.random_resized_crop[1]:
            smallest, largest = self.random_resized_crop
            raise ArgumentError(
                f"must be the smallest and the largest part of the area, got [{smallest:g}, {largest:g}]",
                "random_resized_crop",
            )
        return self

    @model_validator(mode="after")
    def _optimization(self) -> Self:
        if self.nesterov and (self.optimizer != "sgd" or self.momentum == 0):
            raise ArgumentError("needs optimizer: sgd with momentum above 0", "nesterov")
        if self.clip_norm is not None and self.optimizer == "signsgd" and self.momentum == 0:
            raise ArgumentError(
                "does not change the sign of a gradient: optimizer: signsgd needs momentum above 0", "clip_norm"
            )
        for role, decay in (self.weight_decays.named if self.weight_decays is not None else {}).items():
            if decay == self.weight_decay:
                raise ArgumentError(f"repeats weight_decay, {decay:g}, for {role}; leave it out", "weight_decays")
        for name, switch, needed in (
            ("momentum", "optimizer", ("sgd", "signsgd")),
            ("betas", "optimizer", ("adam", "adamw")),
            ("step_factor", "schedule", ("step",)),
        ):
            if getattr(self, switch) not in needed and getattr(self, name) != self._default(name):
                raise ArgumentError(f"is for {switch}: {' or '.join(needed)}, not {getattr(self, switch)}", name)
        return self

    def _default(self, name: str) -> Any:
        return type(self).model_fields[name].default


def checked_recipe(fields: Mapping[str, Any], refused: Callable[[Key, str], Exception]) -> Recipe:
    """Return the recipe with these fields, in which YAML lists become tuples.

    A wrong field raises the exception that `refused` makes of its key and the problem.
    """
    try:
        return Recipe.model_validate({k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        valid = Recipe.model_fields if len(details["loc"]) == 1 else ByRole.model_fields
        raise refused(argument_of(details), explain(details, valid)) from None
