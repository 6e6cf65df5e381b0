"""The structure of a model, found by running it once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.errors import InitializationError
from initbench.structure.attention import Attention, find_attention
from initbench.structure.functions import ADDITIONS, DEVIATIONS, NORMS
from initbench.structure.kinds import NORM_LAYERS, is_weight_layer
from initbench.structure.layer import Layer, find_layers, layer_of
from initbench.structure.positions import find_positions, set_aside_relative_positions
from initbench.structure.recording import record_run
from initbench.structure.residual import ResidualBranch, residual_branches
from initbench.structure.run_graph import Node, RunGraph, walk

_SIDES = (32, 224)
_TOKENS = 2


def record_run_on_any_input(model: nn.Module) -> RunGraph:
    """Run a model on zeros of a shape that its first layer accepts; see `record_run`.

    The zeros are tokens if there are embeddings, a vector for a linear layer, and for a convolution an image, signal or
    volume with sides of 32, then of 224. Only layers that run are found; a model that needs other inputs, or has no
    such layer, raises an InitializationError.
    """
    return run_on_any_input(model)[1]


def run_on_any_input(model: nn.Module) -> tuple[Tensor, RunGraph]:
    """Return the zeros that a model accepts, and the graph of its run; see `record_run_on_any_input`."""
    tried, last = [], ""
    for inputs in _candidates(model):
        try:
            return inputs, record_run(model, inputs)
        except InitializationError as error:
            tried.append("×".join(map(str, inputs.shape[1:])))
            last = str(error)
    failed = "it has no layer that shows its inputs"
    if tried:
        failed = f"it does not run on inputs of {' or '.join(tried)} ({last})"
    raise InitializationError(f"give inputs or input_shape, because the model has to run once: {failed}")


def _candidates(model: nn.Module) -> Iterator[Tensor]:
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    layers = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag | nn.Linear | _ConvNd)]
    if any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in layers):
        yield torch.zeros(1, _TOKENS, dtype=torch.int64, device=like.device)
    first = next((layer for layer in layers if isinstance(layer, nn.Linear | _ConvNd)), None)
    if isinstance(first, nn.Linear):
        yield torch.zeros(1, first.in_features, dtype=like.dtype, device=like.device)
    elif first is not None:
        for side in _SIDES:
            sides = [side] * len(first.kernel_size)
            yield torch.zeros(1, first.in_channels, *sides, dtype=like.dtype, device=like.device)


def find_heads(graph: RunGraph, shortcuts: Mapping[Node, Node]) -> tuple[tuple[str, ...], str | None]:
    """Return the weight layers after the last branch whose results reach the output without another weight layer.

    They are in the order in which they run; if there are none, the second value is the reason.
    """
    reached = list(walk(graph.outputs, lambda node: [] if node in shortcuts or node.steps else node.signals))
    sums = [node for node in reached if node in shortcuts]
    heads = [node for node in reached if node.steps and node not in shortcuts]
    names = [name for node in sorted(heads, key=lambda node: node.index) for name in node.last_layers]
    if names:
        return tuple(dict.fromkeys(names)), None
    if sums:
        block = sums[0].module or "the model itself"
        return (), f"no weight layer is between the last residual branch, of {block}, and the output"
    return (), "no weight layer gives the output" if graph.outputs else "the model returns no tensor"


def find_norms(graph: RunGraph, model: nn.Module) -> list[str]:
    """Return the normalizations of values that depend on the input, in the order in which they run.

    A normalization is a module that runs torch's function for it, or a module with its own parameters and without
    weight layers that divides by a deviation or root mean square. If it has no module of its own, it is named after its
    weight.
    """
    modules = dict(model.named_modules())
    norms: dict[str, None] = {}
    for node in graph.nodes:
        if not node.from_input:
            continue
        module = modules[node.module]
        if node.function in NORMS:
            parameters = [name for source in node.sources for name in source.parameters]
            alone = isinstance(module, NORM_LAYERS) or not _holds_layers(module)
            norms[node.module if alone or not parameters else layer_of(parameters[0])] = None
        elif node.function in DEVIATIONS and not _holds_layers(module) and any(True for _ in module.parameters()):
            norms[node.module] = None
    return list(norms)


def _holds_layers(module: nn.Module) -> bool:
    return any(map(is_weight_layer, module.modules()))


def find_scalar_biases(graph: RunGraph) -> list[str]:
    """Return the parameters with one number that are added to values that depend on the input, in the order of use.

    They may have a module of their own or be beside weight layers. The shift in a custom activation, such as StarReLU
    (Yu et al., MetaFormer Baselines for Vision, 2023), does not count: its module contains no weight layer and does
    more than add.
    """
    steps = Counter(node.module for node in graph.nodes if node.from_input)
    holders = {around for node in graph.nodes if node.layers for around in _around(node.module)}
    biases: dict[str, None] = {}
    for node in graph.nodes:
        if node.function not in ADDITIONS or not node.from_input:
            continue
        adds_alone = steps[node.module] <= graph.calls[node.module]
        for added in node.at((0, 1, "input", "other")):
            is_scalar = len(added.parameters) == 1 and math.prod(added.dims) == 1
            if is_scalar and (adds_alone or node.module in holders):
                biases[added.parameters[0]] = None
    return list(biases)


def _around(module: str) -> Iterator[str]:
    """Yield the names of a module and of all modules around it, up to the model."""
    while module:
        yield module
        module = module.rpartition(".")[0]
    yield module


_SHOWN = 2


def summary(structure: Structure) -> str:
    kinds = Counter(layer.kind for layer in structure.layers)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    lines = [f"layers: {len(structure.layers)} ({counts}), at most {structure.depth} one after another"]
    branches = [
        f"{branch.block or 'the model'} ({' → '.join(', '.join(part) for part in (branch.inner, branch.ends) if part)}"
        f"{f'; gate {branch.gates[0]}' if branch.gates else ''})"
        for branch in structure.branches
    ]
    lines.append(_line("residual branches", branches))
    lines.append(_line("heads", structure.heads))
    if structure.attention:
        lines.append(_line("attention", [one.module for one in structure.attention]))
    lines.append(_line("norms", structure.norms))
    if structure.positions:
        lines.append(_line("positions", structure.positions))
    if structure.scalar_biases:
        lines.append(_line("scalar biases", structure.scalar_biases))
    lines += [f"tied: {' = '.join(names)}" for names in structure.tied[:_SHOWN]]
    if structure.unused:
        lines.append(_line("not used", structure.unused))
    lines += [f"unknown: {what}: {reason}" for what, reason in structure.unknown.items()]
    return "\n".join(lines)


def _line(what: str, items: Iterable[str]) -> str:
    names = list(items)
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    return f"{what}: {len(names)}{f' ({shown})' if names else ''}"


@dataclass(frozen=True)
class Structure:
    """The structure of a model. Modules and parameters are given by name; ``print`` shows a summary.

    Attributes:
        layers: the layers that ran, in the order of their first run.
        branches: the residual branches in the order in which they are added.
        heads: the weight layers that produce the output: a classifier, the head of a language model, or several.
        attention: the attentions in the order in which they run.
        norms: the normalizations in the order in which they run.
        scalar_biases: the parameters with a single number that are added to a signal, as in Fixup's networks.
        positions: the parameters with position embeddings, which are added before the residual branches; positions that
            are looked up are in `embeddings`.
        tied: the names of each parameter that has several.
        unused: the parameters that the run did not read.
        unknown: ``layers``, ``branches``, ``heads`` or ``attention`` → the reason, if they cannot be determined. The
            layers and branches found are correct even then, but some may be missing.
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
        """The number of weight layers on the longest path from an input, not counting embeddings."""
        return max((layer.depth for layer in self.layers), default=0)

    @property
    def embeddings(self) -> tuple[str, ...]:
        """The layers that are embeddings."""
        return tuple(layer.name for layer in self.layers if layer.kind == "embedding")

    def unused_in_blocks(self, model: nn.Module) -> str | None:
        """Return a weight layer in a residual block that the run did not use, as most experts of a mixture; else None.

        Its role is unknown.
        """
        blocks = tuple(f"{branch.block}." for branch in self.branches if branch.block)
        modules = (name.rpartition(".")[0] for name in self.unused if name.startswith(blocks))
        return next((name for name in modules if is_weight_layer(model.get_submodule(name))), None)

    def __str__(self) -> str:
        return summary(self)


