"""The models on which an initializer is checked: small, and each with a feature that is easily missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from initbench.architectures.create import create_model
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.models.batches import Batch
from initbench.registry import ARCHITECTURES

CLASSES = 4
_SAMPLES, _BATCHES, _IMAGE, _WORDS, _LENGTH = 8, 16, (3, 8, 8), 10, 5
_SMALL: dict[str, Any] = {"depth": 10, "width": 1, "norm": "none"}
_SMALL_OF_TOKENS: dict[str, Any] = {"depth": 2, "width": 8, "heads": 2, "norm": "post"}
_TOKENS = {"language_modelling": (_LENGTH,), "translation": (2, _LENGTH)}


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[], nn.Module]
    input_shape: tuple[int, ...] = (_SAMPLES, *_IMAGE)
    words: bool = False
    memory_format: torch.memory_format = torch.contiguous_format

    @property
    def inputs(self) -> Inputs:
        return Inputs(self.input_shape[1:], _WORDS if self.words else None)

    def build(self) -> nn.Module:
        """Return the model; no parameter, buffer, gradient or mode has its default value."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(0)
            model = self.make().to(memory_format=self.memory_format)
            for parameter in model.parameters():
                parameter.normal_(0, 0.5)
            for buffer in model.buffers():
                buffer.copy_(torch.empty(buffer.shape).uniform_(1, 2))
        model.train()
        for module in list(model.children())[1:2]:
            module.eval()
        for parameter in list(model.parameters())[:1]:
            parameter.grad = torch.ones_like(parameter)
        return model

    def batches(self, value: float | None = None) -> Iterator[Batch]:
        """Return batches without end, the same at every call; `value`, such as NaN, replaces all inputs."""
        generator = torch.Generator().manual_seed(0)
        drawn = [self._batch(generator) for _ in range(_BATCHES)]  # now, because the kit counts later draws
        return (
            (inputs.clone() if value is None else torch.full_like(inputs, value), targets.clone())
            for inputs, targets in cycle(drawn)
        )

    def _batch(self, generator: torch.Generator) -> Batch:
        if self.words:
            inputs = torch.randint(_WORDS, self.input_shape, generator=generator, device="cpu")
        else:
            inputs = torch.randn(self.input_shape, generator=generator, device="cpu")
        return inputs, torch.randint(CLASSES, (_SAMPLES,), generator=generator, device="cpu")


class Convolutions(nn.Module):
    """Convolutions with biases, and a normalization with running statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(_IMAGE[0], 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2)
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        hidden = torch.relu(self.norm(self.conv1(images)))
        return self.classifier(torch.relu(self.conv2(hidden)).mean((2, 3)))


class TiedLayers(nn.Module):
    """Linear layers: two share their weight, and one is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1 = nn.Linear(_IMAGE[0] * _IMAGE[1] * _IMAGE[2], 8)
        self.linear2 = nn.Linear(8, 8)
        self.linear3 = nn.Linear(8, 8)
        self.linear3.weight = self.linear2.weight
        self.frozen = nn.Linear(8, 8).requires_grad_(requires_grad=False)
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        hidden = images.flatten(1)
        for layer in (self.linear1, self.linear2, self.linear3, self.frozen):
            hidden = torch.tanh(layer(hidden))
        return self.classifier(hidden)


class Transformer(nn.Module):
    """Token embeddings and a block of self-attention and a feed-forward part that ends in a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_WORDS, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.expand = nn.Linear(8, 16)
        self.contract = nn.Linear(16, 8)
        self.gate = nn.Parameter(torch.full((8,), 0.5))
        self.classifier = nn.Linear(8, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = x + self.gate * self.contract(torch.relu(self.expand(self.norm(x))))
        return self.classifier(x.mean(1))


class Frozen(Convolutions):
    """A model in which nothing may change."""

    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(requires_grad=False)


CONVOLUTIONS = Case("convolutions", Convolutions)
STANDARD = (
    CONVOLUTIONS,
    Case("channels_last", Convolutions, memory_format=torch.channels_last),
    Case("tied_layers", TiedLayers),
    Case("transformer", Transformer, (_SAMPLES, _LENGTH), words=True),
)
DEGENERATE = (Case("no_parameters", nn.Flatten), Case("all_frozen", Frozen))


def cases(scheme: str | None, example: Mapping[str, Any]) -> tuple[Case, ...]:
    """Return the models for an initializer that needs a scheme, or none; `example` is among them, see its traits.

    With a scheme there is a model of every architecture that has it: of depth 10 without normalization for images, and
    if none has it, post-norm for tokens. The last one is also with a frozen weight, and in channels_last if it is for
    images. If there is no such architecture, an InitbenchError is raised.
    """
    if scheme is None or scheme == "standard":
        return (*STANDARD, *(_of_tokens(example["name"], "standard", example) if example else ()))
    # A family of architectures takes long to import.
    single = [name for name in ARCHITECTURES.names() if not name.endswith("/*")]
    images = [case for name in single for case in _of_images(name, scheme)]
    tokens = [] if images else [case for name in single for case in _of_tokens(name, scheme)]
    matches = images or tokens
    if not matches:
        raise InitbenchError(
            f"scheme {scheme!r}: no registered architecture of depth 10 without normalization has it, nor a "
            "Transformer for tokens with norms after additions"
        )
    last = matches[-1]
    more = [replace(last, name=f"{last.name}_frozen", make=lambda: _frozen(last.make()))]
    if images:
        more.insert(0, replace(last, name=f"{last.name}_channels_last", memory_format=torch.channels_last))
    return (*matches, *more)


def _of_images(name: str, scheme: str) -> Iterator[Case]:
    taken = {a.name for a in ARCHITECTURES.get(name).arguments}
    small = {argument: value for argument, value in _SMALL.items() if argument in taken}

    def make() -> nn.Module:
        return create_model(name, scheme=scheme, input_shape=_IMAGE, num_classes=CLASSES, **small)

    yield from _unless_refused(Case(name, make))


def _of_tokens(name: str, scheme: str, example: Mapping[str, Any] | None = None) -> Iterator[Case]:
    small = _SMALL_OF_TOKENS | {key: value for key, value in (example or {}).items() if key != "name"}
    for task in {*_TOKENS} & {*ARCHITECTURES.get(name).traits.tasks}:

        def make(inputs: Inputs = Inputs(_TOKENS[task], _WORDS)) -> nn.Module:
            return create_model(name, scheme=scheme, inputs=inputs, num_classes=_WORDS, **small)

        yield from _unless_refused(Case(name, make, (_SAMPLES, *_TOKENS[task]), words=True))


def _unless_refused(case: Case) -> Iterator[Case]:
    """Yield the case unless the architecture or the scheme refuses."""
    with suppress(InitbenchError):
        case.build()
        yield case


def _frozen(model: nn.Module) -> nn.Module:
    next(parameter for parameter in model.parameters() if parameter.dim() > 1).requires_grad = False
    return model
