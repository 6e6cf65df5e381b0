"""Byte-level byte-pair encoding (Sennrich et al., 2016; Radford et al., 2019), using the library tokenizers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initbench.data import cache
from initbench.data.text import BYTES
from initbench.errors import ArgumentError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_KIND = "tokenizers"
# Raise it when the tokenizer of the same text changes.
_FORMAT = 1
# A pair that occurs only once is not merged.
_LEAST_COUNT = 2
# Bytes of text that are encoded together, extended to the end of the line.
_PIECE = 2**16


def check_vocabulary(vocabulary: int | None) -> int:
    if vocabulary is None:
        raise ArgumentError(f"is required for tokenizer bpe: a number of tokens from {BYTES + 1}", "vocabulary")
    if vocabulary <= BYTES:
        raise ArgumentError(
            f"must be at least {BYTES + 1}, the {BYTES} bytes and a pair, got {vocabulary}", "vocabulary"
        )
    return vocabulary


def trained_tokenizer(text: bytes, vocabulary: int, root: Path, reserved: int = 0) -> Tokenizer:
    """Return the tokenizer of a UTF-8 training text, from a cache below `root` if it has an intact entry.

    Tokens are the 256 bytes and the most frequent pairs of tokens, merged one after another. No pair crosses the end of
    a line or the byte 0, which separates files; within lines, text is split into words as for GPT-2. The
    tokenizer has `reserved` tokens less than the vocabulary, for the caller's own.
    """
    from tokenizers import Tokenizer

    wanted = vocabulary - reserved
    key = _key(text, wanted)
    known = cache.read(_KIND, key, root)
    if known is None:
        with cache.alone(_KIND, key, root):
            known = cache.read(_KIND, key, root)
            if known is None:
                known = _train(text, wanted).to_str()
                cache.write(_KIND, key, known, root)
    tokenizer = Tokenizer.from_str(known)
    size = tokenizer.get_vocab_size()
    if size < wanted:
        most = size + reserved
        raise ArgumentError(
            f"must be at most {most}, because the training text has no more pairs, got {vocabulary}", "vocabulary"
        )
    return tokenizer


def encode(tokenizer: Tokenizer, text: bytes) -> Tensor:
    """Return the tokens of a text, int64, 1-dim."""
    tokens = [torch.empty(0, dtype=torch.int64)]
    for piece in _pieces(text):
        (encoded,) = tokenizer.encode_batch_fast([piece])  # without the tokens' positions in the text
        tokens.append(torch.tensor(encoded.ids))
    return torch.cat(tokens)


def token_bytes(tokenizer: Tokenizer) -> Tensor:
    """Return the number of bytes of each token, int64 (vocabulary,)."""
    # In the alphabet of byte-level encoding a character is a byte.
    tokens = tokenizer.get_vocab()
    return torch.tensor([len(token) for token in sorted(tokens, key=tokens.__getitem__)])


def _key(text: bytes, vocabulary: int) -> str:
    return hashlib.sha256(json.dumps([_FORMAT, vocabulary, hashlib.sha256(text).hexdigest()]).encode()).hexdigest()


def _train(text: bytes, vocabulary: int) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\0", "isolated"),
            pre_tokenizers.Split(Regex(r"\n+"), "merged_with_previous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=_LEAST_COUNT,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_pieces(text), trainer)
    return tokenizer


def _pieces(text: bytes) -> Iterator[str]:
    """Yield a text in pieces; encoding them gives the same tokens, because no token crosses the end of a line."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + _PIECE) + 1
        while 0 < end < len(text) and text[end : end + 1] == b"\n":  # line ends in a row stay together
            end += 1
        end = end or len(text)
        yield text[start:end].decode()
        start = end
