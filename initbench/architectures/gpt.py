"""Decoder-only Transformers: GPT-2 (Radford et al., 2019) and its relatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from initbench.architectures.blocks import make_dropout
from initbench.architectures.gpt_blocks import (
    Activation,
    Attention,
    Block,
    FeedForward,
    NormPlace,
    NormType,
    PositionEmbedding,
    Positions,
    make_norm,
)
from initbench.architectures.under_scheme import STATED, check_norm, make_scalar_bias
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEEPEST = 10_000


class GPT(nn.Module):
    """Embeddings of tokens and positions, blocks, a last norm where the blocks begin with one, and a linear head.

    Modules have the names of GPT-2's code: wte, wpe, h, ln_1, attn, c_proj, ln_2, mlp, c_fc, ln_f, lm_head.

    Args:
        depth: number of blocks.
        width: features of each position.
        heads: of each attention.
        norm: see `Block`.
        norm_type: see `make_norm`.
        activation: see `FeedForward`.
        positions: ``learned`` for an embedding of positions, ``rotary`` for turned queries and keys.
        bias: whether linear layers but for the head, and LayerNorms, have biases.
        tied: whether the head's weight is that of the embedding of tokens.
        dropout: of embeddings, attention and the ends of branches.
        scheme: see `initbench.architectures.under_scheme`.
        inputs: tokens.
        outputs: number of logits at each position.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        heads: int,
        *,
        norm: NormPlace,
        norm_type: NormType,
        activation: Activation,
        positions: Positions,
        bias: bool,
        tied: bool,
        dropout: float,
        scheme: str,
        inputs: Inputs,
        outputs: int,
    ) -> None:
        super().__init__()
        (context,) = inputs.shape
        vocabulary = inputs.vocabulary or 0
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = PositionEmbedding(context, width) if positions == "learned" else None
        self.drop = make_dropout(dropout)
        self.h = nn.ModuleList()
        for _ in range(depth):
            attn = Attention(
                width, heads, bias=bias, dropout=dropout, context=context, positions=positions, scheme=scheme
            )
            mlp = FeedForward(width, activation, bias=bias, dropout=dropout, scheme=scheme)
            self.h.append(Block(attn, mlp, width, norm, norm_type, bias=bias))
        self.ln_f = make_norm(norm_type, width, bias=bias) if norm == "pre" else nn.Identity()
        self.bias_f = make_scalar_bias(scheme)
        # A head that is tied has no weight of its own, which would be the largest of all.
        self.lm_head = nn.Linear(width, outputs, bias=False, device="meta" if tied else None)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (N, T), int64, to logits (N, T, outputs) for the token that follows each.

        Raises:
            InitbenchError: T is above the context.
        """
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe(tokens)
        x = self.drop(x)
        for block in self.h:
            x = block(x)
        logits: Tensor = self.lm_head(self.bias_f(self.ln_f(x)))
        return logits


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    return Shallow.of_depth(arguments["depth"], 2, 1, _DEEPEST)


@register_architecture(
    "gpt",
    tasks=("language_modelling",),
    schemes=STATED,
    reference="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019",
    shallow=_shallow,
)
def gpt(
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    norm: NormPlace = "pre",
    norm_type: NormType = "layer",
    activation: Activation = "gelu",
    positions: Positions = "learned",
    bias: bool = True,
    tied: bool = True,
    dropout: float = 0.0,
    *,
    inputs: Inputs = Inputs((1024,), 50257),
    outputs: int = 50257,
    scheme: str = STANDARD,
) -> nn.Module:
    """Decoder-only Transformer, by default GPT-2 with 124 million parameters but for its dropout of 0.1.

    Each block adds a causal self-attention and a feed-forward part to its input. Queries, keys and values come from
    three layers, where GPT-2 has one of three times the width, so that an initializer sees the size of one projection.
    The context is that of the inputs.

    In scheme skipinit a gate of 0 ends each of a block's two branches, which is ReZero (Bachlechner et al., 2021). In
    scheme fixup a scalar bias stands before linear layers (one before queries, keys and values together) and
    activations, and a multiplier ends each branch. In scheme weight_norm all linear layers but the head are normalized.

    Args:
        depth: number of blocks.
        width: features of each position, a multiple of heads.
        heads: of each attention.
        norm: pre for a norm at the start of each branch and one before the head, post for one behind each addition as
            in the first Transformer, or none.
        norm_type: layer, or rms.
        activation: gelu (by its tanh form, as in GPT-2), relu or swiglu.
        positions: learned, or rotary, for which width / heads is even.
        bias: whether linear layers but for the head, and LayerNorms, have biases.
        tied: whether the head shares the weight of the embedding of tokens.
        dropout: rate of the dropout of embeddings, attention and the ends of branches; GPT-2 has 0.1.
        inputs: tokens.
        outputs: number of logits at each position: the size of the vocabulary.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none, and fixup with a
            head that is not tied.

    Raises:
        ArgumentError: depth, width, heads or dropout is impossible, the inputs are no tokens, a tied head has not as
            many outputs as there are tokens, or a norm or a tied head does not go with a scheme.
    """
    for name, number in (("depth", depth), ("width", width), ("heads", heads)):
        if number < 1:
            raise ArgumentError(f"must be at least 1, got {number}", name)
    if depth > _DEEPEST:
        raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
    if width % heads:
        raise ArgumentError(f"must be a multiple of heads, {heads}, got {width}", "width")
    if positions == "rotary" and width // heads % 2:
        raise ArgumentError(f"must make width / heads even for rotary positions, got {width} / {heads}", "heads")
    if inputs.vocabulary is None or len(inputs.shape) != 1:
        raise ArgumentError(f"must be (positions,) of tokens, got {inputs}", "inputs")
    if tied and outputs != inputs.vocabulary:
        raise ArgumentError(f"must be false for {inputs.vocabulary} tokens and {outputs} outputs, got true", "tied")
    check_norm(scheme, norm)
    if scheme in STATED and tied:
        raise ArgumentError("must be false for scheme fixup, whose first rule sets the head to 0, got true", "tied")
    return GPT(
        depth,
        width,
        heads,
        norm=norm,
        norm_type=norm_type,
        activation=activation,
        positions=positions,
        bias=bias,
        tied=tied,
        dropout=dropout,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )
