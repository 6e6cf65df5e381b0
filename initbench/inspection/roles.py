"""The role of every tensor in a model: tensors of one role share a law in almost every initialization."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from initbench.initializers.distribution import WeightLayer, weight_layers
from initbench.inspection.grouping import grouped
from initbench.structure.attention import Attention
from initbench.structure.find import Structure
from initbench.structure.kinds import NORM_LAYERS
from initbench.structure.layer import Layer
from initbench.structure.residual import ResidualBranch
from initbench.structure.run_graph import WeightAxes

END = ", end of a branch"


@dataclass(frozen=True)
class TensorRole:
    """A parameter and its purpose in the model.

    Attributes:
        name: the parameter's first name in the model.
        shape: its sizes.
        role: ``convolution``, ``depthwise convolution``, ``linear``, ``bilinear``, ``recurrent``, ``attention``
            (fused queries, keys and values), ``query``, ``key``, ``value``, ``embedding``, ``positions``, ``head``,
            ``norm weight``, ``norm bias``, ``bias``, ``head bias``, ``recurrent bias``, ``gate``, ``scalar bias`` or
            ``other``; ``..., end of a branch`` for the last weight, and the last norm, of a residual branch.
        order: sorts the parameters in the order in which the model runs.
        layer: the layer or module that the parameter belongs to.
        blocks: independent matrices, stacked along the first dimension unless `axes` says otherwise: groups of a
            convolution, queries, keys and values in one weight, gates of a recurrent layer, experts; 1 for all others.
        fan_in: inputs of each output; None except for weights.
        fan_out: outputs that each input reaches; None except for weights.
        transposed: whether a block is stored as (inputs, outputs, *kernel).
        axes: the dimensions that count blocks, outputs and inputs, for a weight without a module of its own.
        tied: its other names.
        block: the residual block of the branch that the weight ends, see `_block`; empty for other parameters.
    """

    name: str
    shape: tuple[int, ...]
    role: str
    order: tuple[int, int] = (0, 0)
    layer: str = ""
    blocks: int = 1
    fan_in: int | None = None
    fan_out: int | None = None
    transposed: bool = False
    axes: WeightAxes | None = None
    tied: tuple[str, ...] = ()
    block: str = ""

    @property
    def is_weight(self) -> bool:
        """Whether the tensor maps inputs to outputs."""
        return self.fan_in is not None

    @property
    def rows(self) -> int:
        """Outputs of all blocks."""
        if self.axes is not None:
            return math.prod(self.shape[axis] for axis in (*self.axes.blocks, *self.axes.outputs))
        return self.shape[1] * self.blocks if self.transposed else self.shape[0]

    @property
    def is_branch_end(self) -> bool:
        """Whether the tensor ends a residual branch, as its last weight or norm."""
        return self.role.endswith(END)

    def matrices(self, tensor: Tensor) -> Tensor:
        """Return a weight of the role's shape as (blocks, outputs, inputs × kernel taps)."""
        if self.axes is not None:
            blocks = tensor.permute(*self.axes.blocks, *self.axes.outputs, *self.axes.inputs)
            return blocks.reshape(self.blocks, -1, self.fan_in)  # type: ignore[arg-type]  # a weight has a fan-in
        stacked = tensor.reshape(self.blocks, tensor.shape[0] // self.blocks, *tensor.shape[1:])
        if self.transposed:
            stacked = stacked.transpose(1, 2)
        return stacked.reshape(*stacked.shape[:2], -1)


def roles_of(model: nn.Module, structure: Structure | None) -> dict[str, TensorRole]:
    """Return the role of each parameter, each tied one once, in the order in which they run.

    Without a structure, because the model does not run, the types of its modules decide.
    """
    roles = _roles_by_module(model)
    if structure is not None:
        _Refinement(roles, model, structure).apply()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    names = grouped(parameters, lambda name: id(parameters[name]))
    tied = [_tied([roles[name] for name in several]) for several in names.values()]
    return {role.name: role for role in sorted(tied, key=lambda role: role.order)}


def _tied(roles: Sequence[TensorRole]) -> TensorRole:
    """Return the role of a tensor with several names: an embedding before a head, because it has an embedding's law."""
    chosen = next((role for role in roles if role.role == "embedding"), roles[0])
    return replace(chosen, name=roles[0].name, tied=tuple(role.name for role in roles[1:]))


def _roles_by_module(model: nn.Module) -> dict[str, TensorRole]:
    roles: dict[str, TensorRole] = {}
    order = 0
    for prefix, module in model.named_modules(remove_duplicate=False):
        weights = {id(layer.weight): layer for layer in weight_layers(module)}
        for attribute, parameter in module.named_parameters(recurse=False):
            name = f"{prefix}.{attribute}".removeprefix(".")
            role = TensorRole(name, tuple(parameter.shape), "other", (0, order), prefix)
            order += 1
            if id(parameter) in weights:
                role = _weight_role(role, module, weights[id(parameter)])
            else:
                role = _other_role(role, module, attribute, parameter)
            roles.setdefault(name, role)
    return roles


def _weight_role(role: TensorRole, module: nn.Module, layer: WeightLayer) -> TensorRole:
    kind = "linear"
    if layer.kernel:
        kind = "depthwise convolution" if layer.inputs == 1 and layer.blocks > 1 else "convolution"
    elif isinstance(module, nn.MultiheadAttention):
        kind = "attention" if layer.blocks == 3 else role.name.rpartition(".")[2][0]
        kind = {"q": "query", "k": "key", "v": "value"}.get(kind, kind)
    return replace(
        role, role=kind, blocks=layer.blocks, fan_in=layer.fan_in, fan_out=layer.fan_out, transposed=layer.transposed
    )


_GATES = {"LSTM": 4, "LSTMCell": 4, "GRU": 3, "GRUCell": 3}


def _other_role(role: TensorRole, module: nn.Module, attribute: str, parameter: Tensor) -> TensorRole:
    is_bias = "bias" in attribute
    if isinstance(module, NORM_LAYERS) or (
        "norm" in type(module).__name__.lower() and parameter.dim() == 1 and attribute in {"weight", "bias"}
    ):
        return replace(role, role="norm bias" if is_bias else "norm weight")
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        if is_bias:
            return replace(role, role="recurrent bias")
        blocks = _GATES.get(getattr(module, "mode", type(module).__name__), 1) if "hr" not in attribute else 1
        rows, columns = parameter.shape
        return replace(role, role="recurrent", blocks=blocks, fan_in=columns, fan_out=rows // blocks)
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return replace(role, role="embedding")
    if isinstance(module, nn.Bilinear) and not is_bias:
        outputs, first, second = parameter.shape
        return replace(role, role="bilinear", fan_in=first * second, fan_out=outputs)
    has_weights = isinstance(module, nn.Bilinear) or any(True for _ in weight_layers(module))
    return replace(role, role="bias") if is_bias and has_weights else role


def _sizes(shape: tuple[int, ...], axes: WeightAxes | None) -> dict[str, Any]:
    """Return the fields of a weight that is used without a module of its own; none if its dimensions are unknown."""
    if axes is None:
        return {}
    blocks, outputs, inputs = (
        math.prod(shape[axis] for axis in part) for part in (axes.blocks, axes.outputs, axes.inputs)
    )
    is_transposed = (axes.outputs, axes.inputs) == ((1,), (0,))
    return {"fan_in": inputs, "fan_out": outputs, "blocks": blocks, "transposed": is_transposed, "axes": axes}


class _Refinement:
    """Gives parameters the roles that only a run of the model shows."""

    def __init__(self, roles: dict[str, TensorRole], model: nn.Module, structure: Structure) -> None:
        self._roles, self._structure = roles, structure
        self._modules = {name: index for index, (name, _) in enumerate(model.named_modules())}
        self._weights = {layer.name: layer.weight for layer in structure.layers}

    def apply(self) -> None:
        self._order()
        for layer in self._structure.layers:
            self._use_as(layer)
        for attention in self._structure.attention:
            self._name_projections(attention)
        for branch in self._structure.branches:
            self._mark_end(branch)
        for name in self._structure.heads:
            self._change(self._weights[name], role="head")
            self._change(f"{name}.bias", role="head bias")
        for role, names in (("positions", self._structure.positions), ("scalar bias", self._structure.scalar_biases)):
            for name in names:
                self._change(name, role=role, fan_in=None, fan_out=None)

    def _change(self, name: str, **fields: Any) -> None:
        if name in self._roles:
            self._roles[name] = replace(self._roles[name], **fields)

    def _order(self) -> None:
        """Sort by the order in which layers run; parameters beside a layer go with it, the others with the last one."""
        order = {layer.name: index for index, layer in enumerate(self._structure.layers)}
        order |= {layer.weight: order[layer.name] for layer in self._structure.layers}
        last, latest = len(order), 0
        for name, role in list(self._roles.items()):
            runs = order.get(name, order.get(role.layer))
            latest = latest if runs is None else runs  # a norm follows the layer that is defined before it
            self._change(name, order=(last if name in self._structure.unused else latest, role.order))

    def _use_as(self, layer: Layer) -> None:
        role = self._roles.get(layer.weight)
        if role is None:
            return
        if layer.kind == "embedding":
            self._change(layer.weight, role="embedding", fan_in=None, fan_out=None)
        elif role.role == "other" and layer.kind in {"convolution", "attention"}:
            taps = math.prod(role.shape[2:])
            self._change(layer.weight, role=layer.kind, fan_in=role.shape[1] * taps, fan_out=role.shape[0] * taps)
        elif role.role == "other" and layer.kind == "linear":
            self._change(layer.weight, role="linear", **_sizes(role.shape, layer.axes))

    def _name_projections(self, attention: Attention) -> None:
        if not attention.fused:
            for part in ("query", "key", "value"):
                for name in getattr(attention, part):
                    self._change(self._weights[name], role=part)
            return
        weight = self._weights[attention.query[0]]
        role = self._roles[weight]
        outputs = role.shape[1] if role.transposed else role.shape[0]
        # With fewer keys than queries the parts are no thirds; if a weight is stored (inputs, outputs), its thirds are
        # no blocks of rows.
        if all(outputs == 3 * self._inputs(name) for name in attention.output) and outputs % 3 == 0:
            self._change(weight, role="attention", fan_out=outputs // 3, blocks=1 if role.transposed else 3)

    def _inputs(self, layer: str) -> int:
        role = self._roles[self._weights[layer]]
        return role.shape[0] if role.transposed else role.shape[1]

    def _mark_end(self, branch: ResidualBranch) -> None:
        for name in branch.gates:
            self._change(name, role="gate", fan_in=None, fan_out=None)
        for name in branch.ends:
            weight = self._weights[name]
            self._change(weight, role=self._roles[weight].role.removesuffix(END) + END, block=_block(branch, weight))
        norm = self._last_norm(branch)
        if norm is not None:
            self._change(f"{norm}.weight", role="norm weight" + END)

    def _last_norm(self, branch: ResidualBranch) -> str | None:
        """Return the norm between a branch's last weight and its end, None if there is none.

        If no single module returns the branch's result, it is the first norm defined after the last weight in the same
        module.
        """
        if branch.output in branch.ends:
            return None
        if branch.output in self._structure.norms:
            return branch.output
        for end in branch.ends:
            beside = [norm for norm in self._structure.norms if norm.rpartition(".")[0] == end.rpartition(".")[0]]
            after = [norm for norm in beside if self._modules.get(norm, -1) > self._modules.get(end, -1)]
            if after:
                return min(after, key=lambda norm: self._modules[norm])
        return None


_NAME_ROLES = (
    (r"(^|\.)(cls_token|dist_token|reg_token|mask_token|class_token)$", "other"),
    (r"(pos_embed|position_embeddings?|wpe|positions?|pos_embedding)(\.weight)?$", "positions"),
    (r"(wte|word_embeddings?|embed_tokens|token_embedding|embeddings?|tok_emb\w*)\.weight$", "embedding"),
    (r"(^|\.)(head|fc|classifier|lm_head|output|head\.fc)\.weight$", "head"),
    (r"(^|\.)(head|fc|classifier|lm_head|output|head\.fc)\.bias$", "head bias"),
    (r"(norm\w*|bn\w*|ln\w*|ln_\w+)\.weight$", "norm weight"),
    (r"(norm\w*|bn\w*|ln\w*|ln_\w+)\.bias$", "norm bias"),
    (r"weight_(ih|hh|hr)(_l\d+\w*)?$", "recurrent"),
    (r"bias_(ih|hh)(_l\d+\w*)?$", "recurrent bias"),
    (r"\.bias$", "bias"),
)


def _block(branch: ResidualBranch, weight: str) -> str:
    """Return the innermost enclosing module with a number as its name, such as ``layers.3`` of an attention and an MLP.

    If the branch is added outside of such modules, it is the outermost one around the weight that ends the branch.
    """
    parts = branch.block.split(".")
    last = max((number for number, part in enumerate(parts, 1) if part.isdigit()), default=0)
    return ".".join(parts[:last]) or re.split(r"(?<=\d)\.", weight)[0]


def roles_from_names(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorRole]:
    """Return the role of each tensor of a weights file, guessed from names and shapes alone.

    Running statistics and counters of norms, which are no parameters, are left out. The order is the file's.
    """
    return {
        name: _role_from_name(name, shape, (0, order))
        for order, (name, shape) in enumerate(shapes.items())
        if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))
    }


def _role_from_name(name: str, shape: tuple[int, ...], order: tuple[int, int]) -> TensorRole:
    known = next((role for pattern, role in _NAME_ROLES if re.search(pattern, name)), None)
    role = TensorRole(name, shape, known or "other", order, name.rpartition(".")[0])
    if len(shape) < 2:
        if known not in {None, "head", "embedding", "positions", "recurrent"}:
            return role
        only_norms = len(shape) == 1 and name.endswith(".weight")  # no other weight has one dimension
        return replace(role, role="norm weight" if only_norms else "other")
    if known in {"embedding", "positions"}:
        return role
    taps = math.prod(shape[2:])
    depthwise = len(shape) > 2 and shape[1] == 1
    kind = "linear" if len(shape) == 2 else "depthwise convolution" if depthwise else "convolution"
    blocks = shape[0] if depthwise else 1
    return replace(
        role,
        role=known if known in {"head", "recurrent"} else kind,
        blocks=blocks,
        fan_in=shape[1] * taps,
        fan_out=shape[0] // blocks * taps,
    )
