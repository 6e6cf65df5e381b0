"""Sentences and their translations in text files, one in each line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from initbench.data.bpe import trained_tokenizer
from initbench.data.content import content_hash
from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.prepare import SPLIT_SEED, check_split_sizes, take_first
from initbench.data.sentence_pairs import SentencePairs, before_end
from initbench.data.text import BYTES, read_text
from initbench.errors import ArgumentError, DataError
from initbench.inputs import END, Inputs
from initbench.registry import Description, register_dataset

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_RESERVED = END + 1
"""The number of tokens, `PAD` and `END`, that come before a tokenizer's."""
Lines = tuple[list[str], list[str]]
"""The source and target sentences of a split, in the order of the lines."""


@dataclass(frozen=True)
class ParallelFiles:
    """The source and the target file of each split.

    Attributes:
        dataset: the name of the dataset, for messages.
        files: ``train``, ``validation``, if there is one, and ``test`` → source and target.
    """

    dataset: str
    files: Mapping[str, tuple[Path, Path]]

    def content(self, instructions: str) -> str:
        """Return the hash of the files; a DataError names those that are missing."""
        sides = ("source", "target")
        named = {
            f"{split}/{side}": path
            for split, pair in self.files.items()
            for side, path in zip(sides, pair, strict=True)
        }
        return content_hash(data_root(), named, instructions)

    def read(self) -> dict[str, Lines]:
        """Return the sentences of each split.

        Raises:
            DataError: a file is unreadable or not UTF-8, two files differ in their number of lines, or a split is
                empty.
        """
        texts = {}
        for split, (source, target) in self.files.items():
            first, second = (_lines(read_text(self.dataset, path).decode()) for path in (source, target))
            if len(first) != len(second):
                raise DataError(
                    f"{self.dataset}: {source} has {len(first)} lines and {target} {len(second)}: "
                    "a line of one must be the translation of the same line of the other"
                )
            if not first:
                raise DataError(f"{self.dataset}: the {split} split is empty: {source} has no lines")
            texts[split] = first, second
        return texts


def _lines(text: str) -> list[str]:
    """Return the lines of a text, which end only at a line feed; other ends would differ between the two sides."""
    lines = text.split("\n")
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def check_parallel(vocabulary: int, longest: int, sizes: Mapping[str, int | None]) -> None:
    least = BYTES + _RESERVED + 1
    if vocabulary < least:
        raise ArgumentError(
            f"must be at least {least}: padding, the end of a sentence, the {BYTES} bytes and a pair; got {vocabulary}",
            "vocabulary",
        )
    if longest < 2:
        raise ArgumentError(f"must be at least 2, a token and the end of the sentence, got {longest}", "longest")
    check_split_sizes(**sizes)


def encoded(
    texts: ParallelFiles,
    lines: Mapping[str, Lines],
    *,
    vocabulary: int,
    joint: bool,
    longest: int,
    sizes: Mapping[str, int | None],
) -> Splits:
    """Return the splits of parallel files as tokens; `PAD` and `END` come before a tokenizer's tokens.

    See `parallel_text` for the other arguments and the errors.
    """
    source, target = _tokenizers(lines["train"], vocabulary, joint=joint)
    splits: dict[str, SentencePairs] = {}
    dropped = 0
    for split in ("train", "validation", "test"):
        first, second = lines.get(split, ([], []))
        pairs = list(zip(_tokens(source, first), _tokens(target, second), strict=True))
        fits = [max(map(len, pair)) < longest for pair in pairs]  # with the end of the sentence
        if split == "train":
            dropped = fits.count(False)
            pairs = [pair for pair, kept in zip(pairs, fits, strict=True) if kept]
            if not pairs:
                raise DataError(f"{texts.dataset}: no training pair has at most longest, {longest}, tokens")
        elif False in fits:
            line = fits.index(False)
            tokens, path = max(zip(map(len, pairs[line]), texts.files[split], strict=True))
            raise DataError(
                f"{texts.dataset}: line {line + 1} of {path} has {tokens + 1} tokens, more than longest, {longest}: "
                "give a larger longest"
            )
        kept = _chosen(len(pairs), sizes[f"{split}_size"], f"{split}_size")
        splits[split] = SentencePairs.of([pairs[i][0] for i in kept], [pairs[i][1] for i in kept], longest)
    return Splits(
        *splits.values(),
        facts={"long_pairs_dropped": dropped} if dropped else {},
        detokenize=partial(_text, target),
    )


def _tokenizers(texts: Lines, vocabulary: int, *, joint: bool) -> tuple[Tokenizer, Tokenizer]:
    def trained(lines: Iterable[str]) -> Tokenizer:
        from tokenizers import decoders

        text = "\n".join(map(_spaced, lines)).encode()
        tokenizer = trained_tokenizer(text, vocabulary, data_root(), reserved=_RESERVED)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    if joint:
        return (both := trained([*texts[0], *texts[1]])), both
    return trained(texts[0]), trained(texts[1])


