"""What the scripts of this folder share: the folder of a suite from the command line, and one line for bad input."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from initbench.reporting.answers.probe_results import probe_columns
from initbench.reporting.comparison import comparable_trials
from initbench.reporting.contents import terms_of

from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.reporting.frame import read_records, results_frame
from initbench.reporting.metrics import outcome_metrics, trial_metrics
from initbench.reporting.resolved import read_compare

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from initbench.reporting.statistics.wording import Terms

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric


@dataclass(frozen=True)
class Trials:
    """What a ledger compares.

    Attributes:
        frame: as from `comparison.comparable_trials`.
        metrics: the outcomes by name.
        terms: the words of the comparison.
    """

    frame: pd.DataFrame
    metrics: dict[str, Metric]
    terms: Terms


def parser(question: str) -> argparse.ArgumentParser:
    """Return a parser whose first argument is the suite's folder."""
    options = argparse.ArgumentParser(description=question)
    options.add_argument("folder", type=Path, metavar="DIR", help="a suite's folder, such as runs/fashion-depth")
    return options


def trials_of(folder: Path) -> Trials:
    """Return the trials of a ledger that are compared, in each workload in which they stand.

    Raises:
        InitbenchError: the folder has no trial records, or one that cannot be read.
    """
    records, compare = read_records(folder), read_compare(folder)
    frame = comparable_trials(results_frame(records, compare, every_standing=True), outcome_metrics(records))
    metrics = trial_metrics(frame, records)
    return Trials(frame, metrics, terms_of(compare, metrics))


def records_of(folder: Path) -> dict[str, TrialRecord]:
    """Return the records of a ledger with their histories, by trial id."""
    return {record.id: record for record in Ledger(folder).records()}


def named_column(trials: pd.DataFrame, name: str) -> str:
    """Return the column of a probe.

    Raises:
        InitbenchError: the ledger has no such probe.
    """
    if f"probe.{name}" not in trials:
        known = ", ".join(column.removeprefix("probe.") for column in probe_columns(trials))
        raise InitbenchError(f"no probe {name} in this ledger; it has {known or 'none'}")
    return f"probe.{name}"


def answer(main: Callable[[], None]) -> None:
    """Run a script; a request that cannot be met is one line on stderr and exit code 2."""
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough; Python's own last flush must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InitbenchError as error:
        print(f"{Path(sys.argv[0]).name}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
