"""`check_initializer` and its checks. Each property is a function that yields its violations.

An initializer that needs batches or starts from another one may change modes, buffers, gradients and `requires_grad`
while it runs, because `initialize` restores them. An initializer from which others may start must not, so it is also
run alone.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from initbench.arguments import show, types_of
from initbench.errors import ArgumentError, InitbenchError, InitializationError
from initbench.initializers.record import Event, changes, describe
from initbench.testing.subject import PARTS, Run, Subject

Property = Callable[[Subject], Iterator[str]]


def keeps_parameters(subject: Subject) -> Iterator[str]:
    """Every parameter is the same object as before, including tied ones; none is added or removed."""
    yield from _changed_alone(subject, "identities")


def keeps_dtype_device_and_layout(subject: Subject) -> Iterator[str]:
    """Every parameter keeps its dtype, device, shape and memory format; also on a GPU if there is one."""
    yield from _changed_alone(subject, "kinds")
    gpu = torch.accelerator.current_accelerator(check_available=True)
    for run in () if gpu is None else subject.runs:
        moved = subject.apply(run.case, to=gpu)
        if moved.error is not None:
            yield f"raises {type(moved.error).__name__} on a GPU: {moved.error} (model {run.case.name})"
        message = moved.changed("kinds")
        if message is not None:
            yield message


def keeps_modes(subject: Subject) -> Iterator[str]:
    """Every module stays in train or eval mode."""
    yield from _changed(subject, "modes")


def keeps_requires_grad(subject: Subject) -> Iterator[str]:
    """Every parameter stays frozen or trainable."""
    yield from _changed(subject, "requires_grad")


def keeps_buffers(subject: Subject) -> Iterator[str]:
    """Buffers, including running statistics, stay the same objects with the same values."""
    yield from _changed(subject, "buffers")


def keeps_gradients(subject: Subject) -> Iterator[str]:
    """``.grad`` of every parameter is unchanged."""
    yield from _changed(subject, "gradients")


def leaves_nothing_behind(subject: Subject) -> Iterator[str]:
    """No hook, module or attribute is added, removed or replaced."""
    yield from _changed_alone(subject, "belongings")


def keeps_frozen_parameters(subject: Subject) -> Iterator[str]:
    """A parameter that requires no gradient keeps its values."""
    for run in subject.runs:
        for name, was in run.before["requires_grad"].items():
            if was == "frozen" and run.after["values"].get(name) != run.before["values"][name]:
                yield f"{name} is frozen and was changed (model {run.case.name})"


def _changed_alone(subject: Subject, part: str) -> Iterator[str]:
    for run in subject.runs:
        message = run.changed(part)
        if message is not None:
            yield message


def _changed(subject: Subject, part: str) -> Iterator[str]:
    """Compare a part before and after `initialize`, and also alone if another initializer may follow it."""
    if subject.may_precede_others:
        yield from _changed_alone(subject, part)
    for run in subject.initialized:
        message = run.changed(part)
        if message is not None:
            yield f"after `initialize` {message}"


def is_deterministic(subject: Subject) -> Iterator[str]:
    """Two runs with one seed and one global random state give the same bits."""
    for run in subject.runs:
        message = run.differs(subject.apply(run.case))
        if message is not None:
            yield f"in a second run with the same seed {message}"


def follows_the_seed(subject: Subject) -> Iterator[str]:
    """If anything is drawn, another seed gives another result."""
    for run in subject.runs:
        if run.draws:
            other = subject.apply(run.case, seed=1, random_state=1)  # as in `initialize`, where it follows the seed
            if run.differs(other) is None:
                yield f"random numbers are drawn, and seeds 0 and 1 give the same values (model {run.case.name})"


def leaves_the_global_random_state(subject: Subject) -> Iterator[str]:
    """No global random generator (torch, random, numpy.random) is used, seeded or advanced."""
    for run in subject.runs:
        message = run.differs(subject.apply(run.case, random_state=1))
        if run.moved:
            yield (
                f"the global generator of {run.moved[0]} is used; take context.generator(name) (model {run.case.name})"
            )
        elif message is not None and run.differs(subject.apply(run.case)) is None:
            yield f"with another global random state {message}"


def draws_tied_parameters_once(subject: Subject) -> Iterator[str]:
    """A parameter with several names is drawn once, from the stream of its first name, and recorded under that name."""
    for run in subject.runs:
        first = {name for name, _ in run.model.named_parameters()}
        for name, _ in run.model.named_parameters(remove_duplicate=False):
            if name not in first and name in run.streams:
                yield f"{name} is tied, and drawn under this name, which is not its first (model {run.case.name})"
            if name not in first and run.record is not None and name in run.record.tensors:
                yield f"{name} is tied, and recorded under this name, which is not its first (model {run.case.name})"


def records_what_it_changes(subject: Subject) -> Iterator[str]:
    """The record has an event for every changed parameter and for no other name, and its events are true."""
    for run in subject.runs:
        events = {} if run.record is None else run.record.tensors
        parameters = dict(run.model.named_parameters(remove_duplicate=False))
        for name in [name for name in events if name not in parameters]:
            yield f"{name!r} is in the record and is not a parameter (model {run.case.name})"
        for name, parameter in run.model.named_parameters():
            changed = run.after["values"][name] != run.before["values"].get(name)
            fault = _fault(parameter, events.get(name, []), changed=changed)
            if fault is not None:
                yield f"{name} {fault} (model {run.case.name})"


def _fault(parameter: Tensor, events: list[Event], *, changed: bool) -> str | None:
    if changed and not any(map(changes, events)):
        said = "; ".join(map(describe, events)) or "nothing"
        return f"is changed, and the record says: {said}"
    if not events:
        return None
    last = events[-1]
    if not changed and last["event"] == "drawn":
        return f"is unchanged, and the record says: {describe(last)}"
    if last["event"] == "filled" and not last.get("direction") and (parameter != last["value"]).any():
        return f"has other values, and the record says: {describe(last)}"
    return None


def gives_finite_values(subject: Subject) -> Iterator[str]:
    for run in subject.runs:
        name = infinite(run.model)
        if name is not None:
            yield f"{name} has values that are not finite (model {run.case.name})"


def works_in_float64(subject: Subject) -> Iterator[str]:
    """In float64 the values are finite, and near the float32 values or more precise than float32."""
    for single in subject.runs:
        double, where = subject.apply(single.case, to=torch.float64), f"(model {single.case.name})"
        if isinstance(double.error, InitbenchError):
            continue
        if double.error is not None:
            yield f"raises {type(double.error).__name__} in float64 and not in float32: {double.error} {where}"
        name = infinite(double.model)
        if name is not None:
            yield f"{name} has values that are not finite in float64 {where}"
        in_single = dict(single.model.named_parameters())
        for name, parameter in double.model.named_parameters():
            if name in in_single and _is_coarse(parameter.detach(), in_single[name].detach()):
                yield f"{name} has no more digits in float64 than in float32, and is not near that value {where}"


def _is_coarse(double: Tensor, single: Tensor) -> bool:
    """Return whether values have only the digits of float32 and more than two sizes, far from the float32 ones."""
    exact = torch.equal(double.float().double(), double.double())
    near = torch.allclose(double.double(), single.double(), rtol=1e-2, atol=1e-5)
    return exact and not near and len(set(double.abs().flatten().tolist())) > 2


def counts_its_passes(subject: Subject) -> Iterator[str]:
    """The declared cost is the number of forward passes of the model and of calls of autograd."""
    for run in subject.runs:
        if run.record is not None and run.record.cost != run.passes:
            yield f"the declared cost is {run.record.cost}, but {run.passes} were counted (model {run.case.name})"


def returns_a_record_of_json(subject: Subject) -> Iterator[str]:
    """The record, which a worker sends back and the ledger keeps, is JSON."""
    for run in subject.runs:
        fields = {} if run.record is None else run.record.to_json()
        for name, value in fields.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                yield f"{name} of the record is not JSON: {error} (model {run.case.name})"


def infinite(model: nn.Module) -> str | None:
    return next((name for name, parameter in model.named_parameters() if not torch.isfinite(parameter).all()), None)


_TRIED: dict[type, tuple[Any, ...]] = {float: (0.0, -1.0), int: (0, -1)}


def raises_readable_errors(subject: Subject) -> Iterator[str]:
    """It initializes a model or refuses it with an InitializationError, as it does inputs of NaN."""
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
        yield from _unreadable(run, "if inputs are NaN")
        yield from _left_changed(run)
        name = infinite(run.model)
        if name is not None:
            yield f"leaves values in {name} that are not finite if inputs are NaN; raise an InitializationError"


def _unreadable(run: Run, where: str) -> Iterator[str]:
    if isinstance(run.error, InitializationError):
        if not str(run.error):
            yield f"raises an InitializationError without a message {where}"
    elif run.error is not None:
        yield f"raises {_shown(run.error)} {where}; raise an InitializationError"


def _left_changed(run: Run) -> Iterator[str]:
    for part in PARTS:
        message = None if run.error is None else run.changed(part)
        if message is not None:
            yield f"leaves a model that it refuses changed: {message}"


def names_bad_arguments(subject: Subject) -> Iterator[str]:
    """An unusable value is refused with an `ArgumentError` that has the argument's name.

    For each argument, 0 and -1 for numbers, and for all a value of a wrong type, are tried: either the factory refuses
    the value, or the initializer works with it or says why it cannot.
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
        yield f"the argument {argument.name} has no type, so no value can be refused"


