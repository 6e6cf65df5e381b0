"""Assertions about how models are initialized, for the tests of a library of models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.inspection.diff import diff
from initbench.inspection.fingerprint import Fingerprint, fingerprint, read_fingerprint, write_fingerprint
from initbench.inspection.source import ModelSource, model_source
from initbench.testing.pytest_plugin import updates

Build = Callable[[int], nn.Module] | Callable[[], nn.Module] | ModelSource | str


def assert_same_initialization(a: Build, b: Build, *, seeds: int = 5, inputs: Inputs | Tensor | None = None) -> None:
    """Assert that two models draw each tensor from the same law; names of modules may differ.

    Args:
        a: a function that returns a new model, with the seed as its argument or with none; or a model's name, such as
            ``timm/resnet18`` or ``package.module:function``.
        b: likewise.
        seeds: the number of models of each that are built, at least 2.
        inputs: one sample, or an example batch, that both accept; the default is a shape that the first layer accepts.

    Raises:
        AssertionError: the laws of some tensors differ; it has a line for each. The laws of the same model agree with
            probability 0.95.
    """
    __tracebackhide__ = True
    difference = diff(_fingerprint(a, seeds, inputs), _fingerprint(b, seeds, inputs))
    if not difference.same:
        raise AssertionError(f"the initialization differs\n{difference}")


def assert_matches_fingerprint(
    build: Build, path: str | Path, *, seeds: int = 5, inputs: Inputs | Tensor | None = None
) -> None:
    """Assert that a model draws each tensor from the law that a file holds.

    ``pytest --update-fingerprints`` writes the file, unless it holds the same laws already.

    Args:
        build: a function that returns a new model, with the seed as its argument or with none; or a model's name.
        path: the file; a relative one is beside the test's own.
        seeds: the number of models that are built, at least 2.
        inputs: one sample, or an example batch; the default is a shape that the first layer accepts.

    Raises:
        AssertionError: there is no such file, or the laws of some tensors differ; it has a line for each.
    """
    __tracebackhide__ = True
    frame = inspect.currentframe()
    caller = frame.f_back if frame else None
    file = Path(caller.f_code.co_filename if caller else "").parent / path
    if not file.exists() and not updates.requested:
        raise AssertionError(f"there is no {path}: pytest --update-fingerprints writes it; commit it")
    now = _fingerprint(build, seeds, inputs)
    if updates.requested and not _holds(file, now):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_fingerprint(file, now)
        updates.written.append(file)
        return
    difference = diff(replace(read_fingerprint(file), name=str(path)), now)
    if not difference.same:
        raise AssertionError(f"the initialization differs\n{difference}")


def _fingerprint(build: Build, seeds: int, inputs: Inputs | Tensor | None) -> Fingerprint:
    return fingerprint(model_source(build) if isinstance(build, str) else build, seeds=seeds, inputs=inputs)


def _holds(file: Path, now: Fingerprint) -> bool:
    """Return whether a file is a fingerprint of the same laws, from as many seeds."""
    try:
        before = read_fingerprint(file)
    except InitbenchError:
        return False
    return before.seeds == now.seeds and diff(before, now).same
