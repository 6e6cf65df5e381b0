"""Checks of what an initializer leaves as it was. Each yields what does not hold.

An initializer that needs batches or starts from another one may change modes, buffers, gradients and `requires_grad`
meanwhile: `initialize` restores them. One that others may start from may not: it is looked at alone too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from initbench.testing.models import CONVOLUTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.testing.subject import Subject


def keeps_parameters(subject: Subject) -> Iterator[str]:
    """Every parameter is the object that it was, tied ones too; none is added or removed."""
    yield from _changed_alone(subject, "identities")


def keeps_dtype_device_and_layout(subject: Subject) -> Iterator[str]:
    """Every parameter has the dtype, device, shape and memory format that it had; on a GPU too where there is one."""
    yield from _changed_alone(subject, "kinds")
    if torch.cuda.is_available() and CONVOLUTIONS in subject.cases:
        run = subject.apply(CONVOLUTIONS, to=torch.device("cuda"))
        if run.error is not None:
            yield f"raises {type(run.error).__name__} on a GPU: {run.error}"
        found = run.changed("kinds")
        if found is not None:
            yield found


def keeps_modes(subject: Subject) -> Iterator[str]:
    """Every module is in train or eval mode as it was."""
    yield from _changed(subject, "modes")


def keeps_requires_grad(subject: Subject) -> Iterator[str]:
    """Every parameter is frozen or trainable as it was."""
    yield from _changed(subject, "requires_grad")


def keeps_buffers(subject: Subject) -> Iterator[str]:
    """Buffers, running statistics among them, are the objects that they were with the values that they had."""
    yield from _changed(subject, "buffers")


def keeps_gradients(subject: Subject) -> Iterator[str]:
    """``.grad`` of every parameter is what it was."""
    yield from _changed(subject, "gradients")


def leaves_nothing_behind(subject: Subject) -> Iterator[str]:
    """No hook, module or attribute is added, removed or another than before."""
    yield from _changed_alone(subject, "belongings")


def keeps_frozen_parameters(subject: Subject) -> Iterator[str]:
    """A parameter that requires no gradient has the values that it had."""
    for run in subject.runs:
        for name, was in run.before["requires_grad"].items():
            if was == "frozen" and run.after["values"].get(name) != run.before["values"][name]:
                yield f"{name} is frozen and was changed (model {run.case.name})"


def _changed_alone(subject: Subject, part: str) -> Iterator[str]:
    """Compare a part before and after the initializer alone."""
    for run in subject.runs:
        found = run.changed(part)
        if found is not None:
            yield found


def _changed(subject: Subject, part: str) -> Iterator[str]:
    """Compare a part before and after `initialize`, and alone where another initializer may come after it."""
    if subject.may_precede_others:
        yield from _changed_alone(subject, part)
    for run in subject.initialized:
        found = run.changed(part)
        if found is not None:
            yield f"after `initialize` {found}"
