"""Run a model once to record which tensor is computed from which, and leave it as it was.

A `TorchFunctionMode` sees every call of a torch function, and module calls show which module is running. So models can
be read that `torch.fx` cannot trace because they depend on values or return objects. Results that neither sees (from
TorchScript or other libraries) are taken to depend on all inputs of the innermost running module.
"""

from __future__ import annotations

import random
import weakref
from collections import deque
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from initbench.models.calls import running_on, tensor_of
from initbench.models.state import forked_rng, preserved
from initbench.structure.functions import FACTORIES, ArgumentKey, name_of, writes
from initbench.structure.layer import Weights
from initbench.structure.run_graph import Node, Return, RunGraph, tensors_in, tensors_with_paths

HOOKS = frozenset(vars(nn.Module())) - {"_parameters", "_buffers", "_modules"}
"""Attributes of every module that a forward pass does not change, such as its hooks."""
_examined: ContextVar[bool] = ContextVar("examined", default=False)


@contextmanager
def kept(model: nn.Module) -> Iterator[None]:
    """Undo at the end, even after an exception, everything that a run may change except the parameters' values.

    This is what `preserved` restores, the modules' attributes (including the contents of lists and dictionaries), and
    the random states of PyTorch, Python and NumPy. PyTorch's is seeded inside, so that the results are reproducible.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  # the state that models share
    with ExitStack() as stack:
        token = _examined.set(True)
        stack.callback(_examined.reset, token)
        stack.enter_context(forked_rng(model, 0, "structure"))
        stack.callback(_Attributes(model).restore)  # after the modes, which `train` may set together with attributes
        stack.enter_context(preserved(model))
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


class _Attributes:
    """The attributes of a model's modules, and their contents if these can change in place."""

    def __init__(self, model: nn.Module) -> None:
        self._contents: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[Tensor, Tensor]] = []
        self._seen = {id(tensor) for tensor in [*model.parameters(), *model.buffers()]}
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for module in model.modules():
            attributes = {name: value for name, value in vars(module).items() if name not in HOOKS}
            self._attributes.append((vars(module), attributes))
            for value in attributes.values():
                self._note(value)

    def _note(self, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if torch.is_tensor(value):
            self._tensors.append((value, value.detach().clone()))
        elif isinstance(value, dict):
            self._contents.append((value, dict(value)))
            for part in value.values():
                self._note(part)
        elif isinstance(value, list | deque | set):
            self._contents.append((value, list(value)))
            for part in list(value):
                self._note(part)
        elif isinstance(value, tuple):
            for part in value:
                self._note(part)

    def restore(self) -> None:
        for attributes, before in self._attributes:
            for name in [name for name in attributes if name not in before and name not in HOOKS]:
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name, self) is not value:
                    attributes[name] = value
        for container, before in self._contents:
            if isinstance(container, dict):
                if [*map(id, container.values())] != [*map(id, before.values())] or list(container) != list(before):
                    container.clear()
                    container.update(before)
            elif [*map(id, container)] != [*map(id, before)]:
                container.clear()
                (container.update if isinstance(container, set) else container.extend)(before)
        with torch.no_grad():
            for tensor, values in self._tensors:
                tensor.copy_(values)


def record_run(model: nn.Module, inputs: Any) -> RunGraph:
    """Run a model once, in eval mode and without gradients, and return the graph of its computations.

    A batch of one sample is enough: a tensor, a tuple of positional arguments, or a dictionary of keyword arguments. If
    model and inputs are on the meta device, nothing is computed. Model and inputs are left as they were. A model that
    fails on the inputs raises an InitializationError.
    """
    arguments, named = copied_arguments(inputs)
    recorder = _Recorder(model)
    # In inference mode tensors do not count writes.
    with torch.inference_mode(False), kept(model), recorder.parameters_kept(), recorder.calls_seen(), torch.no_grad():
        model.eval()
        recorder.start((arguments, named))
        with running_on(*tensors_in((arguments, named))), recorder:
            output = model(*arguments, **named)
        return recorder.finish(output)


def is_examined() -> bool:
    """Return whether a model runs only to be looked at, see `kept`; such runs are no passes over a batch."""
    return _examined.get()


