"""Where a model comes from: a registered architecture, or a function of the user's module."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from initbench.architectures.create import create_model
from initbench.arguments import nearest, show
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.models import random_state
from initbench.plugins import first_line
from initbench.randomness import derive_seed
from initbench.registry import ARCHITECTURES

Function = Callable[[int], nn.Module] | Callable[[], nn.Module]


@dataclass(frozen=True)
class ModelSource:
    """A model that can be built again and again, each time with other random numbers.

    Attributes:
        name: as the user wrote it, such as ``timm/resnet18`` or ``package.module:function``.
        construct: returns a new model. A function with a required argument, or one called ``seed``, gets the seed;
            torch's global generators, too, are seeded before each call. A class gets the seed by this name alone.
        inputs: one sample of its inputs; None if only the model itself can tell.
        weights: a file with a state dict that every built model gets.
        outputs: number of classes, or of tokens; None if unknown.
    """

    name: str
    construct: Function
    inputs: Inputs | None = None
    weights: Path | None = None
    outputs: int | None = None
    _state: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    def build(self, seed: int = 0) -> nn.Module:
        """Return a new model with the random numbers of a seed; the caller's random state is left unchanged.

        Raises:
            InitbenchError: the model cannot be built, or the weights do not fit it.
        """
        with random_state.forked(torch.get_default_device(), seed=derive_seed(seed, "weights", "construction")):
            model = _call_with_seed(self.construct, seed)
        if self.weights is not None:
            if not self._state:
                self._state.update(read_weights(self.weights))
            load_weights(model, self._state, str(self.weights))
        return model


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # some builtins have no signature
        return {}


def _call_with_seed(function: Callable[..., nn.Module], seed: int) -> nn.Module:
    arguments = _parameters(function)
    if inspect.isclass(function):
        several = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        for name, one in arguments.items():
            if one.default is one.empty and one.kind not in several and name != "seed":
                raise ArgumentError(f"needs {name}: give a function that builds it", function.__name__)
        build = cast("Callable[..., nn.Module]", function)
        return build(seed=seed) if "seed" in arguments else build()
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if any(one.default is one.empty and one.kind in positional for one in arguments.values()):
        return function(seed)
    return function(seed=seed) if "seed" in arguments else function()


Build = Function | ModelSource | str
"""What builds a model: a function, with the seed as its argument or with none, a `ModelSource`, or a model's name."""


def as_source(build: Build, argument: str = "build") -> ModelSource:
    """Return the source of what builds a model.

    Args:
        build: a function, as in `ModelSource`; a source, which is returned; or a name, see `model_source`.
        argument: the name of the caller's argument, for messages.

    Raises:
        InitbenchError: there is no such model, or `build` is something else.
    """
    if isinstance(build, ModelSource):
        return build
    if isinstance(build, str):
        return model_source(build)
    if isinstance(build, nn.Module) or not callable(build):
        raise ArgumentError(f"must be a function that returns a new model, is {type(build).__name__}", argument)

    def construct(seed: int) -> nn.Module:
        model = _call_with_seed(build, seed)
        if not isinstance(model, nn.Module):
            raise ArgumentError(f"must return a torch.nn.Module, returned {type(model).__name__}", argument)
        return model

    return ModelSource(getattr(build, "__name__", type(build).__name__), construct)


def model_source(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    inputs: Inputs | None = None,
    outputs: int | None = None,
    weights: str | Path | None = None,
) -> ModelSource:
    """Return the source of a model.

    Args:
        name: a registered architecture, such as ``timm/resnet18``, ``hf/gpt2`` or ``wrn``, or
            ``package.module:function``, where the function returns a model; the current folder is searched, too. An
            argument ``seed`` of the function gets the seed, unless `arguments` has it.
        arguments: arguments of the architecture or function.
        inputs: one sample of the inputs. For an architecture the default is its library's own size, as in the
            published model.
        outputs: number of classes or tokens of an architecture; the default is its library's own.
        weights: a file with a state dict, loaded safely: no code in it runs.

    Raises:
        InitbenchError: there is no such architecture or function, or an argument is refused.
    """
    file = None if weights is None else Path(weights)
    chosen = dict(arguments or {})
    if ":" in name:
        if outputs is not None:
            raise ArgumentError("is for registered architectures; pass it as an argument of the function", "outputs")
        return ModelSource(name, lambda seed: _call(name, chosen, seed), inputs, file)
    ARCHITECTURES.get(name)  # an unknown name is an error here, not when the first model is built
    default_inputs, default_outputs = _defaults(name, chosen)
    sample = inputs or default_inputs
    number = outputs or sample.vocabulary or default_outputs
    return ModelSource(
        name,
        # A new model takes its seed from the global generator, which `build` has seeded.
        lambda: create_model(name, inputs=sample, num_classes=number, seed=torch.initial_seed() % 2**32, **chosen),
        sample,
        file,
        number,
    )


