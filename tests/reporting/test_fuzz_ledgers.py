"""Whatever happened to the files of a folder: a report of what can be read, or one line; never a traceback or a hang.

``INITBENCH_FUZZ_LEDGERS=1000 pytest -m slow tests/reporting/test_fuzz_ledgers.py`` takes as many as that.
"""

import os
import random
import shutil
import signal
import warnings
from collections import Counter

import pytest
from ledger_mutations import LedgerMutations

from initbench import load_results
from initbench.cli.status import lines
from initbench.errors import InitbenchError
from initbench.execution.status import StatusReader
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results
from initbench.reporting.text_report import text_of

LEDGERS = int(os.environ.get("INITBENCH_FUZZ_LEDGERS", "60"))
_MOST_SECONDS = 60
_MOST_CHARACTERS = 1500
_PAGE_EVERY = 10


class TooLongError(BaseException):
    """Is caught by nothing that catches errors."""


def _too_long(*_):
    raise TooLongError


@pytest.fixture
def _limited():
    before = signal.signal(signal.SIGALRM, _too_long)
    # Sums of values at the end of what a float can hold overflow, and numpy says so.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def came_of(action, *arguments, kept):
    """Return what an action returns, None where it is refused in one line.

    What does worse is kept as a folder to look at.
    """
    signal.alarm(_MOST_SECONDS)
    try:
        return action(*arguments)
    except InitbenchError as error:
        message = str(error)
        assert message
        assert "\n" not in message
        assert len(message) <= _MOST_CHARACTERS
        return None
    except (Exception, TooLongError) as error:
        where = shutil.copytree(kept, kept.parent / "failed", dirs_exist_ok=True)
        raise AssertionError(f"{action.__name__} of {where}: {error!r}") from error
    finally:
        signal.alarm(0)


def status_lines(folder):
    return lines(StatusReader(folder).read())


@pytest.mark.parametrize(("seed", "count"), [(3, 3), pytest.param(1, LEDGERS, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("_limited")
def test_a_mutated_ledger_is_reported_or_refused_in_one_line(tmp_path, seed, count):
    mutations = LedgerMutations(random.Random(seed), tmp_path / "made-up")  # noqa: S311  # no secret comes of it
    found = Counter()
    for index in range(count):
        folder = mutations.ledger()
        told = came_of(status_lines, folder, kept=folder)
        assert told is not None
        assert all("\n" not in line for line in told)
        frame = came_of(load_results, folder, kept=folder)
        results = came_of(read_results, folder, kept=folder)
        found["refused" if results is None else "reported"] += 1
        if results is None:
            continue
        # No record is lost but those that are named.
        assert len(results.records) + len(results.source.skipped) == len(list((folder / "trials").iterdir()))
        assert frame is None or len(frame) == len(results.records)
        found["skipped"] += len(results.source.skipped)
        came_of(text_of, results, "json", kept=folder)
        if index % _PAGE_EVERY == 0:
            came_of(write_report, results, tmp_path / "report", kept=folder)
            came_of(text_of, results, "md", kept=folder)
            came_of(text_of, results, "latex", kept=folder)
    assert (
        found["reported"] > 0.8 * count
    )  # of three, all: the first draws of seed 3 spoil no file that every report needs
    assert found["skipped"] >= count // 2
