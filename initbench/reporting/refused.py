"""The cells of a report that cannot run, by the labels of its trials."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.keys import Key
from initbench.comparing.labels import Labels
from initbench.comparing.treatments import DEFAULT_COMPARE, standings
from initbench.ledger import TrialRecord
from initbench.reporting.frame import kinds
from initbench.reporting.resolved import Refused

_COLUMNS = ["treatment", "workload", "reason"]


def refused_cells(
    records: Sequence[TrialRecord], incompatible: Sequence[Refused], compare: Sequence[str] = DEFAULT_COMPARE
) -> pd.DataFrame:
    """Return the cells that cannot run, with the labels of the trials.

    A key contains what varies among everything that is compared. Incompatible pairs are therefore keyed together with
    the trials, and each key is then translated to the key that the trials have without them. If a rule for a treatment
    that cannot run removes a factor from its workloads (see `standings`), one key translates to several workloads; the
    treatment can run in none of them.

    Returns:
        ``treatment, workload, reason``: one row for each cell, sorted by workload and treatment; several reasons are
        joined by semicolons. Cells with a trial, and those whose treatment or workload no trial has, are left out.
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
    """Yield each pair once for each content of its dataset among the trials, which the plan does not know."""

    def requested(spec: Mapping[str, Any]) -> str:
        return json.dumps([spec["suite"], spec["dataset"]["name"], spec["dataset"]["arguments"]], sort_keys=True)

    contents: dict[str, dict[str | None, None]] = defaultdict(dict)
    for spec in specs:
        contents[requested(spec)][spec["dataset"].get("content")] = None
    for spec, reason in incompatible:
        for content in contents.get(requested(spec), (None,)):
            yield {**spec, "dataset": {**spec["dataset"], "content": content}}, reason
