"""Which parts of a trial fit together; incompatible rows get a reason, which the plan and the report show."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.errors import ArgumentError
from initbench.plugins import first_line
from initbench.registry import STANDARD, Component, has_parts_of, scheme_names
from initbench.suite.part import Blamed, Part, Row
from initbench.suite.spec import DatasetSpec
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

    from initbench.architectures.size import Size
    from initbench.tasks import Task
    from initbench.training.refusals import ModelTraits

_SAMPLES = 2
_LARGE = 2e9
"""Models of this size take longer to fill with values than PyTorch's compiler takes to import."""


class Refusal(NamedTuple):
    """Why a trial cannot run, and which part the architecture does not fit: see `Row`."""

    reason: str
    blames: Blamed | None


@dataclass
class Compatibility:
    """Finds the rows that cannot run. Each architecture is tried once in each scheme on each dataset."""

    _models: dict[tuple[Part, Part, str], Refusal | ModelTraits] = field(default_factory=dict)
    _sizes: dict[tuple[Part, Part], Size | None] = field(default_factory=dict)
    _recipes: dict[tuple[Part, Part, str, Recipe], Refusal | None] = field(default_factory=dict)
    _initializers: dict[tuple[Part, Recipe], str | None] = field(default_factory=dict)
    _tasks: dict[str, Task] = field(default_factory=dict)

    def check(self, row: Row) -> Row:
        if row.status == "excluded":
            return row
        refusal = self._declared(row)
        if refusal is None and row.parts.dataset.described is not None:
            refusal = self._tried(row, row.parts.dataset.described)
        if refusal is None:
            return row
        status = "incompatible" if row.status == "run" else row.status
        return replace(row, status=status, reason=refusal.reason, blames=refusal.blames)

    def _declared(self, row: Row) -> Refusal | None:
        """Return why a trial cannot run, according to the declarations of its parts."""
        spec, dataset, architecture = row.spec, row.parts.dataset, row.parts.architecture
        initializer, scheme, recipe = row.parts.initializer, spec.scheme, spec.recipe
        name, needed = architecture.spec.name, initializer.scheme
        task = dataset.component.traits.task if dataset.described is None else dataset.described.task
        if task not in (serves := architecture.component.traits.tasks):
            return Refusal(f"{name} serves {' and '.join(serves)}, the data are for {task}", "dataset")
        if needed is not None and not has_parts_of(scheme, needed):
            return Refusal(f"{spec.initializer.name} needs scheme {needed}, the suite says {scheme}", "initializer")
        if scheme not in (known := scheme_names(architecture.component)):
            there_are = f"there are {', '.join(known)}"
            return Refusal(f"{name} has no scheme {scheme}, nor is one registered ({there_are})", "initializer")
        key = (initializer, recipe)
        if key not in self._initializers:
            self._initializers[key] = _refused(initializer.component, initializer.values, recipe)
        reason = self._initializers[key]
        return None if reason is None else Refusal(reason, "initializer")

    def _tried(self, row: Row, dataset: DatasetSpec) -> Refusal | None:
        """Return why a trial cannot run, according to its model and its recipe."""
        from initbench.tasks import find_task
        from initbench.training.refusals import data_refusal, model_refusal

        assert dataset.inputs is not None
        if dataset.task not in self._tasks:
            self._tasks[dataset.task] = find_task(dataset.task)
        recipe = row.spec.recipe
        key = (row.parts.architecture, row.parts.dataset, row.spec.scheme)
        model = self._model(*key, dataset)
        if isinstance(model, Refusal):
            # If the initializer brings the scheme, another initializer may work.
            brought = row.spec.scheme_named_by == ("initializer",)
            return Refusal(model.reason, "initializer") if brought else model
        if (*key, recipe) not in self._recipes:
            refused = None
            if (reason := data_refusal(recipe, self._tasks[dataset.task], dataset.inputs)) is not None:
                refused = Refusal(reason, "dataset")
            elif (reason := model_refusal(recipe, model)) is not None:
                refused = Refusal(reason, None)
            self._recipes[*key, recipe] = refused
        return self._recipes[*key, recipe]

    def _model(self, architecture: Part, data: Part, scheme: str, dataset: DatasetSpec) -> Refusal | ModelTraits:
        """Return the traits of the model that a recipe needs, or why the model cannot be built or run."""
        from initbench.architectures.size import model_size

        assert dataset.inputs is not None
        if (architecture, data) not in self._sizes:
            size, component, values = None, architecture.component, architecture.values
            with suppress(Exception):  # building and running the model gives the reason
                size = model_size(component, values, inputs=dataset.inputs, outputs=dataset.outputs)
            self._sizes[architecture, data] = size
        if (architecture, data, scheme) not in self._models:
            self._models[architecture, data, scheme] = self._try(architecture, data, scheme, dataset)
        return self._models[architecture, data, scheme]

    def _try(self, architecture: Part, data: Part, scheme: str, dataset: DatasetSpec) -> Refusal | ModelTraits:
        """Build the model and run it on two samples; a model that does not fit into memory is not built."""
        import torch

        from initbench.architectures.size import too_large
        from initbench.training.refusals import ModelTraits

        assert dataset.inputs is not None
        name, inputs, size = architecture.spec.name, dataset.inputs, self._sizes[architecture, data]
        expected = (_SAMPLES, *self._tasks[dataset.task].output_shape(inputs, dataset.outputs))
        if size is not None and (reason := too_large(name, architecture.values, size)) is not None:
            return Refusal(reason, None)
        try:
            model, result = _run(architecture, dataset, scheme, size)
        except Exception as error:  # a model may raise anything for a shape that it does not support
            is_argument = isinstance(error, ArgumentError)
            reason = str(error) if is_argument else first_line(error) or type(error).__name__
            # The arguments work in the standard scheme, so the suite is right and the scheme does not fit.
            if isinstance(error, ArgumentError) and _is_given_to_scheme(architecture, scheme, error.argument):
                raise architecture.origin.argument_error(error) from error
            if scheme != STANDARD and not isinstance(self._model(architecture, data, STANDARD, dataset), Refusal):
                fails = "" if is_argument else f" fails in scheme {scheme}"
                return Refusal(f"{name}{fails}: {reason}", None)
            if isinstance(error, ArgumentError) and _is_given(architecture, error.argument):
                raise architecture.origin.argument_error(error) from error
            refuses = "cannot be built for" if is_argument else "refuses"
            return Refusal(f"{name} {refuses} inputs of {inputs}: {reason}", "dataset")
        if not isinstance(result, torch.Tensor) or result.shape != expected:
            got = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
            return Refusal(f"{name} must give outputs of {expected} for two samples, gives {got}", "dataset")
        return ModelTraits.of(model)


