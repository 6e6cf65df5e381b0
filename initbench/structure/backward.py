"""Backward passes through a random projection of a model's outputs: which parameters can training change?

The projection takes the place of a loss, so that no loss that happens to be flat hides a gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.models.calls import explained
from initbench.structure.find import Structure, run_on_any_input
from initbench.structure.recording import copied_arguments, kept
from initbench.structure.run_graph import tensors_in

_STD = 0.1  # of a parameter that training has moved away from 0


def gradients(model: nn.Module, inputs: Any, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradient of a random projection of a model's outputs in eval mode, None for unused parameters.

    A model that fails, forward or backward, raises an InitializationError. `inputs` are as for `find_structure`. If
    they are one tensor of equal entries, as an example of zeros is, random ones replace them: zeros would hide all
    layers behind the first.
    """
    with _at_work(model), explained(f"the backward pass of {type(model).__name__} fails"):
        return _gradients(model, _varied(model, inputs), parameters)


def locked_parameters(model: nn.Module, inputs: Any, names: Sequence[str]) -> set[str]:
    """Return the parameters among `names` that are 0 and that no training changes.

    A parameter of zeros is free if its gradient is not exactly 0. Whatever is free gets random values, and the pass is
    repeated until no other parameter becomes free: nothing before a classifier of zeros has a gradient until the
    classifier has changed. The values are restored. Frozen parameters are not looked at. See `gradients` for the rest.
    """
    parameters = {name: model.get_parameter(name) for name in names}
    zeros = {n: p for n, p in parameters.items() if p.requires_grad and not p.is_meta and not p.detach().any()}
    if not zeros:
        return set()
    values = {name: parameter.detach().clone() for name, parameter in zeros.items()}
    locked = set(zeros)
    with _at_work(model), explained(f"the backward pass of {type(model).__name__} fails"):
        batch = _varied(model, inputs)
        try:
            while locked:
                rest = {name: parameter for name, parameter in zeros.items() if name in locked}
                pairs = zip(rest, _gradients(model, batch, list(rest.values())), strict=True)
                free = [name for name, gradient in pairs if gradient is not None and gradient.any()]
                if not free:
                    break
                locked -= set(free)
                for name in free:
                    zeros[name].data.copy_(_STD * _random(zeros[name], len(locked)))
        finally:
            for name, parameter in zeros.items():
                parameter.data.copy_(values[name])
    return locked


def locked_branch(model: nn.Module, inputs: Any, structure: Structure) -> list[str]:
    """Return the names of the parameters that keep a head or a residual branch at 0, whatever the training.

    A head or branch is locked if all of its factors that are 0 are, see `locked_parameters`. A branch with one such
    factor is merely closed at the start, as Fixup and SkipInit intend. The parameters of the first locked part come
    first.
    """
    parts = list(_factors(structure))
    locked = locked_parameters(model, inputs, list(dict.fromkeys(name for part in parts for name in part)))
    names: list[str] = []
    for part in parts:
        zeros = [name for name in part if not model.get_parameter(name).detach().any()]
        if zeros and locked.issuperset(zeros):
            names += zeros
    return list(dict.fromkeys(names))


def in_words(locked: Sequence[str]) -> str:
    others = f" and {len(locked) - 1} more" if len(locked) > 1 else ""
    return (
        f"{locked[0]}{others} would stay 0 however long it is trained, because the gradient is exactly 0: what it "
        "multiplies or another factor is also 0, or a later activation has slope 0 there"
    )


def _factors(structure: Structure) -> Iterator[list[str]]:
    """Yield the parameters that multiply the result of each head and of each residual branch."""
    of_layer = {layer.name: [layer.weight, *layer.gains] for layer in structure.layers}
    for head in structure.heads:
        yield of_layer.get(head, [])
    for branch in structure.branches:
        yield [*(name for end in branch.ends for name in of_layer.get(end, [])), *branch.gates]


@contextmanager
def _at_work(model: nn.Module) -> Iterator[None]:
    with torch.inference_mode(False), torch.enable_grad(), kept(model):
        model.eval()
        yield


def _gradients(model: nn.Module, inputs: Any, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    arguments, named = copied_arguments(inputs)
    outputs = [tensor for tensor in tensors_in(model(*arguments, **named)) if tensor.requires_grad]
    if not outputs:
        raise InitializationError("no output depends on a parameter that requires a gradient")
    directions = [_random(tensor, seed) for seed, tensor in enumerate(outputs)]
    return list(torch.autograd.grad(outputs, parameters, directions, allow_unused=True))


def _random(like: Tensor, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, device="cpu").to(like)


def _varied(model: nn.Module, inputs: Any) -> Any:
    """Return the inputs, or others whose entries differ if they are a single tensor of equal entries."""
    if inputs is None:
        inputs, _ = run_on_any_input(model)
    if not torch.is_tensor(inputs) or not inputs.numel() or inputs.ne(inputs.flatten()[0]).any():
        return inputs
    if inputs.is_floating_point():
        return _random(inputs)
    tokens = min((m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)), default=1)
    return torch.arange(inputs.numel(), device=inputs.device).view(inputs.shape).to(inputs.dtype) % tokens
