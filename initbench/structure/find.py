"""The structure of a model: what is known of it from one run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initbench.errors import InitializationError
from initbench.structure.attention import Attention, find_attention
from initbench.structure.example import record_run_on_any_input
from initbench.structure.heads import find_heads
from initbench.structure.layer import Layer, find_layers
from initbench.structure.norms import find_norms
from initbench.structure.positions import find_positions
from initbench.structure.recording import record_run
from initbench.structure.relative_positions import set_aside_relative_positions
from initbench.structure.residual import ResidualBranch, residual_branches
from initbench.structure.scalar_biases import find_scalar_biases
from initbench.structure.summary import summary

if TYPE_CHECKING:
    from torch import nn

    from initbench.structure.run_graph import RunGraph


@dataclass(frozen=True)
class Structure:
    """What is known of a model. Modules and parameters are given by their names; ``print`` shows a summary.

    Attributes:
        layers: those that ran, in the order in which they ran first.
        branches: the residual branches in the order in which they are added.
        heads: the weight layers that give the output: a classifier, the head of a language model, or several.
        attention: the attentions in the order in which they run.
        norms: the normalizations in the order in which they run.
        scalar_biases: the parameters of one number that are added to a signal, as in Fixup's networks.
        positions: the parameters with embeddings of positions, which are added to what residual branches start from;
            those that are looked up are among `embeddings`.
        tied: the names of each parameter that has several.
        unused: the parameters that the run did not read.
        unknown: what cannot be told, with the reason: ``layers``, ``branches``, ``heads`` or ``attention``. What is
            found is so all the same, but it may not be all.
    """

    layers: tuple[Layer, ...]
    branches: tuple[ResidualBranch, ...]
    heads: tuple[str, ...]
    attention: tuple[Attention, ...]
    norms: tuple[str, ...]
    scalar_biases: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
    tied: tuple[tuple[str, ...], ...] = ()
    unused: tuple[str, ...] = ()
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """The number of weight layers on the longest way from an input, embeddings aside."""
        return max((layer.depth for layer in self.layers), default=0)

    @property
    def embeddings(self) -> tuple[str, ...]:
        """The layers that are embeddings."""
        return tuple(layer.name for layer in self.layers if layer.kind == "embedding")

    def __str__(self) -> str:
        return summary(self)


def find_structure(model: nn.Module, inputs: Any = None) -> Structure:
    """Run a model once, in eval mode and without gradients, and return its structure.

    The structure is that of this run: layers that other inputs, or training, would use are not in it. On the meta
    device, model and inputs there, nothing is computed. A model whose author knows better has a method
    ``initbench_structure``, which is given what was found and returns what is so (`dataclasses.replace` changes parts).

    Args:
        model: any module. It is left as it was: values, modes, buffers, attributes and random states.
        inputs: an example batch, of which one sample is enough: a tensor, a tuple of positional arguments, or a
            dictionary of arguments by name. None for zeros of a shape that the first layer takes, see
            `record_run_on_any_input`.

    Raises:
        InitializationError: the model fails on the inputs, or states what it has not.
    """
    graph = record_run_on_any_input(model) if inputs is None else record_run(model, inputs)
    found = structure_of(graph, model)
    state = getattr(model, "initbench_structure", None)
    return found if state is None else _checked(state(found), model)


def structure_of(graph: RunGraph, model: nn.Module) -> Structure:
    """Return the structure of a model, given the graph of its run."""
    set_aside_relative_positions(graph)
    norms = find_norms(graph, model)
    branches = residual_branches(graph, frozenset(norms))
    heads, no_heads = find_heads(graph, branches.shortcuts)
    attention, other_attention = find_attention(graph, branches.shortcuts)
    unknown = {"heads": no_heads, "attention": other_attention}
    if graph.unseen:
        module, parameters = next(iter(graph.unseen.items()))
        reason = f"code that does not show itself runs in {module or 'the model'}, which has {parameters[0]}"
        unknown = dict.fromkeys(("layers", "branches", "heads", "attention"), reason)
    return Structure(
        tuple(find_layers(graph)),
        tuple(branches.branches),
        heads,
        tuple(attention),
        tuple(norms),
        tuple(find_scalar_biases(graph)),
        find_positions(graph, model, branches.shortcuts),
        _tied(model),
        graph.unused,
        {what: reason for what, reason in unknown.items() if reason is not None},
    )


def _checked(stated: Any, model: nn.Module) -> Structure:
    """Return a structure that a model states, after a look whether it has what is named there."""
    kind = type(model).__name__
    if not isinstance(stated, Structure):
        raise InitializationError(f"{kind}.initbench_structure returned {type(stated).__name__}, not a Structure")
    there = {name for name, _ in [*model.named_modules(), *model.named_parameters(remove_duplicate=False)]}
    parts = [(branch.inner, branch.ends, branch.gates, branch.shortcut) for branch in stated.branches]
    names = {layer.weight for layer in stated.layers} | {name for part in parts for few in part for name in few}
    absent = sorted((names | set(stated.heads)) - there)
    if absent:
        raise InitializationError(f"{kind}.initbench_structure names {absent[0]}, which {kind} has not")
    return stated


def _tied(model: nn.Module) -> tuple[tuple[str, ...], ...]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(several) for several in names.values() if len(several) > 1)
