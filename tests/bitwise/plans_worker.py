"""Plans suites with the version on the path, in every way; `compare_plans.py` asks.

The request is ``{suites, data, output}``: suite files by name, a data root, and the folder that gets a file for each
case, ``SUITE/CASE``, with a line of JSON for each row. An answer is ``{suite, case}``.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.plans_adapter import rows_of
from bitwise.versions import serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Row = dict[str, Any]


def _answer(request: dict[str, Any]) -> Iterator[dict[str, str]]:
    for suite, file in request["suites"].items():
        folder = Path(request["output"]) / suite
        folder.mkdir(parents=True)
        for case, rows in _cases(file, request["data"], folder):
            text = "".join(f"{json.dumps(row)}\n" for row in rows)
            (folder / case).write_text(text.replace(str(folder), "FOLDER"), encoding="utf-8")
            yield {"suite": suite, "case": case}


def _cases(file: str, data: str, folder: Path) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each way to plan a suite."""
    for root in ("", data):
        os.environ["INITBENCH_DATA"] = root or str(folder / "no data")
        where = " with data" if root else ""
        every = _rows(file, folder)
        yield f"all{where}", every
        yield f"smoke{where}", _rows(file, folder, smoke=True)
        for number, only in enumerate(_selections(every), 1):
            yield f"only {number}{where}", [{"only": only}, *_rows(file, folder, only)]
        if searched := [row for row in every if row["status"] == "run" and row["spec"]["phase"] == "search"]:
            _write_half(searched, folder / "ledger")
            yield f"half a search{where}", _rows(file, folder / "ledger")
        if not any(row["status"] == "waiting" for row in every):
            return


def _rows(file: str, ledger: Path, only: Sequence[str] = (), *, smoke: bool = False) -> list[Row]:
    """Return the rows of a plan; a refusal is one too."""
    try:
        return list(rows_of(file, list(only), ledger, smoke=smoke))
    except import_module("initbench.errors").InitbenchError as error:
        return [{"status": "error", "reason": str(error)}]


def _selections(rows: Sequence[Row]) -> Iterator[list[str]]:
    """Yield values of ``--only`` that leave some of the trials."""
    specs = [row["spec"] for row in rows if row["status"] in {"run", "waiting"}]
    first, last = specs[0], specs[-1]
    yield [f"initializer={first['initializer']['name']}"]
    depth = last["architecture"]["arguments"].get("depth")
    yield [f"seed={first['seed']},{last['seed']}", *([] if depth is None else [f"depth={depth}"])]


def _write_half(searched: Sequence[Row], folder: Path) -> None:
    """Write what a run has done that was stopped halfway: the first half of the searches, some of which diverged."""
    metric = {"name": "validation_error", "better": "lower", "label": "validation error", "unit": "%", "scale": 100.0}
    metric |= {"difference_unit": "percentage points", "show": "{:.2f}", "best": 0.0, "primary": True}
    metric |= {"chance": 0.9, "chance_standard_error": 0.01, "split": "validation"}
    task = {"name": "classification", "primary": "validation_error", "metrics": {"validation_error": metric}}
    (folder / "trials").mkdir(parents=True)
    for row in searched[: len(searched) // 2]:
        number = int(row["id"][:8], 16)
        value = None if number % 7 == 0 else number % 1000 / 1000
        record = {
            "id": row["id"],
            "spec": row["spec"],
            "status": "diverged" if value is None else "finished",
            "identity": row["identity"],
            "task": task,
            "metrics": {"validation_error": value},
            "history": [],
            "initialization": {},
            "probes": [],
            "environment": {},
            "timing": {},
            "error": None,
            "schema": 2,
        }
        (folder / "trials" / f"{row['id']}.json").write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    serve(_answer)
