"""What a suite compares, read from the resolved suite in its folder."""

from __future__ import annotations

import json
from pathlib import Path

from initbench.errors import InitbenchError, LedgerError
from initbench.ledger import RESOLVED_FILE
from initbench.suite.spec import SCHEMA
from initbench.suite.treatments import DEFAULT_COMPARE


def read_compare(folder: str | Path) -> tuple[str, ...]:
    """Return the factors that a suite compares: those of its ``resolved.json``, the default where it has none.

    Raises:
        LedgerError: another version of initbench wrote the file.
        InitbenchError: the file is there and does not say it.
    """
    path = Path(folder) / RESOLVED_FILE
    try:
        resolved = json.loads(path.read_text(encoding="utf-8"))
        compare, schema = resolved.get("compare", DEFAULT_COMPARE), resolved.get("schema", SCHEMA)
    except FileNotFoundError:
        return DEFAULT_COMPARE
    except (OSError, ValueError, AttributeError) as error:
        raise InitbenchError(f"{path}: is no resolved suite ({error}); say what is compared with --compare") from error
    if schema != SCHEMA:
        raise LedgerError(f"{path}: schema {schema}; this version of initbench reads schema {SCHEMA}")
    if not isinstance(compare, list | tuple) or not compare or not all(isinstance(factor, str) for factor in compare):
        raise InitbenchError(f"{path}: compare must be a list of factors, got {compare!r}; give it with --compare")
    return tuple(compare)