def _bad_argument(subject: Subject, name: str, value: Any) -> Iterator[str]:
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


PROPERTIES: tuple[Property, ...] = (
    raises_readable_errors,
    names_bad_arguments,
    keeps_parameters,
    keeps_dtype_device_and_layout,
    keeps_modes,
    keeps_requires_grad,
    keeps_buffers,
    keeps_gradients,
    leaves_nothing_behind,
    keeps_frozen_parameters,
    is_deterministic,
    follows_the_seed,
    leaves_the_global_random_state,
    draws_tied_parameters_once,
    records_what_it_changes,
    gives_finite_values,
    works_in_float64,
    counts_its_passes,
    returns_a_record_of_json,
)


@dataclass(frozen=True)
class Check:
    """One property of one initializer; calling it checks the property, and its text is its name."""

    property: Property
    subject: Subject

    def __call__(self) -> None:
        """Check the property; an AssertionError names the initializer, property and parameter."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # more threads would wait for one another, because the models are small
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

    It takes the same arguments, and raises the same InitbenchError.
    """
    subject = Subject.of(initializer, arguments)
    return [Check(each, subject) for each in PROPERTIES]


def check_initializer(initializer: str | Callable[..., Any], /, **arguments: Any) -> None:
    """Check the properties of an initializer that initbench, and fair comparisons, rely on.

    It runs on a few small models on the CPU, in about a second. An initializer may refuse a model with an
    InitializationError if it leaves the model unchanged, but it must initialize at least one.

    Args:
        initializer: a registered name, or a factory; a factory that is not registered counts as declaring nothing.
        arguments: the initializer's own; its declarations for a smoke run replace its defaults.

    Raises:
        AssertionError: a property is violated; only the first is reported.
        InitbenchError: there is no such initializer, it refuses the arguments, or no architecture has its scheme.
    """
    for check in checks(initializer, **arguments):
        check()
