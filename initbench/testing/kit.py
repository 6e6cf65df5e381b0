"""`check_initializer`, and the list of what it checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from initbench.testing.properties import PROPERTIES, Property
from initbench.testing.subject import Subject


@dataclass(frozen=True)
class Check:
    """One property of one initializer; call it to check it, print it for the property's name.

    Attributes:
        property: yields what does not hold.
        subject: the initializer.
    """

    property: Property
    subject: Subject

    def __call__(self) -> None:
        """Check the property.

        Raises:
            AssertionError: it does not hold; the message names initializer, property and parameter.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # more would wait for one another: the models are small
        try:
            fault = next(self.property(self.subject), None)
        finally:
            torch.set_num_threads(threads)
        if fault is not None:
            raise AssertionError(f"{self.subject.name}: {self}: {fault}")

    def __str__(self) -> str:
        return self.property.__name__


def checks(initializer: str | Callable[..., Any], /, **arguments: Any) -> list[Check]:
    """Return the checks of `check_initializer` one by one, for `pytest.mark.parametrize("check", ..., ids=str)`.

    Args:
        initializer: see `check_initializer`.
        arguments: as there.

    Raises:
        InitbenchError: there is no such initializer, it refuses the arguments, or no architecture has its scheme.
    """
    subject = Subject.of(initializer, arguments)
    return [Check(each, subject) for each in PROPERTIES]


def check_initializer(initializer: str | Callable[..., Any], /, **arguments: Any) -> None:
    """Check that an initializer does what initbench, and whoever compares it with others, relies on.

    It runs on a few small models, in a second or so, and on the CPU. A model that the initializer refuses with an
    InitializationError counts for it, if the model is left as it was; one model at least has to be initialized.

    Args:
        initializer: a registered name, or a factory; one that is not registered is taken for one that declares nothing.
        arguments: the initializer's own; what it declares for a smoke run comes before its defaults.

    Raises:
        AssertionError: the first property that does not hold.
        InitbenchError: there is no such initializer, it refuses the arguments, or no architecture has its scheme.
    """
    for check in checks(initializer, **arguments):
        check()
