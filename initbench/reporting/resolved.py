"""What a suite compares, read from the resolved suite in its folder."""

from __future__ import annotations

import json
from pathlib import Path

from initbench.errors import InitbenchError
from initbench.ledger import RESOLVED_FILE
from initbench.suite.treatments import DEFAULT_COMPARE


def read_compare(folder: str | Path) -> tuple[str, ...]:
    """Return the factors that a suite compares: those of its ``resolved.json``, the default where it has none.

    Raises:
        InitbenchError: the file is there and does not say it.
    """
    path = Path(folder) / RESOLVED_FILE
    try:
        compare = json.loads(path.read_text(encoding="utf-8")).get("compare", DEFAULT_COMPARE)
    except FileNotFoundError:
        return DEFAULT_COMPARE
    except (OSError, ValueError, AttributeError) as error:
        raise InitbenchError(f"{path}: is no resolved suite ({error}); say what is compared with --compare") from error
    if not isinstance(compare, list | tuple) or not compare or not all(isinstance(factor, str) for factor in compare):
        raise InitbenchError(f"{path}: compare must be a list of factors, got {compare!r}; give it with --compare")
    return tuple(compare)
