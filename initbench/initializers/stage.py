"""What an initializer changes without saying so, also where it starts from another one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from initbench.initializers.record import InitializationRecord


class Stage:
    """One initializer at work on a model: what it changed, and whether it said so.

    Args:
        name: the initializer's.
        model: the model.
        record: where it says what it does.
    """

    def __init__(self, name: str, model: nn.Module, record: InitializationRecord) -> None:
        self.name, self._model, self._record = name, model, record
        self._identities = _identities(model)
        self.begin()

    def begin(self) -> None:
        """Take what is there now as what it starts from, by its digests: a copy would be as large as the model."""
        self._before = {name: _digest(parameter) for name, parameter in self._model.named_parameters()}
        self._said = {name: len(events) for name, events in self._record.tensors.items()}

    def settle(self) -> None:
        """Record what was changed since without a word.

        Raises:
            InitializationError: a parameter was added, removed or replaced.
        """
        if _identities(self._model) != self._identities:
            raise InitializationError(
                f"{self.name} added, removed or replaced a parameter; an initializer only sets values"
            )
        for name, parameter in self._model.named_parameters():
            silent = len(self._record.tensors.get(name, [])) == self._said.get(name, 0)
            if silent and _digest(parameter) != self._before[name]:
                self._record.set_by(name, self.name)


def _digest(tensor: Tensor) -> bytes:
    values = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(values.numpy().data).digest()


def _identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}