def _is_given(architecture: Part, argument: str | None) -> bool:
    """Return whether the suite gives an argument; for None, whether it gives any."""
    names = [argument] if argument else list(architecture.values)
    document, key = architecture.origin.document, architecture.origin.key
    return any(document.has((*key, name)) for name in names)


def _is_given_to_scheme(architecture: Part, scheme: str, argument: str | None) -> bool:
    """Return whether a refused argument, ``scheme.ARGUMENT``, is one that the suite gives to its scheme."""
    given = {f"scheme.{name}" for name in architecture.scheme_arguments}
    return scheme == architecture.scheme and argument in given


def _run(architecture: Part, dataset: DatasetSpec, scheme: str, size: Size | None) -> tuple[nn.Module, Any]:
    """Return a model and its outputs for two samples; a deep network is replaced by its shallow one.

    It runs on the CPU, because the first operation on the meta device imports PyTorch's compiler, which takes longer
    than a forward pass of most networks. Networks of 2 GB or more run on the meta device; if they fail there, they are
    tried on the CPU, because not every operation works without values.
    """
    import torch

    from initbench.architectures.create import build_model
    from initbench.models import random_state
    from initbench.models.calls import tensor_of

    assert dataset.inputs is not None
    inputs, component, values = dataset.inputs, architecture.component, architecture.values
    shallow = component.shallow(values)
    values = {**values, **({} if shallow is None else shallow.arguments)}
    arguments = architecture.scheme_arguments if scheme == architecture.scheme else {}
    kind = torch.float32 if inputs.vocabulary is None else torch.int64
    is_large = size is not None and size.bytes_of_shallow >= _LARGE
    contexts: list[AbstractContextManager[object]] = [*[torch.device("meta")] * is_large, nullcontext()]
    while True:
        context = contexts.pop(0)
        try:
            with random_state.forked(torch.get_default_device()), torch.no_grad(), context:
                model = build_model(component, values, inputs, dataset.outputs, scheme, arguments)
                return model, tensor_of(model.eval()(torch.zeros(_SAMPLES, *inputs.shape, dtype=kind)))
        except ArgumentError:
            raise  # it would also be refused with values
        except Exception:
            if not contexts:
                raise


def _refused(component: Component[Any], values: Mapping[str, Any], recipe: Recipe) -> str | None:
    """Return why an initializer or its base cannot be used with a recipe."""
    from initbench.training.refusals import multiplier_refusal

    refuses = component.traits.refuses
    reason: str | None = None if refuses is None else refuses(values, recipe.optimizer, recipe.lr)
    if reason is None and component.traits.sets_rates and (problem := multiplier_refusal(recipe)) is not None:
        reason = f"{component.name}: {problem}"
    for name in component.initializer_arguments:
        if reason is None and values[name] is not None:
            reason = _refused(values[name].component, values[name].arguments, recipe)
    return reason
