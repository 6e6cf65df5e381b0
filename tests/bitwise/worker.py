"""Runs cases on the tree that PYTHONPATH names and writes what came out, one JSON line for each trial.

`compare.py` starts it: cases come on standard input, and lines go to standard output, ``{case, trial, numbers}`` for
each trial and ``{case}`` alone when all of a case are done.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.adapter import Refusal, normalized, run, trials_of
from bitwise.trees import UNPLANNED

if TYPE_CHECKING:
    from collections.abc import Iterator


def flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every number of nested data with its path; floats as `float.hex`, so that no bit is lost.

    Args:
        value: mappings, lists and scalars.
        key: the path so far.
    """
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        if isinstance(value, list):
            yield f"{key}/length", str(len(value))
        for name, item in items:
            yield from flat(item, f"{key}/{name}" if key else str(name))
    else:
        yield key, value.hex() if isinstance(value, float) else json.dumps(value)


def outcomes(case: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each trial of a case by its key, with its numbers.

    What did not run has one number, its ``outcome``. Reasons are not compared, since a better message is no other
    number; but what raised anything else than a refusal begins with ``failed``, and `compare.py` does not take that
    for an outcome that two trees may share.

    Args:
        case: name, suite file as text, and phase.
    """
    try:
        trials, incompatible = trials_of(case["suite"], case["phase"])
    except Exception as error:  # noqa: BLE001  # it is reported, and the other cases run
        yield UNPLANNED, {"outcome": _failure(error)}
        return
    for key in incompatible:
        yield key, {"outcome": "incompatible"}
    for key, spec in trials.items():
        try:
            record, states = run(spec)
        except Refusal:
            yield key, {"outcome": "refused"}
        except Exception as error:  # noqa: BLE001  # likewise
            yield key, {"outcome": _failure(error)}
        else:
            yield key, dict(flat(normalized(record) | states))


def _failure(error: Exception) -> str:
    """Return an exception and where it was raised, in one line."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"failed: {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def main() -> None:
    """Run the cases of standard input."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not to stand between the lines
    request = json.load(sys.stdin)
    import initbench

    found = Path(initbench.__file__).resolve().parents[1]
    if found != Path(request["tree"]).resolve():
        sys.exit(f"initbench was imported from {found}, not from {request['tree']}")
    warnings.simplefilter("ignore")
    for case in request["cases"]:
        for key, numbers in outcomes(case):
            print(json.dumps({"case": case["name"], "trial": key, "numbers": numbers}), file=lines, flush=True)
        print(json.dumps({"case": case["name"]}), file=lines, flush=True)


if __name__ == "__main__":
    main()
