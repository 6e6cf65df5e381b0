"""Checks of what an initializer refuses, and how. Each yields what does not hold."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

from initbench.arguments import show, types_of
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.testing.results import infinite
from initbench.testing.state import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.testing.subject import Run, Subject

_TRIED: dict[type, tuple[Any, ...]] = {float: (0.0, -1.0), int: (0, -1)}


def raises_readable_errors(subject: Subject) -> Iterator[str]:
    """It sets the parameters of a model; others it refuses with an InitializationError, as it does data of NaN."""
    for run in (*subject.attempts, *subject.initialized):
        yield from _unreadable(run, f"on the model {run.case.name}")
    if not subject.runs:
        refused = "; ".join(f"{run.case.name}: {run.error}" for run in subject.attempts)
        yield f"refuses every model: {refused}"
    for run in subject.initialized:
        yield from _left_changed(run)
    finite = [run.case for run in subject.runs if not run.case.words and infinite(run.model) is None]
    for case in finite[:1]:
        run = subject.initialize(case, math.nan)
        yield from _unreadable(run, "where inputs are NaN")
        yield from _left_changed(run)
        name = infinite(run.model)
        if name is not None:
            yield f"leaves values in {name} that are not finite where inputs are NaN; raise an InitializationError"


def _unreadable(run: Run, where: str) -> Iterator[str]:
    if isinstance(run.error, InitializationError):
        if not str(run.error):
            yield f"raises an InitializationError without a message {where}"
    elif run.error is not None:
        yield f"raises {_shown(run.error)} {where}; raise an InitializationError"


def _left_changed(run: Run) -> Iterator[str]:
    """Compare everything of a model that was refused."""
    for part in PARTS:
        found = None if run.error is None else run.changed(part)
        if found is not None:
            yield f"leaves a model that it refuses changed: {found}"


def names_bad_arguments(subject: Subject) -> Iterator[str]:
    """A value that it cannot use is refused by an `ArgumentError` that has the argument's name.

    Tried are, one argument at a time, 0 and -1 for numbers, and a value of no type for all: either the factory refuses
    it, or the initializer works with it or says why not.
    """
    parameters = inspect.signature(subject.component.factory, eval_str=True).parameters
    for argument in subject.component.arguments:
        kinds = types_of(parameters[argument.name].annotation)
        for value in [value for kind in kinds for value in _TRIED.get(kind, ())]:
            yield from _bad_argument(subject, argument.name, value)
        try:
            subject.component.resolve({**subject.arguments, argument.name: object()})
        except ArgumentError:
            continue
        yield f"the argument {argument.name} has no type by which a value could be refused"


def _bad_argument(subject: Subject, name: str, value: Any) -> Iterator[str]:
    """Try one value of one argument."""
    tried = f"{name} {show(value)}"
    try:
        apply = subject.component.build({**subject.arguments, name: value})
    except ArgumentError as error:
        if error.argument is None:
            yield f"refuses {tried} without the argument's name: {error}; raise {_named(name)}"
        return
    except Exception as error:  # noqa: BLE001 - what it is stands in the message
        yield f"raises {_shown(error)} for {tried}; raise {_named(name)}"
        return
    if subject.runs:
        raised = subject.apply(subject.runs[0].case, apply=apply).error
        if raised is not None and not isinstance(raised, InitbenchError):
            yield f"accepts {tried} and then raises {_shown(raised)}; raise {_named(name)}"


def _named(argument: str) -> str:
    return f"ArgumentError('must be ...', '{argument}')"


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
