"""IWSLT'14 German–English (Cettolo et al., 2014): subtitles of talks, as fairseq prepares them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.parallel_text import Lines, ParallelFiles, check_parallel, encoded
from initbench.errors import DataError
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset

FOLDER = "iwslt14"
LINES = {"train": 160_239, "validation": 7_283, "test": 6_750}
"""The lines of each split, as fairseq's script prepares them."""
_STEMS = {"train": "train", "validation": "valid", "test": "test"}
_MARK = "@@ "
"""Stands after a part of a word in files to which subword-nmt was applied."""


def _files(source: str) -> ParallelFiles:
    root, target = data_root() / FOLDER, "en" if source == "de" else "de"
    return ParallelFiles(
        "iwslt14", {split: (root / f"{stem}.{source}", root / f"{stem}.{target}") for split, stem in _STEMS.items()}
    )


def _instructions(root: Path) -> str:
    return (
        "run examples/translation/prepare-iwslt14.sh of fairseq, which downloads the talks, and copy "
        f"{{train,valid,test}}.{{de,en}} from iwslt14.tokenized.de-en/tmp/ to {root}"
    )


def _describe(
    *, source: Literal["de", "en"], vocabulary: int, joint: bool, longest: int, **sizes: int | None
) -> Description:
    check_parallel(vocabulary, longest, sizes)
    root, inputs = data_root() / FOLDER, Inputs((2, longest), vocabulary)
    if not root.exists():
        return Description(inputs, vocabulary, absent=f"iwslt14: {root} is missing: {_instructions(root)}")
    return Description(inputs, vocabulary, _files(source).content(_instructions(root)))


@register_dataset(
    "iwslt14",
    task="translation",
    describe=_describe,
    reference="Cettolo et al., 2014, Report on the 11th IWSLT evaluation campaign",
)
def iwslt14(
    source: Literal["de", "en"] = "de",
    *,
    vocabulary: int = 10_000,
    joint: bool = True,
    longest: int = 256,
    train_size: int | None = None,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """IWSLT'14 German–English, 160,239 training pairs, tokenized by Moses and lower-cased; nothing is downloaded.

    Run ``examples/translation/prepare-iwslt14.sh`` of fairseq, which downloads the talks, and copy its files from
    before BPE, ``iwslt14.tokenized.de-en/tmp/{train,valid,test}.{de,en}``, to ``iwslt14/`` in the data root
    ($INITBENCH_DATA, or ./data). They must have 160,239, 7,283 and 6,750 lines. Tokens are byte pairs, see
    `parallel_text`; fairseq's BPE starts from characters.

    Args:
        source: the language to translate from; the other one is the target.
        vocabulary: tokens of each language.
        joint: whether both languages share one vocabulary.
        longest: the most tokens of a sentence, with its end; longer training pairs are dropped.
        train_size: number of training pairs, chosen at random; null for all.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: a file is missing, unreadable or not the prepared one, or a sentence of validation or test is too
            long.
    """
    sizes = {"train_size": train_size, "validation_size": validation_size, "test_size": test_size}
    files = _files(source)
    files.content(_instructions(data_root() / FOLDER))  # says what is missing
    lines = files.read()
    _check_lines(files, lines)
    return encoded(files, lines, vocabulary=vocabulary, joint=joint, longest=longest, sizes=sizes)


def _check_lines(files: ParallelFiles, lines: Mapping[str, Lines]) -> None:
    """Refuse files that are not the prepared ones."""
    for split, (source, _) in lines.items():
        path = files.files[split][0]
        if len(source) != LINES[split]:
            raise DataError(
                f"iwslt14: {path} has {len(source):,} lines, the prepared file {LINES[split]:,}: "
                f"{_instructions(path.parent)}"
            )
        if any(_MARK in line for line in source):
            raise DataError(f"iwslt14: {path} is split into parts of words (@@): {_instructions(path.parent)}")
