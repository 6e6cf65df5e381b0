"""Tracing the forward pass of any model with `torch.fx`, as far as its weight layers are concerned."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import fx, nn

from initbench.architectures.layers import WEIGHT_LAYERS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Trace(fx.Tracer):
    """The graph of a model's forward pass, in which a module without weight layers within is one node.

    Such modules may do what a trace does not follow, such as to depend on whether the model is in training mode.

    Args:
        model: any module. It is left as it is.

    Attributes:
        graph: the graph.
        modules: the model's modules by name.
        returned: the names of the modules that gave a node as their result, inner ones first.
        calls: how often a module is called.
        inside: the name of the module in whose forward pass a node was made.

    Raises:
        ValueError: the forward pass cannot be traced, for example because it depends on the values of its input.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.returned: dict[fx.Node, list[str]] = {}
        self.calls: dict[str, int] = {}
        self.inside: dict[fx.Node, str] = {}
        self._stack = [""]
        with _attributes_kept(model):
            try:
                self.graph = self.trace(model, _defaults(model))
            except Exception as error:  # a model's code may raise anything when it is given no tensors
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                raise ValueError(f"{type(model).__name__} cannot be traced ({reason})") from error

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002  # of the base class
        """Return whether the module is one node of the graph."""
        if isinstance(m, nn.Sequential):
            return False  # it only calls its parts, one of which may be a multiplier
        return isinstance(m, WEIGHT_LAYERS) or not any(isinstance(part, WEIGHT_LAYERS) for part in m.modules())

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Note which module gave a node, inner modules first."""
        name = self.path_of_module(m)
        self.calls[name] = self.calls.get(name, 0) + 1
        self._stack.append(name)
        result = super().call_module(m, forward, args, kwargs)
        self._stack.pop()
        if isinstance(result, fx.Proxy):
            self.returned.setdefault(result.node, []).append(name)
        return result

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """Note in which module's forward pass a node was made."""
        node = super().create_node(*args, **kwargs)
        self.inside[node] = self._stack[-1]
        return node


def _defaults(model: nn.Module) -> dict[str, Any]:
    """Return the arguments of the forward pass that have a default, such as a mask of None: they are left out."""
    parameters = inspect.signature(model.forward).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.default is not parameter.empty}


@contextmanager
def _attributes_kept(model: nn.Module) -> Iterator[None]:
    """Undo what a forward pass keeps on its modules: it would be symbols of the trace."""
    before = [(module, dict(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes in before:
            vars(module).clear()
            vars(module).update(attributes)