def _call(name: str, arguments: Mapping[str, Any], seed: int) -> nn.Module:
    function = _function(name)
    given, parameter = dict(arguments), _parameters(function).get("seed")
    if parameter is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
        given.setdefault("seed", seed)
    try:
        model = function(**given)
    except InitbenchError:
        raise
    except Exception as error:
        raise InitbenchError(f"{name} fails: {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise InitbenchError(f"{name} must return a torch.nn.Module, returned {type(model).__name__}")
    return model


def _function(name: str) -> Callable[..., Any]:
    module_name, _, attribute = name.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        raise InitbenchError(f"{name}: {module_name} cannot be imported: {first_line(error)}") from error
    function = getattr(module, attribute, None)
    if function is None:
        names = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        raise InitbenchError(f"{module_name} has no {attribute!r}{nearest(attribute, names)}")
    if isinstance(function, nn.Module):
        raise InitbenchError(f"{name} is a model: name its class, or a function that builds it")
    if not callable(function):
        raise InitbenchError(f"{name} must be a function or class that returns a model, is {show(function)}")
    return function


_IMAGENET = (Inputs((3, 224, 224)), 1000)
_TOKENS = 64  # positions of a text: long enough for attention, and quick


def _defaults(name: str, arguments: Mapping[str, Any]) -> tuple[Inputs, int]:
    """Return the inputs and outputs of the published model, or small ones for the project's own architectures."""
    library, _, model = name.partition("/")
    if library == "timm":
        return _timm_defaults(model)
    if library == "torchvision":
        return _IMAGENET
    if library == "hf":
        return _hf_defaults(model, arguments)
    tasks = ARCHITECTURES.get(name).traits.tasks
    if "classification" in tasks:
        return Inputs((3, 32, 32)), 10
    return Inputs((2, _TOKENS) if "translation" in tasks else (_TOKENS,), vocabulary=256), 256


def _timm_defaults(model: str) -> tuple[Inputs, int]:
    from timm.models import get_pretrained_cfg

    published = get_pretrained_cfg(model)
    if published is None:
        return _IMAGENET
    return Inputs(tuple(published.input_size)), published.num_classes or _IMAGENET[1]


def _hf_defaults(model_type: str, arguments: Mapping[str, Any]) -> tuple[Inputs, int]:
    from transformers import AutoConfig

    published = AutoConfig.for_model(model_type)
    size = getattr(published, "image_size", None)
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else size
        return Inputs((getattr(published, "num_channels", 3), height, width)), _IMAGENET[1]
    vocabulary = getattr(published, "vocab_size", None)
    if not isinstance(vocabulary, int):
        return _IMAGENET
    positions = arguments.get("n_positions", arguments.get("max_position_embeddings"))
    return Inputs((min(_TOKENS, positions or _TOKENS),), vocabulary), vocabulary


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a weights file; see `opened_weights`."""
    with opened_weights(path) as (shapes, read):
        return {name: read(name) for name in shapes}


@contextmanager
def opened_weights(path: Path) -> Iterator[tuple[dict[str, tuple[int, ...]], Callable[[str], Tensor]]]:
    """Open a weights file and give the sizes of its tensors, and a function that reads a tensor by its name.

    The file is ``.safetensors`` or torch's. If the latter holds more than a state dict, ``state_dict`` or ``model`` in
    it is read.

    Raises:
        InitbenchError: the file cannot be read safely, or holds no tensors.
    """
    if not path.is_file():
        raise InitbenchError(f"{path}: no such file")
    try:
        if path.suffix == ".safetensors":
            from safetensors import safe_open

            opened: Any = safe_open(path, framework="pt")
        else:
            opened = nullcontext(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except Exception as error:  # unpickling may raise anything
        raise InitbenchError(f"{path}: cannot be read as weights: {first_line(error)}") from error
    with opened as file:
        if path.suffix == ".safetensors":
            shapes, read = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}, file.get_tensor  # noqa: SIM118
        else:
            tensors = _state_dict(file)
            shapes, read = {name: tuple(tensor.shape) for name, tensor in tensors.items()}, tensors.__getitem__
        if not shapes:
            raise InitbenchError(f"{path}: holds no state dict")
        yield shapes, read


def _state_dict(loaded: Any) -> dict[str, Tensor]:
    if not isinstance(loaded, dict):
        return {}
    inner = next((loaded[key] for key in ("state_dict", "model") if isinstance(loaded.get(key), dict)), loaded)
    return {str(name): tensor for name, tensor in inner.items() if torch.is_tensor(tensor)}


def load_weights(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Load a state dict into a model.

    Raises:
        InitbenchError: keys are missing or unexpected, or shapes differ; it says which.
    """
    expected = model.state_dict()
    problems = [f"lacks {name}" for name in expected if name not in state]
    problems += [
        f"has {name}, which the model lacks{nearest(name, expected, list_all=False)}"
        for name in state
        if name not in expected
    ]
    problems += [
        f"{name} is {tuple(state[name].shape)}, the model's is {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise InitbenchError(f"{where}: does not fit the model: {'; '.join(problems[:3])}{more}")
    model.load_state_dict(dict(state))
