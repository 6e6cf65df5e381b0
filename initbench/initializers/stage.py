"""What an initializer changes without saying so, also where it starts from another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from torch import nn

    from initbench.initializers.record import InitializationRecord


class Stage:
    """One initializer at work on a model: what it changed, and whether it said so.

    Args:
        name: the initializer's.
        model: the model.
        record: where it says what it does.
    """

    def __init__(self, name: str, model: nn.Module, record: InitializationRecord) -> None:
        self._name, self._model, self._record = name, model, record
        self._identities = _identities(model)
        self.begin()

    def begin(self) -> None:
        """Take what is there now as what it starts from."""
        self._before = {name: parameter.detach().clone() for name, parameter in self._model.named_parameters()}
        self._said = {name: len(events) for name, events in self._record.tensors.items()}

    def settle(self) -> None:
        """Record what was changed since without a word.

        Raises:
            InitializationError: a parameter was added, removed or replaced.
        """
        if _identities(self._model) != self._identities:
            raise InitializationError(
                f"{self._name} added, removed or replaced a parameter; an initializer only sets values"
            )
        for name, parameter in self._model.named_parameters():
            silent = len(self._record.tensors.get(name, [])) == self._said.get(name, 0)
            if silent and not torch.equal(parameter, self._before[name]):
                self._record.set_by(name, self._name)


def _identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}
