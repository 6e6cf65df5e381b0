"""A batch for a look at an untrained model, and the number that is differentiated: a task's loss or a projection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from initbench.data.batches import endless_batches
from initbench.data.dataset import Dataset
from initbench.errors import InitializationError
from initbench.inputs import END, Inputs
from initbench.models.batches import zero_inputs
from initbench.models.calls import removed, running_on, tensor_of
from initbench.models.state import forked_rng, preserved
from initbench.randomness import generator
from initbench.structure.find import run_on_any_input
from initbench.structure.run_graph import tensors_in
from initbench.tasks import find_task

SIMILARITY = 0.9
"""The correlation of an input with its neighbour."""
_TEXT_LENGTHS = (32, 8)


def infer_inputs(model: nn.Module) -> Inputs:
    """Return the description of one sample that the model accepts, from its first layer.

    Raises:
        InitializationError: no sample that the first layer suggests runs.
    """
    sample, _ = run_on_any_input(model)
    if sample.is_floating_point():
        return Inputs(tuple(sample.shape[1:]))
    length = next((n for n in _TEXT_LENGTHS if _runs(model, sample.new_zeros(1, n))), sample.shape[1])
    return Inputs((length,), _vocabulary(model, sample))


@torch.no_grad()
def _runs(model: nn.Module, inputs: Tensor) -> bool:
    with preserved(model), forked_rng(model, 0, "probe"):
        model.eval()
        try:
            model(inputs)
        except Exception:  # noqa: BLE001  # the model's code may raise anything
            return False
    return True


@torch.no_grad()
def _vocabulary(model: nn.Module, sample: Tensor) -> int:
    """Return the number of rows of the embedding that looks up the input itself, not positions or segments."""
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
    reading: list[int] = []

    def look(module: nn.Embedding, inputs: tuple[Any, ...]) -> None:
        if inputs and torch.is_tensor(inputs[0]) and inputs[0].data_ptr() == sample.data_ptr():
            reading.append(module.num_embeddings)

    hooks = [module.register_forward_pre_hook(look) for module in embeddings]
    with removed(hooks):
        _runs(model, sample)
    return min(reading or [module.num_embeddings for module in embeddings])


@dataclass(frozen=True)
class Pairs:
    """A batch of inputs, each with a neighbour.

    Attributes:
        inputs: n samples, then a neighbour of each: (2n, ...). A neighbour is 0.9·x + √(1 - 0.9²)·y for another sample
            y; for tokens, one position in ten has another token.
        targets: of the task, (2n, ...); a neighbour has the same targets as its sample. None for random inputs, unless
            they are sentences to be translated.
    """

    inputs: Tensor
    targets: Tensor | None

    @property
    def samples(self) -> int:
        """The number n of pairs."""
        return len(self.inputs) // 2


def draw_pairs(
    inputs: Inputs, seed: int, *, samples: int, objective: Objective | None = None, dataset: Dataset | None = None
) -> Pairs:
    """Return a batch of pairs: standard normal numbers, uniform tokens, sentences to be translated, or real samples.

    It is the same for every model, except that a model that translates reads the sentence that it is to predict.
    """
    order = generator(seed, "probe_batches", "pairs")
    targets = None
    if dataset is not None:
        taken, targets = next(endless_batches(dataset.train, 2 * samples, order))
        first, other = taken[:samples], taken[samples:]
    elif objective is not None and objective.name == "translation":
        sentences = find_task("translation").random_batches(inputs, objective.outputs or 0, samples, order)
        (first, targets), (other, _) = next(sentences), next(sentences)
    else:
        noise = find_task("classification").random_inputs
        first, other = noise(inputs, samples, order), noise(inputs, samples, order)
    if inputs.vocabulary is None:
        near = SIMILARITY * first + math.sqrt(1 - SIMILARITY**2) * other
    else:
        change = torch.rand(first.shape, generator=order) > SIMILARITY
        change = change.flatten(1)
        change[torch.arange(samples), torch.randint(change.shape[1], (samples,), generator=order)] = True
        near = torch.where(change.view_as(first), other, first)
    return Pairs(torch.cat([first, near]), None if targets is None else torch.cat([targets[:samples]] * 2))


@dataclass(frozen=True)
class Objective:
    """The number whose gradient is taken.

    Attributes:
        name: ``classification``, ``language_modelling``, ``translation``, or ``projection``: the mean over samples of
            the outputs' product with fixed standard normal directions, each output divided by the root of its size.
        outputs: number of classes or tokens; None if unknown.
        logits: the position of the output with the logits among several outputs.
    """

    name: str
    outputs: int | None = None
    logits: int = 0

    @property
    def chance(self) -> float | None:
        """The loss of a uniform prediction, ln(outputs) in nats; None without a known number of outputs."""
        return None if self.outputs is None else math.log(self.outputs)

    @property
    def task(self) -> str:
        """The task that random batches are drawn for."""
        return "classification" if self.name == "projection" else self.name

    def with_targets(self, pairs: Pairs, seed: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, which are drawn at random if the pairs have none."""
        if pairs.targets is not None:
            return pairs.inputs, pairs.targets
        shape = pairs.inputs.shape[:1] if self.name == "classification" else pairs.inputs.shape
        order = generator(seed, "probe_batches", "pairs", "targets")
        return pairs.inputs, torch.randint(self.outputs or 1, tuple(shape), generator=order)

    def function(self, seed: int) -> Callable[[Any, Tensor], Tensor]:
        """Return the function of outputs and targets that is differentiated; its value is 0-dim."""
        return partial(project, seed=seed) if self.name == "projection" else find_task(self.name).loss

    def loss(self, outputs: Any, targets: Tensor) -> float | None:
        """Return the cross-entropy in nats, the number to compare with `chance`; None without one."""
        if self.outputs is None:
            return None
        logits = tensors_in(outputs)[self.logits].detach()
        task = "language_modelling" if self.name == "projection" else self.name
        return float(find_task(task).loss(logits, targets))


