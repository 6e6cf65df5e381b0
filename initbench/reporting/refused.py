"""The cells of a report that cannot run, by the labels of its trials: apart from those that have not run yet."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.treatments import DEFAULT_COMPARE, standings
from initbench.reporting.places import kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.reporting.resolved import Refused

_COLUMNS = ["treatment", "workload", "reason"]


def refused_cells(
    records: Sequence[TrialRecord], incompatible: Sequence[Refused], compare: Sequence[str] = DEFAULT_COMPARE
) -> pd.DataFrame:
    """Return the cells that cannot run, with the labels that the trials have among themselves.

    A label shows what varies among all that is labelled, so incompatible pairs are labelled together with the trials,
    and what a label then reads is put back into what it reads among the trials alone. Where a rule for a treatment that
    cannot run takes a key out of the labels of its network (see `standings`), one label stands for several workloads:
    the treatment can run in none of them.

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
    own = {(p.trial, p.scheme_named_by): p for p in standings(specs, compare) if p.trial in final}
    together = standings([*specs, *(spec for spec, _ in incompatible)], compare)
    treatments: dict[str, set[str]] = defaultdict(set)
    workloads: dict[str, set[str]] = defaultdict(set)
    for place in together:
        if (alone := own.get((place.trial, place.scheme_named_by))) is not None:
            treatments[place.treatment].add(alone.treatment)
            workloads[place.workload].add(alone.workload)
    ran = {(place.treatment, place.workload) for place in own.values()}
    reasons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for place in together:
        if place.trial < len(specs):
            continue
        for treatment in treatments.get(place.treatment, ()):
            for workload in workloads.get(place.workload, ()):
                if (treatment, workload) not in ran:
                    reasons[treatment, workload].add(incompatible[place.trial - len(specs)][1])
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
