"""Pack a suite's folder into one small file, from which its report can be made again.

    python docs/scripts/pack_ledger.py runs/metainit-table1-twin docs/results/papers/metainit_table1.tar.xz

Of each record the history of single steps without an evaluation is left out, which takes most of the room, unless the
suite states a claim or a published number about the training loss over it. All else that claims are judged by is kept:
metrics on the validation and the test split, measurements per layer, and what the initializer did to each tensor.

To make the report of a packed ledger:

    mkdir ledger && tar -xf docs/results/papers/metainit_table1.tar.xz -C ledger && initbench report ledger
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

from initbench.comparing.metrics import MEAN_TRAIN_LOSS
from initbench.reporting.resolved import read_stated

KEPT = ("suite.yaml", "resolved.json")
# Bytes that an archive may unpack to, more than ten times as many as the largest one takes.
MOST_BYTES = 400_000_000


def packed(record: dict[str, Any], *, steps: bool = False) -> dict[str, Any]:
    """Return a record without the steps between evaluations, which are long and by which no claim is judged.

    Args:
        record: as plain data.
        steps: whether the history of single steps is kept.
    """
    if steps:
        return record
    return record | {"history": [entry for entry in record["history"] if _is_kept(entry)]}


def _is_kept(entry: dict[str, Any]) -> bool:
    """Return whether an entry of a history ends an epoch or has an evaluation."""
    return float(entry.get("epoch", 0)).is_integer() or any(key.startswith(("test_", "validation_")) for key in entry)


def reads_steps(folder: Path) -> bool:
    """Return whether what a suite says of papers is about the training loss over its history."""
    stated = read_stated(folder)
    if stated is None:
        return False
    measures = {criterion.measure for claim in stated.claims for _, criterion in claim.all_criteria()}
    measures |= {number.measure for number in (stated.published.numbers if stated.published else ())}
    return MEAN_TRAIN_LOSS in measures


def pack(folder: Path, archive: Path) -> int:
    """Write the archive and return its size in bytes.

    Args:
        folder: of a suite, with ``trials/``.
        archive: ends in ``.tar.xz``; its folder is made.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    steps = reads_steps(folder)
    files = {name: (folder / name).read_bytes() for name in KEPT}
    for path in sorted((folder / "trials").glob("*.json")):
        record = packed(json.loads(path.read_text(encoding="utf-8")), steps=steps)
        files[f"trials/{path.name}"] = json.dumps(record).encode()  # layers in the order in which they run
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)  # without times and owners: equal ledgers give equal archives
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive.stat().st_size


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of an archive that `pack` made.

    Not by `TarFile.extractall`, which has no safe way before Python 3.11.4 and warns of the other since 3.12.

    Args:
        archive: the packed ledger.
        folder: where its files are written; it is made.

    Raises:
        ValueError: it is no such archive, or a large one; a file would lie outside the folder, or is no plain file.
    """
    try:
        with lzma.open(archive) as file:
            unpacked = file.read(MOST_BYTES + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{archive}: is no .tar.xz ({error})") from None
    if len(unpacked) > MOST_BYTES:
        raise ValueError(f"{archive}: unpacks to more than {MOST_BYTES // 1_000_000} MB")
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as tar:
            contents = {member.name: _content(tar, member) for member in tar}
    except (tarfile.TarError, RecursionError) as error:
        raise ValueError(f"{archive}: is no .tar.xz ({error})") from None
    files = {}
    for name, content in contents.items():
        path = (folder / name).resolve()
        if content is None or folder.resolve() not in path.parents:
            raise ValueError(f"{archive}: {name} is no file of a ledger")
        files[path] = content
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | None:
    """Return what a plain file holds, None of all else: links lead anywhere, and a sparse file has any size."""
    plain = member.isreg() and not member.issparse()
    file = tar.extractfile(member) if plain else None
    return None if file is None else file.read()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: pack_ledger.py FOLDER ARCHIVE.tar.xz")
    print(f"{sys.argv[2]}: {pack(Path(sys.argv[1]), Path(sys.argv[2])):,} bytes")
