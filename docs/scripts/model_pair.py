"""One initializer on one model: is the model set, does it then train, or is there a reason why not?"""

from __future__ import annotations

import signal
import time
import warnings
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from small_model import STANDARD
from torch import nn
from torch.nn.functional import cross_entropy

import initbench
from initbench.errors import InitbenchError
from initbench.initializers.record import changes
from initbench.registry import INITIALIZERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from small_model import Model
    from torch import Tensor

    from initbench.initializers.record import InitializationRecord

STEPS, RATE = 20, 1e-3
SECONDS = 90
SMALLER = 0.1
"""Of two factors that are 0 none has a gradient at any scale; what is behind a saturated softmax has one at this."""
AS_BUILT = "as built"
"""The method that is none: the model as its library draws it."""

NO_GRADIENT = "the loss does not use it"
ZERO_GRADIENT = "its gradient is 0 in all steps"
TINY_GRADIENT = "its gradient is too small to move it"

LEFT_OUT = {"completep", "mup"}
"""Initializers that are relative to a smaller network."""
_LAYERS = (nn.Linear, nn.modules.conv._ConvNd, nn.Embedding, nn.MultiheadAttention)  # noqa: SLF001  # has no other name
_WEIGHTS = ("weight", "in_proj_weight", "original1", "weight_v")


@dataclass(frozen=True)
class Method:
    """An initializer and the scheme that a model is rewritten to before, ``standard`` for none."""

    initializer: str
    scheme: str

    def __str__(self) -> str:
        own = self.initializer != AS_BUILT and INITIALIZERS.get(self.initializer).traits.scheme == self.scheme
        return self.initializer if own or self.scheme == STANDARD else f"{self.initializer} on {self.scheme}"


@dataclass
class Outcome:
    """What came of a method on a model.

    Attributes:
        kind: ``trains``, ``refused`` with a reason, ``silent`` where a tensor or a weight is lost without a word,
            ``fails`` with what is no reason, ``diverges``, ``saturates`` where a part has no gradient because of the
            weights' scale, or ``slow``.
        reason: why it does not train.
        unmoved: the tensors that 20 steps did not move, and why.
        passed_over: the weights of layers that were not set, and why.
        seconds: of it all.
    """

    kind: str
    reason: str = ""
    unmoved: dict[str, str] = field(default_factory=dict)
    passed_over: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return asdict(self)


def methods(schemes: list[str]) -> list[Method]:
    """Return each initializer of the page on its own scheme, and kaiming on every scheme."""
    names = [name for name in INITIALIZERS.names() if name not in LEFT_OUT]
    on_own_scheme = [Method(name, INITIALIZERS.get(name).traits.scheme or STANDARD) for name in names]
    return on_own_scheme + [Method("kaiming", scheme) for scheme in schemes]


def outcome(model: Model, method: Method, stuck_as_built: set[str]) -> Outcome:
    """Rewrite, initialize and train a model.

    Args:
        model: of the page.
        method: what is tried.
        stuck_as_built: the tensors, by `plain_name`, that do not move in the model as its library built it.
    """
    start = time.perf_counter()
    try:
        with _time_limit(SECONDS):
            result = _outcome(model, method, stuck_as_built)
    except TimeoutError:
        result = Outcome("slow", f"it takes more than {SECONDS} s")
    except Exception as error:  # noqa: BLE001  # it is what the page is to show
        result = Outcome("fails", f"{type(error).__name__}: {error}".partition("\n")[0])
    result.seconds = round(time.perf_counter() - start, 2)
    return result


