"""Whether a model starts sane: signals, gradients, loss and gradient quotient, before any training."""

from __future__ import annotations

import copy
import math
import statistics
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.data.batches import endless_batches
from initbench.data.dataset import Dataset
from initbench.data.load import load_dataset
from initbench.differentiation.gradients import flatten, trainable_parameters
from initbench.differentiation.micro_batches import losses_of
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.initializers.initialize import initialize
from initbench.inputs import Inputs
from initbench.inspection.batch import Objective, Pairs, draw_pairs, infer_inputs, objective_of
from initbench.inspection.propagation import Propagation, propagate
from initbench.inspection.source import Build, ModelSource, as_source, model_source
from initbench.inspection.verdicts import KINDS, Verdict, judge
from initbench.json_values import json_values
from initbench.models.batches import move, reference_parameter, zero_inputs
from initbench.models.kernels import float32_products
from initbench.models.state import check_storage, evaluate_but_batch_norm, forked_rng, preserved
from initbench.probes.gradient_quotient import (
    epsilon_floor,
    is_saturated,
    quotient_and_gradients,
)
from initbench.randomness import generator
from initbench.registry import INITIALIZERS
from initbench.structure.find import find_structure

AS_BUILT = "as built"
_EPSILON = 1e-5  # of the gradient quotient, as in MetaInit
_SAMPLES = 8
_QUOTIENT_SAMPLES = 4  # of them, because second derivatives cost several times as much as the rest


@dataclass(frozen=True)
class Quotient:
    """The gradient quotient of one batch; see `initbench.gradient_quotient`.

    Attributes:
        value: GQ.
        saturated: whether it shows the smallness of gradients, not their change: more than half of the entries are
            below ε, and ε alone gives more than half of the value.
    """

    value: float
    saturated: bool


@dataclass(frozen=True)
class Row:
    """The signals and the verdict after one initializer.

    Attributes:
        initializer: its label, or ``as built``.
        verdict: over all seeds: the most frequent one, of equally frequent ones the worst; None if not judged.
        seeds: the signals at each seed.
        verdicts: at each seed.
        chance: the loss of a uniform prediction, in nats; None if the number of classes is unknown.
        quotient: at the first seed; None if the model cannot be differentiated twice.
        not_judged: why there is no verdict; empty if there is one.
        notes: the initializer's warnings, such as which weights it passes over.
    """

    initializer: str
    verdict: Verdict | None = None
    seeds: tuple[Propagation, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    chance: float | None = None
    quotient: Quotient | None = None
    not_judged: str = ""
    notes: tuple[str, ...] = ()

    @property
    def gradient_range(self) -> float | None:
        """The median over seeds of the gradient at the first layer's outputs, relative to the last one's."""
        ratios = []
        for signals in self.seeds:
            gradients = [layer.gradient for layer in signals.trunk if not layer.aside and layer.kind != "embedding"]
            known = [gradient for gradient in gradients if gradient is not None]
            ratios.append(known[0] / known[-1] if len(known) > 1 and known[-1] else math.nan)
        return _median(ratios)

    @property
    def correlation(self) -> float | None:
        """The median over seeds of the correlation of two inputs' features in the last layer before the heads."""
        return _median([_last([layer.correlation for layer in signals.trunk]) for signals in self.seeds])

    @property
    def dead(self) -> float | None:
        """The median over seeds of the largest fraction of dead units of a ReLU; None without ReLUs."""
        return _median([max(signals.dead, default=math.nan) for signals in self.seeds])

    @property
    def branch_ratio(self) -> float | None:
        """The median over seeds of the largest ratio of a residual branch to its skip path; None without branches."""
        return _median([max(signals.branches.values(), default=math.nan) for signals in self.seeds])

    @property
    def gradient_norm(self) -> float | None:
        """The median over seeds."""
        return _median([signals.gradient_norm for signals in self.seeds])

    @property
    def loss_over_chance(self) -> float | None:
        """The median over seeds of the loss relative to the loss of a uniform prediction; None if unknown."""
        losses = _median([signals.loss for signals in self.seeds])
        return None if losses is None or not self.chance else losses / self.chance

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data; numbers that are not finite are None, with the reason beside them."""
        fields: dict[str, Any] = {
            "initializer": self.initializer,
            "verdict": None if self.verdict is None else vars(self.verdict),
            "not_judged": self.not_judged or None,
            "notes": list(self.notes),
            "verdicts": [vars(verdict) for verdict in self.verdicts],
            "chance": self.chance,
            "quotient": None if self.quotient is None else vars(self.quotient),
        }
        fields |= {name: getattr(self, name) for name in _SUMMARIES}
        fields["seeds"] = [vars(s) | {"layers": [vars(layer) for layer in s.layers]} for s in self.seeds]
        return dict(json_values(fields))

    def __str__(self) -> str:
        sentence = f"not judged: {self.not_judged}" if self.verdict is None else self.verdict.sentence
        return f"{self.initializer}: {sentence}"


_SUMMARIES = ("gradient_range", "correlation", "dead", "branch_ratio", "gradient_norm", "loss_over_chance")


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.median(known) if known else None


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


@dataclass(frozen=True)
class Check:
    """The result of `check`; ``print`` shows one sentence for each initializer.

    Attributes:
        model: its name.
        inputs: describes one sample.
        objective: the differentiated number: the loss of a task, or ``projection``, a random projection of the outputs.
        data: the dataset of the inputs; None for random ones.
        rows: one for each initializer, in the order given.
    """

    model: str
    inputs: Inputs
    objective: str
    data: str | None
    rows: tuple[Row, ...]

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the verdicts."""
        return frozenset(row.verdict.kind for row in self.rows if row.verdict is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {
            "model": self.model,
            "inputs": self.inputs.to_json(),
            "objective": self.objective,
            "data": self.data,
            "rows": [row.to_json() for row in self.rows],
        }

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))