def _spaced(line: str) -> str:
    """Return a line whose first word is tokenized as it is within a sentence, after a space."""
    return f" {line}" if line else ""


def _tokens(tokenizer: Tokenizer, lines: Sequence[str]) -> list[list[int]]:
    return [[token + _RESERVED for token in tokenizer.encode(_spaced(line)).ids] for line in lines]


def _text(tokenizer: Tokenizer, tokens: Iterable[int]) -> str:
    return str(tokenizer.decode([token - _RESERVED for token in before_end(tokens)])).removeprefix(" ")


def _chosen(count: int, size: int | None, argument: str) -> list[int]:
    """Return the indices of the pairs to take, in the order of the lines; smaller subsets are parts of larger ones."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(SPLIT_SEED))
    chosen: list[int] = take_first(order, size, argument).sort().values.tolist()
    return chosen


def _files(folder: Path, source: str, target: str, train: Path, validation: Path | None, test: Path) -> ParallelFiles:
    stems = {"train": train, "validation": validation, "test": test}
    root = data_root() / folder
    files = {
        split: (root / f"{stem}.{source}", root / f"{stem}.{target}")
        for split, stem in stems.items()
        if stem is not None
    }
    return ParallelFiles("parallel_text", files)


def _instructions() -> str:
    return f"parallel_text reads FOLDER/SPLIT.LANGUAGE, relative to {data_root()} (INITBENCH_DATA)"


def _describe(
    *,
    folder: Path,
    source: str,
    target: str,
    train: Path,
    validation: Path | None,
    test: Path,
    vocabulary: int,
    joint: bool,
    longest: int,
    **sizes: int | None,
) -> Description:
    check_parallel(vocabulary, longest, sizes)
    if source == target:
        raise ArgumentError(f"must differ from source, got {target}", "target")
    if len({train, validation, test}) < 3:
        raise ArgumentError("must name other files than train and validation: no text may be in two splits", "test")
    inputs, root = Inputs((2, longest), vocabulary), data_root() / folder
    if not root.exists():
        return Description(inputs, vocabulary, absent=f"parallel_text: {root} is missing: {_instructions()}")
    files = _files(folder, source, target, train, validation, test)
    return Description(inputs, vocabulary, files.content(_instructions()))


@register_dataset(
    "parallel_text",
    task="translation",
    describe=_describe,
    reference="Sennrich et al., 2016, Neural Machine Translation of Rare Words with Subword Units (arXiv 1508.07909)",
)
def parallel_text(
    folder: Path = Path("parallel_text"),
    source: str = "de",
    target: str = "en",
    *,
    train: Path = Path("train"),
    validation: Path | None = Path("valid"),
    test: Path = Path("test"),
    vocabulary: int = 10_000,
    joint: bool = True,
    longest: int = 128,
    train_size: int | None = None,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """Sentences and their translations: two UTF-8 files for each split, such as train.de and train.en.

    A line and the same line of the other file are a pair. Tokens are byte pairs (BPE) that start from the 256 bytes, so
    that no text has unknown tokens; the most frequent pairs of the training split are merged, and nothing else is read
    for it. Token 0 is padding and token 1 the end of a sentence. Spaces at the ends of a line are dropped. The identity
    of the data depends on the bytes of the files, not on their paths.

    Args:
        folder: the folder of the files, absolute or relative to the data root ($INITBENCH_DATA, or ./data).
        source: the ending of the source files.
        target: the ending of the target files.
        train: the training files without their ending; the library appends a dot and the ending.
        validation: likewise, the validation files; null for none.
        test: likewise, the test files.
        vocabulary: tokens of each language, at least 259.
        joint: whether both languages share one vocabulary, fitted on both sides; otherwise each has its own.
        longest: the most tokens of a sentence, with its end, and the positions of a model. Training pairs with a longer
            side are dropped, and the record has their number. In the other splits a longer sentence is an error, so
            that all trials are measured on the same text.
        train_size: number of training pairs, chosen at random; null for all. The tokens are fitted on all.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size exceeds the data, or the training text has too few pairs for the vocabulary.
        DataError: a file is missing, unreadable or not UTF-8, two files differ in their number of lines, a split is
            empty, or a sentence of validation or test is too long.
    """
    sizes = {"train_size": train_size, "validation_size": validation_size, "test_size": test_size}
    files = _files(folder, source, target, train, validation, test)
    files.content(_instructions())  # says what is missing
    return encoded(files, files.read(), vocabulary=vocabulary, joint=joint, longest=longest, sizes=sizes)
