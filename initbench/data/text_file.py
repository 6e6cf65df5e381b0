"""Any text that lies in files."""

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
# What a user may write: a path or a pattern, or several; of a Path a trial's id does not depend.
Paths = Path | tuple[str, ...] | None


def _describe(**arguments: Any) -> Description:
    vocabulary = _check(arguments)
    named = {
        f"{role}/{index:06}": path for role, paths in _found(arguments).items() for index, path in enumerate(paths)
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
    validation_share: float = 0.05,
    test_share: float = 0.05,
    tokenizer: Literal["bytes", "bpe"] = "bytes",
    vocabulary: int | None = None,
    context: int = 256,
    train_size: int | None = None,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """UTF-8 files as blocks of tokens: a list of files for each split, or files that are cut into splits.

    A path or a pattern such as ``books/*.txt`` (``**`` for any folders) is relative to the data root ($INITBENCH_DATA,
    else ./data), so that it is found on every node; or it is absolute. What a pattern finds is sorted by path. The
    files of a split are joined with the byte 0 between them. The text is known by its bytes and their order, whatever
    the paths.

    Args:
        train: a path or pattern, or several in a list: the text to train on.
        validation: likewise, the text for validation; null for none.
        test: likewise, the text for test.
        files: likewise, in the place of these three: all the text, whose beginning is to train on and whose end is the
            test.
        validation_share: of the bytes of files, what is before the test; 0 for none.
        test_share: of the bytes of files.
        tokenizer: bytes, each a token; or bpe, byte pairs merged as they are frequent in the training text alone.
        vocabulary: how many tokens of bpe, at least 257; null for bytes.
        context: tokens of a block.
        train_size: how many training blocks to take, chosen at random; null for all. A tokenizer reads all the text.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size or a share is impossible, it is not said what each split is, a file is in two splits, or
            the training text does not give so many tokens.
        DataError: a file is missing, unreadable or not UTF-8, a pattern finds none, or a split is shorter than a block.
    """
    arguments = {
        "train": train,
        "validation": validation,
        "test": test,
        "files": files,
        "validation_share": validation_share,
        "test_share": test_share,
        "tokenizer": tokenizer,
        "vocabulary": vocabulary,
        "context": context,
        "train_size": train_size,
        "validation_size": validation_size,
        "test_size": test_size,
    }
    size = _check(arguments)
    text_of = {role: join(read_text("text_file", path) for path in paths) for role, paths in _found(arguments).items()}
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
    """Refuse what no files could mend; return the size of the vocabulary."""
    check_blocks(arguments["context"], **{name: arguments[name] for name in SIZES})
    given = [split for split in _SPLITS if arguments[split] is not None]
    if arguments["files"] is not None:
        if given:
            raise ArgumentError("cannot be given beside files, which are cut into all splits", given[0])
        check_shares(arguments["validation_share"], arguments["test_share"])
    elif missing := [split for split in ("train", "test") if split not in given]:
        raise ArgumentError("is required: train and test, or files that are cut into splits", missing[0])
    if arguments["tokenizer"] == "bpe":
        return check_vocabulary(arguments["vocabulary"])
    if arguments["vocabulary"] is not None:
        raise ArgumentError("is for tokenizer bpe; bytes are always 256", "vocabulary")
    return BYTES


def _found(arguments: Mapping[str, Any]) -> dict[str, list[Path]]:
    """Return the files of each split, or of ``files``."""
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
            other = roles.setdefault(path.resolve(), role)  # however it is written, or linked to
            if other != role:
                raise ArgumentError(f"has {path}, which is in {other} too: no text may be in two splits", role)
    return paths


def _matches(role: str, pattern: str) -> list[Path]:
    """Return the files that a path or a pattern stands for."""
    root = data_root()
    path = root / Path(pattern).expanduser()
    if _MAGIC.isdisjoint(pattern) or path.exists():  # a file may have such characters in its name
        return [path]
    if path.parts[:2] == (path.anchor, "**"):
        raise ArgumentError(f"must name a folder before **, which would search the whole machine, got {pattern}", role)
    # `Path.glob` takes no absolute pattern.
    names = glob.glob(str(Path(pattern).expanduser()), root_dir=root, recursive=True)  # noqa: PTH207
    files = sorted({root / name for name in names if (root / name).is_file()}, key=lambda file: file.as_posix())
    if not files:
        raise DataError(
            f"text_file: {role}: no file matches {pattern} in {root}: set INITBENCH_DATA, or an absolute path"
        )
    return files
