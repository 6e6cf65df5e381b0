"""Counts the lines of the library by room, with its templates and YAML, and of the scripts beside it.

    python tests/bitwise/lines.py [COMMIT]

Of a commit, or of this tree as it is.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = "initbench"
BESIDE = ("docs/scripts", "analysis", "benchmarks", "tests")
_NO_TEXT = {".gz", ".png", ".svg", ".npz", ".xz", ".pyc", ".pt"}


def main() -> None:
    """Print the counts."""
    commit = sys.argv[1] if len(sys.argv) > 1 else None
    rooms: dict[str, Counter[str]] = {}
    beside: dict[str, Counter[str]] = {folder: Counter() for folder in BESIDE}
    for name in _names(commit):
        path = PurePosixPath(name)
        if path.suffix in _NO_TEXT:
            continue
        if path.parts[0] == LIBRARY:
            room = path.parts[1] if len(path.parts) > 2 else "(top level)"
            counts = rooms.setdefault(room, Counter())
        else:
            counts = beside[next(folder for folder in BESIDE if path.is_relative_to(folder))]
        lines = _text(commit, name).count(b"\n")
        counts += Counter({"files": 1, "lines": lines, path.suffix: lines})
    print(f"{'':18}{'files':>7}{'lines':>8}{'.py':>8}")
    for room, counts in sorted(rooms.items(), key=lambda item: -item[1]["lines"]):
        _print(room, counts)
    _print("the library", sum(rooms.values(), Counter()))
    for folder, counts in beside.items():
        _print(folder, counts)


def _print(name: str, counts: Counter[str]) -> None:
    print(f"{name:18}{counts['files']:7}{counts['lines']:8}{counts['.py']:8}")


def _names(commit: str | None) -> list[str]:
    folders = (LIBRARY, *BESIDE)
    if commit is None:  # also what is not committed yet, and not what has been removed
        listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "--", *folders)
        return sorted({name for name in listed.decode().splitlines() if (ROOT / name).is_file()})
    return _git("ls-tree", "-r", "--name-only", commit, "--", *folders).decode().splitlines()


def _text(commit: str | None, name: str) -> bytes:
    return (ROOT / name).read_bytes() if commit is None else _git("show", f"{commit}:{name}")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=True).stdout


if __name__ == "__main__":
    main()
