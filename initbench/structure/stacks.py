"""The stacks of a Transformer: an encoder, a decoder, or both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from initbench.errors import InitializationError
from initbench.structure.find import Structure
from initbench.structure.residual import ResidualBranch


@dataclass(frozen=True)
class Stack:
    """Transformer layers one after another.

    Attributes:
        kind: ``encoder`` or ``decoder`` of a pair; ``single`` for a stack alone, whether encoder or decoder.
        layers: the number of layers: N or M in papers.
        branches: the residual branches: two in each layer, three in the decoder of a pair.
    """

    kind: Literal["single", "encoder", "decoder"]
    layers: int
    branches: tuple[ResidualBranch, ...]


def transformer_stacks(structure: Structure) -> tuple[Stack, ...]:
    """Return the stacks of a model, the encoder first.

    A residual branch continues the stack of the branch whose sum it is added to; otherwise it begins a stack. An
    attention and a feed-forward part make a layer, in the decoder of a pair two attentions and a feed-forward part.

    Raises:
        InitializationError: branches or attentions cannot be determined, or these are no such stacks.
    """
    for what, words in (("branches", "residual branches"), ("attention", "attentions")):
        if what in structure.unknown:
            raise InitializationError(f"the {words} cannot be determined: {structure.unknown[what]}")
    rows = _rows(structure.branches)
    outputs = {layer for attention in structure.attention for layer in attention.output}
    counts = []
    for row in rows:
        attentions = sum(not outputs.isdisjoint((*branch.inner, *branch.ends)) for branch in row)
        counts.append((attentions, len(row) - attentions))
    match counts:
        case [(attentions, layers)] if layers == attentions:
            return (Stack("single", layers, tuple(rows[0])),)
        case [(attentions, n), (more, m)] if n == attentions and more == 2 * m:
            return Stack("encoder", n, tuple(rows[0])), Stack("decoder", m, tuple(rows[1]))
    said = " and ".join(f"{attentions} attentions with {others} other branches" for attentions, others in counts)
    raise InitializationError(
        "needs one stack of Transformer layers, or an encoder and a decoder with cross-attention, each with a "
        f"feed-forward part; the network has {said or 'no residual branches'}"
    )


def _rows(branches: Iterable[ResidualBranch]) -> list[list[ResidualBranch]]:
    rows: list[list[ResidualBranch]] = []
    ends: list[set[str]] = []
    for branch in branches:
        row = next((n for n, known in enumerate(ends) if not known.isdisjoint(branch.follows)), len(rows))
        if row == len(rows):
            rows.append([])
            ends.append(set())
        rows[row].append(branch)
        ends[row].update(branch.ends)
    return rows


def require_post_norm(stacks: Iterable[Stack]) -> None:
    """Raise an InitializationError unless a normalization follows each sum."""
    for branch in (branch for stack in stacks for branch in stack.branches):
        if branch.norm is None:
            where = branch.block or "the model"
            raise InitializationError(f"needs a norm after each addition (norm: post), and {where} adds without one")


def require_no_norm(structure: Structure) -> None:
    """Raise an InitializationError if the model has a normalization."""
    if structure.norms:
        raise InitializationError(
            f"is for networks without normalization (norm: none), and there is {structure.norms[0]}"
        )
