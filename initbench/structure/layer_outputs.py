"""The outputs of a model's layers while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from initbench.models.calls import removed
from initbench.structure.find import Structure
from initbench.structure.run_graph import tensors_in


def layer_modules(model: nn.Module, structure: Structure) -> dict[str, nn.Module]:
    """Return the modules of the weight layers by name, in the order in which they run.

    A weight of a recurrent module, or one that only a function receives, stands for the module that has it.
    """
    modules = dict(model.named_modules())
    names = [layer.name if layer.called else layer.name.rpartition(".")[0] for layer in structure.layers]
    return {name: modules[name] for name in names if name in modules}


def block_modules(model: nn.Module, structure: Structure) -> dict[str, nn.Module]:
    """Return the modules of the blocks of residual branches by name, in the order in which they run."""
    return {name: model.get_submodule(name) for branch in structure.branches if (name := branch.block)}


@contextmanager
def recorded(layers: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Yield the layers' outputs by name, in float64, which each run within the context adds when a layer has run.

    A layer that runs several times has the outputs of its first run, and one with several outputs the first of them.
    """
    outputs: dict[str, Tensor] = {}

    def note(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, result: Any) -> None:
            for tensor in tensors_in(result)[:1]:
                outputs.setdefault(name, tensor.detach().double().clone())

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in layers.items()]
    with removed(hooks):
        yield outputs


def root_mean_square(tensor: Tensor) -> float:
    return float(tensor.square().mean().sqrt())
