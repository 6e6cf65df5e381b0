"""Checks of the values that an initializer sets, and of what it says of them. Each yields what does not hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch

from initbench.errors import InitbenchError
from initbench.initializers.events import changes, describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from initbench.initializers.events import Event
    from initbench.testing.subject import Subject


def is_deterministic(subject: Subject) -> Iterator[str]:
    """Two runs with one seed, and with one global random state, give the same bits."""
    for run in subject.runs:
        found = run.differs(subject.apply(run.case))
        if found is not None:
            yield f"in a second run with the same seed {found}"


def follows_the_seed(subject: Subject) -> Iterator[str]:
    """Where anything is drawn, another seed gives another result."""
    for run in subject.runs:
        if run.draws:
            other = subject.apply(run.case, seed=1, random_state=1)  # as in `initialize`, where it follows the seed
            if run.differs(other) is None:
                yield f"random numbers are drawn, and seeds 0 and 1 give the same values (model {run.case.name})"


def leaves_the_global_random_state(subject: Subject) -> Iterator[str]:
    """No global random generator (torch, random, numpy.random) is used, seeded or moved."""
    for run in subject.runs:
        found = run.differs(subject.apply(run.case, random_state=1))
        if run.moved:
            yield (
                f"the global generator of {run.moved[0]} is used; take context.generator(name) (model {run.case.name})"
            )
        elif found is not None and run.differs(subject.apply(run.case)) is None:
            yield f"with another global random state {found}"


def draws_tied_parameters_once(subject: Subject) -> Iterator[str]:
    """A parameter of several names is drawn once, from the stream of its first name, and recorded under it."""
    for run in subject.runs:
        first = {name for name, _ in run.model.named_parameters()}
        for name, _ in run.model.named_parameters(remove_duplicate=False):
            if name not in first and name in run.streams:
                yield f"{name} is tied, and drawn under this name, which is not its first (model {run.case.name})"
            if name not in first and run.record is not None and name in run.record.tensors:
                yield f"{name} is tied, and recorded under this name, which is not its first (model {run.case.name})"


def records_what_it_changes(subject: Subject) -> Iterator[str]:
    """The record has an event for every parameter that changed, for none that does not exist, and its events hold."""
    for run in subject.runs:
        events = {} if run.record is None else run.record.tensors
        parameters = dict(run.model.named_parameters(remove_duplicate=False))
        for name in [name for name in events if name not in parameters]:
            yield f"{name!r} is in the record and is no parameter (model {run.case.name})"
        for name, parameter in run.model.named_parameters():
            changed = run.after["values"][name] != run.before["values"].get(name)
            fault = _fault(parameter, events.get(name, []), changed=changed)
            if fault is not None:
                yield f"{name} {fault} (model {run.case.name})"


def _fault(parameter: Tensor, events: list[Event], *, changed: bool) -> str | None:
    """Return what is wrong with the events of a parameter."""
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
    """No value is infinite or NaN."""
    for run in subject.runs:
        name = infinite(run.model)
        if name is not None:
            yield f"{name} has values that are not finite (model {run.case.name})"


def works_in_float64(subject: Subject) -> Iterator[str]:
    """In float64 values are finite, and near those in float32 or more precise than float32 can hold."""
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
                yield f"{name} has no more digits in float64 than in float32, and is not near its value there {where}"


def _is_coarse(double: Tensor, single: Tensor) -> bool:
    """Return whether values have no more digits than float32 for no reason: more than two sizes, and others there."""
    exact = torch.equal(double.float().double(), double.double())
    near = torch.allclose(double.double(), single.double(), rtol=1e-2, atol=1e-5)
    return exact and not near and len(set(double.abs().flatten().tolist())) > 2


def counts_its_passes(subject: Subject) -> Iterator[str]:
    """The declared cost is the number of forward passes of the model, and of calls of autograd."""
    for run in subject.runs:
        if run.record is not None and run.record.cost != run.passes:
            yield f"the declared cost is {run.record.cost}, and {run.passes} were counted (model {run.case.name})"


def returns_a_record_of_json(subject: Subject) -> Iterator[str]:
    """The record, which is what a worker sends back and the ledger keeps, is JSON."""
    for run in subject.runs:
        fields = {} if run.record is None else run.record.to_json()
        for name, value in fields.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                yield f"{name} of the record is no JSON: {error} (model {run.case.name})"


def infinite(model: nn.Module) -> str | None:
    """Return the name of the first parameter that is not finite."""
    return next((name for name, parameter in model.named_parameters() if not torch.isfinite(parameter).all()), None)
