"""An initializer under test, and the two ways to run it: alone, and through `initialize`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from initbench.errors import InitbenchError
from initbench.initializers.context import Apply, InitializationContext, Optimizer
from initbench.initializers.initialize import initialize
from initbench.initializers.record import InitializationRecord
from initbench.registry import INITIALIZERS, Component, Initializer, InitializerTraits
from initbench.structure.recording import is_examined
from initbench.testing.models import CLASSES, DEGENERATE, STANDARD, Case, cases

# The attributes of every module; some of them change when a hook is added and removed again.
_OF_MODULES = {"training", "_parameters", "_buffers", "_modules", "_is_full_backward_hook"}
_PLAIN = (int, float, str, tuple, type(None))


def bits(tensor: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
    """Return the values of a tensor, on any device, so that == means bitwise equality."""
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
    return tensor.dtype, tensor.shape, data.numpy().tobytes()


def values(model: nn.Module) -> dict[str, Any]:
    return {name: bits(parameter) for name, parameter in model.named_parameters()}


def identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


def kinds(model: nn.Module) -> dict[str, str]:
    return {
        name: f"{p.dtype} of shape {tuple(p.shape)} with strides {p.stride()} on {p.device}"
        for name, p in model.named_parameters()
    }


def modes(model: nn.Module) -> dict[str, str]:
    return {_shown(name): "in train mode" if m.training else "in eval mode" for name, m in model.named_modules()}


def requires_grad(model: nn.Module) -> dict[str, str]:
    return {name: "trainable" if p.requires_grad else "frozen" for name, p in model.named_parameters()}


def gradients(model: nn.Module) -> dict[str, Any]:
    return {name: None if p.grad is None else bits(p.grad) for name, p in model.named_parameters()}


def buffers(model: nn.Module) -> dict[str, Any]:
    saved = model.state_dict(keep_vars=True)
    return {name: (id(buffer), bits(buffer), name in saved) for name, buffer in model.named_buffers()}


def belongings(model: nn.Module) -> dict[str, Any]:
    """Return the modules, their hooks and their own attributes, and the hooks of parameters."""
    entries: dict[str, Any] = {}
    for module_name, module in model.named_modules():
        shown = _shown(module_name)
        entries[f"module {shown}"] = id(module)
        for name, value in vars(module).items():
            if "_hooks" in name and isinstance(value, dict):
                entries[f"{name.strip('_')} of {shown}"] = list(value)
            elif name not in _OF_MODULES:
                entries[f"attribute {name} of {shown}"] = value if isinstance(value, _PLAIN) else id(value)
    for name, parameter in model.named_parameters():
        for kind in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            entries[f"{kind.strip('_')} of {name}"] = len(getattr(parameter, kind) or ())
    return entries


PARTS: dict[str, Callable[[nn.Module], dict[str, Any]]] = {
    "values": values,
    "identities": identities,
    "kinds": kinds,
    "modes": modes,
    "requires_grad": requires_grad,
    "gradients": gradients,
    "buffers": buffers,
    "belongings": belongings,
}
"""The parts of a model."""


def difference(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Return in words the first entry that has changed; None if there is none."""
    for name in before | after:
        if name not in after:
            return f"{name} is gone"
        if name not in before:
            return f"{name} was added"
        if before[name] != after[name]:
            said = isinstance(before[name], str) and isinstance(after[name], str)
            return f"{name} was {before[name]}, is {after[name]}" if said else f"{name} is different"
    return None


def _shown(module_name: str) -> str:
    return module_name or "(the model)"


@contextmanager
def global_random_state(number: int) -> Iterator[list[str]]:
    """Seed the random numbers of torch (CPU), Python and NumPy; restore them at the end.

    Afterwards, the yielded list names the generators that were used or seeded meanwhile.
    """
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one is meant
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002
    # One draw each: no seed gives these states, so an initializer that sets a seed is noticed.
    torch.rand(1), random.random(), np.random.random()  # noqa: NPY002, S311
    before = _random_states()
    moved: list[str] = []
    try:
        yield moved
    finally:
        moved += [name for name, state in _random_states().items() if state != before[name]]
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])  # noqa: NPY002


def _random_states() -> dict[str, Any]:
    _, numbers, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": random.getstate(),
        "numpy.random": (np.asarray(numbers).tobytes(), rest),
    }


@dataclass
class WatchedContext(InitializationContext):
    """A context that records the names of the generators that were requested."""

    streams: list[str] = field(default_factory=list)

    def generator(self, key: str) -> torch.Generator:
        self.streams.append(key)
        return super().generator(key)

    def apply(self, initializer: Initializer | None, model: nn.Module) -> None:
        """Do nothing, because the other initializer has already run, see `Subject.apply`."""


