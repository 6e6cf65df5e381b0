"""The cells of a report that cannot run, by the labels of its trials, apart from those that have not run yet."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.labels import Labels
from initbench.comparing.treatments import DEFAULT_COMPARE, standings
from initbench.reporting.standing_rows import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from initbench.comparing.keys import Key
    from initbench.ledger import TrialRecord
    from initbench.reporting.resolved import Refused

_COLUMNS = ["treatment", "workload", "reason"]


def refused_cells(
    records: Sequence[TrialRecord], incompatible: Sequence[Refused], compare: Sequence[str] = DEFAULT_COMPARE
) -> pd.DataFrame:
    """Return the cells that cannot run, with the labels that the trials have among themselves.

    A key has what varies among all that is compared, so incompatible pairs are compared together with the trials, and
    each key is put back into the one that the trials alone have. Where a rule for a treatment that cannot run takes a
    factor out of the workloads of its network (see `standings`), one key stands for several workloads: the treatment
    can run in none of them.

    Args:
        records: the trials of a report, as `frame.results_frame` takes them.
        incompatible: cells that cannot run: a spec each, as plain data, and the reason (`Source.incompatible`).
        compare: the factors that make the treatment.

    Returns:
        ``treatment, workload, reason``: one row for each cell, sorted by workload and treatment; several reasons
        are joined by semicolons. Both the treatment and the workload are those of trials; a cell that has a trial is
        left out, as it can run, and so is a pair whose treatment or workload no trial has.
    """
    if not incompatible:
        return pd.DataFrame(columns=_COLUMNS, dtype=object)
    specs, _ = kinds([record.spec for record in records])
    incompatible = list(_with_contents(incompatible, specs))
    final = {i for i, spec in enumerate(specs) if spec["phase"] == "final"}
    alone = {(s.trial, s.scheme_named_by): s for s in standings(specs, compare) if s.trial in final}
    together = standings([*specs, *(spec for spec, _ in incompatible)], compare)
    treatments: dict[Key, set[Key]] = defaultdict(set)
    workloads: dict[Key, set[Key]] = defaultdict(set)
    for standing in together:
        if (same := alone.get((standing.trial, standing.scheme_named_by))) is not None:
            treatments[standing.treatment].add(same.treatment)
            workloads[standing.workload].add(same.workload)
    ran = {(standing.treatment, standing.workload) for standing in alone.values()}
    labels = Labels(compare)
    reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for standing in together:
        if standing.trial < len(specs):
            continue
        for cell in product(treatments.get(standing.treatment, ()), workloads.get(standing.workload, ())):
            if cell not in ran:
                cell_labels = labels.treatment(cell[0]), labels.workload(cell[1])
                reasons[cell_labels].add(incompatible[standing.trial - len(specs)][1])
    cells = sorted(reasons, key=lambda cell: (natural(cell[1]), natural(cell[0])))
    rows = [(*cell, "; ".join(sorted(reasons[cell]))) for cell in cells]
    return pd.DataFrame(rows, columns=_COLUMNS, dtype=object)


def _with_contents(incompatible: Iterable[Refused], specs: Iterable[Mapping[str, Any]]) -> Iterator[Refused]:
    """Yield each pair on each content that its suite's dataset has among the trials: the plan does not know it."""
    contents: dict[str, dict[str | None, None]] = defaultdict(dict)
    for spec in specs:
        contents[_asked(spec)][spec["dataset"].get("content")] = None
    for spec, reason in incompatible:
        for content in contents.get(_asked(spec), (None,)):
            yield {**spec, "dataset": {**spec["dataset"], "content": content}}, reason


def _asked(spec: Mapping[str, Any]) -> str:
    """Return what a suite asks for as data."""
    return json.dumps([spec["suite"], spec["dataset"]["name"], spec["dataset"]["arguments"]], sort_keys=True)
