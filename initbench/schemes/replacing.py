"""Modules of a model put in the place of others."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Mapping


def in_order(**modules: nn.Module) -> nn.Sequential:
    """Return modules that run one after another, under the names that are given."""
    return nn.Sequential(OrderedDict(modules))


def replace_modules(model: nn.Module, replacements: Mapping[nn.Module, nn.Module], *, convert: bool = True) -> None:
    """Put modules in the place of others, wherever these stand in a model.

    New modules are in the mode, training or evaluation, of what they replace.

    Args:
        model: is changed.
        replacements: by what a module is replaced, which may contain the module.
        convert: whether what new modules hold gets the type and the device of the model's first parameter.
    """
    known = set(model.modules())
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    named = [(*name.rpartition("."), module) for name, module in model.named_modules(remove_duplicate=False)]
    places = [(model.get_submodule(parent), name, module) for parent, _, name, module in named]
    for parent, name, module in places:
        if module in replacements:
            setattr(parent, name, replacements[module])
            for part in set(replacements[module].modules()) - known:
                part.training = module.training
                if convert:
                    _convert(part, like)


def _convert(module: nn.Module, like: torch.Tensor) -> None:
    """Do as `nn.Module.to`, without the modules within, which may have been there before."""
    module._apply(  # type: ignore[no-untyped-call]  # noqa: SLF001  # no other way leaves out what is within
        lambda held: held.to(like if held.is_floating_point() else like.device), recurse=False
    )