def find_structure(model: nn.Module, inputs: Any = None) -> Structure:
    """Run a model once, in eval mode and without gradients, and return its structure.

    The structure describes this run; it lacks layers that only other inputs, or training, would use. If model and
    inputs are on the meta device, nothing is computed. A model can correct the result with a method
    ``initbench_structure``, which receives the structure that was found and returns the right one
    (`dataclasses.replace` changes parts).

    Args:
        model: any module. Values, modes, buffers, attributes and random states are left unchanged.
        inputs: an example batch, for which one sample is enough: a tensor, a tuple of positional arguments, or a
            dictionary of keyword arguments. None for zeros of a shape that the first layer accepts, see
            `record_run_on_any_input`.

    Raises:
        InitializationError: the model fails on the inputs, or its method names parts that do not exist.
    """
    graph = record_run_on_any_input(model) if inputs is None else record_run(model, inputs)
    structure = structure_of(graph, model)
    state = getattr(model, "initbench_structure", None)
    return structure if state is None else _checked(state(structure), model)


def unused_in_words(layer: str) -> str:
    return (
        f"one sample does not use {layer}, which is in a residual block, so its role is unknown; the model can state "
        "its structure with a method initbench_structure"
    )


def structure_of(graph: RunGraph, model: nn.Module) -> Structure:
    set_aside_relative_positions(graph)
    norms = find_norms(graph, model)
    branches = residual_branches(graph, frozenset(norms))
    heads, no_heads = find_heads(graph, branches.shortcuts)
    attention, other_attention = find_attention(graph, branches.shortcuts)
    unknown = {"heads": no_heads, "attention": other_attention}
    if graph.unseen:
        module, parameters = next(iter(graph.unseen.items()))
        reason = f"code that the recorder cannot see runs in {module or 'the model'}, which has {parameters[0]}"
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
    kind = type(model).__name__
    if not isinstance(stated, Structure):
        raise InitializationError(f"{kind}.initbench_structure returned {type(stated).__name__}, not a Structure")
    there = {name for name, _ in [*model.named_modules(), *model.named_parameters(remove_duplicate=False)]}
    parts = [(branch.inner, branch.ends, branch.gates, branch.shortcut) for branch in stated.branches]
    names = {layer.weight for layer in stated.layers} | {name for part in parts for few in part for name in few}
    absent = sorted((names | set(stated.heads)) - there)
    if absent:
        raise InitializationError(f"{kind}.initbench_structure names {absent[0]}, which {kind} does not have")
    used = {name for layer in stated.layers for name in (layer.name, layer.weight)}
    unused = tuple(name for name in stated.unused if used.isdisjoint({name, name.rpartition(".")[0]}))
    return replace(stated, unused=unused)


def _tied(model: nn.Module) -> tuple[tuple[str, ...], ...]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(several) for several in names.values() if len(several) > 1)