def project(outputs: Any, _targets: Tensor | None = None, *, seed: int = 0) -> Tensor:
    """Return the mean over samples of the outputs' product with fixed directions, 0-dim.

    Raises:
        InitializationError: there is no floating-point output.
    """
    total: Tensor | None = None
    for index, output in enumerate(tensors_in(outputs)):
        if not output.is_floating_point() or not output.numel() or not output.dim():
            continue
        shape, order = tuple(output.shape[1:]), generator(seed, "probe_batches", "projection", str(index))
        direction = torch.randn(shape, generator=order).to(output) / math.sqrt(max(math.prod(shape), 1))
        part = (output * direction).sum() / len(output)
        total = part if total is None else total + part
    if total is None:
        raise InitializationError("the model returns no floating-point tensor")
    return total


@torch.no_grad()
def objective_of(model: nn.Module, inputs: Inputs, outputs: int | None, task: str | None) -> Objective:
    """Return a task's loss if the task is known, or the outputs of one run show it, and otherwise a projection."""
    with preserved(model), forked_rng(model, 0, "probe"):
        model.eval()
        few = zero_inputs(inputs, model, 2)
        with running_on(few):
            result = tensor_of(model(few))
    tensors = tensors_in(result)
    shapes = [tuple(tensor.shape) if tensor.is_floating_point() else () for tensor in tensors]
    alone = torch.is_tensor(result)
    if inputs.are_sentence_pairs:
        logits = shapes[0] if alone and len(shapes[0]) == 3 and shapes[0][1] == inputs.shape[1] else None
        if logits and min(logits[2], inputs.vocabulary or 0) > END + 1 and task in {None, "translation"}:
            return Objective("translation", logits[2])
    elif inputs.vocabulary is not None and task in {None, "language_modelling"}:
        for index, shape in enumerate(shapes):
            if len(shape) == 3 and shape[1] == inputs.shape[0] and shape[2] >= inputs.vocabulary:
                return Objective("language_modelling" if alone else "projection", shape[2], index)
    classes = shapes[0][1] if alone and len(shapes[0]) == 2 else 0
    if outputs is not None and 2 <= outputs <= classes and task in {None, "classification"}:
        return Objective("classification", classes)
    return Objective("projection")
