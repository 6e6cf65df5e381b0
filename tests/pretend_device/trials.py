"""Trials on the device `pretend`."""

from contextlib import contextmanager
from unittest import mock

import torch
from pretend import NAME, OnPretend, waits

from initbench.execution.trial import run_trial
from initbench.training import run as training
from suites import planned

LISTS = {"architectures", "initializers"}


@contextmanager
def on_pretend():
    """Let models move to the device as to CUDA, where parameters keep their identity.

    Views of wrapper subclasses fail in inference mode, so splits are evaluated without gradients instead.
    """
    waits.clear()
    swap = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        without_gradients = torch.no_grad()(training.split_totals.__wrapped__)
        with mock.patch.object(training, "split_totals", without_gradients), OnPretend():
            yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swap)


def trials_of(**suite):
    """Return the trials of a suite as plain data; pairs that do not fit are left out."""
    keys = {
        name: [suite[name]] if isinstance(suite[name], dict | str) else suite[name] for name in LISTS & suite.keys()
    }
    return list(planned(**suite | keys).trials)


def run(trial, *, may_diverge=False):
    """Run a trial on the device and return its record."""
    with on_pretend():
        record = run_trial(trial, device=NAME)
    assert record.status in ({"finished", "diverged"} if may_diverge else {"finished"}), record.metrics
    return record


def with_something_new(trials):
    """Return the trials that have a component, or a value of an argument or field, that no earlier one has."""
    seen, kept = set(), []
    for trial in trials:
        values = set(_values_of(trial))
        if not values <= seen:
            seen |= values
            kept.append(trial)
    return kept


def _values_of(trial):
    parts = {"initializer": trial.initializer, "architecture": trial.architecture, "dataset": trial.dataset}
    for kind, part in (*parts.items(), *((f"probe {probe.name}", probe) for probe in trial.probes)):
        for name, value in part.arguments.items() or [("", "")]:
            yield kind, part.name, name, str(value)
    yield "scheme", trial.scheme, trial.initializer.name
    for name, value in trial.recipe.plain().items():
        yield "recipe", name, str(value)
