"""Leaving a model as it was when it has run."""

from __future__ import annotations

import random
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from initbench.models.preservation import forked_rng, preserved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


HOOKS = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "_modules"}
"""Attributes of every module that a forward pass has no part in, such as its hooks."""


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Undo at the end, also after an exception, whatever a run of a model may change but its parameters' values.

    That is what `preserved` restores, what the modules keep as attributes, in lists and dictionaries too, and the
    random states of PyTorch, Python and NumPy. PyTorch's is seeded inside, so that what is found is the same each time.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the state that models share
    with ExitStack() as stack:
        stack.enter_context(forked_rng(model, 0, "structure"))
        stack.enter_context(preserved(model))
        attributes = _Attributes(model)
        try:
            yield
        finally:
            attributes.restore()
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


class _Attributes:
    """What the modules of a model hold, and the contents of it where these can change in place."""

    def __init__(self, model: nn.Module) -> None:
        self._contents: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self._seen = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for module in model.modules():
            own = {name: value for name, value in vars(module).items() if name not in HOOKS}
            self._attributes.append((vars(module), own))
            for value in own.values():
                self._note(value)

    def _note(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if torch.is_tensor(value):
            self._tensors.append((value, value.detach().clone()))
        elif isinstance(value, dict):
            self._contents.append((value, dict(value)))
            for part in value.values():
                self._note(part)
        elif isinstance(value, list | deque | set):
            self._contents.append((value, list(value)))
            for part in list(value):
                self._note(part)
        elif isinstance(value, tuple):
            for part in value:
                self._note(part)

    def restore(self) -> None:
        for attributes, before in self._attributes:
            for name in [name for name in attributes if name not in before and name not in HOOKS]:
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name, self) is not value:
                    attributes[name] = value
        for container, before in self._contents:
            if isinstance(container, dict):
                if [*map(id, container.values())] != [*map(id, before.values())] or list(container) != list(before):
                    container.clear()
                    container.update(before)
            elif [*map(id, container)] != [*map(id, before)]:
                container.clear()
                (container.update if isinstance(container, set) else container.extend)(before)
        with torch.no_grad():
            for tensor, values in self._tensors:
                tensor.copy_(values)
