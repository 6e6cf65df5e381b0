"""Encoder-decoder Transformers: fairseq's `transformer_iwslt_de_en` and its relatives.

Modules are named as in fairseq: embed_tokens, layers, self_attn, encoder_attn, q_proj, k_proj, v_proj, out_proj, fc1,
fc2, output_projection. Only fc1 and fc2 have a module around them, feed_forward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from initbench.architectures.blocks import LayerNorm, check_rate, make_dropout
from initbench.architectures.style import STATED, Shortcut, check_norm, make_branch_end, make_scalar_bias
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import PAD, Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_DEEPEST = 10_000
NormPlace = Literal["post", "pre", "none"]
Tied = Literal["none", "decoder", "all"]
_FIRST_POSITION = 2  # fairseq's, where padding has position 1
_LONGEST_PERIOD = 10000.0


@dataclass(frozen=True)
class Sizes:
    """The sizes and options that all layers of a Transformer share."""

    width: int
    hidden: int
    heads: int
    norm: NormPlace
    dropout: float
    attention_dropout: float
    activation_dropout: float
    scheme: str

    def __post_init__(self) -> None:
        for name, number in (("width", self.width), ("hidden", self.hidden), ("heads", self.heads)):
            if number < 1:
                raise ArgumentError(f"must be at least 1, got {number}", name)
        if self.width % self.heads:
            raise ArgumentError(f"must be a multiple of heads, {self.heads}, got {self.width}", "width")
        if self.width % 2 or self.width < 4:
            raise ArgumentError(f"must be an even number of at least 4, for the positions, got {self.width}", "width")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            check_rate(name, getattr(self, name))

    def make_norm(self) -> nn.Module:
        return nn.Identity() if self.norm == "none" else LayerNorm(self.width)


@dataclass(frozen=True)
class KeysValues:
    """The keys and values of an attention, each (N, heads, T, width / heads)."""

    keys: Tensor
    values: Tensor

    def then(self, more: KeysValues) -> KeysValues:
        """Return these and `more` behind them."""
        return KeysValues(torch.cat([self.keys, more.keys], 2), torch.cat([self.values, more.values], 2))

    def select(self, rows: Tensor) -> KeysValues:
        return KeysValues(self.keys[rows], self.values[rows])


@dataclass(frozen=True)
class State:
    """A decoder's state after t tokens of each of N rows.

    Attributes:
        memory: keys and values of the encoder's output, by decoder layer.
        past: keys and values of the t tokens, by decoder layer; None before the first token.
        mask: which keys of the memory may be attended to, (N, 1, 1, S).
        length: t.
    """

    memory: tuple[KeysValues, ...]
    past: tuple[KeysValues | None, ...]
    mask: Tensor
    length: int = 0

    def select(self, rows: Tensor) -> State:
        """Return the state of some rows, int64 (M,), which may repeat."""
        return State(
            tuple(layer.select(rows) for layer in self.memory),
            tuple(None if layer is None else layer.select(rows) for layer in self.past),
            self.mask[rows],
            self.length,
        )


class SinusoidalPositions(nn.Module):
    """A fixed vector for each position: sines of all frequencies, then cosines.

    With d features, position p and i = 0 … d/2 − 1 the entries are sin(p ω_i) and cos(p ω_i), ω_i = 10000^(−i/(d/2−1)).
    The first token has position 2. This is fairseq's table; Vaswani et al., 2017, section 3.5, interleave sines and
    cosines of frequencies 10000^(−2i/d) and start from 0.
    """

    table: Tensor

    def __init__(self, width: int, longest: int) -> None:
        super().__init__()
        half = width // 2
        frequencies = _LONGEST_PERIOD ** (-torch.arange(half, dtype=torch.float64) / (half - 1))
        positions = torch.arange(_FIRST_POSITION, _FIRST_POSITION + longest, dtype=torch.float64)
        angles = positions[:, None] * frequencies
        table = torch.cat([angles.sin(), angles.cos()], 1).to(torch.get_default_dtype())
        # Not saved, because it follows from the sizes.
        self.register_buffer("table", table, persistent=False)

    def forward(self, length: int, start: int = 0) -> Tensor:
        """Return the vectors (length, width) of the tokens from `start` on."""
        longest, end = len(self.table), start + length
        if end > longest:
            raise InitbenchError(f"transformer takes sentences of at most {longest} tokens, got {end}")
        return self.table[start:end]


class Attention(nn.Module):
    """Multi-head attention to a sentence itself or, with `cross`, to the encoder's output.

    Source: Vaswani et al., Attention Is All You Need, 2017, section 3.2.
    """

    def __init__(self, sizes: Sizes, *, cross: bool = False) -> None:
        super().__init__()
        width = sizes.width
        self.heads, self.attention_dropout = sizes.heads, sizes.attention_dropout
        self.bias_a = make_scalar_bias(sizes.scheme)
        self.bias_memory = make_scalar_bias(sizes.scheme) if cross else nn.Identity()
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.bias_b = make_scalar_bias(sizes.scheme)
        self.out_proj = nn.Linear(width, width)
        self.dropout = make_dropout(sizes.dropout)
        self.multiplier = make_branch_end(sizes.scheme)

    def forward(
        self, x: Tensor, encoded: Tensor | None = None, mask: Tensor | None = None, *, is_causal: bool = False
    ) -> Tensor:
        """Map (N, T, width) to (N, T, width), attending to `encoded` (N, S, width) or to x itself.

        `mask` says which keys may be attended to, (N, 1, 1, S).
        """
        x = self.bias_a(x)
        queries = self._by_head(self.q_proj(x))
        memory = self._project(x) if encoded is None else self.keys_values(encoded)
        return self._attend(queries, memory, mask, is_causal=is_causal)

    def keys_values(self, encoded: Tensor) -> KeysValues:
        """Return the keys and values of the encoder's output (N, S, width)."""
        return self._project(self.bias_memory(encoded))

    def attend(self, x: Tensor, memory: KeysValues, mask: Tensor) -> Tensor:
        """Do as `forward` with the keys and values of the encoder's output."""
        return self._attend(self._by_head(self.q_proj(self.bias_a(x))), memory, mask)

    def step(self, x: Tensor, past: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Map the token x (N, 1, width) that follows others; return its result and the keys and values of all."""
        x = self.bias_a(x)
        known = self._project(x) if past is None else past.then(self._project(x))
        return self._attend(self._by_head(self.q_proj(x)), known), known

    def _project(self, x: Tensor) -> KeysValues:
        return KeysValues(self._by_head(self.k_proj(x)), self._by_head(self.v_proj(x)))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def _attend(
        self, queries: Tensor, memory: KeysValues, mask: Tensor | None = None, *, is_causal: bool = False
    ) -> Tensor:
        rate = self.attention_dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(
            queries, memory.keys, memory.values, mask, dropout_p=rate, is_causal=is_causal
        )
        result: Tensor = self.out_proj(self.bias_b(mixed.transpose(1, 2).flatten(2)))
        return self.multiplier(self.dropout(result))


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them.

    Source: Vaswani et al., 2017, section 3.3.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.bias_a = make_scalar_bias(sizes.scheme)
        self.fc1 = nn.Linear(sizes.width, sizes.hidden)
        self.bias_b = make_scalar_bias(sizes.scheme)
        self.act = nn.ReLU()
        self.activation_dropout = make_dropout(sizes.activation_dropout)
        self.bias_c = make_scalar_bias(sizes.scheme)
        self.fc2 = nn.Linear(sizes.hidden, sizes.width)
        self.dropout = make_dropout(sizes.dropout)
        self.multiplier = make_branch_end(sizes.scheme)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width)."""
        hidden = self.activation_dropout(self.act(self.bias_b(self.fc1(self.bias_a(x)))))
        return self.multiplier(self.dropout(self.fc2(self.bias_c(hidden))))


class _Layer(nn.Module):
    """Norm ``post`` is behind each addition (Vaswani et al., 2017, section 5.4), ``pre`` in front of each branch."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.post = sizes.norm == "post"

    def before(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Return the input of a branch."""
        return x if self.post else norm(x)

    def after(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Return the stream behind an addition."""
        return norm(x) if self.post else x


class EncoderLayer(_Layer):
    """Self-attention and a feed-forward part, each added to its input."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.self_attn = Attention(sizes)
        self.self_attn_shortcut = Shortcut()
        self.self_attn_layer_norm = sizes.make_norm()
        self.feed_forward = FeedForward(sizes)
        self.feed_forward_shortcut = Shortcut()
        self.final_layer_norm = sizes.make_norm()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map (N, S, width) to (N, S, width); `mask` is (N, 1, 1, S)."""
        branch = self.self_attn(self.before(self.self_attn_layer_norm, x), mask=mask)
        x = self.after(self.self_attn_layer_norm, self.self_attn_shortcut(x) + branch)
        branch = self.feed_forward(self.before(self.final_layer_norm, x))
        return self.after(self.final_layer_norm, self.feed_forward_shortcut(x) + branch)


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the encoder's output and a feed-forward part, each added to its input."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.self_attn = Attention(sizes)
        self.self_attn_shortcut = Shortcut()
        self.self_attn_layer_norm = sizes.make_norm()
        self.encoder_attn = Attention(sizes, cross=True)
        self.encoder_attn_shortcut = Shortcut()
        self.encoder_attn_layer_norm = sizes.make_norm()
        self.feed_forward = FeedForward(sizes)
        self.feed_forward_shortcut = Shortcut()
        self.final_layer_norm = sizes.make_norm()

    def forward(self, x: Tensor, encoded: Tensor, mask: Tensor) -> Tensor:
        """Map (N, T, width) to (N, T, width), attending to `encoded` (N, S, width)."""
        branch = self.self_attn(self.before(self.self_attn_layer_norm, x), is_causal=True)
        x = self.after(self.self_attn_layer_norm, self.self_attn_shortcut(x) + branch)
        branch = self.encoder_attn(self.before(self.encoder_attn_layer_norm, x), encoded, mask)
        return self._feed(x, branch)

    def step(self, x: Tensor, past: KeysValues | None, memory: KeysValues, mask: Tensor) -> tuple[Tensor, KeysValues]:
        """Map the token x (N, 1, width) that follows others; return its result and the keys and values of all."""
        branch, known = self.self_attn.step(self.before(self.self_attn_layer_norm, x), past)
        x = self.after(self.self_attn_layer_norm, self.self_attn_shortcut(x) + branch)
        branch = self.encoder_attn.attend(self.before(self.encoder_attn_layer_norm, x), memory, mask)
        return self._feed(x, branch), known

    def _feed(self, x: Tensor, attended: Tensor) -> Tensor:
        x = self.after(self.encoder_attn_layer_norm, self.encoder_attn_shortcut(x) + attended)
        branch = self.feed_forward(self.before(self.final_layer_norm, x))
        return self.after(self.final_layer_norm, self.feed_forward_shortcut(x) + branch)


class _Stack(nn.Module):
    def __init__(self, embed_tokens: nn.Embedding, layers: list[nn.Module], sizes: Sizes, longest: int) -> None:
        super().__init__()
        self.embed_tokens = embed_tokens
        self.embed_scale = math.sqrt(sizes.width)
        self.embed_positions = SinusoidalPositions(sizes.width, longest)
        self.dropout = make_dropout(sizes.dropout)
        self.layers = nn.ModuleList(layers)
        self.layer_norm = LayerNorm(sizes.width) if sizes.norm == "pre" else nn.Identity()

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Return √width times the tokens' embeddings, plus positions, of tokens (N, T) from position `start` on."""
        embedded = self.embed_scale * self.embed_tokens(tokens)
        summed: Tensor = self.dropout(embedded + self.embed_positions(tokens.shape[1], start))
        return summed


class Encoder(_Stack):
    """Embeddings and the layers that read the source."""

    def forward(self, source: Tensor, mask: Tensor) -> Tensor:
        """Map tokens (N, S) to (N, S, width)."""
        x = self.embed(source)
        for layer in self.layers:
            x = layer(x, mask)
        return self.layer_norm(x)


class Decoder(_Stack):
    """Embeddings, the layers that write the target, and the head."""

    def __init__(
        self, embed_tokens: nn.Embedding, head: nn.Linear, layers: list[nn.Module], sizes: Sizes, longest: int
    ) -> None:
        super().__init__(embed_tokens, layers, sizes, longest)
        self.bias_f = make_scalar_bias(sizes.scheme)
        self.output_projection = head

    def forward(self, tokens: Tensor, encoded: Tensor, mask: Tensor) -> Tensor:
        """Map the target (N, T), shifted right, to logits (N, T, outputs), given the encoder's output."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, encoded, mask)
        return self._logits(x)

    def start(self, encoded: Tensor, mask: Tensor) -> State:
        memory = tuple(layer.encoder_attn.keys_values(encoded) for layer in self._layers())
        return State(memory, (None,) * len(memory), mask)

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        x = self.embed(tokens[:, None], state.length)
        known = []
        for layer, past, memory in zip(self._layers(), state.past, state.memory, strict=True):
            x, of_layer = layer.step(x, past, memory, state.mask)
            known.append(of_layer)
        return self._logits(x)[:, 0], replace(state, past=tuple(known), length=state.length + 1)

    def _layers(self) -> Iterator[DecoderLayer]:
        return cast("Iterator[DecoderLayer]", iter(self.layers))

    def _logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.output_projection(self.bias_f(self.layer_norm(x)))
        return logits


def _attended(source: Tensor) -> Tensor:
    """Return which source tokens may be attended to, (N, 1, 1, S): all but padding, or all if nothing else is there."""
    real = source != PAD
    return (real | ~real.any(1, keepdim=True))[:, None, None]


@register_architecture(
    "transformer",
    tasks=("translation",),
    schemes=STATED,
    reference="Vaswani et al., Attention Is All You Need, 2017; fairseq's transformer_iwslt_de_en",
    shallow=lambda arguments: Shallow.of_depth(arguments["depth"], 2, 1, _DEEPEST),
)
class Transformer(nn.Module):
    """Encoder-decoder Transformer, by default fairseq's `transformer_iwslt_de_en`, but without its dropout of 0.1.

    It reads pairs of sentences: the source, and the target shifted right. Tokens attend to all real tokens of the
    source, and to the target's tokens up to themselves. Padding is on the right and changes no other output.
    Embeddings are multiplied by √width, and fixed sinusoids are added.

    With scheme skipinit a gate of 0 ends each branch, which is ReZero (Bachlechner et al., 2021). With scheme fixup a
    scalar bias precedes linear layers (one for layers with the same input) and activations, and a multiplier ends each
    branch. With scheme weight_norm all linear layers except the head are normalized.

    Args:
        depth: number of layers of the encoder.
        width: features of each position, even and a multiple of heads.
        heads: number of heads of each attention.
        hidden: features between the two layers of a feed-forward part; null for twice the width.
        decoder_depth: number of layers of the decoder; null for as many as the encoder has.
        norm: post for a norm after each addition, pre for a norm at the start of each branch and one at the end of each
            stack, or none.
        tied: decoder if the head shares the weight of the decoder's embedding, all if the encoder's embedding does,
            too, which needs one vocabulary, or none.
        dropout: dropout rate of embeddings and the ends of branches; 0.1 in fairseq, 0.3 in its recipe for IWSLT.
        attention_dropout: dropout rate of the weights of attentions.
        activation_dropout: dropout rate behind the ReLUs.
        inputs: tokens, (2, longest sentence); a batch may be shorter. The vocabulary is the source's.
        outputs: number of logits at each position: the size of the target's vocabulary.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none, and fixup
            needs an untied head.

    Raises:
        ArgumentError: a size or rate is impossible, the inputs are not pairs of sentences, embeddings of different
            vocabularies are tied, or a norm or a tied head does not fit the scheme.
    """

    def __init__(
        self,
        depth: int = 6,
        width: int = 512,
        heads: int = 4,
        hidden: int | None = None,
        decoder_depth: int | None = None,
        norm: NormPlace = "post",
        tied: Tied = "decoder",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        *,
        inputs: Inputs = Inputs((2, 1024), 8848),
        outputs: int = 6632,
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        decoder_depth = depth if decoder_depth is None else decoder_depth
        for name, number in (("depth", depth), ("decoder_depth", decoder_depth)):
            if not 1 <= number <= _DEEPEST:
                raise ArgumentError(f"must be from 1 to {_DEEPEST}, got {number}", name)
        hidden = 2 * width if hidden is None else hidden
        sizes = Sizes(width, hidden, heads, norm, dropout, attention_dropout, activation_dropout, scheme)
        if inputs.vocabulary is None or not inputs.are_sentence_pairs:
            raise ArgumentError(f"must be (2, positions) of tokens, got {inputs}", "inputs")
        if tied == "all" and outputs != inputs.vocabulary:
            raise ArgumentError(
                f"must be decoder or none for vocabularies of {inputs.vocabulary} and {outputs}, got all", "tied"
            )
        check_norm(scheme, norm)
        if scheme in STATED and tied != "none":
            raise ArgumentError(
                f"must be none for scheme fixup, whose first rule sets the head to 0, got {tied}", "tied"
            )
        longest = inputs.shape[1]
        # A tied layer allocates no weight.
        target = nn.Embedding(outputs, width, PAD, device="meta" if tied == "all" else None)
        head = nn.Linear(width, outputs, bias=False, device=None if tied == "none" else "meta")
        source = nn.Embedding(inputs.vocabulary, width, PAD)
        if tied == "all":
            target.weight = source.weight
        if tied != "none":
            head.weight = target.weight
        self.encoder = Encoder(source, [EncoderLayer(sizes) for _ in range(depth)], sizes, longest)
        self.decoder = Decoder(target, head, [DecoderLayer(sizes) for _ in range(decoder_depth)], sizes, longest)

    def forward(self, pair: Tensor) -> Tensor:
        """Map pairs (N, 2, L), int64, to logits (N, L, outputs) for the token that follows each of the target."""
        source, target = pair.unbind(1)
        mask = _attended(source)
        logits: Tensor = self.decoder(target, self.encoder(source, mask), mask)
        return logits

    def encode(self, source: Tensor) -> Tensor:
        """Map source tokens (N, S), int64, to the encoder's output (N, S, width)."""
        encoded: Tensor = self.encoder(source, _attended(source))
        return encoded

    def start(self, source: Tensor) -> State:
        """Return the state before the first target token of sources (N, S), int64."""
        return self.decoder.start(self.encode(source), _attended(source))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return logits (N, outputs) for the tokens that follow `tokens` (N,), int64, and the state after these."""
        return self.decoder.step(tokens, state)
