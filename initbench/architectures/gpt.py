"""Decoder-only Transformers: GPT-2 (Radford et al., 2019) and its relatives.

Modules are named as in GPT-2's code: wte, wpe, h, ln_1, attn, c_proj, ln_2, mlp, c_fc, ln_f, lm_head.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from initbench.architectures.blocks import LayerNorm, TanhGELU, check_rate, make_dropout
from initbench.architectures.style import STATED, Shortcut, check_norm, make_branch_end, make_scalar_bias
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_DEEPEST = 10_000
NormPlace = Literal["pre", "post", "none"]
NormType = Literal["layer", "rms"]
Activation = Literal["gelu", "relu", "swiglu"]
Positions = Literal["learned", "rotary"]
_EPSILON = 1e-5  # GPT-2's
_ROTARY_BASE = 10000.0
_HIDDEN_MULTIPLE = 8


class PositionEmbedding(nn.Embedding):
    """A learned vector for each position.

    Source: Radford et al., Improving Language Understanding by Generative Pre-Training (GPT), 2018, section 4.1.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors (T, width) of the positions of tokens (N, T)."""
        length = tokens.shape[-1]
        _check_length(length, self.num_embeddings)
        return self.weight[:length]


class Rotary(nn.Module):
    """Rotates pairs of features by angles that grow with the position, so that scores depend only on distances.

    In a head with D features, feature i is paired with i + D/2, as in GPT-NeoX and LLaMA; the paper pairs neighbours,
    which is the same network with the features in another order.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, section 3.4.2 and equation
    (15), base 10000.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, features: int, context: int) -> None:
        super().__init__()
        frequencies = _ROTARY_BASE ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
        angles = torch.arange(context, dtype=torch.float64)[:, None] * frequencies
        # Not saved, because they follow from the sizes.
        self.register_buffer("cos", angles.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angles.sin().to(torch.get_default_dtype()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return queries or keys (N, heads, T, D); position t is rotated by t times the frequencies."""
        length = x.shape[-2]
        _check_length(length, len(self.cos))
        cos, sin = self.cos[:length], self.sin[:length]
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).type_as(x)


def _check_length(length: int, context: int) -> None:
    if length > context:
        raise InitbenchError(f"gpt has a context of {context} tokens, got {length}")


class Attention(nn.Module):
    """Causal multi-head self-attention.

    GPT-2 computes queries, keys and values in one layer, c_attn. Here they are three layers that compute the same, so
    that initializers and schemes that depend on a layer's size treat each projection separately, and a layer's fan is
    the fan of one projection.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2; Radford et al., 2019 (GPT-2).
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        bias: bool,
        dropout: float,
        context: int,
        positions: Positions,
        scheme: str,
    ) -> None:
        super().__init__()
        check_rate("dropout", dropout)
        self.heads, self.attn_dropout = heads, dropout
        self.bias_a = make_scalar_bias(scheme)
        self.c_q = nn.Linear(width, width, bias=bias)
        self.c_k = nn.Linear(width, width, bias=bias)
        self.c_v = nn.Linear(width, width, bias=bias)
        self.rotary = Rotary(width // heads, context) if positions == "rotary" else nn.Identity()
        self.bias_b = make_scalar_bias(scheme)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.resid_dropout = make_dropout(dropout)
        self.multiplier = make_branch_end(scheme)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        x = self.bias_a(x)
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.c_q, self.c_k, self.c_v))
        mixed = functional.scaled_dot_product_attention(
            self.rotary(q), self.rotary(k), v, dropout_p=self.attn_dropout if self.training else 0.0, is_causal=True
        )
        result: Tensor = self.c_proj(self.bias_b(mixed.transpose(1, 2).flatten(2)))
        return self.multiplier(self.resid_dropout(result))


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, or SwiGLU: silu(c_gate(x)) · c_fc(x), then c_proj.

    Source: Radford et al., 2019 (GPT-2); GELU in its tanh form, Hendrycks & Gimpel, 2016, section 2; SwiGLU without the
    β, Shazeer, GLU Variants Improve Transformer, 2020, equation (6).

    The hidden width is four times the width. SwiGLU has three layers, so its hidden width is 8/3 times the width,
    rounded up to a multiple of 8, which keeps the number of parameters (Shazeer, section 3).
    """

    def __init__(self, width: int, activation: Activation, *, bias: bool, dropout: float, scheme: str) -> None:
        super().__init__()
        hidden = 4 * width
        if activation == "swiglu":
            hidden = -(-8 * width // (3 * _HIDDEN_MULTIPLE)) * _HIDDEN_MULTIPLE
        self.bias_a = make_scalar_bias(scheme)
        self.c_gate = nn.Linear(width, hidden, bias=bias) if activation == "swiglu" else None
        self.c_fc = nn.Linear(width, hidden, bias=bias)
        self.bias_b = make_scalar_bias(scheme)
        self.act = {"gelu": TanhGELU(), "relu": nn.ReLU(), "swiglu": nn.SiLU()}[activation]
        self.bias_c = make_scalar_bias(scheme)
        self.c_proj = nn.Linear(hidden, width, bias=bias)
        self.dropout = make_dropout(dropout)
        self.multiplier = make_branch_end(scheme)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        x = self.bias_a(x)
        if self.c_gate is None:
            hidden = self.act(self.bias_b(self.c_fc(x)))
        else:
            hidden = self.act(self.bias_b(self.c_gate(x))) * self.c_fc(x)
        return self.multiplier(self.dropout(self.c_proj(self.bias_c(hidden))))


class Block(nn.Module):
    """An attention and a feed-forward part, each added to its input.

    Norm ``pre`` puts a norm at the start of each branch (GPT-2), ``post`` after each addition (Vaswani et al., 2017,
    section 5.4; GPT).
    """

    def __init__(
        self, attn: Attention, mlp: FeedForward, width: int, norm: NormPlace, norm_type: NormType, *, bias: bool
    ) -> None:
        super().__init__()
        self.post = norm == "post"
        has_norm = norm != "none"
        self.ln_1 = make_norm(norm_type, width, bias=bias) if has_norm else nn.Identity()
        self.attn = attn
        self.attn_shortcut = Shortcut()
        self.ln_2 = make_norm(norm_type, width, bias=bias) if has_norm else nn.Identity()
        self.mlp = mlp
        self.mlp_shortcut = Shortcut()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        if self.post:
            x = self.ln_1(self.attn_shortcut(x) + self.attn(x))
            return self.ln_2(self.mlp_shortcut(x) + self.mlp(x))
        x = self.attn_shortcut(x) + self.attn(self.ln_1(x))
        return self.mlp_shortcut(x) + self.mlp(self.ln_2(x))


def make_norm(kind: NormType, width: int, *, bias: bool) -> nn.Module:
    """Return a normalization over each position's features, with ε = 1e-5.

    Source: Ba, Kiros & Hinton, Layer Normalization, 2016; Zhang & Sennrich, Root Mean Square Layer Normalization, 2019.
    """
    return LayerNorm(width, _EPSILON, bias=bias) if kind == "layer" else nn.RMSNorm(width, _EPSILON)


def _check_size(depth: int, width: int, heads: int, positions: Positions) -> None:
    for name, number in (("depth", depth), ("width", width), ("heads", heads)):
        if number < 1:
            raise ArgumentError(f"must be at least 1, got {number}", name)
    if depth > _DEEPEST:
        raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
    if width % heads:
        raise ArgumentError(f"must be a multiple of heads, {heads}, got {width}", "width")
    if positions == "rotary" and width // heads % 2:
        raise ArgumentError(f"must make width / heads even for rotary positions, got {width} / {heads}", "heads")


@register_architecture(
    "gpt",
    tasks=("language_modelling",),
    schemes=STATED,
    reference="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019",
    shallow=lambda arguments: Shallow.of_depth(arguments["depth"], 2, 1, _DEEPEST),
)
class GPT(nn.Module):
    """Decoder-only Transformer, by default GPT-2 with 124 million parameters, but without its dropout of 0.1.

    Each block adds a causal self-attention and a feed-forward part to its input. Queries, keys and values come from
    three layers instead of GPT-2's single one, so that an initializer sees the size of one projection. The inputs
    determine the context.

    With scheme skipinit a gate of 0 ends both branches of each block, which is ReZero (Bachlechner et al., 2021). With
    scheme fixup a scalar bias precedes linear layers (one for queries, keys and values together) and activations, and a
    multiplier ends each branch. With scheme weight_norm all linear layers except the head are normalized.

    Args:
        depth: number of blocks.
        width: features of each position, a multiple of heads.
        heads: number of heads of each attention.
        norm: pre for a norm at the start of each branch and one before the head, post for a norm after each addition as
            in the first Transformer, or none.
        norm_type: layer, or rms.
        activation: gelu (in its tanh form, as in GPT-2), relu or swiglu.
        positions: learned, or rotary, which needs an even width / heads.
        bias: whether LayerNorms and linear layers except the head have biases.
        tied: whether the head shares the weight of the token embedding.
        dropout: dropout rate of embeddings, attention and the ends of branches; 0.1 in GPT-2.
        inputs: tokens.
        outputs: number of logits at each position: the size of the vocabulary.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none, and fixup
            needs an untied head.

    Raises:
        ArgumentError: depth, width, heads or dropout is impossible, the inputs are not tokens, a tied head has a
            different number of outputs than there are tokens, or a norm or a tied head does not fit the scheme.
    """

    def __init__(
        self,
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
    ) -> None:
        super().__init__()
        _check_size(depth, width, heads, positions)
        if inputs.vocabulary is None or len(inputs.shape) != 1:
            raise ArgumentError(f"must be (positions,) of tokens, got {inputs}", "inputs")
        if tied and outputs != inputs.vocabulary:
            raise ArgumentError(f"must be false for {inputs.vocabulary} tokens and {outputs} outputs, got true", "tied")
        check_norm(scheme, norm)
        if scheme in STATED and tied:
            raise ArgumentError("must be false for scheme fixup, whose first rule sets the head to 0, got true", "tied")
        (context,) = inputs.shape
        self.wte = nn.Embedding(inputs.vocabulary, width)
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
        # A tied head allocates no weight, which would be the largest of all.
        self.lm_head = nn.Linear(width, outputs, bias=False, device="meta" if tied else None)
        if tied:
            self.lm_head.weight = self.wte.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (N, T), int64, to logits (N, T, outputs) for the token that follows each."""
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe(tokens)
        x = self.drop(x)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.bias_f(self.ln_f(x)))
