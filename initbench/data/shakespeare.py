"""Tiny Shakespeare (Karpathy, 2015): parts of Shakespeare's plays, 1.1 MB."""

from __future__ import annotations

import tempfile
from pathlib import Path

from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.published import download, read_published
from initbench.data.text import BYTES, byte_tokens, check_blocks, cut, pack
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset

URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
# SHA-256 of the file, 1,115,394 bytes.
CONTENT = "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
FILE = "shakespeare/input.txt"
_SHARE = 0.05


def _describe(*, context: int, **sizes: int | None) -> Description:
    check_blocks(context, **sizes)
    return Description(Inputs((context,), BYTES), BYTES, CONTENT)


@register_dataset(
    "shakespeare",
    task="language_modelling",
    describe=_describe,
    reference="Karpathy, 2015, The Unreasonable Effectiveness of Recurrent Neural Networks (char-rnn)",
)
def shakespeare(
    context: int = 256,
    train_size: int | None = None,
    *,
    validation_size: int | None = None,
    test_size: int | None = None,
) -> Splits:
    """Parts of Shakespeare's plays, 1.1 MB, as blocks of bytes: the first 90 % for training, then 5 % each.

    Validation comes before test. The file is read from the data root, and downloaded into it on first use.

    Args:
        context: tokens per block; a token is a byte.
        train_size: number of training blocks, chosen at random; null for all.
        validation_size: likewise for validation; 0 for none.
        test_size: likewise for test.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: the file is missing, unreadable or different from the published one, or a split is shorter than a
            block.
    """
    sizes = {"train_size": train_size, "validation_size": validation_size, "test_size": test_size}
    root = data_root()
    path = root / FILE
    download(
        "shakespeare",
        root,
        present=path.is_file,
        fetch=lambda: _fetch(path, root),
        instructions=f"put {URL} into {path.parent} as {path.name}",
    )
    text = read_published("shakespeare", path, CONTENT, decompress=False)
    train, validation, test = map(byte_tokens, cut(text, _SHARE, _SHARE))
    return pack("shakespeare", (train, validation, test), context=context, sizes=sizes)


def _fetch(path: Path, root: Path) -> None:
    """Download the file; it appears only when it is complete and matches the published one."""
    from torch.hub import download_url_to_file

    with tempfile.TemporaryDirectory(dir=root) as temporary:
        part = Path(temporary, path.name)
        download_url_to_file(URL, str(part), CONTENT.removeprefix("sha256:"), progress=False)
        path.parent.mkdir(exist_ok=True)
        part.replace(path)
