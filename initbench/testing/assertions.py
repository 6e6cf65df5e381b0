"""Assertions about how models are initialized, for the tests of a library of models."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from initbench.arguments import show
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.inspection.audit import Declared, audit
from initbench.inspection.check import check
from initbench.inspection.diff import diff
from initbench.inspection.fingerprint import Fingerprint, fingerprint, read_fingerprint, write_fingerprint
from initbench.inspection.source import Build, ModelSource, as_source
from initbench.testing.pytest_plugin import updates

Model = nn.Module | Callable[[], nn.Module] | ModelSource | str


def assert_initialized(model: Model, expected: Declared | None = None, *, inputs: Any = None) -> None:
    """Assert that `audit` finds nothing wrong with a model's tensors, and that they follow the declared laws.

    A function is called with fixed random numbers, so that a test gives the same answer every time. A sound model that
    is given itself, and drawn anew for each test, fails with a probability of at most 1 %.

    Args:
        model: a function without arguments that returns a model; a model; or a model's name, such as ``timm/resnet18``
            or ``package.module:function``.
        expected: the declared laws: a list of entries such as ``{"role": "linear*", "law": "normal", "std": 0.02}``, of
            which the first that matches a tensor counts, or a YAML file that holds such a list. The entries are those
            of ``initbench audit --expect``.
        inputs: one sample, or an example batch; the default is a shape that the first layer accepts.

    Raises:
        AssertionError: there are findings; it has a line for each.
    """
    __tracebackhide__ = True
    findings = audit(_model(model), inputs, expect=expected).findings
    if findings:
        raise AssertionError("\n".join(["the tensors are not as they should be", *map(str, findings)]))


def assert_healthy(model: Model, *, inputs: Inputs | None = None, seeds: int = 3) -> None:
    """Assert that `check` finds a model healthy.

    It is not if signals or gradients vanish, explode or are not finite, units are dead, different inputs have the same
    features, similar inputs have unrelated ones, or the loss is far above that of guessing.

    Args:
        model: as in `assert_initialized`; one that is given itself has the same weights at all seeds.
        inputs: one sample; the default is a shape that the first layer accepts.
        seeds: the number of models and batches; the verdict is the most frequent one.

    Raises:
        AssertionError: the verdict is another one; it says where and by how much.
    """
    __tracebackhide__ = True
    result = check(_model(model), inputs=inputs, seeds=seeds, quotient=False)
    verdict = result.rows[0].verdict
    if verdict is None or verdict.kind != "healthy":
        raise AssertionError(f"{result.model} {verdict.sentence if verdict else 'has no verdict'}")


def assert_same_initialization(a: Build, b: Build, *, seeds: int = 5, inputs: Inputs | Tensor | None = None) -> None:
    """Assert that two models draw each tensor from the same law; names of modules may differ.

    Args:
        a: a function that returns a new model, with the seed as its argument or with none; or a model's name, such as
            ``timm/resnet18`` or ``package.module:function``.
        b: likewise.
        seeds: the number of models of each that are built, at least 2.
        inputs: one sample, or an example batch, that both accept; the default is a shape that the first layer accepts.

    Raises:
        AssertionError: the laws of some tensors differ; it has a line for each. Equal laws are taken for different with
            a probability of at most 5 % over all tensors.
    """
    __tracebackhide__ = True
    difference = diff(fingerprint(a, seeds=seeds, inputs=inputs), fingerprint(b, seeds=seeds, inputs=inputs))
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
    now = fingerprint(build, seeds=seeds, inputs=inputs)
    if updates.requested and not _holds(file, now):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_fingerprint(file, now)
        updates.written.append(file)
        return
    difference = diff(replace(read_fingerprint(file), name=str(path)), now)
    if not difference.same:
        raise AssertionError(f"the initialization differs\n{difference}")


def _model(model: Model) -> nn.Module | ModelSource:
    if isinstance(model, nn.Module):
        return model
    if not callable(model) and not isinstance(model, ModelSource | str):
        raise ArgumentError(f"must be a function that returns a model, or a model, is {show(model)}", "model")
    return as_source(model, "model")


def _holds(file: Path, now: Fingerprint) -> bool:
    """Return whether a file is a fingerprint of the same laws, from as many seeds."""
    try:
        before = read_fingerprint(file)
    except InitbenchError:
        return False
    return before.seeds == now.seeds and diff(before, now).same
