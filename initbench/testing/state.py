"""What there is about a model, and in the global random state, as values that can be compared."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a module has beside its own attributes; some of it changes when a hook is added and removed again.
_OF_MODULES = {"training", "_parameters", "_buffers", "_modules", "_is_full_backward_hook"}
_PLAIN = (int, float, str, tuple, type(None))


def bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    """Return the values of a tensor, on any device, so that == means bitwise equality."""
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return tensor.dtype, tensor.shape, data.numpy().tobytes()


def values(model: nn.Module) -> dict[str, Any]:
    """Return the parameters' values."""
    return {name: bits(parameter) for name, parameter in model.named_parameters()}


def identities(model: nn.Module) -> dict[str, int]:
    """Return which object each parameter is, tied ones under all their names."""
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


def kinds(model: nn.Module) -> dict[str, str]:
    """Return how each parameter is stored."""
    return {
        name: f"{p.dtype} of shape {tuple(p.shape)} with strides {p.stride()} on {p.device}"
        for name, p in model.named_parameters()
    }


def modes(model: nn.Module) -> dict[str, str]:
    """Return the mode of each module."""
    return {_shown(name): "in train mode" if m.training else "in eval mode" for name, m in model.named_modules()}


def requires_grad(model: nn.Module) -> dict[str, str]:
    """Return which parameters are trained."""
    return {name: "trainable" if p.requires_grad else "frozen" for name, p in model.named_parameters()}


def gradients(model: nn.Module) -> dict[str, Any]:
    """Return the gradients."""
    return {name: None if p.grad is None else bits(p.grad) for name, p in model.named_parameters()}


def buffers(model: nn.Module) -> dict[str, Any]:
    """Return the buffers, which object each is, and whether it is saved."""
    saved = model.state_dict(keep_vars=True)
    return {name: (id(buffer), bits(buffer), name in saved) for name, buffer in model.named_buffers()}


def belongings(model: nn.Module) -> dict[str, Any]:
    """Return the modules, their hooks and their own attributes, and the hooks of parameters."""
    found: dict[str, Any] = {}
    for module_name, module in model.named_modules():
        shown = _shown(module_name)
        found[f"module {shown}"] = id(module)
        for name, value in vars(module).items():
            if "_hooks" in name and isinstance(value, dict):
                found[f"{name.strip('_')} of {shown}"] = list(value)
            elif name not in _OF_MODULES:
                found[f"attribute {name} of {shown}"] = value if isinstance(value, _PLAIN) else id(value)
    for name, parameter in model.named_parameters():
        for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            found[f"{kind.strip('_')} of {name}"] = len(getattr(parameter, kind) or ())
    return found


PARTS: dict[str, Callable[[nn.Module], dict[str, Any]]] = {
    "values": values,
    "identities": identities,
    "kinds": kinds,
    "modes": modes,
    "requires_grad": requires_grad,
    "gradients": gradients,
    "buffers": buffers,
    "belongings": belongings,
}
"""What a model consists of, part by part."""


def difference(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Return the first entry that is not what it was, in words; None where all are."""
    for name in before | after:
        if name not in after:
            return f"{name} is gone"
        if name not in before:
            return f"{name} was added"
        if before[name] != after[name]:
            said = isinstance(before[name], str) and isinstance(after[name], str)
            return f"{name} was {before[name]}, is {after[name]}" if said else f"{name} is not what it was"
    return None


def _shown(module_name: str) -> str:
    return module_name or "(the model)"


@contextmanager
def global_random_state(number: int) -> Iterator[list[str]]:
    """Seed the random numbers of torch (CPU), Python and NumPy; restore them at the end.

    Args:
        number: the seed.

    Yields:
        a list that afterwards names the generators which were used or seeded in between.
    """
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one is meant
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002
    # One number each: no seed leads there, so that an initializer which sets one is seen.
    torch.rand(1), random.random(), np.random.random()  # noqa: NPY002, S311
    before = _random_states()
    moved: list[str] = []
    try:
        yield moved
    finally:
        moved += [name for name, state in _random_states().items() if state != before[name]]
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])  # noqa: NPY002


def _random_states() -> dict[str, Any]:
    _, numbers, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": random.getstate(),
        "numpy.random": (np.asarray(numbers).tobytes(), rest),
    }