def check(
    model: nn.Module | Build,
    *,
    initializers: Sequence[str | Mapping[str, Any]] = (),
    seeds: int = 3,
    inputs: Inputs | None = None,
    outputs: int | None = None,
    data: str | Mapping[str, Any] | None = None,
    quotient: bool = True,
) -> Check:
    """Say whether a model starts sane, without training: one verdict for the model as built, or for each initializer.

    One forward and one backward pass per seed show the signal and the gradient over depth, the correlation of different
    and of similar inputs, dead units and the loss, with batch statistics in BatchNorm and without dropout. A verdict
    does not say which initializer is better: see `initbench.inspection.verdicts` for the thresholds. The model is left
    as it was.

    Args:
        model: a module, whose weights are judged as they are; or what is built anew for every seed: a model's name,
            such as ``timm/resnet18`` or ``package.module:function``, a class or function, or a source.
        initializers: registered names, or mappings of ``name`` and arguments; none for the model as it is built.
        seeds: number of seeds of model, initializer and batch.
        inputs: describes one sample; by default what the first layer accepts.
        outputs: number of classes, which makes the loss known. Several outputs, or outputs of an unknown task, are
            projected on random directions.
        data: a registered dataset, or a mapping of ``name`` and arguments, for real inputs and targets, and for
            initializers that need them; by default inputs are random.
        quotient: whether to measure the gradient quotient, at the first seed.

    Raises:
        InitbenchError: there is no such model, initializer or dataset, or an argument of the initializer is refused.
        InitializationError: the model does not run on the inputs, or has parameters without storage.
    """
    check_counts(seeds=seeds)
    if inputs is not None and not isinstance(inputs, Inputs):
        kind = type(inputs).__name__
        raise ArgumentError(f"must be an initbench.Inputs, which describes one sample, is {kind}", "inputs")
    dataset = None if data is None else load_dataset(*_name_and_arguments(data))
    if dataset is not None:
        inputs, outputs = dataset.inputs, dataset.outputs
    if isinstance(model, str):
        model = model_source(model, inputs=inputs, outputs=outputs if ":" not in model else None)
    elif not isinstance(model, nn.Module):
        model = as_source(model, "model")
    labels: dict[str, str | Mapping[str, Any] | None] = {_label(given): given for given in initializers}
    labels = labels or {AS_BUILT: None}
    for label, given in labels.items():
        if given is not None:
            _check_initializer(label, given)
    look = _Look(model, seeds, inputs, outputs, dataset, quotient)
    rows = tuple(look.row(label, given) for label, given in labels.items())
    return Check(look.name, look.inputs, look.objective.name, None if dataset is None else dataset.name, rows)


def _label(given: str | Mapping[str, Any]) -> str:
    name, arguments = _name_and_arguments(given)
    return name + (f"[{', '.join(f'{key}={value}' for key, value in arguments.items())}]" if arguments else "")


def _check_initializer(label: str, given: str | Mapping[str, Any]) -> None:
    name, arguments = _name_and_arguments(given)
    initializer = INITIALIZERS.get(name)
    try:
        initializer.call(initializer.resolve(arguments))
    except ArgumentError as error:
        raise InitbenchError(f"{label}: {error}") from None


