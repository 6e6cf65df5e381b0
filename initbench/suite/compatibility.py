"""Whether the parts of a trial go together; where they do not, the pair is incompatible and the reason is shown."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from initbench.errors import ArgumentError
from initbench.plugins import first_line
from initbench.registry import INITIALIZERS, STANDARD, has_parts_of, scheme_names
from initbench.suite.spec import ComponentSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from initbench.architectures.size import Size
    from initbench.inputs import Inputs
    from initbench.registry import ArchitectureTraits, Component
    from initbench.suite.document import Document
    from initbench.suite.load import Choice
    from initbench.suite.spec import DatasetSpec, TrialDraft
    from initbench.training.recipe import Recipe
    from initbench.training.refusals import ModelTraits

_SAMPLES = 2
_LARGE = 2e9
"""How many bytes take longer to fill than PyTorch's compiler to import."""
Other = Literal["initializer", "dataset"]


class Refusal(NamedTuple):
    """Why a trial cannot run.

    Attributes:
        reason: in one line.
        other: what the architecture does not go with; None where its scheme or the recipe is refused, whatever the
            initializer and the dataset.
    """

    reason: str
    other: Other | None


class Compatibility:
    """Why a trial cannot run; each architecture is tried once on each dataset.

    Args:
        document: for messages.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self._tried: dict[tuple[int, int, str], Refusal | ModelTraits] = {}
        self._sizes: dict[tuple[int, int], Size | None] = {}
        self._recipes: dict[tuple[int, int, str, Recipe], Refusal | None] = {}
        self._refused: dict[tuple[str, str, float], str | None] = {}

    def task(self, task: str, architecture: Choice) -> Refusal | None:
        """Return why an architecture cannot be trained on a task, None where it serves it."""
        serves = architecture.component.traits.tasks
        if task in serves:
            return None
        return Refusal(f"{architecture.spec.name} serves {' and '.join(serves)}, the data are for {task}", "dataset")

    def declared(self, trial: TrialDraft, architecture: Choice, needed: str | None) -> Refusal | None:
        """Return why a trial cannot run by what its parts declare, None where nothing speaks against it.

        Args:
            trial: after rules.
            architecture: its architecture.
            needed: the scheme that its initializer needs.
        """
        reason = self._declared(trial, architecture, needed)
        return None if reason is None else Refusal(reason, "initializer")

    def _declared(self, trial: TrialDraft, architecture: Choice, needed: str | None) -> str | None:
        initializer, scheme, recipe = trial.initializer, trial.scheme, trial.recipe
        if needed is not None and not has_parts_of(scheme, needed):
            return f"{initializer.name} needs scheme {needed}, the suite says {scheme}"
        known = scheme_names(architecture.component)
        if scheme not in known:
            return (
                f"{architecture.spec.name} has no scheme {scheme}, nor is one registered (there are {', '.join(known)})"
            )
        key = (initializer.model_dump_json(), recipe.optimizer, recipe.lr)
        if key not in self._refused:
            self._refused[key] = _refusal(initializer, recipe.optimizer, recipe.lr)
        return self._refused[key]

    def tried(self, trial: TrialDraft, dataset: DatasetSpec, architecture: Choice) -> Refusal | None:
        """Return why a trial cannot run, as its model and its recipe show; None where it can.

        Raises:
            SuiteError: the architecture refuses an argument that the suite gives.
        """
        from initbench.tasks import find_task
        from initbench.training.refusals import data_refusal, model_refusal

        scheme, recipe = trial.scheme, trial.recipe
        key = (id(architecture), id(dataset), scheme)
        if key not in self._tried:
            self._tried[key] = self._try(dataset, architecture, scheme)
        model = self._tried[key]
        if isinstance(model, Refusal):
            # Where the initializer brings the scheme, another one may do.
            return Refusal(model.reason, "initializer") if trial.scheme_named_by == ("initializer",) else model
        if (*key, recipe) not in self._recipes:
            refused = None
            if (reason := data_refusal(recipe, find_task(dataset.task), dataset.inputs)) is not None:
                refused = Refusal(reason, "dataset")
            elif (reason := model_refusal(recipe, model)) is not None:
                refused = Refusal(reason, None)
            self._recipes[*key, recipe] = refused
        return self._recipes[*key, recipe]

    def _try(self, dataset: DatasetSpec, architecture: Choice, scheme: str) -> Refusal | ModelTraits:
        """Build the model and run it on two samples; return why that cannot be, or what a recipe may ask of it.

        In the place of a deep network it is the shallow one that its architecture declares. What does not fit into
        memory is not built.

        On the CPU: on the meta device it would cost nothing, but the first operation there imports PyTorch's compiler,
        which takes longer than a forward pass of most networks. Of those of 2 GB or more it does not; what fails there
        is tried on the CPU, as not every operation has a form without values.
        """
        import torch

        from initbench.architectures.size import too_large
        from initbench.tasks import find_task
        from initbench.training.refusals import ModelTraits

        name, inputs, outputs = architecture.spec.name, dataset.inputs, dataset.outputs
        expected = (_SAMPLES, *find_task(dataset.task).output_shape(inputs, outputs))
        component = architecture.component
        counted = (id(architecture), id(dataset))
        if counted not in self._sizes:
            self._sizes[counted] = _size(component, architecture.spec.arguments, dataset)
        size = self._sizes[counted]
        if size is not None:
            reason = too_large(component.name, component.resolve(architecture.spec.arguments), size)
            if reason is not None:
                return Refusal(reason, None)
        try:
            model, result = _run(component, architecture.spec.arguments, dataset, scheme, size)
        except ArgumentError as error:
            # What the standard scheme takes is no mistake of the suite: the scheme does not go with it.
            if self._is_of_the_scheme(dataset, architecture, scheme):
                return Refusal(f"{name}: {error}", None)
            if self._given(architecture, error.argument):
                raise self.document.argument_error(architecture.key, error) from error
            return Refusal(f"{name} cannot be built for inputs of {inputs}: {error}", "dataset")
        except Exception as error:  # noqa: BLE001  # a model may raise anything at a shape that it is not made for
            reason = first_line(error) or type(error).__name__
            if self._is_of_the_scheme(dataset, architecture, scheme):
                return Refusal(f"{name} fails in scheme {scheme}: {reason}", None)
            return Refusal(f"{name} refuses inputs of {inputs}: {reason}", "dataset")
        if not isinstance(result, torch.Tensor) or result.shape != expected:
            got = tuple(result.shape) if isinstance(result, torch.Tensor) else type(result).__name__
            return Refusal(f"{name} must give outputs of {expected} for two samples, gives {got}", "dataset")
        return ModelTraits.of(model)

    def _is_of_the_scheme(self, dataset: DatasetSpec, architecture: Choice, scheme: str) -> bool:
        """Return whether what is refused in a scheme runs without one."""
        return scheme != STANDARD and not isinstance(self._try(dataset, architecture, STANDARD), Refusal)

    def _given(self, architecture: Choice, argument: str | None) -> bool:
        """Return whether the suite gives an argument; for an error that names none, whether it gives any."""
        names = [argument] if argument else [a.name for a in architecture.component.arguments]
        return any(self.document.has((*architecture.key, name)) for name in names)


def _size(component: Component[ArchitectureTraits], arguments: Mapping[str, Any], dataset: DatasetSpec) -> Size | None:
    """Return the size of a model, None where it is not known."""
    from initbench.architectures.size import model_size

    try:
        return model_size(component, component.resolve(arguments), inputs=dataset.inputs, outputs=dataset.outputs)
    except Exception:  # noqa: BLE001  # whatever speaks against the model is said when it is built and run
        return None


def _run(
    component: Component[ArchitectureTraits],
    arguments: Mapping[str, Any],
    dataset: DatasetSpec,
    scheme: str,
    size: Size | None,
) -> tuple[nn.Module, Any]:
    """Return a model, of the shallow one that stands for it, and its outputs for two samples."""
    import torch

    from initbench.architectures.create import build_model
    from initbench.models.calls import tensor_of

    shallow = component.shallow(component.resolve(arguments))
    arguments = {**arguments, **({} if shallow is None else shallow.arguments)}

    def run(place: AbstractContextManager[object]) -> tuple[nn.Module, Any]:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), place:
            model = build_model(component, arguments, dataset.inputs, dataset.outputs, scheme)
            return model, tensor_of(model.eval()(_zeros(dataset.inputs)))

    if size is not None and size.bytes_of_shallow >= _LARGE:
        try:
            return run(torch.device("meta"))
        except ArgumentError:
            raise  # it would be refused with values too
        except Exception:  # noqa: BLE001, S110  # some operations have no form without values
            pass
    return run(nullcontext())


def _zeros(inputs: Inputs) -> Tensor:
    import torch

    kind = torch.float32 if inputs.vocabulary is None else torch.int64
    return torch.zeros(_SAMPLES, *inputs.shape, dtype=kind)


def _refusal(initializer: ComponentSpec, optimizer: str, lr: float) -> str | None:
    """Return why an initializer, or one that it starts from, cannot precede a training."""
    component = INITIALIZERS.get(initializer.name)
    refuses = component.traits.refuses
    reason = None if refuses is None else refuses(component.resolve(initializer.arguments), optimizer, lr)
    for name in component.initializer_arguments:
        nested: dict[str, Any] | None = initializer.arguments[name]
        if reason is None and nested is not None:
            reason = _refusal(ComponentSpec(**nested), optimizer, lr)
    return reason
