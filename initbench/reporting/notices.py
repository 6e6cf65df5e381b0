"""What the reader of a report is warned of."""

from __future__ import annotations

from collections.abc import Sequence

from initbench.comparing.formatting import counted, listed
from initbench.comparing.labels import same_names
from initbench.ledger import TrialRecord
from initbench.reporting.charts.figure import Figure
from initbench.reporting.results import Results
from initbench.reporting.sharing import distinct

_MOST_LISTED = 20
_MOST_REASONS = 3


def notices(results: Results) -> list[str]:
    """Return warnings for the reader, each of one sentence or more."""
    texts = []
    if _is_smoke(results.records):
        texts.append("A smoke run: a few trials of two steps each on random data. Its results mean nothing.")
    skipped = results.source.skipped
    if skipped:
        are = "record could not be read and is" if len(skipped) == 1 else "records could not be read and are"
        named = "; ".join(skipped[:20]) + (f"; and {len(skipped) - 20} more" if len(skipped) > 20 else "")
        texts.append(f"{len(skipped)} {are} missing below: {named}")
    for name, contents in same_names(distinct(record.spec["dataset"] for record in results.records)).items():
        texts.append(
            f"{len(contents)} datasets are called {name} but differ in content ({listed(sorted(contents.values()))}), "
            "so their trials are not compared with one another."
        )
    return [*texts, *_awaited(results), *results.source.notes]


def _awaited(results: Results) -> list[str]:
    """Return which cells are missing because their searches have not chosen yet."""
    cell = ["workload", "treatment"]
    compared = set(results.trials[cell].itertuples(index=False, name=None))
    searched = results.searches[cell].drop_duplicates().itertuples(index=False, name=None)
    missing = sorted({f"{treatment} on {workload}" for workload, treatment in set(searched) - compared})
    if not missing or not compared:
        return []
    names = "; ".join(missing[:_MOST_LISTED])
    if len(missing) > _MOST_LISTED:
        names += f"; and {len(missing) - _MOST_LISTED} more"
    return [f"Not compared, because a trial of the search is missing or failed and nothing is chosen yet: {names}."]


def undrawn_notices(figures: Sequence[Figure]) -> list[str]:
    """Return a notice if some figures of a report could not be drawn; waits for those that are being drawn."""
    problems = [figure.problem for figure in figures if figure.problem]
    if not problems:
        return []
    reasons = "; ".join(list(dict.fromkeys(problems))[:_MOST_REASONS])
    share = f"{len(problems)} of {counted(len(figures), 'figure')}"
    return [f"{share} could not be drawn ({reasons}); their numbers are in the tables."]


def _is_smoke(records: Sequence[TrialRecord]) -> bool:
    """Return whether there are records of a smoke run."""
    named = [record.spec for record in records if record.spec["suite"].endswith("-smoke")]
    if not named:
        return False
    # It loads the registry, which reports can do without.
    from initbench.suite.smoke import is_smoke

    return any(map(is_smoke, named))