def _outcome(model: Model, method: Method, stuck_as_built: set[str]) -> Outcome:
    inputs, _ = model.batch(torch.Generator().manual_seed(0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            network = _rewritten(model, method.scheme, inputs)
            record = None if method.initializer == AS_BUILT else _initialized(network, method, model, inputs)
        except (InitbenchError, ValueError) as error:
            return Outcome("refused", " ".join(str(error).split()))
    if not all(torch.isfinite(parameter).all() for parameter in network.parameters()):
        return Outcome("silent", "a parameter is not finite")
    passed_over = {} if record is None else _passed_over(network, record, " ".join(str(w.message) for w in caught))
    start = deepcopy(network.state_dict())
    unmoved, stop = _trained(network, model, record)
    if stop is not None:
        return Outcome("diverges", stop, unmoved, passed_over)
    unsaid = [name for name, reason in passed_over.items() if not reason]
    if unsaid:
        return Outcome("silent", f"{len(unsaid)} weights are not set, and it is not said", unmoved, passed_over)
    stuck = {name for name in unmoved if plain_name(name) not in stuck_as_built}
    if method.initializer == AS_BUILT or not stuck:
        return Outcome("trains", "", unmoved, passed_over)
    number = f"{len(stuck)} of {len(list(network.parameters()))} tensors"
    network.load_state_dict(start)
    if stuck.isdisjoint(_trained(network, model, record, scale=SMALLER)[0]):
        reason = f"{number} have no gradient, and have one if weights are {SMALLER} times as large"
        return Outcome("saturates", reason, unmoved, passed_over)
    return Outcome("silent", f"{number} do not move", unmoved, passed_over)


def plain_name(name: str) -> str:
    """Return the name that a parameter of a rewritten model had before."""
    parts = [part for part in name.split(".") if part not in {"branch", "layer", "parametrizations"}]
    if parts[-1] in {"original0", "original1"}:
        parts.pop()
    return ".".join(parts)


def _rewritten(model: Model, scheme: str, inputs: Tensor) -> nn.Module:
    if scheme == STANDARD:
        return model.built()
    # The version before this page had this scheme as a function of its own.
    if scheme == "channel_bias" and not _is_registered(scheme):
        return initbench.remove_normalization(model.built())
    if model.own is not None:
        return model.own(scheme).train()
    return initbench.rewrite(model.built(), scheme, inputs=inputs)


def _is_registered(scheme: str) -> bool:
    from initbench import registry

    return hasattr(registry, "SCHEMES") and scheme in registry.SCHEMES.names()


def _initialized(network: nn.Module, method: Method, model: Model, inputs: Tensor) -> InitializationRecord:
    component = INITIALIZERS.get(method.initializer)
    arguments = dict(component.traits.smoke)
    if any(argument.name == "data" for argument in component.arguments):
        arguments["data"] = "random"
    return initbench.initialize(
        network, method.initializer, inputs=inputs, num_classes=model.outputs, task=model.task, **arguments
    )


def _passed_over(network: nn.Module, record: InitializationRecord, warned: str) -> dict[str, str]:
    """Return the weights of layers that were not set, with what record or warnings say of it, "" for nothing.

    Beside what the record says itself, these are looked for here: by kinds of modules, without the model's structure.
    """
    coverage = getattr(record, "coverage", None)
    said = {} if coverage is None else dict(coverage.passed_over)
    passed_over = dict(said)
    for name, parameter in network.named_parameters():
        events = record.tensors[name]
        if not _is_weight(network, name, parameter) or any(map(changes, events)):
            continue
        gain = name.removesuffix("1") + "0" if name.endswith("original1") else ""
        if any(map(changes, record.tensors.get(gain, []))):  # of g·v/‖v‖
            continue
        reason = next((event["reason"] for event in events if event.get("reason")), "")
        passed_over[name] = said.get(name) or str(reason) or ("a warning names it" if name in warned else "")
    return passed_over


def _is_weight(network: nn.Module, name: str, parameter: nn.Parameter) -> bool:
    module, _, own = name.partition(".parametrizations.")[0].rpartition(".")
    if ".parametrizations." in name:
        module, own = name.partition(".parametrizations.")[0], name.rpartition(".")[2]
    layer = network.get_submodule(module)
    of_layer = isinstance(layer, _LAYERS) or type(layer).__name__ == "Conv1D"  # that of transformers
    return parameter.requires_grad and parameter.dim() > 1 and own in _WEIGHTS and of_layer


def _trained(
    network: nn.Module, model: Model, record: InitializationRecord | None, scale: float = 1.0
) -> tuple[dict[str, str], str | None]:
    """Train a model; return the tensors that did not move, and why training stopped, None where it did not.

    Args:
        network: is trained.
        model: gives the batches.
        record: gives the groups of parameters.
        scale: by which weights are multiplied before.
    """
    network.train()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale if parameter.dim() > 1 else 1.0)
    trainable = {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}
    before = {name: parameter.detach().clone() for name, parameter in trainable.items()}
    groups = [{"params": list(trainable.values())}] if record is None else record.parameter_groups(RATE)
    # Gates all but close some branches, whose gradients are then far below the usual ε.
    optimizer = torch.optim.Adam(groups, lr=RATE, eps=1e-20, fused=True)
    reasons = dict.fromkeys(trainable, NO_GRADIENT)
    generator = torch.Generator().manual_seed(1)
    stop = None
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for step in range(1, STEPS + 1):
            inputs, targets = model.batch(generator)
            output = network(inputs)
            logits = getattr(output, "logits", output)
            loss = cross_entropy(logits.flatten(0, -2), targets.flatten())
            if not torch.isfinite(loss):
                stop = f"the loss is not finite at step {step}"
                break
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            for name, parameter in trainable.items():
                if parameter.grad is None or reasons[name] == TINY_GRADIENT:
                    continue
                reasons[name] = TINY_GRADIENT if parameter.grad.any() else ZERO_GRADIENT
            optimizer.step()
    unmoved = {name: reasons[name] for name, value in before.items() if torch.equal(trainable[name], value)}
    return unmoved, stop


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError after some seconds, in the main thread."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
