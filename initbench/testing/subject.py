"""An initializer under test, and the two ways of running it: alone, and through `initialize`."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from initbench.errors import InitbenchError
from initbench.initializers.context import InitializationContext
from initbench.initializers.initialize import initialize
from initbench.initializers.record import InitializationRecord
from initbench.registry import INITIALIZERS, Component, Initializer, InitializerTraits
from initbench.structure.recording import is_recording
from initbench.testing.models import CLASSES, DEGENERATE, STANDARD, Case, cases
from initbench.testing.state import PARTS, difference, global_random_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch import nn

    from initbench.initializers.context import Apply


@dataclass
class WatchedContext(InitializationContext):
    """A context that remembers whose generators were asked for.

    Attributes:
        streams: the keys, in order.
    """

    streams: list[str] = field(default_factory=list)

    def generator(self, key: str) -> torch.Generator:
        """Return the generator of a key; see `InitializationContext`."""
        self.streams.append(key)
        return super().generator(key)

    def apply(self, initializer: Initializer | None, model: nn.Module) -> None:
        """Do nothing: what another initializer does has been done before, see `Subject.apply`."""


@dataclass
class Run:
    """What came of running an initializer.

    Attributes:
        case: the model that it ran on.
        model: the model itself, afterwards.
        before: what each part of it was before; see `state.PARTS`.
        after: what each part is.
        error: what was raised.
        record: what was declared. The rest is known where the initializer ran alone:
        streams: the keys of the generators that were asked for.
        draws: number of operations that were given a random generator.
        moved: the global random generators that were used.
        passes: numbers of forward and backward passes.
    """

    case: Case
    model: nn.Module
    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]] = field(default_factory=dict)
    error: Exception | None = None
    record: InitializationRecord | None = None
    streams: list[str] = field(default_factory=list)
    draws: int = 0
    moved: list[str] = field(default_factory=list)
    passes: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0})

    def changed(self, part: str) -> str | None:
        """Return in words the first thing of a part that is not what it was, with the model's name."""
        found = difference(self.before[part], self.after[part])
        return None if found is None else f"{found} (model {self.case.name})"

    def differs(self, other: Run) -> str | None:
        """Return in words the first value that is another in another run, with the model's name."""
        found = difference(self.after["values"], other.after["values"])
        return None if found is None else f"{found} (model {self.case.name})"


