"""The state of MLflow at the end of a run, so that the next run need not compare thousands of trials with it.

The mark is beside the ledger, in ``.mlflow_level.json``. It holds as long as no record, no label and no byte of the
store changes: it contains the sizes and modification times of every record's file and of the store's. A server's store
is not visible from here, so it is compared every time.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from initbench.files import read_text, write_text
from initbench.ledger import Ledger
from initbench.tracking.uri import sqlite_path

LEVEL_FILE = ".mlflow_level.json"


class Level:
    def __init__(self, ledger: Ledger, uri: str) -> None:
        self._ledger = ledger
        self._store = sqlite_path(uri)
        self._path = ledger.folder / LEVEL_FILE

    def holds(self, labels: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether MLflow has every record, with these labels by trial."""
        try:
            kept = json.loads(read_text(self._path))
        except (OSError, ValueError, RecursionError):
            return False
        return kept is not None and kept == self._mark(labels)

    def keep(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Note that MLflow has every record, with these labels, and that nothing is being written to it.

        If the mark cannot be written, the next run compares.
        """
        mark = self._mark(labels)
        if mark is not None:
            with suppress(OSError):
                write_text(self._path, json.dumps(mark), self._ledger.folder)

    def _mark(self, labels: Mapping[str, Mapping[str, str]]) -> dict[str, str] | None:
        if self._store is None:
            return None
        try:
            store = f"{self._store.absolute()} {_size_and_time(self._store)}"
            lines = [
                f"{path.name} {_size_and_time(path)} {json.dumps(labels.get(path.stem))}"
                for path in self._ledger.files()
            ]
        except OSError:
            return None
        return {"store": store, "trials": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def _size_and_time(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"
