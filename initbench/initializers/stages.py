"""The stages of a residual network: what the depth in an initialization is counted within."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from initbench.initializers.distribution import weight_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import nn

    from initbench.structure.residual import ResidualBranch


def stages(model: nn.Module, branches: Sequence[ResidualBranch]) -> list[list[ResidualBranch]]:
    """Return the branches by stages, in the order in which they are added.

    A stage is a row of branches whose outputs have one shape: the next one starts where the number of channels changes,
    or with a branch that makes its input smaller. In which modules the blocks stand is of no account: the network of
    Arpit, Campos & Bengio (2019) has all blocks of its three stages in one.

    Args:
        model: whose branches they are.
        branches: in the order in which they are added.
    """
    rows: list[list[ResidualBranch]] = []
    channels: int | None = None
    for branch in branches:
        ends = modules_of(model, branch.ends)
        added = _channels(ends[-1]) if ends else channels
        if not rows or added != channels or any(map(_shrinks, modules_of(model, _layers(branch)))):
            rows.append([])
        rows[-1].append(branch)
        channels = added
    return rows


def modules_of(model: nn.Module, layers: Iterable[str]) -> list[nn.Module]:
    """Return the modules of layers given by their names; one that has its name from its weight alone is no module.

    Such are the weights of a mixture of experts in transformers, which stand beside one another in one module.
    """
    found = []
    for name in layers:
        with suppress(AttributeError):
            found.append(model.get_submodule(name))
    return found


def _layers(branch: ResidualBranch) -> tuple[str, ...]:
    return branch.inner + branch.ends


def _channels(layer: nn.Module) -> int | None:
    """Return the number of outputs of a branch's last layer, None where it is none that has a weight of its own."""
    return next((weight.blocks * weight.outputs for weight in weight_layers(layer)), None)


def _shrinks(layer: Any) -> bool:
    """Return whether a layer's output has fewer positions than its input."""
    stride = getattr(layer, "stride", 1)
    return max(stride) > 1 if isinstance(stride, tuple) else stride > 1