@dataclass(frozen=True)
class Subject:
    """An initializer under test.

    Attributes:
        component: the initializer.
        arguments: those given, and for the others what it declares for a smoke run.
        cases: the models that it is tested on.
    """

    component: Component[InitializerTraits]
    arguments: Mapping[str, Any]
    cases: tuple[Case, ...]

    @classmethod
    def of(cls, initializer: str | Callable[..., Any], arguments: Mapping[str, Any]) -> Subject:
        """Return the subject for a name or factory; see `check_initializer`."""
        component = _component(initializer)
        resolved = component.resolve({**component.traits.smoke, **arguments})
        component.build(resolved)
        return cls(component, resolved, cases(component.traits.scheme))

    @property
    def name(self) -> str:
        """The initializer's name."""
        return self.component.name

    @property
    def may_precede_others(self) -> bool:
        """Whether another initializer can start from it: it draws by itself, without batches."""
        return not self.component.initializer_arguments and self.component.traits.data is None

    @cached_property
    def attempts(self) -> tuple[Run, ...]:
        """A run of the initializer alone on each of its models."""
        return tuple(map(self.apply, self.cases))

    @property
    def runs(self) -> tuple[Run, ...]:
        """Those that ended well; `raises_readable_errors` says whether others may end otherwise."""
        return tuple(run for run in self.attempts if run.error is None)

    @cached_property
    def initialized(self) -> tuple[Run, ...]:
        """A run of `initialize` on each of its models, and on others that it may refuse."""
        models = {case.name: case for case in (*self.cases, *STANDARD, *DEGENERATE)}
        return tuple(map(self.initialize, models.values()))

    def initialize(self, case: Case, value: float | None = None) -> Run:
        """Run `initialize`, as a user would.

        Args:
            case: the model.
            value: of all inputs; see `Case.batches`.
        """
        model = case.build()
        run = Run(case, model, {part: of(model) for part, of in PARTS.items()})
        registered = mock.patch.dict(INITIALIZERS._registered, {self.name: self.component})  # noqa: SLF001
        try:
            with registered, global_random_state(0), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run.record = initialize(
                    model,
                    self.name,
                    inputs=next(case.batches())[0],
                    num_classes=CLASSES,
                    batches=case.batches(value),
                    **self.arguments,
                )
        except Exception as error:  # noqa: BLE001 - the checks look at it
            run.error = error
        run.after = {part: of(model) for part, of in PARTS.items()}
        return run

    def apply(
        self,
        case: Case,
        *,
        to: torch.dtype | torch.device | None = None,
        apply: Apply | None = None,
        seed: int = 0,
        random_state: int = 0,
    ) -> Run:
        """Run the initializer alone, without the care that `initialize` takes.

        What it starts from, its arguments that are initializers themselves, has run before and is not looked at.

        Args:
            case: the model.
            to: what the model is moved to.
            apply: what the factory returned for other arguments.
            seed: of the initializer; that of what it starts from is always the same.
            random_state: seed of the global random generators.
        """
        model = case.build() if to is None else case.build().to(to)
        for parameter in model.parameters():
            parameter.grad = None  # as in `initialize`
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for argument in self.component.initializer_arguments:
                first: Initializer | None = self.arguments[argument]
                if first is not None:
                    initialize(model, first.name, **first.arguments)
            run = Run(case, model, {part: of(model) for part, of in PARTS.items()})
            record = InitializationRecord(self.name, self.component.plain(self.arguments), seed=seed)
            context = WatchedContext(
                model,
                record,
                seed,
                inputs=case.inputs,
                outputs=CLASSES,
                given_batches=case.batches(),
                streams=run.streams,
            )
            run.record = record
            apply = apply or self.component.build(self.arguments)
            try:
                with (
                    global_random_state(random_state) as run.moved,
                    _counted_passes(model, run.passes),
                    _Draws(run),
                ):
                    apply(model, context)
            except Exception as error:  # noqa: BLE001 - the checks look at it
                run.error = error
        run.after = {part: of(model) for part, of in PARTS.items()}
        return run


class _Draws(TorchFunctionMode):
    """Counts a run's operations that are given a random generator."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        self.run.draws += any(isinstance(value, torch.Generator) for value in (*arguments, *options.values()))
        return function(*arguments, **options)


@contextmanager
def _counted_passes(model: nn.Module, passes: dict[str, int]) -> Iterator[None]:
    """Count a model's forward passes, and every way to call autograd."""
    run: Any = torch.autograd._engine_run_backward  # type: ignore[attr-defined]  # noqa: SLF001

    def forward(*_: Any) -> None:
        passes[
            "forward"
        ] += not is_recording()  # the run with one sample that finds a structure is no pass over a batch

    def backward(*arguments: Any, **options: Any) -> Any:
        passes["backward"] += 1
        return run(*arguments, **options)

    handle = model.register_forward_pre_hook(forward)
    try:
        with mock.patch.object(torch.autograd, "_engine_run_backward", backward):
            yield
    finally:
        handle.remove()


def _component(initializer: str | Callable[..., Any]) -> Component[InitializerTraits]:
    """Return the component of a name, of a registered factory, or one made of another factory."""
    if isinstance(initializer, str):
        return INITIALIZERS.get(initializer)
    names = INITIALIZERS.names()
    for component in map(INITIALIZERS.get, names):
        if component.factory is initializer:
            return component
    name = getattr(initializer, "__name__", type(initializer).__name__)
    if name in names:
        raise InitbenchError(f"{name}: this factory is not registered, and another initializer has its name")
    return Component("initializer", name, initializer, 1, InitializerTraits())
