"""Runs cases on the tree that PYTHONPATH names and writes what came out, one JSON line for each trial.

`compare.py` starts it: cases come on standard input, and lines go to standard output, ``{case, trial, numbers}`` for
each trial and ``{case}`` alone when all of a case are done.
"""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bitwise.adapter import Refusal, normalized, run, trials_of
from bitwise.trees import UNPLANNED, flat
from bitwise.versions import serve

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def _answer(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    warnings.simplefilter("ignore")
    for case in request["cases"]:
        for key, numbers in outcomes(case):
            yield {"case": case["name"], "trial": key, "numbers": numbers}
        yield {"case": case["name"]}


if __name__ == "__main__":
    serve(_answer)