def copied_arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a model's positional and keyword arguments, see `record_run`, with copies of all tensors."""
    arguments = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    return _copied(arguments), _copied(inputs if isinstance(inputs, dict) else {})


def _copied(value: Any) -> Any:
    """Return an argument with copies of its tensors, because a model may write into them."""
    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(_copied(part) for part in value)
    return {key: _copied(part) for key, part in value.items()} if isinstance(value, dict) else value


class _Recorder(TorchFunctionMode):
    """Builds the graph of a run while the model runs within it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model, self._weights = model, Weights(model)
        self._graph = RunGraph()
        self._stack: list[tuple[str, list[Tensor]]] = []
        # The nodes of all living tensors; a recording must not keep tensors that the model releases.
        self._given: MutableMapping[Tensor, Node] = WeakIdKeyDictionary()
        self._sharing: dict[int, list[weakref.ref[Tensor]]] = {}  # the tensors in each storage
        self._inputs: list[Tensor] = []
        self._there = _tensors_of(model)
        self._memory = {key: p for p in model.parameters() if (key := _memory(p)) is not None}
        self._before: list[tuple[Tensor, Tensor]] = []
        self._read: set[str] = set()
        self._unseen_in: dict[str, None] = {}

    def start(self, inputs: Any) -> None:
        self._inputs = tensors_in(inputs)
        for tensor in self._inputs:
            self._give(tensor, self._node("input", {}, from_input=True, dims=tuple(tensor.shape)))

    def finish(self, output: Any) -> RunGraph:
        graph = self._graph
        self._stack.append(("", self._inputs))
        graph.outputs = [self._giver(tensor) for tensor in tensors_in(tensor_of(output))]
        graph.unused = tuple(names[0] for names in self._weights.names.values() if names[0] not in self._read)
        # A parameter may be read by code that the recorder does not see.
        users = [node for node in graph.nodes if node.from_input or node.layers]
        seen = {name for node in users for source in node.sources for name in source.parameters}
        for module in self._unseen_in:
            within = f"{module}." if module else ""
            names = [every[0] for every in self._weights.names.values()]
            hidden = [n for n in names if n.startswith(within) and n not in seen and self._weights.is_matrix(n)]
            if hidden:
                graph.unseen[module] = tuple(hidden)
        return graph

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = list(tensors_with_paths(args)) + list(tensors_with_paths(kwargs))
        versions = [_version(tensor) for _, tensor in tensors]
        if tensors and (writes(func) or "out" in kwargs):
            self._keep_parameter(tensors_in(kwargs.get("out", tensors[0][1])))
        result = func(*args, **kwargs)
        written = [t for (_, t), version in zip(tensors, versions, strict=True) if _version(t) != version]
        there = {id(tensor) for _, tensor in tensors} - {id(tensor) for tensor in written}
        new = [tensor for tensor in tensors_in(result) if id(tensor) not in there]
        if new or written:
            arguments = {_argument_key(path): self._giver(tensor) for path, tensor in tensors}
            equation = args[0] if args and isinstance(args[0], str) else None
            self._note(name_of(func), arguments, new, written, equation)
        return result

    def _note(
        self,
        function: str,
        arguments: dict[ArgumentKey, Node],
        new: list[Tensor],
        written: list[Tensor],
        equation: str | None,
    ) -> None:
        results = list({id(tensor): tensor for tensor in [*new, *written]}.values())
        stack = [name for name, _ in self._stack]
        node = self._node(
            function,
            arguments,
            from_input=function not in FACTORIES and any(source.from_input for source in arguments.values()),
            layers=self._weights.used(function, arguments, stack, equation),
            results=len(new),
            dims=tuple(results[0].shape),
        )
        self._read.update(name for use in arguments.values() for name in use.parameters)
        if not node.from_input and not node.layers:
            node.parameters = tuple(dict.fromkeys(name for use in arguments.values() for name in use.parameters))
        for tensor in written:
            for shared in self._sharing.get(_memory(tensor) or 0, []):
                other = shared()
                if other is not None and other is not tensor:
                    self._give(other, self._item({0: self._given[other], 1: node}, other))
        for tensor in results:
            self._give(tensor, node if len(results) == 1 else self._item({0: node}, tensor))

    def _item(self, arguments: dict[ArgumentKey, Node], tensor: Tensor) -> Node:
        given = any(source.from_input for source in arguments.values())
        item = self._node("item", arguments, from_input=given, dims=tuple(tensor.shape))
        if not given:
            item.parameters = tuple(dict.fromkeys(n for source in arguments.values() for n in source.parameters))
        return item

    def _node(self, function: str, arguments: dict[ArgumentKey, Node], **attributes: Any) -> Node:
        module = self._stack[-1][0] if self._stack else ""
        self._graph.nodes.append(Node(len(self._graph.nodes), function, module, arguments, **attributes))
        return self._graph.nodes[-1]

    def _give(self, tensor: Tensor, node: Node) -> None:
        if tensor not in self._given:
            memory = _memory(tensor) or 0
            alive = [other for other in self._sharing.get(memory, []) if other() is not None]
            self._sharing[memory] = [*alive, weakref.ref(tensor)] if memory else []
        self._given[tensor] = node

    def _giver(self, tensor: Tensor) -> Node:
        known = self._given.get(tensor)
        if known is not None:
            return known
        names = self._weights.names.get(id(tensor))
        if names:
            node = self._node("parameter", {}, parameters=(names[0],), dims=tuple(tensor.shape))
        elif id(tensor) in self._there:
            node = self._node("constant", {}, dims=tuple(tensor.shape))
        else:
            module, inputs = next(((m, i) for m, i in reversed(self._stack) if i), ("", []))
            sources: dict[ArgumentKey, Node] = {index: self._giver(source) for index, source in enumerate(inputs)}
            given = any(source.from_input for source in sources.values())
            node = self._node("unseen", sources, from_input=given, dims=tuple(tensor.shape))
            self._unseen_in[module] = None
        self._give(tensor, node)
        return node

    @contextmanager
    def calls_seen(self) -> Iterator[None]:
        """Note which modules run, and their results.

        The class's method is replaced, as in `torch.fx`: hooks on 100,000 modules would take gigabytes.
        """
        names = {id(module): name for name, module in self._model.named_modules()}
        call = nn.Module.__call__

        def seen(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            name = names.get(id(module))
            if name is None:
                return call(module, *args, **kwargs)
            with torch._C.DisableTorchFunction():  # noqa: SLF001  # the recorder's own work is not part of the run
                self._stack.append((name, tensors_in((args, kwargs))))
            self._graph.calls[name] = self._graph.calls.get(name, 0) + 1
            try:
                output = call(module, *args, **kwargs)
                with torch._C.DisableTorchFunction():  # noqa: SLF001  # as above
                    self._returned(name, module, output)
            finally:
                self._stack.pop()
            return output

        with mock.patch.object(nn.Module, "__call__", seen):
            yield

    def _returned(self, name: str, module: nn.Module, output: Any) -> None:
        given = [self._giver(tensor) for tensor in tensors_in(output)]
        if torch.is_tensor(output):
            passed = not any(module.children()) and any(tensor is output for tensor in self._stack[-1][1])
            self._graph.returned.setdefault(given[0], []).append(Return(name, len(self._graph.nodes), passed))

    @contextmanager
    def parameters_kept(self) -> Iterator[None]:
        """Undo the run's writes into parameters."""
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, before in reversed(self._before):
                    parameter.data.copy_(before)

    def _keep_parameter(self, targets: list[Tensor]) -> None:
        for target in targets:
            parameter = self._memory.pop(_memory(target) or 0, None)
            if parameter is not None:
                self._before.append((parameter, parameter.detach().clone()))


def _tensors_of(model: nn.Module) -> dict[int, Tensor]:
    attributes = [value for module in model.modules() for name, value in vars(module).items() if name not in HOOKS]
    held = tensors_in(attributes)
    return {id(tensor): tensor for tensor in [*model.buffers(), *held]}


def _argument_key(path: tuple[int | str, ...]) -> ArgumentKey:
    return path[0] if len(path) == 1 else path


def _version(tensor: Tensor) -> int:
    """Return how often a tensor was written into, 0 if it does not count."""
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001  # there is no public name


def _memory(tensor: Tensor) -> int | None:
    """Return an id of the tensor's storage, or None if it has no storage of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)  # noqa: SLF001  # addresses are 0 on the meta device
    except (NotImplementedError, RuntimeError):
        return None
