"""Proves that every suite comes to the same trials: its plans by a commit and by this tree, row by row.

    python tests/bitwise/compare_plans.py COMMIT [--only PATTERN]

The commit is checked out in a temporary worktree, and both versions plan its suites, each in a process of its own:
without files of data, with some in the formats that suites ask for where trials wait for them, with `--only` and
`--smoke`, and with a search that is half done. Each trial's spec, id, cell and identity must be equal, where it is
compared and why it does not run, the order of the trials, and what ``initbench plan --json`` prints. The exit status is
0 if everything is equal, 1 if not, and 2 if the request cannot be met.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # as a script: for the sake of the imports below

from bitwise.compare import ROOT, RequestError, checked_out
from bitwise.trees import flat
from bitwise.versions import Version, VersionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SHOWN = 12
_TREES = {"cifar10-jpeg": (10, "test"), "imagenet": (1000, "val")}


class Compared(NamedTuple):
    """What the plans of two versions have in common.

    Attributes:
        suites: how many were planned.
        cases: in how many ways, all suites together.
        rows: how many rows the older version has.
        different: a line for each value that differs.
    """

    suites: int
    cases: int
    rows: int
    different: list[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and return the exit status.

    Args:
        arguments: of the command line.
    """
    parser = argparse.ArgumentParser(prog="compare_plans.py", description="Compare the plans of two versions.")
    parser.add_argument("commit", help="the reference")
    parser.add_argument("--only", metavar="PATTERN", help="suites whose path below suites/ holds or matches this")
    options = parser.parse_args(arguments)
    try:
        found = _run(options.commit, options.only)
    except (RequestError, VersionError) as error:
        print(f"compare_plans.py: {error}", file=sys.stderr)
        return 2
    for line in found.different[:SHOWN]:
        print(line)
    if len(found.different) > SHOWN:
        print(f"and {len(found.different) - SHOWN} more")
    result = f"{len(found.different)} values differ" if found.different else "all are equal"
    print(f"{found.suites} suites, {found.cases} cases, {found.rows} rows: {result}")
    return int(bool(found.different))


def _run(commit: str, pattern: str | None) -> Compared:
    with checked_out(commit) as tree:
        suites = suites_of(tree / "suites", pattern)
        if not suites:
            raise RequestError(f"--only {pattern}: no suite has such a path")
        return compare_plans(Version(tree), Version(ROOT), suites)


def suites_of(folder: Path, pattern: str | None = None) -> dict[str, Path]:
    """Return the suite files below a folder by their names in it, those that hold or match a pattern."""
    files = {file.relative_to(folder).with_suffix("").as_posix(): file for file in sorted(folder.rglob("*.yaml"))}
    return {name: file for name, file in files.items() if not pattern or pattern in name or fnmatchcase(name, pattern)}


def compare_plans(old: Version, new: Version, suites: Mapping[str, Path]) -> Compared:
    """Return what the plans of two versions have in common.

    Args:
        old: the reference.
        new: what is compared with it.
        suites: files by name.

    Raises:
        VersionError: a version gives no answer.
    """
    with tempfile.TemporaryDirectory(prefix="initbench-plans-") as temporary:
        folder = Path(temporary)
        make_data(folder / "data")
        files = {name: str(file) for name, file in suites.items()}

        def planned(side: str, version: Version) -> dict[str, list[str]]:
            output = folder / side
            request = {"suites": files, "data": str(folder / "data"), "output": str(output)}
            answers = version.ask("plans_worker", request, {"XDG_CACHE_HOME": str(folder / "cache")})
            cases = [f"{answer['suite']}/{answer['case']}" for answer in answers]
            return {case: (output / case).read_text(encoding="utf-8").splitlines() for case in cases}

        with ThreadPoolExecutor(2) as pool:
            before, now = pool.map(planned, ("old", "new"), (old, new))
    different = [
        f"{case}{line}"
        for case in dict.fromkeys([*before, *now])
        for line in _differences(before.get(case), now.get(case))
    ]
    return Compared(len(suites), len(before), sum(map(len, before.values())), different)


def _differences(old: Sequence[str] | None, new: Sequence[str] | None) -> Iterator[str]:
    if old is None or new is None:
        yield f": only the {'newer' if old is None else 'older'} version has this case"
        return
    for number, (first, second) in enumerate(zip_longest(old, new, fillvalue="{}"), 1):
        if first == second:
            continue
        before, now = (dict(flat(json.loads(row))) for row in (first, second))
        lines = [
            f", row {number}: {key}: {before.get(key, 'nothing')} → {now.get(key, 'nothing')}"
            for key in dict.fromkeys([*before, *now])
            if before.get(key) != now.get(key)
        ]
        yield from lines or [f", row {number}: other text for the same values, such as the order of keys"]


def make_data(root: Path) -> None:
    """Make a data root with a few files in the formats that the suites ask for.

    The batches of CIFAR are not the published ones: a plan knows these by their checksum and opens none, else it fails.

    Args:
        root: the folder, which is made.
    """
    pixels = np.random.default_rng(0).integers(0, 256, (10, 3072), dtype=np.uint8)
    for folder, names in {
        "cifar-10-batches-py": [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"],
        "cifar-100-python": ["train", "test", "meta"],
    }.items():
        (root / folder).mkdir(parents=True)
        for name in names:
            labels = {key: list(range(10)) for key in ("labels", "fine_labels", "coarse_labels")}
            (root / folder / name).write_bytes(pickle.dumps({"data": pixels, **labels}))
    for name, (classes, held_out) in _TREES.items():
        for label in range(classes):
            for split in ("train", held_out):
                path = root / name / split / f"n{label:04}" / "0.JPEG"
                path.parent.mkdir(parents=True)
                image = io.BytesIO()
                Image.new("RGB", (2, 2), (label % 256, label // 256, len(split))).save(image, "JPEG")
                path.write_bytes(image.getvalue())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by the same way out as Ctrl-C: the worktree is removed
    sys.exit(main())
