"""Two reports of the same trials: what differs, value by value."""

from __future__ import annotations

import csv
import difflib
import html
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from bitwise.trees import flat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Facts = dict[tuple[str, ...], str]

KEYS = {
    "results": ("trial_id",),
    "comparison": ("workload", "treatment"),
    "correlation": ("probe", "form", "workload"),
    "curves": ("workload", "treatment", "step"),
    "conditions": ("section", "condition"),
    "costs": ("workload", "treatment"),
    "probes": ("probe", "form"),
    "rank_pairs": ("first", "second"),
    "differences": ("treatment",),
    "paired_differences": ("workload", "treatment"),
    "depths": ("family", "treatment", "depth"),
}
"""The columns that say what a row is about, by table; of another table a row's number does."""
ORDER = ("columns",), ("rows",)
WORDS = {"sentences", "question", "remarks", "line", "notices", "title", "note", "alt", "methods", "words"}
"""The keys of JSON whose texts are sentences."""
_SPECIFICATION = re.compile(r'(<svg [^>]*width="10" height="10">)([^<]*)(</svg>)')
_MOST_LINES = 200


@dataclass
class Compared:
    """What two reports have in common.

    Attributes:
        files: how many both have, by their ending.
        values: how many the tables of the older one have.
        different: a line for each value that differs.
        new: likewise for what the older one lacks and may.
        words: lines of what people read that differ.
    """

    files: Counter[str] = field(default_factory=Counter)
    values: int = 0
    different: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def compare_reports(before: Path, now: Path, *, strict: bool) -> Compared:
    """Compare the files of two reports.

    Args:
        before: folder of the older version's report.
        now: folder of the newer one's.
        strict: compare every file to the last byte; else what stood in the tables of the older one must stand in those
            of the newer, in whatever order and beside whatever is new.
    """
    result = Compared()
    pattern = "**/*.*" if strict else "*.csv"
    files = [
        {
            str(path.relative_to(folder)): path
            for path in sorted(folder.glob(pattern))
            if path.suffix in {*_READ, *_TEXTS}
        }
        for folder in (before, now)
    ]
    for name in dict.fromkeys([*files[0], *files[1]]):
        if name not in files[1]:
            result.different.append(f"{name}: the file is missing")
        elif name not in files[0]:
            (result.different if strict else result.new).append(f"{name}: the file is new")
        else:
            _compare_file(result, name, files[0][name], files[1][name], strict=strict)
    return result


def _compare_file(result: Compared, name: str, before: Path, now: Path, *, strict: bool) -> None:
    result.files[before.suffix] += 1
    if before.suffix in _TEXTS:
        lines = [path.read_text(encoding="utf-8").splitlines() for path in (before, now)]
        changed = islice(difflib.unified_diff(*lines, n=0, lineterm=""), 2, None)
        result.words += [f"{name}: {_short(line)}" for line in changed if not line.startswith("@@")]
        return
    if before.suffix == ".csv":
        with before.open(encoding="utf-8", newline="") as file:
            result.values += sum(map(len, csv.reader(file)))
    if before.read_bytes() == now.read_bytes():
        return
    old, new = (_READ[path.suffix](path) for path in (before, now))
    found = list(_differences(old, new, strict=strict))
    for place, line in found:
        is_words = before.suffix != ".csv" and not WORDS.isdisjoint(place)
        lines = result.new if not strict and place not in old else result.words if is_words else result.different
        lines.append(f"{name}: {line}")
    if strict and not found:
        result.different.append(f"{name}: other bytes for the same values, such as the order of keys")


def _differences(old: Facts, new: Facts, *, strict: bool) -> Iterator[tuple[tuple[str, ...], str]]:
    for place in dict.fromkeys([*old, *new]):
        if place in ORDER and not strict:
            continue
        if old.get(place) != new.get(place):
            was, is_now = (facts.get(place, "nothing") for facts in (old, new))
            yield place, f"{' '.join(place)}: {_short(was)} → {_short(is_now)}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST_LINES else f"{text[:_MOST_LINES]}…"


def _table(path: Path) -> Facts:
    """Return the cells of a CSV by row and column, and the order of both."""
    with path.open(encoding="utf-8", newline="") as file:
        columns, *lines = csv.reader(file)
    facts: Facts = {ORDER[0]: ", ".join(columns), ORDER[1]: ""}
    keys, seen = KEYS.get(path.stem, ()), Counter[str]()
    for number, line in enumerate(lines):
        row = dict(zip(columns, line, strict=True))
        key = " · ".join(row.get(column, "") for column in keys) or str(number)
        seen[key] += 1
        key = key if seen[key] == 1 else f"{key} #{seen[key]}"
        facts[ORDER[1]] += f"{key}\n"
        facts |= {(key, column): text for column, text in row.items()}
    return facts


def _json(path: Path) -> Facts:
    return _nested(json.loads(path.read_text(encoding="utf-8")))


def _nested(value: Any) -> Facts:
    return {tuple(key.split("/")): text for key, text in flat(value)}


def _figure(path: Path) -> Facts:
    """Return what a figure was asked to draw (see `stand_ins`), and what stands around it."""
    text = path.read_text(encoding="utf-8")
    found = _SPECIFICATION.search(text)
    around = _SPECIFICATION.sub(r"\1\3", text)
    return {("words", "around it"): around} | (_nested(json.loads(html.unescape(found[2]))) if found else {})


_READ = {".csv": _table, ".json": _json, ".svg": _figure}
_TEXTS = {".html", ".md", ".latex"}
