"""Any text in files."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from initbench.data.bpe import check_vocabulary, encode, token_bytes, trained_tokenizer
from initbench.data.content import content_hash
from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.text import BYTES, SIZES, byte_tokens, check_blocks, check_shares, cut, join, pack, read_text
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset

_SPLITS = ("train", "validation", "test")
_MAGIC = frozenset("*?[")
_SHARE = 0.05  # of files, for validation and for test
# A path or pattern, or several of them; a trial's id does not depend on a Path.
Paths = Path | tuple[str, ...] | None


def _describe(**arguments: Any) -> Description:
    vocabulary = _check(arguments)
    named = {
        f"{role}/{index:06}": path for role, paths in _paths(arguments).items() for index, path in enumerate(paths)
    }
    content = content_hash(data_root(), named, f"text_file finds relative paths below {data_root()} (INITBENCH_DATA)")
    return Description(Inputs((arguments["context"],), vocabulary), vocabulary, content)


@register_dataset("text_file", task="language_modelling", describe=_describe)
def text_file(
    train: Paths = None,
    validation: Paths = None,
    test: Paths = None,
    files: Paths = None,
    *,
    validation_share: float = _SHARE,
    test_share: float = _SHARE,
    tokenizer: Literal["bytes", "bpe"] = "bytes",
    vocabulary: int | None = None,
    context: int = 256,
    train_size: int | None = None,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """UTF-8 files as blocks of tokens: a list of files for each split, or files that are cut into splits.

    A path or a pattern such as ``books/*.txt`` (``**`` for any folders) is absolute, or relative to the data root
    ($INITBENCH_DATA, or ./data) so that it is found on every node. Files that match a pattern are sorted by path. The
    files of a split are joined with the byte 0 between them. The identity of the text depends on its bytes and their
    order, not on the paths.

    Args:
        train: the text to train on: a path or pattern, or a list of them.
        validation: likewise, the text for validation; null for none.
        test: likewise, the text for test.
        files: likewise, all the text, instead of these three: the beginning is for training, the end for test.
        validation_share: share of the bytes of files for validation, just before the test part; 0 for none.
        test_share: share of the bytes of files for test.
        tokenizer: bytes, or bpe, which merges the most frequent pairs in the training text.
        vocabulary: number of tokens for bpe, at least 257; null for bytes.
        context: tokens per block.
        train_size: number of training blocks, chosen at random; null for all. A tokenizer reads the whole training
            text.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size or share is impossible, a required split is missing, a file is in two splits, or the
            training text has too few pairs for the vocabulary.
        DataError: a file is missing, unreadable or not UTF-8, a pattern matches no file, or a split is shorter than a
            block.
    """
    arguments = dict(locals())
    size = _check(arguments)
    text_of = {role: join(read_text("text_file", path) for path in paths) for role, paths in _paths(arguments).items()}
    if files is not None:
        texts = cut(text_of["files"], validation_share, test_share)
    else:
        texts = (text_of["train"], text_of.get("validation", b""), text_of["test"])
    if tokenizer == "bytes":
        first, second, third = map(byte_tokens, texts)
        lengths = None
    else:
        trained = trained_tokenizer(texts[0], size, data_root())
        first, second, third = (encode(trained, text) for text in texts)
        lengths = token_bytes(trained)
    sizes = {"train_size": train_size, "validation_size": validation_size, "test_size": test_size}
    return pack("text_file", (first, second, third), context=context, sizes=sizes, token_bytes=lengths)


def _check(arguments: Mapping[str, Any]) -> int:
    """Refuse arguments that are wrong whatever the files contain; return the size of the vocabulary."""
    check_blocks(arguments["context"], **{name: arguments[name] for name in SIZES})
    given = [split for split in _SPLITS if arguments[split] is not None]
    if arguments["files"] is not None:
        if given:
            raise ArgumentError("cannot be combined with files, which are cut into all splits", given[0])
        check_shares(arguments["validation_share"], arguments["test_share"])
    elif missing := [split for split in ("train", "test") if split not in given]:
        raise ArgumentError("is required: train and test, or files that are cut into splits", missing[0])
    elif shares := [name for name in ("validation_share", "test_share") if arguments[name] != _SHARE]:
        raise ArgumentError("is for files, which are cut into splits", shares[0])
    if arguments["tokenizer"] == "bpe":
        return check_vocabulary(arguments["vocabulary"])
    if arguments["vocabulary"] is not None:
        raise ArgumentError("is for tokenizer bpe; bytes are always 256", "vocabulary")
    return BYTES


def _paths(arguments: Mapping[str, Any]) -> dict[str, list[Path]]:
    roles: dict[Path, str] = {}
    paths: dict[str, list[Path]] = {}
    for role in (*_SPLITS, "files"):
        if arguments[role] is None:
            continue
        patterns = arguments[role] if isinstance(arguments[role], tuple) else (str(arguments[role]),)
        if not patterns:
            raise ArgumentError("must not be empty", role)
        paths[role] = list(dict.fromkeys(path for pattern in patterns for path in _matches(role, pattern)))
        for path in paths[role]:
            other = roles.setdefault(path.resolve(), role)  # resolves links and different spellings
            if other != role:
                raise ArgumentError(f"has {path}, which is also in {other}: no text may be in two splits", role)
    return paths


def _matches(role: str, pattern: str) -> list[Path]:
    """Return the files that a path or a pattern stands for."""
    root = data_root()
    path = root / Path(pattern).expanduser()
    if _MAGIC.isdisjoint(pattern) or path.exists():  # a file name may contain such characters
        return [path]
    if path.parts[:2] == (path.anchor, "**"):
        raise ArgumentError(f"must name a folder before **, which would search the whole machine, got {pattern}", role)
    # `Path.glob` does not accept absolute patterns.
    names = glob.glob(str(Path(pattern).expanduser()), root_dir=root, recursive=True)  # noqa: PTH207
    files = sorted({root / name for name in names if (root / name).is_file()}, key=lambda file: file.as_posix())
    if not files:
        raise DataError(
            f"text_file: {role}: no file matches {pattern} in {root}: set INITBENCH_DATA, or an absolute path"
        )
    return files