@dataclass
class Run:
    """The result of running an initializer.

    `before` and `after` have each part of the model, see `PARTS`. Only a run of the initializer alone has the
    following: the keys of the requested generators (`streams`), the number of operations with a random generator
    (`draws`), the global generators that were used (`moved`), and the forward and backward passes.
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
        message = difference(self.before[part], self.after[part])
        return None if message is None else f"{message} (model {self.case.name})"

    def differs(self, other: Run) -> str | None:
        message = difference(self.after["values"], other.after["values"])
        return None if message is None else f"{message} (model {self.case.name})"


@dataclass(frozen=True)
class Subject:
    """An initializer under test, its test models, and its arguments.

    Its declarations for a smoke run replace arguments that are not given.
    """

    component: Component[InitializerTraits]
    arguments: Mapping[str, Any]
    cases: tuple[Case, ...]

    @classmethod
    def of(cls, initializer: str | Callable[..., Any], arguments: Mapping[str, Any]) -> Subject:
        component = _component(initializer)
        resolved = component.resolve({**component.traits.smoke, **arguments})
        component.build(resolved)
        return cls(component, resolved, cases(component.traits.scheme, component.traits.example))

    @property
    def name(self) -> str:
        return self.component.name

    @property
    def optimizer(self) -> Optimizer:
        """The training's optimizer: the first one that the initializer does not refuse."""
        refuses, known = self.component.traits.refuses, (Optimizer(), Optimizer("adam", 1e-3))
        fits = [one for one in known if refuses is None or refuses(self.arguments, one.name, one.lr) is None]
        return next(iter(fits), known[0])

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
        """The successful attempts; `raises_readable_errors` checks the others."""
        return tuple(run for run in self.attempts if run.error is None)

    @cached_property
    def initialized(self) -> tuple[Run, ...]:
        """A run of `initialize` on each of its models, and on others that it may refuse."""
        models = {case.name: case for case in (*self.cases, *STANDARD, *DEGENERATE)}
        return tuple(map(self.initialize, models.values()))

    def initialize(self, case: Case, value: float | None = None) -> Run:
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
                    training_optimizer=(self.optimizer.name, self.optimizer.lr),
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
        """Run the initializer alone, without the protections of `initialize`.

        The initializers among its arguments have run before, always with one seed, and are not checked. `apply` is the
        factory's result for other arguments; `to` is the dtype or device to which the model is moved.
        """
        model = case.build() if to is None else case.build().to(to)
        for parameter in model.parameters():
            parameter.grad = None  # as in `initialize`
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for argument in self.component.initializer_arguments:
                first: Initializer | None = self.arguments[argument]
                if first is not None:
                    initialize(model, first.name, inputs=case.inputs, **first.arguments)
            run = Run(case, model, {part: of(model) for part, of in PARTS.items()})
            record = InitializationRecord(self.name, self.component.plain(self.arguments), seed=seed)
            context = WatchedContext(
                model,
                record,
                seed,
                inputs=case.inputs,
                outputs=CLASSES,
                given_batches=case.batches(),
                _training_optimizer=self.optimizer,
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
    """Counts a run's operations that receive a random generator."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        self.run.draws += any(isinstance(value, torch.Generator) for value in (*arguments, *options.values()))
        return function(*arguments, **options)


@contextmanager
def _counted_passes(model: nn.Module, passes: dict[str, int]) -> Iterator[None]:
    """Count a model's forward passes, and every call of autograd."""
    run: Any = torch.autograd._engine_run_backward  # type: ignore[attr-defined]  # noqa: SLF001

    def forward(*_: Any) -> None:
        # Finding the structure and checking branches run a sample or two, which is no pass over a batch.
        passes["forward"] += not is_examined()

    def backward(*arguments: Any, **options: Any) -> Any:
        passes["backward"] += not is_examined()
        return run(*arguments, **options)

    handle = model.register_forward_pre_hook(forward)
    try:
        with mock.patch.object(torch.autograd, "_engine_run_backward", backward):
            yield
    finally:
        handle.remove()


def _component(initializer: str | Callable[..., Any]) -> Component[InitializerTraits]:
    """Return the component of a name, of a registered factory, or of an unregistered one."""
    if isinstance(initializer, str):
        return INITIALIZERS.get(initializer)
    names = INITIALIZERS.names()
    for component in map(INITIALIZERS.get, names):
        if component.factory is initializer:
            return component
    name = getattr(initializer, "__name__", type(initializer).__name__)
    if name in names:
        raise InitbenchError(f"{name}: this factory is not registered, but another initializer has its name")
    return Component("initializer", name, initializer, 1, InitializerTraits())
