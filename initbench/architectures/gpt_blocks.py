"""The parts of a decoder-only Transformer, under the names that they have in GPT-2's code."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from initbench.architectures.blocks import check_rate, make_dropout
from initbench.architectures.gelu import TanhGELU
from initbench.architectures.layer_norm import LayerNorm
from initbench.architectures.under_scheme import make_branch_end, make_scalar_bias
from initbench.errors import InitbenchError

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
        """Return the vectors (T, width) of the positions of tokens (N, T).

        Raises:
            InitbenchError: there are more positions than vectors.
        """
        length = tokens.shape[-1]
        _check_length(length, self.num_embeddings)
        return self.weight[:length]


class Rotary(nn.Module):
    """Turns pairs of features by angles that grow with the position, so that scores depend on distances alone.

    Feature i of a head of D makes a pair with i + D/2, as in GPT-NeoX and LLaMA; the paper's pairs are neighbours,
    which is the same network with the features in another order.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021, section 3.4.2 and equation
    (15), base 10000.

    Args:
        features: D, even.
        context: the number of positions.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, features: int, context: int) -> None:
        super().__init__()
        frequencies = _ROTARY_BASE ** (-torch.arange(0, features, 2, dtype=torch.float64) / features)
        angles = torch.arange(context, dtype=torch.float64)[:, None] * frequencies
        # Not among what is saved: they follow from the sizes.
        self.register_buffer("cos", angles.cos().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angles.sin().to(torch.get_default_dtype()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return queries or keys (N, heads, T, D), those at position t turned by t times the frequencies.

        Raises:
            InitbenchError: there are more positions than the model's context has.
        """
        length = x.shape[-2]
        _check_length(length, len(self.cos))
        cos, sin = self.cos[:length], self.sin[:length]
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).type_as(x)


def _check_length(length: int, context: int) -> None:
    if length > context:
        raise InitbenchError(f"gpt has a context of {context} tokens, got {length}")


class Attention(nn.Module):
    """Causal self-attention of several heads.

    GPT-2 has its three projections to queries, keys and values in one layer, c_attn. Here they are three layers, which
    compute the same: what draws, scales or normalizes a layer by its size then treats each for itself, and a layer's
    fan is that of one projection.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2; Radford et al., 2019 (GPT-2).

    Args:
        width: features of the input and output.
        heads: divides width.
        bias: whether the projections have biases.
        dropout: rate within the attention, and of the output.
        context: the number of positions.
        positions: whether queries and keys are turned.
        scheme: see `initbench.architectures.under_scheme`.
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
        return self.multiplier(self.resid_dropout(result))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    """Two linear layers with an activation between, or SwiGLU: silu(c_gate(x)) · c_fc(x), then c_proj.

    Source: Radford et al., 2019 (GPT-2); GELU by its tanh form, Hendrycks & Gimpel, 2016, section 2; SwiGLU without
    the β, Shazeer, GLU Variants Improve Transformer, 2020, equation (6).

    Args:
        width: features of the input and output. Four times as many lie between; 8/3 as many with SwiGLU, which has
            three layers, so that there are as many parameters (Shazeer, section 3), rounded up to a multiple of 8.
        activation: gelu, relu or swiglu.
        bias: whether the layers have biases.
        dropout: rate, of the output.
        scheme: see `initbench.architectures.under_scheme`.
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
        return self.multiplier(self.dropout(self.c_proj(self.bias_c(hidden))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """An attention and a feed-forward part, each added to its input.

    Args:
        attn: the attention.
        mlp: the feed-forward part.
        width: features.
        norm: ``pre`` for a norm at the start of each branch (GPT-2), ``post`` for one behind each addition (Vaswani et
            al., 2017, section 5.4; GPT), ``none`` for none.
        norm_type: ``layer`` or ``rms``.
        bias: whether a LayerNorm has a bias.
    """

    def __init__(
        self, attn: Attention, mlp: FeedForward, width: int, norm: NormPlace, norm_type: NormType, *, bias: bool
    ) -> None:
        super().__init__()
        self.post = norm == "post"
        has_norm = norm != "none"
        self.ln_1 = make_norm(norm_type, width, bias=bias) if has_norm else nn.Identity()
        self.attn = attn
        self.ln_2 = make_norm(norm_type, width, bias=bias) if has_norm else nn.Identity()
        self.mlp = mlp

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        if self.post:
            x = self.ln_1(x + self.attn(x))
            return self.ln_2(x + self.mlp(x))  # type: ignore[no-any-return]
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


def make_norm(kind: NormType, width: int, *, bias: bool) -> nn.Module:
    """Return a normalization of each position's features, with ε = 1e-5.

    Source: Ba, Kiros & Hinton, Layer Normalization, 2016; Zhang & Sennrich, Root Mean Square Layer Normalization, 2019.

    Args:
        kind: ``layer``, or ``rms``, which has no bias.
        width: features.
        bias: whether a LayerNorm has one.
    """
    return LayerNorm(width, _EPSILON, bias=bias) if kind == "layer" else nn.RMSNorm(width, _EPSILON)