def _name_and_arguments(given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if isinstance(given, str):
        return given, {}
    return given["name"], {key: value for key, value in given.items() if key != "name"}


class _Look:
    """Looks at one model after each initializer, with the same batches."""

    def __init__(
        self,
        model: nn.Module | ModelSource,
        seeds: int,
        inputs: Inputs | None,
        outputs: int | None,
        dataset: Dataset | None,
        quotient: bool,
    ) -> None:
        self._given, self._seeds, self._dataset, self._quotient = model, seeds, dataset, quotient
        self._built: dict[int, nn.Module] = {}
        self._copy: nn.Module | None = None
        first = self._build(0)
        check_storage(first)
        known = (model.inputs, model.outputs) if isinstance(model, ModelSource) else (None, None)
        self.name = model.name if isinstance(model, ModelSource) else type(model).__name__
        self.inputs = inputs or known[0] or infer_inputs(first)
        self._outputs = outputs or known[1]
        task = None if dataset is None else dataset.task
        self.objective = objective_of(first, self.inputs, self._outputs, task)
        self._structure = find_structure(first, zero_inputs(self.inputs, first))

    def _build(self, seed: int) -> nn.Module:
        """Return the model before any initializer; each is built once, because building draws all weights."""
        if not isinstance(self._given, ModelSource):
            return self._given
        if seed not in self._built:
            self._built[seed] = self._given.build(seed)
        return self._built[seed]

    def _pairs(self, seed: int) -> Pairs:
        return draw_pairs(self.inputs, seed, samples=_SAMPLES, objective=self.objective, dataset=self._dataset)

    def row(self, label: str, initializer: str | Mapping[str, Any] | None) -> Row:
        """Return the row of one initializer, None for the model as built."""
        signals, quotient = [], None
        notes: tuple[str, ...] = ()
        try:
            for seed in range(self._seeds):
                model, notes = self._initialized(seed, initializer)
                pairs = self._pairs(seed)
                signals.append(propagate(model, pairs, self.objective, self._structure, seed=seed))
                if seed == 0 and self._quotient:
                    quotient = gradient_quotient_of(model, pairs, self.objective, seed)
        except InitbenchError as error:
            if initializer is None:
                raise
            return Row(label, not_judged=str(error))
        verdicts = tuple(judge(one, self.objective.chance) for one in signals)
        chance = self.objective.chance
        return Row(label, _common(verdicts), tuple(signals), verdicts, chance, quotient, notes=notes)

    def _initialized(self, seed: int, initializer: str | Mapping[str, Any] | None) -> tuple[nn.Module, tuple[str, ...]]:
        """Return the model, and the warnings of its initializer."""
        model = self._build(seed)
        if initializer is None:
            self._built.clear()  # it is the only row: one model at a time is in memory
            return model, ()
        model = self._copied(model)
        name, arguments = _name_and_arguments(initializer)
        if INITIALIZERS.get(name).traits.data == "real" and self._dataset is None and "data" not in arguments:
            raise InitializationError("it needs real data: give a dataset (data, --data)")
        real = None if self._dataset is None else partial(_real_batches, self._dataset, seed)
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            initialize(
                model,
                name,
                inputs=self.inputs,
                num_classes=self.objective.outputs or self._outputs,
                task=self.objective.task,
                seed=seed,
                real_batches=real,
                loss_fn=self.objective.function(seed) if self.objective.name == "projection" else None,
                **arguments,
            )
        return model, tuple(str(warning.message) for warning in noted)

    def _copied(self, model: nn.Module) -> nn.Module:
        """Return the copy that all initializers work on, with a model's values: a new one each time would cost more."""
        if self._copy is None:
            self._copy = copy.deepcopy(model)
        else:  # `load_state_dict` takes several times as long
            with torch.no_grad():
                for copied, value in zip(_tensors(self._copy), _tensors(model), strict=True):
                    copied.copy_(value)
        return self._copy


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def _real_batches(dataset: Dataset, seed: int, batch_size: int) -> Any:
    return endless_batches(dataset.train, batch_size, generator(seed, "tuner_batches", "real"))


def _common(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the most frequent verdict, of equally frequent ones the worst, and say if seeds differ."""
    counts = Counter(verdict.kind for verdict in verdicts)
    kind = min(counts, key=lambda kind: (-counts[kind], KINDS.index(kind)))
    first = next(verdict for verdict in verdicts if verdict.kind == kind)
    if len(counts) == 1:
        return first
    others = ", ".join(f"{other} at {counts[other]}" for other in counts if other != kind)
    return Verdict(kind, f"{first.sentence} at {counts[kind]} of {len(verdicts)} seeds, {others}")


@float32_products()
def gradient_quotient_of(model: nn.Module, pairs: Pairs, objective: Objective, seed: int) -> Quotient | None:
    """Return the gradient quotient on half of the batch, without neighbours; None if there is no second derivative."""
    inputs, targets = move(objective.with_targets(pairs, seed), reference_parameter(model))
    batch = inputs[:_QUOTIENT_SAMPLES], targets[:_QUOTIENT_SAMPLES]
    try:
        over = trainable_parameters(model)
        with preserved(model), forked_rng(model, seed, "probe"), torch.no_grad():
            evaluate_but_batch_norm(model, "train")
            losses = losses_of(model, batch, objective.function(seed), None)
            value, gradients = quotient_and_gradients(model, losses, over, _EPSILON)
            # One tensor at a time: a vector of all entries costs more than its count. Unused parameters count as zeros.
            large = sum(
                int(torch.count_nonzero(gradient.abs() >= _EPSILON)) for gradient in gradients if gradient is not None
            )
            fraction = 1 - large / sum(parameter.numel() for parameter in over)
            # The floor, one more pass over all entries, matters only if most of them are below ε.
            floor = float(epsilon_floor(flatten(gradients, over))) if fraction > 0.5 else 0.0
    except (InitbenchError, RuntimeError):
        return None
    return Quotient(float(value), is_saturated(float(value), fraction, floor))
