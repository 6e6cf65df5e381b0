"""Small models of timm, torchvision and transformers, built by the libraries themselves, and our own networks.

So any version of initbench can be tried on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import initbench
from initbench.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES, VOCABULARY, CONTEXT, SAMPLES = 10, 32, 16, 4
STANDARD = "standard"
# The schemes whose parts our own networks have in the place of a normalization.
_WITHOUT_NORM = {"fixup", "skipinit", "weight_norm"}


@dataclass(frozen=True)
class Model:
    """A model of the page.

    Attributes:
        make: builds it.
        size: side of the square images that it gets; None for tokens.
        own: builds it under a scheme, where it is one of our own networks.
    """

    make: Callable[[], nn.Module]
    size: int | None
    own: Callable[[str], nn.Module] | None = None

    @property
    def outputs(self) -> int:
        """How many outputs it has."""
        return VOCABULARY if self.size is None else CLASSES

    @property
    def task(self) -> str:
        """What it learns."""
        return "language_modelling" if self.size is None else "classification"

    def built(self) -> nn.Module:
        """Return the model in training mode; what its library draws has a fixed seed."""
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.make().train()

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return random inputs and targets."""
        if self.size is None:
            text = torch.randint(VOCABULARY, (SAMPLES, CONTEXT + 1), generator=generator)
            return text[:, :-1], text[:, 1:]
        images = torch.randn(SAMPLES, 3, self.size, self.size, generator=generator)
        return images, torch.randint(CLASSES, (SAMPLES,), generator=generator)


def timm_model(name: str, size: int = 32, **options: Any) -> Model:
    """Return a model of timm, of options of its own."""

    def make() -> nn.Module:
        import timm

        model: nn.Module = timm.create_model(name, num_classes=CLASSES, **options)
        return model

    return Model(make, size)


def torchvision_model(name: str, size: int = 32, **options: Any) -> Model:
    """Return a model of torchvision, of options of its own."""

    def make() -> nn.Module:
        from torchvision.models import get_model

        model: nn.Module = get_model(name, weights=None, num_classes=CLASSES, **options)
        return model

    return Model(make, size)


def model_of_class(path: str, *arguments: Any, size: int = 32, **options: Any) -> Model:
    """Return a model of a class, where the library's function for it would not let it shrink."""

    def make() -> nn.Module:
        model: nn.Module = _found(path)(*map(_resolved, arguments), num_classes=CLASSES, **_resolved(options))
        return model

    return Model(make, size)


def _resolved(value: Any) -> Any:
    """Return a value in which what stands as ``@module.name`` is the object of that name."""
    if isinstance(value, str) and value.startswith("@"):
        return _found(value[1:])
    if isinstance(value, dict):
        return {name: _resolved(part) for name, part in value.items()}
    return [_resolved(part) for part in value] if isinstance(value, list) else value


def _found(path: str) -> Any:
    from importlib import import_module

    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def hf_model(kind: str, *, image: bool = False, **options: Any) -> Model:
    """Return a causal language model of transformers, or an image classifier, of options of its configuration."""

    def make() -> nn.Module:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageClassification

        if image:
            configuration = AutoConfig.for_model(kind, num_labels=CLASSES, **options)
            model: nn.Module = AutoModelForImageClassification.from_config(configuration)
            return model
        no_token = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
        configuration = AutoConfig.for_model(kind, vocab_size=VOCABULARY, use_cache=False, **no_token, **options)
        return AutoModelForCausalLM.from_config(configuration)  # type: ignore[no-any-return]

    return Model(make, 32 if image else None)


def own_network(name: str, without_norm: dict[str, Any] | None = None, *, text: bool = False, **options: Any) -> Model:
    """Return one of our own networks, which under most schemes have no normalization."""
    inputs = Inputs((CONTEXT,), VOCABULARY) if text else Inputs((3, 32, 32))

    def under(scheme: str) -> nn.Module:
        further = without_norm or {} if scheme in _WITHOUT_NORM else {}
        if scheme == "fixup" and text:
            further = {**further, "tied": False}  # rule 1 of Fixup sets the head to 0
        outputs = VOCABULARY if text else CLASSES
        return initbench.create_model(name, inputs=inputs, num_classes=outputs, scheme=scheme, **options | further)

    return Model(partial(under, STANDARD), None if text else 32, under)
